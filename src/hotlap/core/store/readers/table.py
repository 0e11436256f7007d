"""Tables that others wrote: CSV and JSON in the forms people have, as rows of time, case, value, unit, labels."""

from __future__ import annotations

import csv
import functools
import io
import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hotlap.core import units
from hotlap.core.errors import InputError, nearest
from hotlap.core.store.readers.source import Source

INDICES = ("gpu_index", "gpu_id", "gpu_idx", "gpu_num", "device_index", "device_id", "device_idx")  # of a device in its host
NAMES = {  # what a column is for: what people call it, in lower case
    "time": ("time", "timestamp", "date", "datetime", "began", "started"), "case": ("case", "name", "test", "benchmark", "metric"),
    "value": ("value", "result", "measurement", "score"), "unit": ("unit", "units"), "device": ("device", "uuid", "gpu", *INDICES),
    "host": ("host", "hostname", "node", "machine"), "model": ("gpu_model", "device_model"), "serial": ("serial", "serial_number"),
    "rack": ("rack",),
}
MODELS = ("model", "sku", "gpu")  # the devices' model where each device has one, in words, and there are few
MODELS_MAX = 8
CONSTANT = ("unit", "model", "time")  # what an option may give for the whole file instead of a column
GIVEN, CASE, VALUE, UNIT = "--time", "--case", "--value", "--unit"  # columns that are made here: no file calls its own so
MILLISECONDS = 1e11  # a larger number of seconds would lie 3,000 years ahead
SUFFIXES = {  # how the name of a column ends, in lower case, and the unit that says
    "ns": "ns", "us": "us", "µs": "us", "ms": "ms", "s": "s", "sec": "s", "seconds": "s", "w": "W", "watts": "W", "mw": "mW", "kw": "kW",
    "j": "J", "joules": "J", "kj": "kJ", "hz": "Hz", "khz": "kHz", "mhz": "MHz", "ghz": "GHz", "mbs": "MB/s", "gbs": "GB/s", "tbs": "TB/s",
    "gflops": "GFLOP/s", "tflops": "TFLOP/s", "pflops": "PFLOP/s", "tops": "TOP/s",
}
BITS = ("mbps", "gbps", "tbps")  # bits or bytes, nobody knows: kept as a unit of their owner's, unless the B is written large
ALIKE = 0.9  # share of the devices, at their times, that have the same values of what tells cases apart
VERSIONS = ("driver", "firmware", "bios", "vbios", "version", "build", "release", "revision", "commit")  # last words: no measurement
BAD = ("err", "fault", "miss", "drop", "retr", "loss", "fail", "timeout")  # of which fewer a second are better: no unit says that
TIMES = ("time", "latency", "duration", "elapsed", "delay", "wait")  # time / s is no rate, but a time in seconds
LABELS = (  # last words of columns that say whose or which time a number is, or how it went, not what it is of
    *VERSIONS, "branch", "git", "sha", "tag", "run", "round", "rep", "repetition", "repeat", "iteration", "iter", "trial", "attempt",
    "sample", "job", "id", "status", "state", "error", "message", "note", "notes", "comment", "user", "owner",
)  # fmt: skip
_IN_BRACKETS = re.compile(r"[(\[]\s*([^()\[\]]+?)\s*[)\]]\s*$")
_A_SECOND = re.compile(r"([^\W\d_]+)(?:\s*/\s*|[\s_]+per[\s_]+)(?:s|secs?|seconds?)[\s)\]]*$", re.IGNORECASE)  # tokens/s, img_per_sec
_COUNTED = re.compile(  # tokens_s is a rate, step_s a time
    r"(?:^|[\W_])(tok|it|img|(?:tok(?:en)?|req(?:uest)?|im(?:a)?ge?|sample|iter(?:ation)?|op|frame|step|item|row)s|queries)[\s_]+(?:s|secs?)[\s)\]]*$",
    re.IGNORECASE,
)
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
_WRITTEN = re.compile(r"(\d{4})[-./](\d\d?)[-./](\d\d?)(?:[T ]+(\d\d?):(\d\d)(?::(\d\d)(\.\d+)?)?)?\s*(Z|UTC|[+-]\d\d:?\d\d)?")


@dataclass(frozen=True)
class TableRow:
    """One number as it was written. `line` is where it stood."""

    line: int
    time_s: float
    case: str
    value: str
    unit: str = ""
    device: str = ""
    host: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    model: str = ""
    serial: str = ""
    column: str = ""  # of several columns of numbers, which


@dataclass(frozen=True)
class ReadTable:
    """The rows of a file, and the columns that were taken for devices by their names alone. `not_model`: called so, and not taken."""

    rows: Sequence[TableRow]
    device: str = ""
    model: str = ""
    not_model: str = ""
    crossed: Sequence[str] = ()  # columns that tell cases apart, by what they hold alone

    def labelled(self, labels: Mapping[str, str]) -> ReadTable:
        """The same with labels of the user's on each row."""
        return replace(self, rows=[replace(row, labels={**row.labels, **labels}) for row in self.rows]) if labels else self


TABLES = (".csv", ".tsv", ".json", ".jsonl")  # suffixes of files that are meant as tables
MAYBE = ("", ".txt", ".dat", ".log")  # and of those that are where their first line has several fields
SEPARATORS = ",;\t"


@dataclass(frozen=True)
class TableColumns:
    """Which column is for what, where the user says so; "" is guessed from usual names. `labels`: further columns kept."""

    time: str = ""  # or the time of all rows
    case: str = ""
    value: str = ""
    unit: str = ""
    device: str = ""
    host: str = ""
    model: str = ""  # or the model of all devices
    serial: str = ""
    rack: str = ""  # kept as the label `rack`
    labels: Sequence[str] = ()  # columns
    values: Sequence[str] = ()  # in a file with a column per metric: those that are measurements
    cases: Sequence[str] = ()  # where several tell cases apart, all of them


def read(source: Source, columns: TableColumns) -> ReadTable:
    """All rows of a file. A column per metric (no column of values) works too: each numeric one is a case.

    Raises InputError with file and line.
    """
    try:
        return _read(source, columns)
    except InputError as error:
        file = source.path.name.removesuffix(".gz")
        kind, fields = Path(file).suffix.lower(), any(one in source.decoded.partition("\n")[0] for one in SEPARATORS)
        if columns != TableColumns() or kind in TABLES or (kind in MAYBE and fields):
            raise
        advice = "hotlap import --formats lists what is read"
        advice += f"; a program is measured by hotlap bench 'python3 {file}'" if file.endswith(".py") else ""
        raise InputError(f"no reader recognises {source.path}, and it is no table ({error})", advice) from None


def _read(source: Source, columns: TableColumns) -> ReadTable:
    path, text = source.path, source.decoded
    records = _json(text, path) if text.lstrip()[:1] in ("{", "[") else _csv(text, path)
    if not records:
        raise InputError(f"{path}: no rows; a header with a line per number is needed, as in time,case,value,unit")
    return _rows(records, columns, path)


Record = tuple[int, dict[str, Any]]
"""Line, and its fields."""


def _csv(text: str, path: Path) -> list[Record]:
    first = text.partition("\n")[0]
    separator = max(SEPARATORS, key=first.count)
    reader = csv.reader(io.StringIO(text), delimiter=separator)
    try:
        lines = [(reader.line_num, line) for line in reader if any(cell.strip() for cell in line)]
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: not CSV: {error}") from None
    if not lines:
        return []
    header = [cell.strip() for cell in lines[0][1]]
    if repeated := sorted({name for name in header if name and header.count(name) > 1}):
        raise InputError(f"{path}:{lines[0][0]}: the column '{repeated[0]}' stands there twice; give each a name of its own")
    for number, line in lines[1:]:
        if len(line) != len(header):
            raise InputError(f"{path}:{number}: {len(line)} fields, but the header has {len(header)}")
    return [(number, dict(zip(header, (cell.strip() for cell in line), strict=True))) for number, line in lines[1:]]


def _json(text: str, path: Path) -> list[Record]:
    try:
        document = json.loads(text)
        entries = [(n, one) for n, one in enumerate(document if isinstance(document, list) else [document], 1)]
    except json.JSONDecodeError as whole:
        try:
            entries = [(n, json.loads(line)) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
        except json.JSONDecodeError:
            raise InputError(f"{path}:{whole.lineno}: not JSON: {whole.msg}") from None
    if len(entries) == 1 and isinstance(entries[0][1], dict) and (inner := _inner(entries[0][1])):
        seen = f"it is one object, of which '{inner}' holds others, and no list of rows"
        raise InputError(f"no reader recognises {path}, and it is no table ({seen})", "hotlap import --formats lists what is read")
    for number, one in entries:
        if not isinstance(one, dict):
            raise InputError(f"{path}: item {number} is no object; a list of objects with time, case, value, unit is needed")
    return [record for number, one in entries for record in _metrics(number, one)]


BESIDE = ("metrics", "attributes", "labels", "extra_info")  # fields of a row that hold others


def _inner(entry: Mapping[str, Any]) -> str:
    """The first field that makes an object more than a row: a list of objects, or an object of them; "" where it is a row."""
    of_objects = (name for name, value in entry.items() if name not in BESIDE and any(isinstance(one, dict) for one in _members(value)))
    return next(of_objects, "")


def _members(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()


def _metrics(number: int, entry: dict[str, Any]) -> Iterable[Record]:
    """An object with a list of metrics is as many rows; its attributes are labels."""
    metrics = entry.get("metrics")
    attributes = entry.get("attributes") or entry.get("labels") or {}
    rest = {k: v for k, v in entry.items() if k not in BESIDE}
    marks = {f"label.{k}": v for k, v in attributes.items() if isinstance(v, (str, int, float))} if isinstance(attributes, dict) else {}
    if not isinstance(metrics, list):
        yield number, {**rest, **marks}
        return
    for metric in metrics:
        if isinstance(metric, dict):
            yield number, {**rest, **metric, **marks}


def _rows(records: Sequence[Record], columns: TableColumns, path: Path) -> ReadTable:
    names = list(dict.fromkeys(name for _, record in records for name in record))
    where = {what: _column(what, getattr(columns, what), names, path) for what in NAMES}
    not_model = ""
    if not columns.model and not where["model"]:
        where["model"], not_model = _model(records, names, where)
    constant = columns.model if columns.model and not where["model"] else ""
    marks = {name.removeprefix("label."): name for name in names if name.startswith("label.")}
    for label in columns.labels:
        if label not in names:
            raise InputError(f"{path}: there is no column '{label}'; {nearest(label, names)}")
        marks[label] = label
    if where["rack"]:
        marks["rack"] = where["rack"]
    if columns.time and not where["time"]:
        records, where["time"] = [(line, {**record, GIVEN: columns.time}) for line, record in records], GIVEN
    if not where["time"]:
        if not names:
            raise InputError(f"{path}: it holds no rows with values; give a table, or results of a benchmark")
        one = "name it with --time, or give one for all rows: --time 2026-11-01"
        raise InputError(f"{path}: no column of times; {one}; the columns are {', '.join(names)}")
    for name in columns.values:
        _column("value", name, names, path)
    wanted = columns.values or ([columns.value] if columns.value and not where["case"] else ())
    crossed: list[str] = []
    if where["value"] and not wanted:
        if not where["case"]:
            raise InputError(f"{path}: no column says what a number is of; name it with --case; the columns are {', '.join(names)}")
        if columns.cases:
            records, where["case"] = _named(records, columns.cases, path), CASE
        rows = [_row(line, record, where, marks, path) for line, record in records]
        if not where["unit"] and not columns.unit and (unit := suffix(where["value"])):
            rows = [replace(row, unit=unit) for row in rows]
    else:
        apart = columns.cases or [where["case"]] * _names_cases(records, where)
        crossed = _crossed(records, where, {*apart, *where.values(), *marks.values()})
        apart = [*apart, *crossed]
        where["unit"] = where["unit"] if apart else ""  # of one number a row
        named = _named(records, apart, path) if apart else records
        where["case"] = CASE if apart else ""
        rows = _wide(named, where, marks, path, Metrics(wanted, apart, not columns.unit))
    rows = [replace(row, model=constant) for row in rows] if constant else rows
    guessed = {what: where[what] for what in ("device", "model") if not getattr(columns, what)}
    return ReadTable(rows, not_model=not_model, crossed=crossed, **guessed)


def _names_cases(records: Sequence[Record], where: Mapping[str, str]) -> bool:
    """Whether the column that is called as one of cases is one; `name` may be that of the device, the same in all its rows."""
    if where["case"].lower() != "name":
        return bool(where["case"])
    known = [where[what] for what in ("host", "device") if where[what]]
    of_device = {(*(str(record.get(column)) for column in known), str(record.get(where["case"]))) for _, record in records}
    return len(of_device) > len({names[:-1] for names in of_device})


def _crossed(records: Sequence[Record], where: Mapping[str, str], others: Collection[str]) -> list[str]:
    """Columns of text, but for `others`, of which nearly every device has the same two values or more at each time: they tell cases apart.
    Of what is a label, as a commit, a device has one, or others than the rest."""
    known = [where[what] for what in ("time", "host", "device", "serial") if where[what]]
    seen: dict[str, dict[tuple[str, ...], set[str]]] = {}
    for _, record in records:
        group = tuple(str(record.get(column)) for column in known)
        for name, value in record.items():
            if name not in others and value not in (None, "") and _last_word(name) not in LABELS:
                seen.setdefault(name, {}).setdefault(group, set()).add(str(value))
    whole = [name for name in seen if all(record.get(name) not in (None, "") for _, record in records)]
    return [name for name in whole if _is_crossed(list(seen[name].values()))]


def _last_word(name: str) -> str:
    return re.split(r"[\W_]+", name.lower().strip())[-1]


def _is_crossed(groups: Sequence[Collection[str]]) -> bool:
    alike, most = Counter(map(frozenset, groups)).most_common(1)[0]
    return len(alike) > 1 and most >= ALIKE * len(groups) and not any(math.isfinite(number(value)) for value in alike)


def _named(records: Sequence[Record], columns: Sequence[str], path: Path) -> list[Record]:
    """The same with what each number is of in the column CASE: what these columns say, of a number with the column's name."""
    result = []
    for line, record in records:
        if empty := next((column for column in columns if record.get(column) in (None, "")), ""):
            raise InputError(f"{path}:{line}: no '{empty}': what is this number of?")
        parts = [f"{name}={record[name]}" if math.isfinite(number(record[name])) else str(record[name]) for name in columns]
        result.append((line, {**record, CASE: " ".join(parts)}))
    return result


def _model(records: Sequence[Record], names: Sequence[str], where: Mapping[str, str]) -> tuple[str, str]:
    """The column of MODELS that holds the devices' model; else "", and the first of that name that does not."""
    taken = set(where.values())
    called = [name for wanted in MODELS for name in names if name.lower() == wanted and name not in taken]
    for name in called:
        own = ("host",) if name.lower() == "gpu" else ("host", "device")  # a host's GPUs may be called GPU 0 and GPU 1
        known = [where[what] for what in own if where[what]]
        pairs = {(*(str(record.get(column)) for column in known), str(record[name])) for _, record in records if record.get(name)}
        models = {pair[-1] for pair in pairs}
        few = 0 < len(models) <= MODELS_MAX and len(pairs) == len({pair[:-1] for pair in pairs})
        if few and all(math.isnan(number(model)) for model in models):
            return name, ""
    return "", next((name for name in called if name.lower() != "gpu"), "")


def _column(what: str, given: str, names: Sequence[str], path: Path) -> str:
    """The column for something; "" when there is none. --unit may be a unit itself, --model a model and --time a time: no columns."""
    if given:
        if given not in names and (what not in CONSTANT or (what == "time" and not _WRITTEN.fullmatch(given))):
            such = ", or a time such as 2026-11-01" if what == "time" else ""
            raise InputError(f"{path}: there is no column '{given}' (--{what}); {nearest(given, names)}{such}")
        return given if given in names else ""
    lower = {name.lower(): name for name in reversed(names)}
    return next((lower[name] for name in NAMES[what] if name in lower), "")


def _row(line: int, record: Mapping[str, Any], where: Mapping[str, str], marks: Mapping[str, str], path: Path) -> TableRow:
    def cell(what: str) -> str:
        value = record.get(where[what], "") if where[what] else ""
        return "" if value is None else str(value).strip()

    if not cell("case"):
        raise InputError(f"{path}:{line}: no '{where['case']}': what is this number of?")
    labels = {name: str(record[column]) for name, column in marks.items() if record.get(column) not in (None, "")}
    time_s = moment(cell("time"), f"{path}:{line}")
    known = cell("device"), cell("host"), labels, cell("model"), cell("serial")
    return TableRow(line, time_s, cell("case"), cell("value"), cell("unit"), *known)


@dataclass(frozen=True)
class Metrics:
    """Of a file with a column per metric: those that are asked for, the columns that tell cases apart, whether a name says the unit."""

    values: Sequence[str]
    cases: Sequence[str]
    suffixed: bool


def _wide(records: Sequence[Record], where: Mapping[str, str], marks: Mapping[str, str], path: Path, wanted: Metrics) -> list[TableRow]:
    """Each numeric column, or each that was asked for, is a case with the unit that its name ends in, or one of each case that a column
    names; columns of text are labels, and so are those of numbers that are called a version."""
    taken = {where[what] for what in ("time", "case", "unit", "device", "host", "model", "serial") if where[what]}
    taken |= {*marks.values(), *wanted.cases}
    others = [name for name in dict.fromkeys(name for _, record in records for name in record) if name not in taken]
    numeric = [name for name in others if any(math.isfinite(number(record.get(name))) for _, record in records)]
    versions = [name for name in numeric if _last_word(name) in VERSIONS or name.lower() in INDICES]
    numeric = [name for name in numeric if name not in versions or name in wanted.values]
    chosen = list(wanted.values) or numeric
    if not chosen:
        raise InputError(f"{path}: no column of numbers; name the column of values with --value; the columns are {', '.join(others)}")
    kept = {**marks, **{name: name for name in others if name not in numeric}}
    columns = []
    for line, record in records:
        for name in chosen:
            if record.get(name) not in (None, ""):
                metric = "" if len(chosen) == 1 and suffix(name) == name else name  # as GB/s, which the unit says
                case = f"{record[CASE]} {metric}".strip() if where["case"] else name
                unit = suffix(name) or str(record.get(where["unit"]) or "") if wanted.suffixed else ""
                one = {**record, CASE: case, VALUE: record[name], UNIT: unit}
                columns.append(replace(_row(line, one, {**where, "case": CASE, "value": VALUE, "unit": UNIT}, kept, path), column=name))
    return columns


def suffix(name: str) -> str:
    """The unit that a column's name is or ends in, as ``suffix('step_ms') == 'ms'`` and ``suffix('copy (GB/s)') == 'GB/s'``; "" where it
    does not."""
    if len(name.strip()) > 1 and units.base(name.strip()):
        return name.strip()
    if (found := _IN_BRACKETS.search(name)) and units.base(found[1]):
        return found[1]
    if rate := _A_SECOND.search(name) or _COUNTED.search(name):
        thing = rate[1].lower()
        return "s" if thing.endswith(TIMES) else "" if thing.startswith(BAD) else f"{rate[1]}/s"
    last = re.split(r"[_ ([.]", name.rstrip(")] "))[-1] if re.search(r"[_ ([.]", name) else ""
    if last.lower() in BITS:
        return last[0] + "B/s" if last[1:] == "Bps" else last
    return SUFFIXES.get(last.lower(), "")


def number(value: Any) -> float:
    """A number as people write it, commas between thousands; NaN for what is none, or may be another: 1,5 is not 15."""
    text = "" if value is None else str(value).strip()
    try:
        return float(text.replace(",", "") if _THOUSANDS.fullmatch(text) else text)
    except ValueError:
        return math.nan


@functools.lru_cache(maxsize=1024)
def moment(text: str, place: str) -> float:
    """Seconds since 1970, UTC, of ISO 8601, of a date with dots or slashes (year first), or of a number of seconds or milliseconds."""
    try:
        number = float(text)
        if not 0 <= number < MILLISECONDS * 1e3:
            raise InputError(f"{place}: '{text}' is no time in seconds or milliseconds since 1970")
        return number / 1e3 if number >= MILLISECONDS else number
    except ValueError as error:
        if isinstance(error, InputError):
            raise
    found = _WRITTEN.fullmatch(text.strip())
    try:
        if not found:
            raise ValueError
        year, month, day, hour, minute, second, part, offset = found.groups()
        zone = {"Z": "+00:00", "UTC": "+00:00", None: "+00:00"}.get(offset, offset)
        written = f"{year}-{int(month):02}-{int(day):02}T{int(hour or 0):02}:{minute or '00'}:{second or '00'}{part or ''}{zone}"
        return datetime.fromisoformat(written).astimezone(UTC).timestamp()
    except (ValueError, OverflowError):
        valid = "2026-11-21T10:00:00Z, 2026-11-21 10:00, seconds or milliseconds since 1970"
        raise InputError(f"{place}: '{text}' is no time; valid: {valid}") from None

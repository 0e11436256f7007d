"""What a tool's output says: refuted first, then read. Never a number without unit and place, always a reason where there is none."""

from __future__ import annotations

import math
import operator
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

from hotlap.core import units
from hotlap.core.errors import InputError, NotSupported
from hotlap.core.measure.tools import rows as reading
from hotlap.core.measure.tools.rows import CUT, Field, ToolRow
from hotlap.core.measure.tools.toolfile import CONDITION, IN_BRACES, TERMS, ToolFile, ToolResult
from hotlap.core.record import Notice
from hotlap.core.store.readers import formats
from hotlap.core.store.readers.source import ReadCase, Source

BITS = re.compile(r"([kMGT]?)bits?/s(?:ec)?")
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
SHOWN = 160  # characters of a line that is a reason
COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class ToolOutput(NamedTuple):
    """What a tool left. `status` is None where it is not known: of files that were brought. `files` by name, as text."""

    status: int | None = None
    stdout: str = ""
    stderr: str = ""
    files: Mapping[str, str] = {}


@dataclass(frozen=True)
class ToolValue:
    """Numbers of one name, in the base of their unit. `refused`: why there is none."""

    name: str
    unit: str
    better: str
    values: tuple[float, ...] = ()
    device: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    like: str = ""
    factor: float = 1.0
    differs: str = ""
    place: str = ""
    refused: str = ""


@dataclass(frozen=True)
class ToolReading:
    """All that an output says. `refused`: why it gives no number at all."""

    values: tuple[ToolValue, ...] = ()
    device: str = ""
    notices: tuple[Notice, ...] = ()
    refused: str = ""


def read(tool: ToolFile, output: ToolOutput, settings: Mapping[str, str] | None = None) -> ToolReading:
    """Refutes, then reads. `settings`: of the run, as fields of every row."""
    output = ToolOutput(
        output.status, reading.clean(output.stdout), reading.clean(output.stderr),
        {name: reading.clean(text) for name, text in output.files.items()},
    )  # fmt: skip
    device = _device(tool, output)
    notices = tuple(_notices(tool, output, device))
    try:
        _refute(tool, output)
        values, unread = _all_values(tool, output, settings or {})
        _twice(values)
    except NotSupported as error:
        return ToolReading((), device, notices, error.reason)
    if not values:
        return ToolReading((), device, notices, unread or f"{tool.name} printed no number where its format has one")
    return ToolReading(tuple(values), device, notices)


def expected(tool: ToolFile) -> list[tuple[str, str, str]]:
    """Name, unit and direction of numbers that are known before a run: what is not run is shown by these."""
    known: list[tuple[str, str, str]] = []
    for result in tool.result:
        base = base_unit(result.unit)
        if result.name and "{" not in result.name + result.unit and not result.optional:
            known.append((result.name, base[0] if base else result.unit, result.better))
    return known


def _all_values(tool: ToolFile, output: ToolOutput, settings: Mapping[str, str]) -> tuple[list[ToolValue], str]:
    """All numbers, and why one that may be missing could not be read. Raises NotSupported for one that may not."""
    values: list[ToolValue] = []
    unread = ""
    for result in tool.result:
        try:
            values += _values(result, output, settings)
        except NotSupported as error:
            if not result.optional:
                raise
            unread = unread or error.reason
    return values, unread


# ---------------------------------------------------------------- what disproves


def _refute(tool: ToolFile, output: ToolOutput) -> None:
    """Raises NotSupported with the line that shows that it did not do its work."""
    if not tool.format_seen:
        raise NotSupported(f"its format was not seen yet, so nothing is read: {tool.format_not_seen or 'the file has no [[result]]'}")
    if tool.run is None:
        return
    everything = [output.stdout, output.stderr, *output.files.values()]
    for expression in tool.run.never:
        for text in everything:
            if match := re.search(expression, text, re.MULTILINE):
                raise NotSupported(f"{tool.name} says: {_whole_line(text, match.start())}")
    for expression in tool.run.once:
        for text in everything:
            if len(list(re.finditer(expression, text, re.MULTILINE))) > 1:
                raise NotSupported(f"'{expression}' stands there twice: the output of more than one run, as of an appended file")
    if output.status is not None and output.status not in tool.run.status:
        last = _last(output.stderr) or _last(output.stdout)
        raise NotSupported(f"{tool.name} ended with status {output.status}{f': {last}' if last else ''}")
    if tool.run.success and not any(re.search(tool.run.success, text, re.MULTILINE) for text in everything):
        last = next((line for line in map(_last, everything) if line), "")
        raise NotSupported(f"{tool.name} did not print '{tool.run.success}'{f'; it ends: {last}' if last else '; it printed nothing'}")


def _whole_line(text: str, position: int) -> str:
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    if position - start > SHOWN // 2:  # a document on one line: from the match on
        start = position
    return text[start : end if end >= 0 else len(text)].strip()[:SHOWN]


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip()[:SHOWN] if lines else ""


def _notices(tool: ToolFile, output: ToolOutput, device: str) -> list[Notice]:
    notices = []
    if device and tool.device and any(name.lower() in device.lower() for name in tool.device.software):
        notices.append(Notice("software_device", f"it ran on '{device}': the processor, not a GPU"))
    text = "\n".join([output.stdout, output.stderr, *output.files.values()])
    notices += [
        Notice("tool_says", notice.say) for notice in tool.notice
        if notice.when != "software" and re.search(notice.when, text, re.MULTILINE)
    ]  # fmt: skip
    return notices + ([Notice("terms", TERMS[tool.terms])] if tool.terms else [])


def _device(tool: ToolFile, output: ToolOutput) -> str:
    """The device that the output names; "" where it names none."""
    if tool.device is None:
        return ""
    try:
        texts = _texts(tool.device.source, output)
        found = [row.fields.get(tool.device.value) for text in texts for row in reading.rows(tool.device, text)]
    except NotSupported:
        return ""
    return next((str(value).strip() for value in found if value), "")


# ---------------------------------------------------------------- numbers


def _texts(source: str, output: ToolOutput) -> list[str]:
    if source in ("stdout", "stderr", "output"):
        both = "\n".join(filter(None, (output.stdout, output.stderr)))
        return [{"stdout": output.stdout, "stderr": output.stderr, "output": both}[source]]
    return [text for name, text in sorted(output.files.items()) if name == source or fnmatch(name, source)]


def _values(result: ToolResult, output: ToolOutput, settings: Mapping[str, str]) -> list[ToolValue]:
    texts = [text for text in _texts(result.source, output) if text.strip()]
    if not texts:
        if result.optional:
            return []
        where = {"output": "stdout and stderr are"}.get(result.source, f"{result.source} is")
        raise NotSupported(f"{where} {'not there' if result.source not in ('stdout', 'stderr', 'output') else 'empty'}")
    if result.reader:
        return [value for text in texts for value in _of_reader(result, text)]
    found = [_with(row, settings) for text in texts for row in reading.rows(result, text)]
    taken = [row for row in found if all(_holds(text, row.fields) for text in result.where)]
    if not taken and not result.optional:
        what = f"{len(found)} rows, none with {' and '.join(result.where)}" if found else "no row"
        raise NotSupported(f"{result.source} has {what} for '{result.name}'{_ends(texts[-1])}")
    return _picked(result, [_value(result, row) for row in taken])


def _with(row: ToolRow, settings: Mapping[str, str]) -> ToolRow:
    return ToolRow({**settings, **row.fields}, row.place)


def _ends(text: str) -> str:
    last = _last(text)
    return f"; it ends: {last}" if last else ""


def _value(result: ToolResult, row: ToolRow) -> ToolValue:
    """One number, or why it is none."""
    name = _filled(result.name, row) or "value"
    base, scale, fault = _unit(result, row)
    alike = all(_holds(text, row.fields) for text in result.like_where)
    like = _filled(result.like, row) if alike else ""
    value = ToolValue(name, base, result.better, (), _filled(result.device, row), {}, like, result.factor, result.differs, row.place)
    refused = fault or next((f"{name} ({row.place}): {text} does not hold ({_said(text, row.fields)})" for text in result.check
                             if not _holds(text, row.fields)), "")
    if refused:
        return _refusing(value, refused)
    try:
        number = parse(row.fields.get(result.value), result.thousands, result.zero)
    except NotSupported as error:
        return _refusing(value, f"{name} ({row.place}): {error.reason}")
    metrics = {key: amount for key, path in result.metrics.items() if (amount := _loose(row.fields.get(path))) is not None}
    return ToolValue(**{**value.__dict__, "values": (number * scale,), "metrics": metrics})


def _refusing(value: ToolValue, reason: str) -> ToolValue:
    return ToolValue(**{**value.__dict__, "refused": reason})


def _unit(result: ToolResult, row: ToolRow) -> tuple[str, float, str]:
    """The base unit, its scale, and what is wrong with it: a declared unit and one in the output must agree."""
    written = _filled(result.unit, row).strip()
    own = result.units.get(written, written)
    stated = str(row.fields.get("unit") or "").strip()
    stated = result.units.get(stated, stated)
    base = base_unit(own) or (own, 1.0)
    if stated and "{" not in result.unit and (base_unit(stated) or (stated, 1.0)) != base:
        return base[0], base[1], f"{row.place}: the output says '{stated}' where the tool file says '{own}'"
    if "{" in result.unit and result.units and written not in result.units and base_unit(written) is None:
        return written, 1.0, f"{row.place}: the unit '{written}' is not known; valid: {', '.join(result.units)}"
    return base[0], base[1], ""


def base_unit(text: str) -> tuple[str, float] | None:
    """As `units.base`; bits too, which are told from bytes by their name alone."""
    match = BITS.fullmatch(text)
    return ("B/s", units.DECIMAL[match[1]] / 8) if match else units.base(text)


def parse(given: Field, thousands: str = "", zero: bool = False) -> float:
    """A number as a tool prints it. Raises NotSupported for what is none: missing, `-`, `N/A`, inf, nan, negative, and 0 unless `zero`."""
    if given is None or given == "":
        raise NotSupported("the number is missing")
    if isinstance(given, bool):
        raise NotSupported(f"'{given}' is no number")
    text = str(given).strip()
    if thousands:
        text = text.replace(thousands, "")
    if not NUMBER.fullmatch(text):
        comma = "; a comma may part thousands or decimals: set LC_ALL=C" if "," in text else ""
        cut = ": its line has no end, so the output may be cut" if text.endswith(CUT) else ""
        raise NotSupported(f"'{text[:40]}' is no number{cut or comma}")
    number = float(text)
    if not math.isfinite(number):
        raise NotSupported(f"'{text[:40]}' is not finite")
    if number < 0 or (number == 0 and not zero):
        raise NotSupported(f"it is {text[:40]}: nothing was measured" if number == 0 else f"it is {text[:40]}, below zero")
    return number


def _loose(given: Field) -> float | None:
    """A further number; None where it is none."""
    try:
        return parse(given, zero=True)
    except NotSupported:
        return None


def _picked(result: ToolResult, values: Sequence[ToolValue]) -> list[ToolValue]:
    """One value of each name and device, as `pick` says."""
    groups: dict[tuple[str, str], list[ToolValue]] = {}
    for value in values:
        groups.setdefault((value.name, value.device), []).append(value)
    if result.pick == "last":
        return [members[-1] for members in groups.values()]
    if result.pick == "samples":
        return [_together(members) for members in groups.values()]
    return list(values)


def _together(members: Sequence[ToolValue]) -> ToolValue:
    refused = next((member.refused for member in members if member.refused), "")
    values = () if refused else tuple(number for member in members for number in member.values)
    return ToolValue(**{**members[0].__dict__, "values": values, "refused": refused})


def _twice(values: Sequence[ToolValue]) -> None:
    """Raises NotSupported where one name has two values: which of them is of this run, nobody can know."""
    seen: dict[tuple[str, str], ToolValue] = {}
    for value in values:
        before = seen.setdefault((value.name, value.device), value)
        if before is not value:
            both = f"{before.place} and {value.place}" if before.place != value.place else value.place
            of = f" of {value.device}" if value.device else ""
            why = "an appended file, or several devices that the format does not part"
            raise NotSupported(f"'{value.name}'{of} stands there twice ({both}): {why}")


# ---------------------------------------------------------------- fields


def _filled(template: str, row: ToolRow) -> str:
    return IN_BRACES.sub(lambda match: str(row.fields.get(match[1], "")).strip(), template).strip()


def _holds(text: str, fields: Mapping[str, Field]) -> bool:
    """Whether a condition is true of a row; one about a missing field is not, but for `!=` and `!~`."""
    match = CONDITION.fullmatch(text.strip())
    assert match is not None  # checked when the file was read
    name, sign, wanted = match["field"], match["operator"], match["value"].strip()
    if fields.get(name) is None:
        return sign in ("!=", "!~")
    own = str(fields[name]).strip()
    if isinstance(fields[name], bool):
        own = own.lower()
    if sign in ("~", "!~"):
        return bool(re.search(wanted, own)) is (sign == "~")
    if NUMBER.fullmatch(own) and NUMBER.fullmatch(wanted):
        return COMPARE[sign](float(own), float(wanted))
    return COMPARE[sign](own, wanted) if sign in ("==", "!=") else False


def _said(text: str, fields: Mapping[str, Field]) -> str:
    match = CONDITION.fullmatch(text.strip())
    assert match is not None
    value = fields.get(match["field"])
    return f"{match['field']} is missing" if value is None else f"{match['field']} is {str(value)[:60]}"


# ---------------------------------------------------------------- benchmark frameworks


def _of_reader(result: ToolResult, text: str) -> list[ToolValue]:
    """By the reader that `hotlap import` has for the framework. Raises NotSupported."""
    with tempfile.TemporaryDirectory(prefix="hotlap-tool-") as folder:
        path = Path(folder) / "result"
        path.write_text(text, encoding="utf-8")  # readers look at a file's time
        try:
            source = Source.open(path)
            reader = formats.find(source, result.reader)
            assert reader is not None
            if not reader.detect(source):
                raise NotSupported(f"it is no file of {result.reader}, or it is cut{_ends(text)}")
            runs = formats.read(source, reader)
        except InputError as error:
            raise NotSupported(str(error).replace(f"{path}: ", "").replace(str(path), result.source)) from None
    return [_of_case(case, result) for run in runs for case in run.cases]


def _of_case(case: ReadCase, result: ToolResult) -> ToolValue:
    base, scale = units.base(case.unit) or (case.unit, 1.0)
    failed = next((part.failed for part in case.rounds if part.failed), "")
    values = tuple(number * scale for part in case.rounds for number in part.values)
    name = " ".join([case.name, *case.parameters])
    refused = failed or ("" if values else "it has no number")
    if not refused and min(values) <= 0 and not result.zero:
        refused = f"it is {min(values):g}: nothing was measured"
    refused = f"{name}: {refused}" if refused else ""
    return ToolValue(
        name, base, case.better or result.better, () if refused else values, place=case.place, refused=refused, like=result.like,
        factor=result.factor, differs=result.differs,
    )  # fmt: skip

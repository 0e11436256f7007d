"""A plan file into a Plan: found, parsed, checked, its axes multiplied. Everything wrong is a PlanError with file and line."""

from __future__ import annotations

import itertools
import math
import pathlib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from hotlap.core import work
from hotlap.core.errors import InputError, PlanError, nearest
from hotlap.core.plan import axes, measuring, uses
from hotlap.core.plan.lines import Path, line_of, scan
from hotlap.core.record import Case, MeasureOptions, Plan, Use, Value
from hotlap.core.work.base import Param, Workload

SCHEMA = 1  # the first; a plan without `schema` is of this one
KEYS = ("schema", "name", "about", "weighed_on", "measure", "case")
CASE_KEYS = ("workload", "implementation", "only", "skip", "uses")
PLANNED = sorted(name for name, one in work.WORKLOADS.items() if not one.unplanned)
LARGEST_BYTES = 4 * 2**20  # of a plan file; also ends the reading of a device such as /dev/zero

_FOLDER = pathlib.Path(__file__).parent / "builtin"


def builtin() -> dict[str, str]:
    """The built-in plans: name and what each is for, in one line."""
    return {path.stem: str(tomllib.loads(path.read_text("utf-8"))["about"]) for path in sorted(_FOLDER.glob("*.toml"))}


def load(name_or_path: str) -> Plan:
    """A built-in plan by name, else a TOML file by path; ``./quick`` is the file where both are called quick.

    Raises PlanError with file and line, what is valid and what next.
    """
    path = _FOLDER / f"{name_or_path}.toml"
    if name_or_path in _names():
        return read(path.read_text("utf-8"), f"{name_or_path} (built in)", name_or_path, "built in")
    return read(_content(name_or_path), name_or_path, pathlib.Path(name_or_path).stem, name_or_path)


def case(workload: str, given: Mapping[str, object]) -> Case:
    """One case from ``key=value`` pairs, defaults filled in; `implementation` may be among them. Raises InputError."""
    rest = {name: value for name, value in given.items() if name != "implementation"}
    spec = work.find(workload)
    implementation = spec.implementation(str(axes.IMPLEMENTATION.parse(given.get("implementation", ""))))
    try:
        return Case(workload=workload, params=spec.parse(rest), implementation=implementation)
    except OverflowError:
        raise InputError(f"a parameter of {workload} is too large: {str(rest)[:80]}") from None


def of_workload(workload: str, given: Mapping[str, object], name: str, source: str) -> Plan:
    """A plan of one workload with its axes multiplied: a list stands for several values. Raises InputError."""
    spec = _planned(workload)
    names = [*(param.name for param in spec.params), axes.IMPLEMENTATION.name]
    for key in given:
        if key not in names:
            raise InputError(spec.no_parameter(key, [axes.IMPLEMENTATION.name]))
    cases = _Reader("", {}).expand({"workload": workload, **given}, ("case",), axes.MOST)
    return Plan(name=name, cases=cases, measure=measuring.usual(cases), source=source)


def check(plan: object) -> Plan:
    """A plan made in Python, checked and completed as one from a file: every case's parameters, and how to measure (the usual for its cases
    where that is left at the default). Raises InputError."""
    if not isinstance(plan, Plan):
        raise InputError(f"a plan is a name, a path or a hotlap.core.record.Plan, not {plan!r:.80}")
    for name in ("name", "about", "source"):
        if not isinstance(getattr(plan, name), str):
            raise InputError(f"'{name}' of a plan is text, not {getattr(plan, name)!r:.80}")
    if not isinstance(plan.measure, MeasureOptions):
        raise InputError(f"'measure' of the plan '{plan.name}' is a hotlap.core.record.MeasureOptions, not {plan.measure!r:.80}")
    if not isinstance(plan.cases, (list, tuple)) or not plan.cases:
        raise InputError(f"the plan '{plan.name}' has no cases; give it a list of hotlap.core.record.Case")
    cases: dict[str, Case] = {}
    for given in plan.cases:
        one = _complete(given, plan.name)
        if one.id in cases:
            raise InputError(f"the plan '{plan.name}' has the case '{work.label(one)}' twice; leave one out")
        cases[one.id] = one
    asked = plan.measure if plan.measure != MeasureOptions() else measuring.usual(list(cases.values()))
    measure = {key: getattr(asked, option.field) for key, option in measuring.OPTIONS.items()}
    return msgspec.structs.replace(plan, cases=list(cases.values()), measure=measuring.options(measure))


def _complete(given: object, name: str) -> Case:
    if not isinstance(given, Case) or not isinstance(given.params, Mapping):
        raise InputError(f"the plan '{name}' has {given!r:.80} among its cases; valid: hotlap.core.record.Case")
    return case(_planned(given.workload).name, {**given.params, "implementation": given.implementation})


def _planned(name: str) -> Workload:
    """A workload that plans can hold. Raises InputError."""
    if reason := work.traits(name).unplanned:
        raise InputError(reason)
    if name not in PLANNED:
        raise InputError(work.unknown(str(name), PLANNED))
    return work.find(name)


def _names() -> list[str]:
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def _content(path: str) -> str:
    """The text of a plan file. Raises PlanError for all that can be wrong with a file."""
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST_BYTES + 1)
    except IsADirectoryError:
        raise PlanError(f"'{path}' is a folder; give a TOML file in it, or a built-in plan: {', '.join(_names())}") from None
    except (FileNotFoundError, ValueError):
        raise PlanError(f"there is no plan '{path}': no such file, and no built-in plan of this name; {nearest(path, _names())}") from None
    except OSError as error:
        raise PlanError(f"the plan '{path}' cannot be read: {error.strerror or error}") from None
    if len(data) > LARGEST_BYTES:
        raise PlanError(f"'{path}' is larger than {LARGEST_BYTES // 2**20} MiB and is not a plan; write ranges instead of lists")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise PlanError(f"byte {data[error.start]:#04x} is not UTF-8; save the plan as UTF-8 text", f"{path}:{line}") from None


def read(text: str, where: str, name: str, source: str) -> Plan:
    """A plan from its text; `where` is the file in messages, `name` serves where the plan has none."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _broken(str(error), text, where) from None
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise PlanError(f"this is not a plan: {reason}", where) from None
    return _Reader(where, scan(text)).plan(table, name, source)


def _broken(message: str, text: str, where: str) -> PlanError:
    found = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", message)
    line = int(found[1]) if found and found[1] else text.count("\n") + 1
    detail = message[: found.start()] if found else message
    place = f" (column {found[2]})" if found and found[2] else ""
    hint = "strings need quotes, tables are [measure] and [[case]]"
    return PlanError(f"not valid TOML: {detail[:1].lower()}{detail[1:]}{place}; {hint}", f"{where}:{line}")


@dataclass
class _Reader:
    """One plan being read: turns paths into `file:line`."""

    where: str
    lines: dict[Path, int]
    seen: dict[str, Path] = field(default_factory=dict)  # Case.id → the [[case]] that made it
    count: int = 0
    uses: list[Use] = field(default_factory=list)

    def fail(self, path: Path, message: str) -> PlanError:
        line = line_of(self.lines, path)
        return PlanError(message, f"{self.where}:{line}" if line else self.where)

    def plan(self, table: Mapping[str, object], name: str, source: str) -> Plan:
        self.schema(table.get("schema", SCHEMA))
        for key in table:
            if key not in KEYS:
                raise self.fail((key,), f"a plan has no key '{key}'; {nearest(key, KEYS)}")
        cases = self.cases(table)
        return Plan(
            name=self.words(table, "name", name), about=self.words(table, "about", ""), cases=cases,
            measure=self.measure(table, cases), source=source, uses=self.uses, weighed_on=self.words(table, "weighed_on", ""),
        )

    def schema(self, value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self.fail(("schema",), f"'schema' is a whole number, the plan format's version: {SCHEMA}, not {value!r}")
        if value > SCHEMA:
            raise self.fail(("schema",), f"this plan is of schema {value}, newer than this Hotlap reads ({SCHEMA}); upgrade Hotlap")

    def words(self, table: Mapping[str, object], key: str, default: str) -> str:
        value = table.get(key, default)
        if not isinstance(value, str) or not (value or key != "name") or not value.isprintable():
            raise self.fail((key,), f"'{key}' is one line of text in quotes, not {value!r}")
        return value

    def measure(self, table: Mapping[str, object], cases: list[Case]) -> MeasureOptions:
        given = table.get("measure", {})
        if not isinstance(given, Mapping):
            raise self.fail(("measure",), f"'measure' is a table: write [measure] and under it {', '.join(measuring.OPTIONS)}")
        return measuring.options(given, measuring.usual(cases), fail=lambda key, message: self.fail(("measure", key), message))

    def cases(self, table: Mapping[str, object]) -> list[Case]:
        given = table.get("case", [])
        if isinstance(given, Mapping):
            raise self.fail(("case",), "cases are a list: write [[case]] with two brackets")
        if not isinstance(given, list) or not all(isinstance(item, Mapping) for item in given):
            raise self.fail(("case",), "cases are tables: write [[case]] and under it workload and its parameters")
        if not given:
            raise self.fail(("case",), f"the plan has no cases; add [[case]] with workload = one of {', '.join(PLANNED)}")
        cases: list[Case] = []
        for i, item in enumerate(given):
            cases += self.expand(item, ("case", i), axes.MOST - len(cases))
        return cases

    def expand(self, item: Mapping[str, object], path: Path, room: int) -> list[Case]:
        """The cases of one [[case]] table: its axes multiplied in the order written, filters applied."""
        spec = self.workload(item, path)
        params = {p.name: p for p in (*spec.params, axes.IMPLEMENTATION)}
        given = self.axes(item, spec, params, path)
        count = math.prod(len(values) for values in given.values())
        if count > room:
            message = f"this [[case]] adds {count} to a plan of at most {axes.MOST} cases; shorten the axes: {_axes(given)}"
            raise self.fail(path, message)
        base = self.base(spec, given, path)
        only, skip = (
            axes.filters(item[key], key, params, (*path, key), self.fail) if key in item else [] for key in ("only", "skip")
        )
        combinations = ({**base, **dict(zip(given, chosen, strict=True))} for chosen in itertools.product(*given.values()))
        kept = axes.keep(combinations, only, skip, self.fail)
        if not kept:
            raise self.fail(path, "its filters leave no case of this [[case]]; take one out")
        made = [self.case(spec, combination, path) for combination in kept]
        if "uses" in item:
            if len(made) > 1:
                raise self.fail((*path, "uses"), f"'uses' is of one case, and this [[case]] makes {len(made)}; write a [[case]] for each")
            self.uses += uses.read(item["uses"], made[0].id, (*path, "uses"), self.fail)
        return made

    def workload(self, item: Mapping[str, object], path: Path) -> Workload:
        name = item.get("workload")
        if name is None:
            raise self.fail(path, f"this [[case]] has no 'workload'; valid: {', '.join(PLANNED)}")
        if not isinstance(name, str):
            raise self.fail((*path, "workload"), f"'workload' is one name in quotes, not {name!r}; write a [[case]] for each workload")
        try:
            return _planned(name)
        except InputError as error:
            raise self.fail((*path, "workload"), str(error)) from None

    def axes(
        self, item: Mapping[str, object], spec: Workload, params: Mapping[str, Param], path: Path,
    ) -> dict[str, list[Value]]:
        given: dict[str, list[Value]] = {}
        for key, value in item.items():
            if key in params:
                given[key] = axes.values(params[key], value, (*path, key), self.fail)
                if key == "implementation":
                    self.implementations(spec, given[key], (*path, key))
            elif key not in CASE_KEYS:
                raise self.fail((*path, key), spec.no_parameter(key, CASE_KEYS))
        return given

    def implementations(self, spec: Workload, names: list[Value], path: Path) -> None:
        for i, name in enumerate(names):
            try:
                spec.implementation(str(name))
            except InputError as error:
                raise self.fail((*path, i), str(error)) from None

    def base(self, spec: Workload, given: Mapping[str, list[Value]], path: Path) -> dict[str, Value]:
        """Every parameter at its default, or at the first of its values."""
        first = {name: values[0] for name, values in given.items() if name != "implementation"}
        try:
            return {**spec.full(spec.complete(first)), "implementation": ""}
        except InputError as error:
            raise self.fail(path, str(error)) from None

    def case(self, spec: Workload, combination: dict[str, Value], path: Path) -> Case:
        implementation = str(combination.pop("implementation"))
        if found := spec.fault(combination):
            raise self.fail((*path, found[0]), found[1])
        result = Case(workload=spec.name, params=spec.lean(combination), implementation=implementation)
        before = self.seen.setdefault(result.id, path)
        if len(self.seen) == self.count:
            where = "twice in this [[case]]" if before == path else f"here and in the [[case]] of line {line_of(self.lines, before)}"
            raise self.fail(path, f"the case '{work.label(result)}' is {where}; leave one out, with skip or only")
        self.count += 1
        return result


def _axes(given: Mapping[str, list[Value]]) -> str:
    return " × ".join(f"{name} ({len(values)})" for name, values in given.items() if len(values) > 1)

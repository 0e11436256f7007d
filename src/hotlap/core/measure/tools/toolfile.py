"""A tool file: how a program of others is found, run, refuted and read. One TOML file, no code; its grammar: docs/adding-a-tool.md.

    ToolFile → (find, run) → ToolOutput → (refute, read) → ToolReading
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from hotlap.core import units, work
from hotlap.core.errors import InputError, nearest

Read = Literal["", "regex", "sections", "table", "csv", "json", "jsonl", "xml", "pairs"]
Reader = Literal["", "hyperfine", "pytest-benchmark", "google-benchmark", "phoronix"]
Quantity = Literal[
    "memory", "disk", "network", "compute", "graphics", "link", "collective", "load", "cluster", "render", "machine", "inference",
]
QUANTITIES: tuple[str, ...] = Quantity.__args__  # type: ignore[attr-defined]
Need = Literal["display", "gpu", "root", "licence", "network", "loopback", "mpi"]
TERMS = {
    "UL": "UL's rules apply to published results of 3DMark: name the version, and see https://benchmarks.ul.com/legal",
    "SPEC": "SPEC's fair-use rule applies to published results: name the version and date, and see https://www.spec.org/fairuse.html",
}
"""Owners of benchmarks with rules about publishing → the sentence that goes with every number."""
GIVEN = ("program", "out", "port")  # what a command may name beside its parameters
IN_BRACES = re.compile(r"\{([^{}]+)\}")
CONDITION = re.compile(r"(?P<field>\S+)\s*(?P<operator>==|!=|<=|>=|<|>|!~|~)\s*(?P<value>.*)")


class _Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a tool file."""


class ToolVersion(_Part, frozen=True, kw_only=True):
    """How its version is read: `match` is also what tells it from another program of that name."""

    run: list[str] = []
    match: str = ""
    least: str = ""
    tested: list[str] = []
    status: list[int] = []  # of this question; []: whatever it is


class ToolParameter(_Part, frozen=True, kw_only=True):
    """What a user may set."""

    default: bool | int | float | str
    choices: list[str] = []
    unit: str = ""
    low: int | float | str | None = None
    high: int | float | str | None = None
    about: str = ""
    identity: bool = True  # part of what is measured: numbers with other values are other cases
    input: bool = False  # names a file that is read

    def parse(self, name: str, given: object) -> str:
        """The value as a command has it: numbers in base units. Raises InputError."""
        text = str(given).lower() if isinstance(given, bool) else str(given)
        if isinstance(self.default, bool) and text not in ("true", "false"):
            raise InputError(f"'{name}' is true or false, not '{text}'")
        if self.choices and text not in self.choices:
            raise InputError(f"'{name}' cannot be '{text}'; {nearest(text, self.choices)}")
        if isinstance(self.default, bool) or (isinstance(self.default, str) and not self.unit):
            return text
        try:
            number = units.parse(text, self.unit)
        except InputError as error:
            raise InputError(f"'{name}': {error}") from None
        low, high = (units.parse(end, self.unit) if end is not None else None for end in (self.low, self.high))
        if (low is not None and number < low) or (high is not None and number > high):
            ends = [f"at least {units.exact(low, self.unit)}" if low is not None else "",
                    f"at most {units.exact(high, self.unit)}" if high is not None else ""]
            raise InputError(f"'{name}' is {' and '.join(filter(None, ends))}, not {text}")
        whole = isinstance(self.default, int) or self.unit == "B"
        if whole and number != int(number):
            raise InputError(f"'{name}' is a whole number, not {text}")
        return str(int(number)) if number == int(number) else repr(number)


class ToolRun(_Part, frozen=True, kw_only=True):
    """How it is started, and what success is."""

    command: list[str] = []  # []: it is not run from here
    prefix: list[str] = []  # in front of every command, as adb shell: it runs elsewhere, and its output is read here
    timeout: str = "60 s"
    status: tuple[int, ...] = (0,)
    success: str = ""
    never: list[str] = []
    once: list[str] = []
    memory: str = ""
    space: str = ""
    server: list[str] = []
    environment: dict[str, str] = {}
    home: bool = False  # it keeps the user's home folder: for what was downloaded or licensed there


class ToolResult(_Part, frozen=True, kw_only=True):
    """Where numbers stand in the output, and what they mean."""

    source: str = msgspec.field(default="stdout", name="from")
    read: Read = ""
    reader: Reader = ""
    match: str = ""
    each: str = ""
    heading: str | list[str] = ""
    at: str = ""
    rows: str = ""
    columns: list[str] = []
    separator: str = ""
    delimiter: str = ","
    header: str = ""
    after: str = ""
    until: str = ""
    prefix: str = ""
    name: str = ""
    value: str = "value"
    unit: str = ""
    units: dict[str, str] = {}
    better: Literal["higher", "lower"] = "higher"
    where: list[str] = []
    check: list[str] = []
    pick: Literal["each", "last", "samples"] = "each"
    device: str = ""
    metrics: dict[str, str] = {}
    zero: bool = False
    thousands: str = ""
    optional: bool = False
    like: str = ""
    like_where: list[str] = []
    factor: float = 1.0
    differs: str = ""

    @property
    def headings(self) -> list[str]:
        return [self.heading] if isinstance(self.heading, str) else self.heading


class ToolNotice(_Part, frozen=True, kw_only=True):
    """Something to know beside the numbers, where the output says so."""

    when: str
    say: str


class ToolDevice(_Part, frozen=True, kw_only=True):
    """Which device it measured."""

    source: str = msgspec.field(default="output", name="from")
    match: str = ""
    read: Read = ""
    at: str = ""
    value: str = "value"
    software: list[str] = []


class ToolSample(_Part, frozen=True, kw_only=True):
    """A recorded output, and what it must give: every number, or a reason for none."""

    origin: str
    status: int | None = 0
    stdout: str = ""
    stderr: str = ""
    files: dict[str, str] = {}
    parameters: dict[str, bool | int | float | str] = {}
    expect: list[tuple[str, float, str]] = []
    refuse: str = ""


class ToolFile(_Part, frozen=True, kw_only=True):
    """One tool. `path` is where the file stands."""

    name: str
    about: str
    measures: Quantity
    site: str = ""
    licence: str = ""
    terms: Literal["", "UL", "SPEC"] = ""
    find: list[str]
    needs: list[Need] = []
    lies: list[str] = []
    format_not_seen: str = ""
    version: ToolVersion = ToolVersion()
    install: dict[str, str] = {}
    parameters: dict[str, ToolParameter] = {}
    run: ToolRun | None = None  # None: its results can be read, it cannot be run from here
    result: list[ToolResult] = []
    notice: list[ToolNotice] = []
    device: ToolDevice | None = None
    sample: list[ToolSample] = []
    path: str = ""

    @property
    def runs(self) -> bool:
        """Whether it can be run from here; else its results are read alone."""
        return self.run is not None and bool(self.run.command)

    @property
    def format_seen(self) -> bool:
        """Whether its output was seen: a real run, or a public document that shows it."""
        return bool(self.result) and not self.format_not_seen

    def settings(self, given: Mapping[str, object]) -> dict[str, str]:
        """All parameters as the command has them. Raises InputError for one that is not valid."""
        for name in given:
            if name not in self.parameters:
                raise InputError(f"{self.name} has no parameter '{name}'; {nearest(name, self.parameters) or 'it has none'}")
        return {name: spec.parse(name, given.get(name, spec.default)) for name, spec in self.parameters.items()}

    def identity(self, settings: Mapping[str, str], at_default: bool) -> list[str]:
        """Those that tell cases apart, as NAME=value: the ones at their defaults, or the others."""
        return [
            f"{name}={value}" for name, value in settings.items()
            if (spec := self.parameters[name]).identity and (value == spec.parse(name, spec.default)) is at_default
        ]  # fmt: skip


# ---------------------------------------------------------------- reading a file


def load(path: Path) -> ToolFile:
    """A tool file, checked. Raises InputError that names the file and the place."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        tool = msgspec.convert({**data, "path": str(path)}, ToolFile, strict=True)
    except FileNotFoundError:
        raise InputError(f"there is no file '{path}'") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"'{path}' cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not valid TOML: {error}") from None
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: {error}; docs/adding-a-tool.md has the grammar") from None
    for fault in _faults(tool):
        raise InputError(f"{path}: {fault}")
    return tool


def _faults(tool: ToolFile) -> Iterator[str]:
    """What is wrong beyond the types, one sentence each."""
    if tool.name != Path(tool.path).stem:
        yield f"name is '{tool.name}', and the file is called '{Path(tool.path).name}'; they must agree"
    if not tool.find:
        yield "'find' is empty; give the program's names, as in find = [\"fio\"]"
    for place, expression in _expressions(tool):
        try:
            re.compile(expression, re.MULTILINE)
        except (re.error, RecursionError, OverflowError) as error:
            yield f"{place}: '{expression}' is not a regular expression: {error}"
    for name, spec in tool.parameters.items():
        yield from _parameter_faults(name, spec)
    if tool.run:
        yield from _run_faults(tool, tool.run)
    for number, result in enumerate(tool.result, 1):
        yield from _result_faults(result, f"[[result]] {number}", tool)
    for number, sample in enumerate(tool.sample, 1):
        if not sample.origin.strip():
            yield f"[[sample]] {number}: 'origin' is empty; say the run, or the document, repository and commit that shows the format"
        if bool(sample.expect) == bool(sample.refuse):
            yield f"[[sample]] {number}: it needs 'expect' (its numbers) or 'refuse' (why it gives none), and not both"


def _expressions(tool: ToolFile) -> Iterator[tuple[str, str]]:
    yield "version.match", tool.version.match
    if tool.run:
        yield from (("run.success", tool.run.success), *(("run.never", text) for text in (*tool.run.never, *tool.run.once)))
    for number, result in enumerate(tool.result, 1):
        for name in ("match", "each", "rows", "separator", "header", "after", "until", "prefix"):
            yield f"[[result]] {number}: {name}", getattr(result, name)
        yield from ((f"[[result]] {number}: heading", text) for text in result.headings)
    yield from (("[[notice]]: when", notice.when) for notice in tool.notice if notice.when != "software")
    if tool.device:
        yield "device.match", tool.device.match


def _parameter_faults(name: str, spec: ToolParameter) -> Iterator[str]:
    if name in GIVEN:
        yield f"parameter '{name}': this name is Hotlap's own ({', '.join(GIVEN)})"
    try:
        spec.parse(name, spec.default)
    except InputError as error:
        yield f"parameter '{name}': its default is not valid: {error}"


def _run_faults(tool: ToolFile, run: ToolRun) -> Iterator[str]:
    for text in (*run.command, *run.server):
        for name in filter(str.isidentifier, placeholders(text)):
            if name not in tool.parameters and name not in GIVEN:
                yield f"run: '{{{name}}}' in '{text}' is no parameter; {nearest(name, [*tool.parameters, *GIVEN])}"
    try:
        seconds(run.timeout, {name: spec.parse(name, spec.default) for name, spec in tool.parameters.items()})
        for limit in filter(None, (run.memory, "" if run.space in tool.parameters else run.space)):
            units.parse(limit, "B")
    except InputError as error:
        yield f"run: {error}"


def _result_faults(result: ToolResult, where: str, tool: ToolFile) -> Iterator[str]:
    if bool(result.read) == bool(result.reader):
        yield f"{where}: it needs 'read' (how rows are found) or 'reader' (a benchmark framework's), and not both"
    needs = {"regex": ("match",), "sections": ("heading", "match"), "table": ("rows", "columns")}
    for name in needs.get(result.read, ()):
        if not getattr(result, name):
            yield f"{where}: read = '{result.read}' needs '{name}'"
    if result.read and not result.name:
        yield f"{where}: 'name' is missing: what the number is called"
    for text in (*result.where, *result.check, *result.like_where):
        if not CONDITION.fullmatch(text):
            yield f"{where}: '{text}' is no condition; write FIELD == VALUE (or != < <= > >= ~ !~)"
    if result.like:
        try:
            work.case_of(filled(result.like, tool.settings({})))
        except InputError as error:
            yield f"{where}: like = '{result.like}': {error}"


def filled(text: str, values: Mapping[str, str]) -> str:
    """{NAME} of known names; other braces stay."""
    return IN_BRACES.sub(lambda match: values.get(match[1], match[0]), text)


def placeholders(text: str) -> list[str]:
    """Names in braces."""
    return IN_BRACES.findall(text)


def seconds(text: str, settings: Mapping[str, str]) -> float:
    """A time limit: a sum of quantities and NUMBER * PARAMETER. Raises InputError."""
    total = 0.0
    for term in text.split("+"):
        number, times, name = (part.strip() for part in term.partition("*"))
        if not times:
            total += units.parse(term.strip(), "s")
        elif name not in settings:
            raise InputError(f"timeout: '{name}' is no parameter; {nearest(name, settings)}")
        else:
            total += units.parse(number, "") * float(settings[name])
    return total


def text_of(tool: ToolFile, given: str) -> str:
    """A sample's text: as it stands, or of the file that '@PATH' names. Raises InputError."""
    if not given.startswith("@"):
        return given
    path = Path(tool.path).parent / given[1:]
    try:
        return path.read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"{tool.path}: the sample '{given}' cannot be read: {error}") from None

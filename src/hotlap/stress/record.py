"""What a stress run is made of and what it says of itself: profiles as data, and the lines of `stress.jsonl`."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from hotlap.core import units
from hotlap.core.errors import InputError, nearest
from hotlap.core.record import Record

FOLDER = Path(__file__).parent / "profiles"
KINDS = ("products", "memory", "link", "atomics", "graphics", "idle")
DTYPES = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8")
FILE = "stress.jsonl"
MOST_WRONG = 1000  # mismatches that one process writes in full; all are counted
SETUP = "stress.json"  # the profile that the run was begun with
ALLOWED = {  # violation budgets: what a run may have of each before it fails, and whether that is a count or a share
    "errors": ("count", "wrong results"),
    "ecc_corrected": ("count", "corrected memory errors"),
    "ecc_uncorrected": ("count", "uncorrected memory errors"),
    "remapped_rows": ("count", "memory rows remapped, or pages retired"),
    "pcie_errors": ("count", "repaired errors of the link to the host: replays, and corrected ones"),
    "nvlink_errors": ("count", "repaired errors of NVLink"),
    "throttle": ("share", "of the time with the clock held by heat, power brake or slowdown"),
    "slope": ("share", "of throughput lost over the run"),
}


class Phase(Record, frozen=True, kw_only=True):
    """One kind of load for a time; phases repeat in their order until the run's time is over."""

    kind: Literal["products", "memory", "link", "atomics", "graphics", "idle"]
    seconds: float
    dtypes: list[str] = []  # of products; empty is every dtype that the device has
    duty: float = 1.0  # share of the time with load
    hottest: float = 0.0  # share of the time for the units that draw the most power; 0: equal time for all


class Profile(Record, frozen=True, kw_only=True):
    """A stress profile: how long, which phases, toward what."""

    name: str
    about: str
    seconds: float
    phases: list[Phase]
    power_w: float | None = None  # held by duty cycle, and by the mix of units where that is not enough
    temperature_c: float | None = None  # the same
    max_power_w: float | None = None  # the load stops there
    max_temperature_c: float | None = None
    synchronised: bool = False  # pulses of several devices begin together
    allowed: dict[str, float] = {}  # violation budgets that are not the usual ones, by the names of ALLOWED


class GoodDevice(Record, frozen=True, kw_only=True):
    """A device of a run that is known to be good."""

    key: str
    model: str
    rates: dict[str, float]  # kind of work → its sustained rate, in the kind's own unit


class GoodRun(Record, frozen=True, kw_only=True):
    """The reference that a run is compared with."""

    run: str
    devices: list[GoodDevice]


class Done(Record, frozen=True, kw_only=True):
    """Work of one kind within a tick. Its rate is of like with like, which that of a whole tick need not be."""

    units: int = 0
    flop: float = 0.0
    moved_bytes: float = 0.0
    busy_s: float = 0.0
    steps: float = 0.0  # pixels, texels or triangles of what draws

    @property
    def amount(self) -> float:
        """What its rate is of: FLOP, else bytes, else steps."""
        return self.flop or self.moved_bytes or self.steps


class Tick(Record, frozen=True, kw_only=True, tag="tick"):
    """About a second of one device: work done and checked since the last tick."""

    device: str
    time_s: float  # device's clock
    phase: str
    units: int = 0
    checked: int = 0
    flop: float = 0.0
    moved_bytes: float = 0.0
    busy_s: float = 0.0
    check_s: float = 0.0
    duty: float = 1.0
    shown: dict[str, float] = {}  # sensor → value, for the view
    attempt: int = 0  # which process of the device; a resumed or restarted one counts on
    done: dict[str, Done] = {}  # kind of unit → its part of the tick: products fp16, memory …
    unit: str = ""  # the kind that ran last
    wrong: dict[str, int] = {}  # kind of Mismatch → how many since the last tick: all are counted, MOST_WRONG are kept in full
    pulses: dict[int, float] = {}  # of synchronised devices: number of a pulse of load → when it began, on the clock that they share

    def parts(self) -> dict[str, Done]:
        """Kind of unit → its part; the whole tick under its phase where a bundle of an older Hotlap has no parts."""
        whole = Done(units=self.units, flop=self.flop, moved_bytes=self.moved_bytes, busy_s=self.busy_s)
        return self.done or ({self.phase: whole} if self.units else {})


class Mismatch(Record, frozen=True, kw_only=True, tag="mismatch"):
    """A wrong result: where, what, and whether it came again."""

    device: str
    time_s: float
    unit: str  # products fp32, memory walking bits …
    place: str  # row and column with the tile, or address
    expected: str  # hexadecimal
    got: str
    bits: list[int]
    by: Literal["checksum", "repeat", "pattern", "count", "operand", "picture"]
    kind: Literal["transient", "permanent"]


What = Literal[
    "began",
    "ended",
    "limit",
    "lost",
    "hung",
    "died",
    "clock_jump",
    "suspended",
    "resumed",
    "interrupted",
    "disk",
    "coverage",
    "not_run",
    "sensors",
    "held",  # the clock, before any load
    "mix",  # of units that holds what was asked for
    "units",  # that the device can do, by name
    "hottest",  # of them, by power
    "unguarded",  # a limit or set point whose sensor is not there
]


class Happened(Record, frozen=True, kw_only=True, tag="happened"):
    """Something that is neither work nor a wrong result."""

    device: str
    time_s: float
    what: What
    detail: str = ""
    numbers: dict[str, float] = {}
    unit: str = ""  # of coverage: the kind of unit


Line = Tick | Mismatch | Happened


def builtin() -> dict[str, str]:
    """The built-in profiles: name and what each is for."""
    return {path.stem: str(tomllib.loads(path.read_text("utf-8"))["about"]) for path in sorted(FOLDER.glob("*.toml"))}


def load(name_or_path: str) -> Profile:
    """A built-in profile by name, else a TOML file by path. Raises InputError with what is valid."""
    names = builtin()
    path = FOLDER / f"{name_or_path}.toml" if name_or_path in names else Path(name_or_path)
    if path.suffix != ".toml":
        raise InputError(f"there is no stress profile '{name_or_path}'; {nearest(name_or_path, names)}, or a file that ends in .toml")
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"the stress profile '{path}' cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"the stress profile '{path}' is no TOML: {error}") from None
    return _profile(path.stem, found, str(path))


def _profile(name: str, table: Mapping[str, Any], where: str) -> Profile:
    valid = {"about", "for", "power", "temperature", "max_power", "max_temperature", "synchronised", "allow", "phase"}
    for key in table:
        if key not in valid:
            raise InputError(f"{where}: there is no key '{key}'; {nearest(key, valid)}")
    phases = table.get("phase")
    if not isinstance(phases, list) or not phases:
        raise InputError(f"{where}: a profile needs at least one [[phase]] with kind and for")
    return Profile(
        name=name,
        about=str(table.get("about", "")),
        seconds=_quantity(table, "for", "s", where) or 300.0,
        phases=[_phase(one, f"{where}, phase {number}") for number, one in enumerate(phases, 1)],
        power_w=_quantity(table, "power", "W", where),
        temperature_c=_celsius(table, "temperature", where),
        max_power_w=_quantity(table, "max_power", "W", where),
        max_temperature_c=_celsius(table, "max_temperature", where),
        synchronised=bool(table.get("synchronised", False)),
        allowed=_allowed(table.get("allow", {}), where),
    )


def _allowed(given: Any, where: str) -> dict[str, float]:
    if not isinstance(given, dict):
        raise InputError(f"{where}: allow is a table, as in [allow] with throttle = '5%'")
    return {name: allowed(name, str(value), where) for name, value in given.items()}


def allowed(name: str, text: str, where: str) -> float:
    """A violation budget: a count as in `10`, or a share as in `5%` or `0.05`. Raises InputError."""
    if name not in ALLOWED:
        raise InputError(f"{where}: there is no budget '{name}'; {nearest(name, ALLOWED)}")
    kind, what = ALLOWED[name]
    number, sign, _ = text.strip().partition("%")
    try:
        value = float(number) / (100 if sign else 1)
    except ValueError:
        value = math.nan
    if kind == "share" and not 0 <= value <= 1:
        raise InputError(f"{where}: {name} ({what}) is a share from 0 to 100%, as in {name}=5%, not '{text}'")
    if kind == "count" and (sign or not 0 <= value < 1e15 or value != int(value)):
        raise InputError(f"{where}: {name} ({what}) is a whole number from 0 on, as in {name}=10, not '{text}'")
    return value


def _phase(value: Any, where: str) -> Phase:
    valid = {"kind", "for", "dtypes", "duty", "hottest"}
    if not isinstance(value, dict):
        raise InputError(f"{where} is no table")
    for key in value:
        if key not in valid:
            raise InputError(f"{where}: there is no key '{key}'; {nearest(key, valid)}")
    kind, seconds, dtypes = value.get("kind"), _quantity(value, "for", "s", where), value.get("dtypes", [])
    if kind not in KINDS:
        raise InputError(f"{where}: kind is '{kind}'; {nearest(str(kind), KINDS)}")
    if seconds is None:
        raise InputError(f"{where}: how long? write for = '10 s'")
    wrong = [one for one in dtypes if one not in DTYPES]
    if wrong:
        raise InputError(f"{where}: there is no dtype '{wrong[0]}'; {nearest(str(wrong[0]), DTYPES)}")
    duty, hottest = value.get("duty", 1.0), value.get("hottest", 0.0)
    if not isinstance(duty, (int, float)) or not 0 < duty <= 1:
        raise InputError(f"{where}: duty is a share above 0 and up to 1, not {duty}")
    if not isinstance(hottest, (int, float)) or not 0 <= hottest < 1:
        raise InputError(f"{where}: hottest is a share from 0 up to under 1, not {hottest}: the rest is for the other units")
    return Phase(kind=kind, seconds=seconds, dtypes=list(dtypes), duty=float(duty), hottest=float(hottest))


def _quantity(table: Mapping[str, Any], key: str, unit: str, where: str) -> float | None:
    if key not in table:
        return None
    try:
        value = units.parse(str(table[key]), unit)
    except InputError as error:
        raise InputError(f"{where}: {key}: {error}") from None
    if not 0 < value < math.inf:
        raise InputError(f"{where}: {key} is above 0, not {table[key]}")
    return value


def _celsius(table: Mapping[str, Any], key: str, where: str) -> float | None:
    return celsius(str(table[key]), f"{where}: {key}") if key in table else None


def celsius(text: str, what: str) -> float:
    """`80`, `80 C` or `80 °C`. Raises InputError."""
    try:
        value = float(text.strip().removesuffix("C").removesuffix("°").strip())
    except ValueError:
        raise InputError(f"{what} is a temperature, as in '80 °C', not '{text}'") from None
    if not 0 < value < 150:
        raise InputError(f"{what} is above 0 and under 150 °C, not '{text}'")
    return value


def read(data: bytes) -> tuple[list[Line], int]:
    """The lines of a stress.jsonl, and how many could not be read; a torn last line counts as one."""
    lines: list[Line] = []
    torn = 0
    decoder = msgspec.json.Decoder(Line)
    for text in data.splitlines():
        try:
            lines.append(_today(decoder.decode(text)))
        except msgspec.DecodeError:
            torn += 1
    return lines, torn


def _today(line: Line) -> Line:
    """A line of 0.1 and 0.2, which kept the unit of coverage as its text, in today's keys."""
    if isinstance(line, Happened) and line.what == "coverage" and not line.unit:
        return msgspec.structs.replace(line, unit=line.detail)
    return line

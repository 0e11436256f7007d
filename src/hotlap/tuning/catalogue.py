"""The switches that are known: what each is, whether it applies here, how it is applied, what it may change, what to expect of it."""

from __future__ import annotations

import functools
import os
import platform
import re
import shutil
import sys
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import msgspec

from hotlap.core.errors import HotlapError, InputError, nearest
from hotlap.core.model.predict import predict
from hotlap.core.work.compute import GEMM

Changes = Literal["none", "rounding", "results"]
How = Literal["variables", "argument", "prefix", "file", "load", "verb"]
CORES = {"cores": 1, "cores/2": 2, "cores/4": 4}  # what a value is divided by
NAME = re.compile(r"[a-z][a-z0-9_]*")
CONDITIONS = ("linux", "cores>1", "numa>1", "gpu", "glibc>=2.35", "command:NAME")
UNKNOWN = "not known here: only measuring says it"


class TuningSwitch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One switch, as its table has it. Exactly one way to apply it."""

    about: str = ""
    group: str = "own"
    subjects: tuple[Literal["program", "plan", "server"], ...] = ("program", "plan", "server")
    when: list[str] = []
    variables: dict[str, str] = {}
    argument: bool = False  # a {placeholder} of the command
    prefix: list[str] = []
    path: str = ""
    content: str = "{value}"
    load: str = ""  # of a server's [load]: key = value
    verb: str = ""
    standing: str = ""  # of a placeholder as found
    values: list[str] = []
    changes: Changes = "rounding"
    tolerance: float | None = None  # relative; None: 0 of none, and of results what --tolerance says
    undo: str = ""
    expect: str = ""
    model: Literal["", "threads", "precision", "tf32"] = ""
    source: str = ""

    @property
    def how(self) -> How:
        ways: dict[How, Any] = {
            "variables": self.variables, "argument": self.argument, "prefix": self.prefix, "file": self.path, "load": self.load,
            "verb": self.verb,
        }  # fmt: skip
        return next(way for way, value in ways.items() if value)


class SwitchFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What decides whether a switch applies."""

    cores: int
    numa: int
    gpu: bool
    linux: bool
    glibc: tuple[int, int] = (0, 0)
    machine: str = ""  # of the machine table; "": not known

    def lacking(self, condition: str) -> str:
        """What a condition of `when` lacks here; "" where it holds."""
        if condition.startswith("command:"):
            name = condition.removeprefix("command:")
            return "" if shutil.which(name) else f"{name} is not installed"
        holds, reason = {
            "linux": (self.linux, "not Linux"), "cores>1": (self.cores > 1, "one core alone"),
            "numa>1": (self.numa > 1, "one NUMA node alone"), "gpu": (self.gpu, "no NVIDIA GPU here"),
            "glibc>=2.35": (self.glibc >= (2, 35), "glibc is older than 2.35, or not there"),
        }[condition]  # fmt: skip
        return "" if holds else reason


@functools.cache
def switches() -> Mapping[str, TuningSwitch]:
    """All of the catalogue, by name."""
    return parsed(resources.files("hotlap.tuning").joinpath("switches.toml").read_text("utf-8"), "switches.toml")


def parsed(text: str, file: str) -> dict[str, TuningSwitch]:
    """Raises InputError with the file and what is wrong there."""
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{file} is no TOML: {error}") from None
    return {name: _switch(name, table, file) for name, table in tables.items()}


def _switch(name: str, table: object, file: str) -> TuningSwitch:
    if not isinstance(table, dict) or not NAME.fullmatch(name):
        raise InputError(f"{file}: '{name}' is no switch: write a table [name] of small letters, digits and _, as in [omp_threads]")
    for key in table:
        if key not in TuningSwitch.__struct_fields__:
            raise InputError(f"{file} [{name}]: no key '{key}'; {nearest(key, TuningSwitch.__struct_fields__)}")
    try:
        switch = msgspec.convert(table, TuningSwitch)
    except msgspec.ValidationError as error:
        raise InputError(f"{file} [{name}]: {error}") from None
    for condition in switch.when:
        if condition not in CONDITIONS and not condition.startswith("command:"):
            raise InputError(f"{file} [{name}]: when: there is no condition '{condition}'; {nearest(condition, CONDITIONS)}")
    ways = [way for way in ("variables", "argument", "prefix", "path", "load", "verb") if getattr(switch, way)]
    if len(ways) != 1:
        given = f"it has {' and '.join(ways)}" if ways else "it has none"
        raise InputError(f"{file} [{name}]: one way to apply it is needed, of variables, argument, prefix, path, load and verb; {given}")
    if not switch.values and not switch.verb:
        raise InputError(f"{file} [{name}]: values is empty; give those to try, as in values = [\"1\", \"2\"]")
    return switch


def file(path: str) -> dict[str, TuningSwitch]:
    """A user's own switches. Raises InputError."""
    try:
        return parsed(Path(path).read_text("utf-8"), path)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}; switches are a TOML file") from None


def here(machine: str = "") -> SwitchFacts:
    """Of this process's machine. `machine`: of the machine table, for expectations."""
    nodes = Path("/sys/devices/system/node")
    numa = len(list(nodes.glob("node[0-9]*"))) if nodes.is_dir() else 1
    gpu = Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None
    library, version = platform.libc_ver()
    numbers = [int(part) for part in version.split(".")[:2] if part.isdecimal()] if library == "glibc" else []
    glibc = (numbers[0], numbers[1]) if len(numbers) == 2 else (0, 0)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return SwitchFacts(cores=cores, numa=max(numa, 1), gpu=gpu, linux=sys.platform == "linux", glibc=glibc, machine=machine)


def lacking(switch: TuningSwitch, facts: SwitchFacts, subject: str) -> str:
    """Why a switch does not apply; "" where it does."""
    if subject not in switch.subjects:
        return f"it is of {' and '.join(f'a {one}' for one in switch.subjects)}"
    return next((reason for condition in switch.when if (reason := facts.lacking(condition))), "")


def values(switch: TuningSwitch, facts: SwitchFacts) -> list[str]:
    """Those to try here, each once; cores as numbers."""
    shown = [str(max(facts.cores // CORES[value], 1)) if value in CORES else value for value in switch.values]
    return list(dict.fromkeys(shown))


def expected(switch: TuningSwitch, facts: SwitchFacts) -> str:
    """What the model expects of it here, in words; the catalogue's own where there is no model."""
    if switch.model == "threads":
        return f"at most {facts.cores} times as fast, where one thread stands"
    if switch.model in ("precision", "tf32"):
        return _products(switch.model, facts.machine) if facts.machine else UNKNOWN
    return ""


def _products(model: str, machine: str) -> str:
    """Of large products, and of what only moves memory."""
    low = "bf16" if model == "precision" else "tf32"
    try:
        slow, fast = (predict(GEMM.name, machine=machine, m=4096, n=4096, k=4096, dtype=dtype).expected_s for dtype in ("fp32", low))
    except HotlapError as error:
        return f"not known of {machine}: {error.reason}"
    if not slow or not fast:
        return f"not known of {machine}"
    moves = ", at most 2 times where memory bounds it" if model == "precision" else ", nothing where memory bounds it"
    return f"products of 4096 {float(slow) / float(fast):.1f} times as fast on {machine}{moves}"

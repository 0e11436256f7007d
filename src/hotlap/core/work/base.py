"""What both arms know of a workload: its parameters with units, and the bytes and operations of one call."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal

import numpy as np

from hotlap.core import units
from hotlap.core.errors import HINT, InputError, nearest
from hotlap.core.record import Case, Value
from hotlap.core.work.counted import Work as Work
from hotlap.core.work.traits import Traits

Metric = Literal["bandwidth", "compute", "latency", "rate", "time"]

DTYPES: Mapping[str, int] = {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1, "int32": 4}
"""Element sizes in bytes. tf32 is fp32 in memory."""

STORED: Mapping[str, float] = {**DTYPES, "fp8_block": 1 + 4 / 128**2, "fp4": 0.5 + 1 / 16, "int4": 0.5 + 2 / 128, "mxfp4": 0.5 + 1 / 32}
"""Bytes an element takes with its scales: fp8_block one fp32 for 128 × 128, fp4 one fp8 for 16 (NVFP4), int4 one bf16 for 128,
mxfp4 one byte for 32 (OCP Microscaling Formats 1.0)."""


ELEMENT_TYPES: Mapping[str, str] = {  # names of other libraries → ours
    "float16": "fp16", "half": "fp16", "f16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float": "fp32", "f32": "fp32",
    "float64": "fp64", "double": "fp64", "f64": "fp64", "float8": "fp8", "e4m3": "fp8", "float8_e4m3fn": "fp8",
}
STORED_DTYPES = ("fp32", "fp16", "bf16", "fp8", "int8")


def unit_of(dtype: str) -> str:
    """The matrix unit that does it: blocks of fp8 on that of fp8; weights of 4 bits, int4 and mxfp4, are widened first."""
    return f"matrix.{ {'fp8_block': 'fp8', 'int4': 'bf16', 'mxfp4': 'bf16'}.get(dtype, dtype) }".replace(" ", "")


ADDED: dict[str, tuple[str, ...]] = {}
"""Workload → names of users' kernels that implement it; filled by whoever knows where they are kept."""


@dataclass(frozen=True)
class Param:
    """One parameter. `unit` is its base unit (B, s, "" for a count); a string in a plan may carry prefixes."""

    name: str
    kind: Literal["int", "float", "str", "bool", "list"]
    about: str
    default: Value | None = None  # None: required
    unit: str = ""
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    added_after_release: bool = False
    """Of an old workload: a case leaves it out at its default, which means what was measured before, so that older cases keep their ids."""

    def parse(self, value: object) -> Value:
        """`value` from a plan or command line, checked and in base units. Raises InputError: what is valid, what next."""
        if self.kind == "str":
            return self._text(value)
        if self.kind == "bool":
            if isinstance(value, bool) or value in ("true", "false"):
                return value is True or value == "true"
            raise InputError(f"'{self.name}' is true or false, not {value!r}")
        if self.kind == "list":
            if isinstance(value, str):
                return self._split(value)
            if isinstance(value, (list, tuple)):
                return [str(item) for item in value]
            raise InputError(f"'{self.name}' is a list of strings, not {value!r}")
        return self._number(value)

    def _split(self, text: str) -> Value:
        """One string as the list it stands for: parted at spaces as a shell does, with quotes, and nothing expanded."""
        try:
            return shlex.split(text)
        except ValueError as error:
            reason = str(error)
            raise InputError(f"'{self.name}' cannot be parted into strings ({reason.lower()}); write a list of strings: {text!r}") from None

    def _text(self, value: object) -> str:
        if not isinstance(value, str):
            raise InputError(f"'{self.name}' is a string{self._valid()}, not {value!r}")
        if self.choices and value not in self.choices:
            ours = ELEMENT_TYPES.get(value.lower(), "")
            hint = f"{HINT} '{ours}'? " if ours in self.choices else ""
            raise InputError(f"'{self.name}' cannot be '{value}'; {hint}{nearest('' if hint else value, self.choices)}")
        return value

    def _number(self, value: object) -> Value:
        if self.kind == "int" and (self.low, self.high) == (0, 1) and str(value).lower() in ("true", "false"):
            raise InputError(f"'{self.name}' is 0 or 1, not {value!r}")
        if isinstance(value, bool) or not isinstance(value, (Real, str)):
            raise InputError(f"'{self.name}' is a number{f' in {self.unit}' if self.unit else ''}, not {value!r}")
        try:
            number = units.parse(value if isinstance(value, str) else float(value), self.unit)
        except OverflowError:
            raise InputError(f"'{self.name}' is too large: {str(value)[:20]}…") from None
        except InputError as error:
            raise InputError(f"'{self.name}': {error}") from None
        if isinstance(value, str) and self.kind == "int" and not self.unit:
            self._plain(value.strip(), number)
        if self.kind == "int" and number != int(number):
            raise InputError(f"'{self.name}' is a whole number, not {value!r}")
        if (self.low is not None and number < self.low) or (self.high is not None and number > self.high):
            given = f"'{value}'" if isinstance(value, str) else units.exact(number, self.unit)
            raise InputError(f"'{self.name}' must be {self._range()}, not {given}")
        return int(number) if self.kind == "int" else number

    def _plain(self, text: str, number: float) -> None:
        """Raises InputError for a count with k, M or G: some mean powers of 1000 by them, others powers of 1024."""
        if text[-1:] in ("k", "M", "G"):
            binary = f"{text[:-1].strip()} {text[-1].upper()}i"
            either = f"{text} may be {number:,.0f} or {units.parse(binary, ''):,.0f}"
            raise InputError(f"'{self.name}': {either}; write {number:.0f} or '{binary}'")

    def _range(self) -> str:
        low = f"at least {units.exact(self.low, self.unit)}" if self.low is not None else ""
        high = f"at most {units.exact(self.high, self.unit)}" if self.high is not None else ""
        return " and ".join(part for part in (low, high) if part)

    def _valid(self) -> str:
        return f" out of {', '.join(self.choices)}" if self.choices else ""


@dataclass(frozen=True)
class Workload(Traits):
    """A workload as plans and models see it."""

    name: str
    about: str
    params: tuple[Param, ...]
    metric: Metric
    unit: str  # of the metric, base SI
    better: Literal["higher", "lower"]
    work: Callable[[Mapping[str, Value]], Work]
    needs: str = ""  # what a device must have, in words, for the manual
    fault: Callable[[Mapping[str, Value]], tuple[str, str] | None] = lambda _: None  # which parameter does not go with the others, and why
    implementations: tuple[str, ...] = ()  # to choose from, where there are several
    bound_by_clock: Callable[[Mapping[str, Value]], bool] = lambda _: False  # whether a call takes a number of cycles of the core's clock
    defaults: Mapping[str, Value] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """`work` and `fault` always see every parameter, also those that a case leaves out."""
        object.__setattr__(self, "defaults", {p.name: p.default for p in self.params if p.default is not None})
        if any(p.added_after_release for p in self.params):
            work, fault = self.work, self.fault
            object.__setattr__(self, "work", lambda params: work(self.full(params)))
            object.__setattr__(self, "fault", lambda params: fault(self.full(params)))

    def param(self, name: str) -> Param | None:
        return next((p for p in self.params if p.name == name), None)

    def parse(self, given: Mapping[str, object]) -> dict[str, Value]:
        """Complete parameters from those given: defaults filled in, values in base units, none against another. Raises InputError."""
        complete = self.complete(given)
        if found := self.fault(complete):
            raise InputError(f"{self.name}: {found[1]}")
        return complete

    def case(self, given: Mapping[str, object], implementation: str = "") -> Case:
        """A case of it, defaults filled in. Raises InputError."""
        return Case(workload=self.name, params=self.parse(given), implementation=implementation)

    def implementation(self, name: str) -> str:
        """`name`, if it is one of this workload's, or of a kernel that a user added. Raises InputError."""
        known = (*self.implementations, *ADDED.get(self.name, ()))
        if name and name not in known:
            valid = nearest(name, known) or "it has only one: leave 'implementation' out"
            raise InputError(f"{self.name} has no implementation '{name}'; {valid}")
        return name

    def no_parameter(self, name: str, also: Iterable[str] = ()) -> str:
        """What an error says of a name that none of its parameters has: the one whose value it is, else the nearest. `also`: valid too."""
        whose = next((p.name for p in self.params if name.lower() in p.choices), "")
        hint = f"{HINT} '{whose}={name.lower()}'? " if whose else ""
        return f"{self.name} has no parameter '{name}'; {hint}{nearest('' if hint else name, [*(p.name for p in self.params), *also])}"

    def complete(self, given: Mapping[str, object]) -> dict[str, Value]:
        """As `parse`, each parameter by itself."""
        for name in given:
            if self.param(name) is None:
                raise InputError(self.no_parameter(name))
        complete: dict[str, Value] = {}
        for p in self.params:
            if p.name in given:
                complete[p.name] = p.parse(given[p.name])
            elif p.default is not None:
                complete[p.name] = p.default
            else:
                raise InputError(f"{self.name} needs '{p.name}' ({p.about})")
        return self.lean(complete)

    def lean(self, complete: Mapping[str, Value]) -> dict[str, Value]:
        """Parameters as a case keeps them: younger ones are left out at their defaults."""
        later = {p.name: p.default for p in self.params if p.added_after_release}
        return {name: value for name, value in complete.items() if name not in later or value != later[name]}

    def full(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """A case's parameters with those that it leaves out at their defaults."""
        return {**self.defaults, **params}

    def value(self, seconds: float, params: Mapping[str, Value]) -> float:
        """The metric of one call that took `seconds`, in `unit`."""
        return self.meter(params)(seconds)

    def meter(self, params: Mapping[str, Value]) -> Callable[[float], float]:
        """From seconds per call to the metric, in `unit`; for many calls, since their work is counted once."""
        work = self.work(params)
        if self.metric == "bandwidth":
            amount = work.link_bytes or work.memory_bytes
        elif self.metric == "compute":
            amount = work.total_operations
        else:
            amount = work.steps
        if self.metric in units.RATES.values():
            return lambda seconds: amount / seconds
        return lambda seconds: seconds / amount


def number(params: Mapping[str, Value], name: str) -> float:
    """A numeric parameter as float; the plan has checked its type."""
    value = params[name]
    if not isinstance(value, (int, float)):  # a fault of the workload's own file
        raise TypeError(f"{name} is {type(value).__name__}, not one number; workloads with a model count with `count`, which takes arrays")
    return value


def integer(params: Mapping[str, Value], name: str) -> int:
    return int(number(params, name))


def count(params: Mapping[str, Any], name: str) -> Any:
    """A numeric parameter as float, or as an array of them where many cases are asked for at once."""
    value = params[name]
    return value.astype(np.float64) if isinstance(value, np.ndarray) else float(value)


def plain(value: Any) -> Any:
    """A float where NumPy made a scalar of one."""
    return value if isinstance(value, np.ndarray) and value.ndim else float(value)


def text(params: Mapping[str, Value], name: str) -> str:
    return str(params[name])


def cache_param(*more: str) -> Param:
    """`more`: also `rotated`, over inputs that do not fit the last cache together."""
    words = "warm: as the last call left it; cold: flushed before every sample" + ("; rotated: other inputs for each call" if more else "")
    return Param("cache", "str", words, "warm", choices=("warm", "cold", *more))


def bounded(name: str, about: str, default: int, high: float = 2**24) -> Param:
    """A whole number from 1."""
    return Param(name, "int", about, default, low=1, high=high)


def bandwidth(name: str, about: str, params: tuple[Param, ...], work: Any, fault: Any = lambda _: None, **traits: Any) -> Workload:
    """A workload that is told by the bytes it moves in a second. `traits`: of `Traits`."""
    return Workload(name, about, params, "bandwidth", "B/s", "higher", work, fault=fault, **traits)


def from_zero(name: str, about: str) -> Param:
    """A whole number from 0, which is the default."""
    return Param(name, "int", about, 0, low=0, high=2**30)


def element_type(
    default: str = "bf16", choices: tuple[str, ...] = STORED_DTYPES, name: str = "dtype", about: str = "element type"
) -> Param:
    """The type of elements."""
    return Param(name, "str", about, default, choices=choices)

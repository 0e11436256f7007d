"""How one machine stands to what the model expects of it, learnt from a sweep: a few factors and one cost, each with its interval.

A family's expected time is a sum of parts. Of these, arithmetic and memory are multiplied by factors of the machine; the cost of a call
is added in seconds; the host's own time, where a family has one, is multiplied and again overlaps with the device. Overheads are
additive and efficiencies multiplicative. Every factor is pulled towards 1 (the cost towards 0) as far as the sweep is unsure of it.
Families that were not in the sweep are left as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.errors import InputError
from hotlap.core.model.ceilings import nominal_s
from hotlap.core.record import Result
from hotlap.core.store.fold import disturbed

Floats = NDArray[np.float64]
Parts = Mapping[str, Floats]
# Parts of the families by what scales them; all others are costs of a call, which is what is added to.
ARITHMETIC = (
    "matrix unit", "vector unit", "operand feed", "special functions", "tile quantisation", "wave quantisation",
    "clock under the power cap",
)  # fmt: skip
MEMORY = ("DRAM", "L2", "bytes in flight", "row passes", "link", "copy", "quantisation pass")
HOST, CALL = "host", "cost of a call, by the sweep"
HOST_POWER = 8.0  # of the longer of device and host: as in kernels/gemm.py
PULL = {"arithmetic": 0.12, "dtype": 0.06, "memory": 0.12, "host": 0.3, "call": 2.0}
# ^ standard deviations before anything is measured (logarithms; µs of a call): of the size of spec-only intervals
LEAST_CALL = 0.2  # of the fixed parts that are always left: a call costs something
NOISE = 0.02  # the least that cases scatter by, of logarithm
Z90 = 1.645
FEWEST = 4  # cases of a family, below which nothing is learnt of it
STEPS = 40


@dataclass(frozen=True)
class Factor:
    """A value and its 90 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Learnt:
    """Of one family. `dtypes` are arithmetic factors of the types in the sweep; other types take `arithmetic`."""

    cases: int
    arithmetic: Factor
    memory: Factor
    host: Factor
    call_s: Factor
    dtypes: Mapping[str, Factor] = field(default_factory=dict)
    before: float = 0.0  # mean absolute error of the sweep's own cases, by published figures
    after: float = 0.0  # the same by the factors learnt from them
    scatter: float = NOISE  # robust standard deviation of log measured ÷ expected that is left


@dataclass(frozen=True)
class Calibration:
    """What a sweep on one machine has taught, and where it comes from. `facts` were measured as they are, in seconds."""

    machine: str
    device: str
    name: str
    driver: str
    target: str
    date: str
    run: str
    families: Mapping[str, Learnt]
    facts: Mapping[str, Factor] = field(default_factory=dict)
    disturbed: tuple[str, ...] = ()  # cases whose numbers are of rounds beside other programs: too few others were left

    @property
    def disturbed_words(self) -> str:
        """How many of its cases other programs disturbed; "" for none."""
        count = len(self.disturbed)
        return f"{count} of its cases {'was' if count == 1 else 'were'} measured beside other programs" if count else ""

    @property
    def words(self) -> str:
        """How sure what follows from it is."""
        where = "the simulated GPU" if self.target == "simulated" else "this machine"
        return f"published figures and a sweep on {where} ({self.date})"


class CalibrationSweep(NamedTuple):
    """Cases of one family as arrays: the parts of their expected time, their types, the measured seconds."""

    parts: Parts
    dtypes: NDArray[np.str_]
    seconds: Floats


class CalibrationGroups(NamedTuple):
    """Seconds of each case by what scales them. `host` is the host's own time, of which a part overlaps with the device."""

    arithmetic: Floats
    memory: Floats
    fixed: Floats
    host: Floats


def groups(parts: Parts) -> CalibrationGroups:
    """The parts of an estimate, summed by what scales them."""
    zero = np.zeros(len(next(iter(parts.values()))))
    arithmetic, memory = (np.sum([zero, *(parts[n] for n in names if n in parts)], axis=0) for names in (ARITHMETIC, MEMORY))
    fixed = np.sum([zero, *(v for n, v in parts.items() if n not in (*ARITHMETIC, *MEMORY, HOST))], axis=0)
    device, added = arithmetic + memory + fixed, parts.get(HOST, zero)
    return CalibrationGroups(
        arithmetic, memory, fixed, np.maximum((device + added) ** HOST_POWER - device**HOST_POWER, 0.0) ** (1 / HOST_POWER)
    )


# ---------------------------------------------------------------- learning


def learn(swept: CalibrationSweep) -> Learnt:
    """Factors of one family from its cases: least squares of logarithms, outliers weighed down (Cauchy), pulled towards no change."""
    found, types = groups(swept.parts), sorted(set(swept.dtypes.tolist()))
    place = np.array([types.index(one) for one in swept.dtypes])
    pull = np.array([PULL["arithmetic"], PULL["memory"], PULL["host"], PULL["call"], *[PULL["dtype"]] * len(types)])

    def missed(v: Floats) -> Floats:
        seconds = _seconds(found, np.exp(v[0] + v[4:][place]), np.exp(v[1]), np.exp(v[2]), 1e-6 * v[3])
        return np.asarray(np.log(swept.seconds / seconds))

    v, covariance, scatter = _solve(missed, pull)
    sigma = np.sqrt(np.diag(covariance))
    common = [_factor(v[i], sigma[i]) for i in range(3)]
    own = {
        name: _factor(v[0] + v[4 + i], float(np.sqrt(covariance[0, 0] + covariance[4 + i, 4 + i] + 2 * covariance[0, 4 + i])))
        for i, name in enumerate(types) if name
    }  # fmt: skip
    call = Factor(*(1e-6 * float(v[3] + z * sigma[3]) for z in (0.0, -Z90, Z90)))
    before, after = (float(np.mean(np.abs(np.expm1(-missed(one))))) for one in (0 * v, v))
    return Learnt(len(swept.seconds), common[0], common[1], common[2], call, own, before, after, scatter)


def _solve(missed: Any, pull: Floats) -> tuple[Floats, Floats, float]:
    """Values, their covariance and the scatter that is left, by Gauss and Newton's method with weights renewed at each step."""
    v, prior = np.zeros(len(pull)), np.diag(pull**-2)
    scatter, covariance = 1.0, np.diag(pull**2)
    for _ in range(STEPS):
        r = missed(v)
        slope = np.stack([(missed(v + step) - r) / 1e-4 for step in 1e-4 * np.eye(len(v))], axis=1)
        scatter = max(1.4826 * float(np.median(np.abs(r))), NOISE)
        weight = 1 / (1 + (r / (2 * scatter)) ** 2) / scatter**2
        covariance = np.linalg.inv(slope.T @ (weight[:, None] * slope) + prior)
        step = -covariance @ (slope.T @ (weight * r) + prior @ v)
        v = v + np.clip(step, -3 * pull, 3 * pull)
        if np.all(np.abs(step) < 1e-5 * pull):
            break
    return v, covariance, scatter


def _factor(log: float, sigma: float) -> Factor:
    return Factor(*(float(np.exp(log + z * sigma)) for z in (0.0, -Z90, Z90)))


def _seconds(grouped: CalibrationGroups, arithmetic: Any, memory: Any, host: Any, call_s: float) -> Floats:
    device = arithmetic * grouped.arithmetic + memory * grouped.memory + np.maximum(grouped.fixed + call_s, LEAST_CALL * grouped.fixed)
    return np.asarray((device**HOST_POWER + (host * grouped.host) ** HOST_POWER) ** (1 / HOST_POWER))


# ---------------------------------------------------------------- using


def scaled(learnt: Learnt, parts: Parts, dtype: str | NDArray[Any]) -> dict[str, Floats]:
    """The parts of an estimate as the sweep says they are on its machine; they add up to the expected time."""
    grouped = groups(parts)
    count = len(grouped.fixed)
    names = np.broadcast_to(np.asarray(dtype, dtype=str), (count,))
    known = {name: learnt.dtypes.get(name, learnt.arithmetic).value for name in set(names.tolist())}
    arithmetic = np.array([known[name] for name in names.tolist()])
    by: dict[str, Any] = {**dict.fromkeys(ARITHMETIC, arithmetic), **dict.fromkeys(MEMORY, learnt.memory.value)}
    new: dict[str, Floats] = {name: value * by.get(name, 1.0) for name, value in parts.items() if name != HOST}
    new[CALL] = np.maximum(learnt.call_s.value, (LEAST_CALL - 1.0) * grouped.fixed)
    if HOST in parts:
        whole = _seconds(grouped, arithmetic, learnt.memory.value, learnt.host.value, learnt.call_s.value)
        new[HOST] = whole - np.sum(list(new.values()), axis=0)
    return new


def fact(result: Result) -> Factor | None:
    """Seconds of one call by the median of rounds, between the least and the most of them; None where nothing was measured."""
    values = [nominal_s(result.case, value) for value in result.values if value > 0]
    return Factor(median(values), min(values), max(values)) if result.status == "measured" and values else None


def is_disturbed(result: Result) -> bool:
    """Whether its number is of disturbed rounds: too few others were left. It counts, and is marked."""
    return result.status == "measured" and any(map(disturbed, result.used))


def enough(families: Mapping[str, Sequence[object]]) -> list[str]:
    """Families with enough cases to learn from. Raises InputError where there is none."""
    names = [name for name, cases in families.items() if len(cases) >= FEWEST]
    if not names:
        seen = ", ".join(f"{len(cases)} of {name}" for name, cases in families.items()) or "none"
        raise InputError(
            f"too few measured cases that the model knows ({seen}; at least {FEWEST} of a family): nothing can be learnt; "
            "measure the plan 'calibrate' on a GPU of the machine table"
        )
    return names

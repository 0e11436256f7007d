"""Which of several devices, each on both sides, changed otherwise than the others.

A device is compared with the median change of the others, with the error of both: rounds of one run are taken in step where a run holds
them all, so that what a run does to all of them cancels. The worst is named first and is no longer one of the others then, so that it
does not make healthy ones look good. A majority has to agree: of two devices that differ nobody can say which is off.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.analysis.matching import FEWEST_RUNS, Unit, Values
from hotlap.core.record import OnDevice
from hotlap.core.stats import multiple_testing
from hotlap.core.stats.drift import Drift
from hotlap.core.stats.pooled_t import LEAST_SD, t_ratio
from hotlap.core.stats.ratio import Ratio, allowing, beyond, ratio, serial_sides, verdict, welch

Floats = NDArray[np.float64]
OF_MEDIAN = math.pi / 2  # variance of a median over that of a mean, of many normal values; of few it is less
Answer = Literal["better", "worse", "like the others", "inconclusive", "split"]
ANSWERS: Mapping[str, Answer] = {"larger": "better", "smaller": "worse", "same": "like the others", "inconclusive": "inconclusive"}
Side = Mapping[str, Mapping[str, Floats]]
"""By RunRecord.id and device: logarithms of each round about the device's own level, up is better."""


class DeviceChange(NamedTuple):
    """A shift of logarithms, above 0 is better in B, and the variance of that shift."""

    shift: float
    variance: float
    freedom: float  # degrees of freedom of the variance
    counts: tuple[int, int]  # values of each side

    def ratio(self) -> Ratio:
        least = LEAST_SD * math.sqrt(sum(1 / count for count in self.counts))
        freedom = math.floor(20 * self.freedom) / 20  # so that few quantiles are needed
        return t_ratio(self.shift, max(math.sqrt(self.variance), least), freedom, self.counts)


@dataclass(frozen=True)
class Peers:
    """One case on the devices of both sides."""

    own: Mapping[str, Ratio]  # of each device alone; above 1: the second side is better
    sides: tuple[Side, Side]
    changes: Mapping[str, DeviceChange]  # of those with enough values on both sides for a test

    def beside(self, apart: Sequence[str] = ()) -> dict[str, Ratio]:
        """Each that can be tested against the others. Those `apart` are neither."""
        there = [device for device in self.changes if device not in apart]
        shifts = np.array([self.changes[device].shift for device in there])
        far = dict(zip(there, np.abs(shifts[:, None] - shifts), strict=True)) if len(there) > 1 else {}
        return {device: self._against(device, there, each).ratio() for device, each in far.items()}

    def _against(self, device: str, there: Sequence[str], far: Floats) -> DeviceChange:
        """Of an even number of others the farthest does not count, so that the median is of one of them: the nearer where two disagree."""
        skip = int(np.argmax(far)) if len(there) % 2 else -1
        others = [one for n, one in enumerate(there) if n != skip and one != device]
        if all(set(members).issuperset(others) for side in self.sides for members in side.values() if device in members):
            a, b = (_in_step(side, device, others) for side in self.sides)
            return _change(*_replicates(a, b))
        own, rest = self.changes[device], [self.changes[one] for one in others]
        wide = (1.0 if len(rest) == 1 else OF_MEDIAN) / len(rest) ** 2
        variance = own.variance + wide * sum(one.variance for one in rest)
        parts = [(own.variance, own.freedom), *((wide * one.variance, one.freedom) for one in rest)]
        shares = sum(part**2 / freedom for part, freedom in parts)  # Satterthwaite, Biometrics Bulletin 2 (1946) 110
        # a variance that is small by chance would be lent the others' freedom: of 40 healthy devices one was named in 8 % of fleets
        least = min(freedom for _, freedom in parts[: 2 if len(rest) == 1 else 1])
        freedom = min(least, variance**2 / shares) if shares else least
        return DeviceChange(own.shift - statistics.median(one.shift for one in rest), variance, freedom, own.counts)


def peers(a: Values, b: Values, devices: Sequence[str], lower: bool, drift: Drift | None = None) -> Peers | None:
    """None for one device, and where a value is zero or less. `lower`: whether less is better; `drift`: of a device's own ratio.
    Assumes normal logarithms (Welch): ranks of 4 runs cannot be sure of one device in many.
    """
    if len(devices) < 2 or min((v for side in (a, b) for values in side.values() for v in values), default=0.0) <= 0:
        return None
    sides = _about_levels([{unit: (-1 if lower else 1) * np.log(values) for unit, values in side.items()} for side in (a, b)])
    own, changes = {}, {}
    for device in devices:
        x, y = _replicates(*([members[device] for members in side.values() if device in members] for side in sides))
        if min(len(x), len(y)) >= FEWEST_RUNS:
            changes[device] = _change(x, y)
        alone = changes[device].ratio() if device in changes else ratio(np.exp(x), np.exp(y))  # which says the shift, and no interval
        own[device] = allowing(alone, drift) if drift else alone
    return Peers(own, sides, changes)


def slower(device: OnDevice, min_effect: float) -> bool:
    """Whether a device that is worse than the others, or than the other where no majority agrees, is slower than it was, too."""
    worse = device.answer == "worse" or (device.answer == "split" and (device.vs_peers or 1.0) < 1)
    return worse and beyond(device.low, device.high, min_effect) == "smaller"


def _about_levels(sides: Sequence[Mapping[Unit, Floats]]) -> tuple[Side, Side]:
    """By run, each device's logarithms less the middle of its means on both sides."""
    of: dict[str, list[float]] = {}
    for side in sides:
        each: dict[str, list[Floats]] = {}
        for (_, device), logs in side.items():
            each.setdefault(device, []).append(logs)
        for device, kept in each.items():
            of.setdefault(device, []).append(float(np.concatenate(kept).mean()))
    levels = {device: statistics.fmean(both) for device, both in of.items()}
    found: list[dict[str, dict[str, Floats]]] = [{}, {}]
    for runs, side in zip(found, sides, strict=True):
        for (run, device), logs in side.items():
            runs.setdefault(run, {})[device] = logs - levels[device]
    return found[0], found[1]


def _in_step(side: Side, device: str, others: Sequence[str]) -> list[Floats]:
    """Run by run, each round of a device less the median of the others in that round."""
    found = []
    for members in side.values():
        if device in members:
            least = min(len(members[one]) for one in (device, *others))
            found.append(members[device][:least] - np.median([members[one][:least] for one in others], axis=0))
    return found


def _replicates(a: Sequence[Floats], b: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Medians of runs where there are enough on both sides, else all rounds."""
    if min(len(a), len(b)) >= FEWEST_RUNS:
        return np.array([np.median(one) for one in a]), np.array([np.median(one) for one in b])
    return np.concatenate(a), np.concatenate(b)


def _change(a: Floats, b: Floats) -> DeviceChange:
    x, y = a[None], b[None]
    shift, variance, freedom = welch(x, y)
    return DeviceChange(float(shift[0]), float((variance * serial_sides(x, y))[0]), float(freedom[0]), (len(a), len(b)))


# ---------------------------------------------------------------- all cases together


def judged(cases: Sequence[Peers | None], margins: Sequence[float]) -> list[list[OnDevice]]:
    """Each case's devices, the worst first. `margins`: the smallest difference that is called one, a share, of each case.

    The error rate is of the family, all devices and cases (Holm): the chance that any healthy device is named is at most 5 %.
    """
    naming = [_Naming(one, margin) for one, margin in zip(cases, margins, strict=True) if one]
    while True:
        adjusted = iter(multiple_testing.holm([ratio.p for one in naming for ratio in one.beside.values()]))
        chances = [{device: next(adjusted) for device in one.beside} for one in naming]
        steps = [one.step(q) for one, q in zip(naming, chances, strict=True)]
        if not any(steps):
            break
    answers = iter([one.answers(q) for one, q in zip(naming, chances, strict=True)])
    return [next(answers) if one else [] for one in cases]


class _Naming:
    """One case while its devices are named, the worst first."""

    def __init__(self, of: Peers, margin: float) -> None:
        self.of, self.margin = of, margin
        self.named: dict[str, tuple[Ratio, float | None]] = {}
        self.beside = of.beside()
        self.split = False  # no majority agrees

    def step(self, q: Mapping[str, float | None]) -> bool:
        """Names the worst that differs, if there is one; where it leaves no majority, nobody is named."""
        off = [device for device in self.beside if not self.split and self._answer(device, q) in ("better", "worse")]
        if not off:
            return False
        worst = max(off, key=lambda device: abs(math.log(self.beside[device].ratio or 1.0)))
        self.named[worst] = self.beside[worst], q[worst]
        self.split = 2 * len(self.named) >= len(self.of.changes)
        if self.split:
            self.named = {}
        self.beside = self.of.beside(list(self.named))
        return True

    def _answer(self, device: str, q: Mapping[str, float | None]) -> Answer:
        return ANSWERS[verdict(self.beside[device], margin=self.margin, p=q[device])]

    def answers(self, q: Mapping[str, float | None]) -> list[OnDevice]:
        return sorted((self._on_device(device, q) for device in self.of.own), key=lambda one: one.vs_peers or 1.0)

    def _on_device(self, device: str, q: Mapping[str, float | None]) -> OnDevice:
        own = self.of.own[device]
        answer: Answer = "inconclusive"
        beside, chance = self.named.get(device, (self.beside.get(device), q.get(device)))
        if beside:
            answer = ANSWERS[verdict(beside, margin=self.margin, p=chance)]
        if self.split and answer in ("better", "worse"):
            answer = "split"
        return OnDevice(
            device=device, ratio=own.ratio, low=own.low, high=own.high, vs_peers=beside.ratio if beside else None,
            p=beside.p if beside else None, q=chance, answer=answer,
        )

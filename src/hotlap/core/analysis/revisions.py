"""Revisions of the code that runs were made with, and the steps between them where a series is too short to be tested point by point.

A handful of runs, one or a few per revision, says nothing to a test that needs seven points on either side. The step at each border
between revisions is then compared with what neighbouring runs of the series differ by elsewhere; with too few runs for that, against
the rounds of the runs on both sides.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from hotlap.core.analysis import environment
from hotlap.core.record import Case, Change, Result, RunRecord
from hotlap.core.stats import student
from hotlap.core.stats.ratio import ratio
from hotlap.core.store.sides import REVISIONS

KERNEL = "kernel "  # how the revision of a kernel of the user's begins among the machine's software
SHORT = 20  # points of a series, between boundaries: longer ones are tested point by point
CHANCE = 0.01  # of a false step in one series
MIN_EFFECT = 0.02  # the smallest step between revisions that is worth mentioning
FEWEST = 4  # differences between neighbouring runs, beside the one in question, from which their scatter is known
EFFICIENCY = 0.6  # of the median absolute deviation beside the standard deviation, small samples: degrees of freedom for each difference
LEAST_SD = 1e-6  # of logarithms: numbers without any noise

Floats = NDArray[np.float64]


class Shift(NamedTuple):
    """Of logarithms, across a border, with its 95 % interval."""

    shift: float
    low: float
    high: float
    p: float


def revision(run: RunRecord, case: Case | None = None) -> str:
    """As the run was labelled, else that of the user's kernel which a case is of; "" where neither is known."""
    own = [run.machine.software.get(f"{KERNEL}{name}", "") for name in (case.implementation, case.workload)] if case else []
    return next((one for one in [*(run.labels.get(name, "") for name in REVISIONS), *own] if one), "")


def concerns(name: str, case: Case) -> bool:
    """Whether a fact of the environment can concern a case: the revision of another kernel of the user's cannot."""
    kernel = name.removeprefix("software.")
    return not kernel.startswith(KERNEL) or kernel.removeprefix(KERNEL) in (case.implementation, case.workload)


def mark(run: RunRecord, case: Case) -> str:
    """What could have changed a kernel: its revision, libraries and the driver."""
    drivers = ",".join(device.driver for device in run.machine.devices if device.key in run.devices)
    software = sorted(run.machine.software.items())
    libraries = [f"{name}={v}" for name, v in software if concerns(name, case) and not environment.harmless(f"software.{name}")]
    return " ".join([revision(run, case), drivers, *libraries])


def with_steps(
    changes: Sequence[Change], results: Sequence[Result], runs: Sequence[RunRecord], times: Sequence[float], cuts: Sequence[int],
    min_effect: float,
) -> list[Change]:
    """What was found point by point, with the steps between revisions of stretches and recent ends too short for it, in order."""
    steps = list(changes)
    edges = sorted({0, *cuts, len(runs)})
    for start, end in pairwise(edges):
        settled = [one.index for one in changes if start < one.index < end and not one.provisional]
        recent = max([start, end - SHORT, *settled])  # what came since is too short to be tested point by point
        if end - recent >= 2:
            own = _steps(results[recent:end], runs[recent:end], min_effect)
            if own:  # a provisional one is said better by its border
                steps = [one for one in steps if not recent < one.index < end]
            steps += [_at(one, recent, times) for one in own]
    return sorted(steps, key=lambda one: one.index)


def _at(change: Change, start: int, times: Sequence[float]) -> Change:
    return replace(change, index=change.index + start, time=times[change.index + start])


def _steps(results: Sequence[Result], runs: Sequence[RunRecord], min_effect: float) -> list[Change]:
    """Of one stretch: neighbouring blocks of one revision each."""
    if min((v for one in results for v in one.values), default=0.0) <= 0:
        return []
    marks = [mark(run, one.case) for run, one in zip(runs, results, strict=True)]
    borders = [0, *(n for n in range(1, len(marks)) if marks[n] != marks[n - 1]), len(marks)]
    values = np.log([statistics.median(one.values) for one in results])
    steps, share = [], CHANCE / max(len(borders) - 2, 1)
    for start, border, end in zip(borders, borders[1:], borders[2:], strict=False):
        rest = np.delete(np.diff(values), border - 1)
        known = len(rest) >= FEWEST
        seen = _by_runs(values, (start, border, end), rest) if known else _by_rounds(results[start:border], results[border:end], share)
        if seen and seen.p <= share and abs(seen.shift) >= math.log1p(max(min_effect, MIN_EFFECT)):
            before, after = (float(np.exp(np.median(values[a:b]))) for a, b in ((start, border), (border, end)))
            ends = [math.exp(one) for one in (seen.shift, seen.low, seen.high)]
            fresh = not known or (end == len(runs) and end - border == 1)  # one run says little of a level, rounds little of runs
            steps.append(Change(
                index=border, before=before, after=after, ratio=ends[0], low=ends[1], high=ends[2], p=seen.p, provisional=fresh,
            ))
    return _without_outliers(steps)


def _without_outliers(changes: Sequence[Change]) -> list[Change]:
    """One run that lies apart from both its neighbours, which agree, makes no two changes."""
    gone: set[int] = set()
    for one, two in pairwise(changes):
        if two.index - one.index == 1 and abs(math.log(two.after / one.before)) < abs(math.log(one.ratio)) / 2:
            gone |= {one.index, two.index}
    return [one for one in changes if one.index not in gone]


def _by_runs(values: Floats, place: tuple[int, int, int], rest: Floats) -> Shift:
    """Student's t with the scatter of neighbouring runs elsewhere in the series, taken robustly: other steps among them hardly count."""
    start, border, end = place
    sd = max(1.4826 * float(np.median(np.abs(rest))) / math.sqrt(2), LEAST_SD)
    shift = float(np.median(values[border:end]) - np.median(values[start:border]))
    error = sd * math.sqrt(1 / (border - start) + 1 / (end - border))
    df = max(EFFICIENCY * len(rest), 1.0)
    reach = student.quantile(0.975, df) * error
    return Shift(shift, shift - reach, shift + reach, student.two_sided(shift / error, df))


def _by_rounds(before: Sequence[Result], after: Sequence[Result], share: float) -> Shift | None:
    """With too few runs for that: by their rounds, which do not know what differs from run to run. Where there are too few even for ranks
    to give such a chance, normal noise is assumed."""
    sides = [[v for one in side for v in one.values] for side in (before, after)]
    a, b = map(len, sides)
    seen = ratio(*sides) if 2 / math.comb(a + b, a) <= share else ratio(*sides, assume="normal")
    if not seen.ratio or seen.p is None:
        return None
    return Shift(math.log(seen.ratio), math.log(seen.low or seen.ratio), math.log(seen.high or seen.ratio), seen.p)

"""Whether the samples of one round can be right: the answer was, and the device's timer agrees with the wall clock.

A device's interval lies within the wall clock's, so an honest device timer never shows more than the wall clock, and on a host
that delays some samples it shows as much in at least one of them. What is disturbed by others is left out. Where the samples
at hand do not settle it, longer batches do: what a sample costs besides the work is then a smaller share of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hotlap.core.record import Check

Cause = Literal["", "wrong_result", "tampered", "timers"]
APART_SHARE, APART_S = 0.015, 10e-6  # device timer and wall clock may differ by both together
MORE_SHARE = 0.02  # of the samples may show more than the wall clock before it counts: clocks are read one after the other
SUSPECT_SHARE = 0.005  # by which, and by APART_S, a single sample that shows more than the wall clock makes a second look worth it
SECOND_LOOKS, LONGER = 24, 8  # batches more, each so many times as long, before timers count as disagreeing


class Validity(NamedTuple):
    """Status of the samples of a round; cause and reason where they are invalid."""

    status: Literal["measured", "invalid"] = "measured"
    cause: Cause = ""
    reason: str = ""


class Timers(NamedTuple):
    """Of batches: seconds by the device's timer, by the wall clock, and the least that timing nothing costs by the wall clock."""

    device_s: Sequence[float]
    wall_s: Sequence[float]
    cost_s: float


def validity(check: Check, timers: Timers | None, again: Callable[[], Timers]) -> Validity:
    """`timers`: of the samples that nothing disturbed; None where only one timer was read. `again`: longer batches, taken when needed."""
    if not check.passed:
        found = "" if check.error is None else f": error {check.error} against {check.tolerance} allowed"
        return Validity("invalid", "wrong_result", f"wrong result: {check.what}{found}" if found else check.what)
    if timers is None or not len(timers.wall_s):
        return Validity()
    if max(timers.wall_s) <= 0:
        return Validity("invalid", "timers", "the wall clock did not advance during any sample: its timer stands still or runs backwards")
    if (disagreement(timers) or _suspect(timers)) and (reason := disagreement(again())):
        return Validity("invalid", "timers", reason)
    return Validity()


def disagreement(timers: Timers) -> str:
    """Why the timers cannot both be right; "" where they can."""
    device, wall = np.asarray(timers.device_s, np.float64), np.asarray(timers.wall_s, np.float64)
    if not len(wall):
        return ""
    apart = APART_SHARE * wall + APART_S
    ratio = float(np.median(device / np.maximum(wall - timers.cost_s, 1e-9)))
    if np.count_nonzero(device > wall + apart) > MORE_SHARE * len(wall):
        return f"timers disagree: the device's timer shows {ratio:.3g} times the wall clock, more than can have passed"
    if not np.any(device >= wall - timers.cost_s - apart):
        return f"timers disagree: the device's timer shows {ratio:.3g} times the wall clock in every undisturbed sample"
    return ""


def _suspect(timers: Timers) -> bool:
    """Whether any sample shows more than the wall clock: on a host that delays most samples few show that a timer runs fast."""
    wall = np.asarray(timers.wall_s, np.float64)
    return bool(np.any(np.asarray(timers.device_s, np.float64) > wall * (1 + SUSPECT_SHARE) + APART_S))


def ratio(device_s: ArrayLike, wall_s: ArrayLike, cost_s: float) -> float:
    """Median of device timer ÷ wall clock over samples."""
    return float(np.median(np.asarray(device_s, np.float64) / np.maximum(np.asarray(wall_s, np.float64) - cost_s, 1e-9)))

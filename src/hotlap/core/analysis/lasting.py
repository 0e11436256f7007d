"""What a run says beyond its medians: whether a rate lasts, and how many calls miss a deadline.

Both are read from the rounds that are kept, of runs that were asked for them: `sustain` and `deadline` of a plan.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hotlap.core.record import MeasureOptions, Record, Result, Samples
from hotlap.core.stats import binomial, series
from hotlap.core.stats import ratio as ratios

FIRST = 6  # rounds that are "at first": the fewest with an interval
LAST = 4  # the last of so many parts of the rounds is "at last", six rounds at least
MARGIN = 0.02  # a change below it is none
SMOOTH = 5  # rounds of a running median
SPREADS = 3.0  # robust standard deviations of the last rounds, and 2 % at least, within which a rate is that of the end


class SustainedRate(Record, frozen=True, kw_only=True):
    """One case on one device over the time of a run, in the unit of the case. A ratio below 1 is worse, whichever way the metric points."""

    first: float  # median of the first six rounds
    last: float  # of the last quarter of rounds
    ratio: float | None = None  # last against first
    low: float | None = None  # its 95 % interval
    high: float | None = None
    answer: Literal["holds", "falls", "rises", "inconclusive"] = "inconclusive"
    steady_s: float | None = None  # since the first round began, from when the rate is that of the end; None: not before the last quarter
    seconds: float = 0.0  # from the first round to the end of the last
    rounds: int = 0


class MissedDeadlines(Record, frozen=True, kw_only=True):
    """Calls of one case on one device that took longer than the deadline."""

    deadline_s: float
    calls: int = 0
    missed: int = 0
    share: float | None = None
    low: float | None = None  # its 95 % interval: exact, of as many independent calls as rounds show them to be worth
    high: float | None = None
    streak: int = 0  # most in a row, within a round
    reason: str = ""  # why there is none of this


def sustained(result: Result) -> SustainedRate | str:
    """Or why there is none, in words."""
    rounds, values = result.used, np.array(result.values)
    if len(values) < 2 * FIRST:
        return f"{len(values)} rounds are too few: {FIRST} at first and {FIRST} at last; sustain it longer, or with a shorter round_time"
    part = max(FIRST, len(values) // LAST)
    first, last = values[:FIRST], values[-part:]
    before, after = (first, last) if result.better == "higher" else (last, first)
    found = ratios.ratio(before, after)
    began_s = rounds[0].began_s
    return SustainedRate(
        first=float(np.median(first)), last=float(np.median(last)), ratio=found.ratio, low=found.low, high=found.high,
        answer=_answer(found.low, found.high),
        steady_s=_steady_s(rounds, values, part, began_s), seconds=rounds[-1].ended_s - began_s, rounds=len(values),
    )  # fmt: skip


def _answer(low: float | None, high: float | None) -> Literal["holds", "falls", "rises", "inconclusive"]:
    if low is None or high is None:
        return "inconclusive"
    if called := ratios.beyond(low, high, MARGIN):
        return "rises" if called == "larger" else "falls"
    return "holds" if low * (1 + MARGIN) >= 1 >= high / (1 + MARGIN) else "inconclusive"


def _steady_s(rounds: Sequence[Samples], values: NDArray[np.float64], part: int, began_s: float) -> float | None:
    """When the running median comes to that of the last rounds, for good. Their spread is that from round to round: a drift is none."""
    end, steps = float(np.median(values[-part:])), np.diff(values[-part:])
    spread = series.MAD_TO_SD / math.sqrt(2) * float(np.median(np.abs(steps - np.median(steps))))
    padded = np.pad(values, SMOOTH // 2, mode="edge")
    smooth = np.median(np.lib.stride_tricks.sliding_window_view(padded, SMOOTH), axis=1)
    off = np.flatnonzero(np.abs(smooth - end) > max(MARGIN * abs(end), SPREADS * spread))
    if not len(off):
        return 0.0
    return rounds[off[-1] + 1].began_s - began_s if off[-1] + 1 <= len(values) - part else None


def deadlines(result: Result, deadline_s: float) -> MissedDeadlines:
    """Of all calls of all rounds that are used."""
    rounds = [one for one in result.used if one.values]
    if not rounds:
        return MissedDeadlines(deadline_s=deadline_s, reason="no round gave a time")
    if any(one.unit != "s" for one in rounds):
        return MissedDeadlines(deadline_s=deadline_s, reason="its numbers are a program's own, and no times of calls")
    together = max(one.calls for one in rounds)
    if together > 1:
        return MissedDeadlines(deadline_s=deadline_s, reason=f"{together} calls were timed together, which hides each one's time")
    missed = [np.array(one.values) > deadline_s for one in rounds]
    share = binomial.over_rounds([int(one.sum()) for one in missed], [len(one) for one in missed])
    return MissedDeadlines(
        deadline_s=deadline_s, calls=sum(map(len, missed)), missed=sum(int(one.sum()) for one in missed), share=share.share,
        low=share.low, high=share.high, streak=max(map(_streak, missed)),
    )  # fmt: skip


def _streak(missed: NDArray[np.bool_]) -> int:
    edges = np.diff(np.concatenate([[0], missed.astype(np.int8), [0]]))
    begins, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    return int((ends - begins).max()) if len(begins) else 0


def document(result: Result, asked: MeasureOptions | None) -> dict[str, object]:
    """What `--json` has of it, under `sustained` and `deadline`."""
    answers: dict[str, object] = {}
    if asked and asked.sustain_s and result.values:
        found = sustained(result)
        answers["sustained"] = {"reason": found} if isinstance(found, str) else found
    if asked and asked.deadline_s and result.values:
        answers["deadline"] = deadlines(result, asked.deadline_s)
    return answers

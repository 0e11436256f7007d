"""Batch against throughput, step time, peak memory and energy: a point for each value, over its fresh processes.

A point is on the frontier unless another is surely as good in everything that is known of both, and better in something: the intervals
must not overlap (`core.analysis.frontier.front`). A value whose program ran out of memory is a point too: with the reason, without numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from msgspec.structs import replace

from hotlap.core.analysis.frontier import FrontierSpan, Sense, front
from hotlap.core.record import Notice, Record
from hotlap.training import joules, summary
from hotlap.training.expected_gap import ExpectedGap
from hotlap.training.expected_record import ExpectedStep
from hotlap.training.reading import MeasuredProcess, TrainingRun
from hotlap.training.record import Floats, TrainingAsked, TrainingProcess
from hotlap.training.session import varied
from hotlap.training.summary import ProcessEstimate

KNEE = 0.9  # of the most throughput
FIT = 3  # points that a line through step times needs
KILLED = 137  # the exit code of SIGKILL, as the system sends it where memory runs out
MEMORY_WORDS = ("out of memory", "can't allocate memory", "cannot allocate memory", "not enough memory")
MEMORY_TYPES = ("OutOfMemoryError", "MemoryError")
Lost = Literal["", "memory", "killed", "failed", "time", "no_steps", "not_run"]


class BatchPoint(Record, frozen=True, kw_only=True):
    """One value. Without a `step_s` it is `lost`, and `reason` says why."""

    value: int
    arm: str
    processes: int = 0
    step_s: ProcessEstimate | None = None
    throughput: ProcessEstimate | None = None  # of the frontier's unit, per second
    memory_bytes: ProcessEstimate | None = None  # most of a process; low and high are the least and the most of all
    joules: ProcessEstimate | None = None  # per unit; None: no sensor
    front: bool = False
    expected: ExpectedStep | None = None
    expected_throughput: float | None = None
    gap: ExpectedGap | None = None
    lost: Lost = ""
    reason: str = ""


class StepLine(Record, frozen=True, kw_only=True):
    """Step time = fixed_s + each_s · value, by least squares of the relative error; half of the most throughput is reached at `half`."""

    fixed_s: float
    each_s: float
    half: float
    worst: float  # relative error of a point
    half_low: float | None = None  # as steps lie in their intervals; None: no half is known
    half_high: float | None = None


class BatchKnee(Record, frozen=True, kw_only=True):
    """The smallest value that reaches KNEE of the most throughput. `sure`: intervals leave no other value."""

    value: int
    share: float  # of the most
    sure: bool


class TrainingFrontier(Record, frozen=True, kw_only=True):
    asked: TrainingAsked
    unit: str  # of throughput: tokens, samples, or what is varied
    points: list[BatchPoint]  # in the order of the values
    axes: list[str] = []  # that the frontier is over
    knee: BatchKnee | None = None
    line: StepLine | None = None
    interrupted: bool = False
    notices: list[Notice] = []


def of(run: TrainingRun) -> TrainingFrontier:
    asked = run.trained.asked
    arms = {value: varied(asked, value, "").arm for value in asked.values}
    unit = _unit(run, asked)
    expected = {one.arm: one for one in run.trained.expected}
    interrupted = any(stop.kind == "interrupted" for stop in run.bundle.run.stops)
    points = [_point(run, value, arm, unit, expected.get(arm)) for value, arm in arms.items()]
    points, axes = _fronts(_modelled(points))
    figures = [figure for arm in arms.values() if (figure := summary.arm_of(run, arm)) is not None]
    return TrainingFrontier(
        asked=asked, unit=unit, points=points, axes=axes, knee=_knee(points), line=line(points), interrupted=interrupted,
        notices=summary.doubts(run, figures),
    )  # fmt: skip


# ---------------------------------------------------------------- points


def _good(run: TrainingRun, arm: str) -> list[list[MeasuredProcess]]:
    return [launch for launch in summary.launches(run, arm) if launch[0].steady.step_s]


def _unit(run: TrainingRun, asked: TrainingAsked) -> str:
    """What throughput counts: what every process says of itself, tokens first; else what is varied."""
    good = [one for value in asked.values for launch in _good(run, varied(asked, value, "").arm) for one in launch]
    for name in ("tokens", "samples"):
        if good and all(getattr(one.steady, name) is not None for one in good):
            return name
    return asked.vary.lstrip("-")


def _point(run: TrainingRun, value: int, arm: str, unit: str, expected: ExpectedStep | None) -> BatchPoint:
    launches, good = summary.launches(run, arm), _good(run, arm)
    figures = summary.arm_of(run, arm)
    lost, reason = _lost(run, [launch[0].process for launch in launches], bool(good))
    if not good or figures is None:
        return BatchPoint(value=value, arm=arm, processes=len(launches), expected=expected, lost=lost, reason=reason)
    each = [(_units(launch, unit, value), launch[0].steady.step_s or math.nan) for launch in good]
    steps = [step_s for _, step_s in each]
    step_s = summary.centre(steps)
    spent = [found for launch in good if (found := joules.per_token(run.bundle, [launch])) is not None] if unit == "tokens" else []
    gap = summary.gap_of(figures, expected)
    return BatchPoint(
        value=value, arm=arm, processes=len(good), step_s=step_s, throughput=summary.centre([count / seconds for count, seconds in each]),
        memory_bytes=_memory(good), joules=summary.centre(spent), expected=expected, gap=gap, lost=lost, reason=reason,
    )  # fmt: skip


def _units(launch: Sequence[MeasuredProcess], unit: str, value: int) -> float:
    """Of one step, all ranks."""
    if unit not in ("tokens", "samples"):
        return float(value)
    ranks = launch if launch[0].process.world > 1 else launch[:1]
    return float(sum(getattr(one.steady, unit) for one in ranks))


def _memory(good: Sequence[Sequence[MeasuredProcess]]) -> ProcessEstimate | None:
    most = [max(one.process.allocated_bytes or one.process.rss_bytes or 0 for one in launch) for launch in good]
    known = [float(one) for one in most if one]
    if not known:
        return None
    return ProcessEstimate(value=float(np.median(known)), low=min(known), high=max(known), n=len(known))


def _lost(run: TrainingRun, processes: Sequence[TrainingProcess], measured: bool) -> tuple[Lost, str]:
    """What befell a value's programs, the first that failed."""
    if not processes:
        return "not_run", "it was not reached"
    for process in processes:
        error, output = process.error, f"; its output is in output-{process.number}.txt of the run"
        if process.ended == "interrupted" or error.type == "KeyboardInterrupt":
            continue
        if error.type in MEMORY_TYPES or any(word in error.message.lower() for word in MEMORY_WORDS):
            return "memory", f"out of memory: {_short(error.message) or error.type}"
        if process.exit_code == KILLED and process.ended != "time":
            return "killed", "killed by the system (signal 9), as where memory runs out"
        if error.type:
            return "failed", f"{error.type}: {_short(error.message)}{output}"
        if process.ended == "time":
            return "time", f"ended after its time, {run.trained.asked.limit_s:g} s; give --limit more"
        if process.exit_code:
            return "failed", f"ended with {process.exit_code} after {process.steps} steps{output}"
        if not process.steps:
            return "no_steps", "no step was made: no optimiser's step() after a backward(), and no t.step()"
    return ("", "") if measured else ("not_run", "it was interrupted before it had steady steps")


def _short(message: str) -> str:
    first = message.strip().partition("\n")[0]
    return first if len(first) <= 120 else f"{first[:119]}…"


def _modelled(points: Sequence[BatchPoint]) -> list[BatchPoint]:
    """With the throughput that the model expects: of a network a step has so many units for each of the value."""
    each = [one.throughput.value * one.step_s.value / one.value for one in points if one.throughput and one.step_s]
    if not each:
        return list(points)
    units = float(np.median(each))
    return [
        replace(one, expected_throughput=units * one.value / one.expected.seconds) if one.expected and one.expected.seconds else one
        for one in points
    ]  # fmt: skip


# ---------------------------------------------------------------- what follows from them


def _fronts(points: Sequence[BatchPoint]) -> tuple[list[BatchPoint], list[str]]:
    """Over throughput and step time, and over memory and energy where every point knows them."""
    measured = [one for one in points if one.step_s and one.throughput]
    if not measured:
        return list(points), []
    known: list[tuple[str, Sense]] = [("throughput", "most"), ("step_s", "least"), ("memory_bytes", "least"), ("joules", "least")]
    axes = [(name, sense) for name, sense in known if all(getattr(one, name) is not None for one in measured)]
    on = front([[_span(getattr(one, name)) for name, _ in axes] for one in measured], [sense for _, sense in axes])
    kept = {one.value: flag for one, flag in zip(measured, on, strict=True)}
    return [replace(one, front=kept.get(one.value, False)) for one in points], [name for name, _ in axes]


def _span(estimate: ProcessEstimate) -> FrontierSpan:
    """A value without an interval may be any: it beats nothing and is beaten by nothing."""
    if estimate.low is None or estimate.high is None:
        return FrontierSpan(-math.inf, math.inf)
    return FrontierSpan(estimate.low, estimate.high)


def _knee(points: Sequence[BatchPoint]) -> BatchKnee | None:
    rates = sorted(((one.value, one.throughput) for one in points if one.throughput), key=lambda pair: pair[0])
    if len(rates) < 2:
        return None
    most = max((rate for _, rate in rates), key=lambda rate: rate.value)
    place = next(place for place, (_, rate) in enumerate(rates) if rate.value >= KNEE * most.value)
    value, rate = rates[place]
    spans, top = [_span(one) for _, one in rates[: place + 1]], _span(most)
    reached = rate is most or spans[-1].low >= KNEE * top.high
    sure = reached and all(one.high < KNEE * top.low for one in spans[:-1]) and math.isfinite(top.high)
    return BatchKnee(value=value, share=rate.value / most.value, sure=sure)


def line(points: Sequence[BatchPoint]) -> StepLine | None:
    """None of fewer than FIT points, of points without an interval, and where intervals leave open whether a step grows with the value."""
    known = sorted((float(one.value), one.step_s.value, *_ends(one.step_s)) for one in points if one.step_s)
    if len(known) < FIT or not np.isfinite(known).all():
        return None
    value, seconds, low, high = np.array(known).T
    fixed_s, each_s = _fitted(value, seconds)
    place = np.linspace(0, 1, len(known))
    flat, steep = (_fitted(value, (1 - place) * a + place * b) for a, b in ((high, low), (low, high)))
    if flat[1] <= 0 or each_s <= 0 or low[-1] <= high[0]:
        return None
    worst = float(np.max(np.abs((fixed_s + each_s * value) / seconds - 1)))
    halves = (steep[0] / steep[1], flat[0] / flat[1]) if steep[0] > 0 and fixed_s > 0 else (None, None)
    return StepLine(fixed_s=fixed_s, each_s=each_s, half=max(fixed_s / each_s, 0.0), worst=worst, half_low=halves[0], half_high=halves[1])


def _ends(estimate: ProcessEstimate) -> tuple[float, float]:
    span = _span(estimate)
    return span.low, span.high


def _fitted(value: Floats, seconds: Floats) -> tuple[float, float]:
    """Fixed, and for each of the value, by the least relative error."""
    (fixed_s, each_s), *_ = np.linalg.lstsq(np.stack([1 / seconds, value / seconds], axis=1), np.ones(len(value)), rcond=None)
    return float(fixed_s), float(each_s)

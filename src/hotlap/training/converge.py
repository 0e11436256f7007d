"""Time to quality of two sides: MLPerf's olympic mean, a median with its interval, the convergence check, and a verdict.

The check is that of the rules of MLPerf Training on reference convergence points (mlcommons/training_policies, training_rules.adoc):
a mean that is smaller than a one-sided t test at 5 % allows has converged too fast. Reference and submission leave out their fastest and
slowest run, and both are given the reference's own population standard deviation.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from hotlap.core.record import Notice
from hotlap.core.stats import order, pooled_t, student
from hotlap.core.stats.ratio import FEWEST, Ratio, ratio, verdict
from hotlap.core.units import percent
from hotlap.training.converge_record import (
    Converged,
    ConvergeEstimate,
    ConvergeKept,
    ConvergeRun,
    ConvergeSide,
    ReferenceCheck,
)

ALPHA = 0.05
LOST = 1  # runs that may not converge: they count as the slowest, which is dropped
LEAST = 3  # runs of which the fastest and the slowest can be dropped
INTERVAL = 6  # runs that a 95 % interval of a median needs


class BatchReference(NamedTuple):
    """Runs of one batch."""

    batch: int
    mean: float
    sd: float
    kept: int  # runs, after the fastest and the slowest are dropped


def olympic(values: Sequence[float]) -> float | None:
    """The mean without the fastest and the slowest; what did not converge is infinite. None below three runs, or with two that did not."""
    if len(values) < LEAST or sum(math.isinf(value) for value in values) > LOST:
        return None
    return statistics.fmean(sorted(values)[1:-1])


def reference(batch: int, values: Sequence[float]) -> BatchReference | None:
    """None below three runs, and where one did not converge."""
    if len(values) < LEAST or not all(map(math.isfinite, values)):
        return None
    trimmed = sorted(values)[1:-1]
    return BatchReference(batch, statistics.fmean(trimmed), statistics.pstdev(trimmed), len(trimmed))


def least(known: BatchReference, runs: int) -> float:
    """The smallest olympic mean of so many runs that a one-sided t test at 5 % allows."""
    count = runs - 2
    freedom = known.kept + count - 2
    if known.sd == 0 or freedom < 1:
        return known.mean
    return known.mean - student.quantile(1 - ALPHA, freedom) * known.sd * math.sqrt(1 / known.kept + 1 / count)


def between(low: BatchReference, high: BatchReference, batch: int, runs: int) -> BatchReference:
    """Of a batch between two, as the rules interpolate; of so many runs as a reference needs."""
    share = (batch - low.batch) / (high.batch - low.batch)
    mean, sd = (a + share * (b - a) for a, b in ((low.mean, high.mean), (low.sd, high.sd)))
    return BatchReference(batch, mean, sd, 2 * runs - 2)


def check(a: ConvergeSide, b: ConvergeSide) -> ReferenceCheck:
    """B against A's runs, by their batch."""
    if why := _unlike(a, b):
        return ReferenceCheck(state="unknown", why=why)
    measured = olympic([_progress(run) for run in b.runs])
    if measured is None:
        return ReferenceCheck(state="unknown", why=_no_mean("B", b))
    batch = b.runs[0].batch or 0
    by_batch: dict[int, list[float]] = {}
    for run in a.runs:
        by_batch.setdefault(run.batch or 0, []).append(_progress(run))
    known = {size: one for size, values in sorted(by_batch.items()) if (one := reference(size, values))}
    return _against(known, batch, measured, len(b.runs))


def _against(known: dict[int, BatchReference], batch: int, measured: float, runs: int) -> ReferenceCheck:
    below, above = [size for size in known if size < batch], [size for size in known if size > batch]
    ends: list[int] = []
    if batch in known:
        chosen = known[batch]
    elif below and above:
        ends = [below[-1], above[0]]
        chosen = between(known[ends[0]], known[ends[1]], batch, runs)
    elif above:
        chosen = known[above[0]]
    elif below:
        why = f"A has no runs of a batch of {batch} or more; its largest is {below[-1]}"
        return ReferenceCheck(state="unknown", measured=measured, why=why)
    else:
        return ReferenceCheck(state="unknown", measured=measured, why=f"A has no batch with {LEAST} runs that all converged")
    bound = least(chosen, runs)
    speedup = chosen.mean / bound if bound > 0 else math.inf
    fields = {"mean": chosen.mean, "sd": chosen.sd, "least": bound, "speedup": speedup, "measured": measured}
    if measured < bound:
        return ReferenceCheck(state="too fast", interpolated=ends, **fields)  # type: ignore[arg-type]
    scale = max(chosen.mean / measured, 1.0) if batch in known or ends else 1.0
    why = "" if batch in known or ends else f"A's smallest batch is {chosen.batch}; B's, {batch}, needs no less"
    return ReferenceCheck(state="passes", interpolated=ends, scale=scale, why=why, **fields)


def _unlike(a: ConvergeSide, b: ConvergeSide) -> str:
    """Why nothing can be said of convergence."""
    units = {run.unit for run in (*a.runs, *b.runs) if run.unit}
    if len(units) > 1:
        return f"progress is counted in {' and '.join(sorted(units))}"
    batches = {run.batch for run in b.runs}
    if len(batches) > 1:
        return f"B's runs have batches of {', '.join(str(one or 'unknown') for one in sorted(batches, key=lambda one: one or 0))}"
    return ""


def _no_mean(name: str, side: ConvergeSide) -> str:
    lost = len(side.runs) - len(side.reached)
    if len(side.runs) < LEAST:
        return f"{name} has {len(side.runs)} runs, and {LEAST} are needed to drop the fastest and the slowest"
    return f"{lost} of {len(side.runs)} runs of {name} did not reach the target, and {LOST} may not"


def _progress(run: ConvergeRun) -> float:
    return run.progress if run.reached and run.progress is not None else math.inf


def _seconds(run: ConvergeRun) -> float:
    return run.seconds if run.reached and run.seconds is not None else math.inf


def estimate(values: Sequence[float]) -> ConvergeEstimate:
    """Of one side; the median takes what did not converge as larger than all, and its interval has no end there."""
    if not values:
        return ConvergeEstimate()
    ordered = sorted(values)
    middle = statistics.median(ordered)
    rank, _ = order.ranks(len(ordered))
    low, high = (ordered[rank - 1], ordered[-rank]) if rank else (None, None)
    return ConvergeEstimate(olympic=olympic(values), median=_finite(middle), low=_finite(low), high=_finite(high))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def side(name: str, runs: Sequence[ConvergeRun]) -> ConvergeSide:
    return ConvergeSide(
        name=name, runs=list(runs), seconds=estimate([_seconds(run) for run in runs]), progress=estimate([_progress(run) for run in runs]),
    )


def judge(kept: ConvergeKept) -> Converged:
    """The answer, from what is kept."""
    a, b = side(kept.asked.a, kept.a), side(kept.asked.b, kept.b)
    checked, notices = check(a, b), _notices(a, b)
    done = Converged(a=a, b=b, check=checked, answer="inconclusive", notices=notices)
    if kept.failed:
        return replace(done, reason=kept.failed)
    for name, one in (("A", a), ("B", b)):
        if len(one.reached) < len(one.runs) or not one.runs:
            lost = len(one.runs) - len(one.reached)
            return replace(done, reason=f"{lost} of {len(one.runs)} runs of {name} did not reach the target: no time of them is known")
    change = _ratio([_seconds(run) for run in a.runs], [_seconds(run) for run in b.runs])
    if change is None:
        return replace(done, reason=f"2 runs a side are needed; A has {len(a.runs)}, B {len(b.runs)}")
    if change.low is None:
        why = next((notice.text for notice in change.notices), "there is no interval")
        return replace(done, ratio=change.ratio, reason=why)
    return _answered(replace(done, ratio=change.ratio, low=change.low, high=change.high), change, kept.asked.min_effect)


def _answered(done: Converged, change: Ratio, min_effect: float) -> Converged:
    called = verdict(change, margin=min_effect)
    if called in ("larger", "smaller"):
        where = "slower" if called == "larger" else "faster"
        if where == "faster" and done.check.state == "too fast":
            return replace(done, reason="B converged in fewer samples than chance allows: find out why before its time counts")
        return replace(done, answer=where, reason=f"the whole interval is beyond the threshold of {percent(min_effect)}")
    if called == "same":
        return replace(done, answer="same", reason=f"the 90 % interval is within ± {percent(min_effect)}")
    return replace(done, reason=f"the interval is not beyond ± {percent(min_effect)}, nor within; more runs would tell")


def _ratio(x: Sequence[float], y: Sequence[float]) -> Ratio | None:
    if min(len(x), len(y)) < FEWEST:
        return pooled_t.pooled_t_ratio(x, y)
    return ratio(x, y)


def _notices(a: ConvergeSide, b: ConvergeSide) -> list[Notice]:
    notices = []
    targets = {run.target for run in (*a.runs, *b.runs) if run.target is not None}
    if len(targets) > 1:
        listed = ", ".join(f"{one:g}" for one in sorted(targets))
        notices.append(Notice("different_targets", f"the runs have targets of {listed}; give --target"))
    if 0 < len(a.runs) < 2 * len(b.runs):
        needed = 2 * len(b.runs)
        notices.append(Notice("few_references", f"the rules want {needed} reference runs for {len(b.runs)} of B, and A has {len(a.runs)}"))
    seeds = [run.seed for one in (a, b) for run in one.runs if run.seed]
    if len(seeds) == len(a.runs) + len(b.runs) and any(len({run.seed for run in one.runs}) < len(one.runs) for one in (a, b)):
        notices.append(Notice("one_seed", "runs of one side have the same seed: they may be one training, repeated"))
    return notices

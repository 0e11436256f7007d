"""Two results that `ab` measured in turns: the answer of its sequential test. It follows from the pairs and from what the test was planned
for, so that `compare` says later what `ab` said then."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from hotlap.core.record import Comparison, Result, Stop, StopKind, Summary, Turns
from hotlap.core.stats import sequential
from hotlap.core.stats.ratio import beyond
from hotlap.core.stats.sequential import PILOT, Decision, SequentialDesign, SequentialOptions
from hotlap.core.stats.summary import outliers, summarize
from hotlap.core.stats.turns import aligned
from hotlap.core.units import percent


def comparison(a: Result, b: Result, turns: Turns, stop: Stop | None = None, gate: float | None = None) -> Comparison:
    """One case; `stop`: why no more pairs were measured; None while they are. `gate`: another than the test was planned for."""
    x, y = aligned(a, b)
    lower, gate = a.better == "lower", turns.gate if gate is None else gate
    base = Comparison(
        case=a.case, a=_summary(x, a), b=_summary(y, b), answer="inconclusive", metric=a.metric, unit=a.unit, better=a.better, gate=gate,
        replicates="pairs", n_a=len(x), n_b=len(y),
    )
    plan, decision = sequential.trial(x, y, SequentialOptions(turns.difference, turns.gate, turns.most), ended=stop is not None)
    if decision is None or plan is None:
        why = next((r.reason for r in (a, b) if r.reason and not r.values), "")
        return replace(base, reason=why or _undecided(x, y, stop))
    ratio, low, high = decision.ratio, decision.low, decision.high
    if lower:
        ratio, low, high = (1 / v if v else None for v in (ratio, high, low))
    base = replace(base, ratio=ratio, low=low, high=high, p=decision.p, resolvable=decision.resolvable)
    base = replace(base, a_value=base.a.median, b_value=_scaled(base.a.median, decision.ratio))
    way = beyond(low, high, gate)
    if way:
        return replace(base, answer="faster" if way == "larger" else "slower", reason=_reason(plan, decision, (len(x), gate), stop))
    answer: Literal["same", "inconclusive"] = "same" if decision.answer == "same" else "inconclusive"
    notices = list(plan.notices) if answer == "inconclusive" else []
    return replace(base, answer=answer, notices=notices, reason=_reason(plan, decision, (len(x), gate), stop))


def _scaled(value: float | None, ratio: float | None) -> float | None:
    return value * ratio if value is not None and ratio is not None else None


def _undecided(x: Sequence[float], y: Sequence[float], stop: Stop | None) -> str:
    """Why a test could not even be planned."""
    lost = sum(value <= 0 for value in (*x, *y))
    if lost:
        return f"{lost} of {2 * len(x)} values are zero or negative: there is no ratio of them"
    if len(x) < PILOT:
        return f"{sequential.FEWEST if stop else PILOT} pairs are needed, there are {len(x)}{_ended(stop)}"
    return f"the noise takes more than {sequential.MOST} pairs: look for a larger change with --resolve, or stop background load"


def _reason(plan: SequentialDesign, decision: Decision, seen: tuple[int, float], stop: Stop | None) -> str:
    """What the answer rests on; where there is none, the smallest change that could have been seen, why, and what helps. `seen`: pairs
    measured, and the gate."""
    count, gate = seen
    if decision.answer in ("larger", "smaller", "same") and gate == plan.gate:
        basis = f"within ± {percent(plan.difference)}" if decision.answer == "same" else f"the whole interval is beyond {_threshold(gate)}"
        return f"{basis}, at the look after {decision.pairs} of {_pairs(count, plan)}"
    parts = []
    if decision.low and decision.high and (decision.low > 1 or decision.high < 1):
        ends = sorted(abs(end - 1) for end in (decision.low, decision.high))
        parts.append(f"differs, by at least {percent(ends[0])} and at most {percent(ends[1])}; the threshold is {percent(gate)}")
    elif unseen := _reach(decision):
        parts.append(f"a change of up to {percent(unseen)} may be there")
    parts.append(f"no answer after {_pairs(count, plan)}{_ended(stop)}")
    if decision.answer == "inconclusive":
        wanted = max(decision.resolvable or 0.0, plan.difference) * 1.25
        parts.append(f"more pairs (--budget), less background load, or a larger --resolve, as in '{wanted * 100:.2g} %', would answer")
    return "; ".join(parts)


def _pairs(count: int, plan: SequentialDesign) -> str:
    return f"{count} pairs" if count == plan.pairs else f"{count} pairs (at most {plan.pairs} were planned)"


def _threshold(gate: float) -> str:
    return f"the threshold of {percent(gate)}" if gate else "no change"


def _reach(decision: Decision) -> float | None:
    """Half of the interval."""
    return math.sqrt(decision.high / decision.low) - 1 if decision.low and decision.high else None


_ENDED: dict[StopKind, str] = {
    "budget": "; the budget was used up: give it more with --budget", "interrupted": "; interrupted",
    "error": "; it ended with a failure", "rounds_max": "; no more were allowed: give it more with --pairs",
}


def _ended(stop: Stop | None) -> str:
    return _ENDED.get(stop.kind, "") if stop else ""


def _summary(values: Sequence[float], result: Result) -> Summary:
    """With the samples behind the values, and the outliers among those of each round."""
    rounds = [one.seconds for one in result.used]
    return replace(summarize(values), samples=sum(map(len, rounds)), outliers=sum(int(outliers(one).sum()) for one in rounds))

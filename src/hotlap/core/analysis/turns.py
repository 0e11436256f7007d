"""Two results that `ab` measured in turns: the answer of its sequential test. It follows from the pairs and from what the test was planned
for, so that `compare` says later what `ab` said then."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec.structs import replace

from hotlap.core import stand_in
from hotlap.core.analysis.doubts import doubted
from hotlap.core.analysis.environment import method_changed
from hotlap.core.record import Comparison, Result, Stop, StopKind, Summary, Turns
from hotlap.core.stats import sequential
from hotlap.core.stats.ratio import beyond
from hotlap.core.stats.sequential import PILOT, Decision, SequentialDesign, SequentialOptions
from hotlap.core.stats.summary import outliers, summarize
from hotlap.core.stats.turns import aligned
from hotlap.core.units import percent


def comparison(
    a: Result, b: Result, turns: Turns, stop: Stop | None = None, min_effect: float | None = None, option: str = "--pairs"
) -> Comparison:
    """One case; `stop`: why no more pairs were measured; None while they are. `min_effect`: another than the test was planned for.
    `option`: of the command that measured, for more pairs."""
    found = doubted(_compared(a, b, turns, (stop, option), min_effect), [a], [b])
    return stand_in.noted_pair(found) if stand_in.has(a) or stand_in.has(b) else found


def _compared(a: Result, b: Result, turns: Turns, ended: tuple[Stop | None, str], min_effect: float | None) -> Comparison:
    x, y = aligned(a, b)
    stop, option = ended
    min_effect = turns.min_effect if min_effect is None else min_effect
    base = _base(a, b, min_effect)
    asked = SequentialOptions(turns.difference, turns.min_effect, turns.most, turns.level)
    if x and y and a.timing != b.timing:
        return replace(base, answer="not comparable", reason=method_changed(a.timing, b.timing, "in A", "in B"))
    plan, decision = sequential.trial(x, y, asked, ended=stop is not None)
    if decision is None or plan is None:
        return replace(base, reason=_failure(a, b) or _undecided(x, y, stop, _lost(a, b) or _ended(stop, option)))
    answered = _answered(base, decision, min_effect)
    notices = list(plan.notices) if answered.answer == "inconclusive" else []
    return replace(answered, notices=notices, reason=_reason(plan, decision, (len(x), min_effect), ended))


def fixed(a: Result, b: Result, difference: float, min_effect: float) -> Comparison:
    """Of as many pairs as there are, their number not chosen by what they say: one look at all of them, with the whole level."""
    x, y = aligned(a, b)
    base = _base(a, b, min_effect)
    plan, decision = sequential.fixed(x, y, SequentialOptions(difference, min_effect))
    if decision is None or plan is None:
        return replace(base, reason=_failure(a, b) or _undecided(x, y, Stop("rounds_max"), ""))
    answered = _answered(base, decision, min_effect)
    pairs = f"{len(x)} pairs"
    answered = doubted(answered, [a], [b])
    if answered.answer == "inconclusive":
        unseen = _apart(decision, min_effect) or _unseen(decision)
        return replace(answered, reason="; ".join(filter(None, (unseen, f"no answer from {pairs}"))))
    return replace(answered, reason=f"{_basis(answered.answer == 'same', difference, min_effect)}, by {pairs}")


def _base(a: Result, b: Result, min_effect: float) -> Comparison:
    x, y = aligned(a, b)
    return Comparison(
        case=a.case, a=_summary(x, a), b=_summary(y, b), answer="inconclusive", metric=a.metric, unit=a.unit, better=a.better,
        min_effect=min_effect, replicates="pairs", n_a=len(x), n_b=len(y),
    )


def _answered(base: Comparison, decision: Decision, min_effect: float) -> Comparison:
    """With the ratio and its interval, and the answer that they give."""
    ratio, low, high = decision.ratio, decision.low, decision.high
    if base.better == "lower":
        ratio, low, high = (1 / v if v else None for v in (ratio, high, low))
    base = replace(base, ratio=ratio, low=low, high=high, p=decision.p, mde=decision.mde)
    if way := beyond(low, high, min_effect):
        return replace(base, answer="faster" if way == "larger" else "slower")
    return replace(base, answer="same" if decision.answer == "same" else "inconclusive")


def _failure(a: Result, b: Result) -> str:
    return next((r.reason for r in (a, b) if r.reason and not r.values), "")


def _lost(a: Result, b: Result) -> str:
    """Pairs that gave no number on a side, with the reason of the last, for they and not the budget were too few; "" for none."""
    reasons = {one.round: one.reason for side in (a, b) for one in side.rounds if not one.values}
    if not reasons:
        return ""
    count = len({one.round for side in (a, b) for one in side.rounds})
    why = next((reason for _, reason in sorted(reasons.items(), reverse=True) if reason), "")
    return f"; {len(reasons)} of {count} gave no number" + (f": {why}" if why else "")


def _undecided(x: Sequence[float], y: Sequence[float], stop: Stop | None, ended: str) -> str:
    """Why a test could not even be planned."""
    lost = sum(value <= 0 for value in (*x, *y))
    if lost:
        return f"{lost} of {2 * len(x)} values are zero or negative: there is no ratio of them"
    if len(x) < PILOT:
        return f"{sequential.FEWEST if stop else PILOT} pairs are needed, there are {len(x)}{ended}"
    return f"the noise takes more than {sequential.MOST} pairs: look for a larger change with --resolve, or stop background load"


def _reason(plan: SequentialDesign, decision: Decision, seen: tuple[int, float], ended: tuple[Stop | None, str]) -> str:
    """What the answer rests on; where there is none, the largest change that may be there, why, and what helps. `seen`: pairs measured,
    and the gate. `ended`: why there are no more, and the option for more."""
    count, min_effect = seen
    if decision.answer in ("larger", "smaller", "same") and min_effect == plan.min_effect:
        basis = _basis(decision.answer == "same", plan.difference, min_effect)
        spent = ", when the budget was used up" if ended[0] and ended[0].kind == "budget" else ""
        return f"{basis}; decided after {decision.pairs} pairs{_most(decision.pairs, plan)}{spent}"
    parts = []
    if apart := _apart(decision, min_effect):
        parts.append(apart)
    elif unseen := _unseen(decision):
        parts.append(unseen)
    planned = decision.answer == "inconclusive" and (plan.enough or (ended[0] is not None and ended[0].kind == "planned_pairs"))
    full = "" if decision.answer == "inconclusive" else _ended(*ended)  # else what helps says what there was too little of
    planned_from = f"; these are all that were planned, from the noise of the first {PILOT}" if planned else ""
    parts.append(f"no answer after {count} pairs{_most(count, plan)}{planned_from or full}")
    if planned:
        smaller = f"'{plan.difference / math.sqrt(2) * 100:.2g} %', which plans about twice the pairs"
        parts.append(f"run again beside a quieter machine, or with a smaller --resolve, as in {smaller}")
    elif decision.answer == "inconclusive":
        wanted = max(decision.mde or 0.0, plan.difference) * 1.25
        option = f"the limit of {count} pairs ({ended[1]})" if ended[0] and ended[0].kind == "rounds_max" else "--budget"
        larger = f"a larger --resolve, as in '{wanted * 100:.2g} %'"
        parts.append(f"{option} allowed no more: a larger one, less background load, or {larger}, would answer")
    return "; ".join(parts)


def _apart(decision: Decision, min_effect: float) -> str:
    """That there is a change whose size is not sure enough; "" where there may be none."""
    if not decision.low or not decision.high or decision.low <= 1 <= decision.high:
        return ""
    ends = sorted(abs(end - 1) for end in (decision.low, decision.high))
    return f"differs, by at least {percent(ends[0])} and at most {percent(ends[1])}; the threshold is {percent(min_effect)}"


def _most(count: int, plan: SequentialDesign) -> str:
    return "" if count == plan.pairs else f", of at most {plan.pairs}"


def _basis(same: bool, difference: float, min_effect: float) -> str:
    return f"the 90 % interval is within ± {percent(difference)}" if same else f"the whole interval is beyond {_threshold(min_effect)}"


def _threshold(min_effect: float) -> str:
    return f"the threshold of {percent(min_effect)}" if min_effect else "no change"


def _unseen(decision: Decision) -> str:
    """The largest change in the interval, of either sign; "" where there is no interval."""
    if decision.low is None or decision.high is None:
        return ""
    return f"a change of up to {percent(max(abs(decision.low - 1), abs(decision.high - 1)))} may be there"


_ENDED: dict[StopKind, str] = {
    "budget": "; the budget was used up: give it more with --budget", "interrupted": "; interrupted",
    "error": "; it ended with a failure", "rounds_max": "; no more were allowed: give it more with {option}",
}


def _ended(stop: Stop | None, option: str) -> str:
    return _ENDED.get(stop.kind, "").format(option=option) if stop else ""


def _summary(values: Sequence[float], result: Result) -> Summary:
    """With the samples behind the values, and the outliers among those of each round."""
    rounds = [one.values for one in result.used]
    return replace(summarize(values), samples=sum(map(len, rounds)), outliers=sum(int(outliers(one).sum()) for one in rounds))

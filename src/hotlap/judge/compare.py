"""Two groups of runs, case by case: first version.

The interval of the ratio is made of the two intervals of the medians, end against end, so it is wider than 95 % asks:
a *faster* or *slower* it gives is safe, and it says *cannot tell* more often than a better method would.
"""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.record import Case, Comparison, Result, Summary
from hotlap.stats.summary import summarize
from hotlap.store.bundle import Bundle
from hotlap.store.select import results

SAME = 0.02  # both ends of the interval within this share of 1: no difference that matters


def compare(a: Sequence[Bundle], b: Sequence[Bundle]) -> list[Comparison]:
    """Cases of either side, in the order of the first; those on one side alone are not comparable, with the reason."""
    left, right = _pooled(a), _pooled(b)
    return [_one(*(left.get(key) or right[key])[:1], left.get(key), right.get(key)) for key in dict.fromkeys([*left, *right])]


def _pooled(bundles: Sequence[Bundle]) -> dict[str, tuple[Case, list[Result]]]:
    """Results by case; rounds of several runs and devices are one group."""
    found: dict[str, tuple[Case, list[Result]]] = {}
    for bundle in bundles:
        for result in results(bundle):
            found.setdefault(result.case.id, (result.case, []))[1].append(result)
    return found


def _one(case: Case, left: tuple[Case, list[Result]] | None, right: tuple[Case, list[Result]] | None) -> Comparison:
    sides = [[r for r in side[1] if r.status == "measured"] if side else [] for side in (left, right)]
    a, b = (summarize([v for r in side for v in r.values]) for side in sides)
    first = next((r for side in sides for r in side), None)
    unit = first.unit if first else ""
    if not sides[0] or not sides[1]:
        missing = " and ".join(name for name, side in (("A", sides[0]), ("B", sides[1])) if not side)
        return Comparison(case=case, a=a, b=b, answer="not comparable", reason=f"not measured in {missing}", unit=unit)
    assert first is not None
    return _ratio(case, a, b, first.better == "lower", unit)


def _ratio(case: Case, a: Summary, b: Summary, lower: bool, unit: str) -> Comparison:
    if not a.median or not b.median:
        return Comparison(case=case, a=a, b=b, answer="cannot tell", reason="a median is zero or missing", unit=unit)
    ratio = a.median / b.median if lower else b.median / a.median
    if None in (a.low, a.high, b.low, b.high):
        return Comparison(case=case, a=a, b=b, ratio=ratio, answer="cannot tell", reason="6 rounds needed on each side", unit=unit)
    assert a.low is not None
    assert a.high is not None
    assert b.low is not None
    assert b.high is not None
    if min(a.low, b.low) <= 0:
        return Comparison(case=case, a=a, b=b, ratio=ratio, answer="cannot tell", reason="an interval reaches down to zero", unit=unit)
    low, high = (a.low / b.high, a.high / b.low) if lower else (b.low / a.high, b.high / a.low)
    if low > 1:
        answer, reason = "faster", ""
    elif high < 1:
        answer, reason = "slower", ""
    elif low >= 1 - SAME and high <= 1 + SAME:
        answer, reason = "same", f"within ± {SAME:.0%}"
    else:
        answer, reason = "cannot tell", f"below a difference of {max(high - 1, 1 - low):.1%}"
    return Comparison(case=case, a=a, b=b, ratio=ratio, low=low, high=high, answer=answer, reason=reason, unit=unit)  # type: ignore[arg-type]

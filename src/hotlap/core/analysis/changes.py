"""By how much a metric differs from its reference, in the one convention of gates: B ÷ A − 1 of the metric as printed, with its sign."""

from __future__ import annotations

import math

from hotlap.core.record import Reference, Result, Verdict
from hotlap.core.units import BASE_UNITS, round_to, show, signed_percent


def change(ratio: float, better: str) -> float:
    """Of a ratio that is above 1 where the metric is better."""
    return (1 / ratio if better == "lower" else ratio) - 1


def sized(of: Result | Reference, ratio: float, low: float | None, high: float | None) -> str:
    """The same with its interval, both ends in order: ``+52 % [+45 %, +60 %]``."""
    if not low or not high:
        return signed_percent(change(ratio, of.better))
    ends = sorted(change(end, of.better) for end in (low, high))
    return f"{signed_percent(change(ratio, of.better))} [{', '.join(map(signed_percent, ends))}]"


def from_to(result: Result, values: tuple[float | None, float | None], verdict: Verdict) -> str:
    """With both values: ``time 10.8 ms → 16.4 ms, +52 % [+45 %, +60 %]``; "" where there is no ratio. The change is estimated from all
    rounds or pairs: where these medians tell another, that is said too."""
    if verdict.ratio is None:
        return ""
    before, after = (quantity(value, result.unit) for value in values)
    size = sized(result, verdict.ratio, verdict.low, verdict.high)
    return f"{subject(result)} {before} → {after}{of_medians(values, verdict, result.better)}, {size}"


def of_medians(values: tuple[float | None, float | None], verdict: Verdict, better: str, apart: float = math.inf) -> str:
    """B ÷ A − 1 of the two values where `another`, as in `compare`, or off by more than `apart`; else ""."""
    before, after = values
    if not before or after is None or not verdict.ratio or not verdict.low or not verdict.high:
        return ""
    by_hand, estimate = after / before - 1, change(verdict.ratio, better)
    text, width = signed_percent(by_hand), abs(change(verdict.high, better) - change(verdict.low, better))
    differs = another(by_hand, estimate, width) or abs(by_hand - estimate) > apart
    return f" (medians {text})" if differs and text != signed_percent(estimate) else ""


def another(by_hand: float, estimate: float, width: float) -> bool:
    """Whether B ÷ A − 1 of the medians is another change than the estimate: of another sign, or off by over a quarter of its interval's
    width. All are shares."""
    return by_hand * estimate < 0 or abs(by_hand - estimate) > width / 4


def subject(of: Result | Reference) -> str:
    """What changes, in a word; a program's own number has none."""
    return "value" if of.metric in ("", "own") else of.metric.replace("_", " ")


def quantity(value: float | None, unit: str) -> str:
    """A unit of the user's own takes no prefix."""
    return show(value, unit) if value is None or unit in BASE_UNITS else f"{round_to(value)} {unit}"

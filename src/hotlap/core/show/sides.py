"""The numbers of one comparison: the medians of A and B as measured, and by how much the metric changes, an estimate of its own."""

from __future__ import annotations

import math
from typing import NamedTuple

from hotlap.core.analysis.changes import another
from hotlap.core.record import Comparison
from hotlap.core.show import words
from hotlap.core.units import RATES

FEWEST, MOST = 4, 7  # digits
MEDIANS = "the medians "


class Sides(NamedTuple):
    """In text; `change` of B against A, such as +26.0 %."""

    a: str
    b: str
    change: str
    interval: str


def subject(comparison: Comparison) -> str:
    """What changes: time, rate, or the metric by its name; a program's own number has none."""
    if comparison.unit == "s" and comparison.better != "higher":
        return "time"
    if comparison.unit in RATES and comparison.better != "lower":
        return "rate"
    return "value" if comparison.metric in ("", "own") else comparison.metric.replace("_", " ")


def sides(comparison: Comparison) -> Sides:
    """Of a case without a ratio: the medians, with the usual digits."""
    change, low, high = comparison.change
    digits = 3 if change is None else _digits(comparison)
    unit = words.counted_unit(comparison.case.workload, comparison.unit)
    a, b = (words.quantity(side.median, unit, digits) for side in (comparison.a, comparison.b))
    if change is None:
        return Sides(a, b, words.DASH, "")
    interval = "" if low is None or high is None else f"[{percent(low, digits)}, {percent(high, digits)}]"
    return Sides(a, b, percent(change, digits), interval)


def of_medians(comparison: Comparison) -> str:
    """B ÷ A − 1 of the medians as printed, where it is another change than the estimate and rounding does not make it so; else ""."""
    change, low, high = comparison.change
    a, b = comparison.a.median, comparison.b.median
    if change is None or low is None or high is None or not a or b is None:
        return ""
    digits, by_hand = _digits(comparison), b / a - 1
    if percent(by_hand, digits) == percent(change, digits):
        return ""
    near = abs(by_hand - change) <= min(10.0 ** -(digits - 1), (high - low) / 4)
    return f"{MEDIANS}{percent(by_hand, digits)}" if another(by_hand, change, high - low) and not near else ""


def percent(change: float, digits: int = FEWEST) -> str:
    """With its sign, and as fine as numbers of so many digits can give it."""
    text = f"{change * 100:+.{digits - 3}f}"
    return f"{text.replace('-', '+') if float(text) == 0 else text} %"


def _digits(comparison: Comparison) -> int:
    """So many that rounding hides nothing of the interval."""
    _, low, high = comparison.change
    half = (high - low) / 2 if low is not None and high is not None else 0.01
    return FEWEST if half <= 0 else min(max(math.ceil(-math.log10(half)) + 1, FEWEST), MOST)

"""The numbers of one comparison as a reader can check them: A, B, and by how much the metric changes, which is what B ÷ A gives with
the digits that are printed. A is the median of its values; B is what the estimated change makes of A."""

from __future__ import annotations

import math
from typing import NamedTuple

from hotlap.core.record import Comparison
from hotlap.core.show import words
from hotlap.core.units import RATES

FEWEST, MOST = 4, 7  # digits


class Sides(NamedTuple):
    """In text; `change` of B against A, such as +26.0 %."""

    a: str
    b: str
    change: str
    interval: str


def subject(comparison: Comparison) -> str:
    """What changes: time, rate, or the metric by its name."""
    if comparison.unit == "s" and comparison.better != "higher":
        return "time"
    return "rate" if comparison.unit in RATES and comparison.better != "lower" else comparison.metric.replace("_", " ") or "value"


def sides(comparison: Comparison) -> Sides:
    """Of a case without a ratio: the medians, with the usual digits."""
    if comparison.a_value is None or comparison.b_value is None or not comparison.a_value:
        a, b = (words.quantity(side.median, comparison.unit) for side in (comparison.a, comparison.b))
        return Sides(a, b, words.DASH, "")
    digits = _digits(comparison)
    before, after = (_rounded(value, digits) for value in (comparison.a_value, comparison.b_value))
    _, low, high = comparison.change
    interval = "" if low is None or high is None else f"[{percent(low, digits)}, {percent(high, digits)}]"
    a, b = (words.quantity(value, comparison.unit, digits) for value in (before, after))
    return Sides(a, b, percent(after / before - 1, digits), interval)


def percent(change: float, digits: int = FEWEST) -> str:
    """With its sign, and as fine as numbers of so many digits can give it."""
    text = f"{change * 100:+.{digits - 3}f}"
    return f"{text.replace('-', '+') if float(text) == 0 else text} %"


def _digits(comparison: Comparison) -> int:
    """So many that rounding hides nothing of the interval."""
    _, low, high = comparison.change
    half = (high - low) / 2 if low is not None and high is not None else 0.01
    return FEWEST if half <= 0 else min(max(math.ceil(-math.log10(half)) + 1, FEWEST), MOST)


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits - 1}e}")

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


def subject(one: Comparison) -> str:
    """What changes: time, rate, or the metric by its name."""
    if one.unit == "s" and one.better != "higher":
        return "time"
    return "rate" if one.unit in RATES and one.better != "lower" else one.metric.replace("_", " ") or "value"


def sides(one: Comparison) -> Sides:
    """Of a case without a ratio: the medians, with the usual digits."""
    if one.a_value is None or one.b_value is None or not one.a_value:
        return Sides(words.quantity(one.a.median, one.unit), words.quantity(one.b.median, one.unit), words.DASH, "")
    digits = _digits(one)
    a, b = (_rounded(value, digits) for value in (one.a_value, one.b_value))
    _, low, high = one.change
    interval = "" if low is None or high is None else f"[{percent(low, digits)}, {percent(high, digits)}]"
    return Sides(words.quantity(a, one.unit, digits), words.quantity(b, one.unit, digits), percent(b / a - 1, digits), interval)


def percent(change: float, digits: int = FEWEST) -> str:
    """With its sign, and as fine as numbers of so many digits can give it."""
    text = f"{change * 100:+.{digits - 3}f}"
    return f"{text.replace('-', '+') if float(text) == 0 else text} %"


def _digits(one: Comparison) -> int:
    """So many that rounding hides nothing of the interval."""
    _, low, high = one.change
    half = (high - low) / 2 if low is not None and high is not None else 0.01
    return FEWEST if half <= 0 else min(max(math.ceil(-math.log10(half)) + 1, FEWEST), MOST)


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits - 1}e}")

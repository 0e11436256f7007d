"""Rates beside a time, and what is known of an aggregate, in words."""

from __future__ import annotations

from hotlap.core.analysis import rates as known
from hotlap.core.record import Row
from hotlap.core.show import words
from hotlap.core.timing import AGGREGATE


def rate(row: Row) -> str:
    """What is moved and done in the time, per second; "" where nothing is known."""
    return ", ".join(words.quantity(value, known.UNITS[name]) for name, value in known.rates(row.result).items())


def aggregate(row: Row) -> str:
    """Of a number that stands for samples which were not kept: of how many, and in which format; "" for others."""
    if not known.is_aggregate(row.result):
        return ""
    (one,) = row.result.used
    samples = one.metrics.get("samples")
    of = f" of {words.counted(int(samples), 'sample')}" if samples is not None else ""
    return f"1 aggregate{of} ({one.method.removeprefix(AGGREGATE)})"

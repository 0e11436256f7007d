"""The number of a row as seconds of one call, and the power that it drew."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from hotlap.core.model import ceilings
from hotlap.core.record import Readings, Record, Row
from hotlap.core.stats.order import CONFIDENCE
from hotlap.core.work import traits

STANDS = ("pass", "fail", "measured", "inconclusive")  # states of numbers that may be read as such


class Span(Record, frozen=True, kw_only=True):
    """Seconds with their interval; both ends None where it is not known."""

    s: float
    low_s: float | None = None
    high_s: float | None = None

    @property
    def lower_s(self) -> float:
        return self.s if self.low_s is None else float(self.low_s)

    @property
    def upper_s(self) -> float:
        return self.s if self.high_s is None else float(self.high_s)


def stands(row: Row) -> bool:
    """Whether it has a number that may be read as one, and seconds behind it."""
    return row.verdict.state in STANDS and bool(row.summary.median) and seconds(row) is not None


def seconds(row: Row) -> float | None:
    """Of one call; None for a number that a program gave in another unit."""
    middle, result = row.summary.median, row.result
    if not traits(row.case.workload).counted and result.unit != "s" and middle and middle > 0:
        return statistics.median(result.seconds) if result.seconds else None
    return ceilings.seconds(row.case, result.unit, middle)


def span(row: Row) -> Span | None:
    """With the 95 % interval over rounds, where there are enough of them."""
    middle, summary = seconds(row), row.summary
    if middle is None or summary.median is None:
        return None
    sure = (summary.confidence or 0.0) >= CONFIDENCE
    known = [end for end in (summary.low, summary.high) if sure and end is not None and end > 0]
    if len(known) < 2:
        return Span(s=middle)
    low, high = sorted(middle * (summary.median / end if row.result.better == "higher" else end / summary.median) for end in known)
    return Span(s=middle, low_s=low, high_s=high)


def power_w(row: Row, readings: Sequence[Readings]) -> float | None:
    """What the device drew while the case ran: as it counted, as its sensor read, else as the model says."""
    counted = [one.counters["power_w"] for one in row.result.rounds if "power_w" in one.counters]
    if counted:
        return statistics.median(counted)
    windows = [(one.round, one.began_s, one.ended_s) for one in row.result.rounds if one.ended_s > one.began_s]
    read = [
        value for part in readings if part.sensor == "power_w" and part.status == "ok"
        for at, value in zip(part.times_s, part.values, strict=True)
        if value is not None and any(part.round == n and began <= at <= ended for n, began, ended in windows)
    ]
    if read:
        return statistics.median(read)
    return float(row.gap.limit.power_w) if row.gap.limit and row.gap.limit.power_w else None

"""Which series get worse month by month, each against the devices of its model in the same case."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from hotlap.core.analysis.series import Point, Series, Trend
from hotlap.core.stats import multiple_testing
from hotlap.core.stats.degradation import FEWEST_PEERS, VERDICTS, Trends, trends, verdicts
from hotlap.core.stats.slope import DAY_S

Key = tuple[str, str, str]
"""Case, target, model of device: series of one key are each other's peers."""


def with_trends(all_series: Sequence[Series]) -> list[Series]:
    """The series, each with its trend since its last change or boundary; by days, of which each counts once."""
    groups: dict[Key, list[int]] = {}
    for place, one in enumerate(all_series):
        if one.points and all(point.value > 0 for point in one.points):
            groups.setdefault((one.case.id, one.target, one.model), []).append(place)
    known: dict[int, Trend] = {}
    for members in groups.values():
        known.update(zip(members, _together([all_series[place] for place in members]), strict=True))
    adjusted = multiple_testing.benjamini_hochberg([None if math.isnan(one.p) else one.p for one in known.values()])
    named = {place: _named(one, q) for (place, one), q in zip(known.items(), adjusted, strict=True) if q is not None}
    return [replace(one, trend=named.get(place)) for place, one in enumerate(all_series)]


def _together(peers: Sequence[Series]) -> list[Trend]:
    """Of the series of one case on one model; NaN where nothing is known."""
    days = sorted({_day(point) for one in peers for point in one.points})
    since = [max([0, *one.boundaries, *(change.index for change in one.changes)]) for one in peers]
    after = {place: [_day(one.points[first]) * DAY_S] for place, (one, first) in enumerate(zip(peers, since, strict=True)) if first}
    values = np.stack([_by_day(one, days) for one in peers])
    return _trends(trends(np.array(days) * DAY_S, values, better=peers[0].better, boundaries=after), since)


def _day(point: Point) -> int:
    return int(point.time_s // DAY_S)


def _by_day(series: Series, days: Sequence[int]) -> NDArray[np.float64]:
    """Medians; NaN where there is none."""
    gathered: dict[int, list[float]] = {}
    for point in series.points:
        gathered.setdefault(_day(point), []).append(point.value)
    return np.array([float(np.median(gathered[day])) if day in gathered else math.nan for day in days])


def _trends(slopes: Trends, since: Sequence[int]) -> list[Trend]:
    judged = slopes.judged()
    columns = {**judged._asdict(), "mde": slopes.mde(), "own": slopes.own.slope}
    peers = len(since) - 1 if len(since) > FEWEST_PEERS else 0
    numbers = [{name: float(column[n, 0]) for name, column in columns.items()} for n in range(len(since))]
    return [Trend(state="cannot tell", q=math.nan, peers=peers, since=first, **one) for one, first in zip(numbers, since, strict=True)]


def _named(trend: Trend, q: float) -> Trend:
    code = verdicts(*(np.array([value]) for value in (trend.slope, trend.low, trend.high, q)))[0]
    return replace(trend, q=q, state=VERDICTS[code])

"""Which devices get slower, month by month: a trend with its interval for each device and metric, alone and against its peers.

What the whole fleet shares (a driver, summer) is not one device's degradation, so the peers' median curve is taken off before
a verdict. Values are read once, a block of devices at a time; what is kept of a series are at most 26 points.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hotlap.core.record import Notice
from hotlap.core.stats import multiple_testing
from hotlap.core.stats.series import LARGEST
from hotlap.core.stats.slope import DAY_S, FEWEST_DAYS, FEWEST_POINTS, MONTH_S, POWER, Slopes, median, slopes, unknown

Floats = NDArray[np.float64]
Better = Literal["higher", "lower"]
Verdict = Literal["degrading", "steady", "improving", "cannot tell"]
Boundaries = Sequence[float] | Mapping[int, Sequence[float]]

VERDICTS: tuple[Verdict, ...] = ("degrading", "steady", "improving", "cannot tell")
BLOCKS = 26  # points that a series is condensed to: 325 pairs instead of 66,000 in a year of days
FEWEST_PEERS = 5
FEW_PEERS = 50  # under so many a device is left out of the curve it is compared with
WORTH = 0.001  # relative change per month under which a trend is not worth mentioning: 1.2 % a year
RATE = 0.05  # share of the devices called degrading or improving that may be so by chance
AT_ONCE = 1 << 22  # values condensed in one go


class Trends(NamedTuple):
    """All devices × metrics."""

    own: Slopes
    peers: Slopes  # against the peers' median curve; NaN without peers
    shared: Slopes  # of the peers' median curve, by metric
    change: Floats  # of the last month against the baseline, as a share
    notices: tuple[Notice, ...] = ()

    def judged(self) -> Slopes:
        """What verdicts are of: against the peers where there are any."""
        known = np.isfinite(self.peers.slope)
        return Slopes(*(np.where(known, a, b) for a, b in zip(self.peers, self.own, strict=True)))

    def q(self) -> Floats:
        """p adjusted over all series (Benjamini and Hochberg, 1995)."""
        p = self.judged().p
        adjusted = multiple_testing.benjamini_hochberg([None if math.isnan(one) else one for one in p.ravel().tolist()])
        return np.array([math.nan if one is None else one for one in adjusted]).reshape(p.shape)

    def verdicts(self) -> NDArray[np.int8]:
        """Places in `VERDICTS`."""
        found = self.judged()
        return verdicts(found.slope, found.low, found.high, self.q())

    def mde(self) -> Floats:
        """Smallest relative change per month that is found with 80 % power at 5 %, from the interval's width."""
        found = self.judged()
        return np.asarray(POWER * (found.high - found.low) / 2)


class _Points(NamedTuple):
    """Condensed series: logarithms, up is better, each about its own level. Devices × metrics × points, devices × metrics."""

    times: Floats
    logs: NDArray[np.float32]
    level: Floats
    signs: Floats  # by metric: −1 where lower is better


def verdicts(slope: Floats, low: Floats, high: Floats, q: Floats) -> NDArray[np.int8]:
    """Places in `VERDICTS`. Degrading and improving: larger than `WORTH` and real at a false-discovery rate of `RATE`; steady: the
    interval lies within ± `WORTH`; else there is no telling. Arrays of one shape, NaN where unknown."""
    code = np.full(slope.shape, VERDICTS.index("cannot tell"), dtype=np.int8)
    code[(low > -WORTH) & (high < WORTH)] = VERDICTS.index("steady")
    code[(q <= RATE) & (slope <= -WORTH)] = VERDICTS.index("degrading")
    code[(q <= RATE) & (slope >= WORTH)] = VERDICTS.index("improving")
    return code


def trends(
    times_s: ArrayLike,
    values: ArrayLike | Iterator[ArrayLike],
    *,
    better: Better | Sequence[Better] = "higher",
    baseline: ArrayLike | None = None,
    peers: ArrayLike | Iterator[ArrayLike] | None = None,
    boundaries: Boundaries | None = None,
) -> Trends:
    """`values`: devices × metrics × times, or devices × times, or times; above zero, NaN where missing; or an iterator over such
    blocks of devices, of which one is held at a time. `times_s`: of all series, ascending. `better`: of all metrics or of each.

    `baseline`: devices × metrics, what `change` is against; without it the device's first month. `peers`: shaped like `values`;
    without them the devices are each other's peers (5 others are needed). `boundaries`: times of repairs and swaps, of all
    devices or by device: trend and change are taken after the last.

    Theil–Sen slope (Sen, J. Am. Stat. Assoc. 63, 1968, 1379) of logarithms over at most 26 points, each the midmean of
    neighbours; interval and p from Kendall's score, its variance widened for autocorrelation (Hamed and Rao, J. Hydrology
    204, 1998, 182), which is pooled over the devices of a metric where there are 20. Assumes one slope after the last
    boundary and noise that is stationary. In simulations the intervals held the slope in 95 to 99 % (alone, without devices to
    pool: 97 to 95 % up to AR(0.8), 90 % for AR(0.95) over 60 days). What is lost against Theil–Sen on all values: under normal
    noise the standard error is a tenth larger; what happens within one 26th of the time is not seen; a point in which values
    are missing still counts as lying in the middle of its days. Raises ValueError for shapes that do not fit, times that do not
    ascend, and values that are infinite or not above zero.
    """
    times = _times(times_s)
    points, late = _read(times, values, better, {} if boundaries is None else boundaries)
    devices, metrics, _ = points.logs.shape
    others = points if peers is None else _read(times, peers, better, {})[0]
    if others.logs.shape[1] != metrics:
        raise ValueError(f"peers have {others.logs.shape[1]} metrics, not {metrics}")
    curve = _curve(others, alone=peers is not None)
    own, against = unknown(devices, metrics), unknown(devices, metrics)
    for metric in range(metrics):
        logs = points.logs[:, metric]
        _put(own, metric, slopes(points.times, logs))
        _put(against, metric, slopes(points.times, logs - curve[:, metric]))
    for device, after in late.items():
        shared_by = curve[device if len(curve) > 1 else 0]
        for found, logs in ((own, after.logs[0]), (against, after.logs[0] - _at(after.times, points.times, shared_by))):
            for whole, part in zip(found, slopes(after.times, logs, pool=False), strict=True):
                whole[device] = part
    shared = slopes(points.times, median(np.moveaxis(curve, 0, -1)).astype(np.float32), pool=False)
    return Trends(own, against, shared, _change(points, baseline), _notices(times, shared, against))


def _times(times_s: ArrayLike) -> Floats:
    times = np.asarray(times_s, dtype=float).ravel()
    if not len(times):
        raise ValueError("there are no times")
    if not np.all(np.abs(times) <= LARGEST) or np.any(np.diff(times) <= 0):
        raise ValueError("times must be finite and ascend, each once")
    return times


def _read(times: Floats, values: Any, better: Better | Sequence[Better], boundaries: Boundaries) -> tuple[_Points, dict[int, _Points]]:
    """All series condensed; and once more those of devices with a boundary, from there on."""
    edges = _edges(len(times))
    logs: list[NDArray[np.float32]] = []
    levels: list[Floats] = []
    late: dict[int, _Points] = {}
    count = 0
    for raw in _blocks(values, len(times)):
        block, signs = raw, _signs(better, raw.shape[1])
        if logs and logs[0].shape[1] != raw.shape[1]:
            raise ValueError(f"blocks of devices have {logs[0].shape[1]} metrics and {raw.shape[1]}")
        for row, first in _cut(times, boundaries, count, len(raw)).items():
            block = raw.copy() if block is raw else block
            block[row, :, :first] = np.nan
            after = _edges(len(times) - first)
            late[count + row] = _Points(_middles(times[first:], after), *_condensed(raw[row : row + 1, :, first:], after, signs), signs)
        found, level = _condensed(block, edges, signs)
        logs.append(found)
        levels.append(level)
        count += len(raw)
    if not logs:
        raise ValueError("there are no devices")
    return _Points(_middles(times, edges), np.concatenate(logs), np.concatenate(levels), signs), late


def _blocks(values: Any, times: int) -> Iterator[NDArray[np.floating]]:
    """Devices × metrics × times, few enough at once."""
    for part in values if isinstance(values, Iterator) else [values]:
        x = np.asarray(part)
        x = x if np.issubdtype(x.dtype, np.floating) else x.astype(float)
        x = x[None] if x.ndim == 1 else x
        x = x[:, None] if x.ndim == 2 else x
        if x.ndim != 3 or x.shape[2] != times or not x.size:
            raise ValueError(f"devices × metrics × {times} times are needed, not {np.shape(part)}")
        rows = max(AT_ONCE // (x.shape[1] * times), 1)
        yield from (x[start : start + rows] for start in range(0, len(x), rows))


def _signs(better: Better | Sequence[Better], metrics: int) -> Floats:
    """1 where higher is better, −1 where lower is."""
    ways = [better] * metrics if isinstance(better, str) else list(better)
    if len(ways) != metrics or not set(ways) <= {"higher", "lower"}:
        raise ValueError(f"better is 'higher' or 'lower', for all or for each of {metrics} metrics, not {better}")
    return np.where([one == "higher" for one in ways], 1.0, -1.0)


def _cut(times: Floats, boundaries: Boundaries, start: int, count: int) -> dict[int, int]:
    """Of the devices from `start` on: the first time that is after a boundary, where there is one."""
    cut = {}
    for row in range(count):
        own = boundaries.get(start + row, ()) if isinstance(boundaries, Mapping) else boundaries
        if not all(math.isfinite(t) for t in own):
            raise ValueError(f"a boundary of device {start + row} is no time: {list(own)}")
        first = int(np.searchsorted(times, max(own, default=-math.inf)))
        if first:
            cut[row] = min(first, len(times) - 1)
    return cut


def _edges(times: int) -> list[int]:
    """Where points begin and end: as equal as may be."""
    points = min(BLOCKS, times)
    return [round(n * times / points) for n in range(points + 1)]


def _middles(times: Floats, edges: Sequence[int]) -> Floats:
    return np.array([times[a:b].mean() for a, b in pairwise(edges)])


def _condensed(x: NDArray[np.floating], edges: Sequence[int], signs: Floats) -> tuple[NDArray[np.float32], Floats]:
    """Logarithms of the points about their level, and the level."""
    logs = signs[:, None] * np.log(np.stack([_midmean(x[..., a:b]) for a, b in pairwise(edges)], axis=-1))
    level = median(logs)
    return (logs - level[..., None]).astype(np.float32), level


def _midmean(x: NDArray[np.floating]) -> Floats:
    """The mean of the middle half along the last axis; NaN does not count, and none is NaN. A quarter may be off."""
    ordered = np.sort(x, axis=-1)  # NaN last
    if np.any(ordered[..., 0] <= 0) or np.any(ordered == np.inf):
        raise ValueError("values must be finite and above zero: a relative trend says nothing otherwise")
    most = x.shape[-1]
    if not np.isnan(ordered[..., -1]).any():
        return np.asarray(ordered[..., most // 4 : most - most // 4].mean(axis=-1, dtype=float))
    count = most - np.isnan(ordered).sum(axis=-1)
    place, drop = np.arange(most), count[..., None] // 4
    inside = (place >= drop) & (place < count[..., None] - drop)
    total = np.where(inside, ordered, 0).sum(axis=-1, dtype=float)
    return np.asarray(np.where(count > 0, total / np.maximum(inside.sum(axis=-1), 1), np.nan))


def _curve(points: _Points, alone: bool) -> NDArray[np.float32]:
    """What peers share: one × metrics × points, or one for each device where it would otherwise be compared with itself."""
    spread = np.moveaxis(points.logs, 0, -1)
    peers = len(points.logs) - (not alone)
    if peers < FEWEST_PEERS:
        return np.full((1, *points.logs.shape[1:]), np.nan, dtype=np.float32)
    if alone or peers >= FEW_PEERS:
        return median(spread)[None].astype(np.float32)
    return np.stack([median(np.delete(spread, one, axis=-1)) for one in range(len(points.logs))]).astype(np.float32)


def _at(wanted: Floats, times: Floats, curves: NDArray[np.float32]) -> NDArray[np.float32]:
    """Curves, metrics × points, at other times; NaN where a curve has no point."""
    found = np.full((len(curves), len(wanted)), np.nan, dtype=np.float32)
    for row, one in zip(found, curves, strict=True):
        known = np.isfinite(one)
        if known.any():
            row[:] = np.interp(wanted, times[known], one[known])
    return found


def _put(fit: Slopes, metric: int, part: Slopes) -> None:
    for whole, one in zip(fit, part, strict=True):
        whole[:, metric] = one


def _change(points: _Points, baseline: ArrayLike | None) -> Floats:
    """Level of the last month against the baseline, or against the first month, as a share."""
    shape = points.level.shape
    finite = np.isfinite(points.logs)
    first, last = finite.argmax(axis=-1), finite.shape[-1] - 1 - finite[..., ::-1].argmax(axis=-1)
    late = median(np.where(points.times >= points.times[last][..., None] - MONTH_S, points.logs, np.nan))
    if baseline is None:
        early = median(np.where(points.times <= points.times[first][..., None] + MONTH_S, points.logs, np.nan))
        return np.asarray(np.expm1(late - early))
    given = np.asarray(baseline, dtype=float)
    given = given[:, None] if given.ndim == 1 and len(shape) == 2 and shape[1] == 1 else given
    if given.shape not in ((), shape) or np.any(given <= 0) or np.isinf(given).any():
        raise ValueError(f"a baseline is one finite value above zero for each of {shape[0]} devices × {shape[1]} metrics")
    return np.asarray(np.expm1(late + points.level - points.signs * np.log(given)))


def _notices(times: Floats, shared: Slopes, against: Slopes) -> tuple[Notice, ...]:
    notices = []
    days = (times[-1] - times[0]) / DAY_S
    if days < FEWEST_DAYS or len(times) < FEWEST_POINTS:
        seen = f"{len(times)} times over {days:.1f} days are no trend: {FEWEST_POINTS} over {FEWEST_DAYS:.0f} days are needed"
        notices.append(Notice("no_trend", seen))
    elif not np.isfinite(against.slope).any():
        notices.append(Notice("few_peers", f"fewer than {FEWEST_PEERS} peers: what the whole fleet shares is part of every trend"))
    for metric in np.flatnonzero((shared.p < RATE / len(shared.p)) & (np.abs(shared.slope) >= WORTH)):
        seen = f"the whole fleet changes by {100 * shared.slope[metric]:+.2f} % a month, which no device is blamed for"
        notices.append(Notice("fleet_changes", seen, index=int(metric)))
    return tuple(notices)

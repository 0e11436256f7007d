"""Which devices get slower, month by month: a trend with its interval for each device and metric, alone and against its peers.

What the whole fleet shares (a driver, summer) is not one device's degradation, so the peers' median curve is taken off before
a verdict. Values are read once, a block of devices at a time; what is kept of a series are at most 26 points.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hotlap.stats import several
from hotlap.stats.series import LARGEST, MAD_TO_SD

Floats = NDArray[np.float64]
Better = Literal["higher", "lower"]
Verdict = Literal["degrading", "steady", "improving", "cannot tell"]
Boundaries = Sequence[float] | Mapping[int, Sequence[float]]

VERDICTS: tuple[Verdict, ...] = ("degrading", "steady", "improving", "cannot tell")
DAY_S = 86_400.0
MONTH_S = 30.44 * DAY_S
BLOCKS = 26  # points that a series is condensed to: 325 pairs instead of 66,000 in a year of days
FEWEST_POINTS = 6  # below it ranks show nothing
FEWEST_DAYS = 14.0  # a slope per month is not made up from hours
FEWEST_PEERS = 5
FEW_PEERS = 50  # under so many a device is left out of the curve it is held against
POOL = 20  # series whose autocorrelations together say more than each alone
WORTH = 0.001  # relative change per month under which a trend is not worth a word: 1.2 % a year
RATE = 0.05  # share of the devices called degrading or improving that may be so by chance
AT_ONCE = 1 << 22  # values condensed in one go
NORMAL = NormalDist()
Z = NORMAL.inv_cdf(0.975)
POWER = 1 + NORMAL.inv_cdf(0.8) / Z  # smallest slope found with 80 % power, in half-widths of the 95 % interval


class Slopes(NamedTuple):
    """Relative changes per month (negative is worse) with 95 % intervals; NaN where too little is known. Arrays of one shape."""

    slope: Floats
    low: Floats
    high: Floats
    p: Floats  # chance of such a trend in a series without one


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """One device in one metric. Slopes are relative changes per month: negative is worse, whichever way the metric points."""

    device: int
    metric: int
    verdict: Verdict  # of the slope against the peers, of its own where there are no peers
    slope: float | None  # its own
    low: float | None
    high: float | None
    peers_slope: float | None  # against its peers
    peers_low: float | None
    peers_high: float | None
    change: float | None  # of its last month against its baseline, as a share
    p: float | None
    q: float | None  # p adjusted for all series that were looked at together
    resolvable: float | None  # smallest slope found with 80 % power


class Trends(NamedTuple):
    """All devices × metrics."""

    own: Slopes
    peers: Slopes  # against the peers' median curve; NaN without peers
    shared: Slopes  # of the peers' median curve, by metric
    change: Floats  # of the last month against the baseline, as a share
    warnings: tuple[str, ...] = ()

    def judged(self) -> Slopes:
        """What verdicts are of: against the peers where there are any."""
        known = np.isfinite(self.peers.slope)
        return Slopes(*(np.where(known, a, b) for a, b in zip(self.peers, self.own, strict=True)))

    def q(self) -> Floats:
        """p adjusted over all series (Benjamini and Hochberg, 1995)."""
        p = self.judged().p
        adjusted = several.adjust([None if math.isnan(one) else one for one in p.ravel().tolist()])
        return np.array([math.nan if one is None else one for one in adjusted]).reshape(p.shape)

    def verdicts(self, worth: float = WORTH, rate: float = RATE) -> NDArray[np.int8]:
        """Places in `VERDICTS`. Degrading and improving: larger than `worth` and real at a false-discovery rate of `rate`;
        steady: the interval lies within ± `worth`; else there is no telling."""
        found, real = self.judged(), self.q() <= rate
        verdict = np.full(found.slope.shape, VERDICTS.index("cannot tell"), dtype=np.int8)
        verdict[(found.low > -worth) & (found.high < worth)] = VERDICTS.index("steady")
        verdict[real & (found.slope <= -worth)] = VERDICTS.index("degrading")
        verdict[real & (found.slope >= worth)] = VERDICTS.index("improving")
        return verdict

    def resolvable(self) -> Floats:
        """Smallest relative change per month that is found with 80 % power at 5 %, from the interval's width."""
        found = self.judged()
        return np.asarray(POWER * (found.high - found.low) / 2)

    def named(self, *verdicts: Verdict) -> list[Trend]:
        """The series with these verdicts, the fastest fall first; all without any."""
        codes, q, width, found = self.verdicts(), self.q(), self.resolvable(), self.judged()
        wanted = np.isin(codes, [VERDICTS.index(one) for one in verdicts or VERDICTS])
        places = sorted(np.argwhere(wanted).tolist(), key=lambda at: (math.isnan(found.slope[*at]), found.slope[*at]))
        return [self._one((d, m), VERDICTS[codes[d, m]], (q[d, m], width[d, m], found.p[d, m])) for d, m in places]

    def _one(self, at: tuple[int, int], verdict: Verdict, judged: tuple[float, float, float]) -> Trend:
        own, peers = ([_known(one[at]) for one in which] for which in (self.own, self.peers))
        q, width, p = judged
        return Trend(
            device=at[0], metric=at[1], verdict=verdict, slope=own[0], low=own[1], high=own[2], peers_slope=peers[0], peers_low=peers[1],
            peers_high=peers[2], change=_known(self.change[at]), p=_known(p), q=_known(q), resolvable=_known(width),
        )


class _Points(NamedTuple):
    """Condensed series: logarithms, up is better. `logs`: devices × metrics × points."""

    times: Floats
    logs: Floats


def trends(
    times_s: ArrayLike, values: ArrayLike | Iterator[ArrayLike], *, better: Better | Sequence[Better] = "higher",
    baseline: ArrayLike | None = None, peers: ArrayLike | None = None, boundaries: Boundaries | None = None,
) -> Trends:  # fmt: skip
    """`values`: devices × metrics × times, or devices × times, or times; above zero, NaN where missing; or an iterator over such
    blocks of devices, of which one is held at a time. `times_s`: of all series, ascending. `better`: of all metrics or of each.

    `baseline`: devices × metrics, what `change` is against; without it the device's first month. `peers`: peers × metrics ×
    times; without them the devices are each other's peers, if there are 5. `boundaries`: times of repairs and swaps, for all
    devices or by device: the trend is taken after the last, and without a given baseline so is the change.

    Theil–Sen slope (Sen, J. Am. Stat. Assoc. 63, 1968, 1379) of logarithms over at most 26 points, each the midmean of
    neighbours; interval and p from Kendall's score, its variance widened for autocorrelation (Hamed and Rao, J. Hydrology
    204, 1998, 182), which is pooled over the devices of a metric where there are 20. Assumes one slope after the last
    boundary and noise that is stationary. Against least squares on all values of normal noise the interval is a tenth
    wider (`tests/stats/test_stats_degradation.py`); what happens inside one 26th of the time is not seen; a point in which
    values are missing still counts as lying in the middle of its days. Raises ValueError for shapes that do not fit, times
    that do not ascend, values that are infinite or not above zero.
    """
    times = _times(times_s)
    points, late = _read(times, values, better, _boundaries(boundaries))
    devices, metrics, _ = points.logs.shape
    curve = _curve(points, _explicit(times, peers, better, metrics))
    own, against = _nothing(devices, metrics), _nothing(devices, metrics)
    shared = _slopes(points.times, curve if curve.ndim == 2 else np.nanmedian(curve, axis=0), pool=False)
    for metric in range(metrics):
        logs = points.logs[:, metric]
        _put(own, (slice(None), metric), _slopes(points.times, logs))
        off = logs - (curve[metric] if curve.ndim == 2 else curve[:, metric])
        _put(against, (slice(None), metric), _slopes(points.times, off))
    for device, after in late.items():
        one = curve if curve.ndim == 2 else curve[device]
        _put(own, (device,), _slopes(after.times, after.logs[0], pool=False))
        _put(against, (device,), _slopes(after.times, after.logs[0] - _between(after.times, points.times, one), pool=False))
    warnings = _warnings(shared, devices, curve)
    return Trends(own, against, shared, _change(points, late, baseline), warnings)



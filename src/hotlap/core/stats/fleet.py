"""Which nodes of a fleet are off: each node's samples against those of all others, metric by metric, without a threshold typed by hand.

How much healthy nodes differ is learnt from the fleet itself, robustly: up to a fifth of the nodes may be bad. Two things are
looked at: where a node's samples lie (its location), and how many of them lie far below that by the fleet's measure (its tail), so
that a node with the usual median and a bad tail is found too. Where the nodes' locations tail off more slowly than a normal
distribution, the limit moves out with them. A whole rack that is slow makes two groups of nodes; which of them is healthy only a
limit can say, and without one the answer is a warning.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from hotlap.core.record import Notice
from hotlap.core.stats import series, student
from hotlap.core.stats.series import MAD_TO_SD

Floats = NDArray[np.float64]
Better = Literal["higher", "lower"]

RATE = 1e-4  # of healthy nodes that may be named, over all metrics, if their samples were normal; a tenth of what is promised for others
FEWEST_NODES = 5  # below it there is no fleet
TAIL_RATE = 3e-4  # the same of tails; far fewer come out, since samples are counted and SLACK is given
BLOCK = 8  # metrics looked at in one go
DRAWN_IN = 2.5  # robust standard deviations within a node
MEAN_TO_SD = 1.2  # of the mean absolute deviation: 1.25 for normal noise; with this one a fifth of the nodes can be left out
ROUNDED = 1e-3  # least error of a node's level where most nodes have the same: numbers of three digits are not nearer
FAR = 4.0  # robust standard deviations between nodes beyond which a node does not count for the spread
EDGES = (0.01, 0.001)  # slow tails: shares of the fleet's samples, about their own nodes' level
SLACK = 2.0  # times so many of a healthy node's samples may lie there: nodes differ a little
FEWEST_TAIL = 4  # samples of a node that can show a tail
KNEE, NEAR = 2.0, 3.0  # robust standard deviations between which, and the limit, tails of healthy nodes show
FLATTEST = 2.0  # exponent of a tail: from here on speeds have a variance; few nodes can look flatter
KNOWS = 0.37  # a MAD knows the scale as the standard deviation of this share of the nodes would
RIVAL = 0.25  # share of nodes from which a second group may be the healthy one
NORMAL = NormalDist()


class Odd(msgspec.Struct, frozen=True, kw_only=True):
    """One node that is off in one metric."""

    node: int
    metric: int
    size: float  # against the fleet, as a share: negative is worse, whichever way the metric points
    low: float  # 95 % interval of the size
    high: float
    p: float  # chance of a healthy node as far off in this metric
    kind: Literal["shift", "tail"]
    tail: float  # share of its samples that lie, about its own level, in the fleet's slowest hundredth


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """What a fleet says of its nodes."""

    odd: list[Odd]  # the surest first
    spread: list[float | None]  # between healthy nodes, by metric; None where it cannot be known
    noise: list[float | None]  # within nodes, by metric
    notices: list[Notice]
    reach: list[float | None] = []  # the smallest loss in one metric that is named, as a share

    @property
    def nodes(self) -> list[int]:
        """Those that are named, each once, in order."""
        return sorted({one.node for one in self.odd})


def odd(
    values: ArrayLike, better: Better | Sequence[Better] = "higher", limit: Sequence[float | None] | None = None, rate: float = RATE,
    of: int = 0,
) -> Fleet:  # fmt: skip
    """`values`: nodes × metrics × samples, above zero; NaN is a sample that is missing. `better`: of all metrics, or of each.

    `limit`: what a healthy node reaches in each metric, as far as it is known: where nodes fall into two groups it says which is
    the healthy one, and a fleet that lies below it as a whole is warned of. `rate`: of healthy nodes that may be named by their level
    over all metrics; three times as many by their tails. `of`: how many metrics share the rate, where these are only some. Assumes that
    noise within nodes is much the same on all of them, and at most a fifth of the nodes bad where there is no limit; how locations of
    healthy nodes tail off is learnt from some 1000 nodes on, below that they are taken for roughly lognormal. At most 0.1 % of healthy
    nodes are named over all metrics (`benchmarks/fleet.py`). Tail limits by Pareto's law fitted between 2 robust standard deviations and
    the normal limit. Robust centre and scale: median and MAD with one step of rejection (Hampel and others, Robust Statistics, 1986).
    Raises ValueError for another shape and for values that are not above zero.
    """
    x = np.asarray(values)
    if x.ndim != 3:
        raise ValueError(f"nodes × metrics × samples are needed, not {x.ndim} dimensions")
    nodes, metrics, _ = x.shape
    ways: list[Better] = [better] * metrics if isinstance(better, str) else list(better)
    limits = list(limit) if limit is not None else [None] * metrics
    if len(ways) != metrics or len(limits) != metrics:
        raise ValueError(f"better and limit need one entry for each of {metrics} metrics, not {len(ways)} and {len(limits)}")
    if not set(ways) <= {"higher", "lower"}:
        raise ValueError(f"better is 'higher' or 'lower', not {next(one for one in ways if one not in ('higher', 'lower'))}")
    if nodes < FEWEST_NODES or not metrics:
        said = f"{nodes} nodes are no fleet: {FEWEST_NODES} are the fewest that can be compared with each other"
        return Fleet(odd=[], spread=[None] * metrics, noise=[None] * metrics, notices=[Notice("small_fleet", said)])
    fleet = Fleet(odd=[], spread=[], noise=[], notices=[], reach=[])
    for start in range(0, metrics, BLOCK):
        chosen = range(start, min(start + BLOCK, metrics))
        block = np.ascontiguousarray(np.swapaxes(x[:, chosen.start : chosen.stop], 0, 1), dtype=np.float64)
        if np.any(block <= 0) or np.any(block == np.inf):
            raise ValueError("values must be finite and above zero: a ratio says nothing otherwise")
        for metric, samples in zip(chosen, block, strict=True):
            logs = np.log(samples) if ways[metric] == "higher" else -np.log(samples)
            rates = rate / (of or metrics), rate * TAIL_RATE / RATE / (of or metrics)
            _judge(fleet, metric, logs, _signed(limits[metric], ways[metric]), rates)
    fleet.odd.sort(key=lambda one: one.p)
    return fleet


def together(
    values: ArrayLike, better: Sequence[Better], known: Fleet, rate: float = RATE, least: float = 0.5
) -> tuple[Floats, Fleet]:
    """Each node's deviation from the fleet over all metrics, as a share (negative is worse; NaN where fewer than `least` of the metrics,
    a share, were measured), and which devices are outliers in it. `known`: what `odd` says of the metrics; those that cannot be judged do
    not count.

    A metric weighs as well as it tells nodes apart (the inverse of its variance). How much healthy nodes differ in the mean is learnt from
    the nodes themselves, so that metrics which go up and down together on a node need no assumption.
    """
    x = np.asarray(values, dtype=np.float64)
    sums, weights, seen = np.zeros(len(x)), np.zeros(len(x)), np.zeros(len(x))
    usable = [metric for metric, spread in enumerate(known.spread) if spread is not None]
    for metric in usable:
        logs = np.log(x[:, metric]) if better[metric] == "higher" else -np.log(x[:, metric])
        count = np.count_nonzero(np.isfinite(logs), axis=1)
        there = np.flatnonzero(count > 0)
        location, noise = _locations(logs[there])
        variance = (known.spread[metric] or 0.0) ** 2 + noise**2 / float(np.median(count[there]))
        weight = 1 / max(variance, 1e-10)
        sums[there] += weight * (location - np.median(location))
        weights[there] += weight
        seen[there] += 1
    enough = (seen > 0) & (seen >= least * len(usable))
    level = np.where(enough, np.exp(np.divide(sums, weights, out=np.zeros(len(x)), where=weights > 0)), np.nan)
    return level - 1, odd(level[:, None, None], rate=rate)


def _signed(limit: float | None, better: Better) -> float | None:
    """On the scale of the samples: logarithms, up is better."""
    if limit is None or limit <= 0:
        return None
    return math.log(limit) if better == "higher" else -math.log(limit)


def _judge(fleet: Fleet, metric: int, logs: Floats, limit: float | None, rates: tuple[float, float]) -> None:
    """One metric: nodes × samples."""
    count = np.count_nonzero(np.isfinite(logs), axis=1)
    measured = np.flatnonzero(count > 0)
    if len(measured) < FEWEST_NODES:
        fleet.spread.append(None)
        fleet.noise.append(None)
        fleet.reach.append(None)
        there = "1 node has" if len(measured) == 1 else f"{len(measured)} nodes have"
        fleet.notices.append(Notice("small_fleet", f"{there} samples, {FEWEST_NODES} are needed", index=metric))
        return
    location, noise = _locations(logs[measured])
    counts = count[measured]
    well = _reference(fleet, metric, location, limit)
    if well is None:
        fleet.spread.append(None)
        fleet.noise.append(noise if counts.max() > 1 else None)
        fleet.reach.append(None)
        return
    centre, spread, well = _scale(location, well)
    own = max(spread**2 - noise**2 / float(np.median(counts)), 0.0)  # between nodes, beyond what samples explain
    error = np.maximum(np.sqrt(own + noise**2 / counts), 1e-12 if spread else ROUNDED)
    shift = location - centre
    score = shift / error
    lowest, highest = (_beyond(rates[0], side[well]) for side in (-score, score))
    _notices(fleet, metric, (lowest * float(np.median(error)), lowest > 2 * _usual(rates[0], len(well))), (centre, spread, limit))
    tail, chance = _tails(logs[measured] - location[:, None], counts, well)
    by_shift = _shift_p(score, lowest, highest, rates[0])
    for place in np.flatnonzero((by_shift < rates[0]) | (chance < rates[1])):
        kind: Literal["shift", "tail"] = "shift" if by_shift[place] < rates[0] else "tail"
        p, share = min(by_shift[place], chance[place]), tail[place] / counts[place]
        fleet.odd.append(_named((int(measured[place]), metric), (shift[place], error[place]), p, kind, share))
    fleet.spread.append(math.sqrt(own))
    fleet.noise.append(noise if counts.max() > 1 else None)  # one sample a node says nothing of it
    fleet.reach.append(-math.expm1(-lowest * float(np.median(error))))


def _notices(fleet: Fleet, metric: int, reach: tuple[float, bool], healthy: tuple[float, float, float | None]) -> None:
    """What else there is to say of a metric."""
    (least, tailing), (centre, spread, limit) = reach, healthy
    off, below = -math.expm1(-least), -math.expm1(centre - limit) if limit is not None else 0.0
    if tailing:
        named = f"a node is named by it alone only from {100 * off:.1f} % slower" if off < 0.5 else "none can be named by it alone"
        seen = f"some nodes lie farther below the others than normal noise would leave them, so that {named}"
        fleet.notices.append(Notice("no_gap", seen, index=metric))
    if below > max(FAR * spread, 0.001):
        fleet.notices.append(Notice("fleet_below", f"the fleet as a whole lies {100 * below:.1f} % below the limit", index=metric))


def _locations(logs: Floats) -> tuple[Floats, float]:
    """Each node's mean, samples beyond 2.5 robust standard deviations drawn in, and the noise within nodes."""
    middle = np.nanmedian(logs, axis=1, keepdims=True) if np.isnan(logs).any() else np.median(logs, axis=1, keepdims=True)
    off = np.abs(logs - middle)
    off = off[np.isfinite(off)]
    samples = logs.shape[1]
    shrunk = math.sqrt(samples / (samples - 1)) if samples > 1 else 1.0  # a median follows its own samples
    noise = MAD_TO_SD * float(np.median(off)) * shrunk
    reach = DRAWN_IN * noise or math.inf
    return np.asarray(np.nanmean(np.clip(logs, middle - reach, middle + reach), axis=1)), noise


def _reference(fleet: Fleet, metric: int, location: Floats, limit: float | None) -> NDArray[np.bool_] | None:
    """The nodes among which the healthy ones are; None when two groups might be, with a warning."""
    everyone = np.ones(len(location), dtype=bool)
    if len(location) < 20 or not series.bimodal(np.exp(location - np.median(location))):  # as levels: ticks are shares of those
        return everyone
    ordered = np.sort(location)
    cut = ordered[int(np.argmax(_parting(ordered)))]
    lower = location <= cut
    share = float(lower.mean())
    if min(share, 1 - share) < RIVAL:
        return everyone
    low, high = float(np.median(location[lower])), float(np.median(location[~lower]))
    if limit is not None:
        return np.asarray(lower if abs(low - limit) < abs(high - limit) else ~lower)
    size = math.expm1(low - high)
    groups = f"two groups of nodes, {int(lower.sum())} and {int((~lower).sum())}, {100 * abs(size):.1f} % apart"
    seen = f"{groups}: the fleet cannot be its own reference"
    fleet.notices.append(Notice("two_groups", seen, "give a limit, or a baseline", index=metric))
    return None


def _parting(ordered: Floats) -> Floats:
    """Sum of squares between the groups left and right of each place: largest at the best cut."""
    n = len(ordered)
    size = np.arange(1, n)
    sums = np.cumsum(ordered - ordered.mean())[:-1]
    return np.asarray(sums**2 * n / (size * (n - size)))


def _scale(location: Floats, well: NDArray[np.bool_]) -> tuple[float, float, NDArray[np.bool_]]:
    """Centre and spread of the healthy nodes, and which they are: those far off are left out, until none is added. Where most nodes
    have the same level the MAD is zero: by the mean deviation up to a fifth of the nodes are left out, and the others' spread is their
    standard deviation."""
    kept = well
    centre, spread, mad = 0.0, 0.0, 0.0
    for _ in range(4):
        centre = float(np.median(location[kept]))
        off = np.abs(location[kept] - centre)
        mad = MAD_TO_SD * float(np.median(off))
        spread = mad or MEAN_TO_SD * float(np.mean(off))
        kept = well & (np.abs(location - centre) <= FAR * spread) if spread else well & (location == centre)
    return centre, mad or float(np.std(location[kept] - centre)), kept


def _usual(rate: float, healthy: int) -> float:
    """The score that a healthy node exceeds with probability `rate`, both sides together; wider where few nodes give the spread."""
    if healthy >= 300:
        return NORMAL.inv_cdf(1 - rate / 2)
    return student.quantile(1 - rate / 2, max(healthy * KNOWS, 2.0))


def _beyond(rate: float, score: Floats) -> float:
    """The same for one side, farther where healthy nodes' scores on that side have more of a tail than normal ones.

    What lies beyond the normal limit may be bad and does not count: Pareto's law is fitted to what lies below it.
    """
    usual = _usual(rate, len(score))
    far = score[(score >= KNEE) & (score < usual)]
    scale = 1 + 2 / math.sqrt(2 * KNOWS * max(len(score), 1))  # the MAD may be too small by so much: two of its own standard errors
    near, expected = int(np.count_nonzero(far >= NEAR)), len(score) * (1 - NORMAL.cdf(NEAR / scale))
    if usual <= NEAR or near <= expected + 3 * math.sqrt(expected) + 3:
        return usual
    steep, flat = 20.0, FLATTEST  # exponents
    for _ in range(40):
        middle = (steep + flat) / 2
        share = (NEAR**-middle - usual**-middle) / (KNEE**-middle - usual**-middle)
        steep, flat = (steep, middle) if share > near / len(far) else (middle, flat)
    beyond_knee = len(far) / len(score) / (1 - (KNEE / usual) ** flat)
    return float(max(usual, KNEE * (2 * beyond_knee / rate) ** (1 / flat)))


def _shift_p(score: Floats, lowest: float, highest: float, rate: float) -> Floats:
    """Normal, on a scale where each side's limit has the probability it stands for."""
    scaled = np.abs(score) * NORMAL.inv_cdf(1 - rate / 2) / np.where(score < 0, lowest, highest)
    return np.fromiter((math.erfc(one / math.sqrt(2)) for one in scaled.tolist()), dtype=float, count=len(scaled))


def _tails(rest: Floats, counts: NDArray[np.int64], well: NDArray[np.bool_]) -> tuple[NDArray[np.int64], Floats]:
    """How many samples of each node lie in the slowest hundredth, and the chance of as many there or in the slowest thousandth.

    `rest`: samples about their node's level. For the thousandth nodes that stand out by the hundredth do not count.
    """
    rest = rest * np.sqrt(counts / np.maximum(counts - 1, 1))[:, None]  # a level follows its own samples
    able = counts >= FEWEST_TAIL
    chance, first = np.ones(len(rest)), np.zeros(len(rest), dtype=np.int64)
    for share in EDGES:
        healthy = rest[well & able & (chance > 1e-3)].ravel()
        healthy = healthy[np.isfinite(healthy)]
        place = int(share * len(healthy))
        if place < 10:  # too few to know where it begins
            break
        inside = np.count_nonzero(rest < np.partition(healthy, place)[place], axis=1) * able
        first = first if share != EDGES[0] else inside
        chance = np.minimum(chance, len(EDGES) * _tail_p(inside, counts, SLACK * share))
    return first, chance


def _tail_p(inside: NDArray[np.int64], counts: NDArray[np.int64], share: float) -> Floats:
    """Of so many or more, binomial."""
    table = {pair: _binomial(*pair, share) for pair in {(int(k), int(n)) for k, n in zip(inside, counts, strict=True)}}
    return np.array([table[int(k), int(n)] for k, n in zip(inside, counts, strict=True)])


def _binomial(k: int, n: int, share: float) -> float:
    """P(Binomial(n, share) ≥ k)."""
    return math.fsum(math.comb(n, i) * share**i * (1 - share) ** (n - i) for i in range(k, n + 1)) if k else 1.0


def _named(at: tuple[int, int], shift: tuple[float, float], p: float, kind: Literal["shift", "tail"], tail: float) -> Odd:
    size, error = map(float, shift)
    return Odd(
        node=at[0], metric=at[1], size=math.expm1(size), low=math.expm1(size - 1.96 * error), high=math.expm1(size + 1.96 * error),
        p=float(p), kind=kind, tail=float(tail),
    )  # fmt: skip

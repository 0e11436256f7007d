"""Degradation: each series' trend per month, for a whole fleet in one pass.

What the whole fleet shares (a driver, a summer) is the peers' median curve and is taken out first; what is left is the device's
own. Days are condensed into blocks, so that single bad ones do not count and the cost of a series does not grow with the square
of its length.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hotlap.stats import student

Floats = NDArray[np.float64]
Better = Literal["higher", "lower"]

MONTH_S = 30.44 * 86400.0
BLOCKS = 20  # medians that a series is condensed into
FEWEST_BLOCKS = 6
FEWEST_PEERS = 5
ROWS = 2000  # series looked at in one go
EFFICIENCY = 0.91  # of Theil–Sen beside least squares on normal data: Sen, J. Am. Stat. Assoc. 63, 1968
STATES = ("cannot tell", "steady", "degrading", "improving")


class Trends(NamedTuple):
    """One entry per series. Slopes are shares per month, negative is worse whichever way the metric points; NaN is unknown."""

    slope: Floats
    low: Floats  # 95 % interval
    high: Floats
    p: Floats  # two-sided, of no trend
    resolvable: Floats  # smallest trend found with 80 % power at this noise
    state: NDArray[np.int8]  # index into STATES


def trends(
    times_s: ArrayLike, values: ArrayLike, better: Better | Sequence[Better] = "higher", *, peers: ArrayLike | None = None,
    rate: float = 0.05,
) -> Trends:
    """`times_s`: (points,), rising; `values`: series × points, above zero, NaN where a day is missing; `better`: of all or of each.

    `peers`: an integer per series; series of one number are each other's peers (at least 5, else nothing is taken out). A trend
    is named where p is at most `rate`. Theil–Sen slope over medians of blocks of days; interval by Student's t from the blocks'
    residuals about it, widened by their autocorrelation. Assumes that blocks are roughly normal about a line; a step (repair,
    swap) must not be inside: give what follows it. Raises ValueError for times that do not rise, other shapes, and values that
    are not above zero.
    """
    t, x = np.asarray(times_s, dtype=float).ravel(), np.asarray(values)
    if x.ndim != 2 or x.shape[1] != len(t):
        raise ValueError(f"series × {len(t)} points are needed, as many as times, not {x.shape}")
    if len(t) and (not np.all(np.isfinite(t)) or np.any(np.diff(t) <= 0)):
        raise ValueError("times must be finite and rise")
    groups = None if peers is None else np.asarray(peers).ravel()
    ways = np.array([better == "higher"] * len(x)) if isinstance(better, str) else np.array([one == "higher" for one in better])
    if len(ways) != len(x) or (groups is not None and len(groups) != len(x)):
        raise ValueError(f"better and peers need one entry for each of {len(x)} series")
    found = _unknown(len(x))
    if len(t) < FEWEST_BLOCKS or not len(x):
        return found
    edges = _edges(t)
    blocks = np.concatenate([_blocks(x[n : n + ROWS], ways[n : n + ROWS], edges) for n in range(0, len(x), ROWS)])
    middles = np.array([float(np.mean(t[a:b])) for a, b in pairwise(edges)]) / MONTH_S
    if groups is not None:
        blocks = _without_peers(blocks, groups)
    for start in range(0, len(x), ROWS):
        part = slice(start, start + ROWS)
        _fit(found, part, middles, blocks[part], rate)
    return found


def _unknown(series: int) -> Trends:
    slope, low, high, p, resolvable = (np.full(series, np.nan) for _ in range(5))
    return Trends(slope, low, high, p, resolvable, np.zeros(series, dtype=np.int8))


def _edges(t: Floats) -> NDArray[np.int64]:
    """Blocks of equal time, as many as there are points for, at most 20; indices of their edges. Empty blocks fall away."""
    count = min(BLOCKS, len(t))
    cuts = np.searchsorted(t, np.linspace(t[0], t[-1], count + 1)[1:-1])
    return np.unique(np.concatenate([[0], cuts, [len(t)]])).astype(np.int64)


def _blocks(x: NDArray[np.floating], higher: NDArray[np.bool_], edges: NDArray[np.int64]) -> Floats:
    """Medians of logarithms, up is better: series × blocks."""
    if np.nanmin(x, initial=np.inf) <= 0:
        raise ValueError("values must be above zero: a relative trend says nothing otherwise")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a block without a value is NaN, as it should be
        middle = np.nanmedian if np.isnan(x).any() else np.median
        found = np.stack([middle(x[:, a:b], axis=1) for a, b in pairwise(edges)], axis=1)
    logs = np.log(found.astype(np.float64))
    return np.where(higher[:, None], logs, -logs)


def _without_peers(blocks: Floats, groups: NDArray[np.int64]) -> Floats:
    """Less the median curve of each group, from which every series' own level is taken out first."""
    order = np.argsort(groups, kind="stable")
    bounds = np.flatnonzero(np.diff(groups[order])) + 1
    found = blocks.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        flat = blocks - np.nanmedian(blocks, axis=1, keepdims=True)
        for members in np.split(order, bounds):
            if len(members) >= FEWEST_PEERS:
                found[members] = blocks[members] - np.nan_to_num(np.nanmedian(flat[members], axis=0))
    return found


def _fit(found: Trends, part: slice, middles: Floats, y: Floats, rate: float) -> None:
    count = np.count_nonzero(np.isfinite(y), axis=1)
    first, last = np.triu_indices(len(middles), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        middle = np.median if np.isfinite(y).all() else np.nanmedian
        slope = middle((y[:, last] - y[:, first]) / (middles[last] - middles[first]), axis=1)
        rest = y - slope[:, None] * middles
        rest -= np.nanmedian(rest, axis=1, keepdims=True)
    error = _error(rest, middles, count)
    known = (count >= FEWEST_BLOCKS) & np.isfinite(error)
    freedom = np.maximum(count - 2, 1)
    t975, t800 = (np.array([student.quantile(q, k) for k in range(1, len(middles))])[freedom - 1] for q in (0.975, 0.8))
    score = np.abs(slope) / np.maximum(error, 1e-15)
    p = np.array([student.two_sided(float(s), float(k)) if ok else np.nan for s, k, ok in zip(score, freedom, known, strict=True)])
    ends = (slope, slope - t975 * error, slope + t975 * error, (t975 + t800) * error)
    for field, value in zip((found.slope, found.low, found.high, found.resolvable), ends, strict=True):
        field[part] = np.where(known, np.expm1(value), np.nan)
    found.p[part] = p
    found.state[part] = np.where(~known, 0, np.where(p <= rate, np.where(slope < 0, 2, 3), 1))


def _error(rest: Floats, middles: Floats, count: NDArray[np.int64]) -> Floats:
    """Of the slope, by least squares' formula over Theil–Sen's efficiency; the blocks' autocorrelation widens it."""
    variance = np.nansum(rest**2, axis=1) / np.maximum(count - 2, 1) / EFFICIENCY
    clean = np.nan_to_num(rest)
    lag = np.sum(clean[:, 1:] * clean[:, :-1], axis=1) / np.maximum(np.sum(clean**2, axis=1), 1e-300)
    lag = np.clip(lag + 1 / np.maximum(count, 1), 0.0, 0.8)  # its estimate about a fitted line is low by some 1/n
    span = np.sum(np.where(np.isfinite(rest), (middles - middles.mean()) ** 2, 0.0), axis=1)
    return np.asarray(np.sqrt(variance * (1 + lag) / (1 - lag) / np.maximum(span, 1e-300)))


def per_month(slope: float) -> str:
    """A slope for people: `-0.42 % a month`."""
    return "–" if math.isnan(slope) else f"{slope * 100:+.2f} % a month"

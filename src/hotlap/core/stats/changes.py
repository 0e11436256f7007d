"""Where a history changes: steps and drifts with their size, interval and chance.

A series is looked at through a window of at most 384 points that starts at the last change known for good. When it is
full, changes with 128 points after them are settled, and it moves on to the last of them, or by 128 points. So a further
point costs the same after a million, and no later point changes what is settled. A change too small or too slow to show
within 384 points is not seen: give medians of blocks instead.

What is tested stands in `hotlap.core.stats.split`, how a window is taken apart in `hotlap.core.stats.levels`, all of it for an audit
in docs/change-points.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike

from hotlap.core.record import Change
from hotlap.core.stats import levels, split
from hotlap.core.stats.levels import WindowResult
from hotlap.core.stats.series import LARGEST
from hotlap.core.stats.split import Floats

ALPHA = 0.001  # of a false change in one window of independent values
SPAN, STEP = 384, 128  # points of a full window, and points it keeps after what it settles
SHORTEST = 17  # points of a piece: among fewer no step, however large, is as rare as ALPHA asks
NEAR = 64  # points on either side of a change that give its interval
ROWS = 256  # windows looked at together


class _Found(NamedTuple):
    """A change, and where it ends: at its index for a step."""

    change: Change
    end: int


def changes(
    values: ArrayLike,
    times: ArrayLike | None = None,
    *,
    alpha: float = ALPHA,
    min_effect: float = 0.0,
    provisional: bool = False,
    boundaries: Iterable[int] = (),
) -> list[Change]:
    """Every change of level in a series, in order. [] where there is none, or too few points to tell (under 17 of a piece;
    a step of any size needs 7 on either side).

    `values`: shape (points,), any unit, in order of time; `times`: the same shape, not falling. `alpha`: the chance of a false
    change in one window of 384 independent values. `min_effect`: smallest ratio − 1, up or down, worth reporting; the others are
    found and left out. `provisional`: also a change too fresh to be confirmed, at most one, at the end. `boundaries`: indices
    at which something else began (another device, another schema): nothing is tested across them.

    Assumes only that the noise between changes is exchangeable or a first-order autoregression; what else it may be widens
    the test. Where values are not all positive ratios mean nothing: changes are found all the same, with ratio, low and high
    NaN if a level is not positive. Raises ValueError for values that are not finite, times that fall, and a bad option.
    """
    x, when = _checked(values, times)
    starts = _starts(boundaries, len(x))
    _check_options(alpha, min_effect)
    found: list[_Found] = []
    for start, end in zip(starts, [*starts[1:], len(x)], strict=False):
        found += _piece(x[start:end], start, alpha, provisional and end == len(x))
    return _reported(found, min_effect, when)


def _piece(x: Floats, offset: int, alpha: float, provisional: bool) -> list[_Found]:
    """Of a series without boundaries. Windows in which nothing could be a change are passed over many at a time."""
    steps: list[_Found] = []
    start, rows = 0, 1
    while len(x) - start > SPAN:
        below = _below_threshold(x[start:], rows, alpha)
        if below:
            start, rows = start + below * STEP, min(2 * rows, ROWS) if below == rows else 1
            continue
        window = x[start : start + SPAN]
        settled, step = _commit(levels.look(window, alpha), window, offset + start)
        steps, start, rows = steps + settled, start + step, 1
    last = levels.look(x[start:], alpha, provisional)
    return steps + _described(last, x[start:], offset + start)


def _below_threshold(x: Floats, rows: int, alpha: float) -> int:
    """How many of the next windows, at most `rows`, show nothing before the first that might."""
    windows = sliding_window_view(x[:-1], SPAN)[::STEP][:rows]
    moving = split.suspicious(split.statistics(np.ascontiguousarray(windows)), alpha, 1e-9)
    return int(np.argmax(moving)) if moving.any() else len(moving)


def _commit(result: WindowResult, x: Floats, offset: int) -> tuple[list[_Found], int]:
    """Of a full window: the changes that are settled, and how many points it leaves behind."""
    old = [one.at for one in result.splits if one.at <= SPAN - STEP]
    step = old[-1] if old else STEP
    settled = [
        one._replace(end=offset + step) if one.change.kind == "drift" else one
        for one in _described(result, x, offset, step)
        if one.change.kind == "drift" or one.change.index <= offset + step
    ]
    return settled, step


def _described(result: WindowResult, x: Floats, offset: int, until: int | None = None) -> list[_Found]:
    """The changes of one window with their sizes; a drift from its start up to `until`, all of it when not given."""
    if not (result.splits or result.provisional or result.noise.slope):
        return []
    flat = levels.level(x, result.noise)
    cuts = [one.at for one in result.splits]
    steps = [_drift(result, x, cuts, offset, len(x) if until is None else until)] if result.noise.slope else []
    all_splits = [*result.splits, *([result.provisional] if result.provisional else [])]
    ends = [0, *(one.at for one in all_splits), len(x)]
    for low, one, high in zip(ends, all_splits, ends[2:], strict=False):
        rise = result.noise.slope * one.at  # the drift's part of the level there
        change = _step(flat[low : one.at] + rise, flat[one.at : high] + rise, result.noise.variance_inflation)
        place = {"index": offset + one.at, "p": one.p, "provisional": one is result.provisional}
        steps.append(_Found(replace(change, **place), offset + one.at))
    return steps


def _step(before: Floats, after: Floats, variance_inflation: float) -> Change:
    """Medians of two levels and their ratio, with the interval of Hodges and Lehmann (Ann. Math. Stat. 34, 1963) from the
    differences of all pairs, of logarithms where all values are positive, its variance widened for autocorrelation."""
    a, b = split.median(before), split.median(after)
    if a <= 0 or b <= 0:
        return Change(index=0, before=a, after=b, ratio=math.nan, low=math.nan, high=math.nan, p=1.0)
    near, next_ = before[-NEAR:], after[:NEAR]
    positive = bool(near.min() > 0 and next_.min() > 0)
    if positive:
        near, next_ = np.log(near), np.log(next_)
    pairs = (next_[:, None] - near[None, :]).ravel()
    n, m = len(near), len(next_)
    reach = 1.96 * math.sqrt(n * m * (n + m + 1) / 12 * variance_inflation)
    rank = max(0, math.floor(n * m / 2 - reach))
    pairs = np.partition(pairs, (rank, n * m - 1 - rank))
    low, high = (float(pairs[i]) for i in (rank, n * m - 1 - rank))
    low, high = (math.exp(min(low, 700)), math.exp(min(high, 700))) if positive else (1 + low / a, 1 + high / a)
    return Change(index=0, before=a, after=b, ratio=b / a, low=min(low, b / a), high=max(high, b / a), p=1.0)


def _drift(result: WindowResult, x: Floats, cuts: list[int], offset: int, until: int) -> _Found:
    line = levels.line(x, cuts, result.noise)
    start = split.median(levels.level(x, result.noise)[: cuts[0] if cuts else len(x)])
    ends = [start + slope * until for slope in (line.slope, line.low, line.high)]
    ratio, low, high = _ratios(start, ends)
    change = Change(index=offset, before=start, after=ends[0], ratio=ratio, low=low, high=high, p=line.p, kind="drift")
    return _Found(change, offset + until)


def _ratios(before: float, after: Sequence[float]) -> list[float]:
    return [b / before if before > 0 and after[0] > 0 else math.nan for b in after]


def _reported(steps: list[_Found], min_effect: float, times: Floats | None) -> list[Change]:
    """In order, drifts that go on joined, small ones left out."""
    joined: list[_Found] = []
    for one in steps:
        last = next((i for i in reversed(range(len(joined))) if joined[i].change.kind == "drift"), None)
        if one.change.kind == "drift" and last is not None and _goes_on(joined[last], one):
            joined[last] = _joined(joined[last], one)
        else:
            joined.append(one)
    kept = [one.change for one in joined if not _small(one.change.ratio, min_effect)]
    kept.sort(key=lambda change: (change.index, change.kind))
    return kept if times is None else [replace(one, time=float(times[one.index])) for one in kept]


def _small(ratio: float, min_effect: float) -> bool:
    """Below the smallest change to report, up or down; a ratio that is not known is not small."""
    return ratio > 0 and max(ratio, 1 / ratio) < 1 + min_effect


def _goes_on(first: _Found, second: _Found) -> bool:
    a, b = first.change, second.change
    return first.end == second.change.index and (a.after > a.before) == (b.after > b.before)


def _joined(first: _Found, second: _Found) -> _Found:
    """One drift out of two: their rises add, and so do the squares of what either may be off."""
    a, b = first.change, second.change
    after = a.after + b.after - b.before
    rises = [after - a.before]
    for part in ("low", "high"):
        off = math.hypot(*((getattr(one, part) - one.ratio) * one.before for one in (a, b)))
        rises.append(rises[0] + (off if part == "high" else -off))
    ratio, low, high = _ratios(a.before, [a.before + rise for rise in rises])
    change = replace(a, after=after, ratio=ratio, low=low, high=high, p=min(a.p, b.p))
    return _Found(change, second.end)


def _checked(values: ArrayLike, times: ArrayLike | None) -> tuple[Floats, Floats | None]:
    x = np.asarray(values, dtype=float)
    if x.ndim != 1:
        raise ValueError(f"values must have one dimension, not {x.ndim}")
    _check_finite(x)
    if times is None:
        return x, None
    when = np.asarray(times, dtype=float)
    if when.shape != x.shape:
        raise ValueError(f"{len(x)} values need as many times, not {when.size}")
    if not np.isfinite(when).all():
        raise ValueError(f"time {int(np.argmin(np.isfinite(when)))} is not finite")
    falls = np.flatnonzero(when[1:] < when[:-1])
    if len(falls):
        raise ValueError(f"times must not fall: time {falls[0] + 1} is {when[falls[0] + 1]} after {when[falls[0]]}")
    return x, when


def _check_finite(x: Floats) -> None:
    good = np.abs(x) <= LARGEST
    if not good.all():
        at = int(np.argmin(good))
        raise ValueError(f"value {at} is not finite: {x[at]}; leave it out and say so")


def _check_options(alpha: float, min_effect: float) -> None:
    if not 1e-9 <= alpha <= 0.5:
        raise ValueError(f"alpha must be between 1e-9 and 0.5, not {alpha}")
    if not 0 <= min_effect < math.inf:
        raise ValueError(f"min_effect must be 0 or more, not {min_effect}")


def _starts(boundaries: Iterable[int], n: int) -> list[int]:
    """Of the pieces: 0 and every boundary."""
    marks = list(boundaries)
    for mark in marks:
        if not isinstance(mark, int | np.integer) or not 0 <= mark <= n:
            raise ValueError(f"a boundary must be a whole number from 0 to {n}, the number of points, not {mark!r}")
    return sorted({0, *(int(mark) for mark in marks if mark < n)})

"""Designs with fewer rows: what one row alone covers is moved into places of others, then rows are taken out and mended by a search.

The first after Nayeri, Colbourn and Konjevod, "Randomized post-optimization of covering arrays", European Journal of Combinatorics 34,
2013; the second after Nurmela, "Upper bounds for covering arrays by tabu search", Discrete Applied Mathematics 138, 2004.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hotlap.coverage.tuples import Allowed, Flags, Rows, Tuples

TURNS = 15  # of the search, for each unit of effort
MOST_TUPLES = 60_000  # of larger designs a turn takes too long
TABU = 8  # turns in which a place is not set back, at most


def spared(rows: Rows, tuples: Tuples, wanted: Flags, allowed: Allowed | None, effort: int, rng: np.random.Generator) -> Rows:
    """The same with rows taken out: what a row alone covers is moved to places of other rows that nothing needs."""
    rows = rows.copy()
    places = tuples.places(rows)
    counts = np.bincount(places.ravel(), minlength=tuples.total)
    counts[~wanted] += 2  # nobody need cover them
    since = 0
    while since < effort and len(rows):
        alone = counts[places] == 1
        worth = alone.sum(axis=1)
        least = int(np.argmin(worth + rng.random(len(rows)) * (0.9 if since % 2 else 3.0)))
        if _moved(least, rows, places, counts, tuples, allowed, rng):
            counts -= np.bincount(places[least], minlength=tuples.total)
            rows, places = np.delete(rows, least, axis=0), np.delete(places, least, axis=0)
            since = 0
        else:
            since += 1
            _stirred(rows, places, counts, tuples, allowed, rng)
    return rows


def _moved(
    least: int, rows: Rows, places: NDArray[np.int64], counts: NDArray[np.int_], tuples: Tuples, allowed: Allowed | None,
    rng: np.random.Generator,
) -> bool:  # fmt: skip
    """Whether all that row `least` alone covers could be moved; what could be is moved in any case."""
    member = tuples.member.astype(np.float32)
    whole = True
    for set_ in np.flatnonzero(counts[places[least]] == 1):
        if counts[places[least, set_]] != 1:
            continue  # moved together with another
        needed = ((counts[places] == 1).astype(np.float32) @ member) > 0
        columns = tuples.sets[set_]
        fits = ((rows[:, columns] == rows[least, columns]) | ~needed[:, columns]).all(axis=1)
        fits[least] = False
        able = np.flatnonzero(fits)
        rng.shuffle(able)
        for other in able[:8]:
            changed = rows[other].copy()
            changed[columns] = rows[least, columns]
            if allowed is None or allowed(changed[None])[0]:
                _put(int(other), changed, rows, places, counts, tuples)
                break
        else:
            whole = False
    return whole


def _put(row: int, changed: Rows, rows: Rows, places: NDArray[np.int64], counts: NDArray[np.int_], tuples: Tuples) -> None:
    now = tuples.places(changed[None])[0]
    np.subtract.at(counts, places[row], 1)
    np.add.at(counts, now, 1)
    rows[row], places[row] = changed, now


def _stirred(
    rows: Rows, places: NDArray[np.int64], counts: NDArray[np.int_], tuples: Tuples, allowed: Allowed | None, rng: np.random.Generator,
) -> None:  # fmt: skip
    """Places that nothing needs take other levels, so that the next try finds other ways."""
    levels = np.array(tuples.levels)
    for row in rng.permutation(len(rows))[:12]:
        needed = tuples.member[counts[places[row]] == 1].any(axis=0)
        if needed.all():
            continue
        changed = np.where(needed, rows[row], (rng.random(len(levels)) * levels).astype(np.int16)).astype(np.int16)
        if allowed is None or allowed(changed[None])[0]:
            _put(int(row), changed, rows, places, counts, tuples)


def searched(rows: Rows, tuples: Tuples, wanted: Flags, allowed: Allowed | None, effort: int, rng: np.random.Generator) -> Rows:
    """Rows less one as long as a search then covers everything again."""
    if tuples.total > MOST_TUPLES or tuples.strength < 2:
        return rows
    while len(rows) > 1:
        places = tuples.places(rows)
        counts = np.bincount(places.ravel(), minlength=tuples.total)
        counts[~wanted] += 2
        worth = (counts[places] == 1).sum(axis=1)
        fewer = _mended(np.delete(rows, int(np.argmin(worth)), axis=0), tuples, wanted, allowed, TURNS * effort, rng)
        if fewer is None:
            break
        rows = fewer
    return rows


def _mended(rows: Rows, tuples: Tuples, wanted: Flags, allowed: Allowed | None, turns: int, rng: np.random.Generator) -> Rows | None:
    """Every turn covers one tuple that is missing by the change of one place that costs least; None where turns do not suffice."""
    places = tuples.places(rows)
    counts = np.bincount(places.ravel(), minlength=tuples.total)
    counts[~wanted] += 2
    of_column = np.array([np.flatnonzero(tuples.member[:, column]) for column in range(rows.shape[1])])
    steps = np.array([tuples.steps[of_column[column], column] for column in range(rows.shape[1])])
    until = np.zeros(rows.shape, dtype=np.int64)
    for turn in range(turns):
        missing = np.flatnonzero(counts == 0)
        if not len(missing):
            return rows
        target = tuples.rows(missing[rng.integers(len(missing))][None])[0]
        differ = (rows != target) & (target >= 0)
        far = differ.sum(axis=1)
        near = np.flatnonzero((far == max(int(far.min()), 1)) | (far == 1))
        columns = np.argmax(differ[near] & (rng.random(differ[near].shape) < 0.5) | differ[near], axis=1)
        old = places[near[:, None], of_column[columns]]
        new = old + (target[columns] - rows[near, columns]).astype(np.int64)[:, None] * steps[columns]
        gain = (counts[new] == 0).sum(axis=1) - (counts[old] == 1).sum(axis=1) + rng.random(len(near)) * 0.5
        gain = np.where(until[near, columns] > turn, gain - 1000.0, gain)
        if allowed is not None:
            changed = rows[near].copy()
            changed[np.arange(len(near)), columns] = target[columns]
            gain = np.where(allowed(changed), gain, -np.inf)
        best = int(np.argmax(gain))
        if not np.isfinite(gain[best]):
            continue
        row, column = int(near[best]), int(columns[best])
        np.subtract.at(counts, old[best], 1)
        np.add.at(counts, new[best], 1)
        places[row, of_column[column]] = new[best]
        rows[row, column] = target[column]
        until[row, column] = turn + int(rng.integers(1, TABU + 1))
    return None

"""Designs with fewer rows: what one row alone covers is moved into places of others, then rows are taken out and mended by a search.

The first after Nayeri, Colbourn and Konjevod, "Randomized post-optimization of covering arrays", European Journal of Combinatorics 34,
2013; the second after Nurmela, "Upper bounds for covering arrays by tabu search", Discrete Applied Mathematics 138, 2004.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hotlap.kernels.coverage.tuples import Allowed, Flags, Rows, Tuples

TURNS = 15  # of the search, for each unit of effort
MOST_TUPLES = 60_000  # of larger designs a turn takes too long
TABU = 8  # turns in which a place is not set back, at most


@dataclass
class _State:
    """A design while it changes: its rows, the places of their tuples, and how many rows hold each tuple."""

    tuples: Tuples
    allowed: Allowed | None
    rows: Rows
    places: NDArray[np.int64]
    counts: NDArray[np.int_]

    @classmethod
    def of(cls, rows: Rows, tuples: Tuples, wanted: Flags, allowed: Allowed | None) -> _State:
        """What is not wanted counts as held twice: nobody need hold it."""
        places = tuples.places(rows)
        return cls(tuples, allowed, rows.copy(), places, np.bincount(places.ravel(), minlength=tuples.total) + 2 * ~wanted)

    def may(self, row: Rows) -> bool:
        return self.allowed is None or bool(self.allowed(row[None])[0])

    def put(self, row: int, changed: Rows) -> None:
        now = self.tuples.places(changed[None])[0]
        np.subtract.at(self.counts, self.places[row], 1)
        np.add.at(self.counts, now, 1)
        self.rows[row], self.places[row] = changed, now

    def drop(self, row: int) -> None:
        np.subtract.at(self.counts, self.places[row], 1)
        self.rows, self.places = np.delete(self.rows, row, axis=0), np.delete(self.places, row, axis=0)


def spared(rows: Rows, tuples: Tuples, wanted: Flags, allowed: Allowed | None, effort: int, rng: np.random.Generator) -> Rows:
    """The same with rows taken out: what a row alone covers is moved to places of other rows that nothing needs."""
    state = _State.of(rows, tuples, wanted, allowed)
    since = 0
    while since < effort and len(state.rows):
        worth = (state.counts[state.places] == 1).sum(axis=1)
        least = int(np.argmin(worth + rng.random(len(worth)) * (0.9 if since % 2 else 3.0)))
        if _moved(least, state, rng):
            state.drop(least)
            since = 0
        else:
            since += 1
            _stirred(state, rng)
    return state.rows


def _moved(least: int, state: _State, rng: np.random.Generator) -> bool:
    """Whether all that row `least` alone covers could be moved; what could be is moved in any case."""
    member = state.tuples.member.astype(np.float32)
    whole = True
    for set_ in np.flatnonzero(state.counts[state.places[least]] == 1):
        if state.counts[state.places[least, set_]] != 1:
            continue  # moved together with another
        needed = ((state.counts[state.places] == 1).astype(np.float32) @ member) > 0
        columns = state.tuples.sets[set_]
        fits = ((state.rows[:, columns] == state.rows[least, columns]) | ~needed[:, columns]).all(axis=1)
        fits[least] = False
        able = np.flatnonzero(fits)
        rng.shuffle(able)
        for other in able[:8]:
            changed = state.rows[other].copy()
            changed[columns] = state.rows[least, columns]
            if state.may(changed):
                state.put(int(other), changed)
                break
        else:
            whole = False
    return whole


def _stirred(state: _State, rng: np.random.Generator) -> None:
    """Places that nothing needs take other levels, so that the next try finds other ways."""
    levels = np.array(state.tuples.levels)
    for row in rng.permutation(len(state.rows))[:12]:
        needed = state.tuples.member[state.counts[state.places[row]] == 1].any(axis=0)
        if needed.all():
            continue
        changed = np.where(needed, state.rows[row], (rng.random(len(levels)) * levels).astype(np.int16)).astype(np.int16)
        if state.may(changed):
            state.put(int(row), changed)


def searched(rows: Rows, tuples: Tuples, wanted: Flags, allowed: Allowed | None, effort: int, rng: np.random.Generator) -> Rows:
    """Rows less one as long as a search then covers everything again."""
    if tuples.total > MOST_TUPLES or tuples.strength < 2:
        return rows
    while len(rows) > 1:
        state = _State.of(rows, tuples, wanted, allowed)
        state.drop(int(np.argmin((state.counts[state.places] == 1).sum(axis=1))))
        fewer = _mended(state, TURNS * effort, rng)
        if fewer is None:
            break
        rows = fewer
    return rows


def _mended(state: _State, turns: int, rng: np.random.Generator) -> Rows | None:
    """Every turn covers one tuple that is missing by the change of one place that costs least; None where turns do not suffice."""
    tuples, rows, places, counts = state.tuples, state.rows, state.places, state.counts
    of_column = np.array([np.flatnonzero(tuples.member[:, column]) for column in range(rows.shape[1])])
    steps = np.array([tuples.steps[of_column[column], column] for column in range(rows.shape[1])])
    until = np.zeros(rows.shape, dtype=np.int64)
    for turn in range(turns):
        missing = np.flatnonzero(counts == 0)
        if not len(missing):
            return rows
        target = tuples.rows(missing[rng.integers(len(missing))][None])[0]
        near, columns = _nearest(rows, target, rng)
        old = places[near[:, None], of_column[columns]]
        new = old + (target[columns] - rows[near, columns]).astype(np.int64)[:, None] * steps[columns]
        gain = (counts[new] == 0).sum(axis=1) - (counts[old] == 1).sum(axis=1) + rng.random(len(near)) * 0.5
        gain = np.where(until[near, columns] > turn, gain - 1000.0, gain)
        if state.allowed is not None:
            changed = rows[near].copy()
            changed[np.arange(len(near)), columns] = target[columns]
            gain = np.where(state.allowed(changed), gain, -np.inf)
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


def _nearest(rows: Rows, target: Rows, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows that lack least of a tuple, and for each of them a column to change."""
    differ = (rows != target) & (target >= 0)
    far = differ.sum(axis=1)
    near = np.flatnonzero(far == max(int(far.min()), 1))
    return near, np.argmax(differ[near] * rng.random(differ[near].shape), axis=1)

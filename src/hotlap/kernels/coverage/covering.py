"""Covering designs: few rows in which every tuple of levels of any `strength` columns occurs, with constraints and rows already there.

A design grows row by row: of several candidates, the one that covers the most tuples which nothing covers yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hotlap.kernels.coverage.tuples import OPEN, Allowed, Flags, Rows, Tuples

CANDIDATES = 24  # rows that are tried for each row of the greedy design


@dataclass(frozen=True)
class CoveringDesign:
    """Rows that cover every possible tuple, given ones left out."""

    rows: Rows
    possible: int  # tuples that the constraints leave
    covered: int  # of these, with the given rows


def uncovered(rows: Rows, levels: Sequence[int], strength: int, allowed: Allowed | None = None) -> int:
    """Exactly how many tuples that may occur do not."""
    tuples = Tuples(levels, strength)
    return int(np.count_nonzero(possible(tuples, allowed)[0] & ~tuples.mark(rows)))


def possible(tuples: Tuples, allowed: Allowed | None) -> tuple[Flags, Rows]:
    """Which tuples some whole row may hold, and with constraints such a row for each of them (in order)."""
    if allowed is None:
        return np.ones(tuples.total, dtype=bool), np.zeros((0, len(tuples.levels)), dtype=np.int16)
    alone = tuples.rows(np.arange(tuples.total))
    flags = allowed(alone)
    rows = _filled(alone[flags], tuples.levels, allowed)
    for place in np.flatnonzero((rows == OPEN).any(axis=1)):
        whole = _whole(alone[flags][place], tuples.levels, allowed)
        rows[place] = OPEN if whole is None else whole
    there = ~(rows == OPEN).any(axis=1)
    flags[np.flatnonzero(flags)[~there]] = False
    return flags, rows[there]


def _filled(rows: Rows, levels: Sequence[int], allowed: Allowed) -> Rows:
    """All rows at once, each open column by its first level that may stand; what finds none stays open."""
    rows = rows.copy()
    for column, count in enumerate(levels):
        for level in range(count):
            still = np.flatnonzero(rows[:, column] == OPEN)
            if not len(still):
                break
            tried = rows[still]
            tried[:, column] = level
            rows[still[allowed(tried)], column] = level
    return rows


def _whole(row: Rows, levels: Sequence[int], allowed: Allowed) -> Rows | None:
    """One row completed by trying everything; None where there is no way."""
    still = np.flatnonzero(row == OPEN)
    if not len(still):
        return row if allowed(row[None])[0] else None
    column = int(still[0])
    tried = np.repeat(row[None], levels[column], axis=0)
    tried[:, column] = np.arange(levels[column])
    for one in tried[allowed(tried)]:
        if (found := _whole(one, levels, allowed)) is not None:
            return found
    return None


def design(
    levels: Sequence[int], strength: int, allowed: Allowed | None = None, given: Rows | None = None, seed: int = 1
) -> CoveringDesign:
    """Rows that, with those `given`, cover every tuple that may occur."""
    given = np.zeros((0, len(levels)), dtype=np.int16) if given is None else given
    tuples = Tuples(levels, strength)
    flags, examples = possible(tuples, allowed)
    before = tuples.mark(given)
    rows = _greedy(tuples, flags & ~before, examples, allowed, np.random.default_rng(seed))
    covered = before | tuples.mark(rows)
    return CoveringDesign(rows, int(flags.sum()), int((covered & flags).sum()))


# ---------------------------------------------------------------- row by row


def _greedy(tuples: Tuples, wanted: Flags, examples: Rows, allowed: Allowed | None, rng: np.random.Generator) -> Rows:
    """Each row begins with a tuple that is wanted; each further column takes the level that covers most, of several tries the best."""
    wanted, built = wanted.copy(), []
    of_column = [np.flatnonzero(tuples.member[:, column]) for column in range(len(tuples.levels))]
    left = int(wanted.sum())
    while left:
        places = np.flatnonzero(wanted)
        begun = tuples.rows(rng.choice(places, min(CANDIDATES, len(places)), replace=False))
        rows = _grown(begun, tuples, wanted, of_column, allowed, rng)
        if not len(rows):
            rows = np.stack([_example(begun[0], examples)])
        gains = wanted[tuples.places(rows)].sum(axis=1)
        best = rows[int(np.argmax(gains))]
        wanted[tuples.places(best[None])] = False
        left -= int(gains.max())
        built.append(best)
    return np.array(built, dtype=np.int16).reshape(-1, len(tuples.levels))


def _example(begun: Rows, examples: Rows) -> Rows:
    """A whole row that holds the tuple."""
    matches = ((examples == begun) | (begun == OPEN)).all(axis=1)
    found: Rows = examples[int(np.argmax(matches))]
    return found


def _grown(
    rows: Rows, tuples: Tuples, wanted: Flags, of_column: Sequence[NDArray[np.int_]], allowed: Allowed | None, rng: np.random.Generator,
) -> Rows:  # fmt: skip
    """Candidates completed together, columns in a random order of their own for the whole batch; those without a way are dropped."""
    for column in rng.permutation(len(tuples.levels)):
        if not len(rows):
            break
        count = tuples.levels[column]
        sets = of_column[column]
        member = tuples.member[sets]
        tried = np.repeat(rows[:, None], count, axis=1)
        tried[:, :, column] = np.where(rows[:, None, column] == OPEN, np.arange(count), rows[:, None, column])
        open_ = tried[:, 0] == OPEN
        closed = (open_.astype(np.int32) @ member.T.astype(np.int32)) == 0
        places = np.maximum(tried, 0).astype(np.int64) @ tuples.steps[sets].T + tuples.bases[sets]
        score = (wanted[places] & closed[:, None]).sum(axis=2) + rng.random(tried.shape[:2]) * 0.5
        if allowed is not None:
            flat = allowed(tried.reshape(-1, tried.shape[2])).reshape(tried.shape[:2])
            score = np.where(flat, score, -1.0)
        chosen = np.argmax(score, axis=1)
        rows = tried[np.arange(len(rows)), chosen][score.max(axis=1) >= 0]
    return rows

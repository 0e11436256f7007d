"""Every tuple of levels of `strength` columns, numbered, so that what rows cover is an array of flags."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int16]
Flags = NDArray[np.bool_]
Allowed = Callable[[Rows], Flags]
"""For rows in which −1 is not chosen yet: whether what is chosen may stand together."""
OPEN = -1


class Tuples:
    """Every tuple of `strength` columns has a place in one long array: the base of its columns plus its levels."""

    def __init__(self, levels: Sequence[int], strength: int) -> None:
        if not 1 <= strength <= len(levels) or min(levels) < 1:
            raise ValueError(f"a strength of 1 to {len(levels)} and levels of at least 1 are needed, not {strength} and {list(levels)}")
        self.levels, self.strength = tuple(levels), strength
        self.sets = np.array(list(itertools.combinations(range(len(levels)), strength)))
        sizes = np.array(levels)[self.sets]
        self.steps = np.zeros((len(self.sets), len(levels)), dtype=np.int64)
        inner = np.ones(len(self.sets), dtype=np.int64)
        for place in range(strength - 1, -1, -1):
            self.steps[np.arange(len(self.sets)), self.sets[:, place]] = inner
            inner = inner * sizes[:, place]
        self.bases = np.concatenate([[0], np.cumsum(inner)])
        self.total = int(self.bases[-1])
        self.member = self.steps > 0

    def places(self, rows: Rows) -> NDArray[np.int64]:
        """Of complete rows: rows × sets of columns."""
        found: NDArray[np.int64] = rows.astype(np.int64) @ self.steps.T + self.bases[:-1]
        return found

    def mark(self, rows: Rows) -> Flags:
        """Which tuples the rows cover; rows with a column that is open (−1) cover those of their other columns."""
        found = np.zeros(self.total, dtype=bool)
        for start in range(0, len(rows), 8192):
            part = rows[start : start + 8192]
            closed = ~((part == OPEN).astype(np.int32) @ self.member.T.astype(np.int32) > 0)
            found[self.places(part)[closed]] = True
        return found

    def rows(self, places: NDArray[np.int64]) -> Rows:
        """Partial rows that hold the tuples alone."""
        which = np.searchsorted(self.bases, places, side="right") - 1
        rest, filled = places - self.bases[which], np.full((len(places), len(self.levels)), OPEN, dtype=np.int16)
        for place in range(self.strength):
            column = self.sets[which, place]
            step = self.steps[which, column]
            filled[np.arange(len(places)), column] = rest // step
            rest = rest % step
        return filled

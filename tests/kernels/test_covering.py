"""Covering designs: every tuple is there, counted another way; constraints hold; sizes that are known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotlap.kernels.coverage.covering import design, possible, uncovered
from hotlap.kernels.coverage.tuples import Tuples


def tuples_by_hand(rows: np.ndarray, strength: int) -> set[tuple[tuple[int, int], ...]]:
    """Every combination that rows hold, with sets and loops."""
    return {tuple((c, int(row[c])) for c in chosen) for row in rows for chosen in itertools.combinations(range(rows.shape[1]), strength)}


@settings(max_examples=25)
@given(st.lists(st.integers(1, 4), min_size=3, max_size=5), st.integers(1, 3), st.integers(0, 30), st.randoms(use_true_random=False))
def test_the_counter_agrees_with_sets(levels: list[int], strength: int, count: int, random) -> None:
    rows = np.array([[random.randrange(n) for n in levels] for _ in range(count)], dtype=np.int16).reshape(count, len(levels))
    total = sum(int(np.prod(chosen)) for chosen in itertools.combinations(levels, strength))
    assert uncovered(rows, levels, strength) == total - len(tuples_by_hand(rows, strength))


@settings(max_examples=12)
@given(st.lists(st.integers(1, 4), min_size=4, max_size=6), st.integers(2, 3))
def test_mixed_levels_are_covered(levels: list[int], strength: int) -> None:
    found = design(levels, strength)
    assert uncovered(found.rows, levels, strength) == 0
    assert found.covered == found.possible
    assert (found.rows < np.array(levels)).all()
    assert (found.rows >= 0).all()


@pytest.mark.parametrize(
    ("strength", "columns", "levels", "known"),
    [(2, 4, 3, 9), (2, 6, 5, 25), (2, 10, 2, 6), (3, 6, 4, 64), (3, 10, 2, 12), (4, 5, 3, 81), (2, 8, 6, 41), (3, 10, 6, 380)],
)
def test_sizes_are_at_most_two_thirds_above_known_ones(strength: int, columns: int, levels: int, known: int) -> None:
    found = design([levels] * columns, strength)
    assert uncovered(found.rows, [levels] * columns, strength) == 0
    assert len(found.rows) <= 5 / 3 * known


def test_constraints_hold_and_what_they_leave_is_covered() -> None:
    levels = [3, 3, 2, 4]

    def allowed(rows: np.ndarray) -> np.ndarray:
        return ~((rows[:, 0] == 0) & (rows[:, 1] == 2)) & ~((rows[:, 1] == 0) & (rows[:, 2] == 1) & (rows[:, 3] == 3))

    found = design(levels, 3, allowed)
    assert allowed(found.rows).all()
    valid = np.array(list(itertools.product(*map(range, levels))), dtype=np.int16)
    assert tuples_by_hand(found.rows, 3) == tuples_by_hand(valid[allowed(valid)], 3)
    assert found.possible == found.covered == len(tuples_by_hand(valid[allowed(valid)], 3))


def test_what_no_whole_row_can_hold_is_not_possible() -> None:
    """Level 0 of the first column goes with nothing in the third, though no rule names the first and second together."""

    def allowed(rows: np.ndarray) -> np.ndarray:
        third = rows[:, 2]
        return ~((rows[:, 0] == 0) & (third == 0)) & ~((rows[:, 1] == 0) & (third == 1))

    flags, examples = possible(Tuples([2, 2, 2], 2), allowed)
    valid = np.array(list(itertools.product(range(2), repeat=3)), dtype=np.int16)
    assert int(flags.sum()) == len(tuples_by_hand(valid[allowed(valid)], 2))
    assert allowed(examples).all()
    assert (examples >= 0).all()


def test_rows_that_are_there_are_not_made_again() -> None:
    levels = [4, 4, 4]
    there = design(levels, 2).rows
    assert len(design(levels, 2, given=there).rows) == 0
    rest = design(levels, 2, given=there[:10])
    assert uncovered(np.concatenate([there[:10], rest.rows]), levels, 2) == 0
    assert 0 < len(rest.rows) <= 8


@pytest.mark.parametrize(("levels", "strength"), [([2, 2], 3), ([2, 0], 1), ([2, 2], 0)])
def test_what_cannot_be_asked_is_said(levels: list[int], strength: int) -> None:
    with pytest.raises(ValueError, match="strength"):
        Tuples(levels, strength)

"""Many tests at once: how large a share of the differences reported may be chance, or how likely any one of them is."""

from __future__ import annotations

import math
from collections.abc import Sequence


def benjamini_hochberg(p: Sequence[float | None]) -> list[float | None]:
    """The q-value of each p: reporting all with q ≤ 0.05 keeps the expected share of false ones among them to 5 %.

    None (no test was made) passes through and does not count as a test. Assumes tests that are independent or move
    together. Benjamini and Hochberg, J. Royal Stat. Soc. B 57 (1995) 289; dependence: Benjamini and Yekutieli, Annals of
    Statistics 29 (2001) 1165. Raises ValueError for a p outside 0 to 1.
    """
    known = _known(p)
    adjusted: list[float | None] = [None] * len(p)
    smallest = 1.0
    for rank, (value, place) in reversed(list(enumerate(sorted(known), start=1))):
        smallest = min(smallest, value * len(known) / rank)
        adjusted[place] = smallest
    return adjusted


def holm(p: Sequence[float | None]) -> list[float | None]:
    """The adjusted p of each: with all at most 0.05 called, the chance that any one of them is false stays under 5 %.

    None (no test was made) passes through and does not count as a test. Needs no independence. Holm, Scandinavian J. of Statistics 6 (1979)
    65. Raises ValueError for a p outside 0 to 1.
    """
    known = _known(p)
    adjusted: list[float | None] = [None] * len(p)
    largest = 0.0
    for rank, (value, place) in enumerate(sorted(known)):
        largest = max(largest, min(1.0, value * (len(known) - rank)))
        adjusted[place] = largest
    return adjusted


def _known(p: Sequence[float | None]) -> list[tuple[float, int]]:
    known = [(value, place) for place, value in enumerate(p) if value is not None]
    wrong = [value for value, _ in known if not (math.isfinite(value) and 0 <= value <= 1)]
    if wrong:
        raise ValueError(f"a p-value lies between 0 and 1, not {wrong[0]}")
    return known

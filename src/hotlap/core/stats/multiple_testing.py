"""Many tests at once: how large a share of the differences reported may be chance."""

from __future__ import annotations

import math
from collections.abc import Sequence


def benjamini_hochberg(p: Sequence[float | None]) -> list[float | None]:
    """The q-value of each p: reporting all with q ≤ 0.05 keeps the expected share of false ones among them to 5 %.

    None (no test was made) passes through and does not count as a test. Assumes tests that are independent or move
    together. Benjamini and Hochberg, J. Royal Stat. Soc. B 57 (1995) 289; dependence: Benjamini and Yekutieli, Annals of
    Statistics 29 (2001) 1165. Raises ValueError for a p outside 0 to 1.
    """
    known = [(value, place) for place, value in enumerate(p) if value is not None]
    wrong = [value for value, _ in known if not (math.isfinite(value) and 0 <= value <= 1)]
    if wrong:
        raise ValueError(f"a p-value lies between 0 and 1, not {wrong[0]}")
    adjusted: list[float | None] = [None] * len(p)
    smallest = 1.0
    for rank, (value, place) in reversed(list(enumerate(sorted(known), start=1))):
        smallest = min(smallest, value * len(known) / rank)
        adjusted[place] = smallest
    return adjusted

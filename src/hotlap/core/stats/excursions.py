"""Points that lie apart from the rest of their level as a group, but are too few for the test of a change: said, not tested.

A test that assumes nothing of the noise needs 5 points of a level and mostly more; 3 points 20 standard deviations off are no
chance all the same. This is a robust rule with a wide margin, not a test: noise alone hardly ever follows it (in simulation
under 1 series of 1,000 with up to 200 points, for each noise of `benchmarks/changes.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from hotlap.core.record import Excursion
from hotlap.core.stats.series import MAD_TO_SD
from hotlap.core.stats.split import Floats, median, winsorized

FEWEST, FEWEST_LAST = 3, 2  # points of a group, and of one at the end
REST = 12  # fewest points of the rest
HINT, APART = 3.0, 6.0  # robust standard deviations of the level: beyond which a point may be of a group, and of the rest: must be
UNSURE = 10  # points of the rest, with which so many standard deviations are twice as many: few points show too little of the noise
OTHERS = 20  # points of the rest, of which one may lie as far away as the group
COHERENT = 1 / 3  # of the way from the rest to the group, that a point of it may be off the group's median


def excursions(values: ArrayLike, edges: Iterable[int] = (), *, min_effect: float = 0.0) -> list[Excursion]:
    """Groups of at least 3 neighbours (2 at the end of the series) that all lie on one side, beyond 6 robust standard deviations
    of the rest of their level (more where it has few points), and close to each other.

    `values`: shape (points,), finite, any unit, in order of time. `edges`: indices at which a level begins, of changes that were
    found and of boundaries. `min_effect`: smallest ratio − 1, up or down, to report. [] for a level of under 15 points (14 at the
    end). The rest is at least twice as many points as lie apart. Raises ValueError for values that are not finite.
    """
    x = np.asarray(values, dtype=float)
    if x.ndim != 1 or not np.isfinite(x).all():
        raise ValueError("values must be finite and of one dimension")
    ends = sorted({0, len(x), *(int(edge) for edge in edges if 0 < edge < len(x))})
    found = [one for start, end in pairwise(ends) for one in _of_level(x[start:end], start, end == len(x))]
    return [one for one in found if not (one.ratio > 0 and max(one.ratio, 1 / one.ratio) < 1 + min_effect)]


def _of_level(x: Floats, offset: int, last: bool) -> list[Excursion]:
    """Candidates are what stands out of all; then each is compared with the rest without any of them."""
    middle = median(x) if len(x) else 0.0
    spread = _spread(x - middle) if len(x) else 0.0
    runs = _runs(np.sign(x - middle) * (np.abs(x - middle) > HINT * spread), last)
    rest = np.delete(x, [n for run in runs for n in run])
    if not runs or len(rest) < max(REST, 2 * (len(x) - len(rest))):
        return []
    middle = median(rest)
    reach = APART * (1 + UNSURE / len(rest)) * _spread(rest - middle)
    excursions = []
    for run in runs:
        away = x[run.start : run.stop] - middle
        level = median(away)
        others = int(np.sum((rest - middle) * np.sign(level) > abs(level) / 2))  # or it is a mode of the noise
        if np.abs(away).min() > reach and np.abs(away - level).max() <= COHERENT * abs(level) and others <= len(rest) // OTHERS:
            after = middle + level
            ratio = after / middle if middle > 0 and after > 0 else float("nan")
            start, end, ends = offset + run.start, offset + run.stop, last and run.stop == len(x)
            excursions.append(Excursion(index=start, end=end, rest=middle, level=after, ratio=ratio, last=ends))
    return excursions


def _runs(side: Floats, last: bool) -> list[range]:
    """Stretches of one side (1 or −1), long enough."""
    ends = [0, *(np.flatnonzero(np.diff(side)) + 1).tolist(), len(side)]
    return [
        range(a, b) for a, b in pairwise(ends)
        if b > a and side[a] and b - a >= (FEWEST_LAST if last and b == len(side) else FEWEST)
    ]  # fmt: skip


def _spread(deviation: Floats) -> float:
    """Robust standard deviation; where more than half are the same, that of all with outliers drawn in."""
    return MAD_TO_SD * median(np.abs(deviation)) or float(np.std(winsorized(deviation)))

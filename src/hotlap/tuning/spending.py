"""How a search spends its runs: what is kept back, the rungs of the halving, and the plan of the confirmation."""

from __future__ import annotations

import math
from functools import lru_cache

from hotlap.core.stats import sequential
from hotlap.core.stats.sequential import SequentialDesign

PILOT = 4  # runs as found, first
ALONE, COMPARED = 0.5, 0.7  # shares of what is free, for runs alone and for those that are compared
CONFIRMED, CHECKED = 0.28, 0.15  # shares of the budget that are kept for the confirmation, and for leaving out
PROPOSED = 6  # configurations that the model may add
CUMULATIVE = (2, 4, 7, 11, 16, 22)  # runs of what is left after each rung; scaled to what there is time for
LEAST_PAIRS = 6
GRID = 1.05  # plans are made for noises and differences so far apart, rounded to the careful side


def rungs(count: int, room: int) -> list[tuple[int, int]]:
    """How many are left after each rung, and runs of each until then: about half each time, twice the runs, as far as `room` runs go.

    At least one run of each in the first; fewer rungs where there is no room.
    """
    sizes = [count]
    while sizes[-1] > 2:
        sizes.append(max(math.ceil(sizes[-1] / 2 if len(sizes) == 1 else sizes[-1] / 3), 2))
    if count < 1:
        return []
    best: list[tuple[int, int]] = []
    for scale in (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, *((6.0, 8.0) if count > 1 else ())):  # one is left to confirm
        runs = [max(1, round(scale * base)) for base in CUMULATIVE[: len(sizes)]]
        runs += [runs[-1]] * (len(sizes) - len(runs))
        cost = sum((size + 1) * (now - before) for size, now, before in zip(sizes, runs, [0, *runs], strict=False))
        if cost <= room or not best:
            best = [(after, now) for after, now in zip([*sizes[1:], 1], runs, strict=True)]
    return best


def least_runs(settings: int, switches: int) -> int:
    """In all, that let every setting be compared with as found, with what is kept back for leaving out and the confirmation."""
    wanted = settings / COMPARED if switches < 2 else settings * (1 + 1 / 8) + (settings + PROPOSED) / COMPARED / ALONE
    share = CONFIRMED + (CHECKED if switches > 1 else 0.0)
    return math.ceil(max((PILOT + wanted) / (1 - share), PILOT + wanted + 2 * LEAST_PAIRS))


def boundary_at(looks: tuple[int, ...], runs: int, level: float) -> float:
    """Normal score at this rung; the level is spread over all of them."""
    return sequential.boundary(looks, 0.0, level, sequential.EARLY)[looks.index(runs)]


def rounded(value: float, up: bool) -> float:
    """To a grid of 5 %."""
    step = math.log(value) / math.log(GRID)
    return float(GRID ** (math.ceil(step - 1e-9) if up else math.floor(step + 1e-9)))


def coarse(most: int) -> int:
    """Pairs there is time for, rounded down to two digits or so: plans are made once."""
    return most if most < 20 else most // 2 * 2 if most < 60 else most // 10 * 10


@lru_cache(maxsize=4096)
def planned(sd: float, difference: float, min_effect: float, most: int, level: float) -> SequentialDesign:
    """The plan of the confirmation."""
    return sequential.design(sd, difference, min_effect=min_effect, most=most, level=level)

"""How fast each kind of unit of a stress run was: peak, sustained, over time, and beside what the model expects."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hotlap import work
from hotlap.errors import InputError
from hotlap.model import limits, predict
from hotlap.model.machines import Spec
from hotlap.record import Case
from hotlap.stats import series
from hotlap.work.stress import Happened, Tick

SHORT_S = 0.05  # busy for less than this, a tick's rate is the timer's
FEWEST = 12  # ticks of a kind that can show a trend
BLOCKS = 6
ONE_WAY = 0.9  # of pairs of an early and a late tick
PRODUCTS = "products "


@dataclass(frozen=True)
class Rate:
    """One kind of unit on one device. Rates are of single ticks, about a second each, over the time in which it ran."""

    kind: str  # products fp16, memory, link …
    unit: str  # FLOP/s or B/s
    peak: float
    sustained: float  # median of the second half of its ticks
    busy_s: float
    ticks: int
    slope: float | None = None  # change over the run, as a share (Theil–Sen over six blocks); None for too few ticks
    change: float | None = None  # from the median of the first quarter to that of the last, as a share: sees a step that a line misses
    spread: float | None = None  # robust standard deviation of ticks, as a share of their median
    falls: bool = False  # the change is not chance: nearly every late tick is slower than every early one
    bound: float | None = None  # what the hardware allows, by the model
    expected: float | None = None  # what a good kernel does, by the model
    no_limit: str = ""  # why there is no bound
    reference: float | None = None  # sustained in the run that it is held against


def rates(ticks: Sequence[Tick], events: Sequence[Happened], spec: Spec | None) -> list[Rate]:
    """One entry for each kind of unit, in the order in which they first ran."""
    by: dict[str, list[tuple[float, float, float]]] = {}  # FLOP, bytes, seconds
    for tick in ticks:
        for kind, done in tick.parts().items():
            if done.busy_s > 0:
                by.setdefault(kind, []).append((done.flop, done.moved_bytes, done.busy_s))
    sides = {x.detail: x.numbers for x in events if x.what == "coverage" and "k" in x.numbers}
    return [_rate(kind, np.array(rows), sides.get(kind, {}), spec) for kind, rows in by.items() if any(row[0] or row[1] for row in rows)]


def _rate(kind: str, rows: NDArray[np.float64], sides: dict[str, float], spec: Spec | None) -> Rate:
    column, unit = (0, "FLOP/s") if rows[:, 0].any() else (1, "B/s")
    long = rows[:, 2] >= SHORT_S
    values = rows[long if long.any() else slice(None), column] / rows[long if long.any() else slice(None), 2]
    middle = float(np.median(values))
    slope = change = spread = None
    if len(values) >= FEWEST and middle:
        slope = series.drift(values[: len(values) // BLOCKS * BLOCKS].reshape(BLOCKS, -1).mean(axis=1))
        early, late = _ends(values)
        change = float(np.median(late) / np.median(early) - 1)
        spread = series.MAD_TO_SD * float(np.median(np.abs(values - middle))) / middle
    bound, expected, why = limit(kind, sides, spec)
    return Rate(
        kind=kind, unit=unit, peak=float(values.max()), sustained=float(np.median(values[len(values) // 2 :])),
        busy_s=float(rows[:, 2].sum()), ticks=len(values), slope=slope, change=change, spread=spread,
        falls=change is not None and _one_way(values), bound=bound, expected=expected, no_limit=why,
    )  # fmt: skip


def _ends(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    part = len(values) // 4
    return values[:part], values[-part:]


def _one_way(values: NDArray[np.float64]) -> bool:
    """Whether nearly every tick of the last quarter is slower than those of the first: then no scatter explains the change."""
    early, late = _ends(values)
    return float(np.mean(late[:, None] < early[None, :])) >= ONE_WAY


def limit(kind: str, sides: dict[str, float], spec: Spec | None) -> tuple[float | None, float | None, str]:
    """Bound and expectation in FLOP/s of a product of these sides, or why there is none."""
    if not kind.startswith(PRODUCTS):
        return None, None, "a pattern or a copy with its check is more than moved bytes"
    if spec is None:
        return None, None, "the device is not in the machine table"
    if not sides:
        return None, None, "the run does not say how large its products were"
    params = {name: int(sides[name]) for name in ("m", "n", "k")} | {"dtype": kind.removeprefix(PRODUCTS)}
    try:
        case = Case(workload="gemm", params=work.find("gemm").parse(params))
        found = predict.expected(case, spec, limits.limit(case, spec))
    except InputError as error:
        return None, None, str(error)
    flop = 2.0 * math.prod(sides[name] for name in ("m", "n", "k"))
    bound, expected = (flop / s if s else None for s in (found.bound_s, found.expected_s))
    return bound, expected, "" if bound or expected else found.reason or "no published rate"

"""How fast each kind of unit of a stress run was: peak, sustained, over time, and beside what the model expects."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core import work
from hotlap.core.errors import InputError
from hotlap.core.model import limits, predict
from hotlap.core.model.machines import Spec
from hotlap.core.record import Case
from hotlap.core.stats import series
from hotlap.core.work.compute import GEMM
from hotlap.core.work.link import TRANSFER
from hotlap.core.work.memory import STREAM
from hotlap.stress.record import Happened, Tick

SHORT_S = 0.05  # busy for less than this, a rate is the timer's: such ticks are taken together with the next
FEWEST = 12  # ticks of a kind that can show a trend
BLOCKS = 6
NO_LOSS = 0.001  # of throughput, up to which a change is rounding: simulated clocks have no scatter
ONE_WAY = 0.9  # of pairs of an early and a late tick
EARLY = {"eighth": 8, "sixteenth": 16}  # first parts of a run that are shorter than a quarter
FEW = 4  # ticks of such a part, at least
PRODUCTS, PICTURES = "products ", "graphics "
FAR = 0.8  # of the low end of the model's interval: below it, no scatter of good kernels explains a rate
LINK_FAR = 0.8  # of what a link is expected to carry, whose interval is wide only by assumption
BEYOND = 1.02  # of the bound: no device is faster than that
FASTER = 1.25  # of the fast end of the interval: the model knows too little of this one
COPIES = {"memory": STREAM.case({"op": "copy", "size": "4 GiB"}), "link": TRANSFER.case({"direction": "h2d", "size": "1 GiB"})}


@dataclass(frozen=True)
class Rate:
    """One kind of unit on one device. Rates are of single ticks, about a second each, over the time in which it ran."""

    kind: str  # products fp16, memory, link …
    unit: str  # FLOP/s, B/s, or 1/s of pixels, texels and triangles
    peak: float
    sustained: float  # median of the second half of its ticks
    busy_s: float
    ticks: int
    slope: float | None = None  # change over the run along a line (Theil–Sen over six blocks), as a share, at most that between any two
    change: float | None = None  # from the median of the first quarter to that of the last, as a share: sees a step that a line misses
    spread: float | None = None  # robust standard deviation of ticks, as a share of their median
    falls: bool = False  # the change is a loss, and not chance: nearly every late tick is slower than every early one
    early_loss: float | None = None  # the most that is lost, not by chance, from one of the parts EARLY to the last quarter, as a share
    early: str = ""  # which part
    bound: float | None = None  # what the hardware allows, by the model
    expected: float | None = None  # what a good kernel does, by the model
    no_limit: str = ""  # why there is no bound
    floor: float | None = None  # below it the rate is far from what the model expects
    quickest: float | None = None  # the fast end of the model's interval
    reference: float | None = None  # sustained in the run that it is compared with


def rates(ticks: Sequence[Tick], events: Sequence[Happened], spec: Spec | None) -> list[Rate]:
    """One entry for each kind of unit, in the order in which they first ran."""
    by: dict[str, list[tuple[float, float, float, float]]] = {}  # FLOP, bytes, steps, seconds
    for tick in ticks:
        for kind, done in tick.parts().items():
            if done.busy_s > 0:
                by.setdefault(kind, []).append((done.flop, done.moved_bytes, done.steps, done.busy_s))
    sides = {x.unit: x.numbers for x in events if x.what == "coverage"}
    return [_rate(kind, np.array(rows), sides.get(kind, {}), spec) for kind, rows in by.items() if any(any(row[:3]) for row in rows)]


def _rate(kind: str, rows: NDArray[np.float64], sides: dict[str, float], spec: Spec | None) -> Rate:
    column, unit = next((place, name) for place, name in enumerate(("FLOP/s", "B/s", "1/s")) if rows[:, place].any())
    joined = _together(rows)
    values = joined[:, column] / joined[:, -1]
    middle = float(np.median(values))
    slope = change = spread = None
    if len(values) >= FEWEST and middle:
        blocks = values[: len(values) // BLOCKS * BLOCKS].reshape(BLOCKS, -1).mean(axis=1)
        widest = float(np.ptp(blocks)) / float(blocks.max())  # a step tilts a line by more than it is high
        slope = float(np.clip(series.drift(blocks), -widest, widest))
        change = _change(*_ends(values))
        spread = series.MAD_TO_SD * float(np.median(np.abs(values - middle))) / middle
    known = limit(kind, sides, spec)
    early_loss, early = _early(values)
    return Rate(
        kind=kind, unit=unit, peak=float(values.max()), sustained=float(np.median(values[len(values) // 2 :])),
        busy_s=float(rows[:, -1].sum()), ticks=len(rows), slope=slope, change=change, spread=spread,
        falls=change is not None and change < -NO_LOSS and _one_way(*_ends(values)), early_loss=early_loss, early=early,
        bound=known.bound, expected=known.expected, no_limit=known.reason, floor=known.floor, quickest=known.quickest,
    )  # fmt: skip


def _together(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ticks too short to time on their own, added up until they are long enough; none is dropped, and none outweighs another kind."""
    if not (rows[:, -1] < SHORT_S).any():
        return rows
    rates: list[NDArray[np.float64]] = []
    open_row = np.zeros(rows.shape[1])
    for row in rows:
        open_row = open_row + row
        if open_row[-1] >= SHORT_S:
            rates.append(open_row)
            open_row = np.zeros(rows.shape[1])
    if open_row[-1] > 0:
        if rates:
            rates[-1] = rates[-1] + open_row
        else:
            rates.append(open_row)
    return np.array(rates)


def _ends(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    part = len(values) // 4
    return values[:part], values[-part:]


def _early(values: NDArray[np.float64]) -> tuple[float | None, str]:
    """What is lost soon after the start, and from which part on: a quarter holds more slow ticks than fast ones then."""
    lost: list[tuple[float, str]] = []
    for name, part in EARLY.items():
        early, late = values[: len(values) // part], _ends(values)[1]
        if len(early) >= FEW and _one_way(early, late):
            lost.append((-_change(early, late), name))
    return max(lost) if lost else (None, "")


def _change(early: NDArray[np.float64], late: NDArray[np.float64]) -> float:
    return float(np.median(late) / np.median(early) - 1)


def _one_way(early: NDArray[np.float64], late: NDArray[np.float64]) -> bool:
    """Whether nearly every late tick is slower than the early ones: then no scatter explains the change."""
    return float(np.mean(late[:, None] < early[None, :])) >= ONE_WAY


class Known(NamedTuple):
    """What the model says of a kind of unit, in FLOP/s or B/s; `reason` where there is no bound."""

    bound: float | None = None
    expected: float | None = None
    reason: str = ""
    floor: float | None = None
    quickest: float | None = None


def limit(kind: str, sides: dict[str, float], spec: Spec | None) -> Known:
    """Bound and expectation of a product, of a copy in memory or of one over the link; or why there is none. `sides`: the unit's facts:
    m, n and k, `library` of products by a vendor's library, `plain` of copies that move no more than they count."""
    if kind.startswith(PICTURES):
        return _drawn(kind.removeprefix(PICTURES), sides, spec)
    if kind not in COPIES and not kind.startswith(PRODUCTS):
        return Known(reason="no rate is published for it")
    if kind in COPIES and not sides.get("plain"):
        return Known(reason="a pattern or a copy with its check is more than moved bytes")
    if spec is None:
        return Known(reason="the device is not in the machine table")
    if kind.startswith(PRODUCTS) and "k" not in sides:
        return Known(reason="the run does not say how large its products were")
    try:
        case, amount = _case(kind, sides)
        expected_limit = predict.expected(case, spec, limits.limit(case, spec))
    except InputError as error:
        return Known(reason=str(error))
    bound, expected, low, quickest = (
        amount / s if s else None for s in (expected_limit.bound_s, expected_limit.expected_s, expected_limit.high_s, expected_limit.low_s)
    )  # fmt: skip
    floor = LINK_FAR * expected if kind == "link" and expected else FAR * low if low else None
    if not (sides.get("plain") or sides.get("library")):  # a simple kernel of Hotlap's own is not what the model expects
        floor = None
    return Known(bound, expected, "" if bound or expected else expected_limit.reason or "no published rate", floor, quickest)


def _drawn(workload: str, sides: dict[str, float], spec: Spec | None) -> Known:
    """Of pixels, texels or triangles a second. `sides`: the picture's side."""
    if spec is None or "side" not in sides:
        return Known(reason="the device is not in the machine table")
    case = work.find(workload).case({"side": int(sides["side"])})
    found, steps = limits.limit(case, spec), work.find(workload).work(case.params).steps
    bound, expected = (steps / s if s else None for s in (found.bound_s, found.expected_s))
    return Known(bound, expected, "" if bound or expected else found.reason)


def _case(kind: str, sides: dict[str, float]) -> tuple[Case, float]:
    """The case of the model that is like a unit, and its FLOP or bytes."""
    if kind in COPIES:
        case = COPIES[kind]
        asked = work.find(case.workload).work(case.params)
        return case, float(asked.link_bytes or asked.working_set_bytes)
    given = {name: int(sides[name]) for name in ("m", "n", "k")} | {"dtype": kind.removeprefix(PRODUCTS)}
    return GEMM.case(given), 2.0 * math.prod(sides[name] for name in ("m", "n", "k"))

"""A simulation against silicon: the same cases, their errors by regime, and the worst ones with what either run says of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from hotlap.core.record import Case, Gap, Record, Row
from hotlap.core.stats.series import ranked
from hotlap.core.store.readers import counted
from hotlap.core.store.readers.outside import METHOD as SIMULATOR

SHORT_S = 20e-6  # calls shorter are mostly launch and fill: a regime of their own
FEWEST_RANKED = 3
MOST_OF_A_REGIME = 2  # of the worst cases
AGREES = 0.01  # no case so near is among the worst
NAMED = 3  # causes
SLIGHT = 0.002  # of the time: a difference too small to name


class Agreement(Record, frozen=True, kw_only=True):
    """How well one set of times foretells another, over the cases of one regime. Errors are shares: simulated ÷ measured − 1."""

    regime: str
    cases: int
    mape: float  # mean of absolute errors
    median: float  # of absolute errors
    p90: float
    bias: float  # mean error: positive where the simulation is slow
    rank: float | None = None  # Spearman's correlation of times; None with fewer than 3 cases


class Correlated(Record, frozen=True, kw_only=True):
    """One case simulated and measured."""

    case: Case
    label: str
    regime: str
    simulated_s: float
    measured_s: float
    error: float
    differ: dict[str, float] | None = None  # seconds more in the simulation, by the largest causes that both counted; None: not both did
    spent: dict[str, float] = {}  # share of the simulation's time by its largest causes, where it alone counted them
    gaps: dict[str, Gap] = {}  # of the sides that say what sets their time: simulated, measured


class Correlation(Record, frozen=True, kw_only=True):
    """A simulation against silicon."""

    simulated: list[str]  # RunRecord.id
    measured: list[str]
    regimes: list[Agreement] = []  # all cases first
    cases: list[Correlated] = []  # the worst first
    against: str = "measured"  # what the second side is: measured, or a reference, itself simulated
    missing: int = 0  # cases that only one side has a number for
    apart: str = ""  # the two sides' devices where they are not of one model


def correlate(simulated: Sequence[tuple[str, Sequence[Row]]], measured: Sequence[tuple[str, Sequence[Row]]]) -> Correlation:
    """Runs by id with their rows, both sides. A case that several runs or devices measured counts once, by its median.

    Raises ValueError where the first side is not simulated, or no case has a number on both sides.
    """
    a, b = _by_case(simulated), _by_case(measured)
    both = [key for key in a if key in b]
    if not both:
        raise ValueError("no case has a time on both sides; both runs need the same plan")
    if not _simulated(a[both[0]]):
        turned = "; give the simulated one first" if _simulated(b[both[0]]) else "; hotlap compare holds measurements against each other"
        raise ValueError(f"the first one was not simulated{turned}")
    cases = sorted((_case(a[key], b[key]) for key in both), key=lambda one: -abs(math.log1p(one.error)))
    regimes = sorted({one.regime for one in cases})
    found = [_agreement("all", cases), *(_agreement(name, [one for one in cases if one.regime == name]) for name in regimes)]
    return Correlation(
        simulated=[name for name, _ in simulated], measured=[name for name, _ in measured], cases=cases,
        regimes=found if len(regimes) > 1 else found[:1],
        against="reference" if _simulated(b[both[0]]) else "measured", missing=len(a.keys() ^ b.keys()),
    )  # fmt: skip


def _by_case(runs: Sequence[tuple[str, Sequence[Row]]]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for _, rows in runs:
        for row in rows:
            if row.result.status == "measured" and row.result.seconds:
                found.setdefault(row.case.id, []).append(row)
    return found


def _simulated(rows: Sequence[Row]) -> bool:
    """By Hotlap's simulated GPU, or by a simulator whose statistics were brought in."""
    result = rows[0].result
    return result.target.partition(":")[0] == "simulated" or any(one.method == SIMULATOR for one in result.rounds)


def worst(cases: Sequence[Correlated], most: int) -> list[Correlated]:
    """The worst cases, the worst first: one of each regime, and a second one only where there are fewer regimes than `most`.

    Cases off by less than 1 % are none; one that shares its reason with a worse one says little.
    """
    places: dict[str, int] = {}
    ranks = []
    for number, one in enumerate(cases):
        places[one.regime] = places.get(one.regime, 0) + 1
        if places[one.regime] <= MOST_OF_A_REGIME and abs(one.error) >= AGREES:
            ranks.append((places[one.regime], number))
    return [cases[number] for _, number in sorted(sorted(ranks)[:most], key=lambda rank: rank[1])]


def _seconds(rows: Sequence[Row]) -> float:
    return statistics.median(value for row in rows for value in row.result.seconds)


def _case(a: Sequence[Row], b: Sequence[Row]) -> Correlated:
    simulated, measured = _seconds(a), _seconds(b)
    kind = f"{b[0].case.workload}, {'up to' if measured <= SHORT_S else 'over'} 20 µs"
    return Correlated(
        case=b[0].case, label=b[0].label, regime=kind, simulated_s=simulated, measured_s=measured, error=simulated / measured - 1,
        **_causes(a[0], b[0]),
    )  # fmt: skip


def _causes(simulated: Row, measured: Row) -> dict[str, Any]:
    """By what causes both differ where both counted them; the simulation's causes where it did; and what each run's gap says."""
    a, b = (counted.stalls(one.result) for one in (simulated, measured))
    if a and b:
        off = sorted(((a.get(name, 0.0) - b.get(name, 0.0), name) for name in a.keys() | b.keys()), key=lambda one: -abs(one[0]))
        return {"differ": {name: value for value, name in off[:NAMED] if abs(value) > SLIGHT * sum(a.values())}}
    sides = {"simulated": simulated, "measured": measured}
    gaps = {name: replace(row.gap, limit=None) for name, row in sides.items() if row.gap.cause}
    if not a:
        return {"gaps": gaps}
    whole, most = sum(a.values()), sorted(a.items(), key=lambda one: -one[1])[:NAMED]
    spent = {name: value / whole for name, value in most if value > 0.005 * whole}
    return {"spent": spent, "gaps": {name: gap for name, gap in gaps.items() if name == "measured"}}


def _agreement(regime: str, cases: Sequence[Correlated]) -> Agreement:
    errors = np.array([one.error for one in cases])
    size = np.abs(errors)
    return Agreement(
        regime=regime, cases=len(cases), mape=float(size.mean()), median=float(np.median(size)), p90=float(np.quantile(size, 0.9)),
        bias=float(errors.mean()), rank=_rank([one.simulated_s for one in cases], [one.measured_s for one in cases]),
    )  # fmt: skip


def _rank(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Spearman's correlation; None for fewer than 3 cases or where one side is all the same."""
    x, y = ranked(np.asarray(a)), ranked(np.asarray(b))
    if len(a) < FEWEST_RANKED or x.std() == 0 or y.std() == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])

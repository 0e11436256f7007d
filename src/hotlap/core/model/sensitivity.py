"""What a plan gains from each figure of a machine: its cases' times on machines that have more of it, by the model or by simulation.

    elasticity = − d ln(time) ÷ d ln(figure)

1: the time falls as the figure grows, 0: it does not change. It is taken between one step less and one step more. Of a step of a network
the time is the sum of calls × time of its kernels; without networks each case counts alike (geometric mean). Launches and the way over a
link are figures of time: more of them means shorter. Cases that no family of kernels knows are taken at their bound.

Its interval: what a figure sets of a case's time and the rest of it may each be off by the case's stated interval, independently; over
cases such errors are alike, so the ends are averaged as the middle is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hotlap.core import work
from hotlap.core.errors import InputError, nearest
from hotlap.core.model import edits
from hotlap.core.model.calibration import Calibration
from hotlap.core.model.cases import Floats, Times, alike, simulated, times
from hotlap.core.model.machines import Spec
from hotlap.core.model.weights import Share, Weights
from hotlap.core.record import Case, Plan, Record

STEPS = (1.5, 2.0)  # beside one small step either way
GRID = (1.1, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0)  # where the balance is looked for
NOTHING = 0.02  # elasticity below which more of a figure gains nothing worth having
LEAST_STEP, MOST_STEP = 0.001, 0.5


@dataclass(frozen=True)
class SensitivityFigure:
    """Fields of Spec that go together. `power` −1: less of the field is more of the figure."""

    name: str
    about: str
    fields: tuple[str, ...]
    unit: str = ""
    power: int = 1
    part: bool = False  # contained in another: all but these together are the whole machine


FIGURES = (
    SensitivityFigure("memory_bandwidth", "bandwidth of memory", ("memory_bandwidth_b_s",), "B/s"),
    SensitivityFigure("clock", "highest clock, and with it arithmetic and caches", ("clock_max_hz",), "Hz"),
    SensitivityFigure("units", "number of SMs or CUs, each as it is", ("compute_units",), part=True),
    SensitivityFigure("matrix_rate", "operations of the matrix unit a clock, fed as before", ("matrix_rate",), part=True),
    SensitivityFigure("vector_rate", "operations of the vector units a clock", ("vector_rate",), part=True),
    SensitivityFigure("l2_bandwidth", "bandwidth of L2", ("l2_factor",), part=True),
    SensitivityFigure("l2_size", "size of L2 and what lies behind it", ("l2_bytes", "llc_bytes"), "B", part=True),
    SensitivityFigure("launch", "shorter launches", ("launch_factor",), power=-1),
    SensitivityFigure("link_bandwidth", "bandwidth between GPUs", ("scaleup_b_s",), "B/s"),
    SensitivityFigure("link_latency", "shorter way over a link", ("link_latency_factor",), power=-1),
    SensitivityFigure("host_link", "bandwidth between host and GPU", ("host_b_s",), "B/s"),
    SensitivityFigure("power_limit", "power limit of the board", ("power_w",), "W"),
)


class Gain(Record, frozen=True, kw_only=True):
    """What more of one figure does. `gains`: speed at a factor of it ÷ speed as it is."""

    figure: str
    about: str
    now: float | None = None  # in `unit`; None where the table has none
    unit: str = ""
    elasticity: float
    low: float | None = None  # 90 %; None by simulation
    high: float | None = None
    gains: dict[str, float] = {}  # by factor, as written: 0.9, 1.1, 1.5, 2
    enough: float | None = None  # times the figure beyond which more gains nothing; None: not found up to 16 times
    part: bool = False  # contained in the clock, or of no speed


class Sensitivity(Record, frozen=True, kw_only=True):
    """A plan's gains, the largest first."""

    plan: str
    machine: str
    cases: int  # that count
    weighted: str  # by networks' calls, or each case alike
    by: float  # the small step
    method: str  # model or simulation
    figures: list[Gain] = []
    whole: float | None = None  # sum over figures that together are the whole machine: near 1; None where only some were asked for
    steps: list[Share] = []
    workloads: list[Share] = []
    bounded: int = 0  # cases taken at their bound
    unmeasured: int = 0  # cases of a run without a number: they weigh what is expected of them
    left_out: dict[str, int] = {}  # why: cases
    largest_bytes: float = 0.0  # of a case
    too_large: int = 0  # cases that the machine's memory cannot hold


Ask = Callable[[Spec], Times]


@dataclass(frozen=True)
class SensitivityOptions:
    """`by`: the small step, a share. `keys`: names of figures (default: all that the machine has). `measured`: seconds of cases by id,
    which then weigh instead of expected ones."""

    by: float = 0.1
    keys: Sequence[str] = ()
    simulation: bool = False
    calibration: Calibration | None = None
    measured: Mapping[str, float] = field(default_factory=dict)


def sensitivity(plan: Plan, spec: Spec, asked: SensitivityOptions | None = None) -> Sensitivity:
    """Raises InputError for a machine or plan of which nothing is expected, for unknown names and steps out of range."""
    asked = asked or SensitivityOptions()
    by, simulation = asked.by, asked.simulation
    if not LEAST_STEP <= by <= MOST_STEP:
        raise InputError(f"a step is from {100 * LEAST_STEP:.1f} % to {100 * MOST_STEP:.0f} % of a figure, not {by:.3g}")
    figures = _figures(plan.cases, spec, asked.keys)
    groups = alike(plan.cases)

    def ask(machine: Spec) -> Times:
        return simulated(groups, machine) if simulation else times(groups, machine, asked.calibration)

    base = ask(spec)
    weigh = Weights(plan, base, asked.measured)
    if not len(weigh.kept):
        raise InputError(f"nothing is expected of the cases of {plan.name} on {spec.slug}: {next(iter(base.missing.values()), 'no cases')}")
    gains = [_gain(figure, spec, by, ask, weigh, simulation) for figure in figures]
    gains.sort(key=lambda one: -one[0].elasticity)
    each = {gain.figure: own for gain, own in gains}
    unmeasured = sum(plan.cases[n].id not in asked.measured for n in weigh.kept)
    needed = [float(work.find(case.workload).work(case.params).working_set_bytes) for case in plan.cases]
    return Sensitivity(
        plan=plan.name, machine=spec.slug, cases=len(weigh.kept), by=by, method="simulation" if simulation else "model",
        weighted="calls in networks" if plan.uses else "each case alike", figures=[gain for gain, _ in gains],
        whole=None if asked.keys else sum(gain.elasticity for gain, _ in gains if not gain.part), steps=weigh.steps(each),
        workloads=weigh.workloads(each, groups), bounded=len(base.bounded),
        unmeasured=unmeasured if asked.measured else 0, left_out=dict(Counter(base.missing.values())),
        largest_bytes=max(needed), too_large=sum(spec.memory_bytes is not None and size > spec.memory_bytes for size in needed),
    )  # fmt: skip


# ---------------------------------------------------------------- figures


def names() -> list[str]:
    return [one.name for one in FIGURES]


def _figures(cases: Sequence[Case], spec: Spec, keys: Sequence[str]) -> list[SensitivityFigure]:
    """Those asked for, or all that the machine has; the matrix rate also by type where a plan has several."""
    if spec.kind != "gpu":
        raise InputError(f"nothing is expected of {spec.name}: the model knows GPUs")
    units = {unit for case in cases for unit in work.find(case.workload).work(case.params).operations if unit.startswith("matrix.")}
    types = sorted(units & spec.flop_per_clock.keys())
    typed = [SensitivityFigure(unit, f"the same for {unit.partition('.')[2]} alone", (unit,), part=True) for unit in types]
    known = [*FIGURES, *(typed if len(typed) > 1 or keys else [])]
    if not keys:
        return [one for one in known if _has(one, spec)]
    by = {one.name: one for one in known}
    for key in keys:
        if key not in by:
            raise InputError(f"there is no figure '{key}'; {nearest(key, by)}")
        if not _has(by[key], spec):
            raise InputError(f"{spec.slug} has no {key} in the machine table: nothing to change")
    return [by[key] for key in dict.fromkeys(keys)]


def _has(figure: SensitivityFigure, spec: Spec) -> bool:
    return any(edits.known(spec, name) for name in figure.fields)


def _changed(figure: SensitivityFigure, spec: Spec, factor: float) -> tuple[Spec, float]:
    """The machine with so much more of a figure, and how much more it really is: units are whole."""
    made = edits.apply(spec, dict.fromkeys(figure.fields, factor ** figure.power))
    if figure.fields == ("compute_units",) and spec.compute_units:
        return made, (made.compute_units or 0) / spec.compute_units
    return made, factor


def _gain(figure: SensitivityFigure, spec: Spec, by: float, ask: Ask, weigh: Weights, simulation: bool) -> tuple[Gain, Floats]:
    """The gain over the whole plan, and each case's elasticity."""
    if figure.fields == ("compute_units",) and spec.compute_units:
        by = min(max(by, 1 / spec.compute_units), MOST_STEP)  # one unit at least, for they are whole
    curve: dict[float, Floats] = {}
    really: dict[float, float] = {}
    for factor in (1 - by, 1 + by, *STEPS):
        machine, really[factor] = _changed(figure, spec, factor)
        curve[factor] = ask(machine).seconds
    down, up = 1 - by, 1 + by
    own = -np.log(curve[up] / curve[down]) / math.log(really[up] / really[down])
    elasticity = -weigh.log_ratio(curve[up], curve[down]) / math.log(really[up] / really[down])
    low, high = (None, None) if simulation else weigh.ends(own, elasticity)
    now = edits.stands(spec, figure.fields[0]) if figure.unit or figure.fields == ("compute_units",) else None
    gains = {f"{factor:g}": math.exp(-weigh.log_ratio(seconds)) for factor, seconds in curve.items()}
    enough = 1.0 if elasticity < NOTHING else None if simulation else _enough(figure, spec, ask, weigh)
    gain = Gain(
        figure=figure.name, about=figure.about, now=None if now is None else float(now), unit=figure.unit, elasticity=elasticity,
        low=low, high=high, gains=gains, enough=enough, part=figure.part,
    )  # fmt: skip
    return gain, own


def _enough(figure: SensitivityFigure, spec: Spec, ask: Ask, weigh: Weights) -> float | None:
    """The factor beyond which no step of the grid gains anything."""
    before, at, enough = 0.0, 1.0, 1.0
    for factor in GRID:
        machine, really = _changed(figure, spec, factor)
        if really == at:  # of a few whole units
            continue
        after = weigh.log_ratio(ask(machine).seconds)
        if (before - after) / math.log(really / at) >= NOTHING:
            enough = factor
        before, at = after, really
    return enough if enough < GRID[-1] else None

"""The public Python interface: the same functions as the command line, returning the types of `record`."""

from __future__ import annotations

import contextlib
import html
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hotlap.core import extend, stand_in, units
from hotlap.core import plan as plans
from hotlap.core.analysis import compare as comparing
from hotlap.core.analysis import drift, environment
from hotlap.core.analysis import rates as speeds
from hotlap.core.analysis import rows as tables
from hotlap.core.errors import InputError, nearest
from hotlap.core.measure import inline, session
from hotlap.core.model import kept
from hotlap.core.model.predict import predict as predicted
from hotlap.core.plan import measuring
from hotlap.core.record import Case, Change, Comparison, Finding, Limit, MeasureOptions, Plan, Result, Row, Samples, Summary
from hotlap.core.show import comparison, listing, single, text
from hotlap.core.stats.changes import changes as detected
from hotlap.core.store import bundle as bundles
from hotlap.core.store import labels, paths, select
from hotlap.features import TABLE
from hotlap.traces.advice import trace as advising
from hotlap.traces.timeline import Timeline as Timeline

extend.use(TABLE)


@dataclass(frozen=True, repr=False)
class Run:
    """A run that was kept: its bundle, and what follows from it. As text and in a notebook it is its table."""

    bundle: bundles.Bundle

    @property
    def id(self) -> str:
        return self.bundle.run.id

    @property
    def path(self) -> Path:
        return self.bundle.path

    @property
    def samples(self) -> list[Samples]:
        """The raw repeats: one per case, round and device."""
        return self.bundle.samples

    @cached_property
    def results(self) -> list[Result]:
        """A result per case and device, its rounds folded together."""
        return select.results(self.bundle)

    @cached_property
    def rows(self) -> list[Row]:
        """Each result with its summary, its gap to the limit, and its state."""
        return tables.rows(self.bundle)

    def __str__(self) -> str:
        return text.table(self.rows, 100, color=False)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _preformatted(self)


Which = str | os.PathLike[str] | Run
"""What names runs: a selector, a path to a folder or zip, or a run at hand."""


def run(plan: str | os.PathLike[str] | Plan = "quick", target: str | None = None, **options: Any) -> Run:
    """Measures a plan (a built-in name, a path, or a Plan) and keeps it under HOTLAP_HOME.

    `target` is a specification like "opencl", "torch:cuda" or "simulated:h200-sxm?noise=0.01"; None is the best there is.
    Options: `device` (an index, a UUID, "all", or a list of indices and UUIDs), `together`, `labels` (a mapping), `wait_s`, and
    every field of MeasureOptions (`rounds`, `budget_s`, `precision`, …). Raises InputError, MachineError, or Interrupted
    (everything measured is kept).
    """
    own = {name: read(options.pop(name)) for name, read in _OF_A_RUN.items() if name in options}
    chosen = _measured(_plan(plan), options, also=tuple(_OF_A_RUN))
    path = session.run(chosen, session.SessionOptions(target=_target(target), home=paths.home(), **own), lambda *_: None)
    return load(path)


def load(run: Which) -> Run:
    """A run from its folder, its zip, or any selector that names one run (`latest`, an id, `label=value`)."""
    found = _runs(run)
    if len(found) != 1:
        raise InputError(f"'{run}' names {len(found)} runs; load takes one: {', '.join(b.run.id for b in found[-5:])}")
    return Run(found[0])


class Measurement(Result, frozen=True, kw_only=True):
    """A Result that shows itself: as text its line of the table, in a notebook as a table. `precision`: asked half-width of its interval,
    as a share of the median; None: none was asked."""

    precision: float | None = None

    @property
    def rates(self) -> dict[str, float]:
        """Of the median time, with the `work` that was given: bytes_per_second, flop_per_second, operations_per_second; {} without."""
        return speeds.rates(self)

    @property
    def summary(self) -> Summary:
        """The figures that it shows, in `unit`: `.median`, its interval over rounds `.low` and `.high`; `.half_width` as a share."""
        return single.row_of(self, self.precision).summary

    def __str__(self) -> str:
        return single.text(self, self.precision)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return single.html(self, self.precision)


def measure(
    fn: Callable[..., Any], *args: Any, work: Mapping[str, float | str] | None = None, target: str | None = None, **options: Any
) -> Measurement:
    """The measuring loop on a callable of one's own, in this process.

    `work` says what one call does, as far as it is known: `bytes` that it reads, `bytes_written` (in addition: the rate is of both),
    `operations` and their `unit_of_arithmetic`, as in fma.fp32 or matrix.bf16.
    `target` names one whose device is waited for and whose timer is used ("torch:cuda"); None is the wall clock.
    Options: `rounds` (6), `round_s` (0.5), `sample_s`, `precision` (5 %, beyond which it shows itself as inconclusive). Values of the
    result are seconds per call, one per round; nothing is printed, and the result shows itself. An exception of `fn` passes through.
    """
    if not callable(fn):
        raise InputError(f"measure needs a callable, not {_shown(fn)}; as in hotlap.measure(f, x) for f(x)")
    if work is not None and not isinstance(work, Mapping):
        raise InputError(f"'work' says what one call does, as in {{'bytes': 4096, 'operations': 1e6}}, not {_shown(work)}")
    case = inline.case_of(fn, work)
    plan = Plan(name="callable", measure=MeasureOptions(round_s=0.5, rounds_max=6, precision=0.05))
    asked = _measured(plan, options, of_fn="; what fn itself takes by name goes into a lambda: hotlap.measure(lambda: fn(…))").measure
    opened, samples = inline.rounds(lambda: fn(*args), case, _target(target), asked)
    result = stand_in.noted(select.fold(case, samples, opened.device.target), opened.device)
    return Measurement(**{name: getattr(result, name) for name in result.__struct_fields__}, precision=asked.precision)


class Prediction(Limit, frozen=True, kw_only=True):
    """A Limit that shows itself as `hotlap predict` prints it. `case`: None where parameters were lists or arrays."""

    case: Case | None = None
    machine: str = ""

    def __str__(self) -> str:
        if self.case is None:
            return f"limits on {self.machine} as arrays of shape {np.shape(self.bound_s)}: .bound_s .expected_s .low_s .high_s …"
        return listing.prediction(self.case, self.machine, self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _preformatted(self)


def predict(
    workload: str, machine: str, implementation: str = "", calibration: str = "", spec_only: bool = False, **params: Any
) -> Prediction:
    """What a machine of the table allows for a workload: `.bound_s .expected_s .low_s .high_s …`, seconds per call.

    Parameters as in a plan ("256 MiB", "bf16"); NumPy arrays or lists of them give arrays. `implementation` is the library's
    kernel. What `hotlap model calibrate` kept of this machine is used: `calibration` names another, `spec_only` takes published
    figures alone. Raises InputError.
    """
    for name, value in (("workload", workload), ("machine", machine), ("implementation", implementation), ("calibration", calibration)):
        if not isinstance(value, str):
            raise InputError(f"'{name}' is a name, as in hotlap.predict('stream', 'h200-sxm', size='1 GiB'), not {_shown(value)}")
    for name, value in params.items():
        _regular(name, value)
    known = kept.chosen(machine, calibration, spec_only, kept.place())
    limit = predicted(workload, machine, implementation, known, **params)
    case = plans.case(workload, params) if np.ndim(limit.bound_s) == np.ndim(limit.expected_s) == 0 else None
    return Prediction(**{name: getattr(limit, name) for name in limit.__struct_fields__}, case=case, machine=machine)


class Comparisons(list[Comparison]):
    """A Comparison per case, which show themselves together as `hotlap compare` prints them."""

    def __init__(self, each: Iterable[Comparison], groups: Sequence[Sequence[bundles.Bundle]]) -> None:
        super().__init__(each)
        self.groups = groups

    def __str__(self) -> str:
        a, b = ([one.run for one in group] for group in self.groups)
        return comparison.comparison(self, self.groups, environment.differences(a, b))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _preformatted(self)


def compare(
    a: Which | Sequence[Which], b: Which | Sequence[Which], min_effect: float | str | None = None, force: bool = False,
    assume_stable: bool = False, *, gate: float | str | None = None,
) -> Comparisons:
    """Two runs or groups of runs, case by case; a list is a group. A ratio above 1 means that b is better.

    `min_effect`: smallest change to report, a share from 0 to 1 or text as in "2 %", which is the default (of runs of `ab` their own).
    Groups of other targets or models of device are `not comparable` unless `force`d. Intervals of sides measured one after the other
    allow for drift, by the runs that are kept of this machine, unless `assume_stable`: `.allowance` says by how much. `gate` is the former
    name of `min_effect`.
    """
    min_effect = min_effect if gate is None else _renamed("gate", "min_effect", gate)
    try:
        share = None if min_effect is None else units.parse(min_effect, "%")
    except InputError as error:
        raise InputError(f"min_effect: {error}") from None
    if share is not None and not 0 <= share < 1:
        raise InputError(f"min_effect is a share from 0 to under 1, as in 0.02 or '2 %', not {min_effect!r}")
    left, right = _group(a), _group(b)
    runs = [one.run for one in left], [one.run for one in right]
    past = drift.kept(*runs, paths.home()) if not assume_stable and drift.one_after_the_other(*runs) else {}
    return Comparisons(comparing.compare(left, right, share, force, past, assume_stable), (left, right))


def changes(values: ArrayLike, times: ArrayLike | None = None, **options: Any) -> list[Change]:
    """Where the level of a series changed: `.index .before .after .ratio .low .high .p .kind .provisional` of each, in order.

    `values` in order of time, of any unit; `times` of the same length, not falling. Options: `alpha` (chance of a false change in a
    window of 384 independent values), `min_effect` (smallest change to report, as a share), `provisional`, `boundaries` (indices at which
    something else began). Raises InputError for values that are not finite and times that fall.
    """
    valid = ("alpha", "min_effect", "provisional", "boundaries")
    if "gate" in options:
        options["min_effect"] = _renamed("gate", "min_effect", options.pop("gate"))
    for name in options:
        if name not in valid:
            raise InputError(f"there is no option '{name}'; {nearest(name, valid)}")
    try:
        return detected(values, times, **options)
    except (ValueError, TypeError) as error:
        raise InputError(str(error)) from None


# ---------------------------------------------------------------- what is given, read


def _preformatted(shown: object) -> str:
    """Text as HTML of a notebook."""
    return f"<pre>{html.escape(str(shown), quote=False)}</pre>"


def _renamed(former: str, name: str, value: Any) -> Any:
    """The value of an option that had another name in 0.1."""
    warnings.warn(f"'{former}' is now '{name}'; the former name works in version 0.2 only", FutureWarning, stacklevel=3)
    return value


def _plan(given: object) -> Plan:
    if isinstance(given, os.PathLike):
        return plans.load(os.path.join(os.curdir, os.fspath(given)))  # never the built-in plan of the same name
    return plans.load(given) if isinstance(given, str) else plans.check(given)


def _measured(plan: Plan, options: Mapping[str, Any], also: tuple[str, ...] = (), of_fn: str = "") -> Plan:
    """The plan with fields of MeasureOptions changed, checked as a plan's own keys are. `of_fn`: what ends the refusal of another name."""
    keys = {option.field: key for key, option in measuring.OPTIONS.items()}
    for name in options:
        if name not in keys:
            raise InputError(f"there is no option '{name}'; {nearest(name, [*keys, *also])}{of_fn}")
    return plans.override(plan, {keys[name]: value for name, value in options.items()})


def _target(given: object) -> str:
    if given is None or isinstance(given, str):
        return given or ""
    raise InputError(f"'target' is a specification such as 'opencl' or 'simulated:h200-sxm', or None for the best, not {_shown(given)}")


def _device(given: object) -> str:
    """As on the command line."""
    if given is None or isinstance(given, str):
        return given or ""
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    if isinstance(given, (list, tuple)) and given:
        return ",".join(_device(one) for one in given)
    raise InputError(f"'device' is an index, a UUID, 'all', or a list of indices and UUIDs, not {_shown(given)}")


def _together(given: object) -> bool:
    if isinstance(given, bool):
        return given
    raise InputError(f"'together' is True or False, not {_shown(given)}")


def _labels(given: object) -> dict[str, str]:
    return labels.check({} if given is None else given)  # type: ignore[arg-type]


def _wait(given: object) -> float:
    with contextlib.suppress(InputError):
        if isinstance(given, (int, float, str)) and (seconds := units.parse(given, "s")) >= 0:
            return seconds
    raise InputError(f"'wait_s' is a time in seconds from 0 on, or text such as '5 min', not {_shown(given)}")


_OF_A_RUN: Mapping[str, Callable[[Any], Any]] = {"device": _device, "together": _together, "labels": _labels, "wait_s": _wait}


def _regular(name: str, value: object) -> None:
    """Raises InputError for an array without values, or with rows of several lengths."""
    if not isinstance(value, (list, tuple)) and not hasattr(value, "ndim"):
        return
    import numpy as np

    try:
        size = np.asarray(value).size
    except ValueError:
        raise InputError(f"'{name}' has rows of several lengths; make them equal, or predict them one by one") from None
    if size == 0:
        raise InputError(f"'{name}' is empty; give it at least one value")


def _group(given: object) -> list[bundles.Bundle]:
    """The runs of a group, each once."""
    members = given if isinstance(given, (list, tuple)) else [given]
    if not members:
        raise InputError("a group of runs is empty; give at least one run")
    return list({bundle.run.id: bundle for member in members for bundle in _runs(member)}.values())


def _runs(given: object) -> list[bundles.Bundle]:
    if isinstance(given, Run):
        return [given.bundle]
    if isinstance(given, bundles.Bundle):
        return [given]
    if isinstance(given, os.PathLike) and not isinstance(path := os.fspath(given), bytes):
        return [bundles.load(Path(path))]
    if isinstance(given, str):
        return select.runs(given, paths.home())
    raise InputError(f"{_shown(given)} is no run; valid: a hotlap.Run, or as text {select.VALID}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def findings(timeline: Timeline | str | Path, machine: str = "", least: float = advising.LEAST_GAIN) -> list[Finding]:
    """What is worth doing about a recorded trace, most gain first; `.title .detail .where .action .gain .gain_low .gain_high`.

    `machine` names its GPU in the machine table where it is not recognised; `least` is the share of the window below which a
    finding is left out. Raises InputError.
    """
    opened = timeline if isinstance(timeline, Timeline) else Timeline.open(timeline)
    return advising.advise(opened.study(machine), least).findings

"""The public Python interface: the same functions as the command line, returning the types of `record`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hotlap import plan as plans
from hotlap.errors import InputError, nearest
from hotlap.judge import compare as comparing
from hotlap.measure import inline, session
from hotlap.model.predict import predict as predicted
from hotlap.plan import measuring
from hotlap.record import Comparison, Limit, MeasureOptions, Plan, Result, Row, Samples
from hotlap.report import tables, text
from hotlap.store import bundle as bundles
from hotlap.store import paths, select


@dataclass(frozen=True)
class Run:
    """A run that was kept: its bundle, and what follows from it."""

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


def run(plan: str | Plan = "quick", target: str | None = None, **options: Any) -> Run:
    """Measures a plan (a built-in name, a path, or a Plan) and keeps it under HOTLAP_HOME.

    `target` is a specification like "opencl", "torch:cuda" or "simulated:h200-sxm?noise=0.01"; None is the best there is.
    Options: `device`, `together`, `labels` (a mapping), `wait_s`, and every field of MeasureOptions (`rounds`,
    `budget_s`, `precision`, …). Raises InputError, MachineError, or Interrupted (everything measured is kept).
    """
    chosen = plans.load(plan) if isinstance(plan, str) else plan
    own = {name: options.pop(name) for name in ("device", "together", "labels", "wait_s") if name in options}
    chosen = _measured(chosen, options, also=("device", "together", "labels", "wait_s"))
    path = session.run(chosen, session.Options(target=target or "", home=paths.home(), **own), lambda *_: None)
    return load(path)


def load(path: str | Path) -> Run:
    """A run from its folder, its zip, or any selector that names one run (`latest`, an id, `label=value`)."""
    if isinstance(path, Path) or Path(path).exists():
        return Run(bundles.load(Path(path)))
    found = select.runs(str(path), paths.home())
    if len(found) != 1:
        raise InputError(f"'{path}' names {len(found)} runs; load takes one")
    return Run(found[0])


def measure(
    fn: Callable[..., Any], *args: Any, work: Mapping[str, float | str] | None = None, target: str | None = None, **options: Any
) -> Result:
    """The measuring loop on a callable of one's own, in this process.

    `work` says what one call does, as far as it is known: `bytes`, `bytes_written`, `operations`, `unit_of_arithmetic`.
    `target` names one whose device is waited for and whose timer is used ("torch:cuda"); None is the wall clock.
    Options: `rounds` (6), `round_s` (0.5), `sample_s`. Values of the result are seconds per call, one per round. An
    exception of `fn` passes through.
    """
    case = inline.case_of(fn, work)
    plan = Plan(name="callable", measure=MeasureOptions(round_s=0.5, rounds_max=6))
    opened, samples = inline.rounds(lambda: fn(*args), case, target or "", _measured(plan, options).measure)
    return select.fold(case, samples, opened.device.target)


def _measured(plan: Plan, options: Mapping[str, Any], also: tuple[str, ...] = ()) -> Plan:
    """The plan with fields of MeasureOptions changed, checked as a plan's own keys are."""
    keys = {option.field: key for key, option in measuring.OPTIONS.items()}
    for name in options:
        if name not in keys:
            raise InputError(f"there is no option '{name}'; {nearest(name, [*keys, *also])}")
    return plans.override(plan, {keys[name]: value for name, value in options.items()})


def predict(workload: str, machine: str, **params: Any) -> Limit:
    """What a machine of the table allows for a workload: `.bound_s .expected_s .low_s .high_s …`, seconds per call.

    Parameters as in a plan ("256 MiB", "bf16"); NumPy arrays or lists of them give arrays.
    """
    return predicted(workload, machine, **params)


def compare(a: str | Path | Run, b: str | Path | Run) -> list[Comparison]:
    """Two runs or groups of runs, case by case. A ratio above 1 means that b is better."""
    return comparing.compare(_group(a), _group(b))


def _group(runs: str | Path | Run) -> list[bundles.Bundle]:
    if isinstance(runs, Run):
        return [runs.bundle]
    if isinstance(runs, Path):
        return [bundles.load(runs)]
    return select.runs(runs, paths.home())



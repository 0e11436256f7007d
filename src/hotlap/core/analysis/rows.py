"""From a bundle to rows: each result with its summary, its gap to the limit, and its state. Here the rooms meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from hotlap.core import units, work
from hotlap.core.analysis import power_limit
from hotlap.core.analysis.state import state
from hotlap.core.errors import HotlapError
from hotlap.core.model import limits, predict
from hotlap.core.model.calibration import Calibration
from hotlap.core.model.gap import Context, context, gap
from hotlap.core.model.machines import Spec
from hotlap.core.record import Device, Gap, Limit, Result, Row, Summary
from hotlap.core.stats.series import median_of
from hotlap.core.stats.summary import summarize
from hotlap.core.store import select
from hotlap.core.store.bundle import Bundle


def rows(bundle: Bundle, where: Mapping[str, str] | None = None, calibrations: Mapping[str, Calibration] | None = None) -> list[Row]:
    """A row per case and device, in the plan's order. `where` keeps some of them, but all count for the measured ceilings.
    `calibrations` by device: what a sweep in another run taught of it.

    Raises InputError for a filter that no result can have.
    """
    results = select.results(bundle)
    kept = {(r.case.id, r.device) for r in select.results(bundle, where)} if where else None
    own: dict[str, list[Result]] = {}
    for one in results:
        own.setdefault(one.device, []).append(one)
    contexts = {key: context_of(bundle, key, theirs) for key, theirs in own.items()}
    contexts = {key: replace(one, calibration=(calibrations or {}).get(key)) for key, one in contexts.items()}
    precision = bundle.run.asked.precision if bundle.run.asked else None
    known = KnownLimits()
    return [row(r, contexts[r.device], precision, known) for r in results if kept is None or (r.case.id, r.device) in kept]


class KnownLimits:
    """Limits with what to expect, each worked out once for all devices of a run that are alike."""

    def __init__(self) -> None:
        self.alike: list[tuple[Spec | None, float | None, Calibration | None]] = []
        self.limits: dict[tuple[str, int], Limit] = {}

    def of(self, result: Result, seen: Context) -> Limit:
        device = seen.spec, seen.clock_max_hz, seen.calibration
        if device not in self.alike:
            self.alike.append(device)
        key = result.case.id, self.alike.index(device)
        if key not in self.limits:
            self.limits[key] = _expected(result, seen, limits.limit(result.case, seen.spec, seen.clock_max_hz))
        return self.limits[key]


def row(result: Result, seen: Context, precision: float | None, known: KnownLimits | None = None) -> Row:
    """One result through stats, model and judge."""
    result = power_limit.noticed(result, seen.power_limit_w, seen.spec.power_w if seen.spec else None)
    summary = summarize(result.values, sample_values(result), precision, result.better)
    margin = against(result, summary, seen, known or KnownLimits())
    verdict = state(result, summary, margin)
    if result.imported:  # advice about how to run is of no use
        verdict = structs.replace(verdict, action="")
        summary = structs.replace(summary, notices=[structs.replace(notice, action="") for notice in summary.notices])
    return Row(
        case=result.case, device=result.device, label=work.label(result.case), result=result, summary=summary, gap=margin, verdict=verdict,
    )


def context_of(bundle: Bundle, key: str, results: Sequence[Result]) -> Context:
    """What the run says about one device: its machine, its clocks, its readings and its best rates."""
    device = next((d for d in bundle.run.machine.devices if d.key == key), None)
    clocks = [hz for result in results for one in result.rounds for hz in one.clocks_hz]
    spec = limits.spec_for(device, bundle.run.machine, clocks) if device else None
    readings = [r for r in bundle.readings if r.device == key or _of_host(r.device, device)]
    seen = context([result for result in results if _known(result)], spec, readings)
    shown = (value for part in seen.readings.get("power_limit_w", ()) for value in part.values)
    return replace(seen, power_limit_w=power_limit.in_force(device, shown) or seen.power_limit_w)


def _known(result: Result) -> bool:
    """Whether this version can say what a call of it does; a bundle may be of a later one."""
    try:
        work.find(result.case.workload).work(result.case.params)
    except (HotlapError, KeyError):
        return False
    return True


def _of_host(owner: str, device: Device | None) -> bool:
    """The host's sensors are a processor's own."""
    return owner == "host" and device is not None and device.kind == "cpu"


def against(result: Result, summary: Summary, seen: Context, known: KnownLimits) -> Gap:
    """The gap; for a workload of a later version, why there is none."""
    try:
        if alike := _alike(result, summary):
            return _scaled(against(*alike[:2], seen, known), alike[2])
        return gap(result, summary, known.of(result, seen), seen)
    except (HotlapError, KeyError) as error:
        reason = f"no limit could be found: {error}"
        return Gap(cause="unknown", basis="no_limit", limit=Limit(kind="unknown", reason=reason))


def _alike(result: Result, summary: Summary) -> tuple[Result, Summary, float] | None:
    """Another program's number as that of the case of ours that means the same, and the factor between; None where there is no such case,
    or its number is in another unit. Raises InputError for a case that is none."""
    like = work.traits(result.case.workload).like
    text, factor = like(result.case.params) if like else ("", 1.0)
    if not text or not result.values or not summary.median or factor <= 0:
        return None
    case = work.case_of(text)
    spec = work.find(case.workload)
    if spec.unit != result.unit:
        return None
    per_call = spec.value(1.0, case.params)  # of a call that takes a second
    values = [value * factor for value in result.values]
    seconds = [per_call / value if spec.metric in units.RATES.values() else value for value in values]
    changed = structs.replace(result, case=case, metric=spec.metric, better=spec.better, values=values, seconds=seconds)
    return changed, structs.replace(summary, median=summary.median * factor), factor


def _scaled(margin: Gap, factor: float) -> Gap:
    return margin if margin.limit_value is None else structs.replace(margin, limit_value=margin.limit_value / factor)


def _expected(result: Result, seen: Context, limit: Limit) -> Limit:
    in_cache = limit.kind == "unknown" and work.traits(result.case.workload).memory_alone  # only an assumed rate is known of it
    return limit if in_cache or not seen.spec else predict.expected(result.case, seen.spec, limit, calibration=seen.calibration)


def sample_values(result: Result) -> list[NDArray[np.float64]]:
    """The samples of each round in the metric's unit, in the order of `result.values`."""
    values = []
    for value, one in zip(result.values, result.used, strict=False):
        samples = np.array(one.values)
        middle = median_of(samples)
        with np.errstate(over="ignore", invalid="ignore"):
            if result.metric in units.RATES.values():
                values.append(value * middle / samples[samples > 0])
            else:
                values.append(value * samples / middle if middle else samples)
    return values

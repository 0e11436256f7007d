"""A setting as a point of time and energy: by the model, or of a run that was measured at it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Literal

from hotlap.core.analysis import energy, lasting
from hotlap.core.analysis import rows as tables
from hotlap.core.analysis.frontier import FrontierPoint
from hotlap.core.errors import InputError
from hotlap.core.model import frontier as model
from hotlap.core.model import machines
from hotlap.core.record import Plan, Row
from hotlap.core.store.bundle import Bundle

MISSED = 0.01  # of all calls, that may take longer than the limit: p99
Keeps = Literal["", "kept", "missed", "unsure"]


Setting = tuple[str, float | None, float | None]  # name, clock in Hz, cap in W


def modelled(
    plan: Plan, spec: machines.Spec, settings: Sequence[Setting], limit_s: float | None, unknown: dict[str, str]
) -> list[FrontierPoint]:
    """Of each setting. Cases that the model does not know are added to `unknown`, with the reason. A modelled time
    has no scatter: the limit is compared with it as it is."""
    wanted = [model.FrontierSetting(clock_hz, power_w) for _, clock_hz, power_w in settings]
    swept = model.over(plan.cases, calls(plan), spec, wanted)
    unknown.update(swept.unknown)
    longest = [0.0] * len(settings)
    for case in plan.cases if limit_s is not None else ():
        try:
            alone = model.over([case], {}, spec, wanted).sums
        except InputError:
            continue
        longest = [max(most, one.seconds) for most, one in zip(longest, alone, strict=True)]
    return [
        FrontierPoint(
            name=name, seconds=one.seconds, joules=one.joules, clock_hz=one.clock_hz,
            keeps="" if limit_s is None else "kept" if most <= limit_s else "missed",
        )
        for (name, _, _), one, most in zip(settings, swept.sums, longest, strict=True)
    ]  # fmt: skip


def calls(plan: Plan) -> Mapping[str, float]:
    """Of each case, in all steps of its networks."""
    many: dict[str, float] = {}
    for use in plan.uses:
        many[use.case] = many.get(use.case, 0.0) + use.calls
    return many


def of_run(bundle: Bundle, limit_s: float | None = None, name: str = "") -> FrontierPoint:
    """Time and energy of all cases of a run, each as often as its networks call it. Raises InputError where an energy is unknown."""
    rows = tables.rows(bundle)
    spent = energy.energies(rows, bundle.readings, bundle.run.machine.devices)
    if not spent:
        raise InputError(f"{bundle.run.id} has no case, so no time and no energy; give runs of a plan, as of tuning power --apply")
    many_of = calls(bundle.run.plan)
    unknown = next((one for one in spent if one.joules is None), None)
    if unknown is not None:
        raise InputError(
            f"{bundle.run.id}: the energy of {unknown.label} is unknown, because {unknown.reason}; "
            "settings are compared with each other by the same cases, so measure all of them"
        )
    many = [many_of.get(one.case, 1.0) for one in spent]
    seconds, joules, low, high = (
        sum(n * (getattr(one, field) or 0.0) for n, one in zip(many, spent, strict=True))
        for field in ("seconds", "joules", "low_j", "high_j")
    )
    clocks = [one.clock_hz for one in spent if one.clock_hz]
    label = name or bundle.run.labels.get("setting", "").replace("_", " ") or bundle.run.id
    return FrontierPoint(
        name=label, seconds=seconds, joules=joules, low_j=low, high_j=high, clock_hz=statistics.median(clocks) if clocks else None,
        source=bundle.run.id, keeps="" if limit_s is None else keeps(rows, limit_s),
    )  # fmt: skip


def keeps(rows: Sequence[Row], limit_s: float) -> Keeps:
    """Whether of every case surely at most 1 % of the calls take longer than the limit. Raises InputError where it is not known."""
    missed = [lasting.deadlines(row.result, limit_s) for row in rows]
    for row, found in zip(rows, missed, strict=True):
        if found.reason:
            raise InputError(f"{row.label}: whether its calls keep the limit is not known: {found.reason}; --apply times them one by one")
    if all(found.high is not None and found.high <= MISSED for found in missed):
        return "kept"
    return "missed" if any(found.low is not None and found.low > MISSED for found in missed) else "unsure"

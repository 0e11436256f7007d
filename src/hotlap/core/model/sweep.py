"""From the results of a run to the calibration of its machine."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np

from hotlap.core import stand_in
from hotlap.core.errors import InputError
from hotlap.core.model import calibration, processor
from hotlap.core.model.calibration import Calibration, CalibrationSweep, Factor
from hotlap.core.model.expect import Expected, expect
from hotlap.core.model.machines import Spec
from hotlap.core.record import Device, Result
from hotlap.core.work import traits
from hotlap.core.work.base import text

Case = tuple[Expected, str, float]
OPERATORS = "torch"  # the target that has kernels of networks on processors


def calibrate(results: Sequence[Result], spec: Spec, device: Device, run: str, date: str) -> Calibration:
    """What the measured cases of one device teach; a family whose cases it would not bring nearer stays as published. Raises
    InputError where the model knows none of them."""
    cases: dict[str, list[Case]] = {}
    facts: dict[str, Factor] = {}
    for result in results:
        measured = calibration.fact(result)
        if measured is None:
            continue
        if traits(result.case.workload).shows == "launch":
            facts[f"launch {text(result.case.params, 'mode')}"] = measured
        try:
            found = expect(result.case.workload, result.case.params, spec, result.case.implementation)
        except InputError:  # no family knows it, or the table lacks a figure
            continue
        cases.setdefault(found.family, []).append((found, str(result.case.params.get("dtype", "")), measured.value))
    learnt = {name: calibration.learn(_swept(cases[name])) for name in calibration.enough(cases)}
    families = {name: one for name, one in learnt.items() if one.after < one.before}
    return Calibration(
        machine=spec.slug, device=device.key, name=device.name, driver=device.driver, target=device.target, date=date, run=run,
        families=families, facts=facts, disturbed=_disturbed(results),
    )  # fmt: skip


def _swept(cases: Sequence[Case]) -> CalibrationSweep:
    names = sorted({name for found, _, _ in cases for name in found.parts})
    parts = {name: np.array([float(found.parts[name][0]) if name in found.parts else 0.0 for found, _, _ in cases]) for name in names}
    return CalibrationSweep(parts, np.array([dtype for _, dtype, _ in cases], dtype=str), np.array([seconds for _, _, seconds in cases]))


def calibrate_processor(results: Sequence[Result], device: Device, run: str, date: str, fresh_s: Sequence[float] = ()) -> Calibration:
    """What kernels take on a processor, as measured; `fresh_s`: and processor.FRESH_BYTES of memory that are taken anew. Raises
    InputError where the smallest operation is missing."""
    facts = {
        processor.fact_name(one.case.workload, one.case.params): measured
        for one in results if (measured := calibration.fact(one)) is not None
    }  # fmt: skip
    if fresh_s:
        facts[processor.FRESH] = Factor(median(fresh_s), min(fresh_s), max(fresh_s))
    found = Calibration(
        machine=processor.NAME, device=device.key, name=device.name, driver=device.driver, target=device.target, date=date, run=run,
        families={}, facts=facts, disturbed=_disturbed(results),
    )  # fmt: skip
    processor.times(found)
    return found


def _disturbed(results: Sequence[Result]) -> tuple[str, ...]:
    return tuple(processor.fact_name(one.case.workload, one.case.params) for one in results if calibration.is_disturbed(one))


def is_processor(device: Device) -> bool:
    """Whether kernels of networks run there that are expected by their own times. Raises InputError for one that has none of them."""
    stand_in.refuse_devices([device], "a calibration")
    if device.kind != "cpu":
        return False
    if device.target != OPERATORS:
        raise InputError(
            f"{device.name} is a processor, and {device.target} has no kernels of networks for it: there is nothing to calibrate; "
            f"--target {OPERATORS}:cpu has them, with PyTorch"
        )
    return True


def machine_of(spec: Spec | None, device: Device) -> Spec:
    """The device's entry in the machine table. Raises InputError that says why nothing can be calibrated without one."""
    stand_in.refuse_devices([device], "a calibration")
    if spec is None:
        raise InputError(
            f"{device.name} is not in the machine table, so nothing is expected of it that could be calibrated; "
            "'hotlap model machines' lists what is"
        )
    return spec

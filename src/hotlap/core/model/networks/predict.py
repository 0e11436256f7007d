"""What to expect of a step of a network on a machine of the table."""

from __future__ import annotations

from typing import Any

from hotlap.core import work
from hotlap.core.errors import InputError
from hotlap.core.model import machines
from hotlap.core.model.calibration import Calibration
from hotlap.core.model.expect import expect
from hotlap.core.model.networks.result import StepEstimate
from hotlap.core.model.networks.step import StepTimes, setting_for, step
from hotlap.core.work.networks import shape
from hotlap.core.work.networks.calls import PHASES


def predict(network: str, machine: str, calibration: Calibration | None = None, **setting: Any) -> StepEstimate:
    """`setting`: phase, batch, context, tp, pp, dp, ep, dtype, kv_dtype, micro_batch, recompute.
    `calibration`: of this machine, by a sweep. Raises InputError."""
    spec = machines.load(machine)
    if setting.get("phase") not in PHASES:
        raise InputError(f"a phase is one of {', '.join(PHASES)}, not {setting.get('phase')!r}")

    def timed(workload: str, params: dict[str, Any]) -> StepTimes:
        kind = work.find(workload)
        found = expect(workload, kind.parse(params), spec, calibration=calibration)
        longest = max(found.parts, key=lambda name: float(found.parts[name][0]))
        seconds, low_s, high_s, power_w = (float(one[0]) for one in (found.seconds, found.low_s, found.high_s, found.power_w))
        return StepTimes(seconds, low_s, high_s, power_w, longest, found.family)

    return step(shape.load(network), setting_for(**setting), spec, timed)

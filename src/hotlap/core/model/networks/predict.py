"""What to expect of a step of a network on a machine of the table."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from hotlap.core import work
from hotlap.core.errors import InputError
from hotlap.core.model import machines
from hotlap.core.model.calibration import Calibration
from hotlap.core.model.expect import expect
from hotlap.core.model.networks.result import StepEstimate
from hotlap.core.model.networks.step import StepTimes, check_counts, layered_step, step
from hotlap.core.record import Notice
from hotlap.core.work.networks import sources, steps
from hotlap.core.work.networks.calls import Setting
from hotlap.core.work.networks.layered import Layered
from hotlap.core.work.networks.steps import Choice, Source

OF_TRANSFORMERS = {"micro_batch": 1, "kv_dtype": "bf16", "recompute": False}  # what else can be set of them, and what it is elsewhere

PREFILL = Notice("prefill_is_forward", "the prefill of a network that is written layer by layer is its phase 'forward'")


def predict(network: str, machine: str, calibration: Calibration | None = None, as_type: str = "", **setting: Any) -> StepEstimate:
    """`network`: a name, a network's TOML file, or a Hugging Face configuration, read as `as_type` where that is given.
    `setting`: phase, batch, context, tp, pp, dp, ep, dtype, kv_dtype, micro_batch, recompute; the phase is decode where the network has
    it, else forward, and the context what is usual of it. `calibration`: of this machine, by a sweep. Raises InputError."""
    spec, source = machines.load(machine), sources.read(network, as_type)
    if source is None:
        raise InputError(f"'{network}' is no network: give a name, a network's TOML file, or a config.json of Hugging Face")

    def timed(workload: str, params: dict[str, Any]) -> StepTimes:
        kind = work.find(workload)
        found = expect(workload, kind.parse(params), spec, calibration=calibration)
        longest = max(found.parts, key=lambda name: float(found.parts[name][0]))
        seconds, low_s, high_s, power_w = (float(one[0]) for one in (found.seconds, found.low_s, found.high_s, found.power_w))
        return StepTimes(seconds, low_s, high_s, power_w, longest, found.family)

    check_counts(setting)
    phase = setting.get("phase")
    asked = {**setting, "phase": _phase(source, phase)}
    if asked.get("context") is not None and isinstance(source, Layered) and not source.has_context:
        raise InputError(f"{source.name} has no context: leave --context out")
    if asked.get("context") is None:
        asked["context"] = steps.context_of(source, Choice(asked["phase"]))
    steps.check_context(source, asked["context"])
    if isinstance(source, Layered):
        found = layered_step(source, _choice(source, asked), spec, timed)
        return found if phase in (None, found.phase) else replace(found, notices=[*found.notices, PREFILL])
    steps.check_dtype(source, asked.get("dtype", "bf16"))
    asked["phase"] = "prefill" if asked["phase"] == "forward" else asked["phase"]
    return step(source, Setting(**asked), spec, timed)


def _phase(source: Source, asked: str | None) -> str:
    """An encoder's pass is also called its prefill, and so is the forward pass of a network that has a decode."""
    valid = steps.phases(source)
    if asked == "prefill" and isinstance(source, Layered) and {"forward", "decode"} <= set(valid):
        return "forward"
    if asked is None:
        return "decode" if "decode" in valid else "forward"
    if asked not in valid and not (asked == "prefill" and not isinstance(source, Layered)):
        raise InputError(f"{source.name} has no phase {asked!r}; valid: {', '.join(valid)}")
    return asked


def _choice(network: Layered, asked: dict[str, Any]) -> Choice:
    """How a network that is written layer by layer is run."""
    stray = [name for name, usual in OF_TRANSFORMERS.items() if asked.get(name, usual) != usual]
    if stray:
        option = stray[0].replace("_", "-")
        raise InputError(f"--{option} is of stacks of transformer layers, and {network.name} is written layer by layer: leave it out")
    return Choice(**{name: value for name, value in asked.items() if name not in OF_TRANSFORMERS})

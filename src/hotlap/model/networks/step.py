"""What a step of a network takes: the expected times of its kernels and exchanges, put together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from msgspec.structs import replace as changed

from hotlap import work
from hotlap.coverage.networks import calls
from hotlap.coverage.networks.calls import ACTIVATION_BYTES, GRADIENT_BYTES, Call, Setting
from hotlap.coverage.networks.shape import Network
from hotlap.errors import InputError
from hotlap.model.machines import Spec
from hotlap.model.networks import memory
from hotlap.model.networks.result import Step, StepPart
from hotlap.record import Case

# Backward ÷ forward of an attention kernel: 2.5 × the operations (five products for two), at 63 % of peak instead of 73 %;
# Dao, FlashAttention-2, arXiv 2307.08691, sections 3.1 and 4.1 (A100).
ATTENTION_BACKWARD = 2.5 * 73 / 63
GEMM_BACKWARD = 2.0  # a product for the inputs' gradient and one for the weights'
STREAM_BACKWARD = 2.0  # reads gradient and input, writes the input's gradient
OPTIMIZER_BYTES = 30.0  # a parameter: reads gradient, weight and two moments in fp32 (16), writes three of them and the bf16 weight (14)
HIDDEN_SHARE = 0.9  # of the backward pass that an exchange of gradients can hide under: all but the last layers'; assumed


class Timed(NamedTuple):
    """The expected time of one call of a kernel."""

    seconds: float
    low_s: float
    high_s: float
    power_w: float  # NaN where not known
    limiter: str = ""


Expect = Callable[[str, dict[str, Any]], Timed]
"""Workload and parameters → its expected time."""


def step(network: Network, setting: Setting, spec: Spec, expect: Expect) -> Step:
    """One step on one machine of the table per GPU. Assumes kernels back to back (recorded graphs), exchanges between tensor-parallel
    GPUs not hidden, experts and layers evenly loaded. Raises InputError for settings that do not fit the network."""
    calls.check(network, setting)
    found = [(call, expect(call.workload, call.params)) for call in calls.stage(network, setting)]
    if setting.phase == "train":
        return _trained(network, setting, spec, found, expect)
    passes = setting.pp + (setting.micro_batches - 1 if setting.phase == "prefill" else 0)
    parts = [_part(call, timed, passes) for call, timed in found]
    return _step(network, setting, spec, parts, found)


def _part(call: Call, timed: Timed, passes: float = 1.0, factor: float = 1.0) -> StepPart:
    kind = work.find(call.workload)
    case = Case(workload=call.workload, params=kind.parse(call.params))
    total = timed.seconds * call.times * passes * factor
    return StepPart(
        name=call.name, group=call.group, case=case, times=call.times * passes, each_s=timed.seconds * factor, total_s=total, share=0.0,
        limiter=timed.limiter,
    )  # fmt: skip


def _trained(network: Network, setting: Setting, spec: Spec, found: Sequence[tuple[Call, Timed]], expect: Expect) -> Step:
    """1F1B (Narayanan and others, arXiv 2104.04473): every stage works on all micro-batches and idles for pp − 1 more."""
    rounds = setting.micro_batches
    forward = [_part(call, timed, rounds * (2 if setting.recompute else 1)) for call, timed in found]
    backward = [_turned(_part(call, timed, rounds, _backward(call))) for call, timed in found]
    busy = sum(part.total_s for part in (*forward, *backward))
    bubble = StepPart(name="pipeline bubble", group="bubble", times=1, each_s=0.0, total_s=busy * (setting.pp - 1) / rounds, share=0.0)
    after = _after(network, setting, expect, sum(part.total_s for part in backward) / rounds)
    return _step(network, setting, spec, [*forward, *backward, *([bubble] if setting.pp > 1 else []), *after], found)


def _backward(call: Call) -> float:
    """Backward ÷ forward."""
    if call.workload == "collective":
        return 1.0
    return {"attention": ATTENTION_BACKWARD, "gemm": GEMM_BACKWARD, "moe": GEMM_BACKWARD, "conv": GEMM_BACKWARD}.get(
        call.workload, STREAM_BACKWARD
    )


def _turned(part: StepPart) -> StepPart:
    """The same part of the backward pass."""
    return changed(part, group="backward", name=f"{part.name}, backward")


def _after(network: Network, setting: Setting, expect: Expect, last_backward_s: float) -> list[StepPart]:
    """Exchange of gradients, as far as the last backward pass does not hide it, and the optimizer."""
    own, found = calls.parameters(network, setting), []
    if setting.dp > 1:
        params = {"op": "all_reduce", "gpus": setting.dp, "size": int(own * GRADIENT_BYTES)}
        params["nodes"] = calls.nodes(setting.dp, setting.tp * setting.pp)
        call = Call("gradients between replicas, not hidden", "communication", "collective", params)
        part, hidden = _part(call, expect("collective", params)), HIDDEN_SHARE * last_backward_s
        shown = max(part.total_s - hidden, 0.0)
        found.append(StepPart(name=call.name, group=call.group, case=part.case, times=1, each_s=part.total_s, total_s=shown, share=0.0))
    elements = int(own / setting.dp * OPTIMIZER_BYTES / (3 * ACTIVATION_BYTES))
    call = Call("optimizer", "optimizer", "pointwise", {"op": "add", "elements": max(elements, 1)})
    return [*found, _part(call, expect(call.workload, call.params))]


def _step(network: Network, setting: Setting, spec: Spec, parts: list[StepPart], found: Sequence[tuple[Call, Timed]]) -> Step:
    seconds = sum(part.total_s for part in parts)
    low, high = _interval(parts, {call.name: timed for call, timed in found}, seconds)
    needed = memory.needed(network, setting)
    total = sum(needed.values())
    tokens = tokens_of(setting)
    operations, energy = operations_of(network, setting), _energy(found, seconds, setting)
    peak = spec.rate("matrix.bf16", spec.clock_for_peak_hz)
    return Step(
        network=network.name, phase=setting.phase, machine=spec.slug, setting=asdict(setting), gpus=setting.gpus, seconds=seconds,
        low_s=low, high_s=high, tokens_s=tokens / seconds, operations=operations, energy_j=energy,
        share_of_peak=operations / (seconds * peak * setting.gpus) if peak else None,
        energy_per_token_j=energy / tokens if energy else None, memory_bytes=needed, memory_total_bytes=total,
        fits=None if spec.memory_bytes is None else total <= spec.memory_bytes,
        parts=[changed(part, share=part.total_s / seconds) for part in sorted(parts, key=lambda one: -one.total_s)],
        notes=_notes(network, setting),
    )  # fmt: skip


def tokens_of(setting: Setting) -> int:
    """Tokens that a step of all GPUs brings forward."""
    return setting.batch * setting.dp * (1 if setting.phase == "decode" else setting.context)


def operations_of(network: Network, setting: Setting) -> float:
    """FLOP of the mathematics: each kernel's, all GPUs, training three times the forward pass; nothing for recomputing."""
    alone = replace(setting, tp=1, pp=1, dp=1, ep=1, recompute=False, micro_batch=setting.batch if setting.phase == "train" else 1)
    forward = 0.0
    for call in calls.stage(network, alone):
        kind = work.find(call.workload)
        forward += call.times * kind.work(kind.parse(call.params)).total_operations
    return forward * setting.dp * (3 if setting.phase == "train" else 1)


def _interval(parts: Sequence[StepPart], timed: dict[str, Timed], seconds: float) -> tuple[float, float]:
    """Errors of one family go one way and add; those of families are independent."""
    below: dict[str, float] = {}
    above: dict[str, float] = {}
    for part in parts:
        one = timed.get(part.name.removesuffix(", backward"))
        if one is None or not one.seconds:
            continue
        family = part.case.workload if part.case else ""
        below[family] = below.get(family, 0.0) + part.total_s * (1 - one.low_s / one.seconds)
        above[family] = above.get(family, 0.0) + part.total_s * (one.high_s / one.seconds - 1)
    return max(seconds - math.hypot(*below.values()), 0.0), seconds + math.hypot(*above.values())


def _energy(found: Sequence[tuple[Call, Timed]], seconds: float, setting: Setting) -> float | None:
    """Mean power of the stage's kernels over the whole step; None where a kernel's power is not known."""
    known = [(call.times * timed.seconds, timed.power_w) for call, timed in found if not math.isnan(timed.power_w)]
    weight = sum(time for time, _ in known)
    return sum(time * power for time, power in known) / weight * seconds * setting.gpus if weight else None


def _notes(network: Network, setting: Setting) -> list[str]:
    notes = ["kernels back to back, as in recorded graphs: time on the host between them is not counted"]
    if setting.tp > calls.GPUS_A_NODE:
        notes.append(f"tensor parallel over {calls.nodes(setting.tp)} nodes of {calls.GPUS_A_NODE}")
    if network.latent and setting.phase == "decode":
        notes.append("decode works on the latent, up-projections absorbed into queries and output")
    if taken_as := network.taken_as(setting.dtype):
        notes.append(taken_as)
    return notes


def setting_for(**given: Any) -> Setting:
    """Settings from numbers given by a user. Raises InputError for what is below 1."""
    for name, value in given.items():
        if isinstance(value, int) and not isinstance(value, bool) and value < 1:
            raise InputError(f"--{name.replace('_', '-')} is a whole number from 1, not {value}")
    return Setting(**given)

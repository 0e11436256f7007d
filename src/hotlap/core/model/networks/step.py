"""What a step of a network takes: the expected times of its kernels and exchanges, put together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Literal, NamedTuple, cast

from msgspec.structs import replace as changed

from hotlap.core import work
from hotlap.core.errors import InputError
from hotlap.core.model.machines import Spec
from hotlap.core.model.networks import memory
from hotlap.core.model.networks.result import StepEstimate, StepPart
from hotlap.core.record import Case, Notice
from hotlap.core.work.networks import calls, steps, transformer
from hotlap.core.work.networks.backward import backward
from hotlap.core.work.networks.calls import Call, Setting
from hotlap.core.work.networks.layered import Layered
from hotlap.core.work.networks.replicas import ONCE_A_STEP
from hotlap.core.work.networks.shape import Network
from hotlap.core.work.networks.steps import Choice, Source
from hotlap.core.work.networks.walk import walk

HIDDEN_SHARE = 0.9  # of the backward pass that an exchange of gradients can hide under: all but the last layers'; assumed

BACK_TO_BACK = Notice("back_to_back", "kernels back to back, as in recorded graphs: time on the host between them is not counted")
ACTIVATIONS = Notice("activations_unknown", "memory for activations and caches is not known of a network that is written layer by layer")
EstimatedPhase = Literal["prefill", "decode", "forward", "train"]


class StepFacts(NamedTuple):
    """What is known of a step beside its time. `all_memory`: whether `memory` is all that it needs."""

    phase: EstimatedPhase
    setting: dict[str, Any]
    gpus: int
    tokens: int | None
    operations: float
    memory: dict[str, float]
    notices: list[Notice]
    all_memory: bool = True


class StepTimes(NamedTuple):
    """The expected time of one call of a kernel."""

    seconds: float
    low_s: float
    high_s: float
    power_w: float  # NaN where not known
    limiter: str = ""
    family: str = ""  # of kernels that the model knows by the same coefficients


class Priced(NamedTuple):
    """A part of a step; `timed`: one call of it, where it is a kernel's."""

    part: StepPart
    timed: StepTimes | None


Expect = Callable[[str, dict[str, Any]], StepTimes]
"""Workload and parameters → its expected time."""


def step(network: Network, setting: Setting, spec: Spec, expect: Expect) -> StepEstimate:
    """One step on one machine of the table per GPU. Assumes kernels back to back (recorded graphs), exchanges between tensor-parallel
    GPUs not hidden, experts and layers evenly loaded. Raises InputError for settings that do not fit the network."""
    found = transformer.forward(network, setting)
    if setting.phase == "train":
        return _step(network, setting, spec, _trained(network, setting, found, expect))
    passes = setting.pp + (setting.micro_batches - 1 if setting.phase == "prefill" else 0)
    return _step(network, setting, spec, [_priced(call, expect, passes) for call in found])


def _priced(call: Call, expect: Expect, passes: float = 1.0) -> Priced:
    kind, timed = work.find(call.workload), expect(call.workload, call.params)
    case, times = Case(workload=call.workload, params=kind.parse(call.params)), call.times * passes
    part = StepPart(
        name=call.name, group=call.group, case=case, times=times, each_s=timed.seconds, total_s=timed.seconds * times, share=0.0,
        limiter=timed.limiter,
    )  # fmt: skip
    return Priced(part, timed)


def _trained(network: Network, setting: Setting, work: Sequence[Call], expect: Expect) -> list[Priced]:
    """1F1B (Narayanan and others, arXiv 2104.04473): every stage works on all micro-batches and idles for pp − 1 more."""
    rounds = setting.micro_batches
    forward = [_priced(call, expect, rounds * (2 if setting.recompute else 1)) for call in work]
    back = [_priced(call, expect, rounds) for call in backward(work)]
    once = [_priced(call, expect) for call in transformer.after(network, setting, work)]
    idle = _seconds([*forward, *back]) * (setting.pp - 1) / rounds
    bubble = StepPart(name="pipeline bubble", group="bubble", times=1, each_s=0.0, total_s=idle, share=0.0)
    return [*forward, *back, *([Priced(bubble, None)] if idle else []), *_shown(once, HIDDEN_SHARE * _seconds(back) / rounds)]


def _seconds(parts: Sequence[Priced]) -> float:
    return sum(one.part.total_s for one in parts)


def _shown(once: Sequence[Priced], hidden_s: float) -> list[Priced]:
    """Exchanges of gradients as far as the last backward pass, of which `hidden_s` can hide them, does not; all else as it is."""
    shown = []
    for part, timed in once:
        if part.group != "communication":
            shown.append(Priced(part, timed))
            continue
        left = max(part.total_s - hidden_s, 0.0)
        hidden_s -= part.total_s - left
        shown.append(Priced(changed(part, name=f"{part.name}, not hidden", total_s=left), timed))
    return shown


def _step(network: Network, setting: Setting, spec: Spec, priced: Sequence[Priced]) -> StepEstimate:
    phase: EstimatedPhase = setting.phase if network.causal or setting.phase == "train" else "forward"
    needed = memory.needed(network, setting)
    facts = StepFacts(
        phase, asdict(setting), setting.gpus, tokens_of(setting), operations_of(network, setting), needed, _notices(network, setting)
    )
    return summed(network, facts, spec, priced)


def layered_step(network: Layered, choice: Choice, spec: Spec, expect: Expect) -> StepEstimate:
    """As `step`, of a network that is written layer by layer; it is cut over no GPUs, and what its activations need is not known."""
    context = steps.context_of(network, choice) if network.has_context else 0
    found = steps.step(network, choice)
    once = [_priced(call, expect) for call in found if call.group in ONCE_A_STEP]
    passes = [_priced(call, expect) for call in found if call.group not in ONCE_A_STEP]
    back = _seconds([one for one in passes if one.part.group == "backward"])
    tokens = choice.batch * choice.dp * (1 if choice.phase == "decode" else context)
    section = "decode" if choice.phase == "decode" else "layers"
    walked = walk(network, section, choice.batch, context, choice.dtype)
    rounds = choice.dp * (3 if choice.phase == "train" else 1)
    facts = StepFacts(
        cast(EstimatedPhase, choice.phase), asdict(replace(choice, context=context)), choice.dp, tokens or None,
        rounds * _operations(walked.calls), memory.of_layers(network, choice), [BACK_TO_BACK, ACTIVATIONS, *steps.remarks(network)],
        all_memory=False,
    )  # fmt: skip
    return summed(network, facts, spec, [*passes, *_shown(once, HIDDEN_SHARE * back)])


def summed(network: Source, facts: StepFacts, spec: Spec, priced: Sequence[Priced]) -> StepEstimate:
    """The parts put together. Memory of which only a part is known says that a step does not fit, never that it does."""
    seconds = _seconds(priced)
    low, high = _interval(priced, seconds)
    total, most, tokens = sum(facts.memory.values()), spec.memory_bytes, facts.tokens
    energy, peak = _energy(priced, seconds, facts.gpus), spec.rate("matrix.bf16", spec.clock_for_peak_hz)
    parts = [changed(one.part, share=one.part.total_s / seconds) for one in priced]
    return StepEstimate(
        network=network.name, phase=facts.phase, machine=spec.slug, setting=facts.setting, gpus=facts.gpus, seconds=seconds,
        low_s=low, high_s=high, tokens_s=tokens / seconds if tokens else None, operations=facts.operations, energy_j=energy,
        share_of_peak=facts.operations / (seconds * peak * facts.gpus) if peak else None,
        energy_per_token_j=energy / tokens if energy and tokens else None, memory_bytes=facts.memory, memory_total_bytes=total,
        machine_memory_bytes=most,
        fits=None if most is None or (total <= most and not facts.all_memory) else total <= most,
        parts=sorted(parts, key=lambda one: -one.total_s), notices=facts.notices,
    )  # fmt: skip


def tokens_of(setting: Setting) -> int:
    """Tokens that a step of all GPUs brings forward."""
    return setting.batch * setting.dp * (1 if setting.phase == "decode" else setting.context)


def operations_of(network: Network, setting: Setting) -> float:
    """FLOP of the mathematics: each kernel's, all GPUs, training three times the forward pass; nothing for recomputing."""
    alone = replace(setting, tp=1, pp=1, dp=1, ep=1, recompute=False, micro_batch=setting.batch if setting.phase == "train" else 1)
    return _operations(calls.stage(network, alone)) * setting.dp * (3 if setting.phase == "train" else 1)


def _operations(kernels: Sequence[Call]) -> float:
    total = 0.0
    for call in kernels:
        kind = work.find(call.workload)
        total += call.times * kind.work(kind.parse(call.params)).total_operations
    return total


def _interval(parts: Sequence[Priced], seconds: float) -> tuple[float, float]:
    """Errors of one family go one way and add; those of families are independent."""
    below: dict[str, float] = {}
    above: dict[str, float] = {}
    for part, one in parts:
        if one is None or not one.seconds:
            continue
        below[one.family] = below.get(one.family, 0.0) + part.total_s * (1 - one.low_s / one.seconds)
        above[one.family] = above.get(one.family, 0.0) + part.total_s * (one.high_s / one.seconds - 1)
    return max(seconds - math.hypot(*below.values()), 0.0), seconds + math.hypot(*above.values())


def _energy(parts: Sequence[Priced], seconds: float, gpus: int) -> float | None:
    """Mean power of the kernels over the whole step; None where no kernel's power is known."""
    known = [(part.total_s, one.power_w) for part, one in parts if one is not None and not math.isnan(one.power_w)]
    weight = sum(time for time, _ in known)
    return sum(time * power for time, power in known) / weight * seconds * gpus if weight else None


def _notices(network: Network, setting: Setting) -> list[Notice]:
    notices = [BACK_TO_BACK]
    if setting.tp > calls.GPUS_A_NODE:
        notices.append(Notice("several_nodes", f"tensor parallel over {calls.nodes(setting.tp)} nodes of {calls.GPUS_A_NODE}"))
    if network.experts and setting.phase == "train":
        notices.append(Notice("even_experts", "tokens shared out evenly over experts, whose products are grouped ones"))
    if network.latent and setting.phase == "decode":
        notices.append(Notice("absorbed_projections", "decode works on the latent, up-projections absorbed into queries and output"))
    if setting.phase != "train" and (taken_as := network.taken_as(setting.dtype)):
        notices.append(Notice("taken_as", taken_as))
    return [*notices, *steps.remarks(network)]


def check_counts(given: Mapping[str, Any]) -> None:
    """Raises InputError for a number that is below 1."""
    for name, value in given.items():
        if isinstance(value, int) and not isinstance(value, bool) and value < 1:
            raise InputError(f"--{name.replace('_', '-')} is a whole number from 1, not {value}")

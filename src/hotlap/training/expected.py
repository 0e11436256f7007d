"""What the model expects of a training step of a network on this device: its kernels one after the other, as `core/work` counts them.

On a processor each kernel takes what kernels of its kind and size took there alone (`core.model.processor`, a sweep that never runs the
step); on a GPU of the machine table what `hotlap predict` expects. The module is the one that `training run NETWORK` makes: fp32, AdamW.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hotlap.core import units, work
from hotlap.core.errors import HotlapError, InputError
from hotlap.core.model import kept, machines, processor
from hotlap.core.model.calibration import Factor
from hotlap.core.model.expect import expect
from hotlap.core.model.processor import KernelTime
from hotlap.core.record import Device
from hotlap.core.store import calibrations as store
from hotlap.core.work import traits
from hotlap.core.work.compute import GEMM
from hotlap.core.work.layers import OPTIMIZER
from hotlap.core.work.network import POINTWISE
from hotlap.core.work.networks import replicas, steps
from hotlap.core.work.networks.calls import Call
from hotlap.core.work.networks.shape import Network
from hotlap.training import conventions
from hotlap.training.expected_record import ExpectedPart, ExpectedStep, Section
from hotlap.training.record import TrainingAsked

CHECKED_S = (0.12, 1.2)  # steps on which this model was checked: benchmarks/printed/training_expected.txt
CALIBRATE = "hotlap model calibrate --target torch:cpu"
DTYPE = "fp32"
LOOP_ARRAYS, LOOP_OPERATIONS = 20, 10  # that AdamW's loop reads and writes, and calls: torch/optim/adam.py, _single_tensor_adam
FUSED_ARRAYS = 7  # of the kernel of updates: weight, gradient, two moments read, three written
DEAREST_CALL = 4.0  # times the smallest operation that a call of the framework may take, with autograd and Python: assumed
FRAMEWORK = "framework"
PRODUCTS_OF = {"forward": 2, "backward": 5}  # of attention: scores and values; scores again and four gradients
EAGER = "fusion by torch.compile (each kernel is counted by itself)"
ROTARY = "the angles of rotary positions, which each layer computes anew"
REPEATED = "copies of keys and values for the heads that share them"
EXPERTS = "uneven loads of experts (tokens are counted as spread evenly, and gathered in one pass)"
MODULE = "the time of Python and autograd between the calls"
KEPT_BYTES = 2**25  # larger ones the C library gives back at once: glibc, mallopt(3), the most of M_MMAP_THRESHOLD on 64 bits
FRESH = "fresh memory"
NOT_FRESH = f"memory that is taken anew: this calibration is of a run that was kept; {CALIBRATE} measures it"
LOGITS = {"forward": 2, "backward": 2}  # so large: logits and their log softmax; the gradients of both
Price = Callable[[str, Mapping[str, Any]], KernelTime]


class StepKernel(NamedTuple):
    """A kernel of the step, `times` called."""

    section: Section
    time: KernelTime
    times: float = 1.0


def of(asked: TrainingAsked, device: Device, home: Path, arm: str = "", changed: Mapping[str, str] | None = None) -> ExpectedStep:
    """`changed`: widths in place of the asked ones, as of another batch. What cannot be expected says why."""
    if asked.kind != "network":
        why = "the shape of a program is not known: of a network something is expected, as of hotlap training run minilm-l6"
        return ExpectedStep(arm=arm, why=why)
    if asked.ranks > 1:
        return ExpectedStep(arm=arm, why=f"{asked.ranks} ranks share the device, and how is not modelled", fix="--ranks 1")
    try:
        network, batch, context = conventions.network_of(asked.program, {**asked.parameters, **(changed or {})})
        if device.kind == "cpu":
            return _on_processor(network, batch, context, device, home, arm)
        return _on_gpu(network, batch, context, device, home, arm)
    except _NotCalibrated as error:
        return ExpectedStep(arm=arm, why=str(error), fix=CALIBRATE)
    except HotlapError as error:
        return ExpectedStep(arm=arm, why=str(error))


class _NotCalibrated(Exception):
    """What the sweep of this processor lacks."""


# ---------------------------------------------------------------- devices


def _on_processor(network: Network, batch: int, context: int, device: Device, home: Path, arm: str) -> ExpectedStep:
    if processor.NAME not in store.names(home):
        raise _NotCalibrated("this processor is not calibrated")
    calibration = kept.load(processor.NAME, home)
    if calibration.name != device.name:
        raise _NotCalibrated(f"the calibration is of another processor, {calibration.name}, and this is {device.name}")
    times = processor.times(calibration)
    kernels = [*_kernels(network, batch, context, times.time), *_tables(network, times.time), *_updates(network, times.time)]
    kernels += _fresh(network, batch * context, times.fresh_s)
    remarks = [MODULE] if times.fresh_s else [NOT_FRESH, MODULE]
    beside = f"; {calibration.disturbed_words}: {CALIBRATE} on a quiet machine" if calibration.disturbed else ""
    step = _step(network, kernels, arm, device.name, f"its kernels alone, measured by themselves ({calibration.date}{beside})", remarks)
    return msgspec.structs.replace(step, words=f"{step.words}{_checked(step.seconds or 0.0)}")


def _checked(seconds: float) -> str:
    """Where a step is not of those that this model was checked on."""
    low_s, high_s = CHECKED_S
    if low_s <= seconds <= high_s:
        return ""
    which = "shorter" if seconds < low_s else "longer"
    return f", unchecked: the model was checked on steps of {units.show(low_s, 's')} to {units.show(high_s, 's')}, and this is {which}"


def _on_gpu(network: Network, batch: int, context: int, device: Device, home: Path, arm: str) -> ExpectedStep:
    slug = device.machine or machines.recognise(device)
    if not slug or not machines.known(slug):
        raise InputError(f"{device.name} is not in the machine table")
    spec, calibration = machines.load(slug), kept.chosen(slug, "", False, home)

    def price(workload: str, params: Mapping[str, Any]) -> KernelTime:
        kind = work.find(workload)
        found = expect(workload, kind.parse(dict(params)), spec, calibration=calibration)
        seconds, low_s, high_s = (float(one[0]) for one in (found.seconds, found.low_s, found.high_s))
        return KernelTime(found.family, seconds, 0.0, low_s, high_s)

    kernels = [*_kernels(network, batch, context, price), *_update(network, price)]
    return _step(network, kernels, arm, spec.name, calibration.words if calibration else "published figures", ["time on the host", MODULE])


# ---------------------------------------------------------------- kernels


def _kernels(network: Network, batch: int, context: int, price: Price) -> list[StepKernel]:
    """Forward and backward, in fp32; all sequences pass together. The update comes apart."""
    found = []
    for call in steps.step(network, steps.Choice("train", batch, context, micro_batch=batch)):
        section: Section = "backward" if call.group == "backward" else "forward"
        if call.group not in replicas.ONCE_A_STEP:
            found += [StepKernel(section, price(one.workload, one.params), one.times) for one in _in_fp32(call, price)]
    return found


def _in_fp32(call: Call, price: Price) -> list[Call]:
    """A call in the module's type; attention that no kernel is known of in it as its products."""
    has = {param.name for param in work.find(call.workload).params}
    typed = replace(call, params={**call.params, **{name: DTYPE for name in ("dtype", "kv_dtype") if name in has}})
    if traits(call.workload).model != "attention":
        return [typed]
    try:
        price(typed.workload, typed.params)
    except InputError:
        p = typed.params
        products = {"m": p["query"], "n": p["kv"] or p["query"], "k": p["head_dim"], "batch": p["batch"] * p["heads"], "dtype": DTYPE}
        return [Call(typed.name, typed.group, GEMM.name, products, typed.times * PRODUCTS_OF[str(p.get("op", "forward"))])]
    return [typed]


def _tables(network: Network, price: Price) -> list[StepKernel]:
    """Gradients of tables are dense: filled with zeros, and added up where the head shares its weights with the table."""
    rows = [network.vocabulary, *([network.positions] if network.positions else [])]
    filled = [price(POINTWISE.name, {"op": "copy", "elements": max(count * network.hidden // 2, 1), "dtype": DTYPE}) for count in rows]
    if network.tied:
        filled.append(price(POINTWISE.name, {"op": "add", "elements": network.vocabulary * network.hidden, "dtype": DTYPE}))
    return [StepKernel("backward", one._replace(family="tables")) for one in filled]


def _fresh(network: Network, tokens: int, byte_s: Factor | None) -> list[StepKernel]:
    """Memory that each step takes anew, which kernels that are measured alone do not: what is too large to be kept. At most all that
    the forward pass leaves for the backward pass, and all gradients, too."""
    if byte_s is None:
        return []
    logits, tables = 4 * tokens * network.vocabulary, 4 * network.vocabulary * network.hidden
    large = {section: count * logits if logits >= KEPT_BYTES else 0 for section, count in LOGITS.items()}
    if tables >= KEPT_BYTES:  # gradients of the table and of the head, and two temporaries of the update of each
        large["backward"] += 2 * tables
    large["optimiser"] = (2 if network.tied else 4) * tables if tables >= KEPT_BYTES else 0
    every = {"forward": 4 * tokens * _activations(network), "backward": 4 * conventions.parameters(network), "optimiser": 0}
    sections: tuple[Section, ...] = ("forward", "backward", "optimiser")
    return [
        StepKernel(one, KernelTime(FRESH, at * byte_s.value, 0.0, 0.5 * at * byte_s.low, (at + every[one]) * byte_s.high))
        for one in sections for at in (large[one],)
    ]  # fmt: skip


def _activations(network: Network) -> int:
    """Elements that a token leaves behind, about: of each layer two norms, queries to values, attention's, and the inner width."""
    inter = network.topk * network.expert_inter if network.experts else network.inter
    inner = (4 if network.gated else 2) * inter
    return network.layers * (6 * network.hidden + (network.heads + 2 * network.kv_heads) * network.head_dim + inner)


def _updates(network: Network, price: Price) -> list[StepKernel]:
    """AdamW as PyTorch runs it on a processor: a loop over tensors, several passes over each one's state. The first finds it where the
    state of all tensors lies, for a step goes through all of it; the others where the tensor's own does."""
    sizes = tensors(network)
    every = sum(elements * count for elements, count in sizes.items())
    whole = price(OPTIMIZER.name, {"op": "adamw", "elements": every, "dtype": DTYPE})
    again = LOOP_ARRAYS / FUSED_ARRAYS - 1
    updated = []
    for elements, count in sizes.items():
        own = price(OPTIMIZER.name, {"op": "adamw", "elements": elements, "dtype": DTYPE})
        call_s, share = LOOP_OPERATIONS * own.call_s, elements / every
        pairs = ((whole.seconds, own.seconds), (whole.low_s, own.low_s), (whole.high_s, own.high_s))
        seconds, low_s, high_s = (call_s + share * max(a - own.call_s, 0.0) + again * max(b - own.call_s, 0.0) for a, b in pairs)
        updated.append(StepKernel("optimiser", KernelTime(own.family, seconds, call_s, low_s, high_s), count))
    return updated


def _update(network: Network, price: Price) -> list[StepKernel]:
    """On a GPU: all of the state's bytes once."""
    every = conventions.parameters(network)
    return [StepKernel("optimiser", price(OPTIMIZER.name, {"op": "adamw", "elements": every, "dtype": DTYPE}))]


def tensors(network: Network) -> dict[int, int]:
    """Elements of the tensors that the optimiser moves → how many there are, as `network_module` makes them."""
    sizes: dict[int, int] = {}
    for elements, count in _tensors(network):
        if elements and count:
            sizes[elements] = sizes.get(elements, 0) + count
    return sizes


def _tensors(network: Network) -> Iterable[tuple[int, int]]:
    h, layers = network.hidden, network.layers
    values = network.value_dim or network.head_dim
    qkv = (network.heads + network.kv_heads) * network.head_dim + network.kv_heads * values
    norm = 1 if network.gated else 2  # weight, and bias
    yield h * qkv, layers
    yield h * network.heads * values, layers
    yield h, norm * (network.norms * layers + 1)
    yield network.head_dim, 2 * norm * layers if network.qk_norm else 0
    yield qkv, layers if network.bias in ("qkv", "all") else 0
    yield h, layers if network.bias == "all" else 0
    yield from _fed(network, network.inter, layers - network.expert_layers)
    yield from _fed(network, network.expert_inter, network.expert_layers * network.experts)
    yield from _fed(network, network.shared_experts * network.expert_inter, network.expert_layers)
    yield h * network.experts, network.expert_layers
    yield network.experts, network.expert_layers if network.bias == "all" else 0
    yield network.vocabulary * h, 1 if network.tied else 2
    yield network.positions * h, 1
    yield h * h, 1 if network.pooled else 0


def _fed(network: Network, inter: int, count: int) -> Iterable[tuple[int, int]]:
    """Up and down."""
    wide = inter * (2 if network.gated else 1)
    yield network.hidden * wide, count
    yield network.hidden * inter, count
    if network.bias == "all" and inter:
        yield wide, count
        yield network.hidden, count


# ---------------------------------------------------------------- the sum


def _step(network: Network, kernels: Sequence[StepKernel], arm: str, on: str, words: str, remarks: Sequence[str]) -> ExpectedStep:
    parts: dict[tuple[Section, str], float] = {}
    for section, time, times in kernels:
        for name, seconds in ((time.family, time.seconds - time.call_s), (FRAMEWORK, time.call_s)):
            parts[section, name] = parts.get((section, name), 0.0) + times * seconds
    seconds = sum(parts.values())
    low_s, high_s = _interval(kernels, seconds)
    more = [ROTARY] if network.rotary else []
    more += [REPEATED] if network.kv_heads < network.heads else []
    more += [EXPERTS] if network.experts else []
    return ExpectedStep(
        arm=arm, seconds=seconds, low_s=low_s, high_s=high_s,
        parts=[ExpectedPart(section=section, name=name, seconds=each) for (section, name), each in parts.items() if each > 0],
        calls=sum(one.times for one in kernels if one.time.call_s), on=on, words=words, remarks=[*more, *remarks, EAGER],
    )  # fmt: skip


def _interval(kernels: Sequence[StepKernel], seconds: float) -> tuple[float, float]:
    """Errors of one family go one way and add; those of families are independent. Calls may cost more than the smallest one, never less."""
    below: dict[str, float] = {}
    above: dict[str, float] = {}
    for _, time, times in kernels:
        below[time.family] = below.get(time.family, 0.0) + times * (time.seconds - time.low_s)
        above[time.family] = above.get(time.family, 0.0) + times * (time.high_s - time.seconds)
        above[FRAMEWORK] = above.get(FRAMEWORK, 0.0) + times * time.call_s * (DEAREST_CALL - 1)
    return max(seconds - math.hypot(*below.values()), 0.0), seconds + math.hypot(*above.values())

"""The expected time of cases on a machine: the family that knows the kernel, at the clock it will hold, with its interval and parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hotlap.core import work
from hotlap.core.errors import InputError, NotModelled
from hotlap.core.model import composed, intervals, limits
from hotlap.core.model.bounds import MANY, bounds
from hotlap.core.model.calibration import Calibration, scaled
from hotlap.core.model.chips import chip
from hotlap.core.model.kernels import (
    attention_choice,
    collective,
    decode,
    gemm_kernels,
    moe,
    moe_kernels,
    passes,
    power,
    prefill,
    streaming,
    transfer,
    versions,
)  # fmt: skip
from hotlap.core.model.kernels.base import Demand, Estimate
from hotlap.core.model.machines import Spec
from hotlap.core.record import Case
from hotlap.core.work.attention import ATTENTION, attention_widths
from hotlap.core.work.base import Workload, unit_of
from hotlap.core.work.network import MOE

Floats = NDArray[np.float64]
Params = Mapping[str, Any]
LAUNCHES, WAYS = ("launch", "host"), ("hops", "protocol")  # parts that a launch sets; that the way over a link sets
UNCLOCKED = ("DRAM", "launch", "row passes", "host", "bytes in flight")  # parts that do not go with the clock
CAPPED = "clock under the power cap"
BETWEEN_NODES = (
    f"between nodes a link of {collective.NETWORK_B_S / 1e9:g} GB/s and {collective.NETWORK_LATENCY_S * 1e6:g} µs for each GPU is assumed"
)
USUAL_ATTENTION = "vllm"  # taken where no implementation is named: what it chooses on the machine


PRODUCTS = ("product", "convolution", "groups", "recurrence")  # families that are expected as matrix products
WORDS: Mapping[str, tuple[str, ...]] = {  # of which one is in the name of a library's kernel that a family can tell from others
    "streaming": ("alone", "quack"),
}


class Expected(NamedTuple):
    """Arrays of one entry per case."""

    seconds: Floats
    low_s: Floats  # stated 90 % interval
    high_s: Floats
    power_w: Floats  # of calls back to back; NaN where it is not known
    clock_hz: Floats  # that it holds under the power limit; NaN where it is not known
    parts: Mapping[str, Floats]  # seconds by name; they add up
    choice: Mapping[str, NDArray[Any]]
    inside: NDArray[np.bool_]  # within what was measured
    family: str
    known: intervals.IntervalLevel
    remarks: tuple[str, ...] = ()  # what is to be said beside it


def expect(
    workload: str, params: Params, spec: Spec, implementation: str | ArrayLike = "", calibration: Calibration | None = None,
    bound_s: float | None = None,
) -> Expected:
    """`params`: complete, numbers as arrays of one length or single, texts single. `calibration`: of this machine by a sweep; scales
    the parts of the families that it knows. `bound_s`: of the one case, where it is known already. Raises InputError for what the
    machine cannot do or what no family knows."""
    kind = work.find(workload)
    params = kind.full(params)  # with those that a case leaves out at their defaults
    arrays = _arrays(params)
    count = max((len(value) for value in arrays.values() if isinstance(value, np.ndarray)), default=1)
    family, demand = _estimate(kind, arrays, spec, implementation, count)
    demand = _overheads(kind, demand, spec)
    if not _like_measured(spec):
        demand = demand._replace(inside=np.zeros(len(demand.seconds), dtype=bool))
    known = intervals.IntervalLevel("spec", intervals.ASSUMED) if kind.model == "copy" else intervals.level(spec)
    if calibration is not None and family in calibration.families:
        corrected = scaled(calibration.families[family], demand.parts, params.get("dtype", ""))
        demand, known = (
            demand._replace(parts=corrected, seconds=np.sum(list(corrected.values()), axis=0)),
            intervals.swept(calibration.words),
        )
        if spec.original is not None:
            known = known._replace(words=f"{known.words}; {', '.join(spec.edits)} edited")
    if kind.model == "communication" and np.any(np.asarray(params["nodes"]) > 1):
        known = known._replace(words=f"{known.words}; {BETWEEN_NODES}")
    if how := _unlike(kind, params):
        known = known._replace(words=f"no kernel like it was measured: {how}; these {known.words}")
    floor = _floor(workload, params, arrays, spec) if bound_s is None else np.array([bound_s])
    seconds = np.fmax(demand.seconds, floor)  # which passes over a bound that is not known
    part = str(params.get("dtype", "")) if family == "gemm" else ""
    wider = _another_version(kind, implementation, spec)
    low, high = intervals.interval(family, known.key, seconds, demand.inside, part, "library" if wider else "")
    low = low * (1 - demand.parts.get(CAPPED, 0.0) / demand.seconds)  # a short load is over before the clock falls
    parts = _named_by_unit(demand.parts, params, spec)
    parts = {**parts, "bound": seconds - demand.seconds} if np.any(seconds > demand.seconds) else parts
    unknown = (np.full(len(seconds), np.nan),) * 2
    power_w, clock_hz = unknown if kind.link else _power(_toggling(family, implementation), demand, seconds, spec)
    low = np.fmax(low, floor)
    return Expected(seconds, low, high, power_w, clock_hz, parts, demand.choice, demand.inside, family, known, (*demand.remarks, *wider))


def _arrays(params: Params) -> dict[str, Any]:
    """Numbers as arrays of one entry at least; texts and flags as they are."""
    return {
        name: value if isinstance(value, str | bool) else np.array([value]) if isinstance(value, int | float) else np.atleast_1d(value)
        for name, value in params.items()
    }  # fmt: skip


def _another_version(kind: Workload, implementation: str | ArrayLike, spec: Spec) -> tuple[str, ...]:
    """What is said of a version of a library that was never measured."""
    if not isinstance(implementation, str) or not implementation:
        return ()
    if kind.model == "experts":
        return (versions.WIDER,) if moe_kernels.find(implementation, (spec.original or spec).compile_target).other else ()
    other = versions.other(implementation) if kind.model in ("attention", *PRODUCTS) else ""
    return (other, versions.WIDER) if other else ()


def _named_by_unit(parts: Mapping[str, Floats], params: Params, spec: Spec) -> Mapping[str, Floats]:
    """The parts, with products by vector units named as such: of fp32 and fp64, where the machine has no matrix unit for them."""
    dtype = str(params.get("dtype", ""))
    if dtype not in ("fp32", "fp64") or unit_of(dtype) in spec.flop_per_clock:
        return parts
    return {"vector unit" if name == "matrix unit" else name: value for name, value in parts.items()}


_UNLIKE: Mapping[str, str] = {
    "passes": "bytes by stated passes, at the rates of streaming kernels",
    **dict.fromkeys(("convolution", "groups", "recurrence"), "composed of matrix products"),
}


def _unlike(kind: Workload, params: Params) -> str:
    """Of what a workload that was never measured is composed; "" for the others."""
    backward = kind.model == "attention" and params["op"] == "backward"
    return "forward kernels, scaled" if backward else _UNLIKE.get(kind.model, "")


def _overheads(kind: Workload, demand: Estimate, spec: Spec) -> Estimate:
    """With the launches and the way of a link that an imagined machine has."""
    ways = WAYS if kind.model == "communication" else ()
    by = {**dict.fromkeys(LAUNCHES, spec.launch_factor), **dict.fromkeys(ways, spec.link_latency_factor)}
    if spec.launch_factor == spec.link_latency_factor == 1.0:
        return demand
    parts = {name: value * by.get(name, 1.0) for name, value in demand.parts.items()}
    return demand._replace(parts=parts, seconds=np.sum(list(parts.values()), axis=0))


def check_implementation(workload: str, name: str, spec: Spec) -> None:
    """Raises InputError for a kernel's name that the workload's family would not know from any other, or that the machine cannot run."""
    model = work.find(workload).model
    if model == "attention":
        attention_choice.chosen(name, (spec.original or spec).compile_target)
        return
    if model == "experts":
        moe_kernels.check(name, (spec.original or spec).compile_target)
        return
    if model in PRODUCTS:
        gemm_kernels.check(name, (spec.original or spec).compile_target)
        return
    valid = list(WORDS.get(model, ()))
    if not any(word in name.lower() for word in valid):
        have = f"valid: names with {', '.join(valid)}"
        raise InputError(f"{workload} has no implementation '{name}'", have if valid else "leave --implementation out")


def _like_measured(spec: Spec) -> bool:
    """Whether it is of the kind whose kernels were measured: NVIDIA's since Ampere. Libraries of others are another matter."""
    number = spec.compile_target.removeprefix("sm_").rstrip("a")
    return spec.vendor == "NVIDIA" and number.isdigit() and int(number) >= 80


def _floor(workload: str, params: Params, arrays: Params, spec: Spec) -> Floats:
    """The provable bound; NaN where there is none. The workloads of plans are counted one case at a time."""
    if workload in MANY:
        return bounds(workload, arrays, spec)[0]
    found = limits.limit(Case(workload=workload, params=dict(params)), spec)
    return np.array([np.nan if found.bound_s is None else found.bound_s])


def _toggling(family: str, implementation: str | ArrayLike) -> str:
    """Kind of kernel by how much its units toggle: Triton's attention waits, whoever calls it."""
    slow = isinstance(implementation, str) and "triton" in implementation and family in ("prefill", "decode")
    return "triton" if slow else family


def _power(family: str, demand: Estimate, seconds: Floats, spec: Spec) -> tuple[Floats, Floats]:
    """Power and clock of calls back to back; NaN for machines whose limit is not published."""
    unknown = np.full(len(seconds), np.nan)
    if not spec.power_w:
        return unknown, unknown
    kind, machine = family if family in power.KINDS else "", chip(spec, "max")
    if not power.known(demand.demand.operations):
        return unknown, unknown
    clock = demand.clock_hz
    if clock is None:
        clock = power.clock(demand.demand, _spent(demand, seconds), machine, kind=kind).clock_hz
        drawn = power.power_w(demand.demand, seconds, machine, kind)
    else:
        drawn = power.at_share_w(demand.demand, seconds, clock / machine.clock_max_hz, machine, kind)
    return np.minimum(drawn, spec.power_w * power.MARGIN), clock


def _spent(demand: Estimate, seconds: Floats) -> power.PowerDemand:
    fixed = np.minimum(np.sum([demand.parts.get(name, 0.0 * seconds) for name in UNCLOCKED], axis=0), seconds)
    return power.PowerDemand(seconds - fixed, fixed)


def settled(case: Case, spec: Spec) -> tuple[str, Demand, power.PowerDemand]:
    """A case's kind of kernel, what it makes the machine do, and its seconds at the highest clock: those that go with the clock, and the
    rest. Raises InputError for what no family knows, and where the energy of an operation is not known."""
    workload = work.find(case.workload)
    params = workload.full(case.params)
    arrays = _arrays(params)
    family, found = _estimate(workload, arrays, spec, case.implementation, 1)
    found = _overheads(workload, found, spec)
    if workload.link or not spec.power_w or not power.known(found.demand.operations):
        raise InputError(f"no power is known of '{case.workload}' on {spec.name}")
    seconds = found.seconds - found.parts.get(CAPPED, 0.0 * found.seconds)
    return family if family in power.KINDS else "", found.demand, _spent(found, seconds)


def _estimate(kind: Workload, params: Params, spec: Spec, implementation: str | ArrayLike, count: int) -> tuple[str, Estimate]:
    if spec.kind != "gpu":
        raise InputError(f"nothing is expected of {spec.name}: the model knows GPUs")
    if kind.model == "streaming":
        return "streaming", streaming.estimate(kind.name, params, chip(spec), implementation)
    if kind.model == "passes":
        return "streaming", passes.estimate(kind.name, params, chip(spec))
    if not kind.model:
        valid = ", ".join(name for name, one in work.WORKLOADS.items() if one.model)
        raise NotModelled(f"no expected value is known for '{kind.name}'", f"valid: {valid}")
    return _FAMILIES[kind.model](params, spec, implementation, count)


def _gemm(params: Params, spec: Spec, implementation: str | ArrayLike, _: int) -> tuple[str, Estimate]:
    return "gemm", composed.product(params, chip(spec, "max"), implementation)


def _conv(params: Params, spec: Spec, implementation: str | ArrayLike, _: int) -> tuple[str, Estimate]:
    return "gemm", composed.convolution(params, chip(spec, "max"), implementation)


def _grouped(params: Params, spec: Spec, implementation: str | ArrayLike, _: int) -> tuple[str, Estimate]:
    return "gemm", composed.grouped(params, chip(spec, "max"), implementation)


def _rnn(params: Params, spec: Spec, implementation: str | ArrayLike, _: int) -> tuple[str, Estimate]:
    return "gemm", composed.recurrent(params, chip(spec, "max"), implementation)


def _attention(params: Params, spec: Spec, implementation: str | ArrayLike, count: int) -> tuple[str, Estimate]:
    single_query = bool((np.asarray(params["query"]) == 1).all())
    keys = np.where(np.asarray(params["kv"]) > 0, params["kv"], params["query"])
    implementation, unknown = _attention_kernels(implementation)
    _can(spec, str(params["dtype"]), ATTENTION.name)
    shared = {name: params[name] for name in ("batch", "heads", "kv_heads", "head_dim", "window", "dtype", "kv_dtype")}
    shared |= {"value_dim": attention_widths(params)[0], "latent": params.get("latent", 0), "cache_write": params.get("cache_write", 1)}
    machine = chip(spec, "max")
    backward = params.get("op", "forward") == "backward"
    if single_query and not backward:
        estimate = decode.estimate({**shared, "kv": keys}, machine, implementation)
    else:
        causal = params["mask"] == "causal"
        estimate = prefill.estimate({**shared, "query": params["query"], "kv": keys, "causal": causal}, machine, implementation)
    if unknown:
        remarks = (*estimate.remarks, f"no attention kernel is known as {', '.join(unknown)}: taken for what {USUAL_ATTENTION} chooses")
        estimate = estimate._replace(inside=np.zeros_like(estimate.inside), remarks=remarks)
    if backward:
        return "prefill", composed.attention_backward(params, estimate)
    return "decode" if single_query else "prefill", estimate


def _attention_kernels(implementation: str | ArrayLike) -> tuple[str | ArrayLike, list[str]]:
    """Names that the family knows, and those for which the usual one stands: of a case's own implementations, which nobody measured."""
    if isinstance(implementation, str):
        if not implementation or attention_choice.known(implementation):
            return implementation or USUAL_ATTENTION, []
        return USUAL_ATTENTION, [implementation]
    names = np.asarray(implementation, dtype=str)
    unknown = [name for name in np.unique(names).tolist() if name and not attention_choice.known(name)]
    return np.where(np.isin(names, [*unknown, ""]), USUAL_ATTENTION, names), unknown


def _moe(params: Params, spec: Spec, implementation: str | ArrayLike, _: int) -> tuple[str, Estimate]:
    names = ("tokens", "hidden", "inter", "topk", "experts", "tp", "ep", "distribution", "gated")
    _can(spec, str(params["dtype"]), MOE.name)
    dtype = {"int4": "int4_wo", "mxfp4": "w4a16_mxfp4", "fp4": "nvfp4", "fp16": "bf16"}.get(str(params["dtype"]), str(params["dtype"]))
    return "moe", moe.estimate({**{name: params[name] for name in names}, "dtype": dtype}, chip(spec), implementation)


def _can(spec: Spec, dtype: str, workload: str) -> None:
    """Raises InputError where the machine has no products of a type; what is stored narrower is multiplied in 16 bits."""
    unit = unit_of(dtype)
    if unit not in spec.flop_per_clock:
        have = ", ".join(sorted(name.removeprefix("matrix.") for name in spec.flop_per_clock if name.startswith("matrix.")))
        raise InputError(f"{spec.name} has no rate of {unit} in the machine table", f"it has {have or 'no matrix unit'}", f"{workload}: ")


def _collective(params: Params, spec: Spec, implementation: str | ArrayLike, _: int) -> tuple[str, Estimate]:
    names = {"op": "op", "gpus": "gpus", "size": "bytes", "nodes": "nodes"}
    if not spec.scaleup_b_s and spec.vendor != "NVIDIA":
        raise InputError(f"a collective needs the link between the GPUs, and none is published for {spec.name}")
    dtype = "int8" if params["dtype"] in ("int8", "fp8") else "bf16"
    given = {**{new: params[old] for old, new in names.items()}, "dtype": dtype}
    return "collective", collective.estimate(given, chip(spec, "max"), implementation)


def _copy(params: Params, spec: Spec, _: str | ArrayLike, __: int) -> tuple[str, Estimate]:
    rate = limits.link_rate("host", spec)
    if isinstance(rate, str):
        raise InputError(rate)
    return "transfer", transfer.estimate(params, rate[0])


_FAMILIES: Mapping[str, Callable[[Params, Spec, str | ArrayLike, int], tuple[str, Estimate]]] = {
    "product": _gemm, "convolution": _conv, "groups": _grouped, "recurrence": _rnn, "attention": _attention, "experts": _moe,
    "communication": _collective, "copy": _copy,
}  # fmt: skip
"""Of the models that a workload can name, those with an estimate of their own: the coefficients' family and the times."""

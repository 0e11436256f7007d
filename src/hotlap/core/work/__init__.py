"""Every workload there is, by name. Plans validate against it, `workloads` implements it, `model` predicts it."""

from __future__ import annotations

from collections.abc import Collection

from hotlap.core.errors import HINT, MOST, InputError, nearest
from hotlap.core.record import Case
from hotlap.core.units import exact, size
from hotlap.core.work import compute, graphics, host, latency, layers, link, memory, network, program, science
from hotlap.core.work.base import Workload
from hotlap.core.work.traits import Traits

WORKLOADS: dict[str, Workload] = {
    w.name: w
    for family in (memory, compute, graphics, latency, link, host, network, layers, science, program)
    for w in family.WORKLOADS
}


ELSEWHERE = {  # names that other tools, libraries and papers use
    **dict.fromkeys(("memcpy", "cudamemcpy", "hipmemcpy"), ("stream op=copy (on the device)", "transfer (from and to the host)")),
    **dict.fromkeys(("bandwidth", "membw", "babelstream"), ("stream (memory)", "transfer (from and to the host)", "peer (between GPUs)")),
    **dict.fromkeys(("matmul", "mm", "bmm", "linear"), ("gemm",)),
    **dict.fromkeys(("flops", "peak"), ("fma (vector units)", "gemm (matrix engines)")),
    **dict.fromkeys(("allreduce", "all-reduce", "nccl"), ("collective",)),
    **dict.fromkeys(("p2p", "nvlink"), ("peer",)),
    **dict.fromkeys(("sdpa", "flash", "flashattention"), ("attention",)),
    **dict.fromkeys(("latency",), ("chase (memory)", "launch (kernels)", "sync (waiting)")),
}
MOST_MEANT = 4
LISTED = "hotlap schema workloads lists all"
_NAMING = ("op", "kind", "direction", "mode")  # parameters that say what is done
_UNKNOWN = Traits()


def find(name: str) -> Workload:
    """The workload of this name. Raises InputError with the nearest valid name."""
    try:
        return WORKLOADS[name]
    except KeyError:
        raise InputError(unknown(name, WORKLOADS)) from None


def unknown(name: str, valid: Collection[str]) -> str:
    """What an error says of a name that no workload has: the one that is called so elsewhere, or does an operation of that name."""
    key = name.lower()
    params = ((one, param) for one in map(WORKLOADS.__getitem__, valid) for param in one.params if param.name in _NAMING)
    meant = ELSEWHERE.get(key) or [f"{one.name} {param.name}={key}" for one, param in params if key in param.choices][:MOST_MEANT]
    hint = f"{HINT} {', '.join(meant)}? {LISTED}" if meant else nearest(name, valid)
    return f"there is no workload '{name}'; {hint}{'' if meant or len(valid) <= MOST else f'; {LISTED}'}"


def traits(name: str) -> Traits:
    """What others ask of the workload of this name; of one that this version does not know, nothing."""
    return WORKLOADS.get(name, _UNKNOWN)


def case_of(text: str) -> Case:
    """A case from one line as `bench` takes it: a workload, then NAME=value. Raises InputError."""
    name, *words = text.split() or [""]
    spec = find(name)
    given: dict[str, object] = dict(word.partition("=")[::2] for word in words)
    return spec.case(given, spec.implementation(str(given.pop("implementation", ""))))


def label(case: Case) -> str:
    """A case in words, defaults left out where they say nothing: ``stream triad fp32 1 GiB``."""
    spec = WORKLOADS.get(case.workload)
    if spec and spec.label:
        return spec.label(case.params)
    words = [case.workload]
    for name, value in case.params.items():
        param = spec.param(name) if spec else None
        if (param and name not in _ALWAYS and value == param.default) or name == "hops":
            continue
        if param and param.unit == "B" and isinstance(value, (int, float)):
            words.append(size(value))
        elif isinstance(value, str):
            words.append(value)
        else:
            words.append(f"{name}={exact(value, param.unit) if param and isinstance(value, float) else value}")
    if case.implementation:
        words.append(f"({case.implementation})")
    return " ".join(words)


def unsaid(case: Case) -> str:
    """What a label leaves out of a case's choices, since it is the default: ``mask=causal, cache=rotated``."""
    spec = WORKLOADS.get(case.workload)
    params = [param for param in spec.params if param.choices and param.name not in _ALWAYS] if spec and not spec.label else []
    return ", ".join(f"{param.name}={param.default}" for param in params if param.default and case.params.get(param.name) == param.default)


_ALWAYS = {
    "op", "dtype", "size", "mode", "kind", "direction", "memory", "pattern", "contention", "m", "n", "k", "fmas", "name", "rows",
    "columns",
}

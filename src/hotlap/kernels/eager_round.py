"""One round of compiled against eager, in a process of its own with cold caches: a job on standard input, one line of JSON back."""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from hotlap.core.errors import HotlapError, InputError, nearest
from hotlap.core.measure import targets
from hotlap.core.measure.loop import CaseBudget, time_prepared, timing_overhead
from hotlap.core.measure.targets.base import Prepared, Target
from hotlap.core.record import Check, Samples
from hotlap.kernels import named
from hotlap.kernels.binaries.graphs import Break

ORDER = ("eager", "compiled", "compiled", "eager") * 4  # of the slots: what drifts evenly, or comes and goes, falls on both alike


class EagerJob(msgspec.Struct, frozen=True, kw_only=True):
    """What a round is to do."""

    factory: str  # MODULE:FACTORY; returns a module or function, and its example inputs
    target: str = "torch:cpu"
    backend: str = "inductor"
    backward: bool = False  # a step is forward and backward of the outputs' sum
    slot_s: float = 0.25  # of each slot of `ORDER`
    explain: bool = True  # where graphs break: traced once more
    time_it: bool = True


class EagerRound(msgspec.Struct, frozen=True, kw_only=True):
    """What a round found."""

    eager_s: float | None = None  # a step: median over samples of all its slots
    compiled_s: float | None = None
    compile_s: float | None = None  # the first compiled step
    graphs: int | None = None
    recompiled: int | None = None  # graphs that later steps added
    guards: int | None = None  # checked before each compiled step
    breaks: list[Break] = []
    difference: float | None = None  # of outputs, largest, as a share of the largest output
    rounding: float | None = None  # of eager's own outputs from those in twice the precision, likewise
    memory: dict[str, float] = {}  # bytes by name
    device: str = ""
    versions: dict[str, str] = {}
    problem: str = ""
    usage_error: bool = False


def main() -> int:
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=EagerJob)
    answer, sys.stdout = os.fdopen(os.dup(1), "wb"), sys.stderr  # a user's module may print
    os.dup2(2, 1)
    try:
        result = play(job)
    except HotlapError as error:
        result = EagerRound(problem=str(error), usage_error=isinstance(error, InputError))
    except Exception as error:  # users' modules and compilers raise kinds of their own
        words = [line.strip() for line in str(error).splitlines() if line.strip()]
        result = EagerRound(problem=f"{type(error).__name__}: {words[0] if words else 'no words'}")
    answer.write(msgspec.json.encode(result) + b"\n")
    answer.close()
    return 0


def play(job: EagerJob) -> EagerRound:
    spec = targets.parse(job.target)
    if spec.name != "torch":
        raise InputError(
            f"--target {job.target}: compiled against eager runs on PyTorch; valid: torch:cpu, torch:cuda, torch:xpu, torch:mps"
        )
    target = targets.open_device(spec, targets.find(spec)[0])
    torch = target.library
    module, inputs = _placed(torch, target, *_made(job.factory))
    if job.backend not in (known := torch._dynamo.list_backends(exclude_tags=())):
        raise InputError(f"--backend: there is no '{job.backend}'; {nearest(job.backend, known)}")

    def step(call: Callable[..., Any]) -> Any:
        if job.backward:
            out = call(*inputs)
            _total(torch, out).backward()
            return out
        with torch.no_grad():
            return call(*inputs)

    said = _explained(torch, job, module, inputs) if job.explain else {}
    told: dict[str, Any] = {**said, "device": target.device.name, "versions": {"torch": str(torch.__version__)}}
    if not job.time_it:
        return EagerRound(**told)
    return EagerRound(**{**told, **_compared(torch, target, job, module, step)})


def _compared(torch: Any, target: Target, job: EagerJob, module: Any, step: Callable[[Any], Any]) -> dict[str, Any]:
    """Both sides: the first compiled step, outputs, times in turns, memory."""
    counters = torch._dynamo.utils.counters
    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(0)
    plain = _numbers(torch, step(module))
    target.sync()
    before = _memory(torch, target)
    compiled = torch.compile(module, backend=job.backend)
    torch.manual_seed(0)
    began = time.perf_counter()
    first = step(compiled)
    target.sync()
    compile_s = time.perf_counter() - began
    graphs = int(counters["stats"]["unique_graphs"])
    _quiet(torch)
    after = _memory(torch, target)
    scale = max((float(np.abs(one).max()) for one in plain if one.size), default=0.0) or 1.0
    apart = _apart(plain, _numbers(torch, first)) / scale
    seconds = _turns(target, job, lambda: step(module), lambda: step(compiled))
    return {
        "eager_s": seconds["eager"],
        "compiled_s": seconds["compiled"],
        "compile_s": compile_s,
        "graphs": graphs,
        "recompiled": int(counters["stats"]["unique_graphs"]) - graphs,
        "difference": apart,
        "rounding": _rounding(torch, job, module, plain, scale),
        "memory": {
            **{f"{name} before compiling": value for name, value in before.items()},
            **{f"{name} after": value for name, value in after.items()},
        },
    }


def _quiet(torch: Any) -> None:
    """Ends the processes that inductor compiles in: they would go on starting while steps are timed."""
    with contextlib.suppress(Exception):  # by version they are elsewhere, or there are none
        importlib.import_module("torch._inductor.async_compile").shutdown_compile_workers()


def _turns(target: Target, job: EagerJob, eager: Callable[[], Any], compiled: Callable[[], Any]) -> dict[str, float]:
    """Median seconds of a step by the product's own loop."""
    overhead = timing_overhead(target)
    seconds: dict[str, list[float]] = {"eager": [], "compiled": []}
    for name in ORDER:
        call = eager if name == "eager" else compiled

        def enqueue(calls: int, call: Callable[[], Any] = call) -> None:
            for _ in range(calls):
                call()

        prepared = Prepared(enqueue, lambda: Check(passed=True, what="outputs are compared apart"))
        blank = Samples(case=name, device=target.device.key, round=0)
        samples = time_prepared(target, prepared, CaseBudget(seconds=job.slot_s), blank, overhead)
        seconds[name] += samples.values
    return {name: float(np.median(some)) for name, some in seconds.items()}


def _made(factory: str) -> tuple[Any, tuple[Any, ...]]:
    """The module, or function, and its example inputs, that the user's function returns. Raises InputError."""
    made = named.find(factory, "FACTORY")()
    if not (isinstance(made, tuple) and len(made) == 2 and callable(made[0])):
        raise InputError(f"{factory}() must return (module, inputs): a module or function, and a tuple of its example inputs")
    module, inputs = made
    return module, tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)


def _placed(torch: Any, target: Target, module: Any, inputs: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    place = torch.device(target.device.facts["place"])
    moved = tuple(one.to(place) if isinstance(one, torch.Tensor) else one for one in inputs)
    return (module.to(place) if isinstance(module, torch.nn.Module) else module), moved


def _explained(torch: Any, job: EagerJob, module: Any, inputs: tuple[Any, ...]) -> dict[str, Any]:
    """Graphs, what breaks them and where, and how many guards there are."""
    with torch.set_grad_enabled(job.backward):
        told = torch._dynamo.explain(module)(*inputs)
    breaks = [Break(reason=_first(one.reason), where=_place(one.user_stack)) for one in told.break_reasons if _first(one.reason)]
    return {"graphs": told.graph_count, "breaks": breaks[: max(told.graph_break_count, 0)], "guards": len(told.out_guards or [])}


def _first(reason: Any) -> str:
    lines = [line.strip() for line in str(reason).splitlines() if line.strip()]
    return lines[0] if lines else ""


def _place(stack: Any) -> str:
    if not stack:
        return ""
    last = stack[-1]
    return f"{Path(last.filename).name}:{last.lineno} {(last.line or last.name).strip().removesuffix(':')}"


def _leaves(torch: Any, out: Any) -> list[Any]:
    return [one for one in torch.utils._pytree.tree_leaves(out) if isinstance(one, torch.Tensor)]


def _total(torch: Any, out: Any) -> Any:
    return sum(one.float().sum() for one in _leaves(torch, out) if one.is_floating_point())


def _numbers(torch: Any, out: Any) -> list[Any]:
    return [one.detach().to("cpu", torch.float64).numpy() for one in _leaves(torch, out)]


def _apart(a: list[Any], b: list[Any]) -> float:
    """The largest difference; infinite where shapes differ."""
    if [one.shape for one in a] != [one.shape for one in b]:
        return float("inf")
    apart = [_difference(x, y) for x, y in zip(a, b, strict=True) if x.size]
    return max(apart, default=0.0)


def _difference(x: Any, y: Any) -> float:
    """Equal infinities, and NaN on both sides, have none; NaN on one side alone is infinite."""
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    with np.errstate(invalid="ignore"):
        found = np.where(same, 0.0, np.abs(x - y))
    return float(np.where(np.isnan(found), np.inf, found).max())


def _rounding(torch: Any, job: EagerJob, module: Any, plain: list[Any], scale: float) -> float | None:
    """How far eager's own outputs are from those computed in fp64; None where the module has no such form."""
    try:
        made, inputs = _made(job.factory)
        if not isinstance(made, torch.nn.Module):
            return None
        exact = made.to("cpu", torch.float64)
        if isinstance(module, torch.nn.Module):
            exact.load_state_dict({name: value.detach().cpu().double() for name, value in module.state_dict().items()})
        wide = tuple(one.double() if isinstance(one, torch.Tensor) and one.is_floating_point() else one for one in inputs)
        torch.manual_seed(0)
        with torch.no_grad():
            return _apart(_numbers(torch, exact(*wide)), plain) / scale
    except Exception:  # a module that fixes its types cannot be widened: the figure is left out
        return None


def _memory(torch: Any, target: Target) -> dict[str, float]:
    """Peak bytes so far: of the device by PyTorch's allocator, else of this process."""
    if str(target.device.facts["place"]).startswith("cuda"):
        return {"device memory": float(torch.cuda.max_memory_allocated())}
    return {"process memory": float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)}


if __name__ == "__main__":
    sys.exit(main())

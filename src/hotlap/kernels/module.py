"""A user's PyTorch module as the workloads it runs: traced on fake tensors, which have shapes and no data, so no GPU and no memory."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from hotlap.core.errors import HotlapError, InputError, MachineError, Unavailable
from hotlap.core.work import aten
from hotlap.core.work.aten import CallRequest
from hotlap.core.work.layers import OPTIMIZER
from hotlap.kernels import named, recurrent
from hotlap.kernels.named import line

WHERE = (
    "a module is named MODULE:FACTORY or FILE.py:FACTORY; the factory returns (module, inputs), as in: "
    "return Net(), (torch.randn(8, 3, 224, 224),)"
)


class NoGradient(InputError):
    """A module that cannot be trained."""


class ModuleCall(NamedTuple):
    """Equal calls of one operator at one place of the module."""

    place: str  # path in the module, numbers as *: layers.*.attention; "backward" outside the forward pass
    operator: str  # aten's name
    asked: CallRequest
    times: int


class Traced(NamedTuple):
    """What a module runs in one step. `unknown`: operators that are no workload of ours, with their calls."""

    name: str
    calls: list[ModuleCall]
    unknown: Mapping[str, int]


class ModuleJob(msgspec.Struct, frozen=True, kw_only=True):
    """What a process is to trace."""

    name: str
    train: list[bool]  # each a trace


class ModuleAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Traces in the order asked for, or why there are none."""

    traced: list[Traced | str] = []
    problem: str = ""
    exit_code: int = 3


def traces(name: str, train: Sequence[bool]) -> list[Traced | str]:
    """`trace` in a process of its own: a module that prints, crashes or hooks into PyTorch leaves this one as it is. Of a module that
    cannot be trained the reason stands in its place. Raises as `trace` does, MachineError where the process ends badly."""
    job = msgspec.json.encode(ModuleJob(name=name, train=list(train)))
    done = subprocess.run([sys.executable, "-m", "hotlap.kernels.module"], input=job, stdout=subprocess.PIPE, check=False)
    try:
        answer = msgspec.json.decode(done.stdout, type=ModuleAnswer)
    except msgspec.DecodeError:
        raise MachineError(f"'{name}': the process that traced it ended with status {done.returncode}") from None
    if answer.problem:
        raise (InputError if answer.exit_code == InputError.exit_code else MachineError)(answer.problem)
    return answer.traced


def main() -> int:
    """A job on standard input, an answer on what was standard output, which the user's module cannot reach."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=ModuleJob)
    answer, sys.stdout = os.fdopen(os.dup(1), "wb"), sys.stderr
    os.dup2(2, 1)
    try:
        made = ModuleAnswer(traced=[_or_reason(job.name, train) for train in job.train])
    except HotlapError as error:
        made = ModuleAnswer(problem=str(error), exit_code=error.exit_code)
    answer.write(msgspec.json.encode(made))
    answer.close()
    return 0


def _or_reason(name: str, train: bool) -> Traced | str:
    try:
        return trace(name, train)
    except NoGradient as error:
        return str(error)


def trace(name: str, train: bool = False) -> Traced:
    """`name`: MODULE:FACTORY or FILE.py:FACTORY. `train`: forward, backward and one update by AdamW. Raises InputError where the factory is
    not found, fails, or calls an operator that cannot be traced without data; Unavailable without PyTorch."""
    torch = _torch()
    factory = named.find(name, "FACTORY")
    seen: list[tuple[str, str, list[CallRequest]]] = []
    with _fake(torch, name) as place:
        module, inputs, more = _made(factory, name)
        with _recording(torch, seen, place):
            _run(torch, module, inputs, more, train)
        seen += _updated(module) if train else []
    return _folded(name, seen)


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise Unavailable(f"a module is traced with PyTorch, which cannot be imported ({error})", "pip install torch") from error
    return torch


def _made(factory: Callable[[], Any], name: str) -> tuple[Any, Sequence[Any], Mapping[str, Any]]:
    """Module, inputs by place and by name."""
    found = factory()
    if not isinstance(found, tuple) or len(found) not in (2, 3) or not callable(found[0]):
        raise InputError(f"the factory of '{name}' returned {type(found).__name__}; {WHERE}")
    module, inputs, *more = found
    if isinstance(inputs, Mapping):
        return module, (), inputs
    return module, inputs if isinstance(inputs, (tuple, list)) else (inputs,), more[0] if more else {}


@contextmanager
def _fake(torch: Any, name: str) -> Iterator[list[str]]:
    """Tensors without data; the path of the submodule that runs."""
    from torch._subclasses import fake_tensor
    from torch.nn.modules import module as hooks

    paths: dict[Any, str] = {}
    place: list[str] = []
    fused, swap = torch.backends.mha.get_fastpath_enabled(), torch.utils.swap_tensors
    torch.utils.swap_tensors = _take  # which refuses tensors that this mode refers to: .half() and .to(dtype) of a module would fail
    torch.backends.mha.set_fastpath_enabled(False)  # one operator for a whole layer, of which no shapes are seen

    def enter(module: Any, _: Any) -> None:
        if not place:
            paths.update({part: path for path, part in module.named_modules()})
        place.append(paths.get(module, type(module).__name__))

    def leave(*_: Any) -> None:
        place.pop()

    handles = [hooks.register_module_forward_pre_hook(enter), hooks.register_module_forward_hook(leave)]
    try:
        with fake_tensor.FakeTensorMode(allow_non_fake_inputs=True):
            yield place
    except InputError:
        raise
    except (
        fake_tensor.DataDependentOutputException,
        fake_tensor.DynamicOutputShapeException,
        fake_tensor.UnsupportedOperatorException,
    ) as error:
        raise InputError(
            f"'{name}' cannot be traced: the operator {error.func} needs the data, not the shapes alone{_at(place)}; "
            "take it out of the factory's module, or record a trace of a real step and give that"
        ) from None
    except Exception as error:  # whatever the user's module raises
        hint = (
            "; build it on the CPU, where it is made does not matter"
            if "cuda" in str(error).lower() or "nvidia" in str(error).lower()
            else ""
        )
        raise InputError(f"'{name}' cannot be traced{_at(place)}: {line(error)}{hint}") from None
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)
        torch.utils.swap_tensors = swap
        for handle in handles:
            handle.remove()


def _take(value: Any, other: Any) -> None:
    """A parameter becomes what it was converted to; nobody asks for the other again."""
    value.data = other.data


def _at(place: Sequence[str]) -> str:
    inner = next((path for path in reversed(place) if path), "")
    return f" in '{inner}'" if inner else ""


@contextmanager
def _recording(torch: Any, seen: list[tuple[str, str, list[CallRequest]]], place: Sequence[str]) -> Iterator[None]:
    """Every operator that reaches the device, in order."""
    from torch.utils._python_dispatch import TorchDispatchMode

    def note(operator: str, parts: list[CallRequest]) -> None:
        seen.append(((place[-1] or "forward") if place else "backward", operator, parts))

    class OperatorRecorder(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            operator = func._schema.name.removeprefix("aten::")
            if not operator.startswith(BOOKKEEPING) and not aten.is_free(operator):
                note(operator, _parts(torch, operator, func, args, kwargs or {}))
            return func(*args, **(kwargs or {}))

    with OperatorRecorder(), recurrent.whole(torch, note):
        yield


BOOKKEEPING = ("prim::", "profiler::")  # of the host: no kernel runs
NAMES = {
    "float32": "float",
    "float64": "double",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "int8": "signed char",
    "float8_e4m3fn": "c10::Float8_e4m3fn",
}


def _parts(torch: Any, operator: str, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[CallRequest]:
    """The call as a profiler would have recorded it."""
    given = [
        args[i] if i < len(args) else kwargs.get(argument.name, argument.default_value) for i, argument in enumerate(func._schema.arguments)
    ]
    tensors = [torch.is_tensor(one) for one in given]
    dims = [list(one.shape) if is_one else [] for one, is_one in zip(given, tensors, strict=True)]
    types = [
        NAMES.get(str(one.dtype).removeprefix("torch."), str(one.dtype)) if is_one else ""
        for one, is_one in zip(given, tensors, strict=True)
    ]
    strides = [list(one.stride()) if is_one else [] for one, is_one in zip(given, tensors, strict=True)]
    values = ["" if is_one or one is None else str(one) for one, is_one in zip(given, tensors, strict=True)]
    return aten.parts(operator, json.dumps(dims), json.dumps(types), json.dumps(values), json.dumps(strides))


def _run(torch: Any, module: Any, inputs: Sequence[Any], more: Mapping[str, Any], train: bool) -> None:
    if not train:
        if hasattr(module, "eval"):
            module.eval()
        with torch.no_grad():
            module(*inputs, **more)
        return
    made = module(*inputs, **more)
    outputs = [one for one in _tensors(torch, made) if one.requires_grad]
    if not outputs:
        raise NoGradient("no output of the module needs a gradient; for training its parameters must require one")
    torch.autograd.backward(outputs, [torch.ones_like(one) for one in outputs])


def _updated(module: Any) -> list[tuple[str, str, list[CallRequest]]]:
    """One update of all parameters of a type, as a fused optimiser does it."""
    elements: Counter[str] = Counter()
    for one in module.parameters() if hasattr(module, "parameters") else ():
        if one.grad is not None:
            elements[aten.DTYPES.get(NAMES.get(str(one.dtype).removeprefix("torch."), ""), "fp32")] += one.numel()
    return [
        (OPTIMIZER.name, "_fused_adamw_", [CallRequest(OPTIMIZER.name, {"op": "adamw", "elements": count, "dtype": dtype})])
        for dtype, count in elements.items()
    ]


def _tensors(torch: Any, values: Any) -> Iterator[Any]:
    if torch.is_tensor(values):
        yield values
    elif isinstance(values, Mapping):
        for one in values.values():
            yield from _tensors(torch, one)
    elif isinstance(values, (tuple, list)):
        for one in values:
            yield from _tensors(torch, one)


def _folded(name: str, seen: Sequence[tuple[str, str, list[CallRequest]]]) -> Traced:
    """Equal calls counted, in the order of their first."""
    times: Counter[tuple[str, str, str]] = Counter()
    first: dict[tuple[str, str, str], CallRequest] = {}
    unknown: Counter[str] = Counter()
    for path, operator, parts in seen:
        if not parts:
            unknown[operator] += 1
        place = re.sub(r"(?<![^.])\d+(?![^.])", "*", path)
        for one in parts:
            key = place, operator, json.dumps(one)
            first.setdefault(key, one)
            times[key] += 1
    return Traced(
        name, [ModuleCall(place, operator, first[place, operator, text], n) for (place, operator, text), n in times.items()], dict(unknown)
    )


if __name__ == "__main__":
    sys.exit(main())

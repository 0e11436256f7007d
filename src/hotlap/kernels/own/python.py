"""A kernel in a Python module: PyTorch, Triton, or whatever takes tensors and returns tensors."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from hotlap.core.errors import HotlapError, InputError, NotSupported, nearest
from hotlap.core.measure.workloads.operators.base import Exact, Maker, Operator
from hotlap.core.record import Value
from hotlap.core.store import paths
from hotlap.kernels import kept as kernels
from hotlap.kernels.cost import evaluate
from hotlap.kernels.own import cancelling

REMEDIES = {  # where a module is missing that kernels are written with
    "triton": "; pip install triton (Linux; its kernels run on a GPU)", "torch": "; pip install torch",
    "cupy": "; pip install cupy-cuda12x (needs a GPU)", "numba": "; pip install numba",
}


def module(path: Path, name: str) -> ModuleType:
    """The file, run as a module. Raises InputError with its own error in a line, NotSupported where it needs a package that is not here."""
    spec = importlib.util.spec_from_file_location(f"hotlap_kernel_{name}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is no Python module")
    module_ = importlib.util.module_from_spec(spec)
    sys.modules[module_.__name__] = module_  # Triton looks its source up there
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module_)
    except Exception as error:  # a user's code raises what it likes
        missing = REMEDIES.get(error.name or "", "") if isinstance(error, ModuleNotFoundError) else ""
        kind = NotSupported if missing else InputError  # a package that is not here is no fault of the kernel
        raise kind(f"{path.name} cannot be loaded: {type(error).__name__}: {line(error)}{missing}") from error
    return module_


def line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:200]


WRONG = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, NameError, AssertionError)
"""What broken code raises. PyTorch refuses what it cannot do by RuntimeError and NotImplementedError."""


def _wrong(function: str, error: Exception) -> HotlapError:
    return error if isinstance(error, HotlapError) else InputError(f"{function} of the kernel raises {type(error).__name__}: {line(error)}")


def operator(kernel: kernels.KeptKernel, params: Mapping[str, Value], ours: Operator | None, library: Any) -> Operator:
    """The module's functions as an Operator; what it leaves out is that of the workload which it implements."""
    code = module(kernels.path(kernel, paths.home()), kernel.name)
    variant = f"{kernel.name} {kernel.revision}"

    def launch(inputs: Mapping[str, Any]) -> Any:
        try:
            outputs = code.launch(inputs, params)
        except KeyError as error:
            raise InputError(f"launch of the kernel raises KeyError: {line(error)}; its inputs: {', '.join(sorted(inputs))}") from error
        except WRONG as error:
            raise _wrong("launch", error) from error
        if outputs is None:
            raise InputError("launch of the kernel returns nothing: return its outputs, a tensor or a list of them")
        return outputs

    def inputs(make: Maker) -> Any:
        try:
            found = ours.inputs(make) if ours else code.inputs(make, params)
        except WRONG as error:
            raise _wrong("inputs", error) from error
        check_written(kernel.file, writes, found)
        return found

    def right(inputs: Mapping[str, Any], params: Mapping[str, Value]) -> Any:
        try:
            return code.reference(inputs, params)
        except WRONG as error:
            raise _wrong("reference", error) from error

    writes = listed(kernel.file, getattr(code, "writes", ours.writes if ours else ()))
    if ours is not None:
        return replace(ours, inputs=inputs, launch=launch, variant=variant, writes=writes, graph=False)
    terms = int(evaluate(getattr(code, "terms", 1), params))
    return Operator(
        inputs=inputs, launch=launch, reference=reference(right, params, terms, library), writes=writes, variant=variant,
        dtype=dtype(params), twice=True,
    )


def listed(file: str, writes: object) -> tuple[str, ...]:
    if not isinstance(writes, (list, tuple)):
        raise InputError(f"{file}: 'writes' is a list of the inputs that it changes, as in writes = ['y']")
    return tuple(map(str, writes))


def check_written(file: str, writes: Sequence[str], inputs: Mapping[str, Any]) -> None:
    """Raises InputError where something that is to be written is not among the inputs."""
    for name in writes:
        if name not in inputs:
            raise InputError(f"{file}: 'writes' names '{name}', which is no input; {nearest(name, sorted(inputs))}")


def dtype(params: Mapping[str, Value]) -> str:
    return str(params.get("dtype", "fp32"))


def reference(
    function: Callable[..., Any], params: Mapping[str, Value], terms: int, library: Any
) -> Callable[[Mapping[str, Any]], Sequence[Exact]]:
    """A user's reference: what it returns as tensors becomes Exact, with as many terms as its module says. An error is first compared with
    the element itself, then, where parts of it may have cancelled, against the size of those parts (`cancelling`)."""

    kind = dtype(params)

    def answers(inputs: Mapping[str, Any]) -> list[Any]:
        found = function(inputs, params)
        return [found] if isinstance(found, Exact) or not isinstance(found, (list, tuple)) else list(found)

    def output(number: int, inputs: Mapping[str, Any]) -> Any:
        return answers(inputs)[number]

    def exact(inputs: Mapping[str, Any]) -> Sequence[Exact]:
        before = _versions(inputs)
        found = answers(dict(inputs))
        spoilt = _versions(inputs) != before  # by a reference that changes what it is given: it can be asked once only
        expected = []
        for number, one in enumerate(found):
            slack = (
                None if spoilt else partial(cancelling.cancellation_tolerance, partial(output, number), one, inputs, kind, terms, library)
            )
            sums = "fp64" if kind == "fp64" else "fp32"
            expected.append(one if isinstance(one, Exact) else Exact(one, terms=terms, roundings=2, accumulate=sums, slack=slack))
        return expected

    return exact


def _versions(inputs: Mapping[str, Any]) -> list[int]:
    """Of each tensor: they grow when it is written to."""
    return [getattr(one, "_version", 0) for one in inputs.values()]


def type_of(values: Mapping[str, Any], params: Mapping[str, Value]) -> str:
    """Of a tensor in a table: the parameter that it names, the type that it names, else that of the parameter `dtype`, else fp32."""
    named = str(values.get("dtype", "dtype"))
    return str(params.get(named, values.get("dtype", "fp32")))


def given(make: Maker, wanted: Mapping[str, Mapping[str, Any]], shape: Callable[[Any], int], params: Mapping[str, Value]) -> dict[str, Any]:
    """Inputs by a table of shapes, types and how they are filled."""
    inputs = {}
    for name, one in wanted.items():
        sides, kind = [shape(side) for side in one["shape"]], type_of(one, params)
        if one.get("fill", "normal") == "whole":
            inputs[name] = make.whole(shape(one.get("high", 256)), *sides, dtype=kind)
        else:
            inputs[name] = make.uniform(*sides, dtype=kind) if one.get("fill") == "uniform" else make.normal(*sides, dtype=kind)
    return inputs

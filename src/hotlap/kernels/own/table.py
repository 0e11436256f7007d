"""A kernel that is launched by a table: its inputs, outputs, arguments and reference, as TOML beside it or in its first comment says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from hotlap.core.errors import InputError, nearest
from hotlap.core.measure.workloads.operators.base import Maker, Operator
from hotlap.core.record import Value
from hotlap.kernels import kept as kernels
from hotlap.kernels.cost import evaluate
from hotlap.kernels.own.python import check_written, dtype, given, listed, reference, type_of

SCALARS: Mapping[str, Any] = {"int32": np.int32, "int64": np.int64, "fp32": np.float32, "fp64": np.float64, "uint32": np.uint32}


def operator(kernel: kernels.KeptKernel, params: Mapping[str, Value], ours: Operator | None, library: Any) -> Operator:
    """Everything but how it is launched; outputs are memory that it is given, between guard zones."""

    def shape(side: Any) -> int:
        return int(evaluate(side, params))

    outputs = tables(kernel, "outputs")

    def inputs(make: Maker) -> dict[str, Any]:
        made = dict(ours.inputs(make)) if ours else given(make, tables(kernel, "inputs"), shape, params)
        for name, one in outputs.items():
            made[name] = make.empty(*(shape(side) for side in one["shape"]), dtype=type_of(one, params))
        check_written(kernel.file, results(kernel), made)
        return made

    base = ours or Operator(inputs, lambda _: None, _formula(kernel, params, library), dtype=dtype(params), twice=True)
    writes = tuple(dict.fromkeys([*base.writes, *results(kernel)]))
    return replace(base, inputs=inputs, writes=writes, variant=f"{kernel.name} {kernel.revision}", graph=False)


def function(kernel: kernels.KeptKernel) -> str:
    """The name of what is launched in its file."""
    return str(kernel.table.get("function", kernel.name))


def results(kernel: kernels.KeptKernel) -> list[str]:
    """What it leaves, in the order of the reference: inputs that it changes, then outputs."""
    return [*listed(kernel.file, kernel.table.get("writes", [])), *tables(kernel, "outputs")]


def tables(kernel: kernels.KeptKernel, key: str) -> dict[str, Mapping[str, Any]]:
    found = kernel.table.get(key, {})
    if not isinstance(found, dict) or not all(isinstance(one, dict) and isinstance(one.get("shape"), list) for one in found.values()):
        raise InputError(f"{kernel.file}: '{key}' is a table of tables, as in {key} = {{ x = {{ shape = ['n'], dtype = 'fp32' }} }}")
    return found


def _formula(kernel: kernels.KeptKernel, params: Mapping[str, Value], library: Any) -> Callable[[Mapping[str, Any]], Any]:
    """The reference as an expression of PyTorch over inputs and parameters."""
    text = kernel.table.get("reference")
    if not isinstance(text, str):
        raise InputError(f"{kernel.file} needs 'reference': an expression of PyTorch over its inputs, as in reference = '2 * x + y'")
    terms = int(evaluate(kernel.table.get("terms", 1), params))  # type: ignore[arg-type]

    def answer(inputs: Mapping[str, Any], _: Mapping[str, Value]) -> Any:
        return eval(text, {"torch": library, **params, **inputs})

    return reference(answer, params, terms, library)


def arguments(kernel: kernels.KeptKernel, params: Mapping[str, Value], inputs: Mapping[str, Any]) -> list[str | np.generic]:
    """In order: names of tensors, and scalars as NumPy's; an argument is NAME or EXPRESSION:TYPE."""
    listed = kernel.table.get("arguments")
    if not isinstance(listed, list):
        raise InputError(f"{kernel.file} needs 'arguments', in order: names of inputs and outputs, and numbers as in 'rows:int32'")
    values: list[str | np.generic] = []
    for item in map(str, listed):
        text, _, kind = item.partition(":")
        if text in inputs and not kind:
            values.append(text)
            continue
        if not kind and text.isidentifier() and text not in params:
            valid = f"it has the inputs and outputs {', '.join(sorted(inputs))}, and the parameters {', '.join(params)}"
            raise InputError(f"{kernel.file}: the argument '{text}' is nothing of this kernel: {valid}")
        if (kind or "int32") not in SCALARS:
            raise InputError(f"{kernel.file}: '{item}' has no type of a number; {nearest(kind, SCALARS)}")
        value = evaluate(text, params)
        scalar = SCALARS[kind or "int32"]
        values.append(scalar(int(value)) if np.issubdtype(scalar, np.integer) else scalar(value))
    return values

"""A kernel in a shared library: a C function that takes pointers and numbers, through ctypes, on the CPU."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from hotlap.core.errors import InputError
from hotlap.core.measure.workloads.operators.base import Operator
from hotlap.core.record import Value
from hotlap.core.store import paths
from hotlap.kernels import kept as kernels
from hotlap.kernels.own import table

_C: Mapping[type, Any] = {
    np.int32: ctypes.c_int32, np.int64: ctypes.c_int64, np.uint32: ctypes.c_uint32, np.float32: ctypes.c_float, np.float64: ctypes.c_double,
}  # fmt: skip


def operator(kernel: kernels.KeptKernel, params: Mapping[str, Value], ours: Operator | None, library: Any) -> Operator:
    """Raises InputError where the library or its function cannot be found."""
    base = table.operator(kernel, params, ours, library)
    path, name = kernels.path(kernel, paths.home()), table.function(kernel)
    try:
        function = getattr(ctypes.CDLL(str(path)), name)
    except OSError as error:
        raise InputError(f"{kernel.file} cannot be loaded: {error}") from None
    except AttributeError:
        raise InputError(f"{kernel.file} has no function '{name}'; set 'function' in the TOML beside it") from None
    function.restype = None
    left = table.results(kernel)

    def launch(inputs: Mapping[str, Any]) -> list[Any]:
        listed = table.arguments(kernel, params, inputs)
        function(*(ctypes.c_void_p(inputs[one].data_ptr()) if isinstance(one, str) else _C[type(one)](one.item()) for one in listed))
        return [inputs[name] for name in left]

    return replace(base, launch=launch)

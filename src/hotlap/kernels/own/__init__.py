"""Users' own kernels on a target: found where they are kept, loaded in the process that measures them, held to the same checks as ours."""

from __future__ import annotations

import importlib
import re
from typing import Any, cast

import numpy as np

from hotlap.core.errors import InputError, NotSupported
from hotlap.core.measure.targets.base import Prepared, Target
from hotlap.core.measure.workloads import operators
from hotlap.core.measure.workloads.operators.base import Operator, OperatorFamily
from hotlap.core.measure.workloads.operators.harness import prepared
from hotlap.core.record import Case, Value
from hotlap.core.store import paths
from hotlap.core.work import find
from hotlap.kernels import kept as kernels
from hotlap.kernels.guard.watchful import Watchful
from hotlap.kernels.own import native, python, shared

NO_DRIVER = re.compile(r"0 active drivers\b")  # how Triton's error begins
NO_GPU = "Triton finds no GPU here; run it where PyTorch sees one, or on the processor with TRITON_INTERPRET=1 (slow: for check alone)"


def prepare(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    """The user's kernel that the case names. Raises NotSupported with the reason, InputError for what is wrong in its files."""
    kernel = kernels.load(kernels.kernel_of(case), paths.home())
    wanted = kernels.RUNS_ON[kernel.kind]
    here = target.device.target
    if here != wanted.split(":")[0] or (wanted == "torch:cpu" and target.device.kind != "cpu"):
        raise NotSupported(f"the kernel {kernel.name} ({kernel.file}) runs on the target {wanted}, not on {here}")
    params = params_of(kernel, case)
    if kernel.kind in ("opencl", "cuda"):
        library = _library()
        return native.prepare(target, case, native.Loaded(kernel, params, library, _ours(kernel, case, library)), rng)
    library = target.library
    load = python.operator if kernel.kind == "python" else shared.operator
    operator = load(kernel, params, _ours(kernel, case, library), library)
    try:
        return prepared(target, case, operator, rng, Watchful())
    except NotSupported as refused:
        broken = refused.__cause__
        if isinstance(broken, RuntimeError) and NO_DRIVER.match(str(broken)):
            raise NotSupported(NO_GPU) from refused
        if isinstance(broken, NotImplementedError):
            raise NotSupported(f"the kernel {kernel.name}, or PyTorch in it, refuses this case ({python.line(broken)})") from refused
        if not isinstance(broken, (RuntimeError, TypeError, ValueError)) or _no_memory(broken):
            raise
        raise InputError(f"the kernel {kernel.name} fails: {type(broken).__name__}: {python.line(broken)}") from broken


def _no_memory(error: BaseException) -> bool:
    """Whether the device was too small: PyTorch has an exception of its own, which is a RuntimeError."""
    return type(error).__name__ == "OutOfMemoryError"


def params_of(kernel: kernels.KeptKernel, case: Case) -> dict[str, Value]:
    """What the kernel's code is given; the cost that a plan states must be the kernel's own."""
    if kernel.workload:
        if reason := kernels.refused(kernel, case):
            raise NotSupported(reason)
        return dict(find(case.workload).full(case.params))
    given = case.params.get("settings", [])
    pairs = dict(item.split("=", 1) for item in given) if isinstance(given, list) else {}
    settings = kernels.settings(kernel, pairs)
    if kernels.case(kernel, pairs).id != case.id:
        said = f"the plan states another cost than the kernel {kernel.name} does"
        raise NotSupported(f"{said}; write it anew: hotlap kernel plan {kernel.name}")
    return settings


def _ours(kernel: kernels.KeptKernel, case: Case, library: Any) -> Operator | None:
    """Inputs and reference of the workload that a kernel implements."""
    if not kernel.workload:
        return None
    family = operators.FAMILIES.get(case.workload)
    if family is None:
        raise NotSupported(f"{case.workload} has no inputs and reference that kernels can share; valid: {', '.join(operators.FAMILIES)}")
    module = cast(OperatorFamily, importlib.import_module(f"hotlap.core.measure.workloads.operators.{family}"))
    return module.operator(Case(workload=case.workload, params=case.params), library)


def _library() -> Any:
    """PyTorch, which makes the inputs and the reference of kernels on other targets too."""
    try:
        import torch
    except ImportError as error:
        raise NotSupported(f"a user's kernel needs PyTorch for its inputs and reference ({error}); pip install torch") from error
    return torch

"""What is run: preparation of a case on any target, by the module that its workload names."""

from __future__ import annotations

import functools
import importlib
import importlib.resources
import re
from typing import cast

import numpy as np

from hotlap.core import extend
from hotlap.core.errors import NotSupported
from hotlap.core.measure.targets.base import Target
from hotlap.core.measure.workloads.base import Chooser, Family, Prepared
from hotlap.core.record import Case
from hotlap.core.work import find

SPREADS = re.compile(r"\b(?:EACH|FROM|UNTIL|ME|STEP)\b")  # the macros of kernels/spread.c


def prepare(target: Target, case: Case, seed: int, variant: str = "") -> Prepared:
    """The case, ready to run on the target, with fresh random input from `seed`; `variant`: of an earlier round of the run, for those
    that choose among several. Raises NotSupported with the reason."""
    if target.dialect == "model":
        return cast(Prepared, target.library.prepare(case))
    for implementer in extend.each("implementers"):
        if implementer.group(case):
            return cast(Prepared, implementer.prepare(target, case, np.random.default_rng(seed)))
    kind = find(case.workload)
    if target.dialect == "host" and not kind.on_host:
        raise NotSupported(f"'{case.workload}' needs memory and kernels, the target host has neither; give --target opencl, cuda or torch")
    if kind.on_host and target.dialect != "host":
        raise NotSupported(f"'{case.workload}' measures the host, no device of {target.device.target}; give --target host")
    name = kind.preparer or ("operators.harness" if kind.operator else "")
    if not name:
        raise NotSupported(f"'{case.workload}' {kind.unprepared}")
    module = cast(Family, importlib.import_module(f"hotlap.core.measure.workloads.{name}"))
    rng = np.random.default_rng(seed)
    if variant and hasattr(module, "prepare_as"):
        return cast(Chooser, module).prepare_as(target, case, rng, variant)
    return module.prepare(target, case, rng)


@functools.cache
def source(name: str, dialect: str = "c") -> str:
    """A kernel file in WGSL, or in the common C dialect; there one that spreads elements gets the macros of spread.c."""
    folder = importlib.resources.files("hotlap.core.measure.workloads") / "kernels"
    if dialect == "wgsl":
        return (folder / f"{name}.wgsl").read_text()
    text = (folder / f"{name}.c").read_text()
    return (folder / "spread.c").read_text() + "#line 1\n" + text if SPREADS.search(text) else text

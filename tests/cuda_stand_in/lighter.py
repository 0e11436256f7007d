"""What tests change for the stand-in: sizes (a few milliseconds of a GPU are minutes of this processor), and cubins, of which it has to
know the PTX. The product knows nothing of it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

OPERATIONS = 2e6  # of a trial of the arithmetic
PASS_BYTES = 1 << 18  # of a launch, per compute unit
SIDES = (64, 64, 128)  # m, n, k of a product that stress checks
WORDS = 1 << 16  # of a slice of memory that it tests
LINK_BYTES = 1 << 20  # that it sends and reads back


class Lasting:
    """As pytest.MonkeyPatch, for a process that keeps the change."""

    setitem = staticmethod(dict.__setitem__)
    setattr = staticmethod(setattr)


def arithmetic(module: Any, patch: Any) -> None:
    patch.setitem(module.TRIAL_OPERATIONS, "gpu", OPERATIONS)


def stream(module: Any, patch: Any) -> None:
    patch.setitem(module.PASS_BYTES, "gpu", PASS_BYTES)


def products(module: Any, patch: Any) -> None:
    patch.setitem(module.SIDES_GPU, "c", SIDES)


def memory(module: Any, patch: Any) -> None:
    patch.setitem(module.WORDS, "gpu", WORDS)


def traffic(module: Any, patch: Any) -> None:
    patch.setitem(module.BYTES, "gpu", LINK_BYTES)


def cubins(module: Any, patch: Any) -> None:
    """Each cubin is made together with its PTX, and the driver is told that they belong together."""
    from cuda_stand_in import build

    compiled = module._compiled

    def both(text: str, file: str, what: str, options: list[str], kinds: list[str]) -> tuple[list[bytes], str]:
        if kinds != ["CUBIN"]:
            return compiled(text, file, what, options, kinds)  # type: ignore[no-any-return]
        (cubin, ptx), log = compiled(text, file, what, options, ["CUBIN", "PTX"])
        build.pair(cubin, ptx)
        return [cubin], log

    patch.setattr(module, "_compiled", both)


CHANGES: dict[str, Callable[[Any, Any], None]] = {
    "hotlap.core.measure.workloads.arithmetic": arithmetic, "hotlap.core.measure.workloads.stream": stream,
    "hotlap.core.measure.targets.cuda_compile": cubins, "hotlap.stress.units.products": products, "hotlap.stress.units.memory": memory,
    "hotlap.stress.units.traffic": traffic,
}


def use(patch: Any) -> None:
    """In this process, until the patch (pytest.MonkeyPatch) is undone."""
    for name, change in CHANGES.items():
        change(importlib.import_module(name), patch)

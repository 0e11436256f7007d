"""What tests change for the stand-in: sizes (a few milliseconds of a GPU are minutes of this processor), and cubins, of which it has to
know the PTX. The product knows nothing of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

OPERATIONS = 2e6  # of a trial of the arithmetic
PASS_BYTES = 1 << 18  # of a launch, per compute unit
Set = Callable[[Any, Any, Any], None]


def arithmetic(module: Any, put: Set = dict.__setitem__) -> None:
    put(module.TRIAL_OPERATIONS, "gpu", OPERATIONS)


def stream(module: Any, put: Set = dict.__setitem__) -> None:
    put(module.PASS_BYTES, "gpu", PASS_BYTES)


def cubins(module: Any, put: Set = setattr) -> None:
    """Each cubin is made together with its PTX, and the driver is told that they belong together."""
    from cuda_stand_in import build

    compiled = module._compiled

    def both(text: str, file: str, what: str, options: list[str], kinds: list[str]) -> tuple[list[bytes], str]:
        if kinds != ["CUBIN"]:
            return compiled(text, file, what, options, kinds)  # type: ignore[no-any-return]
        (cubin, ptx), log = compiled(text, file, what, options, ["CUBIN", "PTX"])
        build.pair(cubin, ptx)
        return [cubin], log

    put(module, "_compiled", both)


CHANGES: dict[str, Callable[[Any], None]] = {
    "hotlap.core.measure.workloads.arithmetic": arithmetic, "hotlap.core.measure.workloads.stream": stream,
    "hotlap.core.measure.targets.cuda_compile": cubins,
}


def use(patch: Any) -> None:
    """In this process, until the patch (pytest.MonkeyPatch) is undone."""
    from hotlap.core.measure.targets import cuda_compile
    from hotlap.core.measure.workloads import arithmetic as a
    from hotlap.core.measure.workloads import stream as s

    arithmetic(a, patch.setitem)
    stream(s, patch.setitem)
    cubins(cuda_compile, patch.setattr)

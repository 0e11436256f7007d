"""Copies from the host to the device, as a part of a step. Nothing is hooked before the program uses a device, so it costs nothing without.

What is timed is the part of the program's own stream: on CUDA between events, so that a copy which does not block counts as long as it
takes there. A copy on a stream of its own is seen only as far as the step waits for it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def arm_transfers(recorder: Any, torch: Any, kind: str = "cuda") -> None:
    """`recorder`: a StepRecorder; `kind`: the type of device, as PyTorch names it."""
    tensor = torch.Tensor
    if getattr(tensor.to, "_hotlap", False):
        return
    tensor.to = _timed(recorder, tensor.to, lambda source, given, named: source.is_cpu and _kind(given, named) == kind)
    tensor.copy_ = _timed(recorder, tensor.copy_, lambda target, given, named: target.device.type == kind and _is_host(given, named))
    if kind == "cuda":
        tensor.cuda = _timed(recorder, tensor.cuda, lambda source, given, named: source.is_cpu)


def _kind(given: tuple[Any, ...], named: dict[str, Any]) -> str:
    """The type of device that `.to(…)` was asked for; "" for a type of numbers."""
    asked = named.get("device", named.get("other", given[0] if given else None))
    asked = getattr(asked, "device", asked)
    if isinstance(asked, int):
        return "cuda"
    return asked.partition(":")[0] if isinstance(asked, str) else str(getattr(asked, "type", ""))


def _is_host(given: tuple[Any, ...], named: dict[str, Any]) -> bool:
    return bool(getattr(given[0] if given else named.get("src"), "is_cpu", False))


def _timed(recorder: Any, original: Any, crosses: Callable[[Any, tuple[Any, ...], dict[str, Any]], bool]) -> Any:
    @functools.wraps(original)
    def transferred(self: Any, *args: Any, **kwargs: Any) -> Any:
        if recorder.stack or recorder.closed or not crosses(self, args, kwargs):
            return original(self, *args, **kwargs)
        counted = recorder.enter("transfer", before="rest" if recorder.backwards else "forward")
        try:
            return original(self, *args, **kwargs)
        finally:
            if counted:
                recorder.leave()

    transferred._hotlap = True  # type: ignore[attr-defined]
    return transferred

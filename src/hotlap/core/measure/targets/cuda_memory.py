"""Memory of the CUDA target, and when it is freed: never inside a timed batch, and never at the cost of the thread's context."""

from __future__ import annotations

import contextlib
import os
import sys
import weakref
from collections.abc import Iterator
from typing import Any

from hotlap.core.measure.targets.base import Array
from hotlap.core.measure.targets.cuda_driver import driver

_open_batches: list[object] = []  # timed batches under way in this process
_waiting: list[tuple[Any, str, int]] = []  # what was to be freed during one: context, call, address


class CudaMemory:
    """One allocation: its address, on the device or the host, and the host's view of it. It is freed with the last reference."""

    def __init__(self, address: int, context: Any, array: Array | None = None, free: str = "") -> None:
        self.address, self.context, self.array = address, context, array
        if free:
            weakref.finalize(self, _free, context, free, address).atexit = False  # the process's end frees all


@contextlib.contextmanager
def batch() -> Iterator[None]:
    """A timed batch: cuMemFree waits for all of a device's work, so that what is released meanwhile is freed afterwards."""
    token = object()
    _open_batches.append(token)
    try:
        yield
    finally:
        _open_batches.remove(token)
        while _waiting and not _open_batches:
            _free(*_waiting.pop())


def _free(context: Any, call: str, address: int) -> None:
    """Garbage is collected on any thread and at any time: the context is made current for the call and the former one put back.
    Nobody can be told of a failure here."""
    if _open_batches:
        _waiting.append((context, call, address))
        return
    cu = driver()
    result, before = cu.cuCtxGetCurrent()
    if result == 0:  # else the former one could not be put back, and whoever goes on would be in the wrong context
        cu.cuCtxSetCurrent(context)
        getattr(cu, call)(address)
        cu.cuCtxSetCurrent(before)


def host_bytes() -> int:
    """The host's memory. Beyond it some allocators still promise, and the process is killed when it is touched."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else sys.maxsize

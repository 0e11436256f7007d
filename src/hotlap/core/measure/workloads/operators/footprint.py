"""What an operator takes and leaves behind in the process and on the device: new memory, memory that grows, cache lines held back."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hotlap.core.units import percent, size

LEAK_BYTES = 64 << 20  # growth below it may be that of allocators
ALWAYS, SMALL_BYTES = 3, 1 << 20  # so many samples that all grow are a leak from here on
NEW_BYTES, NEW_SHARE = 64 << 10, 0.1  # new memory of a call, and its share of processor time, from which it is said
TIMED_S = 0.1  # the system counts processor time in ticks of some ms: shares of less say little
PERSISTING_L2_LIMIT = 6  # CU_LIMIT_PERSISTING_L2_CACHE_SIZE, of the CUDA driver API manual


class MemoryFootprint:
    """Of this process, or of the device where PyTorch counts it, after each sample."""

    def __init__(self, torch: Any, place: str) -> None:
        self.torch, self.place = torch, place
        self.seen: list[int] = []

    def now(self) -> int:
        kind = self.place.split(":")[0]
        if kind in ("cuda", "xpu"):
            return int(getattr(self.torch, kind).memory_allocated())
        if (ask := _allocator()) is not None:
            found = ask()
            return int(found.in_use + found.mapped)
        try:
            return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError):
            return 0

    def after(self) -> None:
        """After each sample, while the output that is looked at is alive."""
        self.seen.append(self.now())

    def leak(self, expected: int) -> str:
        """In words, if it grew in more than half of the samples, by more than `expected` bytes and allocators explain; else ""."""
        kept = self.seen[1:]  # the first sample makes what all share
        steps = [later - earlier for earlier, later in itertools.pairwise(kept)]
        grown = kept[-1] - kept[0] if kept else 0
        always = len(steps) >= ALWAYS and min(steps) > 0 and grown > SMALL_BYTES  # what is counted exactly grows in no sample else
        often = sum(step > 0 for step in steps) > len(steps) / 2 and grown > max(LEAK_BYTES, expected)
        if not always and not often:
            return ""
        return f"memory grew by {grown / 2**20:.0f} MiB over {len(kept)} samples"


class NewMemory:
    """Pages that the calls of a round take from the operating system, which clears each, and the processor time that goes there: of this
    process, samples alone. The C library gives large arrays back when they are freed, so that each call's output is new memory."""

    def __init__(self) -> None:
        self.pages, self.calls, self.system_s, self.all_s = 0, 0, 0.0, 0.0
        self.at: resource.struct_rusage | None = None

    def before(self) -> None:
        self.at = resource.getrusage(resource.RUSAGE_SELF)

    def after(self, calls: int) -> None:
        then, now = self.at, resource.getrusage(resource.RUSAGE_SELF)
        if then is None:
            return
        self.pages += now.ru_minflt - then.ru_minflt
        self.system_s += now.ru_stime - then.ru_stime
        self.all_s += now.ru_stime - then.ru_stime + now.ru_utime - then.ru_utime
        self.calls, self.at = self.calls + calls, None

    def notice(self) -> str:
        """In words, where it costs calls more than a little; else ""."""
        taken = round(self.pages / max(self.calls, 1)) * resource.getpagesize()
        share = self.system_s / self.all_s if self.all_s >= TIMED_S else 0.0
        if taken < NEW_BYTES or share < NEW_SHARE:
            return ""
        return f"each call takes {size(taken)} of new memory from the operating system: {percent(share)} of its processor time"


@contextlib.contextmanager
def threads(torch: Any, alone: bool) -> Iterator[None]:
    """PyTorch in one thread meanwhile, if `alone`: small things take longer in several where others use the processors too."""
    most = torch.get_num_threads()
    if alone:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if alone:
            torch.set_num_threads(most)


class _Heap(ctypes.Structure):
    """What glibc's mallinfo2 returns: after malloc.h."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "free_chunks", "fast", "mappings", "mapped", "unused", "fast_bytes", "in_use", "free", "top")
    ]


@functools.cache
def _allocator() -> Callable[[], Any] | None:
    """What is allocated and not freed; the resident size says less, since freed memory stays with the process."""
    try:
        ask = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError, TypeError):
        return None
    ask.restype = _Heap
    return ask


def reset_persisting_l2(place: str) -> None:
    """Lines that a kernel has marked to stay in L2 survive a flush of the cache: they are given back, where the device has such."""
    if place.startswith("cuda") and (reset := _driver()) is not None:
        reset()


@functools.cache
def _driver() -> Callable[[], None] | None:
    try:
        library = ctypes.CDLL("libcuda.so.1")
        limit, clear = library.cuCtxSetLimit, library.cuCtxResetPersistingL2Cache
    except (OSError, AttributeError):
        return None

    def reset() -> None:
        limit(PERSISTING_L2_LIMIT, ctypes.c_size_t(0))  # older devices answer that they have none
        clear()

    return reset

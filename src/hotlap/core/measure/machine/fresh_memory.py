"""What memory that a process takes anew costs: the system hands it over page by page, as each is touched first, and clears it."""

from __future__ import annotations

import mmap
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from hotlap.core.measure import near
from hotlap.core.measure.targets.base import SystemClock

ROUNDS = 9


def seconds(size: int) -> list[float]:
    """Of so many bytes whose pages are touched once, by a thread on each processor, each round anew."""
    clock, spent, threads = SystemClock(), [], near.processors()
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(ROUNDS):
            with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as taken:
                parts = np.array_split(np.frombuffer(taken, np.uint8)[:: mmap.PAGESIZE], threads)
                began = clock.now()
                list(pool.map(_touch, parts))
                spent.append(clock.now() - began)
                parts.clear()
    return spent


def _touch(pages: NDArray[np.uint8]) -> None:
    pages[:] = 1

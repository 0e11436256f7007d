"""What AMD's profiles have in common: names of copies, numbers of queues, sizes of launches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from hotlap.traces.readers.filling import whole

DIRECTIONS = {"HOST_TO_DEVICE": "HtoD", "DEVICE_TO_HOST": "DtoH", "DEVICE_TO_DEVICE": "DtoD", "HOST_TO_HOST": "HtoH"}


def copied(direction: str) -> str:
    """The name of a copy, as other profilers write it; HIP's runtime writes MEMORY_COPY_HOST_TO_DEVICE in newer versions."""
    return f"Memcpy {DIRECTIONS.get(direction.removeprefix('MEMORY_COPY_'), direction or 'of unknown direction')}"


def small(numbers: Any) -> Any:
    """Queues that are addresses get numbers in the order of their appearance."""
    if not len(numbers) or numbers.max() < 1 << 31:
        return numbers
    unique, first, back = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.empty(len(unique), np.int64)
    order[np.argsort(first)] = np.arange(len(unique))
    return order[back]


def launch(grid: Iterable[Any], block: Iterable[Any], registers: Any, shared: Any) -> tuple[Any, ...]:
    """Key of a launch. AMD counts the grid in work items: in blocks it is divided by the group."""
    sizes = tuple(max(whole(one), 1) for one in block)
    blocks = tuple(-(-max(whole(one), 1) // size) for one, size in zip(grid, sizes, strict=True))
    return blocks, sizes, whole(registers), whole(shared), -1.0

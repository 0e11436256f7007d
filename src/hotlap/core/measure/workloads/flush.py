"""Emptying the caches before a sample, for cases with cache = cold."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hotlap.core.measure import caches
from hotlap.core.measure.targets.base import Target
from hotlap.core.measure.workloads import source
from hotlap.core.measure.workloads.layout import layout
from hotlap.core.record import Case


def flusher(target: Target, case: Case) -> Callable[[], None] | None:
    """Enqueues writes of twice the last-level cache (`caches`), without waiting; None for warm cases."""
    if case.params.get("cache") != "cold":
        return None
    nbytes = 2 * caches.last_bytes(target.device)
    junk = target.buffer(nbytes)
    if target.dialect == "torch":

        def torch_flush() -> None:
            junk.handle.add_(1)

        return torch_flush
    shape = layout(target, 4)
    fill = target.kernel(source("memory", target.dialect), "fill", shape.defines("float"))
    seed = 0

    def flush() -> None:
        nonlocal seed
        seed += 1
        fill(shape.items, shape.group, junk, np.uint64(nbytes // 4), np.uint32(seed), np.uint32(1023))

    return flush

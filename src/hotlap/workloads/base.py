"""The contract of a workload in code: prepare a case on a target, and get something that can be timed and checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from hotlap.record import Case, Check
from hotlap.targets.base import Enqueue, Target


@dataclass
class Prepared:
    """A case, ready to run on a target: memory allocated, touched and filled with fresh random input."""

    enqueue: Enqueue  # n calls, not waiting
    check: Callable[[], Check]  # against a reference; called after the samples were taken
    timer: Literal["device", "wall", "own"] = "device"  # own: `own_value` gives the number (programs)
    graph: bool = False  # time a recorded graph of the calls
    batch: int | None = None  # fixed number of calls in a sample; None: sized by the timer's resolution
    multiple: int = 1  # calls in a sample are a multiple of this (calls that share one launch)
    variant: str = ""  # what was chosen for this device
    operations: float | None = None  # of one call, where rounding made it differ from the case's work
    flush: Callable[[], None] | None = None  # empties the caches before every sample (cache = cold)
    own_value: Callable[[], float] | None = None
    keep: list[object] = field(default_factory=list)  # whatever must live as long


class Family(Protocol):
    """A module of workloads."""

    def prepare(self, target: Target, case: Case, rng: np.random.Generator) -> Prepared:
        """Raises NotSupported with the reason this target or device cannot run the case."""

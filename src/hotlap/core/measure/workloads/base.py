"""The contract of a workload in code: prepare a case on a target, and get something that can be timed and checked."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from hotlap.core.measure.targets.base import Prepared, Target
from hotlap.core.record import Case

__all__ = ["Family", "Prepared"]


class Family(Protocol):
    """A module of workloads."""

    def prepare(self, target: Target, case: Case, rng: np.random.Generator) -> Prepared:
        """Raises NotSupported with the reason this target or device cannot run the case."""

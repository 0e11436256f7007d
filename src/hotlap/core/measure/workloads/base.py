"""The contract of a workload in code: prepare a case on a target, and get something that can be timed and checked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from hotlap.core.measure.guard import Account
from hotlap.core.measure.targets.base import Prepared, Target
from hotlap.core.record import Case

__all__ = ["Chooser", "Family", "Implementer", "Prepared", "Target"]


class Family(Protocol):
    """A module of workloads."""

    def prepare(self, target: Target, case: Case, rng: np.random.Generator) -> Prepared:
        """Raises NotSupported with the reason this target or device cannot run the case."""


class Chooser(Family, Protocol):
    """A module that measures which of several variants is best."""

    def prepare_as(self, target: Target, case: Case, rng: np.random.Generator, variant: str) -> Prepared:
        """As `prepare`, with the variant of that name, which an earlier round chose; where there is none, it chooses."""


class Implementer(Family, Protocol):
    """A module of a feature that brings implementations which are not Hotlap's own: users' kernels."""

    def group(self, case: Case) -> str:
        """Which of them a case runs; cases of one may share a process. "" for a case of Hotlap's own."""

    def revisions(self, cases: Sequence[Case], home: Path) -> dict[str, str]:
        """What a run keeps of those that its cases use: name → revision."""

    def account(self, cases: Sequence[Case]) -> Account | None:
        """What a process that runs these cases must account for; None where none of them is its own."""

    def announce(self, home: Path) -> None:
        """Lets plans name what is kept under a home."""

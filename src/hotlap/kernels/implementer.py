"""Cases that users' own kernels implement: what core asks of this feature (`hotlap.core.measure.workloads.base.Implementer`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hotlap.core.measure.workloads.base import Prepared, Target
from hotlap.core.record import Case
from hotlap.kernels import kept
from hotlap.kernels.guard.account import GuardAccount
from hotlap.kernels.kept import announce as announce


def group(case: Case) -> str:
    return kept.kernel_of(case)


def prepare(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    from hotlap.kernels import own  # it loads what compiles kernels

    return own.prepare(target, case, rng)


def revisions(cases: Sequence[Case], home: Path) -> dict[str, str]:
    return {f"kernel {name}": revision for name, revision in kept.used(cases, home).items()}


def account(cases: Sequence[Case]) -> GuardAccount | None:
    return GuardAccount() if any(map(kept.kernel_of, cases)) else None

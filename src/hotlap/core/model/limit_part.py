"""One term of a limit."""

from __future__ import annotations

from dataclasses import dataclass

from hotlap.core.record import Notice, Term

COUNTED = "counted from the case's parameters"


@dataclass(frozen=True)
class LimitPart:
    """One term of a limit in seconds. `is_hard_bound`: nothing can be faster."""

    name: str
    limiter: str
    seconds: float
    is_hard_bound: bool
    terms: tuple[Term, ...]
    notes: tuple[Notice, ...] = ()

"""Implementations of the same cases side by side: the library's, Triton's, a user's own; how fast, how sure, and how right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from hotlap.core import stand_in
from hotlap.core.analysis import compare as comparing
from hotlap.core.analysis.compare import ComparedSide
from hotlap.core.record import Case, Check, Comparison
from hotlap.core.store.bundle import Bundle

LIBRARY = "library"  # what the target chooses where no implementation is named


@dataclass(frozen=True)
class ImplementationEntry:
    """One implementation of one case. `comparison` is against the first one; None where either has no number."""

    implementation: str
    status: str
    reason: str
    comparison: Comparison | None
    median: float | None
    unit: str
    error: float | None  # largest over all rounds, as a share of what is allowed
    deterministic: bool | None  # the same bits each time, in all rounds; None where it was not looked at


@dataclass(frozen=True)
class Beside:
    """A case with its implementations, in the order of all: the first is what the others are compared with."""

    case: Case  # without an implementation
    entries: list[ImplementationEntry]


def beside(bundles: Sequence[Bundle], min_effect: float = comparing.MIN_EFFECT) -> list[Beside]:
    """Cases of the runs that have more than one implementation; the library's own comes first where there is one."""
    groups: dict[str, tuple[Case, dict[str, ComparedSide]]] = {}
    stand_in.refuse_mixed([one.run for one in bundles])
    for side in comparing.sides(bundles).values():
        bare = Case(workload=side.case.workload, params=side.case.params)
        groups.setdefault(bare.id, (bare, {}))[1][side.case.implementation or LIBRARY] = side
    found = [(case, _library_first(members)) for case, members in groups.values() if len(members) > 1]
    pairs = [(next(iter(members.values())), other) for _, members in found for other in list(members.values())[1:]]
    answers = iter(comparing.weigh(pairs, min_effect))
    return [
        Beside(case, [_entry(name, side, None if at == 0 else next(answers)) for at, (name, side) in enumerate(members.items())])
        for case, members in found
    ]


def _library_first(members: dict[str, ComparedSide]) -> dict[str, ComparedSide]:
    return {name: members[name] for name in sorted(members, key=lambda name: name != LIBRARY)}


def _entry(name: str, side: ComparedSide, answer: Comparison | None) -> ImplementationEntry:
    results = side.results
    worst = next((one for one in results if one.status != "measured"), results[0])
    middle = comparing.summary(side).median
    metrics = [rounds.metrics["deterministic"] for one in results for rounds in one.rounds if "deterministic" in rounds.metrics]
    if answer is not None and answer.ratio is None and answer.answer == "not comparable":
        answer = replace(answer, reason=worst.reason or "no number on either side")  # in its own words, not in those of two sides
    unit = next((one.unit for one in results if one.values), "")
    return ImplementationEntry(
        name, worst.status, worst.reason, answer, middle, unit, _error([check for one in results for check in one.checks]),
        all(value == 1.0 for value in metrics) if metrics else None,
    )


def _error(checks: Sequence[Check]) -> float | None:
    known = [(one.error, one.tolerance) for one in checks if one.error is not None and one.tolerance is not None]
    return max((error / allowed if allowed else float(error > 0) for error, allowed in known), default=None)

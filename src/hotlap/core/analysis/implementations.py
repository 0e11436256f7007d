"""Implementations of the same cases side by side: the library's, Triton's, a user's own; how fast, how sure, and how right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from hotlap.core import stand_in
from hotlap.core.analysis import compare as comparing
from hotlap.core.analysis import drift, rows
from hotlap.core.analysis.compare import ComparedSide
from hotlap.core.analysis.doubts import open_to
from hotlap.core.record import Allowance, Case, Check, Comparison, Notice, Row, RunRecord
from hotlap.core.stats.drift import Drift
from hotlap.core.store.bundle import Bundle

LIBRARY = "library"  # what the target chooses where no implementation is named
OTHERS_RAN = {"busy", "shared_device", "steal"}
Rows = dict[str, list[Row]]  # by Case.id


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
    notices: list[Notice] = field(default_factory=list)  # of its own runs
    low: float | None = None  # of the median's interval, as `high`
    high: float | None = None
    rows: list[Row] = field(default_factory=list)  # of each of its runs


@dataclass(frozen=True)
class Beside:
    """A case with its implementations, in the order of all: the first is what the others are compared with."""

    case: Case  # without an implementation
    entries: list[ImplementationEntry]


def beside(bundles: Sequence[Bundle], min_effect: float = comparing.MIN_EFFECT, stable: bool = False) -> list[Beside]:
    """Cases of the runs that have more than one implementation; the library's own comes first where there is one. Between sides that
    were measured one after the other the machine's drift is allowed for, and where other programs kept a side from an answer there is
    none. `stable`: nothing is allowed for."""
    groups: dict[str, tuple[Case, dict[str, ComparedSide]]] = {}
    stand_in.refuse_mixed([one.run for one in bundles])
    for side in comparing.sides(bundles).values():
        bare = Case(workload=side.case.workload, params=side.case.params)
        groups.setdefault(bare.id, (bare, {}))[1][side.case.implementation or LIBRARY] = side
    several = [(case, _library_first(members)) for case, members in groups.values() if len(members) > 1]
    pairs = [(next(iter(members.values())), other) for _, members in several for other in list(members.values())[1:]]
    runs = {one.run.id: one.run for one in bundles}
    by_case: Rows = {}
    for row in (row for one in bundles for row in rows.rows(one)):
        by_case.setdefault(row.case.id, []).append(row)
    weighed = comparing.weigh(pairs, min_effect, between=lambda a, b: _between(runs, a, b, stable))
    answers = iter([_doubted(one, *pair, by_case) for one, pair in zip(weighed, pairs, strict=True)])
    return [
        Beside(case, [_entry(name, side, None if at == 0 else next(answers), by_case) for at, (name, side) in enumerate(members.items())])
        for case, members in several
    ]


def _between(runs: dict[str, RunRecord], a: ComparedSide, b: ComparedSide, stable: bool) -> tuple[Drift | None, Allowance | None]:
    """What the level may have done from one side to the other; nothing where both were measured in one run, in turns."""
    sides = [[runs[name] for name in dict.fromkeys(unit[0] for unit in side.units)] for side in (a, b)]
    if not drift.one_after_the_other(*sides):
        return None, None
    return (None, Allowance(basis="stable")) if stable else drift.between(sides[0], sides[1], a.case, {})


def _doubted(answer: Comparison, a: ComparedSide, b: ComparedSide, by_case: Rows) -> Comparison:
    """No answer where other programs kept a side from a number that is sure, and may have made it: they make a side slower (but for
    atomics). Of sides that were measured in turns only where they did so to both: implementations do not all lose alike beside others."""
    if answer.answer in ("inconclusive", "not comparable"):
        return answer
    slowed = {letter: row for letter, side in (("A", a), ("B", b)) if (row := _slowed(side, by_case))}
    letter = next((one for one in slowed if open_to(answer, one)), "")
    if not letter or (answer.allowance is None and len(slowed) < 2):
        return answer
    name = (a if letter == "A" else b).case.implementation or LIBRARY
    doubt = f"{answer.answer} by these numbers, but other programs ran while {name} was measured: {slowed[letter].verdict.reason}"
    return replace(answer, answer="inconclusive", reason=doubt)


def _slowed(side: ComparedSide, by_case: Rows) -> Row | None:
    """A row of it that is inconclusive beside other programs."""
    for row in by_case.get(side.case.id, []):
        if row.verdict.state == "inconclusive" and OTHERS_RAN & {one.code for one in row.result.notices}:
            return row
    return None


def _library_first(members: dict[str, ComparedSide]) -> dict[str, ComparedSide]:
    return {name: members[name] for name in sorted(members, key=lambda name: name != LIBRARY)}


def _entry(name: str, side: ComparedSide, answer: Comparison | None, by_case: Rows) -> ImplementationEntry:
    results = side.results
    worst = next((one for one in results if one.status != "measured"), results[0])
    summary, own = comparing.summary(side), by_case.get(side.case.id, [])
    metrics = [rounds.metrics["deterministic"] for one in results for rounds in one.rounds if "deterministic" in rounds.metrics]
    if answer is not None and answer.ratio is None and answer.answer == "not comparable":
        answer = replace(answer, reason=worst.reason or "no number on either side")  # in its own words, not in those of two sides
    unit = next((one.unit for one in results if one.values), "")
    return ImplementationEntry(
        name, worst.status, worst.reason, answer, summary.median, unit, _error([check for one in results for check in one.checks]),
        all(value == 1.0 for value in metrics) if metrics else None,
        [notice for row in own for notice in (*row.result.notices, *row.summary.notices)], summary.low, summary.high, own,
    )


def _error(checks: Sequence[Check]) -> float | None:
    known = [(one.error, one.tolerance) for one in checks if one.error is not None and one.tolerance is not None]
    return max((error / allowed if allowed else float(error > 0) for error, allowed in known), default=None)

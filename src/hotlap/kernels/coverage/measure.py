"""What a plan covers: real use by weight, t-way combinations of features, regions of the roofline, kernels seen, and what is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hotlap.core import work
from hotlap.core.record import Case, Notice, Samples, Use
from hotlap.core.work.networks import compose
from hotlap.kernels.coverage import covering, features, regions
from hotlap.kernels.coverage.groups import CaseGroup, Groups, grouped
from hotlap.kernels.coverage.regions import RegionRoof
from hotlap.kernels.coverage.similar import matched
from hotlap.kernels.coverage.tuples import OPEN, Rows, Tuples
from hotlap.kernels.coverage.usage import Used

EXAMPLES = 3  # uncovered combinations that are told in words, per workload


@dataclass(frozen=True)
class StepCoverage:
    """One step of a network: shares of its expected time, in seconds by the model."""

    name: str
    seconds: float
    exact: float  # share of it whose cases the plan has
    near: float  # and has near ones for
    kernels: int
    unweighed: int = 0  # kernels that no time is expected of; they count nothing


@dataclass(frozen=True)
class Lacking:
    """A case of networks that the plan lacks. `share`: of the steps' time, each step counting the same."""

    case: Case
    label: str
    share: float
    uses: Sequence[Use]
    near: str = ""  # the near case that the plan has


@dataclass(frozen=True)
class CoverageTable:
    """t-way coverage of one workload: combinations of levels that cases of the plan have, of those that can be."""

    workload: str
    features: Sequence[str]
    cases: int
    covered: int
    possible: int
    impossible: int
    lowest: Sequence[tuple[str, int, int]] = ()  # feature: levels seen and there are
    examples: Sequence[str] = ()  # uncovered, in words

    @property
    def share(self) -> float:
        return self.covered / self.possible if self.possible else 1.0


@dataclass(frozen=True)
class Edge:
    """A directed case that every kernel should meet once: K = 1, an odd stride, something huge."""

    workload: str
    name: str
    covered: bool
    reason: str = ""  # why it cannot be


@dataclass(frozen=True)
class CoveragePath:
    """One way through the code: a kernel or variant that results name, and the cases that took it."""

    name: str
    source: str  # variant, or trace
    cases: Sequence[str]  # labels


@dataclass(frozen=True)
class Coverage:
    """All that is known of what a plan covers."""

    plans: Sequence[str]
    cases: int
    strength: int
    machine: str = ""
    steps: Sequence[StepCoverage] = ()
    of_plans: bool = False  # some steps are those kernels that a plan has of them: what --top left out is not in their time
    lacking: Sequence[Lacking] = ()  # the heaviest first
    left_out: Sequence[str] = ()
    tables: Sequence[CoverageTable] = ()
    edges: Sequence[Edge] = ()
    regions: Mapping[str, int] = field(default_factory=dict)  # cases by region
    paths: Sequence[CoveragePath] = ()
    notices: Sequence[Notice] = ()

    @property
    def exact(self) -> float | None:
        """Mean share over steps of which a time is expected; None where there is none."""
        return self._mean([one.exact for one in self.steps if one.seconds])

    @property
    def near(self) -> float | None:
        return self._mean([one.near for one in self.steps if one.seconds])

    def _mean(self, shares: Sequence[float]) -> float | None:
        return float(np.mean(shares)) if shares else None


# ---------------------------------------------------------------- by weight


def by_weight(have: Groups, used: Used, roof: RegionRoof | None) -> tuple[list[StepCoverage], list[Lacking]]:
    """Shares of each step, and what is lacking, heaviest first."""
    there, near = matched(list(used.cases.values()), have, roof)
    total = compose.totals(used.uses)
    steps = []
    for name in used.steps:
        own = [use for use in used.uses if use.step == name]
        whole = total[name] or 1.0
        exact = sum(compose.weight_s(use) for use in own if use.case in there)
        close = sum(compose.weight_s(use) for use in own if use.case in near)
        steps.append(
            StepCoverage(name, total[name], exact / whole, (exact + close) / whole, len(own), sum(use.expected_s is None for use in own))
        )
    shares: dict[str, float] = {}
    where: dict[str, list[Use]] = {}
    for use in used.uses:
        if use.case not in there:
            shares[use.case] = shares.get(use.case, 0.0) + compose.weight_s(use) / (total[use.step] or 1.0) / len(steps)
            where.setdefault(use.case, []).append(use)
    lacking = [
        Lacking(used.cases[key], work.label(used.cases[key]), share, where[key], work.label(near[key]) if key in near else "")
        for key, share in sorted(shares.items(), key=lambda one: -one[1])
    ]
    return steps, lacking


# ---------------------------------------------------------------- t-way


def by_features(have: Groups, strength: int) -> list[CoverageTable]:
    """The t-way table of each workload that the cases have, in order of first appearance."""
    return [one for group in have.values() if (one := features_of(group, strength)) is not None]


def features_of(group: CaseGroup, strength: int) -> CoverageTable | None:
    """One workload's table; None where it has no features."""
    name = group.name
    of = features.features(name)
    if not of:
        return None
    rows = distinct(features.codes(of, group.columns), of)
    tuples = Tuples([len(one.levels) for one in of], min(strength, len(of)))
    possible, _ = covering.possible(tuples, features.allowed(of, features.rules(name, of)))
    seen = tuples.mark(rows)
    missing = np.flatnonzero(possible & ~seen)
    told = missing[np.linspace(0, len(missing) - 1, EXAMPLES).astype(int)] if len(missing) else missing
    lowest = [(one.name, len(set(rows[:, column].tolist()) - {OPEN}), len(one.levels)) for column, one in enumerate(of)]
    return CoverageTable(
        name, [one.name for one in of], len(group.cases), int((seen & possible).sum()), int(possible.sum()), int((~possible).sum()), lowest,
        list(dict.fromkeys(words(of, row) for row in tuples.rows(told))),
    )  # fmt: skip


def distinct(rows: features.Codes, of: Sequence[features.CoverageFeature]) -> features.Codes:
    """Each combination of levels once."""
    key = np.zeros(len(rows), dtype=np.int64)
    for column, one in enumerate(of):
        key = key * (len(one.levels) + 1) + rows[:, column] + 1
    found: features.Codes = rows[np.unique(key, return_index=True)[1]]
    return found


def words(of: Sequence[features.CoverageFeature], row: Rows) -> str:
    """A combination in words: dtype fp16, layout tn."""
    return ", ".join(f"{one.name} {one.levels[code]}" for one, code in zip(of, row.tolist(), strict=True) if code >= 0)


# ---------------------------------------------------------------- regions and paths


def by_region(have: Groups, roof: RegionRoof) -> dict[str, int]:
    """Cases in each region, every region named."""
    counts = np.zeros(len(regions.REGIONS) + 1, dtype=np.int64)
    for name, group in have.items():
        counts += np.bincount(regions.placed(name, group.columns, roof).region + 1, minlength=len(counts))
    found = {name: int(counts[place + 1]) for place, name in enumerate(regions.REGIONS)}
    return {**found, **({regions.UNKNOWN: int(counts[0])} if counts[0] else {})}


def path_name(case: Case, ran: Samples) -> str:
    """The workload and the code that ran for it."""
    head, path = " ".join(filter(None, (case.workload, case.implementation))), ran.code_path or ran.variant
    return f"{head}: {path}" if path != case.workload else head


def by_path(seen: Sequence[tuple[str, str, Case]]) -> list[CoveragePath]:
    """Cases by what results say ran: (name, source, case)."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for name, source, case in seen:
        found.setdefault((name, source), {})[work.label(case)] = None
    ordered = sorted(found.items(), key=lambda one: (-len(one[1]), one[0]))
    return [CoveragePath(name, source, list(labels)) for (name, source), labels in ordered]


def coverage(
    plans: Sequence[str], cases: Sequence[Case], strength: int, used: Used | None = None, roof: RegionRoof | None = None,
    edges: Callable[[Groups], Sequence[Edge]] | None = None,
) -> Coverage:  # fmt: skip
    """Everything at once. `edges`: which directed cases there are."""
    have = grouped(cases)
    steps, lacking = by_weight(have, used, roof) if used is not None else ([], [])
    return Coverage(
        plans=list(plans), cases=len(cases), strength=strength, machine=roof.name if roof else "", steps=steps, lacking=lacking,
        of_plans=used is not None and used.of_plans,
        left_out=list(used.left_out) if used else [], tables=by_features(have, strength), edges=edges(have) if edges else [],
        regions=by_region(have, roof) if roof else {},
    )  # fmt: skip

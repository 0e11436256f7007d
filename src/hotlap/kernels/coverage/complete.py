"""The fewest cases that close what a plan does not cover: by use, at the edges, in regions of the roofline, and t-way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hotlap.core import work
from hotlap.core.record import Case, Use
from hotlap.core.work.networks import compose
from hotlap.kernels.coverage import boundary, covering, features, measure, realize, regions
from hotlap.kernels.coverage.groups import CaseGroup, grouped
from hotlap.kernels.coverage.regions import RegionRoof
from hotlap.kernels.coverage.tuples import Tuples
from hotlap.kernels.coverage.usage import Used

SHARE = 0.99


@dataclass(frozen=True)
class Completion:
    """Cases to add, each with why; what could not be closed, in words."""

    cases: Sequence[Case]
    why: Mapping[str, str]  # by Case.id
    uses: Sequence[Use]  # of the cases added
    counts: Mapping[str, int]  # cases added by purpose
    failed: Sequence[str]


class _Adding:
    """Cases so far: each only once, with the first reason it was added for."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.have = {case.id for case in cases}
        self.cases = list(cases)
        self.added: list[Case] = []
        self.why: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        self.failed: list[str] = []

    def add(self, case: Case, purpose: str, why: str) -> None:
        if case.id in self.have:
            return
        self.have.add(case.id)
        self.cases.append(case)
        self.added.append(case)
        self.why[case.id] = why
        self.counts[purpose] = self.counts.get(purpose, 0) + 1


def complete(
    cases: Sequence[Case], strength: int, memory_bytes: float, used: Used | None = None, roof: RegionRoof | None = None,
    share: float = SHARE,
) -> Completion:  # fmt: skip
    """What is to be added to `cases`. Networks' cases come first, so that what follows need not cover what they do."""
    adding = _Adding(cases)
    if used is not None:
        _networks(adding, used, share, memory_bytes)
    _directed(adding, memory_bytes)
    if roof is not None:
        _regions(adding, roof, memory_bytes)
        _directed(adding, memory_bytes)  # of the workloads that regions brought
    rows = [text for group in grouped(adding.cases).values() for text in _combinations(adding, group, strength, memory_bytes)]
    # Told after all cases are there: those added for other reasons reach edges and regions, too.
    adding.failed += [*_open_edges(adding, memory_bytes), *(_open_regions(adding, roof) if roof is not None else []), *rows]
    ids = {case.id for case in adding.added}
    uses = [use for use in used.uses if use.case in ids] if used is not None else []
    return Completion(adding.added, adding.why, uses, adding.counts, adding.failed)


def _networks(adding: _Adding, used: Used, share: float, memory_bytes: float) -> None:
    """Greedily what brings the steps that are below their share the most."""
    steps, lacking = measure.by_weight(grouped(adding.cases), used, None)
    reached = {step.name: step.exact for step in steps}
    whole = {step.name: step.seconds or 1.0 for step in steps}
    gains = {one.case.id: [(use.step, compose.weight_s(use) / whole[use.step]) for use in one.uses] for one in lacking}
    by_id = {one.case.id: one for one in lacking}
    while gains:
        worth = {key: sum(gain for step, gain in each if reached[step] < share) for key, each in gains.items()}
        best = max(worth, key=lambda key: worth[key])
        if worth[best] <= 0:
            break
        gap, brought = by_id[best], gains.pop(best)
        if _held(gap.case) > memory_bytes:
            adding.failed.append(f"networks: {work.label(gap.case)} needs more than --memory")
            continue
        for step, gain in brought:
            reached[step] += gain
        more = f" and {len(gap.uses) - 1} more" if len(gap.uses) > 1 else ""
        adding.add(gap.case, "networks", f"{gap.uses[0].kernel} of {gap.uses[0].step}{more}: {_percent(gap.share)} of the steps' time")


def _percent(share: float) -> str:
    return f"{share * 100:.2g} %"


def _directed(adding: _Adding, memory_bytes: float) -> None:
    for edge in boundary.boundary_cases(grouped(adding.cases), memory_bytes):
        if edge.covered or edge.reason:
            continue
        case = boundary.make(edge.workload, edge.name, memory_bytes)
        if case is not None:
            adding.add(case, "edges", edge.name)


def _open_edges(adding: _Adding, memory_bytes: float) -> list[str]:
    found = boundary.boundary_cases(grouped(adding.cases), memory_bytes)
    return [f"{one.workload}: no case was found for '{one.name}'" for one in found if not one.covered and not one.reason]


def _regions(adding: _Adding, roof: RegionRoof, memory_bytes: float) -> None:
    for name in _unreached(adding, roof):
        case = next((one for one in regions.probes(regions.REGIONS.index(name), roof) if _held(one) <= memory_bytes), None)
        if case is not None:
            adding.add(case, "regions", f"{name} on {roof.name}")


def _unreached(adding: _Adding, roof: RegionRoof) -> list[str]:
    counts = measure.by_region(grouped(adding.cases), roof)
    return [name for name in regions.REGIONS if not counts[name] and (name != "link" or roof.link_b_s)]


def _open_regions(adding: _Adding, roof: RegionRoof) -> list[str]:
    found = []
    for name in _unreached(adding, roof):
        case = min(regions.probes(regions.REGIONS.index(name), roof), key=_held, default=None)
        none = f"no case was found that is {name} on {roof.name}"
        found.append(f"{name} on {roof.name}: {work.label(case)} needs more than --memory" if case else none)
    return found


def _combinations(adding: _Adding, group: CaseGroup, strength: int, memory_bytes: float) -> list[str]:
    """A covering design beside the cases there are, its rows made into cases; in words those of which some combination stays open."""
    name = group.name
    of = features.features(name)
    if not of:
        return []
    depth = min(strength, len(of))
    levels = [len(one.levels) for one in of]
    may = features.allowed(of, features.rules(name, of))
    given = measure.distinct(features.codes(of, group.columns), of)
    made = covering.design(levels, depth, may, given)
    tuples = Tuples(levels, depth)
    seen = tuples.mark(given)
    failed: list[tuple[NDArray[np.int64], str]] = []
    for row in made.rows:
        case = realize.realize_case(name, of, row.tolist())
        places = tuples.places(row[None])[0]
        if case is None:
            failed.append((places, f"{name}: no case was found of {measure.words(of, row)}"))
        elif _held(case) > memory_bytes:
            failed.append((places, f"{name}: {work.label(case)} needs more than --memory"))
        else:
            adding.add(case, "combinations", _why(of, tuples, places[~seen[places]], depth))
            seen[places] = True
    return [text for places, text in failed if not seen[places].all()]


def _held(case: Case) -> float:
    asked = work.find(case.workload).work(case.params)
    return max(asked.working_set_bytes, asked.link_bytes)


def _why(of: Sequence[features.CoverageFeature], tuples: Tuples, new: NDArray[np.int64], depth: int) -> str:
    if not len(new):
        return f"{depth}-way"
    first = measure.words(of, tuples.rows(new[:1])[0])
    return f"{depth}-way: {first}" + (f", and {len(new) - 1} more combinations" if len(new) > 1 else "")



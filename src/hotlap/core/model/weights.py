"""How cases of a plan count: by calls in the steps of networks, or alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from hotlap.core.model.cases import Alike, Floats, Times
from hotlap.core.record import Plan, Record


class Share(Record, frozen=True, kw_only=True):
    """A network's step or a workload: elasticities by figure. `seconds`: of a step; None of workloads."""

    name: str
    cases: int
    seconds: float | None = None
    share: float = 0.0  # of the whole plan's weight
    elasticities: dict[str, float] = {}


class Weights:
    """`base`: the times that are compared with; `measured`: seconds by case that weigh instead of expected ones."""

    def __init__(self, plan: Plan, base: Times, measured: Mapping[str, float]) -> None:
        self.base, self.plan = base, plan
        place = {case.id: number for number, case in enumerate(plan.cases)}
        known = np.isfinite(base.seconds)
        self.weight_s = np.array([measured.get(case.id, base.seconds[n]) for n, case in enumerate(plan.cases)])
        calls: dict[str, dict[int, float]] = {}
        for use in plan.uses:
            if use.case in place and known[place[use.case]]:
                row = calls.setdefault(use.step, {})
                row[place[use.case]] = row.get(place[use.case], 0.0) + use.calls
        self.calls = calls
        self.kept = np.flatnonzero(known) if not plan.uses else np.array(sorted({n for row in calls.values() for n in row}), dtype=int)

    @cached_property
    def shares(self) -> dict[str, tuple[list[int], Floats, float]]:
        """Of each step the places of its kernels, what each is of its time, and its seconds."""
        found = {}
        for name, row in self.calls.items():
            places = list(row)
            spent = np.array([row[n] for n in places]) * self.weight_s[places]
            found[name] = places, spent / spent.sum(), float(spent.sum())
        return found

    def log_ratio(self, seconds: Floats, against: Floats | None = None) -> float:
        """Logarithm of the plan's time against what it is, or against other times."""
        weight, other = (seconds / self.base.seconds, 1.0 if against is None else against / self.base.seconds)
        if not self.plan.uses:
            return float(np.mean(np.log((weight / other)[self.kept])))
        steps = []
        for places, share, _ in self.shares.values():
            below = 1.0 if against is None else float(np.sum(share * np.asarray(other)[places]))
            steps.append(math.log(float(np.sum(share * weight[places])) / below))
        return float(np.mean(steps))

    @cached_property
    def weights(self) -> Floats:
        """What each case is of the plan: the mean of its shares of the steps."""
        weight = np.zeros(len(self.base.seconds))
        if not self.plan.uses:
            weight[self.kept] = 1 / len(self.kept)
            return weight
        for places, share, _ in self.shares.values():
            weight[places] += share / len(self.calls)
        return weight

    def ends(self, own: Floats, elasticity: float) -> tuple[float, float]:
        """The interval of the plan's elasticity, from each case's own."""
        kept, share = self.kept, np.clip(own[self.kept], 0.0, 1.0)
        off = (self.base.high_s[kept] / np.maximum(self.base.low_s[kept], 1e-30)) ** (math.sqrt(2) / 2)
        weight = self.weights[kept]
        low, high = share / (share + (1 - share) * off), share * off / (share * off + 1 - share)
        middle = float(np.sum(weight * share))
        return elasticity + float(np.sum(weight * low)) - middle, elasticity + float(np.sum(weight * high)) - middle

    def steps(self, each: Mapping[str, Floats]) -> list[Share]:
        """Of networks' steps, in the plan's order."""
        found = []
        for name, (places, share, seconds) in self.shares.items():
            by = {figure: float(np.sum(share * own[places])) for figure, own in each.items()}
            found.append(Share(name=name, cases=len(places), seconds=seconds, share=1 / len(self.calls), elasticities=by))
        return found

    def workloads(self, each: Mapping[str, Floats], groups: Sequence[Alike]) -> list[Share]:
        """Of workloads, the heaviest first."""
        weights, by = self.weights, dict[str, list[int]]()
        for group in groups:
            by.setdefault(group.workload, []).extend(n for n in group.places if weights[n] > 0)
        weighted = []
        for name, places in by.items():
            whole = float(weights[places].sum())
            if whole > 0:
                mean = {figure: float(np.sum(weights[places] * own[places])) / whole for figure, own in each.items()}
                weighted.append(Share(name=name, cases=len(places), share=whole, elasticities=mean))
        return sorted(weighted, key=lambda one: -one.share)

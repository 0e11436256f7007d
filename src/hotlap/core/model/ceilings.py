"""Measured ceilings: the best rate that the run itself saw of each resource. A ceiling is never called a bound."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hotlap.core import work
from hotlap.core.errors import HotlapError
from hotlap.core.model.levels import MEMORY, hierarchy, place
from hotlap.core.model.machines import Spec
from hotlap.core.record import Case, Result
from hotlap.core.work.base import Work


@dataclass(frozen=True)
class Ceilings:
    """`by_case`: resource, as in "bandwidth memory", "compute fma.fp32", "link h2d pinned" → Case.id → best rate of that case, in
    B/s or operations per second. `launch_s` is the least cost of a launch. `labels`: the cases in words."""

    by_case: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    launch_s: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def best(self) -> dict[str, float]:
        return {key: max(rates.values()) for key, rates in self.by_case.items()}

    def rate(self, key: str, case: Case) -> float | None:
        """The best rate of the run, None where nothing but `case` itself stands behind it: that would say nothing."""
        rates = self.by_case.get(key, {})
        return max(rates.values()) if rates.keys() - {case.id} else None

    def best_of_other_cases(self, key: str, case: Case) -> float | None:
        """The best rate of all other cases."""
        return max((rate for id_, rate in self.by_case.get(key, {}).items() if id_ != case.id), default=None)

    def best_case(self, key: str) -> str:
        """Which case of the run has the best rate, in words; "" where none has one."""
        rates = self.by_case.get(key, {})
        return self.labels.get(max(rates, key=rates.__getitem__), "") if rates else ""


def ceilings(results: Iterable[Result], spec: Spec | None = None) -> Ceilings:
    """The best case of each resource over all measured results of one device, by the median of its rounds: one lucky round
    must not make every other number look bad. `spec` tells the cache levels apart."""
    by_case: dict[str, dict[str, float]] = {}
    labels: dict[str, str] = {}
    launch: list[float] = []
    for result in results:
        if result.status != "measured" or not result.seconds or not result.values or min(result.values) <= 0:
            continue
        usual_s = nominal_s(result.case, statistics.median(result.values))
        if work.find(result.case.workload).shows == "launch":
            launch += [usual_s] if result.case.params.get("mode") != "graph" else []
        for key, amount in _amounts(result.case, spec).items():
            rates = by_case.setdefault(key, {})
            labels[result.case.id] = work.label(result.case)
            rates[result.case.id] = max(rates.get(result.case.id, 0.0), amount / usual_s)
    return Ceilings(by_case, min(launch, default=None), labels)


def nominal_s(case: Case, value: float) -> float:
    """Seconds that one call of the case's own size takes at `value` of its metric. A workload may round its operations to whole
    loops; rates are the same, times per call are not."""
    kind, asked = work.find(case.workload), work.find(case.workload).work(case.params)
    if kind.metric == "bandwidth":
        return (asked.link_bytes or asked.memory_bytes) / value
    if kind.metric == "compute":
        return asked.total_operations / value
    return asked.steps / value if kind.metric == "rate" else asked.steps * value


def seconds(case: Case, unit: str, value: float | None) -> float | None:
    """Of one call, from a value of the case's metric; None for a number of a program's own, and for none above zero."""
    if value is None or value <= 0:
        return None
    if work.traits(case.workload).source != "loop":
        return value if unit == "s" else None
    try:
        return nominal_s(case, value)
    except (HotlapError, KeyError):  # of a later version
        return None


def _amounts(case: Case, spec: Spec | None) -> dict[str, float]:
    """What a case shows the rate of, and how much of it one call moves or does."""
    kind = work.find(case.workload)
    asked = kind.work(case.params)
    if kind.on_host:
        return {}
    if asked.link_bytes:
        return {link_key(case): asked.link_bytes}
    amounts = {f"compute {unit}": n for unit, n in asked.operations.items() if n and "compute" in kind.ceilings}
    level = _level(case, asked, spec)
    if level and "bandwidth" in kind.ceilings:
        amounts[f"bandwidth {level}"] = asked.memory_bytes
    return amounts


def _level(case: Case, asked: Work, spec: Spec | None) -> str:
    footprint = max(asked.working_set_bytes, asked.memory_bytes)
    if case.params.get("cache") == "cold":
        return MEMORY if footprint and spec is not None else ""
    return place(footprint, spec)


def link_key(case: Case) -> str:
    return " ".join(["link", *(str(case.params[p]) for p in ("direction", "memory") if p in case.params)])


def ceiling_s(case: Case, best: Ceilings, spec: Spec | None, only: str = "") -> tuple[float, str] | None:
    """The shortest time that the run's best rates make likely, and which sets it; None where none applies. `only` keeps one
    kind of resource: bandwidth, compute or link."""
    asked = work.find(case.workload).work(case.params)
    times = [
        (amount / rate, key)
        for key, amount in demand(case, asked, spec).items()
        if key.startswith(only) and (rate := best.rate(key, case))
    ]
    return max(times) if times else None


def demand(case: Case, asked: Work, spec: Spec | None, mixed: bool = False) -> dict[str, float]:
    """What a case needs of each resource: the keys of `Ceilings` with bytes or operations of one call. `mixed` counts working
    sets that a cache holds in part as memory traffic. A disk and the loopback are no resources of a device."""
    if work.traits(case.workload).on_host:
        return {}
    if asked.link_bytes:
        return {link_key(case): asked.link_bytes}
    wanted = {f"compute {unit}": n for unit, n in asked.operations.items() if not work.traits(case.workload).memory_alone}
    outer = max((nbytes for _, nbytes in hierarchy(spec)), default=math.inf)
    beyond = max(asked.working_set_bytes, asked.memory_bytes) > outer
    if level := _level(case, asked, spec) or (MEMORY if mixed and beyond else ""):
        wanted[f"bandwidth {level}"] = asked.memory_bytes
    return {key: amount for key, amount in wanted.items() if amount}

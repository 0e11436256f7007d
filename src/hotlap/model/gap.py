"""A summary against its limit: which limit it is held against, the share reached, and the named cause of what is missing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from hotlap import work
from hotlap.model.ceilings import Ceilings, ceiling_s, ceilings, demand
from hotlap.model.levels import cache_levels, hierarchy, place
from hotlap.model.machines import Spec
from hotlap.record import Case, Gap, Limit, Readings, Result, Summary
from hotlap.units import show, size
from hotlap.work.base import Work

__all__ = ["Ceilings", "Context", "cache_levels", "ceilings", "context", "gap"]

AT_LIMIT = 0.90
LOW_CLOCK = 0.97  # of the highest clock
MOST = 0.5  # of the gap, on a logarithmic scale, that the clock must explain to be its cause
SETS_PACE = 0.7  # of the time, that one resource at its measured ceiling must take to be the cause
NEAR = 0.6  # share of a bound above which its limiter is named where nothing else is known
LAUNCHES, FEW_LAUNCHES = 20.0, 3.0  # a call shorter than this many launches is too small; than so few, it is the launch
ASSUMED_LAUNCH_S = 3e-6  # of GPUs whose run measured none: of the size that drivers show
POWER_FULL = 0.97  # of the power limit
TILE = 128  # rows and columns of one work-group's share of a matrix product, the size that vendors' libraries prefer
WAITING = {
    "chase": "a load waits for the one before it", "atomic": "additions wait for one another", "barrier": "work-items wait for one another",
}
Against = Literal["bound", "expected", "ceiling", "unknown"]


@dataclass(frozen=True)
class Context:
    """What a run says about a device beside the case itself. `clock_max_hz` is the highest that the device can reach."""

    spec: Spec | None = None
    ceilings: Ceilings = field(default_factory=Ceilings)
    clock_max_hz: float | None = None
    clocks_hz: tuple[float, float] | None = None  # lowest and highest seen in the run
    power_limit_w: float | None = None
    readings: Mapping[str, tuple[Readings, ...]] = field(default_factory=dict)  # of the device, by sensor


def context(results: Sequence[Result], spec: Spec | None = None, readings: Sequence[Readings] = ()) -> Context:
    """The context of one device's results; `readings` are of the same device."""
    sensors: dict[str, list[Readings]] = {}
    for reading in readings:
        if reading.status == "ok":
            sensors.setdefault(reading.sensor, []).append(reading)
    clocks = [hz for r in results for s in r.rounds for hz in s.clocks_hz]
    clocks += [v for r in sensors.get("clock_hz.sm", ()) for v in r.values if v]
    top = max([*clocks, spec.clock_max_hz if spec and spec.clock_max_hz else 0.0]) or None
    return Context(
        spec=spec, ceilings=ceilings(results, spec), clock_max_hz=top, clocks_hz=(min(clocks), max(clocks)) if clocks else None,
        power_limit_w=spec.power_w if spec else None, readings={name: tuple(parts) for name, parts in sensors.items()},
    )


def gap(result: Result, summary: Summary, limit: Limit, context: Context) -> Gap:
    """How far a result is from its limit, and why.

    Held against the bound, else the expected value, else the measured ceiling of the run's other cases. A bound that leaves
    memory out yields to a ceiling that is tighter, unless the result is faster than the bound.
    """
    if result.status != "measured" or summary.median is None or not result.seconds:
        return Gap(limit=limit, cause="unknown" if result.status == "measured" else "", detail=result.reason)
    kind, seconds = work.find(result.case.workload), median(result.seconds)
    against, limit_s, name = _reference(result.case, seconds, limit, context)
    seen = _Seen(result, summary.median, seconds, kind.work(result.case.params), limit, context, against, limit_s, name)
    cause, detail = _cause(seen)
    value = kind.value(limit_s, result.case.params) if limit_s else None
    return Gap(share=seen.share, against=against, limit_value=value, cause=cause, detail=detail, limit=limit)


def _reference(case: Case, seconds: float, limit: Limit, context: Context) -> tuple[Against, float | None, str]:
    """What to hold it against, its seconds, and what sets it."""
    if limit.kind == "bound" and limit.bound_s:
        memory = None if _counts_memory(limit) else ceiling_s(case, context.ceilings, context.spec, "bandwidth")
        if memory and seconds >= limit.bound_s and memory[0] > limit.bound_s:
            return ("ceiling", *memory)
        return "bound", float(limit.bound_s), limit.limiter
    if limit.kind == "expected" and limit.expected_s:
        return "expected", float(limit.expected_s), limit.limiter
    ceiling = ceiling_s(case, context.ceilings, context.spec)
    return ("ceiling", *ceiling) if ceiling else ("unknown", None, "")


def _counts_memory(limit: Limit) -> bool:
    return any(t.name in ("memory bandwidth", "first-cache load rate") for t in limit.provenance)


@dataclass(frozen=True)
class _Seen:
    """Everything a cause is found from."""

    result: Result
    value: float
    seconds: float
    asked: Work
    limit: Limit
    context: Context
    against: Against
    limit_s: float | None
    name: str  # of what sets the limit

    @property
    def case(self) -> Case:
        return self.result.case

    @property
    def share(self) -> float | None:
        return self.limit_s / self.seconds if self.limit_s else None

    @property
    def head(self) -> str:
        """The share in words: the sentence's beginning."""
        shown = show(self.value, self.result.unit)
        if self.share is None or self.limit_s is None:
            return shown
        against = {"bound": "bound", "expected": "expected value", "ceiling": "measured ceiling"}.get(self.against, "limit")
        value = work.find(self.case.workload).value(self.limit_s, self.case.params)
        return f"{shown} is {self.share:.0%} of the {against} {show(value, self.result.unit)} ({self.name})"


def _cause(seen: _Seen) -> tuple[str, str]:
    """The first cause that the numbers support, and the sentence."""
    if seen.share is not None and seen.share >= AT_LIMIT:
        return "at_limit", seen.head
    tests: tuple[Callable[[_Seen], tuple[str, str] | None], ...] = (
        _held_back, _by_nature, _small, _low_clock, _between_levels, _resource, _fetch_size, _limiter,
    )
    for test in tests:
        found = test(seen)
        if found:
            return found[0], f"{seen.head}; {found[1]}"
    why = seen.limit.reason or "nothing measured explains the rest"
    return "unknown", f"{seen.head}; {why}"


# ---------------------------------------------------------------- causes, the first that fits counts


def _held_back(seen: _Seen) -> tuple[str, str] | None:
    """A throttle flag, or power at its limit."""
    throttled = [f for f in seen.result.flags if f.name == "throttled"]
    if throttled:
        return "power", throttled[0].detail or "the device was held back"
    power, most = _during(seen, "power_w"), seen.context.power_limit_w
    ratio = _clock_ratio(seen)
    if power and most and power >= POWER_FULL * most and ratio is not None and ratio < LOW_CLOCK:
        return "power", f"{power:.0f} W of {most:.0f} W allowed, at {ratio:.0%} of the highest clock"
    return None


def _by_nature(seen: _Seen) -> tuple[str, str] | None:
    """Workloads whose cause is what they measure."""
    workload = seen.case.workload
    if workload in ("launch", "sync"):
        return "launch", "it is the cost of a launch or of waiting itself"
    if workload in WAITING:
        return "latency", WAITING[workload] + _level_words(seen)
    return None


def _level_words(seen: _Seen) -> str:
    level = place(seen.asked.working_set_bytes, seen.context.spec) if seen.asked.working_set_bytes else ""
    return f", in {level}" if level else ""


def _small(seen: _Seen) -> tuple[str, str] | None:
    """Too short beside a launch, or too few parts to fill the device."""
    if seen.case.workload in ("command", "callable") or _shares_launch(seen.result):
        return None
    launch, spec = seen.context.ceilings.launch_s, seen.context.spec
    said = "measured in this run"
    if launch is None and spec is not None and spec.kind == "gpu":
        launch, said = ASSUMED_LAUNCH_S, "assumed, for none was measured"
    if launch and seen.seconds < LAUNCHES * launch:
        times = f"a call takes {show(seen.seconds, 's')}, {seen.seconds / launch:.1f} times a launch of {show(launch, 's')} ({said})"
        return ("launch" if seen.seconds < FEW_LAUNCHES * launch else "too_small"), times
    return _too_few_tiles(seen)


def _shares_launch(result: Result) -> bool:
    """Several calls in one launch: then a launch says nothing about a call."""
    return any("passes a launch" in r.variant for r in result.rounds)


def _too_few_tiles(seen: _Seen) -> tuple[str, str] | None:
    spec, params = seen.context.spec, seen.case.params
    if seen.case.workload != "gemm" or spec is None or spec.kind != "gpu" or not spec.compute_units:
        return None
    m, n, batch = (float(params[p]) for p in ("m", "n", "batch"))  # type: ignore[arg-type]
    tiles = math.ceil(m / TILE) * math.ceil(n / TILE) * batch
    if tiles >= spec.compute_units or _resource(seen):
        return None
    return "too_small", f"{tiles:.0f} tiles of {TILE} × {TILE} for {spec.compute_units} units"


def _low_clock(seen: _Seen) -> tuple[str, str] | None:
    """The clock, where what sets the limit runs on it and it explains most of the gap."""
    ratio = _clock_ratio(seen)
    on_clock = seen.limit.limiter in ("arithmetic unit", "cache") or seen.name.startswith("compute")
    if ratio is None or ratio >= LOW_CLOCK or not on_clock or seen.share is None:
        return None
    if math.log(ratio) / math.log(seen.share) < MOST:
        return None
    highest = show(seen.context.clock_max_hz, "Hz")
    return "clock", f"the clock was {ratio:.0%} of its highest, {highest}; at that clock it reaches {seen.share / ratio:.0%}"


def _clock_ratio(seen: _Seen) -> float | None:
    clocks = [hz for r in seen.result.rounds for hz in r.clocks_hz]
    clock, top = median(clocks) if clocks else _during(seen, "clock_hz.sm"), seen.context.clock_max_hz
    return clock / top if clock and top else None


def _during(seen: _Seen, sensor: str) -> float | None:
    """The median reading over the case's own windows, round by round."""
    windows = [(r.round, r.began_s, r.ended_s) for r in seen.result.rounds if r.ended_s > r.began_s]
    values = [
        v for part in seen.context.readings.get(sensor, ()) for t, v in zip(part.times_s, part.values, strict=True)
        if v is not None and any(part.round == n and began <= t <= ended for n, began, ended in windows)
    ]
    return median(values) if values else None


def _between_levels(seen: _Seen) -> tuple[str, str] | None:
    """A working set around a cache's size, or one whose limit is the cache itself."""
    spec, footprint = seen.context.spec, max(seen.asked.working_set_bytes, seen.asked.memory_bytes)
    if seen.case.workload not in ("stream", "gather") or not footprint or seen.case.params.get("cache") == "cold":
        return None
    caches = hierarchy(spec)
    level = place(footprint, spec)
    if caches and level == "":
        name, nbytes = min(caches, key=lambda c: abs(math.log(footprint / c[1])))
        return "cache", f"a working set of {size(footprint)} only partly stays in {name}, {size(nbytes)}"
    if level not in ("", "memory"):
        return "cache", f"the working set of {size(footprint)} stays in {level}, which sets the pace"
    return None


def _resource(seen: _Seen) -> tuple[str, str] | None:
    """The resource that takes most of the time at the best rate that the run's other cases saw of it."""
    if seen.against == "ceiling":
        return None
    found = seen.context.ceilings
    times = {k: a / r for k, a in demand(seen.case, seen.asked, seen.context.spec).items() if (r := found.others(k, seen.case))}
    if not times:
        return None
    key = max(times, key=lambda k: times[k])
    part = times[key] / seen.seconds
    if part < SETS_PACE:
        return None
    cause = "arithmetic" if key.startswith("compute") else "bandwidth"
    return cause, f"{_words(key)} at the run's best {show(found.others(key, seen.case), _unit(key))} takes {min(part, 1.0):.0%} of the time"


def _words(key: str) -> str:
    kind, _, rest = key.partition(" ")
    return {"bandwidth": f"traffic of {rest}", "compute": f"arithmetic of {rest}", "link": f"the link {rest}"}[kind]


def _unit(key: str) -> str:
    if not key.startswith("compute"):
        return "B/s"
    return "OP/s" if ".int" in key else "FLOP/s"


def _fetch_size(seen: _Seen) -> tuple[str, str] | None:
    """Gathers: whole lines are fetched for single elements."""
    if seen.case.workload != "gather":
        return None
    pattern = seen.case.params["pattern"]
    where = "random places" if pattern == "random" else f"every {seen.case.params['stride']} elements"
    return ("latency" if pattern == "random" else "bandwidth"), f"reads {where}, so that most of each fetched line is not used"


def _limiter(seen: _Seen) -> tuple[str, str] | None:
    """What sets the limit, where the share is high enough that it is likely to set the pace too."""
    cause = {"memory": "bandwidth", "link": "bandwidth", "arithmetic unit": "arithmetic", "cache": "cache"}.get(seen.limit.limiter)
    if seen.against == "ceiling":
        cause = "arithmetic" if seen.name.startswith("compute") else "bandwidth"
    if cause is None or seen.share is None or seen.share < NEAR:
        return None
    rate = f": with the bytes a cache may hold counted too, {show(seen.asked.memory_bytes / seen.seconds, 'B/s')}"
    extra = rate if seen.limit.limiter == "memory" and seen.result.metric != "bandwidth" else ""
    return cause, f"{ {'bandwidth': 'traffic', 'arithmetic': 'the arithmetic units', 'cache': 'the cache'}[cause] } sets the pace{extra}"

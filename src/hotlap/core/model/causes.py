"""The named cause of what a result misses of its limit: the first test that the numbers support."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from hotlap.core import work
from hotlap.core.model.ceilings import demand
from hotlap.core.model.context import Context
from hotlap.core.model.levels import MEMORY, hierarchy, place
from hotlap.core.model.limits import cached_share
from hotlap.core.record import Case, GapBasis, Limit, Result
from hotlap.core.stats.busy import beside
from hotlap.core.work.base import Work

AT_LIMIT = 0.90
MOSTLY = 0.5  # of a call's bytes from a cache, beyond which a bound tells little of what can be reached
AT_BOUND = 0.01  # of the bound: nearer to it there is nothing to split
LOW_CLOCK = 0.97  # of the highest clock
MOST = 0.5  # of the gap, on a logarithmic scale, that the clock must explain to be its cause
SETS_PACE = 0.7  # of the time, that one resource at its measured ceiling must take to be the cause
SLOWED = 1.5  # times the fastest round of the case: beyond it, beside other programs, they are its cause
FASTER = 1.1  # a case that beats the others' best by more is not held back by what they show
INTENSE = 100.0  # operations a byte of memory, beyond which memory sets no device's pace
NEAR = 0.6  # share of a bound above which its limiter is named where nothing else is known
LAUNCHES, FEW_LAUNCHES = 20.0, 3.0  # a call shorter than this many launches is too small; than so few, it is the launch
ASSUMED_LAUNCH_S = 3e-6  # of GPUs whose run measured none: of the size that drivers show
POWER_FULL = 0.97  # of the power limit
TILE = 128  # rows and columns of one work-group's share of a matrix product, the size that vendors' libraries prefer
DRAWING = {"ROP": "rop", "texture unit": "texture_unit", "geometry unit": "geometry_unit"}  # causes by the units that draw
PACE: dict[str, GapBasis] = {
    "bandwidth": "traffic", "arithmetic": "units", "cache": "cache_level", "rop": "drawing", "texture_unit": "drawing",
    "geometry_unit": "drawing",
}  # fmt: skip
LIMITERS = {"memory": "bandwidth", "link": "bandwidth", "arithmetic unit": "arithmetic", "cache": "cache", **DRAWING}
"""Cause by what sets the limit."""
ON_CLOCK = ("arithmetic unit", "cache", *DRAWING)
Against = Literal["bound", "expected", "ceiling", "unknown"]


@dataclass(frozen=True)
class NamedCause:
    """A cause, what it rests on, and the numbers and names behind it."""

    cause: str
    basis: GapBasis = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class GapInputs:
    """Everything a cause is found from."""

    result: Result
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
    def beyond(self) -> bool:
        """Whether it is faster than the whole interval of an expectation: then the expectation does not fit, and limits nothing."""
        return self.against == "expected" and self.limit.low_s is not None and self.seconds < self.limit.low_s

    @property
    def memory(self) -> dict[str, float]:
        """Of a limit that memory sets: its rate, and the bytes that it takes to have stayed in cache. Of a bound that takes most of them
        to have: their share."""
        share = cached_share(self.case, self.limit_s, self.context.spec) if self.against == "bound" else 0.0
        cached = {"limit_cached_share": share} if share > MOSTLY else {}
        rates = [t.value for t in self.limit.provenance if t.name == "memory bandwidth"]
        if self.name != "memory" or not rates:
            return cached
        spared = max(self.asked.memory_bytes - rates[0] * (self.limit_s or 0.0), 0.0)
        known = {"limit_memory_b_s": rates[0]} | ({"limit_spared_bytes": spared} if spared > 0.005 * self.asked.memory_bytes else {})
        return known | cached


def cause(seen: GapInputs) -> NamedCause:
    """The first cause that the numbers support, and what it rests on; at the limit there is nothing to explain."""
    if seen.beyond:
        return NamedCause("unknown", "beyond_expected")
    if seen.share is not None and seen.share >= AT_LIMIT and seen.against != "ceiling":  # the run's own best is no limit
        return NamedCause("at_limit")
    tests: tuple[Callable[[GapInputs], NamedCause | None], ...] = (
        _held_back, _shared, _inherent_cost, _small, _low_clock, _between_levels, _resource, _no_overlap, _fetch_size, _limiter,
        _memory_left_out,
    )
    for test in tests:
        if found := test(seen):
            return found
    return NamedCause("unknown", "no_limit" if seen.limit.reason else "unexplained")


# ---------------------------------------------------------------- causes, the first that fits counts


def _held_back(seen: GapInputs) -> NamedCause | None:
    """A notice of throttling, or power at its limit."""
    for notice in seen.result.notices:
        if notice.code == "throttled":
            return NamedCause(_holds(notice.shares), "throttled", names={"seen": notice.seen} if notice.seen else {})
    power, most = _during(seen, "power_w"), seen.context.power_limit_w
    ratio = _clock_ratio(seen)
    if power and most and power >= POWER_FULL * most and ratio is not None and ratio < LOW_CLOCK:
        return NamedCause("power", "power_limit", {"power_w": power, "power_limit_w": most, "clock_share": ratio})
    return None


def heated(result: Result) -> bool:
    """Whether temperature held the clock, for longer than power did."""
    return any(_holds(one.shares) == "heat" for one in result.notices if one.code == "throttled")


def _holds(shares: Mapping[str, float]) -> str:
    """Heat, where temperature held the clock for longer than power did; power also where no reason tells (a slowdown is of either)."""
    heat, power = (max((share for name, share in shares.items() if word in name), default=0.0) for word in ("thermal", "power"))
    return "heat" if heat > power else "power"


def _shared(seen: GapInputs) -> NamedCause | None:
    """Other work on the device, noticed in half of the rounds or more, or beside rounds that it slowed down much: what else a case shows
    says little then."""
    rounds = seen.result.used  # those that others disturbed may be left out of the number
    noticed = [one for r in rounds for one in r.notices if one.code == "shared_device"]
    if seen.share is not None and noticed and 2 * len(noticed) >= len(rounds):
        return NamedCause("shared", "shared")
    best = min(seen.result.seconds, default=0.0)
    if best and seen.seconds >= SLOWED * best and beside(seen.result.notices):
        return NamedCause("shared", "slowed", {"best_s": best, "call_s": seen.seconds})
    return None


def _inherent_cost(seen: GapInputs) -> NamedCause | None:
    """Workloads whose cause is what they measure."""
    named = work.traits(seen.case.workload).cause(seen.case.params)
    return NamedCause(named[0], "nature", names=_level(seen)) if named else None


def _level(seen: GapInputs) -> dict[str, str]:
    """Where the working set lies."""
    spec = seen.context.spec
    level = place(seen.asked.working_set_bytes, spec) if seen.asked.working_set_bytes else ""
    closer = {"closer": "a unit's own cache"} if spec and spec.kind == "gpu" and level == "L2" else {}
    return {"level": level, **closer} if level else {}


def _small(seen: GapInputs) -> NamedCause | None:
    """Too short beside a launch, or too few parts to fill the device."""
    if not work.traits(seen.case.workload).counted or _shares_launch(seen.result):
        return None
    launch, spec = seen.context.ceilings.launch_s, seen.context.spec
    basis: GapBasis = "launch_measured"
    if launch is None and spec is not None and spec.kind == "gpu":
        launch, basis = ASSUMED_LAUNCH_S, "launch_assumed"
    missing = seen.seconds - (seen.limit_s or 0.0)
    if launch and _cheaper_than_launch(seen, launch):
        return None
    if launch and seen.seconds < LAUNCHES * launch and launch >= MOST * missing / (1.0 if seen.limit_s else LAUNCHES):
        few = seen.seconds < FEW_LAUNCHES * launch
        return NamedCause("launch" if few else "too_small", basis, {"call_s": seen.seconds, "launch_s": launch})
    return _too_few_tiles(seen)


def _shares_launch(result: Result) -> bool:
    """Several calls in one launch: then a launch says nothing about a call."""
    return any(r.passes > 1 for r in result.rounds)


def _cheaper_than_launch(seen: GapInputs, launch_s: float) -> bool:
    """What may share a launch, and takes less than one, is not launched each time."""
    return work.traits(seen.case.workload).shares_launch and seen.seconds < launch_s / 2


def _too_few_tiles(seen: GapInputs) -> NamedCause | None:
    spec, params = seen.context.spec, seen.case.params
    if work.traits(seen.case.workload).model != "product" or spec is None or spec.kind != "gpu" or not spec.compute_units:
        return None
    m, n, batch = (float(params[p]) for p in ("m", "n", "batch"))  # type: ignore[arg-type]
    tiles = math.ceil(m / TILE) * math.ceil(n / TILE) * batch
    if tiles >= spec.compute_units or _resource(seen):
        return None
    return NamedCause("too_small", "tiles", {"tiles": tiles, "tile": TILE, "units": spec.compute_units})


def _low_clock(seen: GapInputs) -> NamedCause | None:
    """The clock, where what sets the limit runs on it and it explains most of the gap."""
    ratio = _clock_ratio(seen)
    on_clock = seen.limit.limiter in ON_CLOCK or seen.name.startswith("compute")
    if ratio is None or ratio >= LOW_CLOCK or not on_clock or seen.share is None or seen.share >= 1:
        return None
    if math.log(ratio) / math.log(seen.share) < MOST:
        return None
    highest = seen.context.clock_max_hz or 0.0
    return NamedCause("clock", "clock", {"clock_share": ratio, "clock_max_hz": highest, "at_clock_share": seen.share / ratio})


WAITED = "waiting for a core, at most"
"""Pressure is the share of time in which some task waited, not how long this one did."""
LAUNCHED = "launch, at most"
"""Calls that follow each other overlap with it."""
BY_HEAT = "heat, which lowered the clock"
PACED = "at the run's best rate, beyond the bound"
APART = "memory and arithmetic that do not overlap, at most"
"""The shorter of both, at rates that other cases of the run reached: expected, never a bound."""


def measured_split(seen: GapInputs) -> dict[str, float]:
    """Seconds between the bound and the measured time where no model knows the kernel: what the run's clock, the best rate of its other
    cases, its launches, memory beside arithmetic and, on a processor, the time in which some task waited for a core account for (at most),
    and what they do not.
    Empty at the bound, where there is none, and where none of them does."""
    bound = float(seen.limit.bound_s or 0.0)
    missing = seen.seconds - bound
    if seen.against != "bound" or missing <= AT_BOUND * bound or not work.traits(seen.case.workload).counted:
        return {}
    ratio, launch = _clock_ratio(seen), seen.context.ceilings.launch_s
    slower = bound * (1 / ratio - 1) if ratio and ratio < 1 and seen.limit.limiter in ON_CLOCK else 0.0
    split = {BY_HEAT if heated(seen.result) else "clock below its highest": min(slower, missing)}
    waited = _during(seen, "pressure")
    if waited:  # first: the other cases, whose best rate counts next, may have waited too
        split[WAITED] = min(waited * seen.seconds, missing - sum(split.values()))
    paced = _resource(seen)
    if paced and paced.numbers["time_share"] < 1:  # at 1 this case itself is the run's best: that explains nothing
        at_best = paced.numbers["time_share"] * seen.seconds - bound - sum(split.values())
        split[PACED] = min(max(at_best, 0.0), missing - sum(split.values()))
    if launch and not _shares_launch(seen.result) and not _cheaper_than_launch(seen, launch):
        split[LAUNCHED] = min(launch, missing - sum(split.values()))
    if apart := _one_after_the_other(seen):
        split[APART] = min(apart["memory_s"], apart["arithmetic_s"], missing - sum(split.values()))
    split = {name: value for name, value in split.items() if value > 0}
    return {**split, "unexplained": missing - sum(split.values())} if split else {}


def best_case(seen: GapInputs, split: Mapping[str, float]) -> dict[str, str]:
    """Which case of the run has the rate that the number is compared with, or that a part of its split counts with."""
    paced = _resource(seen) if PACED in split else None
    key = seen.name if seen.against == "ceiling" else paced.names["resource"] if paced else ""
    name = seen.context.ceilings.best_case(key)
    return {"best_case": name} if name else {}


def clock_hz(seen: GapInputs) -> float | None:
    """The median clock while the case ran."""
    clocks = [hz for r in seen.result.rounds for hz in r.clocks_hz]
    return median(clocks) if clocks else _during(seen, "clock_hz.sm")


def _clock_ratio(seen: GapInputs) -> float | None:
    clock, top = clock_hz(seen), seen.context.clock_max_hz
    return clock / top if clock and top else None


def _during(seen: GapInputs, sensor: str) -> float | None:
    """The median reading over the case's own windows, round by round."""
    windows = {r.round: (r.began_s, r.ended_s) for r in seen.result.rounds if r.ended_s > r.began_s}
    values: list[float] = []
    for part in seen.context.readings.get(sensor, ()):
        if part.round in windows:
            began, ended = windows[part.round]
            within = slice(bisect_left(part.times_s, began), bisect_right(part.times_s, ended))  # times rise
            values += [value for value in part.values[within] if value is not None]
    return median(values) if values else None


def _between_levels(seen: GapInputs) -> NamedCause | None:
    """A working set around a cache's size, or one whose limit is the cache itself."""
    spec, footprint = seen.context.spec, max(seen.asked.working_set_bytes, seen.asked.memory_bytes)
    if not work.traits(seen.case.workload).memory_alone or not footprint or seen.case.params.get("cache") == "cold":
        return None
    caches = hierarchy(spec)
    level = place(footprint, spec)
    if caches and level == "":
        name, nbytes = min(caches, key=lambda c: abs(math.log(footprint / c[1])))
        return NamedCause("cache", "between_levels", {"footprint_bytes": footprint, "cache_bytes": nbytes}, {"level": name})
    if level not in ("", "memory"):
        return NamedCause("cache", "in_level", {"footprint_bytes": footprint}, {"level": level})
    return None


def _resource(seen: GapInputs) -> NamedCause | None:
    """The resource that takes most of the time at the best rate that the run's other cases saw of it."""
    if seen.against == "ceiling":
        return None
    ceilings, wanted = seen.context.ceilings, demand(seen.case, seen.asked, seen.context.spec, mixed=True)
    parts = {key: amount / rate / seen.seconds for key, amount in wanted.items() if (rate := ceilings.best_of_other_cases(key, seen.case))}
    parts = {key: part for key, part in parts.items() if SETS_PACE <= part <= FASTER}  # else the others say nothing of it
    if not parts:
        return None
    key, part = max(parts.items(), key=lambda item: item[1])
    cause = "arithmetic" if key.startswith("compute") else "bandwidth"
    numbers = {"rate": ceilings.best_of_other_cases(key, seen.case) or 0.0, "time_share": min(part, 1.0)}
    if cause == LIMITERS.get(seen.limit.limiter):  # what sets the limit also sets the pace: no other case comes nearer to it
        return NamedCause(cause, "nearest", numbers | _ruled_out(seen), {"resource": key})
    return NamedCause(cause, "resource", numbers, {"resource": key})


def _no_overlap(seen: GapInputs) -> NamedCause | None:
    """Memory and arithmetic one after the other, each at the best rate that the run's other cases saw of it."""
    numbers = _one_after_the_other(seen)
    if not numbers or not SETS_PACE <= (numbers["memory_s"] + numbers["arithmetic_s"]) / seen.seconds <= FASTER:
        return None
    return NamedCause("overlap", "no_overlap", numbers)


def _one_after_the_other(seen: GapInputs) -> dict[str, float]:
    """What memory and what arithmetic of a call take at rates that other cases of the run reached; {} where it did not measure both."""
    wanted = demand(seen.case, seen.asked, seen.context.spec, mixed=True)
    rates = {key: rate for key in wanted if (rate := seen.context.ceilings.best_of_other_cases(key, seen.case))}
    memory = f"bandwidth {MEMORY}"
    arithmetic_s = max((wanted[key] / rate for key, rate in rates.items() if key.startswith("compute")), default=0.0)
    if memory not in rates or not arithmetic_s:
        return {}
    moved, rate = wanted[memory], rates[memory]
    return {"memory_bytes": moved, "memory_rate": rate, "memory_s": moved / rate, "arithmetic_s": arithmetic_s}


def _fetch_size(seen: GapInputs) -> NamedCause | None:
    """What the workload fetches and does not use."""
    likely = work.traits(seen.case.workload).likely(seen.case.params)
    return NamedCause(likely[0], "access") if likely else None


def _limiter(seen: GapInputs) -> NamedCause | None:
    """What sets the limit, where the share is high enough that it is likely to set the pace too."""
    cause = LIMITERS.get(seen.limit.limiter)
    if seen.against == "ceiling":
        cause = "arithmetic" if seen.name.startswith("compute") else "bandwidth"
    if cause is None or seen.share is None or seen.share < NEAR:
        return None
    moved = {"moved_b_s": seen.asked.memory_bytes / seen.seconds} if seen.asked.memory_bytes and cause == "bandwidth" else {}
    return NamedCause(cause, PACE[cause], moved | _ruled_out(seen))


def _ruled_out(seen: GapInputs) -> dict[str, float]:
    """What the readings say the rest of the gap is not."""
    ratio, power, most = _clock_ratio(seen), _during(seen, "power_w"), seen.context.power_limit_w
    found = {"clock_share": ratio} if ratio is not None else {}
    return found | ({"power_w": power, "power_limit_w": most} if power and most else {})


def counts_memory(limit: Limit) -> bool:
    """Whether a bound has the time of memory, or of the cache that loads go to."""
    return any(term.name in ("memory bandwidth", "first-cache load rate") for term in limit.provenance)


def _memory_left_out(seen: GapInputs) -> NamedCause | None:
    """A bound of arithmetic alone of a case that may well wait for memory, and no other case of the run that says what memory can do."""
    if seen.against != "bound" or LIMITERS.get(seen.limit.limiter) != "arithmetic" or counts_memory(seen.limit):
        return None
    wanted, ceilings = demand(seen.case, seen.asked, seen.context.spec, mixed=True), seen.context.ceilings
    level = next((key for key in wanted if key.startswith("bandwidth") and not ceilings.best_of_other_cases(key, seen.case)), "")
    if not level or seen.asked.total_operations > INTENSE * wanted[level]:
        return None
    return NamedCause("unknown", "memory_left_out", {"moved_b_s": wanted[level] / seen.seconds})

"""The named cause of what a result misses of its limit: the first test that the numbers support."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Literal

from hotlap.core import work
from hotlap.core.model.ceilings import demand
from hotlap.core.model.context import Context
from hotlap.core.model.levels import hierarchy, place
from hotlap.core.record import Case, Limit, Result
from hotlap.core.units import percent, show, size
from hotlap.core.work.base import Work

AT_LIMIT = 0.90
AT_BOUND = 0.01  # of the bound: nearer to it there is nothing to split
LOW_CLOCK = 0.97  # of the highest clock
MOST = 0.5  # of the gap, on a logarithmic scale, that the clock must explain to be its cause
SETS_PACE = 0.7  # of the time, that one resource at its measured ceiling must take to be the cause
FASTER = 1.1  # a case that beats the others' best by more is not held back by what they show
NEAR = 0.6  # share of a bound above which its limiter is named where nothing else is known
LAUNCHES, FEW_LAUNCHES = 20.0, 3.0  # a call shorter than this many launches is too small; than so few, it is the launch
ASSUMED_LAUNCH_S = 3e-6  # of GPUs whose run measured none: of the size that drivers show
POWER_FULL = 0.97  # of the power limit
TILE = 128  # rows and columns of one work-group's share of a matrix product, the size that vendors' libraries prefer
LIMITERS = {"memory": "bandwidth", "link": "bandwidth", "arithmetic unit": "arithmetic", "cache": "cache"}  # cause by what sets the limit
Against = Literal["bound", "expected", "ceiling", "unknown"]


@dataclass(frozen=True)
class Seen:
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
        against = {"bound": "bound", "expected": "expected value", "ceiling": "run's best"}.get(self.against, "limit")
        value = work.find(self.case.workload).value(self.limit_s, self.case.params)
        name = f" ({self.set_by})" if self.set_by else ""
        return f"{shown} is {_percent(self.share)} of the {against} {show(value, self.result.unit)}{name}"

    @property
    def beyond(self) -> bool:
        """Whether it is faster than the whole interval of an expectation: then the expectation does not fit, and limits nothing."""
        return self.against == "expected" and self.limit.low_s is not None and self.seconds < self.limit.low_s

    @property
    def set_by(self) -> str:
        """What sets the limit; of memory with its rate, for a bound that allows for caches is above it."""
        rates = [t.value for t in self.limit.provenance if t.name == "memory bandwidth"]
        if self.name != "memory" or not rates:
            return self.name
        spared = max(self.asked.memory_bytes - rates[0] * (self.limit_s or 0.0), 0.0)
        allowed = f", allowing for {show(spared, 'B')} in cache" if spared > 0.005 * self.asked.memory_bytes else ""
        return f"memory at {show(rates[0], 'B/s')}{allowed}"


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.0995 else f"{share:.1%}" if share >= 0.001 else "under 0.1%"


def cause(seen: Seen) -> tuple[str, str]:
    """The first cause that the numbers support, and why; at the limit there is nothing to explain."""
    if seen.beyond:
        return "unknown", "faster than the whole interval that is expected, and no bound is known: how fast it could be is unknown"
    if seen.share is not None and seen.share >= AT_LIMIT and seen.against != "ceiling":  # the run's own best is no limit
        return "at_limit", ""
    tests: tuple[Callable[[Seen], tuple[str, str] | None], ...] = (
        _held_back, _shared, _by_nature, _small, _low_clock, _between_levels, _resource, _fetch_size, _limiter,
    )
    for test in tests:
        if found := test(seen):
            return found
    return "unknown", seen.limit.reason or "nothing measured explains the rest"


# ---------------------------------------------------------------- causes, the first that fits counts


def _held_back(seen: Seen) -> tuple[str, str] | None:
    """A throttle flag, or power at its limit."""
    throttled = [f for f in seen.result.notices if f.code == "throttled"]
    if throttled:
        return "power", throttled[0].seen or "the device was held back"
    power, most = _during(seen, "power_w"), seen.context.power_limit_w
    ratio = _clock_ratio(seen)
    if power and most and power >= POWER_FULL * most and ratio is not None and ratio < LOW_CLOCK:
        return "power", f"{power:.0f} W of {most:.0f} W allowed, at {percent(ratio)} of the highest clock"
    return None


def _shared(seen: Seen) -> tuple[str, str] | None:
    """Other work on the device, flagged in half of the rounds or more: what else a case shows says little then."""
    flagged = [f for r in seen.result.rounds for f in r.notices if f.code == "shared_device"]
    if seen.share is None or 2 * len(flagged) < len(seen.result.rounds) or not flagged:
        return None
    return "shared", "other programs used the device meanwhile"


def _by_nature(seen: Seen) -> tuple[str, str] | None:
    """Workloads whose cause is what they measure."""
    named = work.traits(seen.case.workload).cause(seen.case.params)
    return (named[0], named[1] + _level_words(seen)) if named else None


def _level_words(seen: Seen) -> str:
    spec = seen.context.spec
    level = place(seen.asked.working_set_bytes, spec) if seen.asked.working_set_bytes else ""
    closer = " or a unit's own cache" if spec and spec.kind == "gpu" and level == "L2" else ""
    return f", in {level}{closer}" if level else ""


def _small(seen: Seen) -> tuple[str, str] | None:
    """Too short beside a launch, or too few parts to fill the device."""
    if not work.traits(seen.case.workload).counted or _shares_launch(seen.result):
        return None
    launch, spec = seen.context.ceilings.launch_s, seen.context.spec
    said = "measured in this run"
    if launch is None and spec is not None and spec.kind == "gpu":
        launch, said = ASSUMED_LAUNCH_S, "assumed, for none was measured"
    missing = seen.seconds - (seen.limit_s or 0.0)
    if launch and _cheaper_than_launch(seen, launch):
        return None
    if launch and seen.seconds < LAUNCHES * launch and launch >= MOST * missing / (1.0 if seen.limit_s else LAUNCHES):
        times = f"a call takes {show(seen.seconds, 's')}, {seen.seconds / launch:.1f} times a launch of {show(launch, 's')} ({said})"
        return ("launch" if seen.seconds < FEW_LAUNCHES * launch else "too_small"), times
    return _too_few_tiles(seen)


def _shares_launch(result: Result) -> bool:
    """Several calls in one launch: then a launch says nothing about a call."""
    return any("passes a launch" in r.variant for r in result.rounds)


def _cheaper_than_launch(seen: Seen, launch_s: float) -> bool:
    """What may share a launch, and takes less than one, is not launched each time."""
    return work.traits(seen.case.workload).shares_launch and seen.seconds < launch_s / 2


def _too_few_tiles(seen: Seen) -> tuple[str, str] | None:
    spec, params = seen.context.spec, seen.case.params
    if work.traits(seen.case.workload).model != "product" or spec is None or spec.kind != "gpu" or not spec.compute_units:
        return None
    m, n, batch = (float(params[p]) for p in ("m", "n", "batch"))  # type: ignore[arg-type]
    tiles = math.ceil(m / TILE) * math.ceil(n / TILE) * batch
    if tiles >= spec.compute_units or _resource(seen):
        return None
    return "too_small", f"{tiles:.0f} tiles of {TILE} × {TILE} for {spec.compute_units} units"


def _low_clock(seen: Seen) -> tuple[str, str] | None:
    """The clock, where what sets the limit runs on it and it explains most of the gap."""
    ratio = _clock_ratio(seen)
    on_clock = seen.limit.limiter in ("arithmetic unit", "cache") or seen.name.startswith("compute")
    if ratio is None or ratio >= LOW_CLOCK or not on_clock or seen.share is None or seen.share >= 1:
        return None
    if math.log(ratio) / math.log(seen.share) < MOST:
        return None
    highest = show(seen.context.clock_max_hz, "Hz")
    return "clock", f"the clock was {percent(ratio)} of its highest, {highest}; at that clock it reaches {percent(seen.share / ratio)}"


WAITED = "waiting for a core, at most"
"""Pressure is the share of time in which some task waited, not how long this one did."""


def measured_split(seen: Seen) -> dict[str, float]:
    """Seconds between the bound and the measured time where no model knows the kernel: what the run's clock, its launches and, on a
    processor, the time in which some task waited for a core account for (at most), and what they do not. Empty at the bound, where there
    is none, and where none of them does."""
    bound = float(seen.limit.bound_s or 0.0)
    missing = seen.seconds - bound
    if seen.against != "bound" or missing <= AT_BOUND * bound or not work.traits(seen.case.workload).counted:
        return {}
    ratio, launch = _clock_ratio(seen), seen.context.ceilings.launch_s
    slower = bound * (1 / ratio - 1) if ratio and ratio < 1 and seen.limit.limiter in ("arithmetic unit", "cache") else 0.0
    found = {"clock below its highest": min(slower, missing)}
    if launch and not _shares_launch(seen.result) and not _cheaper_than_launch(seen, launch):
        found["launch"] = min(launch, missing - found["clock below its highest"])
    waited = _during(seen, "pressure")
    if waited:
        found[WAITED] = min(waited * seen.seconds, missing - sum(found.values()))
    found = {name: value for name, value in found.items() if value > 0}
    return {**found, "unexplained": missing - sum(found.values())} if found else {}


def _clock_ratio(seen: Seen) -> float | None:
    clocks = [hz for r in seen.result.rounds for hz in r.clocks_hz]
    clock, top = median(clocks) if clocks else _during(seen, "clock_hz.sm"), seen.context.clock_max_hz
    return clock / top if clock and top else None


def _during(seen: Seen, sensor: str) -> float | None:
    """The median reading over the case's own windows, round by round."""
    windows = [(r.round, r.began_s, r.ended_s) for r in seen.result.rounds if r.ended_s > r.began_s]
    values = [
        v for part in seen.context.readings.get(sensor, ()) for t, v in zip(part.times_s, part.values, strict=True)
        if v is not None and any(part.round == n and began <= t <= ended for n, began, ended in windows)
    ]
    return median(values) if values else None


def _between_levels(seen: Seen) -> tuple[str, str] | None:
    """A working set around a cache's size, or one whose limit is the cache itself."""
    spec, footprint = seen.context.spec, max(seen.asked.working_set_bytes, seen.asked.memory_bytes)
    if not work.traits(seen.case.workload).memory_alone or not footprint or seen.case.params.get("cache") == "cold":
        return None
    caches = hierarchy(spec)
    level = place(footprint, spec)
    if caches and level == "":
        name, nbytes = min(caches, key=lambda c: abs(math.log(footprint / c[1])))
        return "cache", f"a working set of {size(footprint)} only partly stays in {name}, {size(nbytes)}"
    if level not in ("", "memory"):
        return "cache", f"the working set of {size(footprint)} stays in {level}, which sets the pace"
    return None


def _resource(seen: Seen) -> tuple[str, str] | None:
    """The resource that takes most of the time at the best rate that the run's other cases saw of it."""
    if seen.against == "ceiling":
        return None
    found, wanted = seen.context.ceilings, demand(seen.case, seen.asked, seen.context.spec, mixed=True)
    parts = {key: amount / rate / seen.seconds for key, amount in wanted.items() if (rate := found.others(key, seen.case))}
    parts = {key: part for key, part in parts.items() if SETS_PACE <= part <= FASTER}  # else the others say nothing of it
    if not parts:
        return None
    key, part = max(parts.items(), key=lambda item: item[1])
    cause = "arithmetic" if key.startswith("compute") else "bandwidth"
    fastest = show(found.others(key, seen.case), _unit(key))
    best = f"{_words(key)} at the run's best rate, {fastest}, takes {percent(min(part, 1.0))} of the time"
    if cause == LIMITERS.get(seen.limit.limiter):  # what sets the limit also sets the pace: no other case comes nearer to it
        return cause, f"{best}: no other case of this run comes nearer to the limit{_ruled_out(seen)}"
    return cause, best


def _words(key: str) -> str:
    kind, _, rest = key.partition(" ")
    return {"bandwidth": f"{rest} traffic", "compute": f"{rest} arithmetic", "link": f"the link {rest}"}[kind]


def _unit(key: str) -> str:
    if not key.startswith("compute"):
        return "B/s"
    return "OP/s" if ".int" in key else "FLOP/s"


def _fetch_size(seen: Seen) -> tuple[str, str] | None:
    """What the workload fetches and does not use."""
    return work.traits(seen.case.workload).likely(seen.case.params)


def _limiter(seen: Seen) -> tuple[str, str] | None:
    """What sets the limit, where the share is high enough that it is likely to set the pace too."""
    cause = LIMITERS.get(seen.limit.limiter)
    if seen.against == "ceiling":
        cause = "arithmetic" if seen.name.startswith("compute") else "bandwidth"
    if cause is None or seen.share is None or seen.share < NEAR:
        return None
    moved = f", at {show(seen.asked.memory_bytes / seen.seconds, 'B/s')}" if seen.asked.memory_bytes else ""
    pace = {"bandwidth": f"traffic sets the pace{moved}", "arithmetic": "the arithmetic units set the pace"}
    return cause, pace.get(cause, "the cache sets the pace") + _ruled_out(seen)


def _ruled_out(seen: Seen) -> str:
    """What the readings say the rest of the gap is not."""
    ratio, power, most = _clock_ratio(seen), _during(seen, "power_w"), seen.context.power_limit_w
    parts = [f"the clock was {percent(ratio)} of its highest"] if ratio is not None else []
    if power and most:
        parts.append(f"power {power:.0f} W of {most:.0f} W")
    return f"; {', '.join(parts)}" if parts else ""

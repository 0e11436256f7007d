"""A summary against its limit: which limit it is compared with, the share reached, and the named cause of what is missing."""

from __future__ import annotations

from collections.abc import Mapping

from hotlap.core import work
from hotlap.core.model import causes
from hotlap.core.model.calibration import ARITHMETIC, MEMORY
from hotlap.core.model.causes import Against
from hotlap.core.model.ceilings import Ceilings, ceiling_s, ceilings, nominal_s
from hotlap.core.model.context import Context, context
from hotlap.core.model.levels import cache_levels
from hotlap.core.model.limits import cached_share
from hotlap.core.record import Case, Gap, Limit, Result, Summary

__all__ = ["Ceilings", "Context", "cache_levels", "ceilings", "context", "from_bound", "gap", "split"]

OWN_PART = {  # of a bound
    "arithmetic unit": ("matrix unit", "vector unit", "matrix unit and softmax"), "memory": ("DRAM",), "link": ("link",),
}  # fmt: skip
BESIDE = (*ARITHMETIC, *MEMORY, "matrix unit and softmax", "loads", "task start", "tile latency")  # parts that run at the same time
ON_CLOCK = (*ARITHMETIC, "epilogue")
CAPPED = "clock under the power cap"
LOW_CLOCK = "clock below the one expected"


def gap(result: Result, summary: Summary, limit: Limit, context: Context) -> Gap:
    """How far a result is from its limit, and why.

    Held against the bound, else the expected value, else the measured ceiling of the run's other cases. A bound that leaves memory out,
    or most of it for a cache, yields to a ceiling that is tighter, unless the result is faster than the bound.
    """
    if result.status != "measured" or not summary.median or not result.seconds:  # a program's own number has no seconds
        return Gap(limit=limit, cause="unknown" if result.status == "measured" else "")
    kind, seconds = work.find(result.case.workload), nominal_s(result.case, summary.median)
    against, limit_s, name = _reference(result.case, seconds, limit, context)
    done = kind.work(result.case.params)
    seen = causes.GapInputs(result, seconds, done, limit, context, against, limit_s, name)
    named = causes.cause(seen)
    value = kind.value(limit_s, result.case.params) if limit_s else None
    clocks = causes.clock_hz(seen), context.clock_max_hz
    shares = split(seconds, limit, *clocks, heated=causes.heated(result)) if limit.parts else causes.measured_split(seen)
    rate = context.ceilings.rate(name, result.case) if against == "ceiling" else None
    best = {"best_rate": rate} if rate else {}
    return Gap(
        share=seen.share, reference_kind=against, limit_value=value, cause=named.cause, basis=named.basis, limiter=name, split=shares,
        names={**named.names, **causes.best_case(seen, shares)}, numbers={**best, **seen.memory, **named.numbers}, limit=limit,
    )


def split(
    seconds: float, limit: Limit, clock_hz: float | None = None, highest_hz: float | None = None, heated: bool = False
) -> dict[str, float]:
    """Seconds between the bound and the measured time by cause: what the model's parts add to the bound, and what it cannot explain.

    The part that the bound is made of counts with what it takes longer than the bound. A measured `clock_hz` below the one expected makes
    the parts that run on it longer: by heat, where `heated`. One above it, of at most `highest_hz`, leaves less to the clock under the
    power cap where the time is no shorter than expected; of a shorter one the parts are those expected. Empty where no model knows the
    kernel, and at the bound, where nothing is left to split.
    """
    if not limit.parts or not limit.bound_s or seconds <= (1 + causes.AT_BOUND) * limit.bound_s:
        return {}
    expected = _at_clock(limit, clock_hz, highest_hz) if seconds >= sum(limit.parts.values()) else limit.parts
    expected, own = from_bound(expected, limit)
    parts = {name: value - (limit.bound_s if name == own else 0.0) for name, value in expected.items()}
    if not own:
        parts["bound"] = -limit.bound_s
    if own:
        parts[f"{own}, beyond the bound"] = parts.pop(own)
    slower_s = min(_slower_s(limit, clock_hz), max(seconds - sum(expected.values()), 0.0))
    parts |= {causes.BY_HEAT if heated else LOW_CLOCK: slower_s} if slower_s > 0 else {}
    return {**parts, "unexplained": seconds - sum(expected.values()) - slower_s}


def from_bound(parts: Mapping[str, float], limit: Limit) -> tuple[dict[str, float], str]:
    """Parts of the expected time, of which the one that sets the bound takes the bound at least, and its name; "" where there is none.

    A model divides the time in which parts run at the same time by how much each of them counts, so that the longest has less than it takes
    alone. Here it has all of it, and what runs beside it counts by what it adds.
    """
    own = next((name for name in OWN_PART.get(limit.limiter, ()) if name in parts), "")
    whole, lack = dict(parts), (limit.bound_s or 0.0) - parts.get(own, 0.0)
    if not own or lack <= 0:
        return whole, own
    beside = {name: value for name, value in parts.items() if name in BESIDE and name not in (own, CAPPED) and value > 0}
    taken = min(lack / sum(beside.values()), 1.0) if beside else 0.0
    whole |= {name: value * (1 - taken) for name, value in beside.items()}
    whole[own] += taken * sum(beside.values())
    return whole, own


def _at_clock(limit: Limit, clock_hz: float | None, highest_hz: float | None) -> dict[str, float]:
    """The expected parts, the clock under the power cap by the clock that was measured: none of it where that was the highest."""
    capped, held_hz = limit.parts.get(CAPPED), limit.clock_hz
    if not capped or not held_hz or not clock_hz or not highest_hz or not held_hz < clock_hz or held_hz >= highest_hz:
        return dict(limit.parts)
    left = max(highest_hz / clock_hz - 1, 0.0) / (highest_hz / held_hz - 1)
    parts = {**limit.parts, CAPPED: capped * left}
    return parts if left > 0 else {name: value for name, value in parts.items() if name != CAPPED}


def _slower_s(limit: Limit, clock_hz: float | None) -> float:
    """What the parts that run on the clock take longer at a measured clock below the one expected."""
    if not clock_hz or not limit.clock_hz or clock_hz >= limit.clock_hz:
        return 0.0
    return float(sum(limit.parts.get(name, 0.0) for name in ON_CLOCK) * (limit.clock_hz / clock_hz - 1))


def _reference(case: Case, seconds: float, limit: Limit, context: Context) -> tuple[Against, float | None, str]:
    """What to compare it with, its seconds, and what sets it."""
    if limit.kind == "bound" and limit.bound_s:
        counted = causes.counts_memory(limit) and cached_share(case, limit.bound_s, context.spec) <= causes.MOSTLY
        memory = None if counted else ceiling_s(case, context.ceilings, context.spec, "bandwidth")
        if memory and seconds >= limit.bound_s and memory[0] > limit.bound_s:
            return ("ceiling", *memory)
        return "bound", float(limit.bound_s), limit.limiter
    if limit.kind == "expected" and limit.expected_s:
        return "expected", float(limit.expected_s), limit.limiter
    ceiling = ceiling_s(case, context.ceilings, context.spec)
    return ("ceiling", *ceiling) if ceiling else ("unknown", None, "")

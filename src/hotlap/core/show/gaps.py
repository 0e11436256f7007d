"""A gap in words: what sets the limit, the share reached, and what its cause rests on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hotlap.core import work
from hotlap.core.record import Case, Gap, GapBasis, Row
from hotlap.core.units import percent, show, size

BEYOND = "faster than the whole interval that is expected, and no bound is known: how fast it could be is unknown"
AGAINST = {"bound": "bound", "expected": "expected value", "ceiling": "run's best median"}


def why(case: Case, gap: Gap) -> str:
    """What the cause rests on, without the numbers of the limit; "" where there is nothing to say."""
    if gap.basis == "nature":
        return _nature(case, gap.names)
    if gap.basis == "access":
        return (work.traits(case.workload).likely(case.params) or ("", ""))[1]
    if gap.basis == "no_limit":
        return gap.limit.reason if gap.limit else ""
    return _BASIS[gap.basis](gap) if gap.basis in _BASIS else ""


def set_by(gap: Gap) -> str:
    """What sets the limit; of memory with its rate, for a bound that allows for caches is above it."""
    rate, spared = (gap.numbers.get(name) for name in ("limit_memory_b_s", "limit_spared_bytes"))
    if rate is None:
        return gap.limiter
    return f"memory at {show(rate, 'B/s')}" + (f", allowing for {show(spared, 'B')} in cache" if spared else "")


def unit_of(row: Row) -> str:
    """Of its number, with what a rate counts."""
    return counted_unit(row.case.workload, row.result.unit)


def counted_unit(workload: str, unit: str) -> str:
    """1/s of what draws is of pixels, texels, triangles or draws."""
    noun = work.traits(workload).counts if unit == "1/s" else ""
    return f"{noun}/s" if noun else unit


def head(row: Row) -> str:
    """The number and the share of the limit that it reaches; why there is no number."""
    gap = row.gap
    if row.result.status != "measured" or row.summary.median is None or not gap.cause:
        return row.result.reason
    shown = show(row.summary.median, unit_of(row))
    if gap.share is None or gap.limit_value is None:
        return shown
    name = f" ({set_by(gap)})" if set_by(gap) else ""
    limit = AGAINST.get(gap.reference_kind, "limit")
    return f"{shown} is {_share(gap.share)} of the {limit} {show(gap.limit_value, unit_of(row))}{name}"


def detail(row: Row) -> str:
    """Both in one sentence."""
    return "; ".join(part for part in (head(row), why(row.case, row.gap)) if part)


def brief(case: Case, gap: Gap) -> str:
    """The share and what the cause rests on, where the number itself stands elsewhere."""
    reached = "" if gap.share is None else f"{_share(gap.share)} of the {AGAINST.get(gap.reference_kind, 'limit')}"
    return "; ".join(part for part in (reached, why(case, gap)) if part)


def _share(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.0995 else f"{100 * share:.1f} %" if share >= 0.001 else "under 0.1 %"


def _nature(case: Case, names: Mapping[str, str]) -> str:
    named = work.traits(case.workload).cause(case.params)
    closer = f" or {names['closer']}" if "closer" in names else ""
    return (named[1] if named else "") + (f", in {names['level']}{closer}" if "level" in names else "")


def _launch(gap: Gap, source: str) -> str:
    call, launch = gap.numbers["call_s"], gap.numbers["launch_s"]
    return f"a call takes {show(call, 's')}, {call / launch:.1f} times a launch of {show(launch, 's')} ({source})"


def _clock(gap: Gap) -> str:
    share, highest, reached = (gap.numbers[name] for name in ("clock_share", "clock_max_hz", "at_clock_share"))
    return f"the clock was {percent(share)} of its highest, {show(highest, 'Hz')}; at that clock it reaches {percent(reached)}"


def _power_limit(gap: Gap) -> str:
    power, most, clock = (gap.numbers[name] for name in ("power_w", "power_limit_w", "clock_share"))
    return f"{power:.0f} W of {most:.0f} W allowed, at {percent(clock)} of the highest clock"


def _tiles(gap: Gap) -> str:
    tiles, tile, units = (gap.numbers[name] for name in ("tiles", "tile", "units"))
    return f"{tiles:.0f} tiles of {tile:.0f} × {tile:.0f} for {units:.0f} units"


def _between(gap: Gap) -> str:
    footprint, cache = gap.numbers["footprint_bytes"], gap.numbers["cache_bytes"]
    return f"a working set of {size(footprint)} only partly stays in {gap.names['level']}, {size(cache)}"


def _resource(gap: Gap) -> str:
    key = gap.names["resource"]
    kind, _, rest = key.partition(" ")
    what = {"bandwidth": f"{rest} traffic", "compute": f"{rest} arithmetic"}.get(kind, f"the link {rest}")
    unit = "B/s" if kind != "compute" else "OP/s" if ".int" in key else "FLOP/s"
    rate, share = show(gap.numbers["rate"], unit), percent(gap.numbers["time_share"])
    return f"{what} at the device's best median rate in this run, {rate}, takes {share} of the time"


def _ruled_out(gap: Gap) -> str:
    """What the readings say the rest of the gap is not."""
    parts = [f"the clock was {percent(gap.numbers['clock_share'])} of its highest"] if "clock_share" in gap.numbers else []
    if "power_w" in gap.numbers:
        parts.append(f"power {gap.numbers['power_w']:.0f} W of {gap.numbers['power_limit_w']:.0f} W")
    return f"; {', '.join(parts)}" if parts else ""


def _no_overlap(gap: Gap) -> str:
    moved, rate, memory_s, arithmetic_s = (gap.numbers[name] for name in ("memory_bytes", "memory_rate", "memory_s", "arithmetic_s"))
    return (
        f"memory and arithmetic do not overlap: {show(moved, 'B')} at {show(rate, 'B/s')} take {show(memory_s, 's')}, the arithmetic "
        f"{show(arithmetic_s, 's')}, {show(memory_s + arithmetic_s, 's')} together, at the best rates of the run's other cases"
    )


def _traffic(gap: Gap) -> str:
    moved = f", at {show(gap.numbers['moved_b_s'], 'B/s')}" if "moved_b_s" in gap.numbers else ""
    return f"traffic sets the pace{moved}{_ruled_out(gap)}"


_DRAWN = {"rop": "ROPs", "texture_unit": "texture units", "geometry_unit": "units that rasterise triangles"}
NEAREST = "none of its other cases in the run shows that it reaches more"
_BASIS: Mapping[GapBasis, Callable[[Gap], str]] = {
    "beyond_expected": lambda _: BEYOND,
    "unexplained": lambda _: "nothing measured explains the rest",
    "memory_left_out": lambda gap: "the bound leaves out the time of memory, of which the case moved "
    f"{show(gap.numbers['moved_b_s'], 'B/s')}, and no other case of the run shows what memory can do: measure stream in the same plan",
    "throttled": lambda gap: gap.names.get("seen", "the device was held back"),
    "power_limit": _power_limit, "shared": lambda _: "other programs used the device meanwhile",
    "slowed": lambda gap: f"other programs ran meanwhile: the fastest round took {show(gap.numbers['best_s'], 's')} a call, the middle one "
    f"{show(gap.numbers['call_s'], 's')}",
    "launch_measured": lambda gap: _launch(gap, "measured in this run"),
    "launch_assumed": lambda gap: _launch(gap, "assumed, for none was measured"), "tiles": _tiles, "clock": _clock,
    "between_levels": _between,
    "in_level": lambda gap: f"the working set of {size(gap.numbers['footprint_bytes'])} stays in {gap.names['level']}, which sets the pace",
    "resource": _resource, "nearest": lambda gap: f"{_resource(gap)}: {NEAREST}{_ruled_out(gap)}",
    "no_overlap": _no_overlap, "traffic": _traffic, "units": lambda gap: f"the arithmetic units set the pace{_ruled_out(gap)}",
    "drawing": lambda gap: f"the {_DRAWN.get(gap.cause, gap.cause)} set the pace{_ruled_out(gap)}",
    "cache_level": lambda gap: f"the cache sets the pace{_ruled_out(gap)}",
}  # fmt: skip

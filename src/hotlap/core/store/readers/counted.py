"""What a device counted while a case ran, folded over rounds."""

from __future__ import annotations

from statistics import median

from hotlap.core.record import Result

STALL = "stall_s."


def counters(result: Result) -> dict[str, float]:
    """The median over rounds of each counter, by name and of one call; empty where nothing was counted."""
    found: dict[str, list[float]] = {}
    for one in result.rounds:
        for name, value in one.counters.items():
            found.setdefault(name, []).append(value)
    return {name: median(values) for name, values in found.items()}


def stalls(result: Result) -> dict[str, float]:
    """Seconds of one call by what took them; they add up to its time without noise."""
    return {name.removeprefix(STALL): value for name, value in counters(result).items() if name.startswith(STALL)}

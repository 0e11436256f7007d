"""How work is laid over a device's work-items: a stretch each on CPUs, neighbours on neighbours on GPUs."""

from __future__ import annotations

from dataclasses import dataclass

from hotlap.core.measure.targets.base import Target

FREE_TURNS = 2**31  # no limit that a case reaches
UNTOLD_UNITS = 64  # of a GPU whose driver does not say how many it has, as WebGPU's: 131,072 work-items


@dataclass(frozen=True)
class Layout:
    """Work-items, group size and vector width for one scalar type."""

    items: int
    group: int
    width: int  # elements of a vector
    blocked: bool

    def defines(self, scalar: str) -> list[str]:
        vector = scalar if self.width == 1 else f"VEC({scalar},{self.width})"
        return [f"S={scalar}", f"T={vector}", *(["BLOCKED=1"] if self.blocked else [])]


def group_size(target: Target) -> int:
    """256 work-items, or the device's most."""
    return min(256, int(target.device.facts.get("max_group", 256)))


def most_turns(target: Target) -> int:
    """Of a loop, or of loops in one another, in one work-item: a software adapter leaves them after that, and its result is wrong."""
    return int(target.device.facts.get("most_turns", FREE_TURNS))


def layout(target: Target, element_bytes: int, elements: int = 2**62) -> Layout:
    """CPUs: one work-item per core, 16 elements wide at most. GPUs, and CPUs whose loops are cut short: 2048 per compute unit, 16-byte
    vectors, and no more work-items than there are vectors."""
    units = target.device.compute_units or (UNTOLD_UNITS if target.device.kind == "gpu" else 1)
    if target.device.kind == "cpu" and most_turns(target) == FREE_TURNS:
        vector_bytes = int(target.device.facts.get("vector_bytes", 32))
        return Layout(units, 1, min(max(vector_bytes // element_bytes, 2), 16), True)
    width = max(16 // element_bytes, 1)
    group = group_size(target)
    return Layout(max(min(units * 2048, elements // width) // group * group, group), group, width, False)

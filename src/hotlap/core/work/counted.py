"""What one call of a workload has to do, counted from its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Work:
    """What one call has to do, whoever runs it.

    `read_bytes` and `written_bytes` are compulsory traffic (each input read once, each output written once).
    `operations` counts by unit: ``{"fma.fp32": 2e9}`` or ``{"matrix.bf16": 1e12}``; a fused multiply-add is 2.
    `steps` counts dependent or repeated events for latencies: hops, launches, barriers. Of matrix products and the kernels of
    networks the numbers are arrays where the parameters were.
    """

    read_bytes: float = 0.0
    written_bytes: float = 0.0
    operations: Mapping[str, float] = field(default_factory=dict)
    quicker: Mapping[str, str] = field(default_factory=dict)  # unit: another that may do its operations once operands are narrowed
    steps: float = 1.0
    working_set_bytes: float = 0.0  # what is touched again by the next call
    link_bytes: float = 0.0  # that cross a link between memories

    @property
    def memory_bytes(self) -> float:
        return self.read_bytes + self.written_bytes

    @property
    def total_operations(self) -> float:
        return sum(self.operations.values())

"""The queue between host and device: when kernels start, given how long each runs and how they are launched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hotlap.core.errors import InputError
from hotlap.core.model.simulate import chip as facts

Mode = Literal["stream", "graph", "dependent"]
HOST_S = 2e-6  # of the host per launch in a stream: LAUNCH_S["stream"] of `calls`
REACH_S = 3e-6  # from the call to the first block: assumed, of the size NVIDIA drivers show
QUEUE_MOST = 1024  # launches that wait; a host that is further ahead stands still: assumed, CUDA's documented least is not published
DEPENDENT_S = 0.2e-6  # gap where the next kernel's blocks are placed while the last one ends (programmatic dependent launch): assumed


@dataclass(frozen=True)
class LaunchTimeline:
    """Seconds from the first launch call."""

    starts: tuple[float, ...]
    ends: tuple[float, ...]
    host_s: float  # until the host is free again

    @property
    def seconds(self) -> float:
        return self.ends[-1] if self.ends else 0.0


def gap_s(mode: Mode) -> float:
    """From the end of one kernel to the start of the next that already waits."""
    if mode not in ("stream", "graph", "dependent"):
        raise InputError(f"there is no launch mode '{mode}'; there are stream, graph, dependent")
    return DEPENDENT_S if mode == "dependent" else facts.GAP_S


def timeline(kernels_s: Sequence[float], mode: Mode = "stream", host_s: float = HOST_S) -> LaunchTimeline:
    """Kernels one after another in one queue. A graph is one launch for all of them; otherwise each costs the host `host_s`."""
    gap, host = gap_s(mode), 0.0
    starts: list[float] = []
    ends: list[float] = []
    for number, seconds in enumerate(kernels_s):
        if not seconds >= 0:
            raise InputError(f"a kernel cannot take {seconds!r} s")
        if mode != "graph" or number == 0:
            if number >= QUEUE_MOST:
                host = max(host, starts[number - QUEUE_MOST])
            host += host_s
        start = max(host + REACH_S, ends[-1] + gap if ends else 0.0)
        starts.append(start)
        ends.append(start + seconds)
    return LaunchTimeline(tuple(starts), tuple(ends), host)

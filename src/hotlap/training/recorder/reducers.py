"""How much of DistributedDataParallel's all-reduce is exposed: what a backward pass still waits for when its own work is done.

DDP's logger keeps when the computing of a backward pass began and ended and when its communication did, as far as it is told to look at
each step. On a processor those are times; on CUDA they are events that are waited for, so there it is left at one step in a hundred and
nothing is read here.
"""

from __future__ import annotations

import functools
import statistics
import weakref
from collections import deque
from typing import Any

KEPT = 999  # steps


class Reducers:
    """The instances that a program made, and what their last steps took."""

    def __init__(self) -> None:
        self.known: list[weakref.ref[Any]] = []
        self.begun: dict[int, int] = {}  # instance → when its last communication that was read began
        self.taken: deque[float] = deque(maxlen=KEPT)
        self.exposed: deque[float] = deque(maxlen=KEPT)

    def arm(self, module: Any) -> None:
        kind = getattr(module, "DistributedDataParallel", None)
        if kind is None:
            return
        original = kind.__init__

        @functools.wraps(original)
        def init(instance: Any, *args: Any, **kwargs: Any) -> None:
            original(instance, *args, **kwargs)
            try:
                if instance.device_type == "cpu":
                    instance._set_ddp_runtime_logging_sample_rate(1)
                    self.known.append(weakref.ref(instance))
            except Exception:  # another version of PyTorch: the wait stays within the backward pass
                return

        kind.__init__ = init

    def after_backward(self) -> float:
        """Seconds that the backward pass which ended waited for communication alone."""
        exposed = 0.0
        for place, reference in enumerate(self.known):
            instance = reference()
            try:
                if instance is None:
                    continue
                instance.logger.set_runtime_stats_and_log()
                known = instance.logger._get_ddp_logging_data().ints_map
                began, ended = known["backward_comm_time_start"], known["backward_comm_time_end"]
                if began == self.begun.get(place) or not 0 < began < ended:
                    continue  # without a reduction, as under no_sync()
                self.begun[place] = began
                waited = min(max(ended - known["backward_compute_time_end"], 0), ended - began) / 1e9
            except Exception:
                continue
            self.taken.append((ended - began) / 1e9)
            self.exposed.append(waited)
            exposed += waited
        return exposed

    def medians(self) -> dict[str, float | None]:
        """Seconds of a step."""
        taken = statistics.median(self.taken) if self.taken else None
        return {"reduced_s": taken, "reduced_exposed_s": statistics.median(self.exposed) if self.exposed else None}

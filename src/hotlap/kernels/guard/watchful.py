"""A user's kernel, watched in the process that measures it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from hotlap.core.measure import guard
from hotlap.kernels.guard import timers, zones

_clock, _sleep, _all_s, _own_s = time.perf_counter, time.sleep, time.process_time, time.thread_time  # bound before any kernel is loaded
_ZONES = ("not_plain", "shared", "goes_on", "written_outside")


class Watchful(guard.Guard):
    """Everything that docs/honest-timing.md says of users' kernels, but for what the harness holds against all operators."""

    again = True

    def watch(self, library: Any, target: Any, parts: Sequence[tuple[Any, Sequence[str]]]) -> None:
        self.library = library
        self.changed = timers.watch(library, target, (*parts, (Watchful, _METHODS), (zones, _ZONES)))

    def placed(self, value: Any) -> Any:
        return zones.guarded(self.library, value)

    def outside(self, inputs: Mapping[str, Any]) -> str:
        return zones.written_outside(self.library, inputs)

    def refused(self, outputs: Sequence[Any], inputs: Mapping[str, Any], place: Any, writes: Sequence[str]) -> str:
        return zones.not_plain(self.library, outputs, inputs, place, writes)

    def shared(self, first: Sequence[Any], second: Sequence[Any], inputs: Mapping[str, Any], writes: Sequence[str]) -> str:
        return zones.shared(self.library, first, second, inputs, writes)

    def unfinished(self, place: Any) -> str:
        if place != "cpu" or not zones.goes_on(_sleep, _clock, lambda: _all_s() - _own_s()):
            return ""
        guard.spent.append("threads")
        return "the process goes on computing after the call has returned: threads work outside the timed region"

    def replaced(self) -> str:
        part = self.changed()
        if not part:
            return ""
        guard.spent.append(part)
        return f"{part} was replaced while the kernel ran: what times and checks must stay as it is"


_METHODS = ("outside", "refused", "shared", "unfinished", "replaced")

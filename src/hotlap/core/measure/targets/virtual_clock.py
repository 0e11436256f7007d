"""A clock that devices without hardware share with their sensors: a day passes in minutes, and the same way each time."""

from __future__ import annotations

import heapq
from collections.abc import Callable


class VirtualClock:
    """Time that passes only when something is done; appointments are kept on the way."""

    def __init__(self) -> None:
        self.time_s = 0.0
        self.due: list[tuple[float, int, float, Callable[[], None]]] = []
        self.count = 0

    def now(self) -> float:
        return self.time_s

    def sleep(self, seconds: float) -> None:
        until = self.time_s + max(seconds, 0.0)
        while self.due and self.due[0][0] <= until:
            at, number, period_s, call = heapq.heappop(self.due)
            self.time_s = max(at, self.time_s)
            call()
            heapq.heappush(self.due, (at + period_s, number, period_s, call))
        self.time_s = until

    def every(self, period_s: float, call: Callable[[], None]) -> Callable[[], None]:
        self.count += 1
        number = self.count
        heapq.heappush(self.due, (self.time_s + period_s, number, period_s, call))

        def stop() -> None:
            self.due = [entry for entry in self.due if entry[1] != number]
            heapq.heapify(self.due)

        return stop

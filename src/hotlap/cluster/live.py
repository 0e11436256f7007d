"""Progress of a campaign on standard error: a line for what goes wrong, and one that counts; on a terminal the latter is redrawn."""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import TextIO

from hotlap.cluster.record import STATES, MemberEvent, State
from hotlap.core.show import words
from hotlap.core.units import show

EACH = 64  # members, up to which each has a line of its own
DRAWN_S = 0.2


class ClusterView:
    """`total`: members × steps."""

    def __init__(self, total: int, members: int, steps: dict[int, str], out: TextIO | None = None) -> None:
        self.total, self.steps, self.out = total, steps, out or sys.stderr
        self.each, self.redrawn = members <= EACH, self.out.isatty()
        self._states: dict[tuple[int, str], State] = {}
        self._drawn_s, self._width = 0.0, 0

    def tell(self, event: MemberEvent) -> None:
        self._states[event.step, event.member] = event.to
        if event.to not in ("running", "measured") or (self.each and event.to == "measured") or event.was == "silent":
            took = f" after {show(event.seconds, 's')}" if event.seconds is not None else ""
            step = f" {self.steps[event.step]}" if len(self.steps) > 1 else ""
            self._line(f"{event.member}{step}: {event.to}{took}{f': {event.why}' if event.why else ''}")
        self._draw()

    def end(self) -> None:
        self._erase()

    def counted(self) -> str:
        counts = Counter(self._states.values())
        return ", ".join([f"{counts['measured']} of {self.total} measured", *(f"{counts[s]} {s}" for s in STATES[1:] if counts[s])])

    def _line(self, text: str) -> None:
        self._erase()
        print(f"hotlap: {words.clean(text)}", file=self.out, flush=True)

    def _draw(self) -> None:
        if not self.redrawn or time.monotonic() - self._drawn_s < DRAWN_S:
            return
        self._erase()
        text = self.counted()
        self.out.write(text)
        self.out.flush()
        self._drawn_s, self._width = time.monotonic(), len(text)

    def _erase(self) -> None:
        if self._width:
            self.out.write("\r" + " " * self._width + "\r")
            self._width = 0

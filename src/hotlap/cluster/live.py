"""Progress of a campaign on standard error: a line for what goes wrong, and one that counts; on a terminal the latter is redrawn.

    2 of 4 measured, 1 died, 1 running · slot03 · 12 s
"""

from __future__ import annotations

import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import TextIO

from hotlap.cluster.record import STATES, MemberEvent, State
from hotlap.core.show import words
from hotlap.core.units import show

EACH = 64  # members, up to which each has a line of its own
DRAWN_S = 0.2
NAMED = 4  # members that are waited for
PATIENCE_S = 3.0  # for agents to answer, until those that have not are named


class ClusterView:
    """`total`: members × steps."""

    def __init__(self, total: int, members: int, steps: dict[int, str], out: TextIO | None = None) -> None:
        self.total, self.steps, self.out = total, steps, out or sys.stderr
        self.each, self.redrawn = members <= EACH, self.out.isatty()
        self._states: dict[tuple[int, str], State] = {}
        self._began_s, self._drawn_s, self._width = time.monotonic(), 0.0, 0
        self._unanswered_s, self._named = 0.0, set[str]()

    def tell(self, event: MemberEvent) -> None:
        self._states[event.step, event.member] = event.to
        if event.to not in ("running", "measured") or (self.each and event.to == "measured") or event.was == "silent":
            took = f" after {show(event.seconds, 's')}" if event.seconds is not None and event.to != "timed out" else ""
            step = f" {self.steps[event.step]}" if len(self.steps) > 1 else ""
            self._line(f"{event.member}{step}: {event.to}{took}{f': {event.why}' if event.why else ''}")
        self.draw()

    def end(self) -> None:
        self._erase()

    def counted(self) -> str:
        counts = Counter(self._states.values())
        return ", ".join([f"{counts['measured']} of {self.total} measured", *(f"{counts[s]} {s}" for s in STATES[1:] if counts[s])])

    def _line(self, text: str) -> None:
        self._erase()
        print(f"hotlap: {words.clean(text)}", file=self.out, flush=True)

    def draw(self, unanswered: Sequence[str] = ()) -> None:
        """Anew, as often as it is worth it: counts, who is waited for, and since when the campaign runs. `unanswered`: members whose agents
        have not answered, which are named once in a line where that takes long."""
        now_s = time.monotonic()
        self._unanswered_s = (self._unanswered_s or now_s) if unanswered else 0.0
        if unanswered and now_s - self._unanswered_s > PATIENCE_S and not self._named.issuperset(unanswered):
            self._named.update(unanswered)
            self._line(f"waits for the agents of {words.counted(len(unanswered), 'member')}: {words.some(list(unanswered), NAMED)}")
        if not self.redrawn or (self._width and now_s - self._drawn_s < DRAWN_S):
            return
        self._erase()
        waited = [member for (_, member), state in self._states.items() if state in ("running", "silent")]
        whom = f"waits for the agent of {words.some(list(unanswered), NAMED)}" if unanswered else words.some(waited, NAMED)
        parts = [self.counted(), *([whom] if whom else []), _clock(int(now_s - self._began_s))]
        text = words.clean(" · ".join(parts))[: shutil.get_terminal_size().columns - 1]
        self.out.write(text)
        self.out.flush()
        self._drawn_s, self._width = now_s, len(text)

    def _erase(self) -> None:
        if self._width:
            self.out.write("\r" + " " * self._width + "\r")
            self._width = 0


def _clock(seconds: int) -> str:
    return f"{seconds // 60} min {seconds % 60} s" if seconds >= 60 else f"{seconds} s"

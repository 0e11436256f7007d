"""How a run is going, on standard error: one line rewritten on a terminal, one line a round in a log."""

from __future__ import annotations

from typing import TextIO

from hotlap import work
from hotlap.measure.protocol import Began, Ended, Took
from hotlap.record import Device, Plan
from hotlap.targets.base import SystemClock

BAR = 20  # characters


class Progress:
    """Listens to a session."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.live = stream, stream.isatty()
        self.plan: Plan | None = None
        self.labels: dict[str, str] = {}
        self.done = self.failed = 0
        self.clock = SystemClock()
        self.began_s = self.clock.now()
        self.drawn = False

    def begin(self, plan: Plan) -> None:
        """What is going to be measured."""
        self.plan = plan
        self.labels = {case.id: work.label(case) for case in plan.cases}
        self.began_s = self.clock.now()

    def __call__(self, device: Device, number: int, event: Began | Took | Ended | str) -> None:
        if isinstance(event, str):
            self._line(event)
        elif isinstance(event, Began):
            self._draw(device, number, self.labels.get(event.case, event.case))
        elif isinstance(event, Took):
            self.done += 1
            if event.samples.status in ("error", "invalid"):
                self.failed += 1
                if number == 0:
                    self._line(f"{self.labels.get(event.samples.case)}: {event.samples.status}: {event.samples.reason}")
        elif not self.live:
            self._line(f"{device.selector} round {number + 1} of {self._rounds()}: {event.seconds:.1f} s")

    def _rounds(self) -> str:
        assert self.plan is not None
        low, high = self.plan.measure.rounds, self.plan.measure.rounds_max
        return str(low) if low == high else f"{low} to {high}"

    def _draw(self, device: Device, number: int, label: str) -> None:
        if not self.live or self.plan is None:
            return
        total = max(len(self.plan.cases) * self.plan.measure.rounds, 1)
        share = min(self.done / total, 1.0)
        filled = int(share * BAR)
        left = (self.clock.now() - self.began_s) / self.done * (total - self.done) if self.done and share < 1 else 0.0
        eta = f"{left:3.0f} s left" if left else ""
        text = f"{'━' * filled}{'╌' * (BAR - filled)} round {number + 1} of {self._rounds()}  {eta}  {label}"
        self.stream.write(f"\r\x1b[K{device.selector}  {text}"[:160])
        self.stream.flush()
        self.drawn = True

    def _line(self, text: str) -> None:
        self.end()
        self.stream.write(f"{text}\n")
        self.stream.flush()

    def end(self) -> None:
        """Clears the line that was being rewritten."""
        if self.drawn:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
            self.drawn = False

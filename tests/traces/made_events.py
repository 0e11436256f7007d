"""Traces made by hand, in microseconds, for tests."""

from __future__ import annotations

import numpy as np

from hotlap.traces import events as ev
from hotlap.traces.building import Builder
from hotlap.traces.events import Events, Head
from hotlap.traces.timeline import Timeline


class Made:
    """Adds events one by one; `events()` is the trace."""

    def __init__(self) -> None:
        self.rows: list[dict[str, int]] = []
        self.into = Builder()
        self.correlation = 0

    def add(self, kind: int, name: str, start: float, length: float, **columns: int) -> int:
        row = {"start": round(start * 1000), "duration": round(length * 1000), "kind": kind, "name": self.into.names[name], **columns}
        self.rows.append(row)
        return len(self.rows) - 1

    def host(self, kind: int, name: str, start: float, length: float, thread: int = 1, **columns: int) -> int:
        return self.add(kind, name, start, length, thread=self.into.threads["1", str(thread)], **columns)

    def operator(self, name: str, start: float, length: float, thread: int = 1, **columns: int) -> int:
        return self.host(ev.OPERATOR, name, start, length, thread, **columns)

    def marker(self, name: str, start: float, length: float, thread: int = 1) -> int:
        return self.host(ev.MARKER, name, start, length, thread)

    def call(self, name: str, start: float, length: float, thread: int = 1) -> int:
        """A call that launches nothing."""
        return self.host(ev.RUNTIME, name, start, length, thread)

    def launch(
        self, name: str, called: float, begins: float, length: float, *, kind: int = ev.KERNEL, thread: int = 1, stream: int = 7, took: float = 4.0,
        call: str = "cudaLaunchKernel", device: int = 0,
    ) -> tuple[int, int]:  # fmt: skip
        """A call at `called` that takes `took`, and its work at `begins`: their places."""
        self.correlation += 1
        first = self.host(ev.RUNTIME, call, called, took, thread, correlation=self.correlation)
        return first, self.add(kind, name, begins, length, device=device, stream=stream, correlation=self.correlation)

    def events(self, **head: object) -> Events:
        columns = {name: np.array([row.get(name, -1) for row in self.rows]) for name in ev.COLUMNS}
        self.into.add(**columns)
        return Timeline("made", Head(reader="made", **head), self.into.arrays(), self.into.tables())  # type: ignore[arg-type]

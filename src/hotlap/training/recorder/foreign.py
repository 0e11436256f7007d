"""Processor time that other programs used while this one's steps ran. Runs within the measured program."""

from __future__ import annotations

import os
import time


class ForeignTime:
    """`seconds`: of all processors, without this process, over the stretches between `begin` and `end`; below zero by the system's
    rounding where there is next to none."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.since: float | None = None

    def begin(self) -> None:
        self.since = _used()

    def end(self) -> None:
        now = _used()
        if self.since is not None and now is not None:
            self.seconds += now - self.since
        self.since = None

    def so_far(self) -> float | None:
        """None where the system does not say, or nothing has begun."""
        now = _used()
        return None if self.since is None or now is None else self.seconds + now - self.since


def _used() -> float | None:
    """Seconds of processors by all other processes since the machine started: user, nice, system, and of interrupts."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            fields = file.readline().split()
        return sum(int(fields[place]) for place in (1, 2, 3, 6, 7)) / os.sysconf("SC_CLK_TCK") - time.process_time()
    except (OSError, ValueError, IndexError):
        return None

"""A trace, opened: what users of Python hold in their hands."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from hotlap.trace import breakdown, opening
from hotlap.trace.breakdown import Breakdown
from hotlap.trace.events import Events


class Timeline(Events):
    """The events of one trace in columns, and what their time went into. `Timeline.open(path)` reads one."""

    @classmethod
    def open(cls, path: str | Path, columns: str = "all", cache: bool = True) -> Self:
        """A trace of any format Hotlap reads, or InputError that says why not.

        `columns` is "all", or "breakdown": only those that `breakdown()` needs, read faster. `cache` keeps the columns of
        large files under HOTLAP_HOME, so that a second opening takes no time.
        """
        return cls(*opening.read(Path(path), columns, cache))

    def breakdown(self, device: int | None = None) -> Breakdown:
        """Where the time of the devices went: shares of compute, exposed communication, exposed copies, idle, and the window."""
        return breakdown.of(self, device)

"""A trace, opened: what users of Python hold in their hands."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np

from hotlap.core.errors import InputError
from hotlap.traces import breakdown, opening
from hotlap.traces.breakdown import Breakdown
from hotlap.traces.events import KINDS, Events
from hotlap.traces.study import Study


class Timeline(Events):
    """The events of one trace in columns, and what their time went into. `Timeline.open(path)` reads one."""

    @classmethod
    def open(cls, path: str | Path, columns: str = "all", cache: bool = True) -> Self:
        """A trace of any format Hotlap reads, or InputError that says why not.

        `columns` is "all", or "breakdown": only those that `breakdown()` needs, read faster. `cache` keeps the columns of
        large files under HOTLAP_HOME, so that a second opening takes no time.
        """
        return cls(*opening.read(Path(path), columns, cache))

    def study(self, machine: str = "") -> Study:
        """All else that can be asked of it: steps, idle by cause, kernels, what-if. `machine`: its GPU, where it is not recognised."""
        return Study(self, machine)

    def arrow(self) -> Any:
        """Its columns as an Arrow table, names in place of their numbers. Raises InputError where pyarrow is missing."""
        try:
            import pyarrow
        except ImportError:
            raise InputError("an Arrow table needs pyarrow; pip install pyarrow brings it") from None
        columns = {name: pyarrow.array(np.asarray(column)) for name, column in self.columns.items() if name not in ("name", "kind")}
        for name, texts in (("name", self.names), ("kind", list(KINDS))):
            places = pyarrow.array(np.asarray(self.columns[name]).astype(np.int32))
            columns[name] = pyarrow.DictionaryArray.from_arrays(places, pyarrow.array(texts, pyarrow.string()))
        return pyarrow.table(columns)

    def breakdown(self, device: int | None = None) -> Breakdown:
        """Where the time of the devices went: shares of compute, exposed communication, exposed copies, idle, and the window."""
        return breakdown.of(self, device)

"""What a reader of a trace format does: recognise a file, and put its events into columns."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from hotlap.traces.building import Builder
from hotlap.traces.events import Head


class TraceReader(Protocol):
    """One file format. A module with these three names is one."""

    NAME: str  # kineto
    ABOUT: str  # what writes it, in a few words

    def sniff(self, path: Path, head: bytes) -> bool:
        """Whether this looks like its format; `head` is the beginning of the file, unpacked."""

    def read(self, path: Path, into: Builder) -> Head:
        """Adds all events to `into`. Raises InputError where the file is not usable at all; lesser trouble is a notice."""

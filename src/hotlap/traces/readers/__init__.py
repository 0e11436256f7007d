"""Readers of trace formats."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from hotlap.traces.readers import kineto, memory, nsys, nsysjax, rocpd, rocprof, xplane
from hotlap.traces.readers.base import TraceReader

READERS = cast(list[TraceReader], [nsysjax, rocprof, kineto, rocpd, nsys, memory, xplane])


def find(path: Path, head: bytes) -> TraceReader | None:
    """The first reader that recognises a file."""
    return next((one for one in READERS if one.sniff(path, head)), None)

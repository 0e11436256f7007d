"""Readers of trace formats."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from hotlap.traces.readers import kineto, memory, nsys, nsysjax, rocpd, rocprof, xplane
from hotlap.traces.readers.base import Reader

READERS = cast(list[Reader], [nsysjax, rocprof, kineto, rocpd, nsys, memory, xplane])


def find(path: Path, head: bytes) -> Reader | None:
    """The first reader that recognises a file."""
    return next((one for one in READERS if one.sniff(path, head)), None)

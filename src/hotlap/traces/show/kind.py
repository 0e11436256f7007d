"""How captures are shown (`hotlap.core.show.kinds.Kind`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from hotlap.core.store.bundle import Bundle
from hotlap.traces import captured
from hotlap.traces.captured import Captured
from hotlap.traces.show import capture

NO_GATE = ""
UNFINISHED = "not finished: it was killed, or still goes on"
CASES = True
NO_CASES = ""
METHOD = ""


class Capture(NamedTuple):
    path: Path
    found: Captured


def read(bundle: Bundle) -> Capture | None:
    found = captured.read(bundle.path)
    return None if found is None else Capture(bundle.path, found)


def text(found: Capture, width: int, color: bool) -> str:
    return "\n".join(capture.lines(found.path, found.found, width, color))


def document(found: Capture) -> dict[str, Any]:
    return {}


def measured(found: Capture) -> bool:
    return bool(found.found.traces)


def lead(found: Capture) -> str:
    return ""


def notices(found: Capture) -> str:
    return ""

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
    captured: Captured


def read(bundle: Bundle) -> Capture | None:
    found = captured.read(bundle.path)
    return None if found is None else Capture(bundle.path, found)


def text(content: Capture, width: int, color: bool) -> str:
    return "\n".join(capture.lines(content.path, content.captured, width, color))


def document(capture: Capture) -> dict[str, Any]:
    return {}


def measured(capture: Capture) -> bool:
    return bool(capture.captured.traces)


def lead(capture: Capture) -> str:
    return ""


def notices(capture: Capture) -> str:
    return ""

"""Captures of any tool: recognised by what they hold, never by their name.

The order of `FORMATS` is that of asking. Each module has NAME, ORIGIN (the public document that showed the format), `detect` and `read`.
"""

from __future__ import annotations

from pathlib import Path

from hotlap.core.errors import InputError
from hotlap.frames import capframex, mangohud, presentmon, sheet
from hotlap.frames.record import FrameCapture

FORMATS = (capframex, mangohud, presentmon)
SUMMARIES = {"% min fps": "MangoHud's summary", "log name": "FrameView's summary"}
KNOWN = "PresentMon (1, 2, today's), MangoHud, CapFrameX, FrameView, OCAT"


def read(path: Path) -> list[FrameCapture]:
    """A file's captures; CapFrameX keeps several in one. Raises InputError: it is none of these, or says what cannot be."""
    head = sheet.head(path)
    if not any(line.strip() for line in head.lines):
        raise InputError(f"{path} is empty; a capture of {KNOWN} is needed")
    for form in FORMATS:
        if (known := form.detect(head)) is not None:
            captures: list[FrameCapture] = form.read(known)
            return captures
    first = head.lines[0].casefold()
    for words, whose in SUMMARIES.items():
        if words in first:
            raise InputError(f"{path} is {whose}, which holds no frames; give the log that it was made from")
    raise InputError(f"{path} is no capture that is known: no heading of {KNOWN} in its first {sheet.HEAD} lines")

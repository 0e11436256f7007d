"""Captures of any tool: recognised by what they hold, never by their name.

The order of `FORMATS` is that of asking. Each module has NAME, ORIGIN (the public document that showed the format), `detect` and `read`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from msgspec import structs

from hotlap.core.errors import InputError
from hotlap.core.record import Notice
from hotlap.frames import capframex, mangohud, presentmon, sheet
from hotlap.frames.record import FrameCapture
from hotlap.frames.sheet import SheetHead

FORMATS = (capframex, mangohud, presentmon)
KNOWN = "PresentMon (1, 2, today's), MangoHud, CapFrameX, FrameView, OCAT"


def read(path: Path) -> list[FrameCapture]:
    """A file's captures; CapFrameX keeps several in one. Raises InputError: it is none of these, or says what cannot be."""
    head = sheet.head(path)
    if not any(line.strip() for line in head.lines):
        raise InputError(f"{path} is empty; a capture of {KNOWN} is needed")
    for form in FORMATS:
        if (known := form.detect(head)) is not None:
            captures: list[FrameCapture] = form.read(known)
            return [_without_summary(capture, known) for capture in captures]
    if whose := sheet.summary(head.lines[0]):
        raise InputError(f"{path} is {whose}, which holds no frames; give the log that it was made from")
    raise InputError(f"{path} is no capture that is known: no heading of {KNOWN} in its first {sheet.HEAD} lines")


def _without_summary(capture: FrameCapture, head: SheetHead) -> FrameCapture:
    """What stands above the heading is no frame; a summary is worth a word."""
    whose = next(filter(None, map(sheet.summary, head.lines[: max(head.place, 0)])), "")
    if not whose:
        return capture
    notice = Notice("summary_above", f"{whose} stands above the frames of {head.path.name}, and is left out")
    return replace(capture, kept=structs.replace(capture.kept, notices=[*capture.kept.notices, notice]))

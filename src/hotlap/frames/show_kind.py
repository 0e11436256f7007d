"""How captures are shown (`hotlap.core.show.kinds.Kind`)."""

from __future__ import annotations

from html import escape
from typing import Any

from hotlap.core.show.sections.base import ReportSection
from hotlap.frames import judged, show, show_page
from hotlap.frames.judged import JudgedFrames

NO_GATE = ""
UNFINISHED = "not finished"
CASES = True
NO_CASES = ""
METHOD = ""
TURNS = "recording captures of A and B in turns"
ROUNDS = "a round is a capture, so intervals cover changes from one run of the program to another"

read, lead = judged.read, show_page.lead


def text(content: JudgedFrames, width: int, color: bool) -> str:
    return "\n".join(show.lines(content, width, color))


def document(content: JudgedFrames) -> dict[str, Any]:
    return {"frames": {"asked": content.whole.asked, "captures": content.whole.captures, "streams": content.figures}}


def measured(content: JudgedFrames) -> bool:
    return bool(content.figures)


SECTION = ReportSection("Frames", "Frames", lambda report: "".join(map(show_page.section, report.of("frames"))))


def notices(content: JudgedFrames) -> str:
    return "".join(f"<p>{escape(notice.text)}</p>" for notice in content.notices)

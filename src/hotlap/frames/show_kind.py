"""How captures are shown (`hotlap.core.show.kinds.Kind`)."""

from __future__ import annotations

from html import escape
from typing import Any

from hotlap.core.show import listing
from hotlap.core.show.sections.base import Report, ReportSection
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


def todo(content: JudgedFrames) -> list[str]:
    """Of notices with what to do, and of hitches."""
    lines = [f"{notice.action[0].upper()}{notice.action[1:]}: {notice.seen}" for notice in content.notices if notice.action]
    every = show.worst(content, content.keys[0]) if content.figures else []
    unknown = any(hitch.cause == "unknown" for _, hitch in every)
    more = "; a capture with the busy time of GPU and CPU, as PresentMon 2 writes, names more of them" if unknown else ""
    return [*lines, *([f"Look into the hitches: {show.counted(every)}{more}"] if every else [])]


def _sections(report: Report) -> str:
    """Each under its run, where there are several."""
    every: list[JudgedFrames] = report.of("frames")
    heads = [f"<h3>{escape(listing.heading(one.bundle, []).splitlines()[0])}</h3>" * (len(every) > 1) for one in every]
    return "".join(head + show_page.section(one) for head, one in zip(heads, every, strict=True))


SECTION = ReportSection("Frames", "Frames", _sections)


def notices(content: JudgedFrames) -> str:
    return "".join(f"<p>{escape(notice.text)}</p>" for notice in content.notices)

"""How captures are shown (`hotlap.core.show.kinds.Kind`): what recording cost, and what is worth doing about the program."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from hotlap.core.errors import HotlapError
from hotlap.core.record import Finding
from hotlap.core.show import layout
from hotlap.core.show.sections.base import Report, ReportSection
from hotlap.core.show.sections.base import facts as listed
from hotlap.core.show.table import text as escaped
from hotlap.core.store.bundle import Bundle
from hotlap.traces import captured, ranks
from hotlap.traces.advice import ranks as advising_ranks
from hotlap.traces.advice import trace as advising
from hotlap.traces.advice.trace import Advice
from hotlap.traces.captured import Captured
from hotlap.traces.show import capture, trace
from hotlap.traces.study import Study
from hotlap.traces.timeline import Timeline

NO_GATE = "{run} is a capture, whose steps have no rounds to judge by; hotlap trace diff A B compares two traces"
UNFINISHED = "not finished: it was killed, or still goes on"
CASES = False
NO_CASES = "a capture has no cases to explain; hotlap show {run} says where the program's time went, what to do, and what recording cost"
METHOD = (
    "A capture runs the program once, with a profiler on for a window of its steps. A finding’s gain is the share of that window that "
    "mending it would save. Steps are timed from end to end by the process itself while the profiler is off; what recording cost "
    "comes from those before and after the window, and findings are not corrected for it."
)


class Looked(NamedTuple):
    """What was found in one trace, or in those of all ranks together; `trouble`: why it cannot be read."""

    name: str
    advice: Advice
    trouble: str = ""


@dataclass(frozen=True)
class Capture:
    bundle: Bundle
    captured: Captured

    @property
    def path(self) -> Path:
        return self.bundle.path

    @cached_property
    def looked(self) -> list[Looked]:
        """Each trace; of several ranks all together, then the one that the others wait for most. Reads the traces, once."""
        if self.captured.tool == "ncu":
            return []
        if self.captured.ranks:
            try:
                whole = ranks.analysed([str(self.path / name) for name in self.captured.ranks])
                worst = Path(whole.ranks[whole.worst].file).name
                return [Looked("all ranks", Advice(advising_ranks.advise(whole), 0, None)), self._one(worst)]
            except HotlapError:
                pass  # they are looked into one by one
        return [self._one(name) for name in self.captured.traces]

    def _one(self, name: str) -> Looked:
        try:
            study = Study(Timeline.open(self.path / name))
            program = shlex.join(self.captured.argv)
            return Looked(name, advising.advise(study, program=program, crowded=self.captured.crowded))
        except HotlapError as error:
            return Looked(name, Advice([], 0, None), str(error))


def read(bundle: Bundle) -> Capture:
    """A capture that was killed before it wrote what came of it has its program, and no trace."""
    found = captured.read(bundle.path)
    return Capture(bundle, found or Captured(argv=[bundle.run.plan.about], tool="", exit_code=0))


def text(content: Capture, width: int, color: bool) -> str:
    lines = capture.lines(content.path, content.captured, width, color)
    for one in content.looked:
        lines += ["", layout.painted(one.name, "bold", color)] if len(content.looked) > 1 else [""]
        lines += layout.paragraph("", one.trouble, width) if one.trouble else trace.findings(one.advice, width, color)
    if content.captured.traces:
        lines += ["", f"next    {capture.further(content.path, content.captured)}"]
    return "\n".join(lines)


def document(capture: Capture) -> dict[str, Any]:
    return {}


def measured(capture: Capture) -> bool:
    return bool(capture.captured.traces)


def lead(content: Capture) -> str:
    """The program, and what gains most."""
    program = f"{capture.program(content.captured)}{capture.ended(content.captured)}"
    return f'<p class="lead">{escaped(_most(content))}</p><p class="sub">{escaped(program)}</p>'


def _most(content: Capture) -> str:
    if not content.captured.traces:
        return "No trace was recorded."
    found = [finding for one in content.looked for finding in one.advice.findings]
    if not found:
        readable = any(not one.trouble for one in content.looked)
        return "Nothing found that would gain 2 % or more of the window." if readable else "The traces were not looked into."
    first = max(found, key=lambda finding: finding.gain or 0.0)
    return f"Most to gain: {trace.gain(first)} of the window, {first.title[0].lower()}{first.title[1:]}."


def _section(report: Report) -> str:
    return "".join(map(_shown, report.of("capture")))


SECTION = ReportSection("Capture", "What to do, by what it would save of the window", _section)


def _shown(content: Capture) -> str:
    """Findings of each trace, then the window, its cost, and how to get the page of the trace."""
    parts = []
    for one in content.looked:
        parts += [f"<h3>{escaped(one.name)}</h3>"] if len(content.looked) > 1 else []
        parts.append(_findings(one))
    told = [(name.capitalize(), value) for name, value in capture.facts(content.captured)]
    traces = [("Trace", str(content.path / name)) for name in content.captured.traces] or [("Trace", "none was recorded")]
    shown = f"{''.join(parts)}<h3>What was recorded</h3>{listed([*told, *traces])}"
    if not content.captured.traces:
        return shown
    return f"{shown}<p>Look into it: <code>{escaped(capture.further(content.path, content.captured))}</code></p>"


def _findings(looked: Looked) -> str:
    if looked.trouble:
        return f'<p class="note">{escaped(looked.trouble)}</p>'
    items = "".join(map(_finding, looked.advice.findings))
    return f'<ul class="findings">{items}</ul>' if items else "<p>Nothing found that would gain 2 % or more.</p>"


def _finding(finding: Finding) -> str:
    parts = [finding.detail, finding.where and f"Where: {finding.where}", f"What to do: {finding.action}"]
    parts += [f"To prove it: {finding.experiment}"] if finding.experiment else []
    head = f"{trace.gain(finding)}: {finding.title}"
    told = "<br>".join(escaped(part[:1].upper() + part[1:]) for part in parts if part)
    return f'<li class="{finding.severity}"><b>{escaped(head)}</b><span>{told}</span></li>'


def notices(content: Capture) -> str:
    items = "".join(f'<li class="warning"><b>The record</b><span>{escaped(notice.text)}</span></li>' for notice in content.bundle.notices)
    return f'<ul class="findings">{items}</ul>' if items else ""

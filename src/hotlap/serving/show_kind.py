"""How benches of servers are shown (`hotlap.core.show.kinds.Kind`)."""

from __future__ import annotations

from html import escape
from typing import Any

from hotlap.core.show import kinds
from hotlap.core.show.sections.base import Report, ReportSection
from hotlap.core.store.bundle import Bundle
from hotlap.serving import definitions, reading, show, show_page, summary, verdict
from hotlap.serving.verdict import ServingVerdict

NO_GATE = (
    "{run} is a bench of a server, which has a verdict of its own: hotlap show {run}, and --slo and --attain when it is measured; "
    "hotlap serving ab compares two configurations"
)
UNFINISHED = "not finished: it was killed, or still goes on"
CASES = False
SUBJECT, ENDED = "bench of", {"rounds_max": "all requests were sent and waited for", "over": "the time is over"}
NO_CASES = "a bench of a server has no cases to explain; hotlap show {run} says what its requests took"
METHOD = ""


def read(bundle: Bundle) -> ServingVerdict | None:
    serving = reading.read(bundle)
    return None if serving is None else verdict.of(serving, summary.of(serving))


def text(judged: ServingVerdict, width: int, color: bool) -> str:
    return "\n".join(show.lines(judged, width, color))


def document(judged: ServingVerdict) -> dict[str, Any]:
    return {"serving": {
        "asked": judged.serving.served.asked, "summary": judged.summary, "client": judged.client, "expected": judged.expected,
        "state": judged.state, "definitions": [definitions.vllm(judged.serving)],
    }}  # fmt: skip


def measured(judged: ServingVerdict) -> bool:
    return judged.summary.outcomes["ok"] > 0


def title(judged: ServingVerdict) -> str:
    """Of a page: the server and its model."""
    return show.server_text(judged.serving.served.asked)


def lead(judged: ServingVerdict) -> str:
    return show_page.lead(judged)


def sections(report: Report) -> str:
    """Each bench, under a heading where there are several: those of a search by rate, as the search headed them."""
    benches = {judged.serving.run.id: judged for judged in report.of("serving")}
    if len(benches) == 1:
        return show_page.section(*benches.values())
    headed = kinds.headings(report.known.values())
    ordered = [run for run in headed if run in benches] + [run for run in benches if run not in headed]
    parts = ((headed.get(run) or show.asked_text(benches[run].serving.served.asked), run) for run in ordered)
    return "".join(f"<h3>{escape(heading)}</h3><p>{run}</p>{show_page.section(benches[run])}" for heading, run in parts)


SECTION = ReportSection("Requests", "Requests to the server", sections)


def notices(judged: ServingVerdict) -> str:
    return "".join(f"<p>{escape(notice.text)}</p>" for notice in judged.summary.notices)

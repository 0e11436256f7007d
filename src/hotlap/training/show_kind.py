"""How runs of training are shown (`hotlap.core.show.kinds.Kind`)."""

from __future__ import annotations

from html import escape
from typing import Any, NamedTuple

from hotlap.core.show.sections.base import ReportSection
from hotlap.core.store.bundle import Bundle
from hotlap.training import reading, show, show_page, summary
from hotlap.training.reading import TrainingRun
from hotlap.training.summary import TrainingSummary

NO_GATE = "{run} is a run of training: hotlap compare two of them, or measure both in turns with --against"
UNFINISHED = "not finished: it was killed, or still goes on"
CASES = False
SUBJECT = "training of"
NO_CASES = "steps of a program have no modelled case to explain; hotlap show {run} says where their time goes"
METHOD = ""
TURNS = "hotlap training run A --against B measures in turns and"


class ShownTraining(NamedTuple):
    """A run and its figures."""

    run: TrainingRun
    summary: TrainingSummary


def read(bundle: Bundle) -> ShownTraining | None:
    run = reading.read(bundle)
    return None if run is None else ShownTraining(run, summary.of(run))


def text(shown: ShownTraining, width: int, color: bool) -> str:
    return "\n".join(show.lines(shown.run, shown.summary, width, color))


def document(shown: ShownTraining) -> dict[str, Any]:
    return {"training": {"asked": shown.run.trained.asked, "summary": shown.summary}}


def measured(shown: ShownTraining) -> bool:
    return shown.summary.state != "nothing"


def lead(shown: ShownTraining) -> str:
    return show_page.lead(shown.run, shown.summary)


SECTION = ReportSection(
    "Steps", "Steps of training", lambda report: "".join(show_page.section(one.run, one.summary) for one in report.of("training"))
)


def notices(shown: ShownTraining) -> str:
    return "".join(f"<p>{escape(notice.text)}</p>" for notice in shown.summary.notices)

"""How a search is shown, on the terminal and as part of a page (`hotlap.core.show.kinds.Kind`)."""

from __future__ import annotations

from html import escape
from typing import Any

from hotlap.core.show import charts, words
from hotlap.core.show.sections.base import ReportSection
from hotlap.core.show.table import html
from hotlap.tuning import session, show
from hotlap.tuning.session import TuningRead

NO_GATE = "{run} is a search for settings, and has its answer: hotlap show {run}"
ENDED = {"precision": "answered", "budget": "the budget is too small"}
UNFINISHED = "not finished: hotlap tuning run --resume goes on"
CASES = False
NO_CASES = "a search for settings has no cases to explain; hotlap show {run} says what was tried and what remains"
METHOD = ""
STACKED = "results stack labelled"  # on a phone, where a row has no room for its columns

read, text = session.read, show.text


def document(shown: TuningRead) -> dict[str, Any]:
    return {"tuning": shown.kept, "trials": shown.trials}


def measured(shown: TuningRead) -> bool:
    return any(trial.value is not None for trial in shown.trials)


def lead(shown: TuningRead) -> str:
    label, what = show.facts(shown)[-1]
    return f'<p class="lead">{escape(f"{label}: {what}")}.</p><p>{escape(show.asked(shown))}.</p>'


def section(shown: TuningRead) -> str:
    done = shown.kept.outcome
    parts = "".join(f"<p>{escape(f'{label}: {what}')}</p>" for label, what in show.facts(shown)[:-1])  # the answer stands at the top
    tables = html(show.contributions(done), STACKED) if done and done.contributions else ""
    rows = show.dropped(shown)
    return f"{parts}{tables}{html(show.dropped_table(rows), STACKED) if rows else ''}{_runs(shown)}"


def _runs(shown: TuningRead) -> str:
    """Every run in its order, the winner's and those as found apart."""
    points = [(trial.number, trial.value, trial) for trial in shown.trials if trial.value is not None]
    if len(points) < 2:
        return ""
    values = [value for _, value, _ in points]
    asked, done = shown.kept.asked, shown.kept.outcome
    across = charts.linear_axis(0.0, float(points[-1][0]), lambda value: f"{value:.0f}", "run")
    up = charts.linear_axis(min(values), max(values), lambda value: words.quantity(value, asked.unit))
    chart = charts.Chart(across, up, f"{asked.goal} of every run")
    winner = done.winner if done else []
    for number, value, trial in points:
        mark = "s0" if not trial.settings else "s1" if trial.settings == winner else "s2"
        about = f"{show.named(trial.settings)}: {words.quantity(value, asked.unit, 4)}, {show.PHASES[trial.phase]}"
        chart.dot((float(number), value), mark, about)
    best = [("s1", f"{'the winner' if done and done.answer == 'gain' else 'the best candidate'}, {show.named(winner)}")] if winner else []
    legend = " ".join(f'<span class="key {mark}">{escape(name)}</span>' for mark, name in [("s0", "as found"), *best, ("s2", "others")])
    confirmed = "; those of the confirmation are last" if done and done.runs.get("confirmation") else ""
    caption = f"<figcaption><b>Runs</b> {escape(asked.goal)} of each, in their order{confirmed}: {legend}</figcaption>"
    return f'<div class="plots"><figure>{caption}{chart.svg()}</figure></div>'


SECTION = ReportSection("Tuning", "Settings searched", lambda report: "".join(map(section, report.of(session.KIND))))


def notices(_shown: TuningRead) -> str:
    return ""

"""A verdict as CI systems read it. Names from outside are escaped for what reads them: a runner's commands, Markdown, metrics.

GitHub: workflow commands and step summaries (docs.github.com, "Workflow commands"). GitLab: code quality and metrics reports
(docs.gitlab.com, "Code Quality report format", "Metrics reports").
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from hotlap.core.analysis import absent, changes
from hotlap.core.record import Judgement, Row, State
from hotlap.core.show import table, words
from hotlap.core.show.judgement import ORDER, reference, verdict
from hotlap.core.show.judgements import are_many, together
from hotlap.core.show.table import Cell, Column, Table

SHOWN = 100  # rows: a comment on GitHub has 65,536 characters at most
ANNOTATED = 10  # of a level: GitHub shows no more of a step
LEVELS: Mapping[State, str] = {"fail": "error", "invalid": "error", "error": "error", "inconclusive": "warning"}
SEVERITIES = {"error": "major", "warning": "minor"}


class PlanFile(NamedTuple):
    """The plan's file, as seen from the top of the repository, and the line of each case by its id."""

    file: str = ""
    lines: Mapping[str, int] = {}


# ---------------------------------------------------------------- Markdown


def markdown(judged: Sequence[Judgement], file: str = "") -> str:
    """For a step's summary or a comment: the verdict of each run, then its cases, the worst first; of runs of many devices one verdict, and
    what did not pass. `file`: the baseline or rules."""
    blocks = [_of_many(judged, file)] if are_many(judged) else [_block(one, file) for one in judged]
    return "\n\n".join(blocks) + "\n"


def _block(judgement: Judgement, file: str) -> str:
    rows = _worst_first(judgement.rows)
    shown = rows[:SHOWN]
    several = len({row.device for row in rows}) > 1
    columns = [
        Column("verdict", [Cell(verdict(row)) for row in shown]),
        *([Column("device", [Cell(row.device, code=True) for row in shown])] if several else []),
        Column("case", [Cell(row.label, code=True) for row in shown]),
        Column("value", [Cell(words.value(row)) for row in shown], right=True),
        Column(reference(judgement.against), [Cell(_change(row)) for row in shown], right=True),
    ]
    open_rows = [row for row in shown if row.verdict.state in LEVELS and row.verdict.reason]
    names = [f"{row.device} {row.label}" if several else row.label for row in open_rows]
    reasons = [f"- {table.code(name)}: {prose(row.verdict.reason)}" for name, row in zip(names, open_rows, strict=True)]
    more = [f"… and {len(rows) - SHOWN} more cases."] if len(rows) > SHOWN else []
    head = f"### hotlap gate: {words.STATES[judgement.state].upper()}"
    read = f" ({table.code(file)})" if file and file not in judgement.against else ""
    about = f"{prose(judgement.reason)}, against {table.code(judgement.against)}{read}; run {table.code(judgement.run)}"
    reasons += [f"- {table.code(absent.folded(names))}: {prose(why)}" for names, why in absent.groups(judgement.missing.items())]
    parts = [head, about, "\n".join(table.markdown(Table(columns))) if shown else "", "\n".join(more), "\n".join(reasons)]
    return "\n\n".join(part for part in parts if part)


def _of_many(judged: Sequence[Judgement], file: str) -> str:
    whole = together(judged)
    bad = [row for row in whole.rows if row.verdict.state not in ("pass", "not_run", "measured")]
    return _block(msgspec.structs.replace(whole, rows=bad), file)


def prose(text: str) -> str:
    """Text in which Markdown marks nothing, links nothing and calls nobody."""
    escaped = re.sub(r"([#~>!()])", r"\\\1", table.plain(text))
    escaped = escaped.replace("://", "\\://").replace("www.", "www\\.")
    return escaped.replace("@", "@<!-- -->")


def _change(row: Row) -> str:
    verdict = row.verdict
    return changes.sized(row.result, verdict.ratio, verdict.low, verdict.high) if verdict.ratio else words.DASH


def _worst_first(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (ORDER.index(row.verdict.state), row.verdict.ratio if row.verdict.ratio is not None else 1.0))


# ---------------------------------------------------------------- GitHub's annotations


def workflow_commands(judged: Sequence[Judgement], place: PlanFile) -> str:
    """A line per case that did not pass, at most ten errors and ten warnings, and a notice with the verdict of each run; of runs of many
    devices those of all together."""
    lines: list[str] = []
    if are_many(judged):
        judged = [together(judged)]
    for one in judged:
        rows = [row for row in _worst_first(one.rows) if row.verdict.state in LEVELS]
        for level in ("error", "warning"):
            lines += [_annotation(row, level, place, _on(row, one)) for row in rows if LEVELS[row.verdict.state] == level][:ANNOTATED]
        text = f"{words.STATES[one.state].upper()} against {words.clean(one.against)}: {words.clean(one.reason)}"
        lines.append(f"::notice title=hotlap gate::{_data(text)}")
    return "\n".join(lines) + "\n"


def _on(row: Row, judgement: Judgement) -> str:
    """The device of a row, where there are several."""
    return f"{row.device}: " if len({one.device for one in judgement.rows}) > 1 else ""


def _annotation(row: Row, level: str, place: PlanFile, on: str) -> str:
    where = f",file={_property(place.file)},line={place.lines.get(row.case.id, 1)}" if place.file else ""
    title = f"{words.state(row)}: {words.clean(row.label)}"
    return f"::{level} title={_property(title)}{where}::{_data(words.clean(f'{on}{row.verdict.reason}'))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


# ---------------------------------------------------------------- GitLab's reports


def codequality(judged: Sequence[Judgement], place: PlanFile) -> str:
    """An issue per case that did not pass, at the case's line of the plan."""
    issues = [
        {
            "description": f"{words.state(row)}: {words.clean(f'{row.label}: {_on(row, one)}{row.verdict.reason}')}",
            "check_name": "hotlap gate", "severity": SEVERITIES[LEVELS[row.verdict.state]],
            "fingerprint": hashlib.sha256(f"hotlap {row.case.id} {row.device}".encode()).hexdigest(),
            "location": {"path": place.file or "hotlap", "lines": {"begin": place.lines.get(row.case.id, 1)}},
        }
        for one in judged for row in _worst_first(one.rows) if row.verdict.state in LEVELS
    ]
    return msgspec.json.format(msgspec.json.encode(issues), indent=1).decode() + "\n"


def metrics(judged: Sequence[Judgement]) -> str:
    """Value and ratio of each case in OpenMetrics' text format; a merge request shows how they change."""
    rows = [row for one in judged for row in one.rows if row.summary.median is not None]
    values = [f'hotlap_value{{{_labels(row)},unit="{_label(row.result.unit)}"}} {row.summary.median!r}' for row in rows]
    ratios = [f"hotlap_ratio{{{_labels(row)}}} {row.verdict.ratio!r}" for row in rows if row.verdict.ratio is not None]
    return "\n".join(["# TYPE hotlap_value gauge", *values, "# TYPE hotlap_ratio gauge", *ratios, "# EOF"]) + "\n"


def _labels(row: Row) -> str:
    return f'case="{_label(row.label)}",device="{_label(row.device)}"'


def _label(text: str) -> str:
    return words.clean(text).replace("\\", "\\\\").replace('"', '\\"')

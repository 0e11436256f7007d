"""What to doubt about a table of results: each kind once, with the cases it concerns and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hotlap.record import Row
from hotlap.report import words

WEIGHT = {"invalid": "error", "error": "error", "inconclusive": "warning", "not run": "info"}


@dataclass(frozen=True)
class Doubt:
    """One kind of doubt. `seen` says what was found, `action` what to do."""

    name: str
    rows: tuple[Row, ...]
    seen: str
    action: str = ""
    severity: str = "warning"  # info, warning or error

    @property
    def labels(self) -> list[str]:
        return [row.label for row in self.rows]


def find(rows: Sequence[Row]) -> list[Doubt]:
    """Heaviest first: what cannot be used, what is too wide, rounds that failed, flags, warnings of the summary, what was not run."""
    return [
        *_by_reason(rows, "invalid", "the number is not shown: do not use it"), *_by_reason(rows, "error"), *_inconclusive(rows),
        *_notes(rows), *_flags(rows), *_warnings(rows), *_by_reason(rows, "not_run"),
    ]


def _by_reason(rows: Sequence[Row], state: str, action: str = "") -> list[Doubt]:
    """One doubt per reason; a number that differs between its cases is said as its range."""
    of_state = [row for row in rows if row.verdict.state == state]
    name = words.STATES[state]
    return [
        Doubt(name, tuple(group), words.clean(why or "no reason was given"), action, WEIGHT[name])
        for group, why in words.alike(of_state, lambda row: row.verdict.reason)
    ]


def _inconclusive(rows: Sequence[Row]) -> list[Doubt]:
    found = [row for row in rows if row.verdict.state == "inconclusive"]
    few = [row for row in found if row.summary.half_width is None]
    wide = sorted((row for row in found if row.summary.half_width is not None), key=lambda row: -(row.summary.half_width or 0))
    doubts = []
    if wide:
        seen, _, action = wide[0].verdict.reason.rpartition(": ")
        doubts.append(Doubt("inconclusive", tuple(wide), ("the widest " if len(wide) > 1 else "") + seen, action))
    if few:
        seen, _, action = few[0].verdict.reason.rpartition(": ")
        doubts.append(Doubt("inconclusive", tuple(few), seen, action))
    return doubts


def _notes(rows: Sequence[Row]) -> list[Doubt]:
    """What a result says of itself although its number stands: rounds that failed, above all."""
    noted = [row for row in rows if words.stands(row) and row.result.reason]
    return [Doubt("incomplete", tuple(group), words.clean(why)) for group, why in words.alike(noted, lambda row: row.result.reason)]


def _flags(rows: Sequence[Row]) -> list[Doubt]:
    flagged: dict[str, list[tuple[Row, str]]] = {}
    for row in rows:
        details = {flag.name: flag.detail for flag in reversed(row.result.flags)}
        for name in words.flags(row):
            flagged.setdefault(name, []).append((row, details[name]))
    doubts = []
    for name, pairs in flagged.items():
        (_, detail), *others = words.alike(pairs, lambda pair: pair[1])
        said = ("the first: " if others else "") + words.clean(detail)
        doubts.append(Doubt(name, tuple(row for row, _ in pairs), said, words.FLAG_ACTIONS.get(name, "")))
    return sorted(doubts, key=lambda doubt: -len(doubt.rows))


def _warnings(rows: Sequence[Row]) -> list[Doubt]:
    """Of the summaries, where state and flags have not said it yet."""
    pairs = [
        (row, text) for row in rows if row.verdict.state == "measured" for text in row.summary.warnings
        if "rounds needed" not in text and not ("samples: give" in text and "few_samples" in words.flags(row))
    ]
    doubts = []
    for group, text in words.alike(pairs, lambda pair: pair[1]):
        seen, _, action = text.rpartition(": ")
        doubts.append(Doubt("statistics", tuple(row for row, _ in group), seen or action, action if seen else "", "info"))
    return doubts

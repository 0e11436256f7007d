"""What `judge` prints: a line per case with its threshold, why, and the verdict of the run as the last line."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from hotlap.core.analysis import changes
from hotlap.core.record import Finding, Judgement, Row, State
from hotlap.core.show import layout, words
from hotlap.core.show.explain import STATE_STYLES
from hotlap.core.show.table import Cell, Column

SPARE = ("± 95 %", "threshold")  # columns that go first where there is no room
WELL = 8  # devices that pass and are listed
SHOWN = 30  # cases that did not pass, where there are several devices
ORDER: Sequence[State] = ("fail", "invalid", "error", "inconclusive", "pass", "measured", "not_run")
VERDICT_STYLES = {"pass": "good", "fail": "bad", "invalid": "bad", "error": "bad"}


def judgement(judgement: Judgement, width: int = 100, color: bool = False) -> str:
    """A line per case, the worst first; each reason once; the run's verdict last, where a log's reader looks. Of several devices a
    line each, and then only the cases that did not pass."""
    ordered = sorted(judgement.rows, key=lambda row: ORDER.index(row.verdict.state))
    keys = words.devices(judgement.rows)
    if len(keys) > 1:
        lines = [*_devices(ordered, keys, width, color), "", *_not_passed(ordered, width, color)]
    else:
        lines = layout.fitted(_columns(ordered), width, SPARE).lines(color) if ordered else []
    lines += ["", *_reasons(ordered, width), ""]
    state = words.STATES.get(judgement.state, judgement.state)
    verdict = layout.painted(state.upper(), VERDICT_STYLES.get(judgement.state, "warn"), color)
    return "\n".join([*lines, f"{verdict}  {words.clean(judgement.run)} against {words.clean(judgement.against)}: {judgement.reason}"])


def fleet(findings: Sequence[Finding], judged: Sequence[Judgement] = (), width: int = 100, color: bool = False) -> str:
    """Outliers of their fleet, each once with its worst case; and what cannot be judged."""
    off: dict[str, list[Finding]] = {}
    for one in dict.fromkeys((one.title, one.detail) for one in findings):
        first = next(f for f in findings if (f.title, f.detail) == one)
        off.setdefault(first.where or first.title, []).append(first)
    if not off:
        return f"the fleet: {_nobody(judged)}\n"
    lines = [layout.painted("the fleet", "bold", color)]
    room = max((len(words.clean(who)) for who in off), default=0)
    for who, members in off.items():
        first = members[0]
        case = first.evidence.get("case", "")
        more = f", and {len(members) - 1} more" if len(members) > 1 else ""
        lines += layout.paragraph(f"  {words.clean(who):<{room}}  ", f"{f'{case}{more}: ' if case else ''}{first.detail}", width)
    return "\n".join([*lines, ""])


def _nobody(judged: Sequence[Judgement]) -> str:
    """That there are no outliers is said only of what could be judged."""
    states = Counter(row.verdict.state for one in judged for row in one.rows)
    if not states["pass"] and states["inconclusive"]:
        return "outliers: not enough data"
    return "no outliers" + (f"; {words.counted(n, 'case')} inconclusive" if (n := states["inconclusive"]) else "")


def _devices(ordered: Sequence[Row], keys: Sequence[str], width: int, color: bool) -> list[str]:
    """A line per device, the worst first; of many that pass, how many."""
    by_device = {key: [row for row in ordered if row.device == key] for key in keys}  # the worst row first
    by_state = sorted(keys, key=lambda key: _badness(by_device[key]))
    well = [key for key in by_state if by_device[key][0].verdict.state == "pass"]
    shown = [key for key in by_state if key not in well[WELL:]]
    styles = [STATE_STYLES[by_device[key][0].verdict.state] for key in shown]
    ids = words.short(keys)
    names = [f"{words.MARKS[by_device[key][0].verdict.state]} {ids[key]}" for key in shown]
    counts = [Counter(row.verdict.state for row in by_device[key]) for key in shown]
    worst = [_worst(by_device[key]) for key in shown]
    columns = [Column("  device", [Cell(name, style) for name, style in zip(names, styles, strict=True)])]
    for state in ORDER:
        if any(count[state] for count in counts):
            columns.append(Column(words.STATES[state], [Cell(str(count[state] or "")) for count in counts], right=True))
    columns.append(Column("worst case", [Cell(words.clean(row.label) if row else words.DASH) for row in worst], wrap=True))
    columns.append(Column("vs reference", [Cell(change(row) if row else words.DASH) for row in worst], right=True))
    more = [f"  … and {len(well) - WELL} more that pass"] if len(well) > WELL else []
    return [*layout.fitted(columns, width).lines(color), *more]


def _badness(rows: Sequence[Row]) -> tuple[int, float]:
    """Of a device: its worst state, then how far its worst case in that state is below the reference."""
    state = rows[0].verdict.state
    worst = _worst([row for row in rows if row.verdict.state == state])
    return ORDER.index(state), worst.verdict.ratio if worst and worst.verdict.ratio is not None else math.inf


def _worst(rows: Sequence[Row]) -> Row | None:
    return min((row for row in rows if row.verdict.ratio is not None), key=lambda row: row.verdict.ratio or 0.0, default=None)


def _not_passed(ordered: Sequence[Row], width: int, color: bool) -> list[str]:
    bad = [row for row in ordered if row.verdict.state not in ("pass", "not_run", "measured")]
    bad.sort(key=lambda row: _badness([row]))
    ids = words.short(words.devices(ordered))
    lines = layout.fitted(_columns(bad[:SHOWN], ids), width, SPARE).lines(color) if bad else []
    return lines + ([f"  … and {len(bad) - SHOWN} more; --where or --json shows all"] if len(bad) > SHOWN else [])


def _columns(rows: Sequence[Row], ids: Mapping[str, str] = {}) -> list[Column]:
    styles = [STATE_STYLES[row.verdict.state] for row in rows]
    names = [f"{words.MARKS[row.verdict.state]} {words.clean(row.label)}" for row in rows]
    intervals = [words.interval(row) for row in rows]
    columns = [
        Column("  case", [Cell(name, style) for name, style in zip(names, styles, strict=True)], wrap=True),
        Column("value", [Cell(text, "bold") for text in layout.aligned([words.value(row) for row in rows])]),
        Column("± 95 %", [Cell(text) for text in layout.aligned(intervals)]),
        Column("threshold", [Cell(text) for text in layout.aligned([_threshold(row) for row in rows])]),
        Column("vs reference", [Cell(text) for text in layout.aligned([change(row) for row in rows])]),
        Column("verdict", [Cell(_state(row), style) for row, style in zip(rows, styles, strict=True)]),
    ]
    if ids:
        columns.insert(1, Column("device", [Cell(ids[row.device], "dim") for row in rows]))
    return columns


def _state(row: Row) -> str:
    return "not judged" if row.verdict.state == "measured" else words.state(row)


def _threshold(row: Row) -> str:
    return words.quantity(row.verdict.threshold, row.result.unit) if row.verdict.threshold is not None else words.DASH


def change(row: Row) -> str:
    """Of the metric as printed, against what it was compared with: ``+52.0 %``."""
    return words.DASH if not row.verdict.ratio else words.signed(changes.change(row.verdict.ratio, row.result.better))


def _reasons(rows: Sequence[Row], width: int) -> list[str]:
    """Each reason once, with the cases it is of; a number that differs between them is said as its range."""
    given = (row for row in rows if row.verdict.reason)
    lines: list[str] = []
    for group, said in words.alike(given, lambda row: row.verdict.reason, lambda row: row.verdict.state):
        first = f"  {_state(group[0]):<13} "
        names = words.some(list(dict.fromkeys(row.label for row in group)))
        lines += layout.paragraph(first, f"{names}: {words.clean(said)}", width)
    return lines

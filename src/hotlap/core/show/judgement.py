"""What `judge` prints: a line per case with its threshold, why, and the verdict of the run as the last line."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from hotlap.core.analysis import changes, expected, fleets, verdicts
from hotlap.core.record import Finding, Judgement, Row, State
from hotlap.core.show import layout, words
from hotlap.core.show.explain import STATE_STYLES
from hotlap.core.show.table import Cell, Column
from hotlap.core.units import percent

SPARE = ("± 95 %", "threshold")  # columns that go first where there is no room
FOLDED = 8  # devices that pass and are listed; of more than fleets.MANY devices also those that do not
LONG = 60  # characters of a source that is not repeated
SHOWN = 30  # cases that did not pass, where there are several devices
ORDER = verdicts.ORDER
NOT_PASSED = ORDER[:4]
VERDICT_STYLES = {"pass": "good", "fail": "bad", "invalid": "bad", "error": "bad"}


def judgement(judgement: Judgement, width: int = 100, color: bool = False) -> str:
    """A line per case, the worst first; each reason once; the run's verdict last, where a log's reader looks. Of several devices a
    line each, and then only the cases that did not pass."""
    ordered = sorted(judgement.rows, key=lambda row: ORDER.index(row.verdict.state))
    keys, head = words.devices(judgement.rows), reference(judgement.against)
    if len(keys) > 1:
        cases = _by_case(ordered, width, color) if len(keys) > fleets.MANY else _not_passed(ordered, (head, width, color))
        lines = [*_devices(ordered, keys, (head, width, color)), *([""] if cases else []), *cases]
    else:
        lines = layout.fitted(_columns(ordered, head), width, SPARE).lines(color) if ordered else []
    if not lines:
        return _last(judgement, color)
    lines += ["", *_reasons(ordered, width), *(_finds(width) if judgement.against == expected.NAME else ()), ""]
    return "\n".join([*lines, _last(judgement, color)])


def _last(judgement: Judgement, color: bool) -> str:
    """The verdict of the run."""
    state = words.STATES.get(judgement.state, judgement.state)
    answer = layout.painted(state.upper(), VERDICT_STYLES.get(judgement.state, "warn"), color)
    return f"{answer}  {words.clean(judgement.run)} against {words.clean(judgement.against)}: {words.clean(judgement.reason)}"


def reference(against: str) -> str:
    """What these verdicts compare with, as a column's head."""
    heads = {expected.NAME: "vs expected", "baseline": "vs baseline", "base": "vs base", "fleet": "vs fleet median"}
    return heads.get(against.partition(" ")[0], "vs threshold")


def _finds(width: int) -> list[str]:
    """What size of loss the model's intervals show."""
    (small, rarely), (size, mostly) = sorted(expected.FINDS.items())
    many = f"{percent(mostly)} of plans of 20 cases fail on a device that is so much slower"
    few = f"{percent(rarely)} on one that is {percent(small, 1)} slower"
    text = f"losses of about {percent(size)}: {many}, {few}; a baseline or the fleet finds smaller losses"
    return layout.paragraph("  finds         ", text, width)


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


def _devices(ordered: Sequence[Row], keys: Sequence[str], form: tuple[str, int, bool]) -> list[str]:
    """A line per device, the worst first; of many, and of many that pass, how many more. `form`: head of the ratios, width, colour."""
    head, width, color = form
    columns, left = device_columns(ordered, keys, head)
    return [*layout.fitted(columns, width).lines(color), *left_out(left)]


def device_columns(
    ordered: Sequence[Row], keys: Sequence[str], head: str, most: int = FOLDED, whole: bool = False
) -> tuple[list[Column], Counter[State]]:
    """The same as columns of at most `most` of many devices, and the states of those that are left out. `ordered`: the worst row first.
    `whole`: keys are names that are not shortened."""
    by_device: dict[str, list[Row]] = {key: [] for key in keys}
    for row in ordered:
        by_device[row.device].append(row)
    by_state = sorted(keys, key=lambda key: _badness(by_device[key]))
    states = {key: by_device[key][0].verdict.state for key in keys}
    passing = [key for key in by_state if states[key] == "pass"]
    bad = [key for key in by_state if key not in passing]
    many = len(keys) > fleets.MANY
    shown = [*bad[: most if many else None], *passing[: 0 if many and len(bad) >= most else FOLDED]]
    ids = {key: words.clean(key) for key in keys} if whole else words.short(keys)
    counts = [Counter(row.verdict.state for row in by_device[key]) for key in shown]
    worst = [_worst(by_device[key]) for key in shown]
    columns = [Column("  device", [Cell(f"{words.MARKS[states[key]]} {ids[key]}", STATE_STYLES[states[key]]) for key in shown], names=True)]
    for state in ORDER:
        if any(count[state] for count in counts):
            columns.append(Column(verdicts.WORDS[state], [Cell(str(count[state] or "")) for count in counts], right=True))
    far = "lowest case" if set(states.values()) <= {"inconclusive", "pass"} else "worst case"  # none is known to be bad
    columns.append(Column(far, [Cell(words.clean(row.label)) for row in worst], wrap=True))
    columns += [*_rules(worst), Column(head, [Cell(change(row)) for row in worst], right=True)]
    return columns, Counter(states[key] for key in by_state if key not in shown)


def left_out(counts: Counter[State], page: bool = False) -> list[str]:
    """How many devices are not listed, by what became of them. `page`: on one, which is where more stand."""
    left = [f"{counts[state]} {verdicts.WORDS[state]}" for state in ORDER if counts[state]]
    if set(counts) <= {"pass"}:
        return [f"  … and {counts['pass']} more that pass"] if left else []
    return [f"  … and {sum(counts.values())} more ({', '.join(left)}); --json {'' if page else 'or --out FILE '}has all"]


def _badness(rows: Sequence[Row]) -> tuple[int, float, float]:
    """Of a device: its worst state, then how far its worst case in that state is below the reference; where nothing failed, in how many
    cases it is in that state first."""
    state, ratio = rows[0].verdict.state, _worst(rows).verdict.ratio
    far, many = math.inf if ratio is None else ratio, -float(sum(row.verdict.state == state for row in rows))
    return (ORDER.index(state), many, far) if state == "inconclusive" else (ORDER.index(state), far, many)


def _worst(rows: Sequence[Row]) -> Row:
    """Of those in the worst state, which come first, the one farthest below its reference; of any state where none can be compared."""
    first = [row for row in rows if row.verdict.state == rows[0].verdict.state]
    compared = [row for row in first if row.verdict.ratio is not None]
    if not compared and rows[0].verdict.state == "inconclusive":
        compared = [row for row in rows if row.verdict.ratio is not None]
    return min(compared or first[:1], key=lambda row: math.inf if row.verdict.ratio is None else row.verdict.ratio)


def _rules(rows: Sequence[Row]) -> list[Column]:
    """Which rule decided, beside cases that broke it or are open."""
    whys = ["; ".join(row.verdict.rules) if row.verdict.state != "pass" else "" for row in rows]
    return [Column("rule", [Cell(words.clean(why) or words.DASH) for why in whys], wrap=True)] if any(whys) else []


def _not_passed(ordered: Sequence[Row], form: tuple[str, int, bool]) -> list[str]:
    head, width, color = form
    bad = [row for row in ordered if row.verdict.state in NOT_PASSED]
    bad.sort(key=lambda row: _badness([row]))
    keys = words.devices(ordered)
    lines = layout.fitted(_columns(bad[:SHOWN], head, words.short(keys)), width, SPARE).lines(color) if bad else []
    return lines + _more(len(bad) - SHOWN)


def _more(left: int) -> list[str]:
    return [f"  … and {left} more; --where or --json shows all"] if left > 0 else []


def _spread(rows: Sequence[Row]) -> tuple[int, int]:
    """Of a case: its worst state, then on how many devices."""
    states = [row.verdict.state for row in rows]
    return ORDER.index(states[0]), -states.count(states[0])


def _by_case(ordered: Sequence[Row], width: int, color: bool) -> list[str]:
    """A line per case that did not pass on all of many devices, the worst first: on how many, and its values over all of them."""
    columns, left = case_columns(ordered, SHOWN)
    return [*layout.fitted(columns, width, SPARE).lines(color), *_more(left)] if columns else []


def case_columns(ordered: Sequence[Row], most: int, passed: bool = False) -> tuple[list[Column], int]:
    """The same as columns of at most `most` cases, and how many are left out. `passed`: those that passed everywhere, too."""
    cases: dict[str, list[Row]] = {}
    for row in ordered:
        cases.setdefault(row.case.id, []).append(row)
    all_bad = sorted((rows for rows in cases.values() if passed or rows[0].verdict.state in NOT_PASSED), key=_spread)
    bad = all_bad[:most]
    if not bad:
        return [], 0
    first = [_worst(rows) for rows in bad]
    names = [Cell(f"{words.MARKS[row.verdict.state]} {words.clean(row.label)}", STATE_STYLES[row.verdict.state]) for row in first]
    columns = [Column("  case", names, wrap=True, names=True)]
    for state in ORDER:
        counts = [sum(row.verdict.state == state for row in rows) for rows in bad]
        columns += [Column(verdicts.WORDS[state], [Cell(str(count or "")) for count in counts], right=True)] if any(counts) else []
    values = [[row.summary.median for row in rows if row.summary.median is not None] for rows in bad]
    ends: Sequence[tuple[str, Callable[[list[float]], float]]] = (("min", min), ("median", statistics.median), ("max", max))
    for end, of in ends:
        shown = [words.quantity(of(own) if own else None, words.unit_of(row)) for own, row in zip(values, first, strict=True)]
        columns.append(Column(end, [Cell(text) for text in shown], point=True))
    columns.append(Column("threshold", [Cell(_threshold(row)) for row in first], point=True))
    return columns, len(all_bad) - len(bad)


def _columns(rows: Sequence[Row], head: str, ids: Mapping[str, str] = {}) -> list[Column]:
    styles = [STATE_STYLES[row.verdict.state] for row in rows]
    names = [f"{words.MARKS[row.verdict.state]} {words.clean(row.label)}" for row in rows]
    intervals = [words.interval(row) for row in rows]
    columns = [
        Column("  case", [Cell(name, style) for name, style in zip(names, styles, strict=True)], wrap=True),
        Column("value", [Cell(text, "bold") for text in layout.aligned([words.value(row) for row in rows])]),
        Column("± 95 %", [Cell(text) for text in layout.aligned(intervals)]),
        Column("threshold", [Cell(text) for text in layout.aligned([_threshold(row) for row in rows])]),
        Column(head, [Cell(text) for text in layout.aligned([change(row) for row in rows])]),
        Column("verdict", [Cell(verdict(row), style) for row, style in zip(rows, styles, strict=True)]),
    ]
    if ids:
        columns.insert(1, Column("device", [Cell(ids[row.device], "dim") for row in rows]))
    return [*columns, *_rules(rows)]


def verdict(row: Row) -> str:
    """What became of a case, in words: what was compared with nothing is not judged."""
    return verdicts.WORDS[row.verdict.state]


def _threshold(row: Row) -> str:
    return words.quantity(row.verdict.threshold, words.unit_of(row)) if row.verdict.threshold is not None else words.DASH


def change(row: Row) -> str:
    """Of the metric as printed, against what it was compared with: ``+52.0 %``."""
    return words.DASH if not row.verdict.ratio else words.signed(changes.change(row.verdict.ratio, row.result.better))


def _reasons(rows: Sequence[Row], width: int) -> list[str]:
    """Each reason once, with the cases it is of; a number that differs between them is said as its range, two as
    both. A long source that several
    reasons name stands once below."""
    lines: list[str] = []
    for state, text in reasons(rows):
        lines += layout.paragraph(f"  {state:<13} ", text, width, most=None)
    return lines


def reasons(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """The same as pairs: the verdict, or the mark of a source, and the text."""
    given = [row for row in rows if row.verdict.reason]
    groups = words.alike(given, lambda row: row.verdict.reason, lambda row: row.verdict.state, two=True)
    sources = _sources(given, [reason for _, reason in groups])
    pairs: list[tuple[str, str]] = []
    every = _devices_of(rows)
    for group, reason in groups:
        for source, mark in sources.items():
            reason = reason.replace(source, mark)
        names = words.some([_on_how_many(label, len(some), len(every[label])) for label, some in _devices_of(group).items()])
        if len(devices := {row.device for row in group}) > 1 and len({row.verdict.reason for row in group}) > 1:
            names += f" ({len(devices)} devices; ranges span them)"
        pairs.append((verdict(group[0]), f"{names}: {words.clean(reason)}"))
    return [*pairs, *((mark, words.clean(source)) for source, mark in sources.items())]


def _devices_of(rows: Sequence[Row]) -> dict[str, set[str]]:
    """By case's name, the devices that it is of."""
    devices: dict[str, set[str]] = {}
    for row in rows:
        devices.setdefault(row.label, set()).add(row.device)
    return devices


def _on_how_many(label: str, some: int, every: int) -> str:
    """A case's name; with on how many devices it is so, where not on all."""
    return label if some == every else f"{label} ({some} of {every} devices)"


def _sources(rows: Sequence[Row], reasons: Sequence[str]) -> dict[str, str]:
    """Long sources of limits that several reasons name, the longest first as one may hold another, each with its mark: ``[1]``."""
    known = {term.source for row in rows if row.gap.limit for term in row.gap.limit.provenance if len(term.source) >= LONG}
    several: list[str] = []
    left = list(reasons)
    for source in sorted(known, key=lambda source: (-len(source), source)):
        if sum(source in reason for reason in left) > 1:
            several.append(source)
            left = [reason.replace(source, "") for reason in left]
    return {source: f"[{number}]" for number, source in enumerate(several, 1)}

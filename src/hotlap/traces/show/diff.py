"""The difference of two traces as text."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hotlap.core import units
from hotlap.core.show import layout, words
from hotlap.core.show.table import Cell, Column
from hotlap.traces import naming
from hotlap.traces.diff import DiffPart, TraceDiff
from hotlap.traces.idle import CAUSES
from hotlap.traces.matching import MEANING
from hotlap.traces.spending import HOST_CAUSES

MOST, FEW = 10, 5
OUTSIDE = {"data_loader": "the main thread waited for its data loader", "outside": "the main thread was outside any operator"}
NAMES = 48
PROGRAM = {
    "changed": "Much of one side has no counterpart: either much of the program changed, or these are two programs that are alike.",
    "another": "These are hardly traces of one program: less than half of their work has a counterpart, so what follows says little.",
}


def diff(diff: TraceDiff, width: int, color: bool = False, most: int = MOST) -> str:
    """Whether the traces are of one program, what the whole changed by, and what that is made of."""
    a, b = diff.a, diff.b
    lines = [*_sides(diff, width, color), "", *_whole(diff, width, color)]
    lines += ["", *_sums(diff, width, color)]
    lines += ["", *_parts(diff, "kernel or copy" if b.devices else "operator, without those in it", most, width, color)]
    if a.devices and b.devices:
        lines += ["", *_operators(diff, width, color)]
    if diff.gaps:
        lines += ["", *_gaps(diff, width, color)]
    return "\n".join(lines)


def _sides(diff: TraceDiff, width: int, color: bool) -> list[str]:
    lines = []
    for letter, one in (("A", diff.a), ("B", diff.b)):
        text = f"{words.clean(one.file)} · {one.events:,} events · window: {one.window}"
        lines += layout.paragraph(f"{letter}  ", text, width)
    shares = [f"{100 * one.matched_time:.0f} % of the work of {letter}" for letter, one in (("A", diff.a), ("B", diff.b))]
    text = f"{' and '.join(shares)} (by time) have a counterpart by place or name"
    calls = f"by calls {100 * diff.a.matched_calls:.0f} % and {100 * diff.b.matched_calls:.0f} %"
    lines += layout.paragraph("   ", f"{text}; {calls}", width)
    if diff.program != "same":
        lines += layout.paragraph("!  ", PROGRAM[diff.program], width)
    return lines


def _whole(diff: TraceDiff, width: int, color: bool) -> list[str]:
    a, b = diff.a.whole_s, diff.b.whole_s
    share = f" ({'+' if diff.delta_s >= 0 else '−'}{units.percent(abs(diff.delta_s) / a)})" if a else ""
    noise = ""
    if diff.noise_s is not None:
        seen = "more" if abs(diff.delta_s) > diff.noise_s else "no more"
        noise = f"; {seen} than steps differ among themselves (± {_time(diff.noise_s)})"
    one = f"a {diff.per}" if diff.per == "step" else "the window"
    devices = " of the mean device" if max(diff.a.devices, diff.b.devices) > 1 else ""
    said = f"{one[0].upper()}{one[1:]}{devices} takes {_time(b)} instead of {_time(a)}: {_signed(diff.delta_s)}{share}"
    if not diff.delta_s:
        said, noise = f"{one[0].upper()}{one[1:]}{devices} takes {_time(a)} in both", ""
    head = layout.painted(said, "bold", color)
    lines = [head + noise] if len(said + noise) <= width else [head, *layout.paragraph("   ", noise.removeprefix("; "), width)]
    if diff.per == "window" and (diff.a.steps or diff.b.steps):
        why = "only one of them marks its steps, so whole windows are compared, however many steps they hold"
        lines += layout.paragraph("   ", why, width)
    return lines


def _sums(diff: TraceDiff, width: int, color: bool) -> list[str]:
    """Classes of work and causes of idleness; the last line is their sum."""
    about = OUTSIDE if {one.a for one in diff.idle} <= set(HOST_CAUSES) and not diff.b.devices else CAUSES
    rows = [(one.a, "work", one.a_s, one.b_s, one.delta_s) for one in diff.classes if one.a_s or one.b_s]
    rows += [(f"idle: {one.a.replace('_', ' ')}", about.get(one.a, ""), one.a_s, one.b_s, one.delta_s) for one in diff.idle]
    rows.append(("sum", "", sum(row[2] for row in rows), sum(row[3] for row in rows), sum(row[4] for row in rows)))
    head = "where a step went" if diff.per == "step" else "where the window went"
    columns = [
        Column(head, [Cell(row[0], "bold" if row[0] == "sum" else "") for row in rows]),
        *_numbers([row[2] for row in rows], [row[3] for row in rows], [row[4] for row in rows]),
        Column("", [Cell("" if row[1] == "work" else row[1], "dim") for row in rows], wrap=True),
    ]
    return layout.fitted(columns, width).lines(color)


def _parts(diff: TraceDiff, head: str, most: int, width: int, color: bool) -> list[str]:
    shown = [one for one in diff.parts[:most] if one.delta_s]
    if not shown:
        return ["no work changed"]
    columns = [
        Column(head, [Cell(name) for name in _names(shown)], wrap=True),
        Column("in", [Cell(layout.shortened(_inner(one.operator), 36), "dim") for one in shown], wrap=True),
        Column("how", [Cell("" if one.how == "same" else one.how) for one in shown]),
        Column("calls", [Cell(_calls(one)) for one in shown], right=True),
        *_numbers(*_columns(shown)),
        Column("", [Cell("~" if one.noise_s is not None and abs(one.delta_s) <= one.noise_s else "") for one in shown]),
    ]
    lines = layout.fitted(columns, width, spare=["calls"]).lines(color)
    rest = sum(one.delta_s for one in diff.parts) - sum(one.delta_s for one in shown)
    if len(diff.parts) > len(shown):
        more = f"the largest changes; {len(diff.parts) - len(shown)} more: {_signed(rest)} together"
        lines.append(layout.painted(more, "dim", color))
    hows = [how for how in MEANING if how != "same" and any(one.how == how for one in shown)]
    notes = [f"{how}: {MEANING[how]}" for how in hows]
    if any(one.noise_s is not None and abs(one.delta_s) <= one.noise_s for one in shown):
        notes.append("~: no more than steps differ among themselves")
    return lines + [layout.painted(layout.shortened(note, width), "dim", color) for note in notes]


def _operators(diff: TraceDiff, width: int, color: bool) -> list[str]:
    shown = [one for one in diff.operators[:FEW] if one.delta_s]
    if not shown:
        return ["the same work by outermost operator: no change"]
    names = [layout.shortened(_plain(one.a) or "(none known)", 60) for one in shown]
    columns = [
        Column("the same work by outermost operator", [Cell(name) for name in names], wrap=True),
        Column("calls", [Cell(_calls(one)) for one in shown], right=True),
        *_numbers(*_columns(shown)),
    ]
    return layout.fitted(columns, width).lines(color)


def _gaps(diff: TraceDiff, width: int, color: bool) -> list[str]:
    shown = _alike([one for one in diff.gaps if one.delta_s])[:FEW]
    columns = [
        Column("idle before", [Cell(name) for name in _names(shown)], wrap=True),
        Column("in", [Cell(layout.shortened(_inner(one.operator), 36), "dim") for one in shown], wrap=True),
        Column("because", [Cell(one.what.replace("_", " ")) for one in shown]),
        *_numbers(*_columns(shown)),
    ]
    return layout.fitted(columns, width).lines(color) if shown else []


def _alike(parts: Sequence[DiffPart]) -> list[DiffPart]:
    """Parts of which the same would be printed, as one; largest change first."""
    groups: dict[tuple[str, str, str], list[DiffPart]] = {}
    for one, name in zip(parts, _names(parts), strict=True):
        groups.setdefault((name, _inner(one.operator), one.what), []).append(one)
    made = []
    for several in groups.values():
        a, b = sum(one.a_s for one in several), sum(one.b_s for one in several)
        made.append(several[0] if len(several) == 1 else msgspec.structs.replace(several[0], a_s=a, b_s=b, delta_s=b - a))
    return sorted((one for one in made if one.delta_s), key=lambda one: -abs(one.delta_s))


def _columns(shown: Sequence[DiffPart]) -> tuple[list[float], list[float], list[float]]:
    return [one.a_s for one in shown], [one.b_s for one in shown], [one.delta_s for one in shown]


def _numbers(a: Sequence[float], b: Sequence[float], delta: Sequence[float]) -> list[Column]:
    """Three columns in one unit, so that they can be added by eye."""
    largest = max((abs(value) for value in (*a, *b)), default=0.0)
    unit, scale = next(((u, s) for u, s in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)) if largest * s >= 1), ("ns", 1e9))
    digits = 3 if largest * scale < 100 else 2

    def shown(value: float, sign: bool = False) -> str:
        text = f"{abs(value) * scale:,.{digits}f}"
        if not float(text.replace(",", "")):
            return "0"
        return ("+" if value > 0 else "−") + text if sign else text

    return [
        Column(f"A, {unit}", [Cell(shown(value)) for value in a], right=True),
        Column(f"B, {unit}", [Cell(shown(value)) for value in b], right=True),
        Column("Δ", [Cell(shown(value, True), "bad" if value > 0 else "good" if value < 0 else "") for value in delta], right=True),
    ]


def _names(parts: Sequence[DiffPart]) -> list[str]:
    """What each part is, so that no two different ones of a table look alike."""
    short = naming.labels((name for part in parts for name in (part.a, part.b) if name), NAMES)
    pairs = [(words.clean(short.get(part.a or "", "")), words.clean(short.get(part.b or "", ""))) for part in parts]
    return [f"{a} → {b}" if a and b and a != b else b or a for a, b in pairs]


def _plain(operator: str) -> str:
    """Without the words that autograd puts before every operator of its own."""
    return words.clean(operator.removeprefix("autograd::engine::evaluate_function: "))


def _inner(path: str) -> str:
    """The outermost and the innermost operator."""
    every = [_plain(one) for one in path.split(" › ")]
    return every[0] if len(every) == 1 else f"{every[0]} › {every[-1]}"


def _calls(part: DiffPart) -> str:
    a, b = f"{part.a_calls:,.4g}", f"{part.b_calls:,.4g}"
    return a if a == b else f"{a} → {b}"


def _time(seconds: float) -> str:
    return units.show(seconds, "s", 4)


def _signed(seconds: float) -> str:
    return ("+" if seconds >= 0 else "−") + _time(abs(seconds))

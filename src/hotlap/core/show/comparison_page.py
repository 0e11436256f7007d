"""A comparison as one HTML page: cases with their intervals on one scale (a forest plot), what differs, and how to read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from hotlap.core.record import Comparison, Difference
from hotlap.core.show import comparison, kinds, words
from hotlap.core.show import page as pages
from hotlap.core.show.charts import Axis, linear_axis
from hotlap.core.show.comparison import ANSWER_STYLES, MATTERS, Other
from hotlap.core.show.page import Section
from hotlap.core.show.table import Cell, Column, Table, html, text
from hotlap.core.store.bundle import Bundle
from hotlap.core.work import label

WIDE, HIGH, EDGE = 300.0, 20.0, 14.0  # of a row's drawing, in pixels
ARROW = 10.0  # pixels that one is long, of what lies beyond the axis
FARTHEST = 2.0  # an interval is drawn to this far from 1 at most; the numbers beside it are whole
COLOURS = {"slower": "var(--bad)", "faster": "var(--good)", "same": "var(--ink)", "inconclusive": "var(--warn)"}
UNREAD = 100_000  # characters on a line: a page wraps by itself


def page(first: str, runs: Sequence[Bundle], others: Mapping[str, Other]) -> str:
    """The other sides against the first, a section each."""
    title = f"Comparison: {words.some(list(others))} against {first}"
    lines = comparison.of_sides({first: runs, **{name: other.runs for name, other in others.items()}}, UNREAD)
    who = "".join(f"<li>{text(line)}</li>" for line in lines if line)
    data = {"first": first, "sides": {name: {"cases": one.comparisons, "differences": one.differences} for name, one in others.items()}}
    sections = [
        Section(name, f"{name} against {first}", cases(other.comparisons, differing(other.differences, first, name), [*runs, *other.runs]))
        for name, other in others.items()
    ]
    return pages.page(title, sections, data, f'<ul class="sub">{who}</ul>')


def cases(comparisons: Sequence[Comparison], more: str = "", bundles: Sequence[Bundle] = ()) -> str:
    """What a section of a comparison of these runs shows; `more` stands before how to read it."""
    ordered = sorted(comparisons, key=lambda case: list(ANSWER_STYLES).index(case.answer))
    lines = [*comparison.allowances(ordered, UNREAD, turns=kinds.turns(bundles)), *comparison.reasons(ordered, UNREAD)]
    notes = "".join(f"<li>{text(' '.join(line.split()))}</li>" for line in lines if line)
    rings = any(device.answer in ("better", "worse") for case in ordered for device in case.devices)
    reading = " ".join(comparison.reading(ordered, UNREAD, False, kinds.rounds(bundles)))
    reading += " In the drawing a speedup above 1 is faster; the band about 1 is the threshold"
    reading += "; an arrow is a change beyond the axis" if any(map(_beyond, ordered)) else ""
    reading += "; a ring is a device that differs from the others." if rings else "."
    return (
        f'<p class="sub">{text(comparison.tally(ordered))}</p>{html(_table(ordered))}<ul class="note">{notes}</ul>'
        f'{more}<p class="note">{text(reading)}</p>'
    )


def _table(compared: Sequence[Comparison]) -> Table:
    """The columns of the terminal, with a drawing; its scale stands in the heading and is the same for all."""
    axis = _axis(compared)
    *numbers, answer = comparison.columns(compared, short=False)
    drawn = [Cell(drawn=_forest(case, axis, COLOURS.get(case.answer, "var(--faint)"))) for case in compared]
    return Table([*numbers, Column("speedup", drawn, scale=_scale(axis)), answer])


def _beyond(compared: Comparison) -> bool:
    return compared.ratio is not None and not 1 / FARTHEST <= compared.ratio <= FARTHEST


def _axis(comparisons: Sequence[Comparison]) -> Axis:
    """Around 1 and all intervals, with the threshold in sight."""
    min_effect = max((one.min_effect or 0.0 for one in comparisons), default=0.0)
    ends = [end for one in comparisons for end in (one.low, one.high, one.ratio) if end is not None]
    ends += [device.ratio for one in comparisons for device in one.devices if device.answer in ("better", "worse") and device.ratio]
    low, high = min([*ends, 1 - 1.5 * min_effect, 0.99]), max([*ends, 1 + 1.5 * min_effect, 1.01])
    return linear_axis(max(low, 1 / FARTHEST), min(high, FARTHEST), lambda v: f"{v:.3f}".rstrip("0").rstrip("."), most=4)


def _x(axis: Axis, value: float) -> float:
    return EDGE + axis.place(value) * (WIDE - 2 * EDGE)


def _scale(axis: Axis) -> str:
    ticks = "".join(f'<text class="tick" x="{_x(axis, t):.1f}" y="13" text-anchor="middle">{axis.show(t)}</text>' for t in axis.ticks)
    return _svg(ticks, "scale of the speedups of B over A")


def _forest(compared: Comparison, axis: Axis, colour: str) -> str:
    """The threshold as a band about 1, the interval, the ratio; and each device that differs from the others as a ring."""
    min_effect, middle = compared.min_effect or 0.0, HIGH / 2
    left, right = _x(axis, 1 / (1 + min_effect)), _x(axis, 1 + min_effect)
    marks = f'<rect x="{left:.1f}" y="0" width="{right - left:.1f}" height="{HIGH:g}" style="fill:var(--line);opacity:.55"/>'
    marks += f'<path class="line bound" d="M{_x(axis, 1):.1f} 0V{HIGH:g}"/>'
    if compared.low is not None and compared.high is not None:
        span = f"M{_x(axis, compared.low):.1f} {middle:g}H{_x(axis, compared.high):.1f}"
        marks += f'<path class="span" style="stroke:{colour};stroke-width:2.4;opacity:1" d="{span}"/>'
    if compared.ratio is not None:
        marks += _dot(axis, compared.ratio, colour)
    for device in compared.devices:
        if device.answer in ("better", "worse") and device.ratio is not None:
            said = f"<title>{escape(f'{device.device}: {comparison.times(device.ratio)}')}</title>"
            ring = COLOURS["slower" if device.answer == "worse" else "faster"]
            place = f'cx="{_x(axis, device.ratio):.1f}" cy="{middle:g}" r="3.6"'
            marks += f'<circle class="dot second" style="stroke:{ring}" {place}>{said}</circle>'
    return _svg(marks, f"{label(compared.case)}: {comparison.times(compared.ratio)} {comparison.interval(compared.low, compared.high)}")


def _dot(axis: Axis, ratio: float, colour: str) -> str:
    """An arrow where it lies beyond the axis."""
    x, middle = _x(axis, ratio), HIGH / 2
    if axis.low <= ratio <= axis.high:
        return f'<circle class="dot" style="fill:{colour}" cx="{x:.1f}" cy="{middle:g}" r="4"/>'
    way = ARROW if ratio > axis.high else -ARROW
    shape = f"M{x + way:.1f} {middle:g}L{x:.1f} {middle - 6:g}V{middle + 6:g}Z"
    told = f"<title>{escape(comparison.times(ratio))}, beyond the axis</title>"
    return f'<path class="beyond" style="fill:{colour}" d="{shape}">{told}</path>'


def _svg(body: str, name: str) -> str:
    size = f'viewBox="0 0 {WIDE:g} {HIGH:g}" width="{WIDE:g}" height="{HIGH:g}"'
    return f'<svg {size} style="display:block;min-width:{WIDE:g}px" role="img" aria-label="{escape(name)}">{body}</svg>'


def differing(differences: Sequence[Difference], first: str, name: str) -> str:
    """A table of what else is not the same on the two sides."""
    if not differences:
        return "<p>The two environments do not differ in anything that is known.</p>"
    return html(Table([
        Column("what differs", [Cell(each.name) for each in differences]),
        Column("", [Cell(MATTERS[each.matters]) for each in differences]),
        Column(first, [Cell(each.a) for each in differences]), Column(name, [Cell(each.b) for each in differences]),
    ]))

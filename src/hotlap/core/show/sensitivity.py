"""What `sensitivity` prints: what a plan gains from each figure of a machine, the largest first; by step and workload; and its page."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core.model.sensitivity import NOTHING, Gain, Sensitivity
from hotlap.core.model.weights import Share
from hotlap.core.show import html, layout, words
from hotlap.core.show.charts import Axis, Chart, linear_axis
from hotlap.core.show.layout import Cell, Column
from hotlap.core.show.sections import text
from hotlap.core.units import percent, size

BAR = 16
DRAWN = 6  # figures in the chart
SHOWN_SHARES = 12
SPARE = ("now", "+50 %", "bar")  # columns that give way, the first first


def sensitivity(found: Sensitivity, width: int = 100, color: bool = False, networks: bool = False) -> str:
    """A line per figure; `networks`: also a line per step of a network."""
    lines = layout.paragraph("", _title(found), width)
    lines += ["", *layout.fitted(_columns(found, width), width, SPARE).lines(color), ""]
    lines += [piece for note in _notes(found) for piece in layout.paragraph("", note, width)]
    if networks and found.steps:
        lines += ["", *_shares("step of a network", found.steps, found.figures, width, color)]
    if len(found.workloads) > 1:
        lines += ["", *_shares("workload", found.workloads, found.figures, width, color)]
    return "\n".join(lines)


def _title(found: Sensitivity) -> str:
    how = "" if found.method == "model" else ", by the simulated GPU"
    return f"{found.plan} on {found.machine}: {words.counted(found.cases, 'case')}, weighed by {found.weighted}{how}"


def _columns(found: Sensitivity, width: int) -> list[Column]:
    figures = found.figures
    step = f"+{found.by * 100:g} %"
    return [
        Column("more", [Cell(_name(one), "bold" if one.elasticity >= NOTHING else "dim") for one in figures]),
        Column("now", [Cell(_now(one), "dim") for one in figures], right=True),
        Column("elasticity", [Cell(f"{_zero(one.elasticity):.2f}") for one in figures], right=True),
        Column("90 %", [Cell(_interval(one), "dim") for one in figures]),
        Column("bar", [Cell(layout.bar(one.elasticity, "expected", BAR), "accent") for one in figures]),
        Column(step, [Cell(_gained(one, f"{1 + found.by:g}")) for one in figures], right=True),
        Column("+50 %", [Cell(_gained(one, "1.5")) for one in figures], right=True),
        Column("twice", [Cell(_gained(one, "2")) for one in figures], right=True),
        Column("enough at", [Cell(_enough(one, found.method)) for one in figures], right=True),
    ]


def _name(one: Gain) -> str:
    return one.figure.replace("_", " ").replace("l2 ", "L2 ")


def _zero(value: float) -> float:
    """Without a minus before nothing."""
    return 0.0 if abs(value) < 0.005 else value


def _now(one: Gain) -> str:
    if one.now is None:
        return words.DASH
    return f"{one.now:g}" if not one.unit else size(one.now) if one.unit == "B" else words.quantity(one.now, one.unit)


def _interval(one: Gain) -> str:
    return words.DASH if one.low is None or one.high is None else f"{_zero(one.low):.2f} … {_zero(one.high):.2f}"


def _gained(one: Gain, factor: str) -> str:
    """Speed gained by a factor."""
    gain = one.gains.get(factor)
    return words.DASH if gain is None else f"{_zero((gain - 1) * 10) * 10:+.1f} %".replace("+0.0", "0.0")


def _enough(one: Gain, method: str) -> str:
    if one.enough == 1.0:
        return "as it is"
    if one.enough is None:
        return words.DASH if method == "simulation" else "> × 16"
    return f"× {one.enough:g}"


def _notes(found: Sensitivity) -> list[str]:
    parts = [_name(one) for one in found.figures if one.part and not one.figure.startswith("matrix.")]
    rest = [_name(one) for one in found.figures if not one.part]
    notes = ["elasticity: by how many per cent the speed grows with 1 % more of a figure; more launch and link latency means shorter ones"]
    notes[0] += "; enough: beyond it 1 % more gains less than 0.02 %."
    if parts and found.whole is not None:
        notes.append(f"{', '.join(rest)} together are the whole machine: {found.whole:.2f} in sum; the others are part of it, or a size.")
    if found.bounded:
        notes.append(f"{words.counted(found.bounded, 'case')} of workloads without a model: their bound stands for the time.")
    if found.unmeasured:
        notes.append(f"{words.counted(found.unmeasured, 'case')} that the run has no number of: what is expected weighs.")
    if found.left_out:
        why = "; ".join(f"{reason} ({number})" for reason, number in found.left_out.items())
        notes.append(f"{words.counted(sum(found.left_out.values()), 'case')} left out, for no time is known: {why}")
    if found.largest_bytes:
        fits = "all fit" if not found.too_large else f"{words.counted(found.too_large, 'case')} NOT, and would not run"
        notes.append(f"the largest case needs {size(found.largest_bytes)} of memory: {fits}.")
    return notes


def _shares(head: str, shares: Sequence[Share], figures: Sequence[Gain], width: int, color: bool) -> list[str]:
    """Steps or workloads with the elasticities of the figures that matter most."""
    top = [one for one in figures if one.elasticity >= NOTHING or any(s.elasticities[one.figure] >= 0.1 for s in shares)]
    shown = shares[:SHOWN_SHARES]
    columns = [
        Column(head, [Cell(words.clean(one.name)) for one in shown], wrap=True),
        Column("cases", [Cell(str(one.cases)) for one in shown], right=True),
    ]
    if any(one.seconds is not None for one in shown):
        times = layout.aligned([words.quantity(one.seconds, "s") for one in shown])
        columns.append(Column("time", [Cell(text) for text in times]))
    else:
        columns.append(Column("weight", [Cell(percent(one.share)) for one in shown], right=True))
    for gain in top:
        cells = [_cell(one.elasticities[gain.figure]) for one in shown]
        columns.append(Column(_short(gain), cells, right=True))
    while len(columns) > 4 and layout.Grid(columns, width).narrowest > width:
        columns.pop()
    more = [f"and {len(shares) - len(shown)} more: --json has all"] if len(shares) > len(shown) else []
    return [*layout.Grid(columns, width).lines(color), *more]


def _short(gain: Gain) -> str:
    return _SHORT.get(gain.figure, gain.figure.replace("_", " "))


_SHORT = {
    "memory_bandwidth": "memory", "matrix_rate": "matrix", "vector_rate": "vector", "l2_bandwidth": "L2 rate", "l2_size": "L2 size",
    "link_bandwidth": "link", "link_latency": "link way", "host_link": "host link", "power_limit": "power",
}  # fmt: skip


def _cell(value: float) -> Cell:
    return Cell(f"{_zero(value):.2f}", "bold" if value >= 0.3 else "dim" if value < NOTHING else "")


# ---------------------------------------------------------------- page


def page(found: Sensitivity) -> str:
    """One HTML page: the speed against each figure, the table, steps and workloads."""
    title = f"{found.plan} on {found.machine}"
    notes = "".join(f"<p>{text(note)}</p>" for note in _notes(found))
    head = f"<h1>What more of each figure gains: {text(title)}</h1><p>{text(_title(found))}</p>"
    top = f'<section id="top">{head}{_table(found)}{notes}</section>'
    figure = f"<figure><figcaption><b>speed by how much there is of a figure</b></figcaption>{_chart(found).svg()}</figure>"
    sections = [("", top), ("Gains", f'<section id="gains"><h2>Gains</h2>{figure}</section>')]
    for name, shares in (("Steps", found.steps), ("Workloads", found.workloads)):
        if shares:
            sections.append((name, f'<section id="{name.lower()}"><h2>{name}</h2>{_share_table(shares, found.figures)}</section>'))
    return html.filled(f"Sensitivity of {title}", sections, html.embedded({"sensitivity": found}))


def _table(found: Sensitivity) -> str:
    columns = [column for column in _columns(found, 100) if column.head != "bar"]
    return _html([column.head for column in columns], [[column.cells[n].text for column in columns] for n in range(len(found.figures))])


def _share_table(shares: Sequence[Share], figures: Sequence[Gain]) -> str:
    kept = [one for one in figures if any(share.elasticities[one.figure] >= NOTHING for share in shares)]
    head = ["", "cases", *(_short(one) for one in kept)]
    rows = [[share.name, str(share.cases), *(f"{_zero(share.elasticities[one.figure]):.2f}" for one in kept)] for share in shares]
    return _html(head, rows)


def _html(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{text(one)}</th>" for one in head)
    body = "".join(f"<tr>{''.join(f'<td>{text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _chart(found: Sensitivity) -> Chart:
    """Speed at each factor that was asked for, of the figures that gain most."""
    top = [one for one in found.figures if one.elasticity >= NOTHING][:DRAWN]
    values = [gain for one in top for gain in one.gains.values()] or [1.0, 1.1]
    factors = sorted({float(name) for one in found.figures for name in one.gains} | {1.0})
    ticks = tuple(one for one in factors if one == 1 or abs(one - 1) >= 0.25)
    x = Axis(factors[0], factors[-1], lambda v: f"× {v:g}", "of the figure", ticks=ticks)
    chart = Chart(x, linear_axis(min(values), max(values), lambda v: f"{v:.2f}", "speed"), "speed against each figure", right=130)
    for one in top:
        points = sorted([(1.0, 1.0), *((float(name), gain) for name, gain in one.gains.items())])
        chart.line(points, "main")
        for point in points:
            chart.dot(point, "main", f"{_name(one)} × {point[0]:g}: speed × {point[1]:.3f}")
        chart.label(points[-1], _name(one), "beside")
    return chart

"""What `sensitivity` prints: what a plan gains from each figure of a machine, the largest first; by step and workload; and its page."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core.model.sensitivity import NOTHING, Gain, Sensitivity
from hotlap.core.model.weights import Share
from hotlap.core.show import layout, words
from hotlap.core.show import page as pages
from hotlap.core.show.charts import Axis, Chart, linear_axis
from hotlap.core.show.page import Section
from hotlap.core.show.table import Cell, Column, Table, html, text
from hotlap.core.units import percent, size

BAR = 16
DRAWN = 6  # figures in the chart
SHOWN_SHARES = 12
SPARE = ("now", "+50 %", "bar")  # columns that give way, the first first


def sensitivity(sensitivity: Sensitivity, width: int = 100, color: bool = False, networks: bool = False) -> str:
    """A line per figure; `networks`: also a line per step of a network."""
    lines = layout.paragraph("", _title(sensitivity), width)
    lines += ["", *layout.fitted(_columns(sensitivity, width), width, SPARE).lines(color), ""]
    lines += [piece for note in _notes(sensitivity) for piece in layout.paragraph("", note, width)]
    if networks and sensitivity.steps:
        lines += ["", *_shares("step of a network", sensitivity.steps, sensitivity.figures, width, color)]
    if len(sensitivity.workloads) > 1:
        lines += ["", *_shares("workload", sensitivity.workloads, sensitivity.figures, width, color)]
    return "\n".join(lines)


def _title(sensitivity: Sensitivity) -> str:
    how = "" if sensitivity.method == "model" else ", by the simulated GPU"
    cases = words.counted(sensitivity.cases, "case")
    return f"{sensitivity.plan} on {sensitivity.machine}: {cases}, weighed by {sensitivity.weighted}{how}"


def _columns(sensitivity: Sensitivity, width: int) -> list[Column]:
    figures = sensitivity.figures
    step = f"+{sensitivity.by * 100:g} %"
    return [
        Column("more", [Cell(_name(one), "bold" if one.elasticity >= NOTHING else "dim") for one in figures]),
        Column("now", [Cell(_now(one), "dim") for one in figures], right=True),
        Column("elasticity", [Cell(f"{_zero(one.elasticity):.2f}") for one in figures], right=True),
        Column("90 %", [Cell(_interval(one), "dim") for one in figures]),
        Column("bar", [Cell(layout.bar(one.elasticity, "expected", BAR), "accent") for one in figures]),
        Column(step, [Cell(_gained(one, f"{1 + sensitivity.by:g}")) for one in figures], right=True),
        Column("+50 %", [Cell(_gained(one, "1.5")) for one in figures], right=True),
        Column("twice", [Cell(_gained(one, "2")) for one in figures], right=True),
        Column("enough at", [Cell(_enough(one, sensitivity.method)) for one in figures], right=True),
    ]


def _name(gain: Gain) -> str:
    return gain.figure.replace("_", " ").replace("l2 ", "L2 ")


def _zero(value: float) -> float:
    """Without a minus before nothing."""
    return 0.0 if abs(value) < 0.005 else value


def _now(gain: Gain) -> str:
    if gain.now is None:
        return words.DASH
    return f"{gain.now:g}" if not gain.unit else size(gain.now) if gain.unit == "B" else words.quantity(gain.now, gain.unit)


def _interval(gain: Gain) -> str:
    return words.DASH if gain.low is None or gain.high is None else f"{_zero(gain.low):.2f} … {_zero(gain.high):.2f}"


def _gained(figure: Gain, factor: str) -> str:
    """Speed gained by a factor."""
    gain = figure.gains.get(factor)
    return words.DASH if gain is None else f"{_zero((gain - 1) * 10) * 10:+.1f} %".replace("+0.0", "0.0")


def _enough(gain: Gain, method: str) -> str:
    if gain.enough == 1.0:
        return "as it is"
    if gain.enough is None:
        return words.DASH if method == "simulation" else "> × 16"
    return f"× {gain.enough:g}"


def _notes(sensitivity: Sensitivity) -> list[str]:
    parts = [_name(one) for one in sensitivity.figures if one.part and not one.figure.startswith("matrix.")]
    rest = [_name(one) for one in sensitivity.figures if not one.part]
    notes = ["elasticity: by how many per cent the speed grows with 1 % more of a figure; more launch and link latency means shorter ones"]
    notes[0] += "; enough: beyond it 1 % more gains less than 0.02 %."
    if parts and sensitivity.whole is not None:
        whole = f"{', '.join(rest)} together are the whole machine: {sensitivity.whole:.2f} in sum"
        notes.append(f"{whole}; the others are part of it, or a size.")
    if sensitivity.bounded:
        notes.append(f"{words.counted(sensitivity.bounded, 'case')} of workloads without a model: their bound stands for the time.")
    if sensitivity.unmeasured:
        notes.append(f"{words.counted(sensitivity.unmeasured, 'case')} that the run has no number of: what is expected weighs.")
    if sensitivity.left_out:
        why = "; ".join(f"{reason} ({number})" for reason, number in sensitivity.left_out.items())
        notes.append(f"{words.counted(sum(sensitivity.left_out.values()), 'case')} left out, for no time is known: {why}")
    if sensitivity.largest_bytes:
        fits = "all fit" if not sensitivity.too_large else f"{words.counted(sensitivity.too_large, 'case')} NOT, and would not run"
        notes.append(f"the largest case needs {size(sensitivity.largest_bytes)} of memory: {fits}.")
    return notes


def _shares(head: str, shares: Sequence[Share], figures: Sequence[Gain], width: int, color: bool) -> list[str]:
    """Steps or workloads with the elasticities of the figures that matter most."""
    shown = shares[:SHOWN_SHARES]
    name, cases, *gains = _share_columns(head, shown, figures, 0.1, shares)
    columns = [name, cases, _weights(shown), *gains]
    while len(columns) > 4 and layout.Grid(columns, width).narrowest > width:
        columns.pop()
    more = [f"and {len(shares) - len(shown)} more: --json has all"] if len(shares) > len(shown) else []
    return [*layout.Grid(columns, width).lines(color), *more]


def _share_columns(
    head: str, shown: Sequence[Share], figures: Sequence[Gain], least: float, every: Sequence[Share] | None = None
) -> list[Column]:
    """Name, cases, and the elasticities of figures that matter: in all, or by `least` in one of `every`, else of those shown."""
    some = shown if every is None else every
    top = [one for one in figures if one.elasticity >= NOTHING or any(s.elasticities[one.figure] >= least for s in some)]
    return [
        Column(head, [Cell(words.clean(one.name)) for one in shown], wrap=True),
        Column("cases", [Cell(str(one.cases)) for one in shown], right=True),
        *(Column(_short(gain), [_cell(one.elasticities[gain.figure]) for one in shown], right=True) for gain in top),
    ]


def _weights(shown: Sequence[Share]) -> Column:
    if any(one.seconds is not None for one in shown):
        return Column("time", [Cell(words.quantity(one.seconds, "s")) for one in shown], point=True)
    return Column("weight", [Cell(percent(one.share)) for one in shown], right=True)


def _short(gain: Gain) -> str:
    return _SHORT.get(gain.figure, gain.figure.replace("_", " "))


_SHORT = {
    "memory_bandwidth": "memory", "matrix_rate": "matrix", "vector_rate": "vector", "l2_bandwidth": "L2 rate", "l2_size": "L2 size",
    "link_bandwidth": "link", "link_latency": "link way", "host_link": "host link", "power_limit": "power",
}  # fmt: skip


def _cell(value: float) -> Cell:
    return Cell(f"{_zero(value):.2f}", "bold" if value >= 0.3 else "dim" if value < NOTHING else "")


# ---------------------------------------------------------------- page


def page(gained: Sensitivity) -> str:
    """One HTML page: the speed against each figure, the table, steps and workloads."""
    title = f"{gained.plan} on {gained.machine}"
    table = Table([column for column in _columns(gained, 100) if column.head != "bar"])
    figure = f"<figure><figcaption><b>speed by how much there is of a figure</b></figcaption>{_chart(gained).svg()}</figure>"
    sections = [Section("Gains", "Gains", figure)]
    for name, shares in (("Steps", gained.steps), ("Workloads", gained.workloads)):
        sections.append(Section(name, name, html(Table(_share_columns("", shares, gained.figures, NOTHING))) if shares else ""))
    top = f"<p>{text(_title(gained))}</p>{html(table)}{pages.notes(_notes(gained))}"
    return pages.page(f"Sensitivity of {title}", sections, {"sensitivity": gained}, top, f"What more of each figure gains: {title}")


def _chart(sensitivity: Sensitivity) -> Chart:
    """Speed at each factor that was asked for, of the figures that gain most."""
    top = [one for one in sensitivity.figures if one.elasticity >= NOTHING][:DRAWN]
    values = [gain for one in top for gain in one.gains.values()] or [1.0, 1.1]
    factors = sorted({float(name) for one in sensitivity.figures for name in one.gains} | {1.0})
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

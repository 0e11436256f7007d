"""What `correlate` prints: errors by regime, the worst cases with what either run says of them; and the page with the scatter."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core.analysis.correlate import Agreement, Correlated, Correlation, worst
from hotlap.core.show import gaps, layout, words
from hotlap.core.show import page as pages
from hotlap.core.show.charts import Chart, log_axis
from hotlap.core.show.page import Section
from hotlap.core.show.table import Cell, Column, Table, html, text
from hotlap.core.units import show

WORST = 5
APART = "by their names two devices, so differences may be theirs and do not say how right the simulation is"


def correlation(correlation: Correlation, width: int = 100, color: bool = False) -> str:
    lines = layout.Grid(_columns(correlation.regimes), width).lines(color)
    if correlation.apart:
        lines = [*layout.paragraph("", f"{words.clean(correlation.apart)}: {APART}", width), "", *lines]
    listed = worst(correlation.cases, WORST)
    if listed:
        lines += ["", f"worst cases of different regimes, simulated ÷ {correlation.against} − 1", ""]
    else:
        lines += ["", "every case agrees within 1 %"]
    for one in listed:
        times = f"{words.quantity(one.simulated_s, 's')} simulated, {words.quantity(one.measured_s, 's')} {correlation.against}"
        lines += layout.paragraph(f"  {_share(one.error):>9}  ", f"{words.clean(one.label)}: {times}", width)
        lines += [layout.painted(piece, "dim", color) for piece in layout.paragraph("             ", why(one), width)]
    if correlation.missing:
        lines += ["", f"{words.counted(correlation.missing, 'case')} left out: only one side has a time"]
    return "\n".join(lines)


def why(point: Correlated) -> str:
    """Where both differ by cause, or what either run says of its time."""
    if point.differ is not None:
        parts = [f"{name} {'+' if value > 0 else '−'}{show(abs(value), 's')}" for name, value in point.differ.items()]
        return f"differ by {', '.join(parts)}" if parts else "both counted the same"
    sides = {name: (gap.cause.replace("_", " "), words.clean(gaps.brief(point.case, gap))) for name, gap in point.gaps.items()}
    if point.spent:
        spent = ", ".join(f"{name} {100 * share:.0f} %" for name, share in point.spent.items())
        return f"simulated: {spent}" + "".join(f"; {cause} on the other side: {seen}" for cause, seen in sides.values())
    said = [f"{name}: {cause} ({seen})" for name, (cause, seen) in sides.items() if seen]
    return "; ".join(said) or "neither run says what sets its time"


def _columns(agreements: Sequence[Agreement]) -> list[Column]:
    return [
        Column("regime", [Cell(one.regime) for one in agreements], wrap=True),
        Column("cases", [Cell(str(one.cases)) for one in agreements], right=True),
        Column("mean error", [Cell(_share(one.mape, False), "bold") for one in agreements], right=True),
        Column("median", [Cell(_share(one.median, False)) for one in agreements], right=True),
        Column("90 %", [Cell(_share(one.p90, False)) for one in agreements], right=True),
        Column("bias", [Cell(_share(one.bias)) for one in agreements], right=True),
        Column("rank", [Cell("–" if one.rank is None else f"{one.rank:.3f}") for one in agreements], right=True),
    ]


def _share(value: float, sign: bool = True) -> str:
    if abs(value) < 0.0005:
        return "0.0 %"
    return f"{value * 100:+.1f} %" if sign else f"{value * 100:.1f} %"


def page(correlated: Correlation) -> str:
    """One HTML page: the scatter, the table of regimes, the worst cases."""
    against = "silicon" if correlated.against == "measured" else "a simulation"
    title = f"Simulation against {against}: {correlated.regimes[0].cases} cases, mean error {_share(correlated.regimes[0].mape, False)}"
    apart = f"<p>{text(f'{correlated.apart}: {APART}')}</p>" if correlated.apart else ""
    figure = f"<figure><figcaption>{_legend(correlated)}</figcaption>{_chart(correlated).svg()}</figure>"
    sections = [Section("Scatter", "Time of a call", figure), Section("Worst", "Worst cases", html(_worst(correlated)))]
    return pages.page(title, sections, {"correlation": correlated}, apart + html(Table(_columns(correlated.regimes))))


def _worst(correlated: Correlation) -> Table:
    shown = worst(correlated.cases, 4 * WORST)
    return Table([
        Column("error", [Cell(_share(case.error)) for case in shown], right=True), Column("case", [Cell(case.label) for case in shown]),
        Column("simulated", [Cell(words.quantity(case.simulated_s, "s")) for case in shown], right=True),
        Column(correlated.against, [Cell(words.quantity(case.measured_s, "s")) for case in shown], right=True),
        Column("why", [Cell(why(case)) for case in shown]),
    ])


def _workloads(correlation: Correlation) -> list[str]:
    return sorted({one.case.workload for one in correlation.cases})


def _legend(correlation: Correlation) -> str:
    return f"<b>simulated against {correlation.against}</b>{text(', '.join(_workloads(correlation)))}; the line is where both agree"


def _chart(correlation: Correlation) -> Chart:
    times = [value for one in correlation.cases for value in (one.simulated_s, one.measured_s)]
    x = log_axis(times, lambda s: words.quantity(s, "s", 1), correlation.against)
    chart = Chart(
        x,
        log_axis(times, lambda s: words.quantity(s, "s", 1), "simulated"),
        f"simulated time of each case against {correlation.against}",
        height=480,
    )
    chart.line([(x.low, x.low), (x.high, x.high)], "roof")
    for one in correlation.cases:
        chart.dot((one.measured_s, one.simulated_s), "main", f"{one.label}: {_share(one.error)}")
    for one in _apart(correlation.cases):
        chart.label((one.measured_s, one.simulated_s), f" {one.label}")
    return chart


def _apart(cases: Sequence[Correlated]) -> Sequence[Correlated]:
    """Those worth a name: the worst, where they are off by more than a quarter."""
    return [one for one in worst(cases, WORST) if abs(one.error) > 0.25]

"""What `correlate` prints: errors by regime, the worst cases with what either run says of them; and the page with the scatter."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core.analysis.correlate import Agreement, Correlated, Correlation, worst
from hotlap.core.show import gaps, html, layout, words
from hotlap.core.show.charts import Chart, log_axis
from hotlap.core.show.layout import Cell, Column
from hotlap.core.show.sections import text
from hotlap.core.units import show

WORST = 5
APART = "by their names two devices, so differences may be theirs and do not say how right the simulation is"


def correlation(found: Correlation, width: int = 100, color: bool = False) -> str:
    lines = layout.Grid(_columns(found.regimes), width).lines(color)
    if found.apart:
        lines = [*layout.paragraph("", f"{words.clean(found.apart)}: {APART}", width), "", *lines]
    listed = worst(found.cases, WORST)
    if listed:
        lines += ["", f"worst cases of different regimes, simulated ÷ {found.against} − 1", ""]
    else:
        lines += ["", "every case agrees within 1 %"]
    for one in listed:
        times = f"{words.quantity(one.simulated_s, 's')} simulated, {words.quantity(one.measured_s, 's')} {found.against}"
        lines += layout.paragraph(f"  {_share(one.error):>9}  ", f"{words.clean(one.label)}: {times}", width)
        lines += [layout.painted(piece, "dim", color) for piece in layout.paragraph("             ", why(one), width)]
    if found.missing:
        lines += ["", f"{words.counted(found.missing, 'case')} left out: only one side has a time"]
    return "\n".join(lines)


def why(one: Correlated) -> str:
    """Where both differ by cause, or what either run says of its time."""
    if one.differ is not None:
        parts = [f"{name} {'+' if value > 0 else '−'}{show(abs(value), 's')}" for name, value in one.differ.items()]
        return f"differ by {', '.join(parts)}" if parts else "both counted the same"
    sides = {name: (gap.cause.replace("_", " "), words.clean(gaps.brief(one.case, gap))) for name, gap in one.gaps.items()}
    if one.spent:
        spent = ", ".join(f"{name} {share:.0%}" for name, share in one.spent.items())
        return f"simulated: {spent}" + "".join(f"; {cause} on the other side: {seen}" for cause, seen in sides.values())
    said = [f"{name}: {cause} ({seen})" for name, (cause, seen) in sides.items() if seen]
    return "; ".join(said) or "neither run says what sets its time"


def _columns(found: Sequence[Agreement]) -> list[Column]:
    return [
        Column("regime", [Cell(one.regime) for one in found], wrap=True),
        Column("cases", [Cell(str(one.cases)) for one in found], right=True),
        Column("mean error", [Cell(_share(one.mape, False), "bold") for one in found], right=True),
        Column("median", [Cell(_share(one.median, False)) for one in found], right=True),
        Column("90 %", [Cell(_share(one.p90, False)) for one in found], right=True),
        Column("bias", [Cell(_share(one.bias)) for one in found], right=True),
        Column("rank", [Cell("–" if one.rank is None else f"{one.rank:.3f}") for one in found], right=True),
    ]


def _share(value: float, sign: bool = True) -> str:
    if abs(value) < 0.0005:
        return "0.0 %"
    return f"{value * 100:+.1f} %" if sign else f"{value * 100:.1f} %"


def page(found: Correlation) -> str:
    """One HTML page: the scatter, the table of regimes, the worst cases."""
    against = "silicon" if found.against == "measured" else "a simulation"
    title = f"{found.regimes[0].cases} cases, mean error {_share(found.regimes[0].mape, False)}"
    apart = f"<p>{text(f'{found.apart}: {APART}')}</p>" if found.apart else ""
    body = f'<section id="top"><h1>Simulation against {against}: {text(title)}</h1>{apart}{_table(found.regimes)}</section>'
    figure = f"<figure><figcaption>{_legend(found)}</figcaption>{_chart(found).svg()}</figure>"
    scatter = f'<section id="scatter"><h2>Time of a call</h2>{figure}</section>'
    lines = "".join(
        f"<tr><td>{text(_share(one.error))}</td><td>{text(one.label)}</td><td>{text(words.quantity(one.simulated_s, 's'))}</td>"
        f"<td>{text(words.quantity(one.measured_s, 's'))}</td><td>{text(why(one))}</td></tr>"
        for one in worst(found.cases, 4 * WORST)
    )
    head = f"<tr><th>error</th><th>case</th><th>simulated</th><th>{text(found.against)}</th><th>why</th></tr>"
    table = f'<div class="scroll"><table><thead>{head}</thead><tbody>{lines}</tbody></table></div>'
    sections = [("", body), ("Scatter", scatter), ("Worst", f'<section id="worst"><h2>Worst cases</h2>{table}</section>')]
    return html.filled(f"Simulation against {against}: {title}", sections, html.embedded({"correlation": found}))


def _table(found: Sequence[Agreement]) -> str:
    head = "<tr><th>regime</th><th>cases</th><th>mean error</th><th>median</th><th>90 %</th><th>bias</th><th>rank</th></tr>"
    rows = "".join(
        f"<tr><td>{text(one.regime)}</td><td>{one.cases}</td><td>{_share(one.mape, False)}</td><td>{_share(one.median, False)}</td>"
        f"<td>{_share(one.p90, False)}</td><td>{_share(one.bias)}</td><td>{'–' if one.rank is None else f'{one.rank:.3f}'}</td></tr>"
        for one in found
    )
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def _workloads(found: Correlation) -> list[str]:
    return sorted({one.case.workload for one in found.cases})


def _legend(found: Correlation) -> str:
    return f"<b>simulated against {found.against}</b>{text(', '.join(_workloads(found)))}; the line is where both agree"


def _chart(found: Correlation) -> Chart:
    times = [value for one in found.cases for value in (one.simulated_s, one.measured_s)]
    x = log_axis(times, lambda s: words.quantity(s, "s", 1), found.against)
    chart = Chart(
        x,
        log_axis(times, lambda s: words.quantity(s, "s", 1), "simulated"),
        f"simulated time of each case against {found.against}",
        height=480,
    )
    chart.line([(x.low, x.low), (x.high, x.high)], "roof")
    for one in found.cases:
        chart.dot((one.measured_s, one.simulated_s), "main", f"{one.label}: {_share(one.error)}")
    for one in _apart(found.cases):
        chart.label((one.measured_s, one.simulated_s), f" {one.label}")
    return chart


def _apart(cases: Sequence[Correlated]) -> Sequence[Correlated]:
    """Those worth a name: the worst, where they are off by more than a quarter."""
    return [one for one in worst(cases, WORST) if abs(one.error) > 0.25]

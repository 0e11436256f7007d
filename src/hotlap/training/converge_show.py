"""How time to quality is shown, on the terminal and as part of a page (`hotlap.core.show.kinds.Kind`)."""

from __future__ import annotations

from html import escape
from typing import Any

from hotlap.core import units
from hotlap.core.show import charts, layout, words
from hotlap.core.show.bands import figure
from hotlap.core.show.sections.base import ReportSection
from hotlap.core.show.table import Cell, Column, Table, harmless, html
from hotlap.core.store.bundle import Bundle
from hotlap.training import converge, converge_session
from hotlap.training.converge_record import Converged, ConvergeEstimate, ConvergeSide

NO_GATE = "{run} is a comparison of time to quality, and has its verdict: hotlap show {run}"
UNFINISHED = "not finished: it was killed, or still goes on"
CASES = False
SUBJECT = "comparison of"
NO_CASES = "time to quality has no cases to explain; hotlap show {run} says which side reached it sooner"
METHOD = ""
MOST_LOST = 8


def read(bundle: Bundle) -> Converged | None:
    kept = converge_session.read(bundle)
    return None if kept is None else converge.judge(kept)


def text(done: Converged, width: int, color: bool) -> str:
    lines = [*layout.paragraph("", asked(done), width), "", *layout.fitted(table(done).columns, width).lines(color), ""]
    for label, what in facts(done):
        lines += layout.paragraph(f"{label:<13}", what, width)
    return "\n".join(lines)


def document(done: Converged) -> dict[str, Any]:
    return {"converge": done}


def measured(done: Converged) -> bool:
    return bool(done.a.reached and done.b.reached)


def unit(done: Converged) -> str:
    return next((run.unit for run in (*done.a.runs, *done.b.runs) if run.unit), "progress")


def asked(done: Converged) -> str:
    first = next((run for run in (*done.a.runs, *done.b.runs) if run.points), None)
    goal = "as run_stop says"
    if first is not None and first.target is not None:
        goal = f"{'at most' if first.better == 'lower' else 'at least'} {first.target:g}"
    benchmark = next((f"{run.benchmark}, " for run in (*done.a.runs, *done.b.runs) if run.benchmark), "")
    sides = (f"{name} {side.name}: {words.counted(len(side.runs), 'run')}" for name, side in (("A", done.a), ("B", done.b)))
    return harmless(f"{benchmark}quality {goal}; {'; '.join(sides)}")


def table(done: Converged) -> Table:
    sides = [("A", done.a), ("B", done.b)]
    return Table([
        Column("", [Cell(name, "bold") for name, _ in sides]),
        Column("reached", [Cell(f"{len(side.reached)} of {len(side.runs)}") for _, side in sides], right=True),
        Column("batch", [Cell(_batches(side)) for _, side in sides], right=True),
        Column("time, olympic mean", [Cell(_time(side.seconds.olympic)) for _, side in sides], right=True),
        Column("time, median", [Cell(_interval(side.seconds, True)) for _, side in sides], right=True),
        Column(f"{unit(done)}, olympic mean", [Cell(_number(side.progress.olympic)) for _, side in sides], right=True),
        Column(f"{unit(done)}, median", [Cell(_interval(side.progress, False)) for _, side in sides], right=True),
    ])  # fmt: skip


def _batches(side: ConvergeSide) -> str:
    return ", ".join(str(one) for one in sorted({run.batch for run in side.runs if run.batch})) or words.DASH


def _time(value: float | None) -> str:
    return words.DASH if value is None else units.show(value, "s")


def _number(value: float | None) -> str:
    return words.DASH if value is None else f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def _interval(estimate: ConvergeEstimate, time: bool) -> str:
    write = _time if time else _number
    if estimate.median is None:
        return words.DASH
    ends = f" [{write(estimate.low)}, {'∞' if estimate.high is None else write(estimate.high)}]" if estimate.low is not None else ""
    return f"{write(estimate.median)}{ends}"


def facts(done: Converged) -> list[tuple[str, str]]:
    """What is said beside the table, the answer last."""
    pairs = [("lost", line) for line in lost(done)]
    fewest = min(len(done.a.runs), len(done.b.runs))
    if 0 < fewest < converge.INTERVAL:
        pairs.append(("interval", f"a 95 % interval of a median needs {converge.INTERVAL} runs"))
    pairs.append(("convergence", convergence(done)))
    pairs += [("note", harmless(notice.text)) for notice in done.notices]
    return [*pairs, ("answer", answer(done))]


def lost(done: Converged) -> list[str]:
    """Runs that did not reach their target, with the reason."""
    each = [
        f"{name} {harmless(run.source)}: {harmless(run.why)}" for name, side in (("A", done.a), ("B", done.b))
        for run in side.runs if not run.reached
    ]  # fmt: skip
    return [*each[:MOST_LOST], *([f"… and {len(each) - MOST_LOST} more"] if len(each) > MOST_LOST else [])]


def convergence(done: Converged) -> str:
    """B against A's runs as reference points."""
    check, what = done.check, unit(done)
    if check.state == "unknown" or check.mean is None or check.least is None or check.speedup is None:
        return f"not checked against A: {harmless(check.why)}"
    where = f", interpolated between batches of {check.interpolated[0]} and {check.interpolated[1]}" if check.interpolated else ""
    head = (
        f"A as reference has a mean of {_number(check.mean)} {what}{where}; by chance (5 %) {len(done.b.runs)} runs may need "
        f"{_number(check.least)}, faster by {units.percent(check.speedup - 1, 3)}; B needs {_number(check.measured)}"
    )
    if check.state == "too fast":
        return f"{head}: too fast, B does not train the same thing"
    scaled = f": within chance; by the rules its time counts {check.scale:.4g} times" if check.scale > 1 else ": no faster than A"
    return f"{head}{scaled}{f'; {harmless(check.why)}' if check.why else ''}"


def answer(done: Converged) -> str:
    """In a sentence."""
    if done.ratio is None:
        return harmless(f"inconclusive: {done.reason}")
    ends = f" [{words.signed(done.low - 1)}, {words.signed(done.high - 1)}]" if done.low is not None and done.high is not None else ""
    change = f"time to quality of B {words.signed(done.ratio - 1)}{ends}"
    said = "B is the same" if done.answer == "same" else f"B is {done.answer}" if done.answer != "inconclusive" else "inconclusive"
    return harmless(f"{said}: {change}; {done.reason}")


# ---------------------------------------------------------------- the page


def lead(done: Converged) -> str:
    return f'<p class="lead">{escape(answer(done))}.</p><p>{escape(asked(done))}.</p>'


def section(done: Converged) -> str:
    said = "".join(f"<p>{escape(f'{label}: {what}')}</p>" for label, what in facts(done))
    return f"{html(table(done))}{said}{_curves(done)}{html(runs(done))}"


def runs(done: Converged) -> Table:
    """Every run."""
    each = [(name, run) for name, side in (("A", done.a), ("B", done.b)) for run in side.runs]
    return Table([
        Column("side", [Cell(name) for name, _ in each]), Column("run", [Cell(harmless(run.source)) for _, run in each], names=True),
        Column("seed", [Cell(harmless(run.seed)) for _, run in each]),
        Column("time to quality", [Cell(_time(run.seconds) if run.reached else words.DASH) for _, run in each], right=True),
        Column(unit(done), [Cell(_number(run.progress) if run.reached else words.DASH) for _, run in each], right=True),
        Column("not reached, because", [Cell(harmless(run.why)) for _, run in each]),
    ])  # fmt: skip


def _curves(done: Converged) -> str:
    """Quality over progress, a line per run."""
    sides = enumerate((("A", done.a), ("B", done.b)))
    each = [(index, name, run) for index, (name, side) in sides for run in side.runs if len(run.points) > 1]
    if not each:
        return ""
    values = [point.value for _, _, run in each for point in run.points]
    most = max(point.progress for _, _, run in each for point in run.points)
    across = charts.linear_axis(0.0, most, _number, unit(done))
    chart = charts.Chart(across, charts.linear_axis(min(values), max(values), lambda v: f"{v:.3g}", "quality"), "quality over progress")
    target = next((run.target for _, _, run in each if run.target is not None), None)
    if target is not None:
        chart.line([(0.0, target), (most, target)], "bound")
        chart.label((0.0, target), "target", "above")
    for index, _name, run in each:
        chart.line([(point.progress, point.value) for point in run.points], f"s{index}")
    named = set[str]()
    for index, name, run in each:
        if name not in named:
            named.add(name)
            chart.label((run.points[-1].progress, run.points[-1].value), name, "beside")
        if run.reached and run.progress is not None:
            at = next((p for p in run.points if p.progress >= run.progress), run.points[-1])
            chart.dot((at.progress, at.value), f"s{index}", f"{name} {run.source}: {_number(run.progress)} {unit(done)}")
    about = f" over {unit(done)}; A and B in two colours, dots where the target is reached"
    return f'<div class="plots">{figure("Quality", about, chart)}</div>'


SECTION = ReportSection("Convergence", "Time to quality", lambda report: "".join(map(section, report.of(converge_session.KIND))))


def notices(_done: Converged) -> str:
    return ""

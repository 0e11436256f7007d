"""How a frontier over batches is shown, on the terminal and as part of a page (`hotlap.core.show.kinds.Kind`)."""

from __future__ import annotations

from html import escape
from typing import Any

from hotlap.core import units
from hotlap.core.show import charts, layout
from hotlap.core.show.bands import figure
from hotlap.core.show.sections.base import ReportSection
from hotlap.core.show.table import Cell, Column, Table, harmless, html
from hotlap.core.store.bundle import Bundle
from hotlap.training import expected_gap, frontier, reading, show
from hotlap.training.expected_gap import ExpectedGap
from hotlap.training.frontier import BatchPoint, TrainingFrontier
from hotlap.training.session import FRONTIER
from hotlap.training.summary import ProcessEstimate

NO_GATE = "{run} is a frontier over batches: hotlap show {run}"
UNFINISHED = "not finished: it was killed, or still goes on"
CASES = False
SUBJECT = "frontier of"
NO_CASES = "a frontier over batches has no cases to explain; hotlap show {run} says what each value gave"
METHOD = ""
AXES = {"throughput": "throughput", "step_s": "step time", "memory_bytes": "peak memory", "joules": "energy"}
UNSURE = "; not certain: by their intervals it could be another value"
LEGEND = "◆ on the frontier: no other value is as good in {axes}, and better in one, by more than their intervals"


def read(bundle: Bundle) -> TrainingFrontier | None:
    run = reading.read(bundle)
    return None if run is None else frontier.of(run)


def text(kept: TrainingFrontier, width: int, color: bool) -> str:
    lines = layout.paragraph("", asked(kept), width)
    if _measured(kept):
        lines += ["", *layout.fitted(table(kept).columns, width).lines(color), "", *layout.paragraph("", legend(kept), width)]
    for label, what in facts(kept):
        lines += layout.paragraph(f"{label:<10}", what, width)
    return "\n".join(lines)


def document(kept: TrainingFrontier) -> dict[str, Any]:
    return {"frontier": kept}


def measured(kept: TrainingFrontier) -> bool:
    return bool(_measured(kept))


def code(kept: TrainingFrontier) -> int:
    """130 interrupted, 2 where nothing was measured, 3 where a value failed, or has no point for another reason than memory."""
    if kept.interrupted:
        return 130
    if not _measured(kept):
        return 2
    failed = any(point.lost == "failed" or (point.step_s is None and point.lost not in ("memory", "killed")) for point in kept.points)
    return 3 if failed else 0


def _measured(kept: TrainingFrontier) -> list[BatchPoint]:
    return [point for point in kept.points if point.step_s and point.throughput]


def asked(kept: TrainingFrontier) -> str:
    a = kept.asked
    words = [a.program, *a.arguments, *(f"{name}={value}" for name, value in a.parameters.items())]
    steps = f"{a.steps} steps" if a.steps else "all its steps"
    values = ", ".join(map(str, a.values))
    return harmless(f"{' '.join(words)} over {a.vary} {values}: {a.processes} fresh processes each, in turns, of {steps}")


def legend(kept: TrainingFrontier) -> str:
    *most, last = [AXES[name] for name in kept.axes]
    return LEGEND.format(axes=f"{', '.join(most)} and {last}")


def rate_unit(kept: TrainingFrontier) -> str:
    return harmless(f"{kept.unit}/s")


def table(kept: TrainingFrontier) -> Table:
    points = _measured(kept)
    columns = [
        Column("", [Cell("◆" if point.front else "") for point in points]),
        Column(harmless(kept.asked.vary), [Cell(str(point.value), "bold") for point in points], right=True),
        Column("step", [Cell(_time(point.step_s)) for point in points], right=True),
        Column(rate_unit(kept), [Cell(known(point.throughput)) for point in points], right=True),
        Column("peak", [Cell(memory(point.memory_bytes)) for point in points], right=True),
        Column(f"J/{kept.unit.removesuffix('s')}", [Cell(known(point.joules) if point.joules else "?") for point in points], right=True),
    ]
    if any(point.expected and point.expected.seconds for point in points):
        columns += [
            Column("model", [Cell(_model(point)) for point in points], right=True),
            Column(f"model {rate_unit(kept)}", [Cell(_round(point.expected_throughput)) for point in points], right=True),
        ]
    columns.append(Column("processes", [Cell(str(point.processes)) for point in points], right=True))
    return Table(columns)


def known(estimate: ProcessEstimate | None) -> str:
    if estimate is None:
        return "–"
    ends = "" if estimate.low is None or estimate.high is None else f" [{_round(estimate.low)}, {_round(estimate.high)}]"
    return f"{_round(estimate.value)}{ends}"


def _round(value: float | None) -> str:
    return "–" if value is None else units.round_to(value)


def _time(estimate: ProcessEstimate | None) -> str:
    return "–" if estimate is None else f"{units.show(estimate.value, 's')}{show.interval(estimate)}"


def memory(estimate: ProcessEstimate | None) -> str:
    return "?" if estimate is None else f"{estimate.value / 2**20:.0f} MiB"


def _model(point: BatchPoint) -> str:
    return "–" if point.expected is None or point.expected.seconds is None else units.show(point.expected.seconds, "s")


def facts(kept: TrainingFrontier) -> list[tuple[str, str]]:
    """What is said beside the table, the answer last."""
    pairs = [(point.arm, harmless(point.reason)) for point in kept.points if point.lost]
    if kept.knee is not None:
        pairs.append(("knee", knee(kept)))
    if kept.line is not None:
        pairs.append(("line", line(kept)))
    if any(point.step_s and point.step_s.low is None for point in kept.points):
        pairs.append(("interval", "none of fewer than 4 processes, so no value is beaten and no line is fitted; give --processes 6"))
    pairs += _expected(kept)
    if _measured(kept) and not any(point.joules for point in kept.points):
        pairs.append(("energy", "unknown: no sensor of power or energy on this device, or tokens are not known"))
    pairs += [("note", harmless(notice.text)) for notice in kept.notices]
    return [*pairs, ("answer", answer(kept))]


def knee(kept: TrainingFrontier) -> str:
    assert kept.knee is not None
    share = f"the smallest with {units.percent(frontier.KNEE)} of the most {rate_unit(kept)} (it has {units.percent(kept.knee.share)})"
    return f"{kept.asked.vary} {kept.knee.value}: {share}{'' if kept.knee.sure else UNSURE}"


def line(kept: TrainingFrontier) -> str:
    fit = kept.line
    assert fit is not None
    fixed = f"{units.show(max(fit.fixed_s, 0.0), 's', 2)} + {units.show(fit.each_s, 's', 2)} · {kept.asked.vary}"
    text = f"a step takes {fixed}, within {units.percent(fit.worst)}"
    if fit.half_low is None or fit.half_high is None or fit.half > max(kept.asked.values):
        return text
    return f"{text}; half of the most throughput from {kept.asked.vary} {fit.half:.2g} [{fit.half_low:.2g}, {fit.half_high:.2g}] on"


def _expected(kept: TrainingFrontier) -> list[tuple[str, str]]:
    """What the model expects, and how far off it is, the worst named."""
    first = next((point.expected for point in kept.points if point.expected), None)
    if first is None:
        return []
    if first.seconds is None:
        return [("model", expected_gap.facts(first, None)[0].partition(" ")[2])]
    gaps = [point.gap for point in kept.points if point.gap]
    pairs = [("model", f"on {harmless(first.on)} by {harmless(first.words)}")]
    if gaps:
        worst: ExpectedGap = max(gaps, key=lambda gap: abs(gap.ratio - 1))
        inside = sum(gap.answer == "as expected" for gap in gaps)
        where = f"{inside} of {len(gaps)} steps within its interval; farthest {worst.expected.arm}: {expected_gap.differs(worst)}"
        pairs.append(("differs", where))
    return pairs


def answer(kept: TrainingFrontier) -> str:
    """In a sentence."""
    points = _measured(kept)
    if not points:
        return "no value has a step that was measured: see above"
    on = [str(point.value) for point in points if point.front]
    off = [str(point.value) for point in points if not point.front]
    beaten = f"surely beaten: {', '.join(off)}" if off else "none is surely beaten"
    lost = [str(point.value) for point in kept.points if point.lost in ("memory", "killed")]
    without = [str(point.value) for point in kept.points if not point.step_s and point.lost not in ("memory", "killed")]
    more = f"; out of memory: {', '.join(lost)}" if lost else ""
    more += f"; no point at {', '.join(without)}" if without else ""
    failed = [str(point.value) for point in kept.points if point.step_s and point.lost == "failed"]
    more += f"; the program failed at {', '.join(failed)}, whose steps until then count" if failed else ""
    return harmless(f"on the frontier of {kept.asked.vary}: {', '.join(on)}; {beaten}{more}")


# ---------------------------------------------------------------- the page


def lead(kept: TrainingFrontier) -> str:
    return f'<p class="lead">{escape(answer(kept))}.</p><p>{escape(asked(kept))}.</p>'


def section(kept: TrainingFrontier) -> str:
    words = "".join(f"<p><b>{escape(label[:1].upper() + label[1:])}:</b> {escape(what)}</p>" for label, what in facts(kept)[:-1])
    if not _measured(kept):
        return words
    plots = f'<div class="plots">{_over_values(kept)}{_against_time(kept)}</div>'
    return f"{html(table(kept))}<p>{escape(legend(kept))}</p>{words}{plots}"


def _low(estimate: ProcessEstimate) -> float:
    return max(estimate.value if estimate.low is None else estimate.low, 0.0)


def _high(estimate: ProcessEstimate) -> float:
    return estimate.value if estimate.high is None else estimate.high


def _colour(point: BatchPoint) -> str:
    return "s0" if point.front else "s1"


def _over_values(kept: TrainingFrontier) -> str:
    """Throughput over the value, the model's curve, and the knee."""
    points = [(point, point.throughput) for point in kept.points if point.throughput]
    curve = [(float(point.value), point.expected_throughput) for point in kept.points if point.expected_throughput]
    most = max([*(_high(rate) for _, rate in points), *(rate for _, rate in curve)])
    across = charts.log_axis([float(point.value) for point in kept.points], lambda v: f"{v:g}", kept.asked.vary)
    up = charts.linear_axis(0.0, most, lambda v: f"{v:g}", most=5)
    chart = charts.Chart(across, up, f"throughput over {kept.asked.vary}", right=60.0)
    if curve:
        chart.line(curve, "bound")
        chart.label(curve[-1], "model", "above")
    for point, rate in points:
        chart.span(float(point.value), _low(rate), _high(rate), _colour(point))
        at_knee = kept.knee is not None and kept.knee.value == point.value
        chart.dot((float(point.value), rate.value), _colour(point), f"{point.arm}: {known(rate)} {rate_unit(kept)}")
        chart.label((float(point.value), rate.value), f"{point.value}, knee" if at_knee else str(point.value), "beside")
    return figure(f"Throughput over {kept.asked.vary}", f" {rate_unit(kept)}; points of another colour are surely beaten", chart)


def _against_time(kept: TrainingFrontier) -> str:
    """Throughput against the time of a step."""
    points = [(point, point.step_s, point.throughput) for point in kept.points if point.step_s and point.throughput]
    across = charts.linear_axis(0.0, max(_high(step) for _, step, _ in points), lambda v: units.show(v, "s", 2), "step")
    up = charts.linear_axis(0.0, max(_high(rate) for _, _, rate in points), lambda v: f"{v:g}", most=5)
    chart = charts.Chart(across, up, "throughput against step time", right=60.0)
    for point, step, rate in points:
        chart.span(step.value, _low(rate), _high(rate), _colour(point))
        chart.line([(_low(step), rate.value), (_high(step), rate.value)], _colour(point))
        shown = f"{point.arm}: {known(rate)} {rate_unit(kept)}, {_time(step)}, {memory(point.memory_bytes)}"
        chart.dot((step.value, rate.value), _colour(point), shown)
        chart.label((step.value, rate.value), str(point.value), "beside")
    return figure("Throughput against step time", f" {rate_unit(kept)}", chart)


SECTION = ReportSection("Frontier", "Batches of training", lambda report: "".join(map(section, report.of(FRONTIER))))


def notices(_kept: TrainingFrontier) -> str:
    return ""

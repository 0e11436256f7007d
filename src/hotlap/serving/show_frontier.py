"""How frontiers of servers are shown, on the terminal and as part of a page (`hotlap.core.show.kinds.Kind`)."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from hotlap.core import units
from hotlap.core.show import charts, layout, words
from hotlap.core.show.bands import figure
from hotlap.core.show.sections.base import ReportSection
from hotlap.core.show.table import Cell, Column, Table, harmless, html
from hotlap.core.store.bundle import Bundle
from hotlap.serving import arrivals, reading, show, show_capacity
from hotlap.serving.frontier_points import FEWEST, FILE, KIND, FrontierMean, FrontierVisit, ServerFrontier, ServingPoint

NO_GATE = "{run} is a frontier of a server, throughput against interactivity: hotlap show {run}"
UNFINISHED = "not finished: it was killed"
CASES = False
FIRST, SUBJECT, ENDED = True, "frontier of", {"rounds_max": "every load was measured", "budget": "the time was spent"}
NO_CASES = "a frontier of a server has no cases to explain; hotlap show {run} says what each load gave"
METHOD = ""


def read(bundle: Bundle) -> ServerFrontier | None:
    return reading.content(bundle.path, FILE, ServerFrontier)


def text(kept: ServerFrontier, width: int, color: bool) -> str:
    lines = layout.paragraph("", asked(kept), width)
    if kept.points:
        lines += ["", *layout.fitted(table(kept).columns, width).lines(color), "", *layout.paragraph("", LEGEND, width)]
    if without(kept):
        lines += ["", *layout.fitted(uncounted(kept).columns, width).lines(color), ""]
    for label, what in facts(kept):
        lines += layout.paragraph(f"{label:<10}", what, width)
    return "\n".join(lines)


LEGEND = "◆ on the frontier: no other load is better in one direction and as good in the other by more than their intervals"


def document(kept: ServerFrontier) -> dict[str, Any]:
    return {"frontier": kept}


def measured(kept: ServerFrontier) -> bool:
    return bool(kept.points)


def code(kept: ServerFrontier) -> int:
    """The exit code: 130 interrupted, 3 where a load has no point, or objectives cannot be judged."""
    if kept.ended == "interrupted":
        return 130
    return 0 if len(kept.points) == len(kept.settings) and not any(visit.unknown for visit in kept.visits) else 3


def name(setting: str) -> str:
    """Of a load, in words."""
    process = arrivals.parse(setting)
    return f"{process.rate:g}/s" if process.open else f"{process.concurrency} at a time"


def asked(kept: ServerFrontier) -> str:
    a = kept.asked
    lengths = f"{a.input_tokens} tokens in, {a.output_tokens} out"
    loads = "closed loops" if not arrivals.parse(kept.settings[0]).open else "Poisson arrivals"
    rounds = 1 + max((visit.round for visit in kept.visits), default=0)
    return harmless(f"frontier of {a.model} at {a.url} by {a.api}: {loads}, in {words.counted(rounds, 'round')}, {lengths}, seed {a.seed}")


def unit(kept: ServerFrontier) -> str:
    return "tokens/s of a GPU" if kept.gpus else "tokens/s"


def table(kept: ServerFrontier) -> Table:
    by_model = {point.setting: point for point in kept.expected}
    columns = [
        Column("", [Cell("◆" if point.front else "") for point in kept.points]),
        Column("load", [Cell(name(point.setting), "bold") for point in kept.points], right=True),
        Column(unit(kept), [Cell(known(point.throughput), value=point.throughput.value) for point in kept.points], right=True),
        Column("of a user", [Cell(known(point.interactivity), value=point.interactivity.value) for point in kept.points], right=True),
    ]
    if kept.expected:
        columns += [
            Column("model", [Cell(_model(by_model.get(point.setting), "throughput")) for point in kept.points], right=True),
            Column("of a user ", [Cell(_model(by_model.get(point.setting), "interactivity")) for point in kept.points], right=True),
        ]
    if kept.asked.objectives:
        columns.append(Column("met", [Cell(_met(kept, point)) for point in kept.points], right=True))
    columns.append(Column("blocks", [Cell(str(point.blocks)) for point in kept.points], right=True))
    return Table(columns)


def without(kept: ServerFrontier) -> list[str]:
    """Loads that have no point."""
    return [setting for setting in kept.settings if setting not in {point.setting for point in kept.points}]


def uncounted(kept: ServerFrontier) -> Table:
    """What was seen of loads that have no point, and why it does not count."""
    loads = without(kept)
    visits = {setting: [visit for visit in kept.visits if visit.setting == setting] for setting in loads}
    blocks = {setting: [block for visit in visits[setting] for block in visit.blocks] for setting in loads}

    def seen(setting: str, axis: str) -> Cell:
        values = [getattr(block, axis) for block in blocks[setting]]
        return Cell(units.round_to(sum(values) / len(values)) if values else "?", "dim")

    return Table([
        Column("no point", [Cell(name(setting), "bold") for setting in loads], right=True),
        Column(unit(kept), [seen(setting, "throughput") for setting in loads], right=True),
        Column("of a user", [seen(setting, "interactivity") for setting in loads], right=True),
        Column("runs", [Cell(str(len(visits[setting]))) for setting in loads], right=True),
        Column("why it does not count", [Cell(_why(visits[setting])) for setting in loads], wrap=True),
    ])  # fmt: skip


def _why(visits: Sequence[FrontierVisit]) -> str:
    """Why these runs make no point."""
    if not visits:
        return "it was not measured: the search ended before"
    flawed = [visit for visit in visits if visit.flaws]
    sound = [block for visit in visits if not visit.flaws for block in visit.blocks]
    parts = [f"the client, in {len(flawed)} of {words.counted(len(visits), 'run')}: {show.FLAWS[flawed[0].flaws[0]]}"] if flawed else []
    if len(flawed) < len(visits):
        failed = sum(visit.failed for visit in visits)
        parts.append(f"{len(sound)} blocks of sound runs, and {FEWEST} are needed" + (f"; {failed} requests failed" if failed else ""))
        if not sound and not failed:
            parts.append("the server does not count tokens, its answers come in one chunk, or too few requests came after the warm-up: "
                         "give more --requests")
    return "; ".join(parts)


def known(figure_: FrontierMean) -> str:
    return f"{units.round_to(figure_.value)} [{units.round_to(figure_.low)}, {units.round_to(figure_.high)}]"


def _model(point: ServingPoint | None, axis: str) -> str:
    return "–" if point is None else units.round_to(getattr(point, axis).value)


def _met(kept: ServerFrontier, point: ServingPoint) -> str:
    sound = [visit for visit in kept.visits if visit.setting == point.setting and not visit.flaws]
    decided = sum(visit.decided for visit in sound)
    return units.percent(sum(visit.met for visit in sound) / decided) if decided else "?"


def facts(kept: ServerFrontier) -> list[tuple[str, str]]:
    """What is said beside the table, the answer last."""
    sound = [visit for visit in kept.visits if not visit.flaws]
    sent, count = (sum(visit.requests for visit in some) for some in (kept.visits, sound))
    runs = f"{sent} requests in {words.counted(len(kept.visits), 'run')}, beside those that warm up"
    counted = "" if len(sound) == len(kept.visits) else f", of which {count} in {words.counted(len(sound), 'run')} count"
    pairs = [("sent", f"{runs}{counted}; {units.show(kept.seconds, 's')}")]
    if kept.ended in show_capacity.EARLY:
        pairs.append(("ended", show_capacity.ending(kept.ended, kept.detail)))
    failed = sum(visit.failed for visit in kept.visits)
    if failed:
        pairs.append(("failed", f"{failed} requests; their tokens are not counted"))
    flawed = [visit for visit in kept.visits if visit.flaws]
    if flawed:
        loads = ", ".join(dict.fromkeys(name(visit.setting) for visit in flawed))
        remedy = show.remedy(flawed[0].flaws[0], not arrivals.parse(flawed[0].setting).open)
        counts = "which does not count" if len(flawed) == 1 else "which do not count"
        pairs.append(("client", f"it was at fault in {words.counted(len(flawed), 'run')} ({loads}), {counts}: {remedy}"))
    if unknown := [visit for visit in kept.visits if visit.unknown]:
        count = sum(visit.unknown for visit in unknown)
        pairs.append(("met", f"of {words.counted(count, 'request')} {unknown[0].why_unknown}"))
    if kept.expected:
        pairs.append(("model", f"of {kept.expected_of}"))
    return [*pairs, ("answer", answer(kept))]


def answer(kept: ServerFrontier) -> str:
    """In a sentence."""
    missing = [name(setting) for setting in without(kept)]
    lacking = f"; no point at {', '.join(missing)}" if missing else ""
    if not kept.points:
        flawed = any(visit.flaws for visit in kept.visits)
        return "inconclusive: the client: no run was sound" if flawed else "no load has blocks enough for a point"
    on = [name(point.setting) for point in kept.points if point.front]
    off = [name(point.setting) for point in kept.points if not point.front]
    beaten = f"surely beaten: {', '.join(off)}" if off else "none is surely beaten"
    return f"on the frontier: {', '.join(on)}; {beaten}{lacking}"


# ---------------------------------------------------------------- the page


def title(kept: ServerFrontier) -> str:
    """Of a page: what was measured."""
    return f"Frontier of {show.server_text(kept.asked)}: throughput against interactivity"


def headings(kept: ServerFrontier) -> list[tuple[str, str]]:
    """Its benches, load by load, each with a heading for a page."""
    visits = sorted(kept.visits, key=lambda visit: (kept.settings.index(visit.setting), visit.run))
    return [(visit.run, name(visit.setting)) for visit in visits]


def lead(kept: ServerFrontier) -> str:
    return f'<p class="lead">{escape(answer(kept))}.</p><p>{escape(asked(kept))}.</p>'


def section(kept: ServerFrontier) -> str:
    """Throughput against interactivity, with what is said of it."""
    said = "".join(f"<p>{escape(f'{label}: {what}')}</p>" for label, what in facts(kept))
    said += html(uncounted(kept)) if without(kept) else ""
    if not kept.points:
        return said
    return f'{said}{html(table(kept))}<p>{escape(LEGEND)}</p><div class="plots">{_chart(kept)}</div>'


def _chart(kept: ServerFrontier) -> str:
    every = [*kept.points, *kept.expected]
    low, high = min(point.interactivity.low for point in every), max(point.interactivity.high for point in every)
    across = charts.linear_axis(max(low, 0.0), high, lambda v: f"{v:g}", "tokens/s that a user sees")
    up = charts.linear_axis(0.0, max(point.throughput.high for point in every), lambda v: f"{v:g}", most=5)
    chart = charts.Chart(across, up, "throughput against interactivity", right=100.0)
    if kept.expected:
        curve = sorted((point.interactivity.value, point.throughput.value) for point in kept.expected)
        chart.line(curve, "bound")
        chart.label(curve[0], "model", "above")
    for point in kept.points:
        x, y = point.interactivity, point.throughput
        chart.span(x.value, y.low, y.high, "s0")
        chart.line([(x.low, y.value), (x.high, y.value)], "s0")
        shown = f"{name(point.setting)}: {known(y)} {unit(kept)}, {known(x)} of a user"
        chart.dot((x.value, y.value), "s0" if point.front else "s1", shown)
        chart.label((x.value, y.value), name(point.setting), "beside")
    return figure("Throughput against interactivity", f" {unit(kept)}; points of another colour are surely beaten", chart)


SECTION = ReportSection("Frontier", "Throughput against interactivity", lambda report: "".join(map(section, report.of(KIND))))


def notices(_kept: ServerFrontier) -> str:
    return ""

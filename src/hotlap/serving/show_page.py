"""A bench of a server as part of a page: requests over time, how their latencies are spread, where TTFT goes, and the client's verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

import numpy as np

from hotlap.core import units
from hotlap.core.show import charts
from hotlap.core.show.bands import figure
from hotlap.core.show.table import Cell, Column, Table, html
from hotlap.serving import definitions, show, steady
from hotlap.serving.expected import ExpectedServing
from hotlap.serving.record import Request
from hotlap.serving.steady import SteadyWindow
from hotlap.serving.verdict import ServingVerdict

DRAWN = 4000  # requests at most; of more, evenly spread ones
SERIES = (("E2E", "s0", lambda request: request.e2e_s), ("TTFT", "s1", lambda request: request.ttft_s))


def lead(judged: ServingVerdict) -> str:
    """The answer, and what was asked."""
    asked = show.asked_text(judged.serving.served.asked)
    return f'<p class="lead">{escape(show.answer(judged))}.</p><p>{escape(asked)}.</p>'


def section(judged: ServingVerdict) -> str:
    """Figures, charts, and what is said of the client."""
    requests = [request for request in judged.serving.requests if request.index >= judged.serving.served.asked.warm_up]
    if not requests:
        return "<p>No request was due.</p>"
    words = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in show.facts(judged))
    steady = judged.summary.steady
    window = steady.window if steady else None
    tables = html(show.table(judged.summary.held.latencies)) + _expected(judged.expected)
    drawings = [_over_time(requests, window), _spread(requests), _under_way(requests), _parts(judged)]
    return f'<dl>{words}</dl>{tables}<h4>Request by request</h4><div class="plots">{"".join(drawings)}</div>{_defined(judged)}'


def _defined(judged: ServingVerdict) -> str:
    """What vLLM's client would say of the same requests."""
    numbers = definitions.vllm(judged.serving)
    if not numbers.completed:
        return ""
    return f"<p>{escape(show.DEFINED)}.</p>{html(show.defined_table(numbers))}<p>{escape(show.defined_rates(numbers))}.</p>"


def _some(requests: Sequence[Request]) -> Sequence[Request]:
    return requests[:: -(-len(requests) // DRAWN)]


def _values(requests: Sequence[Request], of: Callable[[Request], float | None]) -> list[tuple[float, float]]:
    """When each was due, and what it took."""
    return [(request.due_s, value) for request in requests if (value := of(request)) is not None and value > 0]


def _shown_s(value: float) -> str:
    return units.show(value, "s", 2)


def _over_time(requests: Sequence[Request], window: SteadyWindow | None) -> str:
    drawn = [(name, kind, _values(_some(requests), of)) for name, kind, of in SERIES]
    every = [value for _, _, points in drawn for _, value in points]
    if not every:
        return ""
    axis = charts.linear_axis(requests[0].due_s, requests[-1].due_s, lambda v: f"{v:g} s")
    chart = charts.Chart(axis, charts.log_axis(every, _shown_s), "latency of requests over time", height=260.0, right=48.0)
    for edge_s in (window.begin_s, window.end_s) if window else ():
        if edge_s is not None:
            chart.line([(edge_s, chart.y.low), (edge_s, chart.y.high)], "bound")
    for name, kind, points in drawn:
        chart.dots(points, kind)
        if points:
            chart.label((axis.high, float(np.median([value for _, value in points]))), name, f"beside {kind}")
    where = "" if not window else f"; figures are of those {'after the line' if window.end_s is None else 'between the lines'}"
    return figure("Requests over time", f" each from when it was due{where}", chart)


def _spread(requests: Sequence[Request]) -> str:
    """Cumulative shares."""
    drawn = [(name, kind, sorted(value for _, value in _values(requests, of))) for name, kind, of in SERIES]
    every = [value for _, _, values in drawn for value in values]
    if not every:
        return ""
    shares = charts.linear_axis(0.0, 1.0, lambda v: f"{100 * v:.0f} %", most=4)
    axis = charts.log_axis([min(every), max(every)], _shown_s)
    chart = charts.Chart(axis, shares, "cumulative share of requests by latency", height=260.0)
    for name, kind, values in drawn:
        places = np.unique(np.linspace(0, len(values) - 1, 200).astype(int)).tolist() if values else []
        chart.line([(values[place], (place + 1) / len(requests)) for place in places], kind)
        if values:
            chart.label((values[len(values) // 2], 0.5), name, kind)
    return figure("How they are spread", " share of all requests due that took no longer", chart)


def _under_way(requests: Sequence[Request]) -> str:
    if requests[-1].due_s <= requests[0].due_s:
        return ""
    times, counts = steady.under_way(requests)
    most = float(max(counts.max(), 1))
    axis = charts.linear_axis(float(times[0]), float(times[-1]), lambda v: f"{v:g} s")
    chart = charts.Chart(axis, charts.linear_axis(0.0, most, lambda v: f"{v:g}", most=4), "requests under way over time", height=210.0)
    chart.line(list(zip(times.tolist(), counts.astype(float).tolist(), strict=True)), "main")
    return figure("Requests under way", f" at most {most:g}", chart)


def _expected(expected: ExpectedServing | None) -> str:
    """What the model expects beside what was measured, and of what the gap is made."""
    if expected is None:
        return ""
    names, cells = ["p50", "alone", "expected for this load", "measured", "answer"], show.expected_cells(expected)
    table = Table([Column(name, [Cell(row[place]) for row in cells], right=0 < place < 4) for place, name in enumerate(names)])
    on, gaps = expected.on, "".join(f"<p>{escape(gap)}.</p>" for gap in show.gaps(expected))
    on_text = f"{on.network} on {on.tp} × {on.gpu}, {on.dtype}" if on.tp > 1 else f"{on.network} on {on.gpu}, {on.dtype}"
    rule = f"; {text}" if (text := show.expected_rule(expected)) else ""
    about = f"hotlap predict net of {on_text}, this load played through it{rule}."
    return f"<h3>What the model expects</h3><p>{escape(about)}</p>{html(table)}{gaps}"


def _parts(judged: ServingVerdict) -> str:
    """Where TTFT goes, as a table."""
    parts = judged.summary.ttft_parts
    if not parts:
        return ""
    columns = [
        Column("part", [Cell(name) for name in show.PARTS.values()]),
        Column("mean", [Cell(units.show(parts[key], "s"), value=parts[key]) for key in show.PARTS], right=True),
        Column("share", [Cell(units.percent(parts[key] / parts["total"])) for key in show.PARTS], right=True),
    ]  # fmt: skip
    whole = " of the whole run" if judged.summary.steady else ""
    about = f" {units.show(parts['total'], 's')} on average{whole}, by the server's own counters"
    name = "E2E" if judged.serving.served.asked.api == "embeddings" else "TTFT"
    return f"<figure><figcaption><b>Where {name} goes</b>{about}</figcaption>{html(Table(columns))}</figure>"

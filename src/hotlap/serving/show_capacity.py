"""How searches for capacity are shown, on the terminal and as part of a page (`hotlap.core.show.kinds.Kind`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from hotlap.core import objectives, units
from hotlap.core.show import charts, layout, words
from hotlap.core.show.bands import figure
from hotlap.core.show.sections import base
from hotlap.core.show.sections.base import ReportSection
from hotlap.core.show.table import Cell, Column, Table, harmless, html
from hotlap.core.store.bundle import Bundle
from hotlap.serving import reading, show, summary
from hotlap.serving.capacity import LASTS, LEAST_INFLATION, Capacity, RateEvidence
from hotlap.serving.capacity_record import FILE, KIND, RateVisited, ServerCapacity
from hotlap.serving.capacity_session import longest_s

NO_GATE = (
    "{run} is a search for a server's capacity, which gate does not judge: hotlap show {run} says between which rates it lies, and "
    "hotlap serving bench URL --arrivals poisson:RATE --slo … --attain … exits by whether a rate is held"
)
UNFINISHED = "not finished: it was killed"
CASES = False
FIRST, SUBJECT = True, "search for the capacity of"
NO_CASES = "a search for capacity has no cases to explain; hotlap show {run} says what each rate showed"
METHOD = ""
CLIENT = "leave a processor core to the client alone: end what else runs on this machine, or move it"  # rates are not the user's here
LEGEND = (
    "by all: of all rates together, as the answer (a rate above one that is not held is not held); met, interval: of that rate alone, "
    "sure at 95 % for all of them together"
)
OUTRUN = "where more came than was served, all count as missed, and goodput is left out"
EARLY = {"budget": "the time was spent", "interrupted": "it was interrupted", "error": "the server failed"}
ALLOW = {
    "budget": "allow more time (--for)", "interrupted": "let it go on to its end", "error": "begin again when the server answers",
}  # fmt: skip
UNCOUNTED = "not counted"
STYLES = {"held": "good", "not held": "bad", "unclear": "warn", UNCOUNTED: "dim"}
ENDED = {"rounds_max": "the search is over", "budget": EARLY["budget"]}


def read(bundle: Bundle) -> ServerCapacity | None:
    return reading.content(bundle.path, FILE, ServerCapacity)


def text(kept: ServerCapacity, width: int, color: bool) -> str:
    lines = layout.paragraph("", asked(kept), width)
    if kept.rates:
        lines += ["", *layout.fitted(table(kept).columns, width).lines(color), ""]
        lines += [*layout.paragraph("columns   ", legend(kept), width)]
    for label, what in facts(kept):
        lines += layout.paragraph(f"{label:<10}", what, width)
    return "\n".join(lines)


def document(kept: ServerCapacity) -> dict[str, Any]:
    return {"capacity": kept}


def measured(kept: ServerCapacity) -> bool:
    return bool(kept.capacity.evidence)


def code(kept: ServerCapacity) -> int:
    """The exit code: 130 interrupted, 3 where one end is not known for another reason than the rate that was allowed."""
    if kept.ended == "interrupted":
        return 130
    c = kept.capacity
    return 0 if not kept.unknown and c.known_good is not None and (c.known_bad is not None or _all_allowed(kept)) else 3


def _all_allowed(kept: ServerCapacity) -> bool:
    """Whether the greatest rate that was allowed is held."""
    good, most = kept.capacity.known_good, kept.options.max_rate
    return good is not None and most is not None and good >= most / 1.02


def asked(kept: ServerCapacity) -> str:
    a = kept.asked
    lengths = f"{a.input_tokens} tokens in" + ("" if a.api == "embeddings" else f", {a.output_tokens} out")
    wanted = f"{units.percent(kept.options.attain)} have to meet {a.objectives}"
    return harmless(f"capacity of {a.model} at {a.url} by {a.api}: {kept.arrivals} arrivals, {lengths}, {wanted}, seed {a.seed}")


def evidence_of(kept: ServerCapacity) -> dict[str, RateEvidence]:
    """By run: what each shows by itself; a rate may have been visited twice. Both are in the order of the visits."""
    left, known = list(kept.capacity.evidence), dict[str, RateEvidence]()
    for visited in kept.rates:
        place = next((n for n, one in enumerate(left) if one.rate == visited.rate), None)
        if place is not None and not visited.flaws:
            known[visited.run] = left.pop(place)
    return known


def table(kept: ServerCapacity) -> Table:
    """The rates, the lowest first."""
    known = evidence_of(kept)
    rates = sorted(kept.rates, key=lambda visited: (visited.rate, visited.run))

    def interval(visited: RateVisited) -> str:
        evidence = known.get(visited.run)
        return f"[{_percent(evidence.low)}, {_percent(evidence.high)}] %" if evidence else "–"

    def met(visited: RateVisited) -> str:
        """Without the warm-up, as the interval; of a rate that counts for nothing, of all that were decided."""
        evidence = known.get(visited.run)
        if evidence:
            return _share(evidence.met / evidence.requests)
        return _share(visited.met / visited.decided) if visited.decided else "?"

    words_of, failed = [judgement(kept, visited) for visited in rates], any(visited.failed for visited in rates)
    return Table([
        Column("offered", [Cell(f"{units.round_to(visited.rate)}/s", "bold", value=visited.rate) for visited in rates], right=True),
        Column("by all", [Cell(word, STYLES[word]) for word in words_of], key="judgement"),
        Column("sent", [Cell(str(visited.requests)) for visited in rates], right=True),
        Column("met", [Cell(met(visited)) for visited in rates], right=True),
        Column("interval", [Cell(interval(visited)) for visited in rates]),
        *([Column("failed", [Cell(str(visited.failed) if visited.failed else "") for visited in rates], right=True)] if failed else []),
        Column("goodput", [Cell("–" if visited.outrun else _rate(visited.goodput)) for visited in rates], right=True),
        *([Column("", [Cell(remark(visited)) for visited in rates], key="remark")] if any(map(remark, rates)) else []),
        Column("run", [Cell(visited.run) for visited in rates]),
    ])  # fmt: skip


def judgement(kept: ServerCapacity, visited: RateVisited) -> str:
    """What all rates together say of one: held, not held, unclear; or that it counts for nothing."""
    c = kept.capacity
    if visited.flaws:
        return UNCOUNTED
    if c.known_good is not None and visited.rate <= c.known_good:
        return "held"
    return "not held" if c.known_bad is not None and visited.rate >= c.known_bad else "unclear"


def legend(kept: ServerCapacity) -> str:
    """What the columns of the table are of."""
    return f"{LEGEND}; {OUTRUN}" if any(visited.outrun for visited in kept.rates) else LEGEND


def remark(visited: RateVisited) -> str:
    if visited.flaws:
        return f"inconclusive: the client: {show.FLAWS.get(visited.flaws[0], visited.flaws[0])}"
    if visited.late:
        return "the client was late, which only makes times longer"
    return "more came than was served" if visited.outrun else ""


def facts(kept: ServerCapacity) -> list[tuple[str, str]]:
    """What is said beside the table, the answer last."""
    sent = sum(visited.requests for visited in kept.rates)
    pairs = [("sent", f"{sent} requests in {words.counted(len(kept.rates), 'run')}, in {units.show(kept.seconds, 's')}")]
    if kept.ended in EARLY:
        pairs.append(("ended", ending(kept.ended, kept.detail) + _next(kept)))
    elif spent := _spent(kept):
        pairs.append(("ended", spent))
    if kept.capacity.evidence and kept.options.warm_up:
        pairs.append(("met", f"without the first {units.percent(kept.options.warm_up)} of each rate, in which a server fills"))
    refused = [visited for visited in kept.rates if visited.flaws]
    if refused:
        rates = ", ".join(dict.fromkeys(f"{units.round_to(visited.rate)}/s" for visited in refused))
        counts = "which does not count" if len(refused) == 1 else "which do not count"
        pairs.append(("client", f"it was at fault in {words.counted(len(refused), 'run')} (at {rates}), {counts}: {_remedy(refused)}"))
    if kept.capacity.withdrawn is not None:
        pairs.append(("withdrawn", _withdrawn(kept, kept.capacity.withdrawn)))
    if kept.capacity.answered is not None:
        value, low, high = (units.round_to(one) for one in kept.capacity.answered)
        pairs.append(("answered", f"{value}/s [{low}, {high}] where more came than was served: no higher rate is held"))
    if kept.expected is not None:
        pairs.append(("model", f"{_between(kept.expected)} is expected of {kept.expected_of}{_beside(kept)}"))
    return [*pairs, ("answer", answer(kept))]


def _remedy(refused: Sequence[RateVisited]) -> str:
    flaw = refused[0].flaws[0]
    return CLIENT if flaw in ("late", "arrivals") else show.remedy(flaw)


def _spent(kept: ServerCapacity) -> str:
    """What ended a search whose interval is wider than was asked; "" for one that is narrow enough, or that its client ended."""
    c, options = kept.capacity, kept.options
    if c.width <= options.width or not c.evidence:
        return ""
    asked_for = f"before the interval was {units.percent(options.width)} wide; half the interval costs four times as many requests"
    if c.requests >= options.requests:
        return f"all {options.requests} requests that --requests allows were sent, {asked_for}"
    return f"all {options.rates} rates that --rates allows were measured, {asked_for}" if len(kept.rates) >= options.rates else ""


def _withdrawn(kept: ServerCapacity, rate: float) -> str:
    """Why a rate that was known good earlier is not any more."""
    c = kept.capacity
    now = f"only {units.round_to(c.known_good)}/s is" if c.known_good is not None else "no rate is"
    bursts = c.inflation is not None and c.inflation > LEAST_INFLATION
    worth = f" (misses come in bursts: {round(c.inflation)} requests tell as much as one alone)" if bursts and c.inflation else ""
    why = f"runs after that agree less with the earlier ones than chance allows{worth}, and by all of them {now}"
    return f"earlier in this search {units.round_to(rate)}/s was shown to be held; {why}: {_more(kept)}"


def ending(code: str, detail: str) -> str:
    """Why it ended before its time."""
    return harmless(f"{EARLY[code]}{': ' if detail else ''}{detail}; what was measured until then counts")


def _next(kept: ServerCapacity) -> str:
    """How a search that ended early goes on."""
    c = kept.capacity
    seen = [visited.rate for visited in kept.rates if not visited.flaws]
    rate = c.estimate or c.known_good or (c.known_bad / 2 if c.known_bad else max(seen, default=None))
    if not rate:
        return ""
    return f"; the same command with --start {units.round_to(rate)} begins a new search there"


def answer(kept: ServerCapacity) -> str:
    """In a sentence."""
    c, wanted = kept.capacity, units.percent(kept.options.attain)
    if kept.unknown:
        return f"inconclusive: {kept.unknown}"
    flawed = [visited for visited in kept.rates if visited.flaws]
    if not c.evidence:
        return f"inconclusive: the client: no rate was measured soundly; {_remedy(flawed)}" if flawed else "nothing was measured"
    if c.known_good is not None and c.known_bad is not None:
        return f"it holds {units.round_to(c.known_good)}/s and does not hold {units.round_to(c.known_bad)}/s at {wanted}{_estimate(c)}"
    if c.known_good is not None:
        more = f"no rate is shown to be too much; {_more(kept)}, or allow a higher rate"
        why = "that is all that --max-rate allows" if _all_allowed(kept) else more
        return f"it holds {units.round_to(c.known_good)}/s at {wanted}; {why}"
    if c.known_bad is not None:
        lower = f"no lower rate is shown to be held{_estimate(c)}; {_more(kept)}"
        lower = f"no lower rate is shown to be held: {short(kept)}" if c.short else lower
        return f"it does not hold {units.round_to(c.known_bad)}/s at {wanted}, and {lower}"
    if 2 * len(flawed) > len(kept.rates):
        return f"inconclusive: the client: it was at fault in {len(flawed)} of {len(kept.rates)} runs; {_remedy(flawed)}"
    if c.short:
        return f"inconclusive: {short(kept)}"
    return f"inconclusive: no rate is shown to be held or to be too much at {wanted}; {_more(kept)}"


def _more(kept: ServerCapacity) -> str:
    """What to do where there was too little to say it."""
    return ALLOW.get(kept.ended, "allow more requests")


def short(kept: ServerCapacity) -> str:
    """That runs are too short against the objectives, and what would do."""
    limit_s = longest_s(objectives.parse(kept.asked.objectives, summary.METRICS))
    least = f"a run needs {units.show(LASTS * limit_s, 's')}, for a queue may fill until then"
    return f"runs are too short for an objective of {units.show(limit_s, 's')}: {least}; allow more requests, and more time"


def _estimate(c: Capacity) -> str:
    inside = c.estimate is not None and (c.known_good or 0.0) <= c.estimate <= (c.known_bad or math.inf)
    return f" (estimate {units.round_to(c.estimate)}/s)" if inside and c.estimate is not None else ""


def _between(c: Capacity) -> str:
    low, high = (units.round_to(bound) if bound is not None else "?" for bound in (c.known_good, c.known_bad))
    return f"{low} to {high}/s"


def _beside(kept: ServerCapacity) -> str:
    """Measured against expected, where neither is empty."""
    c, model = kept.capacity, kept.expected
    assert model is not None
    if None in (c.known_good, c.known_bad, model.known_good, model.known_bad):
        return ""
    ends = (c.known_good or 0.0) / (model.known_bad or 1.0), (c.known_bad or 0.0) / (model.known_good or 1.0)
    agrees = "as expected" if ends[0] <= 1 <= ends[1] else "less than expected" if ends[1] < 1 else "more than expected"
    return f"; measured is {agrees}: {ends[0]:.2f} to {ends[1]:.2f} of it"


def _rate(rate: float | None) -> str:
    return "?" if rate is None else f"{units.round_to(rate)}/s"


def _share(share: float) -> str:
    return f"{_percent(share)} %"


def _percent(share: float) -> str:
    return f"{round(share * 100, 2):.4g}"


# ---------------------------------------------------------------- the page


def title(kept: ServerCapacity) -> str:
    """Of a page: what was searched."""
    wanted = f"{units.percent(kept.options.attain)} meet {kept.asked.objectives}"
    return harmless(f"Capacity of {show.server_text(kept.asked)}: the rate at which {wanted}")


def headings(kept: ServerCapacity) -> list[tuple[str, str]]:
    """Its benches, the lowest rate first, each with a heading for a page."""
    rates = sorted(kept.rates, key=lambda visited: (visited.rate, visited.run))
    return [(visited.run, f"{units.round_to(visited.rate)}/s offered: {judgement(kept, visited)}") for visited in rates]


def lead(kept: ServerCapacity) -> str:
    return f'<p class="lead">{escape(answer(kept))}.</p><p>{escape(asked(kept))}.</p>'


def section(kept: ServerCapacity) -> str:
    """Attainment against rate, with what is said of it."""
    if not kept.rates:
        return "<p>No rate was measured.</p>"
    said = base.facts((label, what) for label, what in facts(kept) if label != "answer")  # which stands first on the page
    return f'{html(table(kept))}<p>{escape(legend(kept))}</p>{said}<div class="plots">{_chart(kept)}</div>'


def _chart(kept: ServerCapacity) -> str:
    c = kept.capacity
    every = [evidence.rate for evidence in c.evidence]
    if not every:
        return ""
    bounds = [bound for bound in (c.known_good, c.known_bad) if bound]
    axis = charts.log_axis([*every, *bounds], lambda v: f"{v:g}/s", "requests a second")
    shares = charts.linear_axis(0.0, 1.0, lambda v: f"{100 * v:.0f} %", most=5)
    chart = charts.Chart(axis, shares, "attainment against the rate, each with its interval, and the bracket of the capacity", right=110.0)
    for bound, word in ((c.known_good, "held"), (c.known_bad, "not held")):
        if bound is not None:
            chart.line([(bound, 0.0), (bound, 1.0)], "bound")
            height, anchor = (0.12, "end") if word == "held" else (0.05, "start")
            chart.label((bound, height), f"{word}: {units.round_to(bound)}/s", "above", anchor)
    chart.line([(axis.low, kept.options.attain), (axis.high, kept.options.attain)], "s2")
    chart.label((axis.high, kept.options.attain), f"{units.percent(kept.options.attain)} asked", "beside")
    for evidence in c.evidence:
        chart.span(evidence.rate, evidence.low, evidence.high, "s0")
        shown = f"{units.round_to(evidence.rate)}/s: {_share(evidence.met / evidence.requests)} of {evidence.requests} met the objectives"
        chart.dot((evidence.rate, evidence.met / evidence.requests), "s0", shown)
    about = " each rate by itself, sure at 95 % for all of them together; the bracket is by all together"
    return figure("Attainment against rate", about, chart)


SECTION = ReportSection("Capacity", "Capacity of the server", lambda report: "".join(map(section, report.of(KIND))))


def notices(_kept: ServerCapacity) -> str:
    return ""

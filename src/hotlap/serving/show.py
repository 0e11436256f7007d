"""What a bench of a server prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hotlap.core import units
from hotlap.core.show import layout
from hotlap.core.show.table import Cell, Column, Table, harmless
from hotlap.serving import arrivals, definitions
from hotlap.serving.definitions import DefinedNumbers
from hotlap.serving.expected import MOST, ExpectedServing
from hotlap.serving.quantiles import Quantile
from hotlap.serving.record import ServingAsked
from hotlap.serving.summary import BAD, LatencyFigures, ServingSummary, SteadyFigures
from hotlap.serving.verdict import ClientVerdict, ServingVerdict

FLAWS = {
    "late": "it sent requests late", "starved": "it got too little of a processor", "arrivals": "arrivals were not those asked for",
    "limit": "it ran into limits of its own system", "killed": "it was killed before it could say how it was",
}  # fmt: skip
REMEDY = {
    "late": "ask for a lower rate, or give the client a core of its own", "starved": "give it a core of its own, away from the server",
    "arrivals": "ask for a lower rate, or give the client a core of its own", "limit": "raise ulimit -n, or ask for less at a time",
    "killed": "bench again",
}  # fmt: skip
LATE = {  # beside a verdict
    "pass": "; the client was late, which only makes these times longer",
    "fail": "; refusals alone decide that, whatever the client did to the times of the others",
}
REMEDY_CLOSED = {"late": "ask for fewer at a time, or give the client a core of its own"}  # of a loop, which has no rate
PARTS = {"client": "client", "server_queue": "server's queue", "prefill": "prefill", "rest": "network and HTTP"}  # of TTFT
DEFINED = "The same requests by the definitions of vLLM's client: from when each was sent, a chunk as a token, failures left out"
LEFT_OUT = {"start": "the start before it ran at another level", "turns": "the first turn of the loop is left out"}
BOTH_TURNS = "the first turn of the loop, and its last, are left out"
IN_WHOLE = ("TTFT", "E2E")
RULE = "as expected: the 95 % interval of the measured median meets the model's 90 % interval"
ANSWERS = {"as expected": "as expected", "slower": "slower than expected", "faster": "faster than expected", "unknown": "too few to say"}
GAP = {  # of a mean, from what the model says to what it does not
    "alone": "alone", "batch": "in a batch with others", "queue": "queue by the model", "client": "client",
    "queue_above": "queue above the model", "prefill_above": "prefill above the model", "server_above": "queue and prefill above the model",
    "outside": "network and HTTP", "unexplained": "unexplained",
}  # fmt: skip
FRONT = 0.01  # of TTFT, which is said
REASONS, WIDE, NAMED = 3, 10_000, 10  # letters of a line's name


def lines(judged: ServingVerdict, width: int, color: bool) -> list[str]:
    """All of it: what was asked, latencies, attainment, the client's verdict, doubts, the answer."""
    summary = judged.summary
    text = [*layout.paragraph("", asked_text(judged.serving.served.asked), width), "", *_requests(summary, width)]
    if any(figures.count for figures in summary.held.latencies):
        text += ["", *layout.fitted(table(summary.held.latencies).columns, width).lines(color), ""]
    text += [*_window(summary, width), *_rates(summary, width), *_parts(summary, width, judged.serving.served.asked.warm_up)]
    text += _prefixes(judged, width)
    text += _expected(judged.expected, width)
    text += _client(judged.client, width)
    for notice in summary.notices:
        text += layout.paragraph("note      ", notice.text, width)
    for torn in judged.serving.torn:
        text += layout.paragraph("note      ", torn, width)
    return [*text, *layout.paragraph("answer    ", answer(judged), width)]


def facts(judged: ServingVerdict) -> list[tuple[str, str]]:
    """What a page says in words, by what it is of: requests, the steady part, rates, attainment, the client."""
    summary = judged.summary
    text = [*_requests(summary, WIDE), *_window(summary, WIDE), *_rates(summary, WIDE), *_prefixes(judged, WIDE)]
    text += _client(judged.client, WIDE)
    return [(line[:NAMED].strip(), line[NAMED:]) for line in text]


def asked_text(asked: ServingAsked) -> str:
    how_long = f"{asked.requests} requests" if asked.requests is not None else f"{units.exact(asked.seconds or 0.0, 's')}"
    lengths = f"{asked.input_tokens} tokens in" + ("" if asked.api == "embeddings" else f", {asked.output_tokens} out")
    lengths = "lengths of the trace" if asked.arrivals == "trace" else lengths
    warm = f", {asked.warm_up} before it to warm up" if asked.warm_up else ""
    return harmless(f"{asked.api} of {asked.model} at {asked.url}: {asked.arrivals}, {how_long}{warm}, {lengths}, seed {asked.seed}")


def server_text(asked: ServingAsked) -> str:
    return harmless(f"{asked.model} at {asked.url}")


def _requests(summary: ServingSummary, width: int) -> list[str]:
    counts = ", ".join(f"{count} {word}" for name, word in WORDS.items() if (count := summary.outcomes[name]))
    text = layout.paragraph("requests  ", f"{summary.due} due: {counts or 'none'}", width)
    for reason, count in list(summary.reasons.items())[:REASONS]:
        text += layout.paragraph(f"{count:>8}  ", harmless(reason), width)
    left = len(summary.reasons) - REASONS
    return [*text, *([f"          and {left} more reasons"] if left > 0 else [])]


WORDS = {"ok": "answered", "error": "failed", "refused": "refused", "timeout": "timed out", "censored": "cut by the end"}


def table(latencies: Sequence[LatencyFigures]) -> Table:
    """Each quantile with its 95 % interval. The chunk gap only where it is not the time per token."""
    itl = next((figures.quantiles for figures in latencies if figures.name == "ITL"), None)
    shown = [figures for figures in latencies if figures.count and not (figures.name == "chunk gap" and figures.quantiles == itl)]
    return Table([
        Column("metric", [Cell(figures.name) for figures in shown]),
        Column("of", [Cell(_population(figures)) for figures in shown]),
        *(Column(f"p{p:g}", [Cell(_quantile(figures, figures.quantiles[place])) for figures in shown], right=True)
          for place, p in enumerate((50, 90, 99))),
    ])  # fmt: skip


def defined_lines(numbers: DefinedNumbers, width: int, color: bool) -> list[str]:
    """The same requests as another tool would print them."""
    table = layout.fitted(defined_table(numbers).columns, width).lines(color)
    return [*layout.paragraph("", DEFINED, width), *table, *layout.paragraph("", defined_rates(numbers), width)]


def defined_table(numbers: DefinedNumbers) -> Table:
    shown = numbers.latencies
    return Table([
        Column("as vLLM's", [Cell(latency.name) for latency in shown]),
        Column("of", [Cell(str(latency.count)) for latency in shown], right=True),
        Column("mean", [Cell(units.show(latency.mean_s, "s")) for latency in shown], right=True),
        *(Column(f"p{p:g}", [Cell(units.show(latency.percentiles_s[place], "s")) for latency in shown], right=True)
          for place, p in enumerate(definitions.PERCENTILES)),
    ])  # fmt: skip


def defined_rates(numbers: DefinedNumbers) -> str:
    rates = {"requests/s": numbers.request_rate, "output tokens/s": numbers.output_rate, "good requests/s": numbers.goodput}
    known = ", ".join(f"{units.round_to(value)} {name}" for name, value in rates.items() if value is not None)
    cut = f", {numbers.cut} cut by the end and left out" if numbers.cut else ""
    return f"{numbers.completed} completed, {numbers.failed} failed{cut}" + (f"; {known}" if known else "")


def _population(figures: LatencyFigures) -> str:
    """Those that have it, and those that the end cut before they had."""
    cut = f", and {figures.cut} cut" if figures.cut else ""
    answered = "first token" if figures.name.startswith("TTFT") else "answered"  # the end may have cut the rest of an answer
    return {"answered": answered, "all": "all due", "events": "chunks"}[figures.population] + f" ({figures.count - figures.cut}{cut})"


def _value(figures: LatencyFigures, quantile: Quantile) -> str:
    """`never`: it did not come; `cut`: the end of the run cut it, so it takes longer than the run lasted."""
    if quantile.value is not None:
        return units.show(quantile.value, "s")
    return "never" if figures.never > (1 - quantile.p) * figures.count or not figures.cut else "cut"


def _quantile(figures: LatencyFigures, quantile: Quantile) -> str:
    if quantile.value is None:
        least = f" [{units.show(quantile.low, 's')}, ?]" if quantile.low is not None else ""
        return f"{_value(figures, quantile)}{least}"
    low = units.show(quantile.low, "s") if quantile.low is not None else "?"
    high = units.show(quantile.high, "s") if quantile.high is not None else "?"
    return f"{units.show(quantile.value, 's')} [{low}, {high}]"


def _rates(summary: ServingSummary, width: int) -> list[str]:
    tokens = f", {units.round_to(summary.tokens_rate)} output tokens/s" if summary.tokens_rate is not None else ""
    text = []
    if summary.rate_ok is not None:
        due = f" ({units.round_to(summary.rate_due)} due)" if summary.rate_due else ""
        if summary.steady and summary.steady.rate_ok is not None and not summary.rate_due:  # of a loop: its first and last turn are slower
            due = f" of the whole run, {units.round_to(summary.steady.rate_ok)} of the steady part"
        text += layout.paragraph("rate      ", f"{units.round_to(summary.rate_ok)} answers/s{due}{tokens}", width)
    if summary.held.attainment and summary.held.attainment.share is not None:
        whole = summary.attainment if summary.steady else None
        more = f"; of the whole run {_share(whole.share)} of {whole.decided}" if whole else ""
        text += layout.paragraph("attained  ", _attained(summary.held) + more, width)
    return text


def _window(summary: ServingSummary, width: int) -> list[str]:
    """For which part of the run the table holds, and what is in the whole."""
    if summary.steady is None:
        return []
    window = summary.steady.window
    until = "" if window.end_s is None else f" to {units.show(window.end_s, 's')}"
    left = BOTH_TURNS if window.rule == "turns" and until else LEFT_OUT[window.rule]
    seen = f"figures are of the {window.requests} requests due from {units.show(window.begin_s, 's')}{until}: {left}"
    whole = f"of the whole run, p50 / p90 / p99: {'; '.join(_three(one) for one in summary.latencies if one.name in IN_WHOLE)}"
    return [*layout.paragraph("steady    ", seen, width), *layout.paragraph("          ", whole, width)]


def _three(figures: LatencyFigures) -> str:
    shown = " / ".join(_value(figures, one) for one in figures.quantiles)
    return f"{figures.name}{' of all due' if figures.population == 'all' else ''} {shown}"


def _attained(summary: ServingSummary | SteadyFigures) -> str:
    attained = summary.attainment
    assert attained is not None
    cut = f", {attained.censored} cut before that could be said" if attained.censored else ""
    cut += f", {attained.unknown} of which that is not known" if attained.unknown else ""
    interval = f"[{_share(attained.low)}, {_share(attained.high)}]"
    text = f"{_share(attained.share)} {interval} of {attained.decided} requests met {attained.objectives}{cut}"
    if summary.goodput:
        value, low, high = (units.round_to(number) for number in summary.goodput)
        text += f"; goodput {value} [{low}, {high}] requests/s"
    return text


def _share(share: float | None) -> str:
    return "?" if share is None else f"{units.round_to(share * 100, 3) if share < 0.9995 else f'{share * 100:g}'} %"


def _parts(summary: ServingSummary, width: int, warm_up: int = 0) -> list[str]:
    if summary.ttft_missing and summary.outcomes["ok"]:
        absent = " and ".join(f"its {name}" for name in summary.ttft_missing)
        return layout.paragraph("TTFT      ", f"not taken apart: /metrics has no time of {absent} by vLLM's or SGLang's names", width)
    if not summary.ttft_parts:
        return []
    parts = ", ".join(f"{word} {units.show(summary.ttft_parts[name], 's')}" for name, word in PARTS.items())
    front = summary.ttft_parts.get("front", 0.0)
    if front > FRONT * summary.ttft_parts["total"]:
        parts += f", of which {units.show(front, 's')} in the server before its queue"
    whole = " of the whole run" if summary.steady else ""
    whole += ", with the warm-up" if warm_up else ""
    name = "TTFT" if any(figures.name == "TTFT" for figures in summary.latencies) else "E2E"  # of embeddings
    return layout.paragraph(f"{name:<{NAMED}}", f"mean{whole} {units.show(summary.ttft_parts['total'], 's')}: {parts}", width)


def _prefixes(judged: ServingVerdict, width: int) -> list[str]:
    """Of a trace: how much of its prompts a prefix cache could hold, and how much the server's did."""
    share, cached = judged.serving.served.prefix_share, judged.summary.cached_share
    if share is None:
        return []
    seen = "the server does not say what it took from one" if cached is None else f"the server took {units.percent(cached)} from one"
    could = f"{units.percent(share)} of the prompt tokens could come from a prefix cache that never forgets"
    return layout.paragraph("prefixes  ", f"{could}; {seen}", width)


def _expected(expected: ExpectedServing | None, width: int) -> list[str]:
    """What the model expects beside what was measured, and where the gap is."""
    if expected is None:
        return []
    text = []
    for name, alone, own, measured, judged in expected_cells(expected):
        text += layout.paragraph("expected  ", f"{name} p50 {own} for this load, {alone} alone; measured {measured}: {judged}", width)
    if rule := expected_rule(expected):
        text += layout.paragraph("          ", rule, width)
    return [*text, *layout.paragraph("gap       ", "; ".join(gaps(expected)[: 2 if _unlike(expected) else 1]), width)]


def expected_rule(expected: ExpectedServing) -> str:
    """Of which requests both sides of an expectation are, and what its answer means."""
    parts = [f"of the first {expected.requests} requests, which were played through the model"] * (expected.requests >= MOST)
    parts += [RULE] * any(figure.answer == "as expected" for figure in expected.figures)
    return "; ".join(parts)


def expected_cells(expected: ExpectedServing) -> list[tuple[str, str, str, str, str]]:
    """Of each metric: its name, alone, for this load with its interval, measured of so many requests, and the answer."""
    return [
        (figure.name, units.show(figure.alone_s, "s"),
         f"{units.show(figure.expected_s, 's')} [{units.show(figure.low_s, 's')}, {units.show(figure.high_s, 's')}]",
         f"{_measured(figure.measured)} of {figure.requests}", ANSWERS[figure.answer])
        for figure in expected.figures
    ]  # fmt: skip


def _measured(median: Quantile) -> str:
    if median.value is None:
        return "unknown"
    low, high = ("?" if bound is None else units.show(bound, "s") for bound in (median.low, median.high))
    return f"{units.show(median.value, 's')} [{low}, {high}]"


def gaps(expected: ExpectedServing) -> list[str]:
    """Of the mean TTFT and TPOT, what each is made of."""
    both = (("TTFT", expected.ttft_gap), ("TPOT", expected.tpot_gap))
    return [f"{name} mean {units.show(sum(gap.values()), 's')}: {_summed(gap)}" for name, gap in both if gap]


def _unlike(expected: ExpectedServing) -> bool:
    return any(figure.name == "TPOT" and figure.answer in ("slower", "faster") for figure in expected.figures)


def _summed(gap: Mapping[str, float]) -> str:
    """What matters of it: a thousandth of the whole does not."""
    matters = [key for key in GAP if abs(gap.get(key, 0.0)) > 0.001 * sum(gap.values())]
    return ", ".join(f"{GAP[key]} {units.show(gap[key], 's')}" for key in matters)


def remedy(flaw: str, closed: bool = False) -> str:
    """What to do about what is wrong with the client. `closed`: in a loop."""
    return (REMEDY_CLOSED if closed and flaw in REMEDY_CLOSED else REMEDY).get(flaw, "bench again")


def _client(client: ClientVerdict, width: int) -> list[str]:
    """Whether its numbers are the server's."""
    seen = []
    if client.lag_s:
        sound = f"; p90 of at most {units.show(client.allowed_s, 's', 2)} is sound" if "late" in client.flaws and client.allowed_s else ""
        seen.append(f"sent late by {' / '.join(units.show(value, 's', 2) for value in client.lag_s[:3])} (p50 / p90 / p99{sound})")
    if "starved" in client.flaws and client.loop_lag_s and client.allowed_s:
        allowed = units.show(client.allowed_s, "s", 2)
        seen.append(f"its own ticks late by {units.show(client.loop_lag_s[1], 's', 2)} (p90; at most {allowed} is sound)")
    if client.cpu_share is not None:
        seen.append(f"{units.percent(client.cpu_share)} of a core")
    if client.run_delay_share is not None:
        seen.append(f"waited for a processor {units.percent(client.run_delay_share)} of the time")
    if client.distance is not None:
        seen.append("arrivals as asked" if "arrivals" not in client.flaws else f"arrivals {client.distance:.2g} from those asked for")
    flaws = "; ".join(FLAWS[flaw] for flaw in client.flaws) or "sound"
    return layout.paragraph("client    ", f"{flaws}: {', '.join(seen)}" if seen else flaws, width)


def answer(judged: ServingVerdict) -> str:
    """In a sentence: met, not met, or why that cannot be said."""
    summary, asked = judged.summary, judged.serving.served.asked
    if not summary.due:
        return "no request was due; ask for more of them, or for longer"
    if not summary.outcomes["ok"] and (summary.reasons or not judged.client.flaws):
        return f"no request was answered: {harmless(next(iter(summary.reasons), 'all were cut by the end'))}"
    if judged.client.flaws and judged.state not in ("pass", "fail"):
        bad = sum(summary.outcomes[name] for name in BAD)
        failed = f"; {bad} of {summary.due} requests failed" if bad else ""
        return f"inconclusive: the client: {remedy(judged.client.flaws[0], not arrivals.kept(asked.arrivals).open)}{failed}"
    if not summary.held.attainment:
        return "measured; with --slo it says how many requests met it"
    if summary.held.attainment.unknown and judged.state == "inconclusive":
        return f"inconclusive: {summary.held.attainment.why_unknown}"
    if asked.attain is None:
        return "measured; with --attain it says whether enough requests met the objectives"
    wanted, words = _share(asked.attain), {"pass": "met", "fail": "not met"}
    if judged.state in words:
        late = LATE[judged.state] if judged.client.flaws else ""
        return f"{words[judged.state]}: {_share(summary.held.attainment.share)} of requests, {wanted} asked{late}"
    return f"inconclusive: the interval holds the {wanted} asked; send more requests"

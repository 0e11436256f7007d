"""What a run of inference engines prints, and its part of a page."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from hotlap.core import units
from hotlap.core.show import charts, layout
from hotlap.core.show.busy import UNDEFENDED, warning
from hotlap.core.show.sections.base import ReportSection
from hotlap.core.show.table import Cell, Column, Table, harmless, html
from hotlap.core.store.bundle import Bundle
from hotlap.training import infer_reading
from hotlap.training.infer_reading import BUSY, InferRead, InferRow, OverRounds, Versus
from hotlap.training.infer_record import Budget, EngineState
from hotlap.training.loadgen_rules import OFFLINE_SAMPLES, SCENARIOS, SUBMITTED_S

NO_GATE = "{run} is a run of inference engines, which hotlap show {run} compares with each other"
UNFINISHED = "not finished: it was killed, or still goes on"
CASES = False
NO_CASES = "inference engines have no cases to explain; hotlap show {run} says what their queries took"
METHOD = ""
REFUSED = {
    "budget": "not compared: unlike budgets; give all engines the same --threads and --precision",
    "outputs": "not compared: their answers differ, so they are not one network", "rounds": "not compared: no round has both",
}  # fmt: skip
REMEDIES = {
    "duration": "give --for more", "queries": "give --for more", "performance": "give --rate fewer or --within more",
    "early_stopping": "give --for or --queries more",
}  # fmt: skip
RULES = {
    "duration": "too short", "queries": "too few queries", "performance": "too slow for --within", "early_stopping": "too few to be sure",
}  # fmt: skip
GENERATORS = {"hotlap": "Hotlap", "loadgen": "LoadGen"}


def read(bundle: Bundle) -> InferRead | None:
    return infer_reading.read(bundle)


def text(judged: InferRead, width: int, color: bool) -> str:
    return "\n".join(lines(judged, width, color))


def document(judged: InferRead) -> dict[str, Any]:
    return {"infer": {"session": judged.inferred, "rows": judged.rows, "versus": judged.versus}}


def measured(judged: InferRead) -> bool:
    return any(row.status == "measured" for row in judged.rows)


def notices(judged: InferRead) -> str:
    return "".join(f"<p>{escape(line)}</p>" for line in doubts(judged))


def lines(judged: InferRead, width: int, color: bool) -> list[str]:
    """What was asked, each engine, a table, comparisons, doubts."""
    text = [*layout.paragraph("", asked_text(judged), width), ""]
    for state in judged.inferred.engines:
        text += layout.paragraph(f"{state.name:<13}", engine_text(state, judged), width)
    if not any(row.status in ("measured", "error") for row in judged.rows):
        name = harmless(Path(judged.inferred.asked.model).name)
        return [*text, "", *layout.paragraph("answer    ", f"nothing was measured: no engine runs {name}", width)]
    text += ["", *layout.fitted(table(judged).columns, width, ("queries", "p50")).lines(color), ""]
    for versus in dict.fromkeys(map(refused_text, judged.versus)):
        text += layout.paragraph("compared  ", versus, width) if versus else []
    for doubt in doubts(judged):
        text += layout.paragraph("note      ", doubt, width)
    return [*text, *layout.paragraph("answer    ", answer(judged), width)]


def answer(judged: InferRead) -> str:
    """The comparisons with an interval, or why there is none."""
    shown = [one for one in map(answer_text, judged.versus) if one]
    if shown:
        return "; ".join(dict.fromkeys(shown))
    row = next((row for row in judged.rows if row.status == "measured"), None)
    if row is None:
        return "nothing was measured"
    if judged.versus:
        return "measured; inconclusive which engine is faster: too few processes for an interval, give --rounds 6"
    return f"measured: {row.engine} alone, so there is nothing to compare it with"


def asked_text(judged: InferRead) -> str:
    asked = judged.inferred.asked
    count = f"{asked.rounds} process{'' if asked.rounds == 1 else 'es'}"
    more = [f"{count} an engine, in turns", f"{units.exact(asked.seconds, 's')} each scenario"]
    if "server" in asked.scenarios and asked.rate and asked.bound_s:
        more.append(f"server: {units.round_to(asked.rate)} queries/s within {units.exact(asked.bound_s, 's')}")
    if "closed" in asked.scenarios:
        more.append(f"closed: {asked.clients} clients")
    return harmless(f"{Path(asked.model).name} ({judged.inferred.sha256[:12]}): {', '.join(more)}, seed {asked.seed}")


def budget_text(budget: Budget) -> str:
    return f"{budget.threads} thread{'s' * (budget.threads != 1)}, {budget.precision}{', spinning' * budget.spin}"


def engine_text(state: EngineState, judged: InferRead) -> str:
    if state.status != "measured" or state.budget is None:
        remedy = f"; {state.remedy}" if state.remedy else ""
        return harmless(f"{'not run' if state.status == 'not_run' else 'error'}: {state.reason}{remedy}")
    loads = [done.load_s for done in judged.rounds if done.engine == state.name and done.load_s]
    loaded = f", loads in {units.show(sorted(loads)[len(loads) // 2], 's', 2)}" if loads else ""
    parts = f"{state.version}: {budget_text(state.budget)}, batch {state.batch}{loaded}"
    if state.equal is None:
        return parts
    relative, absolute = judged.inferred.tolerance
    apart = "of another shape" if state.difference is None else f"differ by {units.round_to(state.difference, 2)} at most"
    held = "equal" if state.equal else "NOT equal"
    return f"{parts}; answers {held} to the first engine's ({apart}; allowed {absolute:g} + {relative:g}·|x|)"


def table(judged: InferRead) -> Table:
    """A row per scenario, generator and engine; an engine that is not here has none."""
    shown = [row for row in judged.rows if row.status in ("measured", "error")]
    against = {(one.scenario, one.generator, one.engine): one for one in judged.versus}
    first = judged.versus[0].against if judged.versus else ""
    columns = [
        Column("scenario", [Cell(row.scenario, title=SCENARIOS[row.scenario]) for row in shown], names=True),
        Column("by", [Cell(GENERATORS[row.generator]) for row in shown]),
        Column("engine", [Cell(row.engine) for row in shown]),
        Column("p50", [_time(row.p50_s) for row in shown], right=True, key="p50_s"),
        Column("tail", [_time(row.tail_s, f"p{row.percentile * 100:g} ") for row in shown], right=True, key="tail_s"),
        Column("samples/s", [_rate(row.samples_per_s) for row in shown], right=True, key="samples_per_s"),
        Column("busy", [_busy(row) for row in shown], right=True, key="processors", title="processors busy"),
        Column("queries", [Cell(str(row.queries) if row.queries else "–", value=row.queries) for row in shown], right=True),
    ]
    if first:
        cells = [_versus(against.get((row.scenario, row.generator, row.engine))) for row in shown]
        columns.append(Column(f"as fast as {first}", cells, right=True, key="faster"))
    return Table([*columns, Column("valid", [_valid(row) for row in shown], wrap=True)])


def _versus(versus: Versus | None) -> Cell:
    if versus is None or versus.faster is None or versus.faster.ratio is None:
        return Cell("–" if versus is None or not versus.refused else "refused", "" if versus is None else "warn")
    ratio = versus.faster
    if ratio.low is None or ratio.high is None:
        return Cell(f"{ratio.ratio:.2f} ×", value=ratio.ratio)
    style = "good" if ratio.low > 1 else "bad" if ratio.high < 1 else ""
    return Cell(f"{ratio.ratio:.2f} × [{ratio.low:.2f}, {ratio.high:.2f}]", style, value=ratio.ratio)


def _interval(spread: OverRounds, unit: str) -> str:
    if spread.low is None or spread.high is None or not spread.value:
        return ""
    return f" ± {units.round_to(max(spread.high - spread.value, spread.value - spread.low) / spread.value * 100, 2)} %{unit}"


def _time(spread: OverRounds | None, name: str = "") -> Cell:
    return Cell("–") if spread is None else Cell(f"{name}{units.show(spread.value, 's')}{_interval(spread, '')}", value=spread.value)


def _rate(spread: OverRounds | None) -> Cell:
    return Cell("–") if spread is None else Cell(f"{units.round_to(spread.value)}{_interval(spread, '')}", value=spread.value)


def _busy(row: InferRow) -> Cell:
    return Cell("–") if row.processors is None else Cell(f"{row.processors:.2f}", value=row.processors)


def _valid(row: InferRow) -> Cell:
    if row.status != "measured":
        return Cell(f"error: {row.reason}", "bad")
    if row.scenario == "closed":
        return Cell("not of MLPerf")
    return Cell(f"{row.valid} of {row.rounds}", "" if row.valid == row.rounds else "warn", value=row.valid)


def invalid_text(row: InferRow) -> str:
    """Why runs of a row are not valid by MLPerf's rules, and what to do; "" where all are."""
    if row.status != "measured" or row.scenario == "closed" or not row.failed:
        return ""
    failed = "; ".join(f"{RULES[rule]}{_needed(row, rule)}: {REMEDIES[rule]}" for rule in row.failed)
    return f"{row.scenario} by {GENERATORS[row.generator]}, {row.engine}: {row.rounds - row.valid} of {row.rounds} runs not valid: {failed}"


def _needed(row: InferRow, rule: str) -> str:
    return f" ({row.queries:,} queries, {row.needed:,} needed)" if rule == "early_stopping" and row.needed else ""


def refused_text(versus: Versus) -> str:
    """Why two engines are not compared; "" where they are."""
    return f"{versus.engine} and {versus.against}: {REFUSED[versus.refused]}" if versus.refused else ""


def doubts(judged: InferRead) -> list[str]:
    """What to know beside the table."""
    busy = warning(judged.run.look) if judged.run.look else ""
    doubted = [f"{busy}; {UNDEFENDED}"] if busy else []
    doubted += [text for row in judged.rows if (text := invalid_text(row))]
    asked, states = judged.inferred.asked, {state.name: state for state in judged.inferred.engines}
    for row in judged.rows:
        state = states[row.engine]
        if row.processors is not None and state.budget and row.processors > state.budget.threads + BUSY:
            doubted.append(
                f"{row.engine} kept {row.processors:.1f} processors busy in {row.scenario}, and may use {state.budget.threads}: "
                "its number is not of its budget"
            )  # fmt: skip
    for row in judged.rows:
        if row.official is not None and row.official != row.valid:
            doubted.append(f"{row.engine}, {row.scenario}: LoadGen calls {row.official} of {row.rounds} runs VALID, our rules {row.valid}")
    reasons = {(row.scenario, row.reason): "" for row in judged.rows if row.status == "not_run" and row.generator == "loadgen"}
    states_reasons = {state.reason for state in judged.inferred.engines}
    doubted += [f"by LoadGen not run: {reason}" for _, reason in reasons if reason not in states_reasons]
    if any(one.faster and one.faster.low is None for one in judged.versus):
        doubted.append("too few processes for an interval: give --rounds 6 or more")
    if asked.seconds < SUBMITTED_S:
        long = f"{units.exact(SUBMITTED_S, 's')} a run, offline of {OFFLINE_SAMPLES:,} samples"
        doubted.append(f"no submission: MLPerf asks for {long}; 'valid' is of the shorter run that was asked for")
    return [*dict.fromkeys(doubted), *(notice.text for notice in judged.inferred.notices), *judged.torn]


def lead(judged: InferRead) -> str:
    """The fastest engine of the first scenario, and what was asked."""
    return f'<p class="lead">{escape(answer(judged))}.</p><p>{escape(asked_text(judged))}.</p>'


def answer_text(versus: Versus) -> str:
    """One comparison, in words; "" without an interval."""
    ratio = versus.faster
    if ratio is None or ratio.ratio is None or ratio.low is None or ratio.high is None:
        return refused_text(versus)
    word = "faster" if ratio.low > 1 else "slower" if ratio.high < 1 else "inconclusive"
    times = f"{ratio.ratio:.3g} times as fast as {versus.against} [{ratio.low:.3g}, {ratio.high:.3g}]"
    return f"{versus.scenario}: {versus.engine} {word}, {times}"


def section(judged: InferRead) -> str:
    """The engines, the table, how their latencies are spread."""
    engines = "".join(f"<p><b>{escape(state.name)}</b> {escape(engine_text(state, judged))}</p>" for state in judged.inferred.engines)
    refused = "".join(f"<p>{escape(line)}.</p>" for line in dict.fromkeys(map(refused_text, judged.versus)) if line)
    plots = "".join(_spread_plot(judged, scenario) for scenario in judged.inferred.asked.scenarios if scenario != "offline")
    narrow = ' style="max-width:720px"' if plots.count("<figure>") == 1 else ""
    return f'{engines}{html(table(judged))}{refused}<div class="plots"{narrow}>{plots}</div>'


def _spread_plot(judged: InferRead, scenario: str) -> str:
    """Share of queries over latency, all processes together, by our own generator."""
    curves = []
    for at, state in enumerate(judged.inferred.engines):
        own = [r for r in judged.rounds if (r.engine, r.scenario, r.generator, r.status) == (state.name, scenario, "hotlap", "measured")]
        values = sorted(value for done in own for value in infer_reading.of_round(done, judged.latencies_s).tolist() if value > 0)
        if len(values) > 1:
            places = [min(int(len(values) * share / 200), len(values) - 1) for share in range(201)]
            curves.append((state.name, f"s{at}", [(values[place], number / 200) for number, place in enumerate(places)]))
    if not curves:
        return ""
    every = [value for _, _, points in curves for value, _ in points]
    axis = charts.log_axis([min(every), max(every)], lambda v: units.show(v, "s", 2), "latency")
    shares = charts.linear_axis(0.0, 1.0, lambda v: f"{100 * v:.0f} %", most=4)
    chart = charts.Chart(axis, shares, f"cumulative share of queries by latency, {scenario}", height=260.0)
    for _, kind, points in curves:
        chart.line(points, kind)
    legend = " ".join(f'<span class="key {kind}">{escape(name)}</span>' for name, kind, _ in curves)
    caption = f"<figcaption><b>{escape(scenario)}</b> share of queries that took no longer: {legend}</figcaption>"
    return f"<figure>{caption}{chart.svg()}</figure>"


SECTION = ReportSection("Engines", "Inference engines", lambda report: "".join(map(section, report.of("infer"))))

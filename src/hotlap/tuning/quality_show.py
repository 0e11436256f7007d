"""How a comparison of two models' answers is shown, on the terminal and as part of a page (`hotlap.core.show.kinds.Kind`)."""

from __future__ import annotations

from html import escape
from typing import Any

from hotlap.core import units
from hotlap.core.show import layout, words
from hotlap.core.show.sections.base import ReportSection
from hotlap.core.show.table import Cell, Column, Table, harmless, html
from hotlap.core.store.bundle import Bundle
from hotlap.tuning import quality, quality_session
from hotlap.tuning.quality_record import DISTANCES, KIND, MEASURES, Quality, QualityMeasure

NO_GATE = "{run} is a comparison of two models' answers, and has its verdict: hotlap show {run}"
UNFINISHED = "not finished: it was killed"
CASES = False
NO_CASES = "a comparison of answers has no cases to explain; hotlap show {run} says whether B is as good as A"
METHOD = ""
NAMES = {
    "kl": "mean KL", "kl_p99": "KL, 99 %", "kl_p999": "KL, 99.9 %", "flips": "flips", "perplexity": "perplexity", "accuracy": "accuracy",
}  # fmt: skip
LEAST_P = 1e-3  # below it p has a floor (`paired.BEYOND`), or is taken as normal
KL = ("kl", "kl_p99", "kl_p999")
ACTIONS = {
    "same_outputs": "see that B is what you mean; a change that undoes itself (weights that came from this grid) proves nothing",
    "few_units": "give more of them", "uneven_units": "give 64 or more", "stopped_early": "run it again for all of them",
    "not_a_number": "look for overflow: a type with more range, or scales per group", "tokens_left_out": "",
    "zero_probability": "give logits, or probabilities with more digits; another measure by --margin",
}  # fmt: skip


def read(bundle: Bundle) -> Quality | None:
    found = quality_session.read(bundle)
    return None if found is None else quality.judge(*found)


def text(done: Quality, width: int, color: bool) -> str:
    lines = [*layout.paragraph("", asked(done), width), ""]
    if done.measures:
        lines += [*layout.fitted(table(done).columns, width, ("A", "B")).lines(color), ""]
    for label, what in facts(done):
        lines += layout.paragraph(f"{label:<9}", what, width, most=8)
    return "\n".join(lines)


def document(done: Quality) -> dict[str, Any]:
    return {"quality": done}


def measured(done: Quality) -> bool:
    return bool(done.units or done.broken)


def asked(done: Quality) -> str:
    positions = f", {words.counted(done.positions, 'position')}" if done.unit == "window" else ""
    return harmless(f"B {done.asked.b} against A {done.asked.a}: {words.counted(done.units + done.broken, done.unit)}{positions}")


def table(done: Quality) -> Table:
    rows = done.measures
    return Table([
        Column("", [Cell(NAMES[row.name], "bold") for row in rows]),
        Column("A", [Cell(_own(row, row.a)) for row in rows], right=True),
        Column("B", [Cell(_own(row, row.b)) for row in rows], right=True),
        Column("difference", [Cell(_number(row, row.value)) for row in rows], right=True),
        Column("95 %", [Cell(_ends(row)) for row in rows]),
        Column("margin", [Cell(words.DASH if row.margin is None else _number(row, row.margin)) for row in rows], right=True),
        Column("answer", [Cell(row.answer or "", _style(row)) for row in rows]),
    ])  # fmt: skip


def _style(row: QualityMeasure) -> str:
    return {"as good": "good", "worse": "bad"}.get(row.answer or "", "")


def _own(row: QualityMeasure, value: float | None) -> str:
    if value is None:
        return ""
    return units.percent(value, 4) if row.name == "accuracy" else f"{value:.4g}"


def _number(row: QualityMeasure, value: float) -> str:
    """KL in nats; a loss of accuracy in points, which have a sign."""
    if row.name in KL:
        return f"{value:.3g}"
    if row.name == "accuracy":
        return f"{0.0 - value * 100:+.3g} points" if value else "0 points"
    return units.percent(value, 3) if row.name == "flips" else f"{value * 100:+.3g} %"


def _ends(row: QualityMeasure) -> str:
    if row.low is None:
        return words.DASH
    if row.name == "accuracy":
        return f"[{_signed(row.high)}, {_signed(row.low)}]"
    high = "∞" if row.high is None else _number(row, row.high)
    return f"[{_number(row, row.low)}, {high}]"


def _signed(loss: float | None) -> str:
    return words.DASH if loss is None else f"{0.0 - loss * 100:+.3g}"


def facts(done: Quality) -> list[tuple[str, str]]:
    """What is said beside the table, the answer last."""
    pairs = []
    for row in done.measures:
        if row.lost is not None and row.gained is not None and row.p is not None:
            chance = f"p {'< 0.001' if row.p < LEAST_P else units.round_to(row.p, 2)} against no loss, by an {row.method}"
            pairs.append(("pairs", f"right by A alone {row.lost:,}, by B alone {row.gained:,}; {chance}"))
    for notice in done.notices:
        action = ACTIONS.get(notice.code, "")
        pairs.append(("note", harmless(f"{notice.seen}{f'; {action}' if action else ''}")))
    return [*pairs, ("answer", answer(done))]


def answer(done: Quality) -> str:
    """In a sentence."""
    decided = [row for row in done.measures if row.answer]
    if done.broken:
        return f"B is worse: in {done.broken} of {words.counted(done.units + done.broken, done.unit)} it gives no number"
    if done.answer == "as good":
        return f"B is as good as A within the margin: {'; '.join(map(_kept, decided))}"
    if done.answer == "worse":
        return f"B is worse than A: {'; '.join(_worse(row) for row in decided if row.answer == 'worse')}"
    opens = "; ".join(_open(row, done) for row in decided if row.answer == "cannot tell")
    return f"cannot tell: {opens or 'a measure with a margin has no number'}"


def _kept(row: QualityMeasure) -> str:
    return f"{_of(row)}, and the margin is {_margin(row)}"


def _worse(row: QualityMeasure) -> str:
    assert row.margin is not None
    beyond = row.low is not None and row.low > row.margin
    how = f"more than the margin of {_margin(row)}" if beyond else f"a loss is sure, whether within the margin of {_margin(row)} is not"
    return f"{_of(row)}: {how}"


def _open(row: QualityMeasure, done: Quality) -> str:
    parts = [f"{_of(row)}, and the margin is {_margin(row)}"]
    if row.visible is not None:
        where = "above the margin" if row.name in DISTANCES else ""
        parts.append(" ".join(f"the smallest loss seen in 80 % of such comparisons is {_size(row, row.visible)} {where}".split()))
    if row.needed:
        parts.append(f"about {words.counted(row.needed, done.unit)} would tell")
    return "; ".join(parts)


def _of(row: QualityMeasure) -> str:
    return f"{NAMES[row.name]} {_number(row, row.value)} {_ends(row)}"


def _margin(row: QualityMeasure) -> str:
    assert row.margin is not None
    return _size(row, row.margin)


def _size(row: QualityMeasure, value: float) -> str:
    if row.name in KL:
        return f"{value:.3g}"
    return f"{value * 100:.3g} points" if row.name == "accuracy" else units.percent(value, 3)


# ---------------------------------------------------------------- the page


def lead(done: Quality) -> str:
    return f'<p class="lead">{escape(answer(done))}.</p>'


def section(done: Quality) -> str:
    said = "".join(f"<p>{escape(f'{label}: {what}')}</p>" for label, what in facts(done))
    return f"<p>{escape(asked(done))}.</p>{html(table(done))}{said}{html(methods(done))}"


def methods(done: Quality) -> Table:
    """What each measure is, and how its interval was obtained."""
    return Table([
        Column("", [Cell(NAMES[row.name]) for row in done.measures]), Column("what", [Cell(MEASURES[row.name]) for row in done.measures]),
        Column("interval", [Cell(row.method) for row in done.measures]),
    ])  # fmt: skip


SECTION = ReportSection("Quality", "Is B as good as A", lambda report: "".join(map(section, report.of(KIND))))


def notices(_done: Quality) -> str:
    return ""

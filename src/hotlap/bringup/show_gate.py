"""A gate as text: a verdict for each node, with the answer of each rule and how old it is."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import msgspec

from hotlap.bringup import accept_show, show
from hotlap.bringup.gate_record import GATE, AcceptedSeen, Gate, GateEvidence, NodeGate, RuleAnswer, RuleKnown
from hotlap.cluster.show import BesideCampaign
from hotlap.core.show import layout, words
from hotlap.core.show.sections.base import Report, ReportSection
from hotlap.core.show.table import Cell, Column, Table, html
from hotlap.core.units import percent

STYLES = {"pass": "good", "fail": "bad", "inconclusive": "warn"}
MOST_ROWS = 40


def wording(seen: GateEvidence) -> str:
    """Of one piece of evidence, without its rule."""
    part = show.named(seen.part) if seen.part else ""
    text = words.clean(seen.text)
    more = "too few transfers to tell; give more time by --budget, and four members or more"
    few = f"losses below {percent(seen.loss)} would not show" if 0 < seen.loss < 1 else more
    return {
        "": f"no loss of {percent(seen.loss)} or more" if seen.loss else "good", "slow": f"{part} loses {percent(seen.loss)}",
        "shares": f"{part} loses {percent(seen.loss)}, which is not this node alone",
        "exit": f"exit code {seen.status}{f': {text}' if text and text != f'exit status {seen.status}' else ''}",
        "gpus": f"{seen.count} of {words.counted(seen.of, 'GPU')} are there",
        "no result": text or "no result", "stale": "the evidence is too old", "no evidence": "no evidence",
        "other machine": "another machine answers by this name", "few": few,
        "noisy": "transfers differ too much", "no time": "the budget ended first",
        "acceptance": _accepted(seen.accepted) if seen.accepted else "", "ledger": "the ledger of an acceptance cannot be read",
    }[seen.code]  # fmt: skip


def _accepted(seen: AcceptedSeen) -> str:
    """The state, a person's reasons beside it, and what is against the node."""
    reasons = f"override: {words.clean('; '.join(seen.reasons))}"
    text = f"{seen.state}{f' ({reasons})' if seen.override else ''} in {words.clean(seen.name)}"
    if seen.reasons and not seen.override:
        text += f"; {reasons} (before)"
    why = [accept_show.causes(seen.faults)] if seen.faults else []
    why += [f"evidence of {words.some(seen.lacks, 6)} is not as it was written"] if seen.lacks else []
    return f"{text}: {'; '.join(why)}" if why else text


def age(seconds: float) -> str:
    """In one unit that people use."""
    for size, unit in ((86_400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def answer(each: RuleAnswer) -> str:
    """A rule's name, what it says, and its age."""
    old = "" if each.tested or each.age_s is None else f", {age(each.age_s)} ago"
    old += " (acceptance)" if each.seen.ledger else ""
    shadow = "" if each.acts else " (shadow)"
    return f"{words.clean(each.seen.rule)}{shadow}: {wording(each.seen)}{old}"


def reason(node: NodeGate) -> str:
    """What decides: the first bad answer of a rule that acts, else the first that says nothing."""
    acting = [each for each in node.answers if each.acts]
    for holds in ("bad", "unknown"):
        for each in acting:
            if each.seen.holds == holds:
                return f"hotlap gate: {words.clean(each.seen.rule)}: {wording(each.seen)}"
    return "hotlap gate: pass"


def lines(gate: Gate, width: int, color: bool) -> list[str]:
    order = {"fail": 0, "inconclusive": 1, "pass": 2}
    nodes = sorted(gate.nodes, key=lambda each: order[each.verdict])[:MOST_ROWS]
    text = layout.fitted(_columns(nodes), width).lines(color)
    if len(gate.nodes) > MOST_ROWS:
        text += [f"… and {len(gate.nodes) - MOST_ROWS} more; --json has all"]
    for note in _notes(gate):
        text += ["", *layout.paragraph("", note, width)]
    return text


def _columns(nodes: Sequence[NodeGate]) -> list[Column]:
    return [
        Column("node", [Cell(words.clean(each.node), "bold") for each in nodes]),
        Column("verdict", [Cell(each.verdict, STYLES[each.verdict]) for each in nodes]),
        Column("rules", [Cell("; ".join(map(answer, each.answers))) for each in nodes], wrap=True),
    ]


def _notes(gate: Gate) -> list[str]:
    notes = [_unread(*each) for each in gate.unread.items()] + ([_left_out(gate.left_out)] if gate.left_out else [])
    return notes + [_shadow(each) for each in gate.rules if not each.acts]


def _unread(named: str, why: str) -> str:
    return f"The acceptance {words.clean(named)} cannot be read: {words.clean(why)}."


def _left_out(names: Sequence[str]) -> str:
    return f"The budget had no time for {words.some(names, 6)}: give more by --budget."


def _shadow(rule: RuleKnown) -> str:
    if rule.high is None:
        return f"{rule.rule} is in shadow: it does not act until later campaigns have told how often it is wrong on healthy nodes."
    share = f"{rule.alarms} of {words.counted(rule.healthy, 'verdict')} on healthy nodes were alarms"
    return f"{rule.rule} is in shadow: {share}, at most {100 * rule.high:.1f} % (95 %)."


def _read(data: bytes) -> Gate:
    return msgspec.json.decode(data, type=Gate)


def _section(report: Report) -> str:
    parts = list[str]()
    for bundle, _ in report.runs:
        try:
            gate = _read((bundle.path / GATE).read_bytes())
        except (OSError, msgspec.MsgspecError):
            continue
        parts.append(html(Table(_columns(gate.nodes))) + "".join(f"<p>{escape(note)}</p>" for note in _notes(gate)))
    return "".join(parts)


BESIDE = BesideCampaign("gate", _read, lambda data, width, color: lines(_read(data), width, color))
SECTION = ReportSection("Gate", "Nodes before a job", _section)

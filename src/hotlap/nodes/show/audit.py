"""Facts, audits and fleets as text."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from hotlap.core import units
from hotlap.core.show import layout, words
from hotlap.nodes.audit import AuditOutcome, AuditRule, sources
from hotlap.nodes.facts import Fact, Facts, families, members, natural
from hotlap.nodes.odd import NodeFleet, NodeGroups

MARKS = {"error": "bad", "warning": "warn", "info": "dim"}
MOST_NODES = 6
MOST_VALUES = 4
EXACT_BYTES = 10_000  # an MTU of 1400 B is not 1.40 kB


def value(fact: Fact) -> str:
    """A fact for people: with its unit, or why it is not known."""
    if fact.status != "ok":
        return f"– {words.clean(fact.reason)}"
    return shown(fact.value, fact.unit)


def shown(value: Any, unit: str = "") -> str:
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return words.clean(" ".join(value)) or "none"
    if isinstance(value, (int, float)) and unit:
        if unit == "B" and value < EXACT_BYTES and value == int(value):
            return f"{int(value)} B"
        return units.size(int(value)) if unit == "B" else units.show(value, unit)
    return words.clean(f"{value:g}" if isinstance(value, float) else str(value))


def facts(node: Facts, width: int, color: bool = False, everything: bool = False) -> str:
    """Sections by the first word of a name; what is not present is counted, unless all is asked for."""
    known = {name: fact for name, fact in node.facts.items() if everything or fact.status != "absent"}
    lines = [" · ".join(part for part in (node.host, node.arch, node.taken, f"{len(node.facts)} facts") if part)]
    for family in families(known):
        mine = {name: fact for name, fact in known.items() if name.startswith((f"{family}.", f"{family}["))}
        lines += ["", layout.painted(family, "bold", color)]
        room = min(max(len(name) for name in mine), 44)
        for name, fact in mine.items():
            lines += textwrap.wrap(
                value(fact),
                max(width, room + 20),
                initial_indent=f"  {name:<{room}}  ",
                subsequent_indent=" " * (room + 4),
                break_on_hyphens=False,
            )
    absent = sum(fact.status == "absent" for fact in node.facts.values())
    if absent and not everything:
        lines += ["", f"{absent} facts are not present here; --all shows them with their reasons"]
    return "\n".join(lines)


def audit(
    node: Facts, profile: str, outcomes: Sequence[AuditOutcome], rules: Mapping[str, AuditRule], width: int, color: bool = False
) -> str:
    """Findings, the worst first, members of one rule together; then what could not be determined; then the count."""
    asked = len({one.rule for one in outcomes})
    lines = [f"{node.host} · profile {profile}, {asked} of {len(rules)} rules · {len(node.facts)} facts"]
    order = {"error": 0, "warning": 1, "info": 2}
    places = {name: place for place, name in enumerate(rules)}
    failed = (outcome for outcome in outcomes if outcome.finding)
    findings = sorted(failed, key=lambda outcome: (order[rules[outcome.rule].severity], places[outcome.rule]))
    for name, group in groupby(findings, key=lambda one: one.rule):
        rule, several = rules[name], list(group)
        level = layout.painted(rule.severity.upper(), MARKS[rule.severity], color)
        lines += ["", f"{level}  {layout.painted(rule.title, 'bold', color)}  [{name}]"]
        fixes = list(dict.fromkeys(outcome.finding.action for outcome in several if outcome.finding))
        more = f"  (and the same for {len(fixes) - 1} more: --json has each)" if len(fixes) > 1 else ""
        for head, text in (
            ("is", _seen(node, several)),
            ("should be", rule.should),
            ("because", rule.because),
            ("effect", rule.effect),
            ("source", rule.source),
            ("fix", fixes[0] + more),
        ):
            lines += _paragraph(f"  {head:<9}  ", words.clean(text), width)
    lines += _unknown(outcomes, width, color)
    counts = {state: sum(one.state == state for one in outcomes) for state in ("pass", "finding", "not known", "not applicable")}
    by = {level: sum(1 for one in findings if rules[one.rule].severity == level) for level in order}
    said = ", ".join(f"{count} {level}" for level, count in by.items() if count)
    total = f"{words.counted(counts['finding'], 'finding')}{f' ({said})' if said else ''}, {counts['pass']} passed, "
    lines += ["", f"{total}{counts['not known']} not known, {counts['not applicable']} not applicable"]
    if len(outcomes) > asked:
        lines += _paragraph("", f"{len(outcomes)} outcomes of {asked} rules: some are asked once for each GPU, link or disk", width)
    if not members(node.facts, "gpu"):
        lines += _paragraph("", "no GPU found: its rules were skipped and do not count as passed", width)
    return "\n".join(lines)


def _paragraph(first: str, text: str, width: int) -> list[str]:
    """`text` behind `first`, whole: an address or a command is never cut, so that it can be copied."""
    room = max(width - len(first), 24)
    lines = textwrap.wrap(text, room, break_on_hyphens=False, break_long_words=False) or [""]
    return [(first if number == 0 else " " * len(first)) + piece for number, piece in enumerate(lines)]


def _unknown(outcomes: Sequence[AuditOutcome], width: int, color: bool) -> list[str]:
    """What could not be determined, by its reason; members of a family that share one stand together."""
    reasons: dict[str, dict[str, list[str]]] = {}
    for one in outcomes:
        if one.state == "not known":
            family, _, key = one.at.rstrip("]").partition("[")
            reason = words.clean(one.reason.replace(one.at, f"{family}[*]") if key else one.reason)
            reasons.setdefault(reason, {}).setdefault(f"{one.rule} {family}".strip(), []).append(key)
    lines = ["", layout.painted("not known", "bold", color)] if reasons else []
    for reason, rules in reasons.items():
        names = [f"{name}[{_span(keys)}]" if keys[0] else name for name, keys in rules.items()]
        lines += _paragraph("  ", f"{_some(names)}: {reason}", width)
    return lines


def _seen(node: Facts, several: Sequence[AuditOutcome]) -> str:
    """What is set; members of a family that have one value stand together, as in gpu[0, 1]."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for outcome in several:
        for name, found in outcome.seen.items():
            family, _, rest = name.partition("[")
            key, mark, leaf = rest.partition("]")
            groups.setdefault((family if mark else name, leaf, shown(found, unit(node, name))), []).append(key)
    texts = []
    for (family, leaf, text), keys in groups.items():
        member = f"[{_span(list(dict.fromkeys(keys)))}]" if keys[0] else ""
        texts.append(f"{family}{member}{leaf} = {text}")
    return "; ".join(texts) or "not set"


def _span(keys: Sequence[str]) -> str:
    """Members that follow one another by their ends, as in 0 … 7."""
    numbers = [int(key) for key in keys] if all(key.isdigit() for key in keys) else []
    follow = len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1))
    return f"{keys[0]} … {keys[-1]}" if follow else ", ".join(keys)


def unit(node: Facts, name: str) -> str:
    return node.facts[name].unit if name in node.facts else ""


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NODES} more" if len(names) > MOST_NODES else ""
    return ", ".join(names[:MOST_NODES]) + more


def rule(rule: AuditRule, width: int) -> str:
    """All of one rule, as `--explain` prints it."""
    lines = [f"{rule.name}: {rule.title}", ""]
    when, needs = ("" if condition == "true" else condition for condition in (rule.when, rule.needs))
    asked = [("of every", rule.each), ("when", when), ("needs", needs)]
    rest = [
        ("expect", rule.expect),
        ("should be", rule.should),
        ("severity", rule.severity),
        ("profiles", ", ".join(rule.profiles)),
        ("because", rule.because),
        ("effect", rule.effect),
        ("fix", rule.fix),
        ("source", rule.source),
        ("from", rule.place),
    ]
    for head, text in asked + rest:
        if text:
            lines += _paragraph(f"  {head:<9}  ", text, width)
    lines += ["", "With --since, an earlier reading of the node:"] if rule.growth else []
    for key, text in rule.growth.items():
        lines += _paragraph(f"  {'should be' if key == 'should' else key:<9}  ", text, width)
    return "\n".join(lines)


def rules(rules: Mapping[str, AuditRule], width: int) -> str:
    """A line per rule."""
    room = max(map(len, rules))
    lines = [layout.shortened(f"{one.name:<{room}}  {one.severity:<7}  {one.title}", width) for one in rules.values()]
    whole, partly, alone = sources(rules).values()
    told = f"{whole} with a published source, {partly} with one in part, {alone} of common practice"
    return "\n".join([*lines, "", f"{len(lines)} rules: {told}", "hotlap node audit --explain RULE says all of one"])


def fleet(fleet: NodeFleet, width: int, color: bool = False) -> str:
    """Odd facts, versions first; nodes in the order people count; members of a family that are odd in the same way stand together."""
    lines = [f"{len(fleet.nodes)} nodes, {fleet.facts} facts: {len(fleet.odd)} in which some nodes differ from the majority"]
    blocks = list[tuple[str, str, list[str]]]()
    for odd in fleet.odd:
        where = "in the middle" if odd.kind == "quantity" else f"on {odd.share * 100:.3g} %"
        by: dict[str, list[str]] = {}
        for node in sorted(odd.nodes, key=natural):
            by.setdefault(shown(odd.nodes[node], odd.unit), []).append(words.clean(node))
        rows = [f"{shown(odd.majority, odd.unit)} {where}", *(f"{text}: {_some(nodes)}" for text, nodes in by.items())]
        blocks.append((odd.fact, odd.kind, rows))
    lines += _blocks(blocks, width, color)
    for names, why in ((fleet.left_out, "differ on most nodes and were left out"), (fleet.divided, "have no majority")):
        if names:
            lines += ["", *_paragraph("", f"{words.counted(len(names), 'fact')} {why}: {_some(names)}", width)]
    return "\n".join(lines)


def groups(groups: NodeGroups, width: int, color: bool = False) -> str:
    """Facts in which two groups differ, versions first, each value with the number of nodes that have it."""
    sizes = [len(groups.first), len(groups.second)]
    names = [f"{words.counted(size, 'node')} ({_some(group)})" for size, group in zip(sizes, (groups.first, groups.second), strict=True)]
    head = f"{names[0]} against {names[1]}, {groups.facts} facts: {len(groups.apart)} in which the groups differ"
    lines = _paragraph("", head, width)
    blocks = list[tuple[str, str, list[str]]]()
    for fact in groups.apart:
        rows = []
        for head, table, size in zip(("first", "second"), (fact.first, fact.second), sizes, strict=True):
            more = f", {words.counted(len(table) - MOST_VALUES, 'other value')}" if len(table) > MOST_VALUES else ""
            told = ", ".join(f"{shown(value, fact.unit)} ({times} of {size})" for value, times in table[:MOST_VALUES])
            rows.append(f"{head:<6}  {told}{more}")
        blocks.append((fact.fact, fact.kind, rows))
    lines += _blocks(blocks, width, color)
    if groups.divided:
        why = "have no majority in a group and were left out"
        lines += ["", *_paragraph("", f"{words.counted(len(groups.divided), 'fact')} {why}: {_some(groups.divided)}", width)]
    return "\n".join(lines)


def _blocks(blocks: Sequence[tuple[str, str, list[str]]], width: int, color: bool) -> list[str]:
    """Fact, kind and rows; those of one family with the same rows under one head, as in gpu[0 … 7].vbios."""
    heads: dict[tuple[str, str, str, tuple[str, ...]], list[str]] = {}
    for fact, kind, rows in blocks:
        family, mark, rest = fact.partition("[")
        key, _, leaf = rest.partition("]")
        heads.setdefault((family, leaf if mark else "", kind, tuple(rows)), []).append(key)
    lines = []
    for (family, leaf, kind, texts), keys in heads.items():
        name = f"{family}[{_some_keys(keys)}]{leaf}" if keys[0] else family
        lines += ["", f"{layout.painted(words.clean(name), 'bold', color)}  ({kind})"]
        for text in texts:
            lines += _paragraph("  ", text, width)
    return lines


def _some_keys(keys: Sequence[str]) -> str:
    text = _span(keys)
    return text if " … " in text or len(keys) <= MOST_NODES else f"{', '.join(keys[:MOST_NODES])} and {len(keys) - MOST_NODES} more"

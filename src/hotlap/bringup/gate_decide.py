"""From evidence to verdicts: how likely a fault is since it was taken, which rules may act, and what a node's answers come to.

    rate of a rule = (1 + faults seen) / (264 node-days + node-days seen);  chance of a fault since = 1 - exp(-rate × age)

One fault in 264 node-days is where nothing is known yet: 419 unexpected interruptions of 2,048 nodes of eight GPUs in 54 days (Grattafiori
et al., The Llama 3 Herd of Models, arXiv 2407.21783, section 3.3.4). A gamma distribution with that mean, worth one fault, is the prior.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from hotlap.bringup.gate_evidence import History
from hotlap.bringup.gate_record import GateEvidence, GateRule, NodeGate, RuleAnswer, RuleKnown
from hotlap.core.stats import binomial

PRIOR_DAYS = 2048 * 54 / 419  # node-days of one fault
DAY_S = 86_400.0
ONE_SIDED = 0.90  # confidence of an interval whose upper end is a bound of 95 %


def known(rule: GateRule, history: History) -> RuleKnown:
    """Its faults over its history, and its false alarms by the campaigns that came after its verdicts."""
    faults, days = exposure(each for each in history.evidence if each.rule == rule.name)
    healthy, alarms = settled(rule.name, history)
    high = binomial.interval(alarms, healthy, ONE_SIDED)[1] if healthy else None
    return RuleKnown(
        rule=rule.name, faults=faults, node_days=days, per_day=(1 + faults) / (PRIOR_DAYS + days), healthy=healthy, alarms=alarms,
        high=high, acts=rule.acts == "always" or (high is not None and high <= rule.false_alarms),
    )  # fmt: skip


def exposure(evidence: Iterable[GateEvidence]) -> tuple[int, float]:
    """Faults, from good to bad on one machine, and the node-days from one piece of evidence to the next. `evidence`: by time."""
    before, faults, days = dict[tuple[str, str], GateEvidence](), 0, 0.0
    for each in evidence:
        if each.holds == "unknown":
            continue
        place = each.node, each.machine
        last = before.get(place)
        if last and last.holds == "good":
            days += max(each.at_s - last.at_s, 0.0) / DAY_S
            faults += each.holds == "bad"
        before[place] = each
    return faults, days


def settled(rule: str, history: History) -> tuple[int, int]:
    """Verdicts on nodes that the next campaign found healthy, and how many of them were alarms; of several before it the last counts."""
    by_node: dict[str, list[tuple[float, bool]]] = {}
    for at_s, node, good in history.health:
        by_node.setdefault(node, []).append((at_s, good))
    verdicts = dict[tuple[str, float], bool]()
    for gate in history.gates:
        for gated in gate.nodes:
            for answer in gated.answers:
                if answer.seen.rule != rule or not answer.tested or answer.seen.holds == "unknown":
                    continue
                after = by_node.get(gated.node, [])
                place = bisect_right([at_s for at_s, _ in after], gate.at_s)
                if place < len(after) and after[place][1]:
                    verdicts[gated.node, after[place][0]] = answer.seen.holds == "bad"
    return len(verdicts), sum(verdicts.values())


def chance(per_day: float, age_s: float) -> float:
    """Of a fault in so much time."""
    return 1 - math.exp(-per_day * max(age_s, 0.0) / DAY_S)


def answered(seen: GateEvidence, rule: RuleKnown, now_s: float, tested: bool) -> RuleAnswer:
    age_s = max(now_s - seen.at_s, 0.0)
    return RuleAnswer(seen=seen, acts=rule.acts, tested=tested, age_s=age_s, chance=chance(rule.per_day, age_s))


def stale(answers: Iterable[RuleAnswer], risk: float) -> dict[str, float]:
    """The highest chance of a fault since, of each rule that has evidence too old or none on some node."""
    worst: dict[str, float] = {}
    for answer in answers:
        odds = 1.0 if answer.chance is None or answer.seen.holds == "unknown" else answer.chance
        if odds >= risk:
            worst[answer.seen.rule] = max(worst.get(answer.seen.rule, 0.0), odds)
    return worst


def from_evidence(
    nodes: Sequence[str], rules: Mapping[str, RuleKnown], newest: Mapping[tuple[str, str], GateEvidence], now_s: float
) -> dict[tuple[str, str], RuleAnswer]:
    """What is kept of each rule and node; without evidence that says so."""
    answers = dict[tuple[str, str], RuleAnswer]()
    for name, rule in rules.items():
        for node in nodes:
            seen = newest.get((name, node))
            nothing = GateEvidence(rule=name, node=node, at_s=now_s, holds="unknown", code="no evidence")
            answers[name, node] = answered(seen, rule, now_s, False) if seen else RuleAnswer(seen=nothing, acts=rule.acts)
    return answers


def plan(worst: Mapping[str, float], rules: Mapping[str, GateRule], seconds: float) -> tuple[list[str], list[str]]:
    """Rules to test, the stalest first, as far as the time goes; and those that are left out."""
    chosen, left_out = list[str](), list[str]()
    for name in sorted(worst, key=lambda each: (-worst[each], list(rules).index(each))):
        fits = sum(rules[each].takes_s for each in chosen) + rules[name].takes_s <= seconds
        (chosen if fits else left_out).append(name)
    return chosen, left_out


def verdict(node: str, answers: Sequence[RuleAnswer], risk: float) -> NodeGate:
    """Fail where a rule that acts is bad; inconclusive where one says nothing, or what it said is too old; else pass."""
    dated = [_dated(answer, risk) for answer in answers]
    acting = [answer.seen.holds for answer in dated if answer.acts]
    reached = "fail" if "bad" in acting else "inconclusive" if "unknown" in acting or not acting else "pass"
    return NodeGate(node=node, verdict=reached, answers=dated)  # type: ignore[arg-type]


def _dated(answer: RuleAnswer, risk: float) -> RuleAnswer:
    """Good evidence that is too old says nothing."""
    if answer.tested or answer.seen.holds != "good" or answer.chance is None or answer.chance < risk:
        return answer
    return msgspec.structs.replace(answer, seen=msgspec.structs.replace(answer.seen, holds="unknown", code="stale"))

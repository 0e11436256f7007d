"""The state of every node, from events alone. What an event may not do is refused here, whoever wrote it.

    expected → reachable → inspected → alone → paired → together → soaked → accepted
    any of them → suspect → retest → back, or quarantined → retest (after a repair) → expected, or rejected;  lost → reachable

No node passes a step without evidence of it, and none is accepted without evidence of all; a person's override is marked as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from hotlap.bringup.accept_record import MEASURED, PATH, STEPS, AcceptEvent, NodeStanding
from hotlap.core.errors import SchemaError

ON_PATH = frozenset(PATH)


def refusal(now: NodeStanding, event: AcceptEvent) -> str:
    """Why the event cannot be; "" where it can."""
    if event.was != now.state:
        return f"{event.node} is {now.state}, not {event.was}"
    if event.override:
        return f"an override of {event.node} needs a reason" if not event.reason or event.reason.isspace() else ""
    if event.by != "hotlap":
        return "" if event.to in ("retest", "expected") else f"a person moves {event.node} to {event.to} by an override alone"
    if not event.evidence:
        return f"{event.node} has no evidence for {event.to}"
    return _by_evidence(now, event)


def _by_evidence(now: NodeStanding, event: AcceptEvent) -> str:
    was, to, step = event.was, event.to, event.step
    if to == was:
        return "" if (was in ON_PATH or was == "lost") and event.faults else f"{event.node} stays {was} without a cause"
    if to in ("suspect", "lost", "quarantined", "rejected") and not event.faults:
        return f"{event.node} has no cause for {to}"
    allowed = {
        "suspect": was in ON_PATH or was == "retest", "lost": was in ON_PATH or was == "retest", "retest": was == "suspect",
        "quarantined": was == "retest", "rejected": was == "retest" and now.quarantines > 0, "spare": False,
        "expected": was == "retest",
    }  # fmt: skip
    if to in allowed:
        return "" if allowed[to] else f"{event.node} cannot go from {was} to {to}"
    return _forward(now, event) if step is not None and STEPS[step] == to else f"{event.node} is not {to} by the step {step}"


def _forward(now: NodeStanding, event: AcceptEvent) -> str:
    """Along the path: from the state before, from a retest of that very step, or from lost by an answer."""
    was, to = event.was, event.to
    before = PATH[PATH.index(to) - 1]
    if not (was == before or (was == "retest" and now.step == event.step) or (was == "lost" and to == "reachable")):
        return f"{event.node} cannot go from {was} to {to}"
    need = MEASURED[: PATH.index(to) - 1] if to != "accepted" else MEASURED
    lacking = [step for step in need if not now.evidence.get(step)]
    return f"{event.node} cannot be {to}: it has no evidence of {', '.join(lacking)}" if lacking else ""


def after(now: NodeStanding, event: AcceptEvent) -> NodeStanding:
    """The standing once it has happened. Raises SchemaError for an event that cannot be."""
    if why := refusal(now, event):
        raise SchemaError(f"event {event.number} of the ledger cannot be: {why}; restore the ledger from a copy")
    evidence, opened, times = dict(now.evidence), dict(now.open), dict(now.opened)
    passed = event.to in ON_PATH and event.step is not None and STEPS[event.step] == event.to and event.evidence
    if passed and event.step is not None:
        evidence[event.step] = event.evidence
        opened.pop(event.step, None)
        times.pop(event.step, None)
    anew = event.to == "expected" or (event.to == "retest" and event.by != "hotlap") or (event.was == "lost" and event.to == "reachable")
    if anew:  # what was measured before a repair or an absence does not count
        evidence, opened = {key: value for key, value in evidence.items() if passed and key == event.step}, {}
        times = {}
    if event.to == event.was and event.to in ON_PATH and event.step is not None:
        opened[event.step] = event.faults
    if event.step is not None and (event.to == event.was or event.waits == "answer"):
        times[event.step] = times.get(event.step, 0) + 1
    failing = event.to not in ON_PATH
    if failing or event.override:
        opened = {}
    return msgspec.structs.replace(
        now, state=event.to, evidence=evidence, open=opened, opened=times, since_s=event.time_s, changed=event.number, waits=event.waits,
        step=(event.step or now.step) if failing else None, faults=(event.faults or now.faults) if failing else [],
        proof=(event.evidence or now.proof) if failing else "", proof_in=(event.phase or now.proof_in) if failing else 0,
        before=now.faults if event.override and now.faults else now.before,
        overrides=[*now.overrides, event.reason] if event.override else now.overrides,
        overridden=event.override or (now.overridden and event.to == event.was),
        repairs=[*now.repairs, event.reason] if event.to == "retest" and event.by != "hotlap" and event.reason else now.repairs,
        quarantines=now.quarantines + (event.to == "quarantined"), reaches=now.reaches + (event.step == "reach" and event.phase > 0),
        late=now.late or any(each.code == "late" for each in event.faults),
    )  # fmt: skip


def standings(nodes: Sequence[str], events: Iterable[AcceptEvent]) -> dict[str, NodeStanding]:
    """By node. Raises SchemaError for an event of no node, out of turn, or that cannot be."""
    by_node = {name: NodeStanding(node=name) for name in nodes}
    for number, event in enumerate(events, 1):
        if event.number != number or event.node not in by_node:
            raise SchemaError(f"event {number} of the ledger is number {event.number} of '{event.node}'; restore the ledger from a copy")
        by_node[event.node] = after(by_node[event.node], event)
    return by_node


def on_evidence(now: NodeStanding) -> bool:
    """Whether it is accepted by evidence of every step, not by a person."""
    return now.state == "accepted" and not now.overridden and all(now.evidence.get(step) for step in MEASURED)


def counted(by_node: Mapping[str, NodeStanding], states: Iterable[str]) -> int:
    wanted = frozenset(states)
    return sum(each.state in wanted for each in by_node.values())

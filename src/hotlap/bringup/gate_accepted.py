"""What the ledgers of acceptances say of nodes before a job: the state of each, with overrides, and the evidence of its pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from hotlap.bringup import accept_folder, accept_states
from hotlap.bringup.accept_folder import AcceptFolder
from hotlap.bringup.accept_record import OUT, NodeEvidence, NodeStanding, StepHead, digest
from hotlap.bringup.gate_record import ACCEPTANCE, AcceptedSeen, GateEvidence, Holds, RuleAnswer
from hotlap.bringup.record import NamedPart
from hotlap.core.errors import HotlapError

Kept = Mapping[str, tuple[StepHead, NodeEvidence]]
"""Evidence that the ledger names, by its digest."""


class Ledgers(NamedTuple):
    """Of all acceptances of real nodes. `standings`: what the newest that moved a node says of it; `evidence`: of pairs, by time;
    `unread`: why an acceptance could not be read, by its id."""

    standings: dict[str, GateEvidence]
    evidence: list[GateEvidence]
    unread: dict[str, str]


def read(home: Path, least: float) -> Ledgers:
    """Simulated acceptances are left out. `least`: the loss of a node that matters."""
    standings, evidence, unread = dict[str, GateEvidence](), list[GateEvidence](), dict[str, str]()
    for path in sorted((home / accept_folder.FOLDER).glob("[!.]*")):
        try:
            folder = accept_folder.load(path)
        except HotlapError as error:
            unread[path.name] = error.reason
            continue
        if "simulate" in folder.plan.launch:
            continue
        try:
            kept = _kept(folder)
            by_node = folder.standings()
        except HotlapError as error:
            unread[folder.id] = error.reason
            nothing = GateEvidence(rule=ACCEPTANCE, node="", at_s=0.0, holds="unknown", code="ledger")
            standings |= {node: msgspec.structs.replace(nothing, node=node) for node in folder.plan.nodes}
            continue
        machines = _machines(kept)
        for node, now in by_node.items():
            before = standings.get(node)
            if now.changed and (before is None or before.at_s <= now.since_s):
                standings[node] = _standing(folder, now, kept, machines.get(node, ""))
        evidence += _pairs(kept, machines, folder.id, least)
    return Ledgers(standings, sorted(evidence, key=lambda each: each.at_s), unread)


def _kept(folder: AcceptFolder) -> dict[str, tuple[StepHead, NodeEvidence]]:
    """Raises SchemaError, MachineError."""
    wanted = {event.evidence for event in folder.events()}
    steps = ((digest(each), taken.head, each) for taken in folder.steps() for each in taken.evidence)
    return {key: (head, each) for key, head, each in steps if key in wanted}


def _machines(kept: Kept) -> dict[str, str]:
    """Which machine answered last by each name, as campaigns know it; "" where nobody knows."""
    reached = sorted((head.ended_s, each.node, str(each.facts.get("machine", ""))) for head, each in kept.values() if each.step == "reach")
    return {node: machine for _, node, machine in reached}


def _standing(folder: AcceptFolder, now: NodeStanding, kept: Kept, machine: str) -> GateEvidence:
    """Good where it is accepted, by evidence that is there or by a person; bad where it is out; else neither."""
    lacks = [step for step, key in now.evidence.items() if key not in kept]
    seen = AcceptedSeen(
        acceptance=folder.id, name=folder.plan.name, state=now.state, override=now.overridden, reasons=now.overrides, faults=now.faults,
        lacks=lacks,
    )  # fmt: skip
    good = now.state == "accepted" and (now.overridden or (accept_states.on_evidence(now) and not lacks))
    holds: Holds = "good" if good else "bad" if now.state in OUT else "unknown"
    return GateEvidence(
        rule=ACCEPTANCE, node=now.node, at_s=now.since_s, holds=holds, code="acceptance", machine=machine, accepted=seen,
    )  # fmt: skip


def _pairs(kept: Kept, machines: Mapping[str, str], named: str, least: float) -> Iterator[GateEvidence]:
    """Good where a loss that matters would have been named, bad where it was."""
    for head, each in kept.values():
        if each.step != "pairs":
            continue
        seen = GateEvidence(
            rule="pair", node=each.node, at_s=head.ended_s, holds="unknown", run=named, machine=machines.get(each.node, ""), ledger=True,
        )  # fmt: skip
        reach = each.reference.get("least_loss")
        if each.outcome == "pass" and isinstance(reach, float) and reach <= least:
            yield msgspec.structs.replace(seen, holds="good", loss=reach)
        elif each.outcome == "pass" and isinstance(reach, float):
            yield msgspec.structs.replace(seen, code="few", loss=reach)
        slow = [fault.values for fault in each.faults if fault.code == "slow-link"]
        high = max((float(str(values["high"])) for values in slow), default=0.0)
        if each.outcome == "fail" and slow and high >= least:
            part = msgspec.convert({"kind": slow[0]["part"], "members": slow[0]["members"]}, NamedPart)
            yield msgspec.structs.replace(seen, holds="bad", code="slow", loss=float(str(slow[0]["loss"])), part=part)


def answers(ledgers: Ledgers, nodes: Iterable[str], machines: Mapping[str, str], now_s: float) -> dict[str, RuleAnswer]:
    """Of nodes that an acceptance knows. A state does not become old, unlike what it rests on. `machines`: that answered now, by node."""
    known = dict[str, RuleAnswer]()
    for node in nodes:
        if seen := ledgers.standings.get(node):
            other = seen.machine and machines.get(node, "") not in ("", seen.machine)
            held = msgspec.structs.replace(seen, holds="unknown", code="other machine") if other else seen
            known[node] = RuleAnswer(seen=held, acts=True, age_s=max(now_s - seen.at_s, 0.0) if seen.at_s else None)
    return known

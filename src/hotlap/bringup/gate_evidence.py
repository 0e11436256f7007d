"""What kept campaigns say of nodes, rule by rule: facts of their agents, commands that ran, isolations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from hotlap.bringup import naming
from hotlap.bringup.gate_record import GATE, Gate, GateCode, GateEvidence, GateRule
from hotlap.bringup.record import ASKED, KEPT, CauseKind, Culprit, Isolation, IsolationAsked, NamedPart
from hotlap.cluster import folder, states
from hotlap.cluster.folder import CampaignFolder
from hotlap.cluster.record import Member
from hotlap.core.errors import HotlapError, InputError
from hotlap.core.store import select
from hotlap.nodes import audit
from hotlap.nodes.inspect import node as facts

T = TypeVar("T")
AUDIT = ["hotlap", "node", "audit"]
OWN: tuple[CauseKind, ...] = ("node", "send", "receive", "nic", "gpu")  # parts that are of one node


class History(NamedTuple):
    """Of all campaigns, by time. `health`: what campaigns that are no gate found of a node, at which time; `fleet`: B/s and noise of the
    last isolation that was sure; `gpus`: UUIDs by node and machine."""

    evidence: list[GateEvidence]
    health: list[tuple[float, str, bool]]
    gates: list[Gate]
    fleet: tuple[float, float] | None
    gpus: dict[tuple[str, str], set[str]]


def read(home: Path, rules: Mapping[str, GateRule], least: float) -> History:
    """Campaigns that cannot be read are left out. `least`: the loss of a node that matters."""
    try:
        entries = select.entries(["kind=campaign"], home)
    except InputError:
        entries = []
    evidence, health, gates = list[GateEvidence](), list[tuple[float, str, bool]](), list[Gate]()
    fleet: tuple[float, float] | None = None
    gpus: dict[tuple[str, str], set[str]] = {}
    for entry in sorted(entries, key=lambda each: each.began_s or 0.0):
        try:
            kept = folder.load(entry.path)
            own = _facts(kept, entry.began_s or 0.0, gpus) + _commands(kept, rules) + _inspected(kept, rules)
        except HotlapError:
            continue
        isolation = kept_record(kept.path / KEPT, Isolation)
        if isolation:
            own += _pairs(kept, isolation, least)
            fleet = (isolation.fleet, isolation.noise) if isolation.sure else fleet
        if gate := kept_record(kept.path / GATE, Gate):
            gates.append(gate)
        else:
            health += _health(kept, own)
        evidence += own
    evidence.sort(key=lambda each: each.at_s)
    return History(evidence, sorted(health), gates, fleet, gpus)


def beside(history: History, evidence: Iterable[GateEvidence]) -> History:
    """With more evidence, in its place by time."""
    return history._replace(evidence=sorted([*history.evidence, *evidence], key=lambda each: each.at_s))


def kept_record(path: Path, kind: type[T]) -> T | None:
    """None where there is none that can be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError):
        return None


def machine(member: Member) -> str:
    return member.identity.key if member.identity else ""


def _facts(kept: CampaignFolder, at_s: float, gpus: dict[tuple[str, str], set[str]]) -> list[GateEvidence]:
    """Members whose agents said who they are."""
    return [fewer(member, at_s, kept.path.name, gpus) for member in kept.members() if member.identity]


def fewer(member: Member, at_s: float, run: str, gpus: dict[tuple[str, str], set[str]]) -> GateEvidence:
    """Whether GPUs of a machine that were there before are gone. `gpus`: those of each node and machine, which takes these."""
    own, place = set(member.identity.gpus if member.identity else []), (member.name, machine(member))
    before = gpus.get(place, own)
    gpus[place] = own if own >= before else before  # until they are all there again
    gone = before - own
    return GateEvidence(
        rule="gpus", node=member.name, machine=place[1], at_s=at_s, run=run, holds="bad" if gone else "good", code="gpus" if gone else "",
        count=len(own), of=len(before),
    )  # fmt: skip


def _commands(kept: CampaignFolder, rules: Mapping[str, GateRule]) -> list[GateEvidence]:
    by_command = {tuple(rule.command): rule.name for rule in rules.values() if rule.command}
    steps = {step.number: by_command.get(tuple(step.argv)) for step in kept.campaign.steps}
    machines = {member.name: machine(member) for member in kept.members()}
    return [
        of_command(name, member, event.code, event.at_s, kept.path.name, machines.get(member, ""))
        for event, member, name in (
            (_Ended(event.time_s, event.code), member, steps.get(step)) for (step, member), event in states.last(kept.events()).items()
            if event.to in ("measured", "died") and event.code is not None
        ) if name
    ]  # fmt: skip


def _inspected(kept: CampaignFolder, rules: Mapping[str, GateRule]) -> list[GateEvidence]:
    """Kept facts of `node inspect`, by the rules of `node audit`: as if that had run then."""
    name = next((rule.name for rule in rules.values() if rule.command == AUDIT), "")
    steps = {step.number for step in kept.campaign.steps if step.gather == "facts"}
    if not steps or not name:
        return []
    machines, own, answer = {member.name: machine(member) for member in kept.members()}, audit.builtin(), list[GateEvidence]()
    for (step, member), event in states.last(kept.events()).items():
        file = kept.path / folder.FACTS / f"{member}.json"
        if step in steps and event.to == "measured" and file.is_file():
            code = audit.reached(audit.audit(facts.read(str(file)), own, "bench"), "error")
            answer.append(of_command(name, member, code, event.time_s, kept.path.name, machines.get(member, "")))
    return answer


class _Ended(NamedTuple):
    at_s: float
    code: int | None


def of_command(rule: str, node: str, code: int | None, at_s: float, run: str, where: str) -> GateEvidence:
    """Exit code 0 good; 3 (Hotlap: it could not tell), a signal and none unknown; any other bad."""
    none = code is None or code < 0
    holds = "good" if code == 0 else "unknown" if none or code == 3 else "bad"
    seen = "" if code == 0 else "no result" if none else "exit"
    return GateEvidence(rule=rule, node=node, at_s=at_s, holds=holds, code=seen, status=code, run=run, machine=where)  # type: ignore[arg-type]


def _pairs(kept: CampaignFolder, isolation: Isolation, least: float) -> list[GateEvidence]:
    events = kept.events()
    at_s = max((event.time_s for event in events), default=0.0)
    machines, asked = {member.name: machine(member) for member in kept.members()}, kept_record(kept.path / ASKED, IsolationAsked)
    return of_isolation(isolation, machines, at_s, kept.path.name, least, asked.leaves if asked else {})


def of_isolation(
    isolation: Isolation, machines: Mapping[str, str], at_s: float, run: str, least: float, leaves: Mapping[str, str]
) -> list[GateEvidence]:
    """Of every node that took part: bad where it is named with a loss that matters, good where such a loss would have shown, else neither.
    `machines` and `leaves`: by node; `least`: the loss that matters."""
    untested = {name for each in isolation.open if each.code == "untested" for name in each.members}
    sharing = {name for each in isolation.open if each.code == "sharing" for name in each.members}
    small = next((each.loss for each in isolation.open if each.code == "small"), 0.0)
    answer = list[GateEvidence]()
    for node, where in machines.items():
        if node not in untested:
            named = [each for each in isolation.culprits if each.high >= least and _concerns(each.part, node, leaves.get(node, ""))]
            seen = GateEvidence(rule="pair", node=node, at_s=at_s, holds="unknown", run=run, machine=where)
            answer.append(msgspec.structs.replace(seen, **_holds(isolation, named, small, least, node in sharing)))
    return answer


def _concerns(part: NamedPart, node: str, leaf: str) -> bool:
    """Whether a node is, or hangs on, a part."""
    if part.kind == "rail":
        return True
    return (leaf if part.kind in (*naming.UPLINKS, "leaf pair") else node) in part.members


def _holds(isolation: Isolation, named: Sequence[Culprit], small: float, least: float, unexplained: bool) -> dict[str, Any]:
    """What differs from neither good nor bad: the worst of what is named, a part of the node itself before what it shares."""
    if not isolation.sure or unexplained:
        return {"code": "noisy"}
    if named:
        worst = max(named, key=lambda each: (each.part.kind in OWN, each.loss))
        own, sure = worst.part.kind in OWN, worst.loss >= least and (worst.runner_up is None or worst.odds >= naming.TELLS)
        return {"holds": "bad" if own and sure else "unknown", "code": "slow" if own else "shares", "part": worst.part, "loss": worst.loss}
    if isolation.nodes < naming.FEWEST or small > least:
        return {"code": "few", "loss": small}
    return {"holds": "good", "loss": small}


def of_node(seen: GateEvidence, node: str) -> GateEvidence:
    return msgspec.structs.replace(seen, node=node)


def worded(seen: GateEvidence, text: str, code: GateCode | None = None) -> GateEvidence:
    """With what somebody said of it."""
    return msgspec.structs.replace(seen, text=text[:200], code=code or seen.code)


def excused(seen: GateEvidence) -> GateEvidence:
    return msgspec.structs.replace(seen, holds="good", code="")


def _health(kept: CampaignFolder, own: Iterable[GateEvidence]) -> list[tuple[float, str, bool]]:
    """What a campaign found of each node by all that it measured: healthy where all of it is good, and at least a step or an isolation."""
    pieces = defaultdict[str, list[tuple[float, bool]]](list)
    for each in own:
        if each.rule != "gpus" or each.holds == "bad":
            pieces[each.node].append((each.at_s, each.holds == "good"))
    pairs = {step.number for step in kept.campaign.steps if step.gang}
    for (step, member), event in states.last(kept.events()).items():
        if event.to == "measured" and step not in pairs:
            pieces[member].append((event.time_s, event.code == 0))
    return [(max(at_s for at_s, _ in each), node, all(good for _, good in each)) for node, each in pieces.items()]


def last(evidence: Sequence[GateEvidence], nodes: Iterable[str]) -> dict[tuple[str, str], GateEvidence]:
    """The newest of each rule and node that says something; one that does not leaves the one before."""
    wanted, newest = set(nodes), dict[tuple[str, str], GateEvidence]()
    for each in evidence:
        before = newest.get((each.rule, each.node))
        if each.node in wanted and (each.holds != "unknown" or before is None or before.holds == "unknown"):
            newest[each.rule, each.node] = each
    return newest

"""What kept campaigns say of nodes, rule by rule: facts of their agents, commands that ran, isolations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from hotlap.bringup.gate_record import GATE, Gate, GateEvidence, GateRule, Why
from hotlap.bringup.record import KEPT, CauseKind, Isolation
from hotlap.cluster import folder, states
from hotlap.cluster.folder import CampaignFolder
from hotlap.cluster.record import Member
from hotlap.core.errors import HotlapError, InputError
from hotlap.core.store import select

T = TypeVar("T")
OWN: tuple[CauseKind, ...] = ("node", "send", "receive", "nic", "gpu")  # parts that are of one node


class History(NamedTuple):
    """Of all campaigns, by time. `health`: what campaigns that are no gate found of a node, at which time; `fleet`: B/s and noise of the
    last isolation that was sure; `gpus`: UUIDs by node and machine."""

    evidence: list[GateEvidence]
    health: list[tuple[float, str, bool]]
    gates: list[Gate]
    fleet: tuple[float, float] | None
    gpus: dict[tuple[str, str], set[str]]


def read(home: Path, rules: Mapping[str, GateRule]) -> History:
    """Campaigns that cannot be read are left out."""
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
            own = _facts(kept, entry.began_s or 0.0, gpus) + _commands(kept, rules)
        except HotlapError:
            continue
        isolation = kept_record(kept.path / KEPT, Isolation)
        if isolation:
            own += _pairs(kept, isolation)
            fleet = (isolation.fleet, isolation.noise) if isolation.sure else fleet
        if gate := kept_record(kept.path / GATE, Gate):
            gates.append(gate)
        else:
            health += _health(kept, own)
        evidence += own
    evidence.sort(key=lambda each: each.at_s)
    return History(evidence, sorted(health), gates, fleet, gpus)


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
        rule="gpus", node=member.name, machine=place[1], at_s=at_s, run=run, holds="bad" if gone else "good", why="gpus" if gone else "",
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


class _Ended(NamedTuple):
    at_s: float
    code: int | None


def of_command(rule: str, node: str, code: int | None, at_s: float, run: str, where: str) -> GateEvidence:
    """Exit code 0 good; 3 (Hotlap: it could not tell), a signal and none unknown; any other bad."""
    none = code is None or code < 0
    holds = "good" if code == 0 else "unknown" if none or code == 3 else "bad"
    why = "" if code == 0 else "no result" if none else "exit"
    return GateEvidence(rule=rule, node=node, at_s=at_s, holds=holds, why=why, code=code, run=run, machine=where)  # type: ignore[arg-type]


def _pairs(kept: CampaignFolder, isolation: Isolation) -> list[GateEvidence]:
    events = kept.events()
    at_s = max((event.time_s for event in events), default=0.0)
    machines = {member.name: machine(member) for member in kept.members()}
    return of_isolation(isolation, machines, at_s, kept.path.name)


def of_isolation(isolation: Isolation, machines: Mapping[str, str], at_s: float, run: str) -> list[GateEvidence]:
    """Of every node that took part: named itself, part of what is named, or neither. `machines`: by node."""
    untested = {name for each in isolation.open if each.code == "untested" for name in each.members}
    small = next((each.loss for each in isolation.open if each.code == "small"), 0.0)
    answer = list[GateEvidence]()
    for node, where in machines.items():
        if node in untested:
            continue
        seen = GateEvidence(rule="pair", node=node, at_s=at_s, holds="good", run=run, machine=where, loss=small)
        named = [each for each in isolation.culprits if node in each.part.members]
        worst = sorted(named, key=lambda each: (each.part.kind in OWN, each.loss))
        if not isolation.sure:
            seen = msgspec.structs.replace(seen, holds="unknown", why="noisy")
        elif worst:
            own = worst[-1].part.kind in OWN
            seen = msgspec.structs.replace(
                seen, holds="bad" if own else "unknown", why="slow" if own else "shares", part=worst[-1].part, loss=worst[-1].loss
            )
        elif isolation.nodes < 4:
            seen = msgspec.structs.replace(seen, holds="unknown", why="few")
        answer.append(seen)
    return answer


def of_node(seen: GateEvidence, node: str) -> GateEvidence:
    return msgspec.structs.replace(seen, node=node)


def worded(seen: GateEvidence, text: str, why: Why | None = None) -> GateEvidence:
    """With what somebody said of it."""
    return msgspec.structs.replace(seen, text=text[:200], why=why or seen.why)


def excused(seen: GateEvidence) -> GateEvidence:
    return msgspec.structs.replace(seen, holds="good", why="")


def _health(kept: CampaignFolder, own: Iterable[GateEvidence]) -> list[tuple[float, str, bool]]:
    """What a campaign found of each node by all that it measured: healthy where all of it is good, and at least a step or an isolation."""
    found = defaultdict[str, list[tuple[float, bool]]](list)
    for each in own:
        if each.rule != "gpus" or each.holds == "bad":
            found[each.node].append((each.at_s, each.holds == "good"))
    pairs = {step.number for step in kept.campaign.steps if step.gang}
    for (step, member), event in states.last(kept.events()).items():
        if event.to == "measured" and step not in pairs:
            found[member].append((event.time_s, event.code == 0))
    return [(max(at_s for at_s, _ in each), node, all(good for _, good in each)) for node, each in found.items()]


def last(evidence: Sequence[GateEvidence], nodes: Iterable[str]) -> dict[tuple[str, str], GateEvidence]:
    """The newest of each rule and node that says something; one that does not leaves the one before."""
    wanted, newest = set(nodes), dict[tuple[str, str], GateEvidence]()
    for each in evidence:
        if each.node in wanted and (each.holds != "unknown" or (each.rule, each.node) not in newest):
            newest[each.rule, each.node] = each
    return newest

"""What a gate tests now: a campaign of the commands and the isolation that stale evidence asks for, within a budget of seconds."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

import hotlap
from hotlap.bringup import gate_evidence, measuring, member_pair, naming, pairs
from hotlap.bringup.gate_evidence import History
from hotlap.bringup.gate_record import GateEvidence, GateRule
from hotlap.bringup.record import TRANSFERS, IsolationAsked, PairRecord
from hotlap.cluster import folder, session
from hotlap.cluster.folder import CampaignFolder
from hotlap.cluster.launch.base import AgentLauncher
from hotlap.cluster.record import Campaign, Member, StepRecord
from hotlap.core.errors import MachineError
from hotlap.core.store import lines

ROUND_S = 2 * (member_pair.LEAD_S + 0.5)  # of a round beside its transfers
LEAST_ROUNDS = 3  # to screen
CLOSE_S = 2.0  # of a budget, to end agents


@dataclass(frozen=True)
class GateAsked:
    """`leaves`: by node; `until_s`: when the budget ends, monotonic."""

    rules: Mapping[str, GateRule]
    chosen: Sequence[str]  # rules to test
    leaves: Mapping[str, str]
    limit: int  # pairs that an uplink carries; 0: one for each node of its leaf
    time_s: float  # of a transfer
    until_s: float
    least: float = 0.1  # the loss of a node that matters

    @property
    def left_s(self) -> float:
        return self.until_s - time.monotonic()


def begun(asked: GateAsked, launcher: AgentLauncher, members: Sequence[Member], python: str, options: dict[str, object]) -> CampaignFolder:
    """A campaign with a step for each rule that is tested. Raises MachineError."""
    steps = list[StepRecord]()
    wanted = [asked.rules[name] for name in asked.chosen]
    least_s = LEAST_ROUNDS * (ROUND_S + 2 * asked.time_s) if any(rule.kind == "pairs" for rule in wanted) and len(members) > 1 else 0.0
    for rule in wanted:
        if rule.kind == "command":
            steps.append(
                StepRecord(
                    number=len(steps) + 1, name=folder.step_name(rule.name), gather="command", argv=rule.command, label=rule.name,
                    timeout_s=max(asked.left_s - least_s - CLOSE_S, 1.0),
                )
            )  # fmt: skip
    if least_s:
        own = pairs.step(python, asked.time_s, len(members))
        steps.append(msgspec.structs.replace(own, number=len(steps) + 1))
    named, began = folder.new_id()
    campaign = Campaign(
        id=named, hotlap=hotlap.__version__, began=began, launcher=launcher.name, options=options, python=python, steps=steps
    )
    return session.begun(campaign, members, launcher)


def tested(asked: GateAsked, kept: CampaignFolder, launcher: AgentLauncher, history: History) -> dict[tuple[str, str], GateEvidence]:
    """By rule and node, of all members; the campaign keeps what was measured."""
    with kept.held():
        conductor = pairs.PairController(kept, launcher)
        conductor.connect_s, conductor.until_s = max(asked.left_s - CLOSE_S, 1.0), asked.until_s
        members = kept.members()
        launcher.prepare(members)
        answers = dict[tuple[str, str], GateEvidence]()
        try:
            conductor.open(members)
            answers |= _facts(asked, kept, conductor, history)
            for step in kept.campaign.steps:
                if not step.gang:
                    conductor.step(step, members)
            there = [member for member in members if not conductor.links[member.name].gone]
            if "pair" in asked.chosen:
                answers |= _pairs(asked, kept, launcher, conductor, there, history)
            why = {name: link.gone[1] for name, link in conductor.links.items() if link.gone}
        finally:
            conductor.close()
        session.collect(kept)
    answers |= _commands(asked, kept)
    for name in asked.chosen:
        for member in members:
            nothing = GateEvidence(rule=name, node=member.name, at_s=time.time(), holds="unknown", code="no result")
            answers.setdefault((name, member.name), gate_evidence.worded(nothing, why.get(member.name, "")))
    return answers


def _facts(
    asked: GateAsked, kept: CampaignFolder, conductor: pairs.PairController, history: History
) -> dict[tuple[str, str], GateEvidence]:
    """GPUs as before, of every agent that answers; asked for or not, it costs nothing."""
    name, answers = next((rule.name for rule in asked.rules.values() if rule.kind == "facts"), ""), dict[tuple[str, str], GateEvidence]()
    for node, link in conductor.links.items():
        if link.ready and name:
            seen = gate_evidence.fewer(link.member, time.time(), kept.path.name, history.gpus)
            answers[name, node] = seen
    return answers


def _commands(asked: GateAsked, kept: CampaignFolder) -> dict[tuple[str, str], GateEvidence]:
    machines = {member.name: gate_evidence.machine(member) for member in kept.members()}
    names = {step.number: step.label for step in kept.campaign.steps if not step.gang}
    answers = dict[tuple[str, str], GateEvidence]()
    for state in kept.states(time.time()):
        if rule := names.get(state.step):
            seen = gate_evidence.of_command(rule, state.member, state.code, time.time(), kept.path.name, machines[state.member])
            text = state.why or ("" if state.state == "measured" else state.state)
            answers[rule, state.member] = gate_evidence.worded(seen, text) if seen.holds != "good" else seen
    return answers


def _pairs(
    asked: GateAsked, kept: CampaignFolder, launcher: AgentLauncher, conductor: pairs.PairController, there: Sequence[Member],
    history: History,
) -> dict[tuple[str, str], GateEvidence]:
    machines, now_s = {member.name: gate_evidence.machine(member) for member in there}, time.time()
    nothing = GateEvidence(rule="pair", node="", at_s=now_s, holds="unknown", code="few", run=kept.path.name)
    step = next((step for step in kept.campaign.steps if step.gang), None)
    if step is None or len(there) < 2:
        return {("pair", name): gate_evidence.of_node(nothing, name) for name in machines}
    wanted = IsolationAsked(leaves=dict(asked.leaves), limit=asked.limit, rounds=LEAST_ROUNDS, time_s=asked.time_s, step=step.number)
    measuring.keep_asked(kept, wanted)
    try:
        isolation = measuring.isolated(
            kept, launcher, wanted, lambda: asked.left_s - CLOSE_S > ROUND_S + 2 * asked.time_s, conductor
        )
    except MachineError as error:
        late = gate_evidence.worded(nothing, error.reason, "no time" if asked.left_s <= 0 else "no result")
        return {("pair", name): gate_evidence.of_node(late, name) for name in machines}
    answers = gate_evidence.of_isolation(isolation, machines, time.time(), kept.path.name, asked.least, asked.leaves)
    if history.fleet and isolation.nodes < naming.FEWEST:
        transfers = lines.read((kept.path / TRANSFERS).read_bytes(), PairRecord, TRANSFERS).records
        answers = [_beside_fleet(each, transfers, *history.fleet) for each in answers]
    return {("pair", each.node): each for each in answers}


def _beside_fleet(seen: GateEvidence, transfers: Sequence[PairRecord], fleet: float, noise: float) -> GateEvidence:
    """A node of too few to compare: good where it sends and receives as the fleet did when that was isolated."""
    if seen.code != "few":
        return seen
    sent, taken = (
        max((each.rate or 0.0 for each in transfers if getattr(each, side) == seen.node), default=0.0) for side in ("sender", "receiver")
    )
    return gate_evidence.excused(seen) if min(sent, taken) >= fleet * (1 - 3 * noise) else seen

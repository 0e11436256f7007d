"""What an acceptance does next, by its standings alone, and what a step's evidence makes of them: both are pure, so that a run that was
stopped anywhere goes on to the same ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from hotlap.bringup import accept_judge, accept_plan, accept_states
from hotlap.bringup.accept_folder import AcceptFolder, BegunStep
from hotlap.bringup.accept_judge import StepRaw
from hotlap.bringup.accept_plan import AcceptPlan
from hotlap.bringup.accept_record import (
    MEASURED,
    OUT,
    PATH,
    STEPS,
    AcceptEvent,
    FaultSeen,
    NodeEvidence,
    NodeStanding,
    StepAsk,
    StepHead,
    StepName,
    StepTaken,
    digest,
)
from hotlap.core.errors import Interrupted, SchemaError

PARTNERS = 3  # good nodes for each that is tried again
FEWEST = 6  # nodes in rounds of pairs; good ones are added up to it
REPEATS = 3  # of what failed, in a retest
LONGER = 2.0  # times as long


class Measurer(Protocol):
    """Whatever measures nodes: a cluster's agents, or the simulated fleet."""

    def measure(self, ask: StepAsk, begun: BegunStep, tell: Callable[[BegunStep], None]) -> StepRaw:
        """Evidence of every node that is asked. `begun`: what is known of an earlier try; `tell` keeps what this one has begun."""

    def now_s(self, taken: int) -> float:
        """UNIX, before the step of this number."""


@dataclass
class AcceptDriver:
    """One acceptance on its way; its folder is held. `scope`: nodes that are worked on, all where empty. `tell` hears every event,
    `begins` every step before it is measured."""

    folder: AcceptFolder
    measurer: Measurer
    max_out: float
    scope: frozenset[str] = frozenset()
    tell: Callable[[AcceptEvent], None] = lambda event: None
    stopped: Callable[[], bool] = lambda: False
    begins: Callable[[StepAsk], None] = lambda ask: None

    def run(self) -> None:
        """Until nothing is left to ask. Raises Interrupted between steps, once `stopped` says so."""
        events, taken = self.settle()
        while ask := next_ask(self.folder.plan, self.folder.standings(events), self.max_out, self.scope):
            if self.stopped():
                raise Interrupted("")
            self.begins(ask)
            step = self._measured(ask, events, len(taken) + 1, taken)
            self.folder.keep(step)
            taken.append(step)
            self._write(step, events)

    def settle(self) -> tuple[list[AcceptEvent], list[StepTaken]]:
        """Writes what a kill left out of the ledger. → its events, and the steps"""
        events, taken = self.folder.events(), self.folder.steps()
        if taken:
            self._write(taken[-1], events)
        return events, taken

    def _measured(self, ask: StepAsk, events: Sequence[AcceptEvent], number: int, taken: Sequence[StepTaken]) -> StepTaken:
        plan, standings = self.folder.plan, self.folder.standings(events)
        begun = self.folder.begun()
        if begun is None or begun.number != number:
            begun = BegunStep(number, self.measurer.now_s(number))
            self.folder.begin(begun)
        if ask.step == "accept":
            evidence, raw = [_closing(plan, standings[name]) for name in ask.nodes], StepRaw([])
        else:
            raw = self.measurer.measure(ask, begun, self.folder.begin)
            evidence = accept_judge.judged(plan, raw, passing(taken, standings, ask.step))
            evidence = [each for each in evidence if each.node in ask.nodes]
        head = StepHead(
            number=number, step=ask.step, nodes=ask.nodes, retest=ask.retest, wave=ask.wave, after=len(events), began_s=begun.began_s,
            ended_s=self.measurer.now_s(number + 1), max_out=self.max_out, campaigns=raw.campaigns, notes=raw.notes,
        )  # fmt: skip
        evidence = [_noted(each, ask, standings[each.node], digest(head)) for each in evidence]
        return StepTaken(head=head, evidence=sorted(evidence, key=lambda each: ask.nodes.index(each.node)))

    def _write(self, step: StepTaken, events: list[AcceptEvent]) -> None:
        """The events of a step that are not in the ledger yet. Raises SchemaError where the ledger has others."""
        due = decided(self.folder.plan, step, events[: step.head.after])
        there = events[step.head.after : step.head.after + len(due)]
        if there != due[: len(there)]:
            raise SchemaError(f"'{self.folder.path}': events of step {step.head.number} do not follow from its file; restore the ledger")
        for event in due[len(there) :]:
            self.folder.append(event)
            events.append(event)
            self.tell(event)


def _closing(plan: AcceptPlan, now: NodeStanding) -> NodeEvidence:
    """What an acceptance rests on: the digests of every step."""
    return NodeEvidence(
        node=now.node, product=plan.product(now.node).name, step="accept", outcome="pass", reference={"evidence": dict(now.evidence)}
    )  # fmt: skip


def _noted(evidence: NodeEvidence, ask: StepAsk, now: NodeStanding, head: str) -> NodeEvidence:
    """With the retest's mark, the digest of the step's head, and that a node which was lost has come late."""
    faults = list(evidence.faults)
    if ask.step == "reach" and evidence.outcome in ("pass", "fail") and now.state == "lost":
        faults.append(FaultSeen(code="late", values={"calls": now.reaches + 1}))
    return msgspec.structs.replace(evidence, retest=ask.retest, faults=faults, partners=ask.partners, head=head)


def passing(taken: Sequence[StepTaken], standings: Mapping[str, NodeStanding], step: StepName) -> list[NodeEvidence]:
    """The evidence by which other nodes have passed a step."""
    kept = list[NodeEvidence]()
    for earlier in taken if step in ("reach", "alone", "soak") else []:
        if earlier.head.step == step:
            digests = earlier.digests()
            kept += [each for each in earlier.evidence if standings[each.node].evidence.get(step) == digests[each.node]]
    return kept


# ---------------------------------------------------------------- what next


def next_ask(
    plan: AcceptPlan, standings: Mapping[str, NodeStanding], max_out: float, scope: frozenset[str] = frozenset()
) -> StepAsk | None:
    """The next step; None where nothing is left. Waves one after the other; no wave begins while suspects cannot be taken out."""
    waves, steps = plan.wave_of(), accept_plan.measured(plan)
    last = max(waves.values())
    for wave in range(last + 1):
        names = [name for name in plan.nodes if waves[name] == wave and (not scope or name in scope)]
        known = [name for name in plan.nodes if waves[name] <= wave and (not scope or name in scope)]
        for step in steps:
            if ask := _retest(plan, standings, max_out, step, known, wave):
                return ask
            calls = wave + 1 if step == "reach" else 0
            if ask := _first(plan, standings, step, known if step == "reach" else names, wave, calls):
                return ask
        if ask := _behind(plan, standings, steps, known, wave) or _accepting(standings, known, wave):
            return ask
        if not scope and any(each.waits == "room" for each in standings.values()):
            return None
    names = [name for name in plan.nodes if not scope or name in scope]
    if ask := _first(plan, standings, "reach", names, last, last + 2):
        return ask
    return _behind(plan, standings, steps, names, last) or _accepting(standings, names, last)


def _behind(
    plan: AcceptPlan, standings: Mapping[str, NodeStanding], steps: Sequence[StepName], names: Sequence[str], wave: int
) -> StepAsk | None:
    """Nodes of earlier waves that came late, or come back."""
    for step in steps[1:]:
        if ask := _first(plan, standings, step, names, wave, 0):
            return ask
    return None


def _first(
    plan: AcceptPlan, standings: Mapping[str, NodeStanding], step: StepName, names: Sequence[str], wave: int, calls: int
) -> StepAsk | None:
    """Nodes in the state before the step. `calls`: a node that does not answer is called so often in all, from the wave of its own on."""
    before = PATH[PATH.index(STEPS[step]) - 1]
    waves = plan.wave_of()
    ready = [name for name in names if standings[name].state == before and _untold(plan, standings, name, step)]
    if calls:
        ready += [
            name for name in names
            if standings[name].state == "lost" and standings[name].step == "reach" and standings[name].reaches < calls - waves[name]
        ]  # fmt: skip
    if not ready:
        return None
    tries = max(standings[name].opened.get(step, 0) for name in ready)
    return StepAsk(step=step, nodes=ready, wave=wave, partners=_partners(plan, standings, ready, step, False), tries=tries)


def _untold(plan: AcceptPlan, standings: Mapping[str, NodeStanding], name: str, step: StepName) -> bool:
    """Whether a node is to be asked: for the first time; again where pairs showed neither, since a fault that passes is gone then; or where
    nobody was there to pair with, and somebody is now."""
    now = standings[name]
    if not now.opened.get(step):
        return True
    if any(each.code == "too-few" for each in now.open.get(step, [])) and now.opened[step] < 2 * REPEATS:
        return bool(_partners(plan, standings, [name], step, False))
    noisy = step in ("pairs", "together") or any(each.code in ("coarse", "doubtful") for each in now.open.get(step, []))
    return noisy and now.opened[step] < REPEATS


def _retest(
    plan: AcceptPlan, standings: Mapping[str, NodeStanding], max_out: float, step: StepName, names: Sequence[str], wave: int
) -> StepAsk | None:
    """Suspects of a step, and those that a person asks to be tried again. Held ones wait until more may be out."""
    room = accept_plan.most_out(max_out, len(plan.nodes)) - accept_states.counted(standings, OUT)
    chosen = [
        name for name in names
        if standings[name].step == step and standings[name].state in ("suspect", "retest") and _free(standings[name], room)
    ]  # fmt: skip
    if not chosen:
        return None
    tries = max(standings[name].opened.get(step, 0) for name in chosen)
    return StepAsk(step=step, nodes=chosen, retest=True, wave=wave, partners=_partners(plan, standings, chosen, step, True), tries=tries)


def _free(now: NodeStanding, room: int) -> bool:
    again = now.waits == "answer" and now.opened.get(now.step or "", 0) < REPEATS
    return not now.waits or again or (now.waits == "room" and room > 0)


def _accepting(standings: Mapping[str, NodeStanding], names: Sequence[str], wave: int) -> StepAsk | None:
    ready = [name for name in names if standings[name].state == "soaked"]
    return StepAsk(step="accept", nodes=ready, wave=wave) if ready else None


def _partners(
    plan: AcceptPlan, standings: Mapping[str, NodeStanding], nodes: Sequence[str], step: StepName, retest: bool
) -> list[str]:
    """Good nodes of the same products beside these, of the same leaf first: for pairs and collectives of few."""
    if step not in ("pairs", "together") or not nodes:
        return []
    good = PATH[PATH.index("paired") :]
    chosen = list[str]()
    for product in plan.products:
        own = [name for name in nodes if name in product.nodes]
        if not own:
            continue
        wanted = max(PARTNERS * len(own) if retest else 0, FEWEST - len(own), 0)
        leaves = {plan.topology.get(name) for name in own}
        others = [name for name in product.nodes if name not in nodes]
        pool = [name for name in others if standings[name].state in good]
        if not pool and len(own) < 2:  # nobody has passed yet: somebody who waits as well
            pool = [name for name in others if standings[name].state == "alone"]
        chosen += sorted(pool, key=lambda name: plan.topology.get(name) not in leaves)[:wanted]
    return chosen


# ---------------------------------------------------------------- what follows


def decided(plan: AcceptPlan, step: StepTaken, before: Sequence[AcceptEvent]) -> list[AcceptEvent]:
    """The events that a step makes of the ledger before it."""
    standings = accept_states.standings(plan.nodes, before)
    events, digests = list[AcceptEvent](), step.digests()
    most = accept_plan.most_out(step.head.max_out, len(plan.nodes))
    for evidence in step.evidence:
        for draft in _drafts(standings[evidence.node], evidence, accept_states.counted(standings, OUT) < most):
            event = msgspec.structs.replace(
                draft, number=len(before) + len(events) + 1, time_s=step.head.ended_s, phase=draft.phase or step.head.number,
                evidence=draft.evidence or digests[evidence.node],
            )  # fmt: skip
            standings[event.node] = accept_states.after(standings[event.node], event)
            events.append(event)
    return events


def _drafts(now: NodeStanding, evidence: NodeEvidence, room: bool) -> Iterator[AcceptEvent]:
    """Without their numbers. `room`: whether one more node may be out."""
    step, faults = evidence.step, evidence.faults
    base = AcceptEvent(number=0, time_s=0.0, node=now.node, was=now.state, to=now.state, step=step, faults=faults)
    if evidence.outcome == "gone":
        codes = [msgspec.structs.replace(each, code="vanished") if now.state not in ("expected", "lost") else each for each in faults]
        if now.state == "suspect":
            yield (base := _retesting(base, now, evidence))
        yield msgspec.structs.replace(base, was=base.to, to="lost", faults=codes, evidence="", phase=0)
    elif evidence.retest:
        if now.state == "suspect":
            yield (base := _retesting(base, now, evidence))
        yield msgspec.structs.replace(base, was="retest", faults=faults, evidence="", phase=0, **_retested(now, evidence, room))
    elif evidence.outcome == "pass":
        yield msgspec.structs.replace(base, to=STEPS[step])
    elif evidence.outcome == "open":
        yield base
    elif now.state == "lost":  # it answers, and something is wrong with it
        yield msgspec.structs.replace(base, to="reachable", faults=[each for each in faults if each.code == "late"])
        yield msgspec.structs.replace(base, was="reachable", to="suspect", faults=[each for each in faults if each.code != "late"])
    else:
        yield msgspec.structs.replace(base, to="suspect")


def _retesting(base: AcceptEvent, now: NodeStanding, evidence: NodeEvidence) -> AcceptEvent:
    """A suspect is tried again because of what it is suspected of."""
    return msgspec.structs.replace(base, to="retest", faults=now.faults, evidence=now.proof, phase=now.proof_in)


def _retested(now: NodeStanding, evidence: NodeEvidence, room: bool) -> dict[str, object]:
    """Back on its path, or out: a node that is out already is rejected when it fails again."""
    if evidence.outcome == "pass":
        earlier = MEASURED[: MEASURED.index(evidence.step)] if evidence.step != "accept" else MEASURED
        whole = all(now.evidence.get(step) for step in earlier)
        return {"to": STEPS[evidence.step] if whole else "expected"}
    if evidence.outcome == "open":
        return {"to": "suspect", "waits": "answer"}
    if now.quarantines:
        return {"to": "rejected"}
    return {"to": "quarantined"} if room else {"to": "suspect", "waits": "room"}

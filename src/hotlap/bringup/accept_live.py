"""Steps of an acceptance on real nodes: each is a campaign of a cluster's agents, by whichever launcher the plan names."""

from __future__ import annotations

import re
import shlex
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import hotlap
from hotlap.bringup import accept_judge, accept_plan, collectives, member_alone, pairs, topology
from hotlap.bringup.accept_driver import LONGER, REPEATS
from hotlap.bringup.accept_folder import BegunStep
from hotlap.bringup.accept_judge import ExpectedRate, StepRaw
from hotlap.bringup.accept_plan import AcceptPlan, AcceptProduct
from hotlap.bringup.accept_record import FaultSeen, NodeEvidence, StepAsk, StepName
from hotlap.bringup.isolating import Isolating
from hotlap.bringup.record import Isolation
from hotlap.cluster import asked, controller, folder, session
from hotlap.cluster.folder import CampaignFolder
from hotlap.cluster.launch.base import AgentLauncher
from hotlap.cluster.record import Campaign, Member, MemberState, StepRecord
from hotlap.core import units
from hotlap.core.errors import HotlapError, InputError, Interrupted, MachineError
from hotlap.core.measure import signals
from hotlap.core.model import machines
from hotlap.core.model import predict as model
from hotlap.core.model.limits import limit
from hotlap.core.store import bundle as bundles
from hotlap.core.store import paths
from hotlap.core.work import label
from hotlap.nodes.facts import Facts

SCRIPT = "alone.py"
ROUNDS = 3  # processes of the built-in test
BMC_S = 10.0  # for a BMC to take a connection
SIZES = (65_536, 1 << 20)  # B, of an all-reduce
TRIES = 3  # of a gang, each without the member that ended the one before
KEPT = ("gpus.count", "gpu[*].name", "gpu[*].vbios", "ib[*].subnet", "ib[*].firmware", "ib[*].rate", "dmi.*", "nvidia.driver")


class AloneLine(msgspec.Struct):
    """What the built-in test prints in a round."""

    rates: dict[str, float]
    wrong: int
    checked: int
    throttled_s: float
    seconds: float


@dataclass
class LiveFleet:
    """`acceptance`: its id, a label of every campaign. `launched`: what starts agents."""

    plan: AcceptPlan
    acceptance: str
    launched: Callable[[Campaign], AgentLauncher] = session.launcher_of
    _number: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        self._draft(self.plan.nodes)

    def now_s(self, taken: int) -> float:
        return round(time.time(), 3)

    def measure(self, ask: StepAsk, begun: BegunStep, tell: Callable[[BegunStep], None]) -> StepRaw:
        self._number = begun.number
        if ask.step == "reach":
            return self._reach(ask)
        if ask.step == "pairs":
            return self._pairs(ask)
        if ask.step == "together":
            return self._together(ask)
        kept, launcher = self._kept(ask, begun)
        tell(msgspec.structs.replace(begun, campaigns=[kept.campaign.id]))
        self._measure(kept, launcher, asked.FANOUT)
        raw = self._inspected(ask, kept) if ask.step == "inspect" else self._ran(ask, kept)
        raw.campaigns.append(kept.campaign.id)
        return raw

    # ------------------------------------------------------------ campaigns

    def _draft(self, names: Sequence[str], steps: Sequence[StepRecord] = ()) -> Campaign:
        """Raises InputError for a launch that cannot be."""
        launch, config = self.plan.launch, self.plan.ssh_config
        (name, given), = launch.items()
        python = self.plan.python or (sys.executable if name == "local" else "python3")
        options: dict[str, Any] = {"address": given, "wait_s": 3600.0}
        if name == "hosts":
            name, options = "ssh", {"hosts": ",".join(names), "config": config}
        elif name == "local":
            if given < len(self.plan.nodes):
                raise InputError(f"launch: local = {given}: the products have {len(self.plan.nodes)} nodes; give at least so many slots")
            options = {"count": given}
        elif name == "slurm":
            options = {"options": [*shlex.split(str(given)), "-N", str(len(names)), "-w", ",".join(names)], "queue_s": 3600.0}
        named, began = folder.new_id()
        return Campaign(
            id=named, hotlap=hotlap.__version__, began=began, launcher=name, options=options, python=python, steps=list(steps),
        )  # fmt: skip

    def _members(self, launcher: AgentLauncher, names: Sequence[str]) -> list[Member]:
        """Those that are asked, in their order, numbered anew. Raises InputError for one that the launcher lacks."""
        there = {member.name: member for member in launcher.members()}
        lacking = [name for name in names if name not in there]
        if lacking:
            raise InputError(f"launch: there is no node {lacking[0]}; the launcher has {', '.join(list(there)[:8])}")
        return [msgspec.structs.replace(there[name], index=index) for index, name in enumerate(names)]

    def _kept(self, ask: StepAsk, begun: BegunStep) -> tuple[CampaignFolder, AgentLauncher | None]:
        """The campaign of this step, and its launcher; None where it was begun before a kill, and goes on."""
        for name in begun.campaigns:
            with suppress(HotlapError):
                return folder.load(paths.runs(paths.home()) / name), None
        return self._begun(ask.nodes, self._step(ask))

    def _begun(self, names: Sequence[str], step: StepRecord) -> tuple[CampaignFolder, AgentLauncher]:
        draft = self._draft(names, [step])
        launcher = self.launched(draft)
        members = self._members(launcher, names)
        marks = {"acceptance": self.acceptance, "step": f"{self._number:04}"}
        return session.begun(draft, members, launcher, marks), launcher

    def _measure(self, kept: CampaignFolder, launcher: AgentLauncher | None, fanout: int) -> None:
        """Raises Interrupted."""
        try:
            if session.measure(kept, lambda event: None, fanout, launcher is None, launcher):
                raise Interrupted("")
        finally:
            if launcher:
                launcher.release()

    def _step(self, ask: StepAsk) -> StepRecord:
        longer = LONGER if ask.retest else 1.0
        rounds = ROUNDS * (REPEATS if ask.retest else 1)
        if ask.step == "inspect":
            words = self.plan.inspect or ["hotlap", "node", "inspect", "--json"]
            return StepRecord(number=1, name="inspect", gather="facts", argv=words, label=shlex.join(words))
        words = self.plan.alone if ask.step == "alone" else self.plan.soak
        if words:
            return StepRecord(number=1, name=ask.step, gather="run", argv=words, label=shlex.join(words))
        time_s = accept_plan.soak_s(self.plan) / ROUNDS * longer if ask.step == "soak" else 0.0
        python = self._draft(self.plan.nodes).python
        return StepRecord(
            number=1, name=ask.step, gather="command", argv=[python, "-I", "-S", SCRIPT, f"{time_s:g}"], rounds=rounds,
            label=f"{ask.step}: hashing and copying", files={SCRIPT: Path(member_alone.__file__).read_text(encoding="utf-8")},
        )  # fmt: skip

    def _evidence(self, name: str, step: StepName, **parts: Any) -> NodeEvidence:
        return NodeEvidence(node=name, product=self.plan.product(name).name, step=step, outcome="pass", **parts)

    # ------------------------------------------------------------ reach, inspect

    def _reach(self, ask: StepAsk) -> StepRaw:
        draft, raw = self._draft(ask.nodes), StepRaw([])
        launcher = self.launched(draft)
        try:
            members = self._members(launcher, ask.nodes)
            launcher.prepare(members)
            with tempfile.TemporaryDirectory(prefix=".hotlap-reach-", dir=paths.home()) as place:
                kept = folder.create(Path(place), draft, members, {}, draft.launcher)
                with kept.held():
                    for begin in range(0, len(members), asked.FANOUT):
                        conductor = controller.ClusterController(kept, launcher)
                        conductor.open(members[begin : begin + asked.FANOUT])
                        for link in conductor.links.values():
                            self._reached(link, draft.silent_s, raw)
                        conductor.close()
        finally:
            launcher.release()
        places = {name: self.plan.product(name).bmc.get(name, "") for name in ask.nodes}
        answers = answering([place for place in places.values() if place])
        raw.evidence = [
            msgspec.structs.replace(each, facts={**each.facts, "bmc": places[each.node], "bmc_answers": answers[places[each.node]]})
            if places[each.node] else each for each in raw.evidence
        ]  # fmt: skip
        return raw

    def _reached(self, link: controller.AgentLink, silent_s: float, raw: StepRaw) -> None:
        member, identity = link.member, link.member.identity
        if identity is None:
            why = link.gone[1] if link.gone else "no answer"
            raw.faults[member.name] = [FaultSeen(code="unreachable", values={"why": why})]
            raw.evidence.append(self._evidence(member.name, "reach"))
            return
        facts = {name: member.facts.get(name) for name in ("host", "product", "kernel", "cpu", "clock_off_s")}
        facts |= {"serial": "" if member.slot else identity.serial or identity.key, "gpus": identity.gpus, "silent_s": silent_s}
        facts["machine"] = "" if member.slot else identity.key
        raw.evidence.append(self._evidence(member.name, "reach", facts=facts))

    def _inspected(self, ask: StepAsk, kept: CampaignFolder) -> StepRaw:
        wanted = [*KEPT, *(name for product in self.plan.products for name in product.expect)]
        forms = [re.compile(re.escape(name).replace(re.escape("[*]"), r"\[[^\]]*\]").replace(re.escape("*"), ".*")) for name in wanted]
        raw = self._came(ask, kept)
        evidence = []
        for each in raw.evidence:
            values: dict[str, Any] = {}
            with suppress(OSError, msgspec.MsgspecError):
                facts = msgspec.json.decode((kept.path / folder.FACTS / f"{each.node}.json").read_bytes(), type=Facts)
                values = {name: fact.value for name, fact in facts.facts.items() if any(form.fullmatch(name) for form in forms)}
            evidence.append(msgspec.structs.replace(each, facts=values))
        raw.evidence = evidence
        return raw

    def _came(self, ask: StepAsk, kept: CampaignFolder) -> StepRaw:
        """Evidence of every node, and the faults of those without a result."""
        states = {state.member: state for state in kept.states(0.0)}
        raw = StepRaw([self._evidence(name, ask.step, seconds=states[name].seconds) for name in ask.nodes])
        raw.faults = {name: [without(states[name])] for name in ask.nodes if states[name].state != "measured"}
        raw.faults |= {
            name: [FaultSeen(code="verdict", values={"verdict": f"{kept.campaign.steps[0].label} ended with 1"})]
            for name in ask.nodes if states[name].state == "measured" and states[name].code
        }  # fmt: skip
        return raw

    # ------------------------------------------------------------ alone, soak

    def _ran(self, ask: StepAsk, kept: CampaignFolder) -> StepRaw:
        raw = self._came(ask, kept)
        if kept.campaign.steps[0].gather == "run":
            return self._samples(raw, kept)
        states = {state.member: state for state in kept.states(0.0)}
        raw.evidence = [self._counted(each, kept, states[each.node]) for each in raw.evidence]
        return raw

    def _counted(self, evidence: NodeEvidence, kept: CampaignFolder, state: MemberState) -> NodeEvidence:
        if state.state != "measured":
            return evidence
        rows = list[AloneLine]()
        for text in (kept.attempt(1, state.member, state.attempt) / folder.OUTPUTS[0]).read_bytes().splitlines():
            with suppress(msgspec.MsgspecError):
                rows.append(msgspec.json.decode(text, type=AloneLine))
        names = rows[0].rates if rows else ()
        return msgspec.structs.replace(
            evidence, rates={name: {"": [row.rates[name] for row in rows]} for name in names}, units=dict.fromkeys(names, "B/s"),
            wrong=sum(row.wrong for row in rows), checked=sum(row.checked for row in rows),
            throttled_s=round(sum(row.throttled_s for row in rows), 6), seconds=sum(row.seconds for row in rows),
        )  # fmt: skip

    def _samples(self, raw: StepRaw, kept: CampaignFolder) -> StepRaw:
        """Calls per second of every case and device, of a command of Hotlap, and what the model expects of them."""
        bundle = bundles.load(kept.path, readings=False)
        cases = {case.id: case for case in bundle.run.plan.cases}
        devices = {device.key: device for device in bundle.run.machine.devices}
        rates: dict[str, dict[str, dict[str, list[float]]]] = {}
        for samples in bundle.samples:
            if samples.unit != "s" or samples.status != "measured" or not samples.values:
                continue
            node, _, place = devices[samples.device].uuid.partition("/")
            of_case = rates.setdefault(node, {}).setdefault(label(cases[samples.case]), {})
            of_case.setdefault(place, []).append(1.0 / float(np.median(samples.values)))
        raw.evidence = [
            msgspec.structs.replace(each, rates=rates.get(each.node, {}), units=dict.fromkeys(rates.get(each.node, {}), "1/s"))
            for each in raw.evidence
        ]  # fmt: skip
        for product in self.plan.products:
            if product.machine:
                raw.models = {**raw.models, product.name: _expected(product, list(cases.values()))}
        return raw

    # ------------------------------------------------------------ pairs, together

    def _pairs(self, ask: StepAsk) -> StepRaw:
        everyone = [*ask.nodes, *ask.partners]
        raw = StepRaw([self._evidence(name, "pairs") for name in ask.nodes])
        for product in self.plan.products:
            names = [name for name in product.nodes if name in everyone]
            for _ in range(TRIES):
                if len(names) < 2:
                    break
                answer, lost = self._isolated(product, names, raw, ask)
                raw.faults |= {name: [FaultSeen(code="unreachable", values={"why": why})] for name, why in lost.items()}
                names = [name for name in names if name not in lost]
                if answer is not None:
                    raw.isolations[product.name] = answer
                    break
        return raw

    def _isolated(
        self, product: AcceptProduct, names: Sequence[str], raw: StepRaw, ask: StepAsk
    ) -> tuple[Isolation | None, dict[str, str]]:
        """The isolation, and nodes that are lost, each with why; none where a node was lost on the way."""
        python = self._draft(names).python
        kept, launcher = self._begun(names, pairs.step(python, self.plan.transfer_s, len(names)))
        raw.campaigns.append(kept.campaign.id)
        conductor = pairs.PairController(kept, launcher)

        lost: dict[str, str] = {}
        isolating: Isolating | None = None
        with kept.held(), signals.stopping(conductor.interrupt):
            members = kept.members()
            try:
                launcher.prepare(members)
                conductor.open(members)
                lost = {name: link.gone[1] for name, link in conductor.links.items() if link.gone}
                there = [member for member in members if member.name not in lost]
                if len(there) < 2:
                    return None, lost
                where = topology.of(self.plan.topology, [member.name for member in there], self.plan.leaf_limit)
                conductor.begin(kept.campaign.steps[0], there, self.plan.transfer_s)
                random, rounds = np.random.default_rng(self._number), accept_plan.screening(len(there), ask.tries, ask.retest)
                isolating = Isolating(where, conductor.transfer, random, screen=rounds, expected=product.link)
                answer = isolating.run()[0]
                conductor.finish()
                raw.evidence = accept_judge.transfers(raw.evidence, isolating.tests, where, answer.fleet)
                return answer, lost
            except MachineError as error:
                first = conductor.ended_first()
                if first is not None:
                    return None, {**lost, first: error.reason}
                if isolating is None or len(isolating.tests):
                    raise
                raw.faults |= {name: [FaultSeen(code="no-pairs", values={"nodes": len(names)})] for name in names}  # no transfer at all
                return None, lost
            finally:
                conductor.close()
                launcher.release()
                session.collect(kept)

    def _together(self, ask: StepAsk) -> StepRaw:
        raw = StepRaw([self._evidence(name, "together") for name in ask.nodes])
        everyone, lines = [*ask.nodes, *ask.partners], dict[str, list[collectives.RankLine]]()
        names = list(everyone)
        for _ in range(TRIES):
            if len(names) < 2:
                break
            plan = collectives.CollectivePlan("all_reduce", SIZES, 2, "tcp", 2)
            kept, launcher = self._begun(names, collectives.step(self._draft(names).python, plan, len(names)))
            raw.campaigns.append(kept.campaign.id)
            self._measure(kept, launcher, len(names))
            states = {state.member: state for state in kept.states(0.0)}
            if all(state.state == "measured" for state in states.values()):
                lines = {name: collectives.rank_lines(kept.attempt(1, name, states[name].attempt) / folder.OUTPUTS[0]) for name in names}
                break
            others = {event.member for event in kept.events() if event.because_of}
            first = next((name for name in names if states[name].state != "measured" and name not in others), "")
            raw.faults |= {first: [without(states[first])]} if first else {}
            names = [name for name in names if name != first] if first else []
        for name in ask.nodes:
            if name not in lines and name not in raw.faults:
                raw.faults[name] = [FaultSeen(code="too-few" if len(everyone) < 2 else "no-turn", values={"nodes": len(everyone)})]
        raw.evidence = [_of_ranks(each, lines.get(each.node, [])) for each in raw.evidence]
        return raw


def _of_ranks(evidence: NodeEvidence, lines: Sequence[collectives.RankLine]) -> NodeEvidence:
    sizes = {units.show(line.size, "B"): line for line in lines}
    rates = {f"all-reduce {name}": {"": [1.0 / each.time_s for each in lines if each.size == line.size]} for name, line in sizes.items()}
    wrong = sum(line.wrong for line in lines)
    return msgspec.structs.replace(evidence, rates=rates, units=dict.fromkeys(rates, "1/s"), wrong=wrong, checked=len(lines))


def _expected(product: AcceptProduct, cases: Sequence[Any]) -> Mapping[str, ExpectedRate]:
    """What the model expects of cases that it knows."""
    known, spec = dict[str, ExpectedRate](), machines.load(product.machine)
    for case in cases:
        with suppress(HotlapError):
            of_case = model.expected(case, spec, limit(case, spec), case.implementation)
            if of_case.expected_s and of_case.high_s:
                known[label(case)] = ExpectedRate(1.0 / of_case.expected_s, 1.0 / of_case.high_s)
    return known


def without(state: MemberState) -> FaultSeen:
    """Why a node has no result: its agent is gone, or its program failed."""
    if state.state in ("never started", "silent") or (state.state == "died" and state.code is None):
        return FaultSeen(code="unreachable", values={"why": f"{state.state}: {state.why}"})
    return FaultSeen(code="no-result", values={"why": f"{state.state}: {state.why}"})


def answering(places: Sequence[str]) -> dict[str, bool]:
    """Whether each host:port takes a connection."""

    def answers(place: str) -> bool:
        host, _, port = place.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=BMC_S):
                return True
        except (OSError, ValueError, OverflowError):
            return False

    with ThreadPoolExecutor(max_workers=32) as pool:
        return dict(zip(places, pool.map(answers, places), strict=True))

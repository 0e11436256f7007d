"""Faults of a bed of real nodes, as `isolate.py --bed` plants them, and agents that are started in its nodes without ssh."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from tests.netbed.bed import Bed

import hotlap
from hotlap.bringup import isolating, pairs
from hotlap.bringup.record import FabricLayout, layout
from hotlap.cluster import agent, folder
from hotlap.cluster.launch.base import AgentProcess, AtOnce, last_line, popen
from hotlap.cluster.record import Campaign, Member, State

FAULTS = ("send", "receive", "node", "uplink", "link", "two", "none")


class Planted(NamedTuple):
    """A fault as `scripts/netbed` takes it, and as an isolation should name it."""

    kind: str
    values: tuple[str | float, ...]
    name: str
    loss: float


@dataclass(frozen=True)
class BedLauncher(AtOnce):
    """Agents in the nodes of a bed, entered from here."""

    bed: Bed
    name: str = "ssh"  # addresses are those of the nodes

    def members(self) -> list[Member]:
        return [Member(name=node, index=index, address=node) for index, node in enumerate(self.bed.spec.names)]

    def start(self, member: Member) -> AgentProcess:
        address = self.bed.spec.address(member.name)
        environment = {"SSH_CONNECTION": f"10.77.0.1 1 {address} 22"}
        return popen(self.bed.argv([sys.executable, "-I", "-S", "-c", agent.BOOTSTRAP], member.name, environment))

    def stop(self, member: Member, process: AgentProcess, mark: str) -> None:
        process.kill()
        process.wait()

    def failure(self, code: int, errors: str) -> tuple[State, str]:
        return "never started", last_line(errors) or f"the agent ended with {code}"


def scenario(bed: Bed, conductor: pairs.PairController, number: int, kind: str) -> dict[str, Any]:
    """A seeded fault, what was named, and what it took: wall and CPU seconds, and of them those that the links' shaping took."""
    random, began, spent_s = np.random.default_rng([number, bed.spec.nodes]), time.monotonic(), _cpu_s()
    faults = planted(bed, kind, random)
    with contextlib.ExitStack() as healed:
        healed.callback(bed.heal)
        for fault in faults:
            bed.fault(fault.kind, *fault.values)
        shaping_s = time.monotonic() - began
        answer, _ = isolating.Isolating(where(bed), conductor.transfer, random).run()
        ended = time.monotonic()
    wall_s = time.monotonic() - began
    names = {" ".join([each.part.kind, *each.part.members]): each.loss for each in answer.culprits}
    truth = {fault.name: fault.loss for fault in faults}
    return {
        "nodes": bed.spec.nodes, "number": number, "kind": kind, "planted": truth, "named": names, "right": set(names) == set(truth),
        "rounds": answer.screening + answer.confirming, "noise": answer.noise, "wall_s": wall_s, "cpu_s": _cpu_s() - spent_s,
        "shaping_s": shaping_s + began + wall_s - ended,
    }  # fmt: skip


def _cpu_s() -> float:
    """Of the whole machine so far, without idling and waiting: the kernel moves the bytes for no process of ours."""
    words = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    return sum(int(word) for place, word in enumerate(words[:8]) if place not in (3, 4)) / os.sysconf("SC_CLK_TCK")


def where(bed: Bed) -> FabricLayout:
    return layout(bed.spec.names, [bed.spec.leaf(node) - 1 for node in bed.spec.names])


@contextmanager
def transfers(bed: Bed, home: Path, time_s: float) -> Iterator[pairs.PairController]:
    """Agents in all nodes of a bed, ready for rounds."""
    launcher = BedLauncher(bed)
    members, (named, began) = launcher.members(), folder.new_id()
    steps = [pairs.step(sys.executable, time_s, len(members))]
    campaign = Campaign(id=named, hotlap=hotlap.__version__, began=began, launcher="ssh", python=sys.executable, steps=steps)
    kept = folder.create(home, campaign, members, {}, "bed")
    with kept.held():
        conductor = pairs.PairController(kept, launcher)
        try:
            conductor.open(members)
            if gone := next((link.gone for link in conductor.links.values() if link.gone), None):
                raise SystemExit(f"a node of the bed has no agent: {gone[1]}")
            conductor.begin(campaign.steps[0], members, time_s)
            yield conductor
        finally:
            conductor.close()


def planted(bed: Bed, kind: str, random: np.random.Generator) -> list[Planted]:
    """Seeded faults of a kind; losses of 10 to 60 %."""
    spec, names = bed.spec, bed.spec.names
    if kind == "none":
        return []
    if kind == "two":
        first, second = (str(each) for each in random.choice(["send", "receive", "node", "uplink"], 2, replace=False))
        both = [*planted(bed, first, random), *planted(bed, second, random)]
        while len({str(each.values[0]) for each in both}) < 2:
            both[1:] = planted(bed, second, random)
        return both
    loss = float(random.uniform(0.1, 0.6))
    node, other = (str(name) for name in random.choice(names, 2, replace=False))
    mbps = round(spec.node_mbps * (1 - loss), 2)
    if kind == "uplink":
        leaf = int(random.integers(spec.leaves))
        return [Planted("slow-uplink", (leaf + 1, round(spec.uplink_mbps * (1 - loss), 2)), f"uplink {leaf}", loss)]
    if kind == "link":
        return [Planted("slow-pair", (node, other, mbps), f"link {node} {other}", loss)]
    return [Planted({"send": "slow-send", "receive": "slow-receive", "node": "slow-node"}[kind], (node, mbps), f"{kind} {node}", loss)]

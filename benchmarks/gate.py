"""A gate before a job: how often a healthy node fails, how often a slow one passes, and how long it takes.

    python benchmarks/gate.py [--nodes 4,5,8,16,64] [--gates 500]       simulated: the rule `pair`, three rounds to screen
    python benchmarks/gate.py --bed 16                              real nodes, seconds from the order to the verdict; needs root
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from hotlap.bringup import fabrics, gate_evidence, gate_rules, gate_tests, isolating, topology
from hotlap.bringup.record import SlowPart, layout


def cell(count: int, faulty: bool, gates: int) -> None:
    """Gates of one fleet size, each with one node that loses 12 to 50 %, beyond the 10 % that matter, or none."""
    where = layout([f"n{number}" for number in range(count)], np.arange(count) // 4)
    tally = {"healthy bad": 0, "healthy unknown": 0, "slow bad": 0, "slow unknown": 0, "slow good": 0}
    rounds = list[int]()
    for seed in range(gates):
        random = np.random.default_rng([seed, count])
        node = int(random.integers(count))
        faults = {SlowPart("node", node): float(random.uniform(0.12, 0.5))} if faulty else {}
        fabric = fabrics.Fabric(where, faults, seed=seed)
        answer, _ = isolating.Isolating(where, fabric.transfer, random, screen=gate_tests.LEAST_ROUNDS).run()
        rounds.append(answer.screening + answer.confirming)
        for seen in gate_evidence.of_isolation(answer, dict.fromkeys(where.names, ""), 0.0, "", 0.1, topology.leaves(where)):
            slow = faulty and seen.node == where.names[node]
            name = f"{'slow' if slow else 'healthy'} {seen.holds}"
            tally[name] = tally.get(name, 0) + 1
    healthy = gates * (count - 1 if faulty else count)
    text = f"healthy nodes: {tally['healthy bad']} of {healthy} fail, {tally['healthy unknown']} inconclusive"
    if faulty:
        text += f"; slow ones: {tally['slow bad']} of {gates} fail, {tally['slow unknown']} inconclusive, {tally['slow good']} pass"
    planted = "one slow" if faulty else "none slow"
    print(f"{count} nodes, {planted}, {gates} gates: {text}; {min(rounds)} to {max(rounds)} rounds", flush=True)


def on_bed(nodes: int, time_s: float) -> None:
    """One clean gate and one with a slow node; needs root."""
    import isolate_bed
    from tests.netbed.bed import Bed
    from tests.netbed.spec import Spec

    rules = gate_rules.builtin()
    with Bed(Spec(nodes=nodes, leaves=nodes // 4, node_mbps=100.0, uplink_mbps=400.0)) as bed, tempfile.TemporaryDirectory() as home:
        os.environ["HOTLAP_HOME"] = home
        launcher, leaves = isolate_bed.BedLauncher(bed), topology.leaves(isolate_bed.where(bed))
        for slow in ("", bed.spec.names[4]):
            if slow:
                bed.fault("slow-node", slow, 70.0)
            began = time.monotonic()
            asked = gate_tests.GateAsked(rules, ["pair"], leaves, 0, time_s, began + 30.0)
            kept = gate_tests.begun(asked, launcher, launcher.members(), sys.executable, {})
            answers = gate_tests.tested(asked, kept, launcher, gate_evidence.read(Path(home), rules, asked.least))
            spent = time.monotonic() - began
            pair = {node: seen for (rule, node), seen in answers.items() if rule == "pair"}
            counts = {holds: sum(seen.holds == holds for seen in pair.values()) for holds in ("good", "bad", "unknown")}
            named = ", ".join(f"{node} by {seen.loss:.0%}" for node, seen in pair.items() if seen.holds == "bad") or "none"
            print(f"bed of {nodes}, {f'{slow} slow by 30%' if slow else 'none slow'}: {spent:.1f} s; {counts}; fails: {named}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="4,5,8,16,64")
    parser.add_argument("--gates", type=int, default=500)
    parser.add_argument("--bed", type=int, default=0, metavar="N", help="a bed of N nodes, instead")
    parser.add_argument("--time", type=float, default=0.5, help="seconds of a transfer")
    asked = parser.parse_args()
    if asked.bed:
        on_bed(asked.bed, asked.time)
        return
    for count in map(int, asked.nodes.split(",")):
        for faulty in (False, True):
            cell(count, faulty, asked.gates)


if __name__ == "__main__":
    main()

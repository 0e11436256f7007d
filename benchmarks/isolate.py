"""Which part of a fabric is slow: seeded faults, how often exactly they were named, in how many rounds, and two other ways beside it.

    python benchmarks/isolate.py [--nodes 1024,4096] [--fleets 200] [--uplinks 0,1,2] [--leaf 32]      simulated
    python benchmarks/isolate.py --clean 200 [--nodes 1024,4096]                                        fleets without a fault
    python benchmarks/isolate.py --tournament 16 [--fleets 200]        fabrics small enough for every pair, with a fault of each kind
    python benchmarks/isolate.py --bed 16 [--scenarios 21] [--kinds send,none] [--talk]                 real nodes; needs root
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import isolate_rivals as rivals
import numpy as np
from tests.netbed.bed import Bed
from tests.netbed.spec import Spec

from hotlap.bringup import fabrics, isolating, naming
from hotlap.bringup.record import FabricLayout, Isolation, SlowPart, layout

SCREENING = {1024: 4, 4096: 6}
KINDS = ("node", "send", "receive")


def faulty(where: FabricLayout, uplinks: int, seed: int, share: float = 0.02) -> fabrics.Fabric:
    """2 % of nodes lose 6 to 50 %: the whole node, or a direction; uplinks 10 to 60 %, both ways."""
    random = np.random.default_rng([seed, where.nodes, uplinks])
    bad = random.choice(where.nodes, round(share * where.nodes), replace=False)
    faults = {SlowPart(KINDS[random.integers(3)], int(node)): float(random.uniform(0.06, 0.5)) for node in bad}  # type: ignore[arg-type]
    leaves = random.choice(int(where.leaf.max()) + 1, uplinks, replace=False)
    faults |= {SlowPart("uplink", int(leaf)): float(random.uniform(0.1, 0.6)) for leaf in leaves}
    return fabrics.Fabric(where, faults, seed=int(random.integers(1 << 31)))


def named(answer: Isolation, where: FabricLayout) -> tuple[set[str], set[str]]:
    """Names of nodes (as a node or a direction of it), and of everything else."""
    nodes = {each.part.members[0] for each in answer.culprits if each.part.kind in KINDS}
    return nodes, {" ".join([each.part.kind, *each.part.members]) for each in answer.culprits if each.part.kind not in KINDS}


def cell(count: int, uplinks: int, fleets: int, leaf: int, share: float) -> None:
    where = layout([f"n{number}" for number in range(count)], np.arange(count) // leaf)
    exact = kinds = wrong = missed = inside = losses = 0
    rounds, open_, spent_s, began = list[int](), 0, 0.0, time.process_time()
    others: dict[str, list[tuple[int, int, int, int, bool]]] = {"group testing": [], "grown ring": []}
    for seed in range(fleets):
        fabric = faulty(where, uplinks, seed, share)
        truth = {where.names[factor.first] for factor in fabric.faults if factor.kind in KINDS}
        parts = {f"uplink {factor.first}" for factor in fabric.faults if factor.kind == "uplink"}
        by_name = {
            (each.kind, str(each.first) if each.kind == "uplink" else where.names[each.first]): loss for each, loss in fabric.faults.items()
        }
        started = time.process_time()
        answer, _ = isolating.Isolating(where, fabric.transfer, np.random.default_rng(seed), screen=SCREENING.get(count, 0)).run()
        spent_s += time.process_time() - started
        nodes, rest = named(answer, where)
        exact += nodes == truth and rest == parts
        wrong, missed = wrong + len(nodes - truth) + len(rest - parts), missed + len(truth - nodes) + len(parts - rest)
        kinds += sum((each.part.kind, each.part.members[0]) in by_name for each in answer.culprits)
        inside += sum(each.low <= by_name.get((each.part.kind, each.part.members[0]), -1) <= each.high for each in answer.culprits)
        losses += len(answer.culprits)
        rounds.append(answer.screening + answer.confirming)
        open_ += len(answer.open)
        for name, way in (("group testing", rivals.group_testing), ("grown ring", rivals.grown_ring)):
            spent = way(fabric, np.random.default_rng(seed))
            bad = {int(node[1:]) for node in truth}
            others[name].append((spent.tests, spent.rounds, len(spent.named - bad), len(bad - spent.named), spent.named == bad))
    goal = 0.97 if not uplinks else 0.93
    verdict = "" if not share else f" (asked {goal:.0%}: {'reached' if exact >= goal * fleets else 'missed'})"
    print(f"{count} nodes, leaves of {leaf}, {round(share * count)} bad nodes, {uplinks} bad uplinks, {fleets} fleets")
    print(f"  exact set {exact / fleets:.1%}{verdict}; wrong names {wrong}, missed {missed}; {min(rounds)} to {max(rounds)} rounds")
    if losses:
        more = f"{spent_s / fleets:.2f} CPU s a fleet; {open_ / fleets:.1f} kinds of open points"
        print(f"  right kind {kinds / losses:.1%}; loss in its 95 % interval {inside / losses:.1%}; {more}")
    for name, rows in others.items():
        tests, steps, extra, fewer, right = (float(np.mean(column)) for column in zip(*rows, strict=True))
        counts = f"{tests:.0f} tests, {steps:.0f} rounds, {extra:.1f} wrong names, {fewer:.1f} missed"
        print(f"  {name:<14} exact {right:6.1%}; a fleet: {counts}")
    print(f"  {time.process_time() - began:.0f} CPU s in all", flush=True)


def tournament(count: int, leaf: int, kinds: list[str], fleets: int, noise: float) -> None:
    """Every pair is tested. One fault of a kind (10 to 60 %), or none; transfers are not disturbed, uplinks are shared unfairly."""
    where = layout([f"n{number:02}" for number in range(1, count + 1)], np.arange(count) // leaf)
    print(f"{count} nodes, leaves of {leaf}, noise {noise:.1%}, {fleets} fleets a kind")
    for kind in kinds:
        right, wrong, off, screened, confirmed = 0, 0, list[float](), list[int](), list[int]()
        for seed in range(fleets):
            random = np.random.default_rng([seed, count, len(kind)])
            first, second = (int(node) for node in random.choice(count, 2, replace=False))
            place = {"link": (first, second), "uplink": (first // leaf,)}.get(kind, (first,))
            faults = {} if kind == "none" else {SlowPart(kind, *place): float(random.uniform(0.1, 0.6))}  # type: ignore[arg-type]
            fabric = fabrics.Fabric(where, faults, noise, 0.0, seed=seed, unfair=0.15)
            answer, _ = isolating.Isolating(where, fabric.transfer, random).run()
            names = {(each.part.kind, *each.part.members): each.loss for each in answer.culprits}
            truth = {(each.kind, *naming.part(each, where).members): loss for each, loss in faults.items()}
            right += set(names) == set(truth)
            wrong += len(set(names) - set(truth))
            off += [abs(names[name] - loss) for name, loss in truth.items() if name in names]
            screened.append(answer.screening)
            confirmed.append(answer.confirming)
        rounds = f"{min(screened)} to {max(screened)} rounds to screen, at most {max(confirmed)} to confirm"
        loss = f"; loss within {max(off):.1%}" if off else ""
        print(f"  {kind:<8} right {right} of {fleets}; {wrong} wrong names; {rounds}{loss}", flush=True)


def on_bed(nodes: int, scenarios: int, kinds: list[str], time_s: float, seed: int, talk: bool) -> None:
    """Scenarios on a bed of real nodes whose agents stay; needs root."""
    import isolate_bed

    right = {kind: [0, 0] for kind in kinds}
    rounds: dict[str, list[int]] = {kind: [] for kind in kinds}
    off, wrong, began = list[float](), 0, time.monotonic()
    spec = Spec(nodes=nodes, leaves=nodes // 4, node_mbps=100.0, uplink_mbps=400.0)
    with Bed(spec) as bed, tempfile.TemporaryDirectory() as home, isolate_bed.transfers(bed, Path(home), time_s) as conductor:
        where = isolate_bed.where(bed)
        for number in range(seed, seed + scenarios):
            kind, random = kinds[number % len(kinds)], np.random.default_rng([number, nodes])
            faults = isolate_bed.planted(bed, kind, random)
            for fault in faults:
                bed.fault(fault.kind, *fault.values)
            answer, _ = isolating.Isolating(where, conductor.transfer, random).run()
            bed.heal()
            names = {" ".join([each.part.kind, *each.part.members]): each for each in answer.culprits}
            truth = {fault.name: fault.loss for fault in faults}
            good = set(names) == set(truth)
            right[kind][0], right[kind][1] = right[kind][0] + good, right[kind][1] + 1
            rounds[kind].append(answer.screening + answer.confirming)
            wrong += len(set(names) - set(truth))
            off += [abs(names[name].loss - loss) for name, loss in truth.items() if name in names]
            if talk or not good:
                planted = ", ".join(f"{name} {loss:.0%}" for name, loss in truth.items()) or "nothing"
                named_ = ", ".join(f"{name} {each.loss:.0%}" for name, each in names.items()) or "nothing"
                print(f"  {number}: {planted} planted; {named_} named; {rounds[kind][-1]} rounds; noise {answer.noise:.1%}", flush=True)
    print(f"bed of {nodes} nodes, {scenarios} scenarios, transfers of {time_s:g} s, {time.monotonic() - began:.0f} s of wall")
    for kind, (good, count) in right.items():
        if count:
            print(f"  {kind:<8} right {good} of {count}; {min(rounds[kind])} to {max(rounds[kind])} rounds")
    all_right, total = (sum(row[place] for row in right.values()) for place in (0, 1))
    verdict = "reached" if all_right >= 0.95 * total else "missed"
    loss = f"loss within {max(off):.1%} of the shaper's, within 5 points in {np.mean(np.array(off) <= 0.05):.0%}" if off else "no loss"
    print(f"  all      right {all_right / total:.1%} (asked 95 %: {verdict}); {wrong} wrong names; {loss}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", default="1024,4096")
    parser.add_argument("--uplinks", default="0,1,2")
    parser.add_argument("--fleets", type=int, default=200)
    parser.add_argument("--leaf", type=int, default=32)
    parser.add_argument("--clean", type=int, default=0, help="fleets without a fault, instead")
    parser.add_argument("--tournament", type=int, default=0, metavar="N", help="simulated fleets of N nodes in leaves of 4, instead")
    parser.add_argument("--noise", type=float, default=0.005, help="of --tournament")
    parser.add_argument("--bed", type=int, default=0, metavar="N", help="scenarios on a bed of N nodes, instead")
    parser.add_argument("--scenarios", type=int, default=21)
    parser.add_argument("--kinds", default="send,receive,node,uplink,link,two,none")
    parser.add_argument("--time", type=float, default=1.0, help="seconds of a transfer")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--talk", action="store_true", help="a line for each scenario")
    asked = parser.parse_args()
    if asked.bed:
        on_bed(asked.bed, asked.scenarios, asked.kinds.split(","), asked.time, asked.seed, asked.talk)
        return
    if asked.tournament:
        single = [kind for kind in asked.kinds.split(",") if kind != "two"]
        tournament(asked.tournament, 4, single, asked.fleets, asked.noise)
        return
    for count in map(int, asked.nodes.split(",")):
        if asked.clean:
            cell(count, 0, asked.clean, asked.leaf, 0.0)
            continue
        for uplinks in map(int, asked.uplinks.split(",")):
            cell(count, uplinks, asked.fleets, asked.leaf, 0.02)


if __name__ == "__main__":
    main()

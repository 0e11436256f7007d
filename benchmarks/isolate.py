"""Which part of a fabric is slow: seeded faults, how often exactly they were named, in how many rounds, and two other ways beside it.

    python benchmarks/isolate.py [--nodes 1024,4096] [--fleets 200] [--uplinks 0,1,2] [--leaf 32] [--jobs 2]      simulated
    python benchmarks/isolate.py --clean 200 [--nodes 1024,4096]                                        fleets without a fault
    python benchmarks/isolate.py --tournament 16 [--fleets 200]        fabrics small enough for every pair, with a fault of each kind
    python benchmarks/isolate.py --topology 16 [--fleets 48]           whether a topology that is wrong is said, and one that fits is not
    python benchmarks/isolate.py --bed 16 [--from 0] [--to 21] [--kinds send,none] [--talk]             real nodes; needs root

`--out FILE` keeps each fleet or scenario as it ends; the same command goes on, and prints the summary of all that the file has.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import isolate_rivals as rivals
import numpy as np
from isolate_rows import Row, Rows, mapped
from tests.netbed.bed import Bed
from tests.netbed.spec import Spec

from hotlap.bringup import fabrics, isolating, naming
from hotlap.bringup.record import FabricLayout, Isolation, SlowPart, layout
from hotlap.bringup.show import UNEXPLAINED

SCREENING = {1024: 4, 4096: 6}
KINDS = ("node", "send", "receive")


class BedShape(NamedTuple):
    """Of transfers on a bed: their time and the time before all begin at once, s; Mbit/s of a node's link."""

    time_s: float
    lead_s: float
    mbps: float

    def __str__(self) -> str:
        return f"transfers of {self.time_s:g} s at {self.mbps:g} Mbit/s"


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


def fleet(ask: Mapping[str, Any]) -> Row:
    """One fleet, isolated and by both other ways."""
    count, uplinks, leaf, share, seed = (ask[name] for name in ("nodes", "uplinks", "leaf", "share", "seed"))
    where = layout([f"n{number}" for number in range(count)], np.arange(count) // leaf)
    fabric = faulty(where, uplinks, seed, share)
    truth = {where.names[factor.first] for factor in fabric.faults if factor.kind in KINDS}
    parts = {f"uplink {factor.first}" for factor in fabric.faults if factor.kind == "uplink"}
    by_name = {
        (each.kind, str(each.first) if each.kind == "uplink" else where.names[each.first]): loss for each, loss in fabric.faults.items()
    }
    started = time.process_time()
    answer, _ = isolating.Isolating(where, fabric.transfer, np.random.default_rng(seed), screen=SCREENING.get(count, 0)).run()
    spent_s = time.process_time() - started
    nodes, rest = named(answer, where)
    others = {}
    for name, way in (("group testing", rivals.group_testing), ("grown ring", rivals.grown_ring)):
        spent = way(fabric, np.random.default_rng(seed))
        bad = {int(node[1:]) for node in truth}
        others[name] = [spent.tests, spent.rounds, len(spent.named - bad), len(bad - spent.named), spent.named == bad]
    return {
        **ask, "exact": nodes == truth and rest == parts, "wrong": len(nodes - truth) + len(rest - parts),
        "missed": len(truth - nodes) + len(parts - rest), "losses": len(answer.culprits), "open": len(answer.open),
        "kinds": sum((each.part.kind, each.part.members[0]) in by_name for each in answer.culprits),
        "inside": sum(each.low <= by_name.get((each.part.kind, each.part.members[0]), -1) <= each.high for each in answer.culprits),
        "misfit": any(each.code == "sharing" and each.loss for each in answer.open),
        "rounds": answer.screening + answer.confirming, "spent_s": spent_s, "all_s": time.process_time() - started, "others": others,
    }  # fmt: skip


def cell(rows: Sequence[Row]) -> None:
    """What the fleets of one size and number of bad uplinks gave."""
    count, uplinks, leaf, share = (rows[0][name] for name in ("nodes", "uplinks", "leaf", "share"))
    fleets, names = len(rows), ("exact", "wrong", "missed", "losses", "kinds", "inside", "open")
    total = {name: sum(row[name] for row in rows) for name in names}
    goal, exact, rounds = 0.97 if not uplinks else 0.93, total["exact"], [row["rounds"] for row in rows]
    verdict = "" if not share else f" (asked {goal:.0%}: {'reached' if exact >= goal * fleets else 'missed'})"
    print(f"{count} nodes, leaves of {leaf}, {round(share * count)} bad nodes, {uplinks} bad uplinks, {fleets} fleets")
    wrong = f"wrong names {total['wrong']}, missed {total['missed']}; {min(rounds)} to {max(rounds)} rounds"
    print(f"  exact set {exact / fleets:.1%}{verdict}; {wrong}; a topology that fits is doubted in {sum(row['misfit'] for row in rows)}")
    if losses := total["losses"]:
        more = f"{sum(row['spent_s'] for row in rows) / fleets:.2f} CPU s a fleet; {total['open'] / fleets:.1f} kinds of open points"
        print(f"  right kind {total['kinds'] / losses:.1%}; loss in its 95 % interval {total['inside'] / losses:.1%}; {more}")
    for name in rows[0]["others"]:
        tests, steps, extra, fewer, right = (float(np.mean(column)) for column in zip(*(row["others"][name] for row in rows), strict=True))
        counts = f"{tests:.0f} tests, {steps:.0f} rounds, {extra:.1f} wrong names, {fewer:.1f} missed"
        print(f"  {name:<14} exact {right:6.1%}; a fleet: {counts}")
    print(f"  {sum(row['all_s'] for row in rows):.0f} CPU s in all", flush=True)


def cells(counts: Sequence[int], uplinks: Sequence[int], fleets: int, of: Mapping[str, float], kept: Rows, jobs: int) -> None:
    """`of`: nodes to a leaf, and the share that is bad."""
    for count in counts:
        for bad in uplinks:
            ask = {"nodes": count, "uplinks": bad, **of}
            wanted = [{**ask, "seed": seed} for seed in range(fleets) if not kept.has(**ask, seed=seed)]
            for row in mapped(fleet, wanted, jobs):
                kept.add(row)
            cell([row for row in kept.of(**ask) if row["seed"] < fleets])


def misfits(count: int, leaf: int, fleets: int) -> None:
    """One uplink that loses 10 to 60 %: by a topology in a random order, by one with two nodes exchanged, and by the right one."""
    right = layout([f"n{number:02}" for number in range(count)], np.arange(count) // leaf)
    for name in ("random order", "two exchanged", "right"):
        tally = {"fits not": 0, "alike": 0, "loss doubted": 0, "named alone": 0, "nothing": 0, "nothing is slow": 0}
        for seed in range(fleets):
            random = np.random.default_rng([seed, count])
            order = random.permutation(count) if name == "random order" else np.arange(count)
            if name == "two exchanged":
                order[[0, count - 1]] = order[[count - 1, 0]]
            given = right if name == "right" else layout(right.names, right.leaf[order])
            bad = 0 if name == "two exchanged" else int(random.integers(count // leaf))
            faults = {SlowPart("uplink", bad): float(random.uniform(0.1, 0.6))}
            fabric = fabrics.Fabric(right, faults, seed=seed, unfair=0.15, disturbed=0.0)
            answer, model = isolating.Isolating(given, fabric.transfer, random).run()
            codes = {each.code for each in answer.open}
            slow = bool((model.off < -4 * model.noise.sigma).mean() > 0.005)
            heard = next((key for key, code in (("fits not", "sharing"), ("alike", "alike")) if code in codes), "")
            doubted = "loss doubted" if answer.disturbed >= UNEXPLAINED else "named alone"
            tally[heard or (doubted if answer.culprits else "nothing" if slow else "nothing is slow")] += 1
        counts = ", ".join(f"{key} {each}" for key, each in tally.items())
        print(f"{count} nodes, leaves of {leaf}, topology: {name}; {fleets} fleets: {counts}", flush=True)


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


def on_bed(nodes: int, numbers: Sequence[int], kinds: list[str], shape: BedShape, kept: Rows, talk: bool) -> None:
    """Scenarios on a bed of real nodes that stands, as its agents do, over all of them: only the shaping changes. Needs root."""
    import isolate_bed

    spec = Spec(nodes=nodes, leaves=nodes // 4, node_mbps=shape.mbps, uplink_mbps=4 * shape.mbps)
    wanted = [number for number in numbers if not kept.has(nodes=nodes, number=number)]
    if wanted:
        with Bed(spec) as bed, tempfile.TemporaryDirectory() as home, isolate_bed.transfers(bed, Path(home), shape.time_s) as conductor:
            conductor.lead_s = shape.lead_s
            for number in wanted:
                row = isolate_bed.scenario(bed, conductor, number, kinds[number % len(kinds)])
                kept.add(row)
                if talk or not row["right"]:
                    planted, found_ = (", ".join(f"{name} {loss:.0%}" for name, loss in row[key].items()) for key in ("planted", "named"))
                    spent = f"{row['shaping_s']:.1f} s of shaping, {row['wall_s']:.0f} s in all"
                    print(
                        f"  {number}: {planted or 'nothing'} planted; {found_ or 'nothing'} named; {row['rounds']} rounds; "
                        f"noise {row['noise']:.1%}; {spent}", flush=True,
                    )  # fmt: skip
    summary([row for row in kept.of(nodes=nodes) if row["number"] in set(numbers)], shape)


def summary(rows: Sequence[Row], shape: BedShape) -> None:
    """Of scenarios on a bed."""
    wall_s, cpu_s = (sum(row[name] for row in rows) for name in ("wall_s", "cpu_s"))
    busy = f"{cpu_s / wall_s:.2f} processors busy, by all that ran"
    print(f"bed of {rows[0]['nodes']} nodes, {len(rows)} scenarios, {shape}, {wall_s:.0f} s of wall, {busy}")
    for kind in dict.fromkeys(row["kind"] for row in rows):
        own = [row for row in rows if row["kind"] == kind]
        rounds = [row["rounds"] for row in own]
        print(f"  {kind:<8} right {sum(row['right'] for row in own)} of {len(own)}; {min(rounds)} to {max(rounds)} rounds")
    off = [abs(row["named"][name] - loss) for row in rows for name, loss in row["planted"].items() if name in row["named"]]
    wrong, good = sum(len(set(row["named"]) - set(row["planted"])) for row in rows), sum(row["right"] for row in rows)
    verdict = "reached" if good >= 0.95 * len(rows) else "missed"
    loss = f"loss within {max(off):.1%} of the shaper's, within 5 points in {np.mean(np.array(off) <= 0.05):.0%}" if off else "no loss"
    print(f"  all      right {good / len(rows):.1%} (asked 95 %: {verdict}); {wrong} wrong names; {loss}")


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
    parser.add_argument("--topology", type=int, default=0, metavar="N", help="fleets of N nodes with a topology that is wrong, instead")
    parser.add_argument("--from", type=int, default=0, dest="begin", metavar="K", help="first scenario of --bed")
    parser.add_argument("--to", type=int, default=21, metavar="M", help="scenario after the last of --bed")
    parser.add_argument("--out", default="", metavar="FILE", help="rows as JSON lines; those that it has are not run again")
    parser.add_argument("--jobs", type=int, default=1, help="processes, of simulated fleets")
    parser.add_argument("--kinds", default="send,receive,node,uplink,link,two,none")
    parser.add_argument("--time", type=float, default=0.3, help="seconds of a transfer; its first quarter takes the shaper's bucket")
    parser.add_argument("--lead", type=float, default=0.3, help="seconds from an order until all transfers begin")
    parser.add_argument("--mbps", type=float, default=50.0, help="of a node's link on the bed")
    parser.add_argument("--talk", action="store_true", help="a line for each scenario")
    asked = parser.parse_args()
    if asked.bed:
        kept = Rows(asked.out, ("nodes", "number"))
        shape = BedShape(asked.time, asked.lead, asked.mbps)
        on_bed(asked.bed, range(asked.begin, asked.to), asked.kinds.split(","), shape, kept, asked.talk)
        return
    if asked.tournament:
        single = [kind for kind in asked.kinds.split(",") if kind != "two"]
        tournament(asked.tournament, 4, single, asked.fleets, asked.noise)
        return
    if asked.topology:
        misfits(asked.topology, 4 if asked.topology <= 32 else 8, asked.fleets)
        return
    kept, counts = Rows(asked.out, ("nodes", "uplinks", "leaf", "share", "seed")), [int(count) for count in asked.nodes.split(",")]
    if asked.clean:
        cells(counts, [0], asked.clean, {"leaf": asked.leaf, "share": 0.0}, kept, asked.jobs)
        return
    cells(counts, [int(each) for each in asked.uplinks.split(",")], asked.fleets, {"leaf": asked.leaf, "share": 0.02}, kept, asked.jobs)


if __name__ == "__main__":
    main()

"""Acceptance of nodes with planted faults: causes that were named, healthy nodes that were not accepted, and ledgers after a kill.

    python benchmarks/accept.py [--seeds 50] [--nodes 256] [--stops 100]      simulated: 12 faults in three products
    python benchmarks/accept.py --bed 16                                       real nodes; needs root
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from hotlap.bringup import accept_driver, accept_folder, accept_plan, accept_simulate
from hotlap.bringup.accept_folder import AcceptFolder
from hotlap.bringup.accept_record import MEASURED, AcceptEvent, StepTaken

CAUSES = {  # planted → named, and the state in which it ends
    "gpu-missing": ("gpu-missing", "quarantined"), "gpu-count": ("gpu-count", "quarantined"), "rail": ("rail", "quarantined"),
    "firmware": ("firmware", "quarantined"), "slow-link": ("slow-link", "quarantined"), "throttling": ("throttling", "quarantined"),
    "corruption": ("corruption", "quarantined"), "bmc": ("bmc", "quarantined"), "serial": ("serial", "quarantined"),
    "late": ("late", "accepted"), "clock": ("clock", "quarantined"), "vanished": ("vanished", "lost"),
}  # fmt: skip


def planted(nodes: int, seed: int) -> tuple[dict[str, str], str]:
    """A fault of each kind on nodes drawn by the seed, and the fleet that has them."""
    digits = len(str(nodes))
    drawn = np.random.default_rng([seed, nodes]).choice(nodes, len(CAUSES), replace=False)
    faults = {f"n{number + 1:0{digits}}": kind for number, kind in zip(drawn.tolist(), CAUSES, strict=True)}
    return faults, f"fleet?nodes={nodes}&products=3&seed={seed}" + "".join(f"&fault={kind}:{node}" for node, kind in faults.items())


def begun(home: Path, fleet: str, name: str = "") -> AcceptFolder:
    data = accept_plan.text(accept_simulate.draft(fleet)).encode()
    return accept_folder.create(home, accept_plan.parse(data, "accept.toml"), data, name, sync=False)


def driven(folder: AcceptFolder) -> None:
    with folder.held():
        accept_driver.AcceptDriver(folder, accept_simulate.fleet(folder.plan, folder.standings), folder.plan.max_out).run()


def named(events: list[AcceptEvent], node: str) -> set[str]:
    return {fault.code for event in events if event.node == node for fault in event.faults}


def fleets(nodes: int, seeds: int) -> None:
    right, states, began_s = Counter[str](), Counter[str](), time.process_time()
    out = suspected = missing = 0
    for seed in range(seeds):
        faults, fleet = planted(nodes, seed)
        with tempfile.TemporaryDirectory() as place:
            folder = begun(Path(place), fleet)
            driven(folder)
            folder.checked()
            standings, events = folder.standings(), folder.events()
        for node, kind in faults.items():
            code, state = CAUSES[kind]
            right[kind] += code in named(events, node) and standings[node].state == state
        for node, now in standings.items():
            if node not in faults:
                states[now.state] += 1
                out += now.state in ("quarantined", "rejected")
                suspected += any(event.to == "suspect" for event in events if event.node == node)
            missing += now.state == "accepted" and not all(now.evidence.get(step) for step in MEASURED)
    spent_s = (time.process_time() - began_s) / seeds
    print(f"{nodes} simulated nodes, three products, {len(CAUSES)} faults, {seeds} seeds; {spent_s:.1f} CPU s each")
    for kind in CAUSES:
        print(f"  {kind:<12} cause and state right in {right[kind]} of {seeds}")
    healthy = seeds * (nodes - len(CAUSES))
    verdict = "reached" if not out else "missed"
    print(f"  healthy nodes quarantined or rejected: {out} of {healthy} (asked 0: {verdict})")
    print(f"  suspected, and cleared by a retest: {suspected}")
    print(f"  their states: {', '.join(f'{count} {state}' for state, count in states.most_common())}")
    print(f"  nodes accepted on missing evidence: {missing}", flush=True)


def stops(nodes: int, count: int) -> None:
    """A child is killed at each of so many writes, spread over all: half a line of the ledger, or before a step's file; then it goes on."""
    _, fleet = planted(nodes, 0)
    with tempfile.TemporaryDirectory() as place:
        whole = begun(Path(place, "whole"), fleet, "same")
        driven(whole)
        writes = len(whole.events()) + len(whole.steps())
        ledger, files = content(whole)
        same, torn = 0, 0
        for number, at in enumerate(np.linspace(1, writes, count).astype(int).tolist()):
            folder = begun(Path(place, f"cut{number}"), fleet, "same")
            child = os.fork()
            if not child:
                killed_at(folder, at)
                os._exit(9)
            _, status = os.waitpid(child, 0)
            assert os.WIFSIGNALED(status), "the child was to be killed"
            torn += not (folder.path / accept_folder.LEDGER).read_bytes().endswith(b"\n")
            driven(accept_folder.load(folder.path))
            same += content(folder) == (ledger, files)
    verdict = "reached" if same == count else "missed"
    print(f"killed at {count} of {writes} writes and gone on with: the same ledger and evidence, byte for byte, in {same} ({verdict})")
    print(f"  in {torn} the kill left half a line", flush=True)


def content(folder: AcceptFolder) -> tuple[bytes, dict[str, bytes]]:
    steps = {path.name: path.read_bytes() for path in sorted((folder.path / accept_folder.STEPS).iterdir())}
    return (folder.path / accept_folder.LEDGER).read_bytes(), steps


def killed_at(folder: AcceptFolder, at: int) -> None:
    """Ends this process by SIGKILL at its `at`th write."""
    written = 0

    def due() -> bool:
        nonlocal written
        written += 1
        return written == at

    def append(event: AcceptEvent) -> None:
        if due():
            with open(folder.path / accept_folder.LEDGER, "ab") as file:
                file.write(accept_folder.line(event)[: 7 + at % 40])
            os.kill(os.getpid(), signal.SIGKILL)
        AcceptFolder.append(folder, event)

    def keep(taken: StepTaken) -> None:
        if due():
            os.kill(os.getpid(), signal.SIGKILL)
        AcceptFolder.keep(folder, taken)

    folder.append, folder.keep = append, keep  # type: ignore[method-assign]
    driven(folder)


def on_bed(nodes: int) -> None:
    import accept_bed

    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as home:
        os.environ["HOTLAP_HOME"] = home
        answer = accept_bed.accepted(nodes, Path(home))
    right = sum(row.right for row in answer.rows)
    print(f"bed of {nodes} nodes, {len(answer.rows)} faults, {time.monotonic() - began_s:.0f} s of wall")
    for row in answer.rows:
        print(f"  {row.kind:<12} {row.node}: {row.state}, {', '.join(row.codes) or 'no cause'}: {'right' if row.right else 'WRONG'}")
    print(f"  right {right} of {len(answer.rows)}; healthy nodes accepted {answer.accepted} of {answer.healthy}")
    print(f"  repaired and tried again: {', '.join(f'{node} {state}' for node, state in answer.repaired.items())}")
    print(f"  packs that verify without Hotlap: {answer.verified} of {answer.packs}; on missing evidence accepted: {answer.missing}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=256)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--stops", type=int, default=100)
    parser.add_argument("--bed", type=int, default=0, metavar="N", help="a bed of N real nodes, instead")
    asked = parser.parse_args()
    if asked.bed:
        on_bed(asked.bed)
        return
    fleets(asked.nodes, asked.seeds)
    stops(asked.nodes, asked.stops)


if __name__ == "__main__":
    main()

"""The kill matrix of campaigns: agents, bundles, disks, clocks and controllers fail at seeded places; what is then known, what is kept,
and what is left.

    python benchmarks/cluster_kills.py [--bed] [--runs 200] [--seed 1] [--each] [--kinds before,in]

A run is a campaign of two or three steps, with one fault: over three to five local members, or with --bed by ssh over the sixteen nodes of
a bed, which stands for all runs, and for `requeue` over two slurmd. Asked of each: the states right after the fault are those that are
true; after `resume` every member is measured, nothing that was measured ran again or changed, each member is counted once in each step,
and no process and no folder of an agent is left. Exit code 1 where one is not. `disk` mounts a small tmpfs in a namespace of its own and
needs root, as the bed does; without it, it is left out, and that is printed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import kill_runs_bed
from benchmarks.kill_runs import KINDS, FailingLauncher, KillRun
from hotlap.cluster import folder, session
from hotlap.cluster.record import MemberEvent


def child(path: Path, kind: str, victim: str, at: int, again: bool, shared: Path) -> None:
    """A controller, in a process of its own."""
    kept = folder.load(path)
    launcher = failing(kept, kind, victim)

    def tell(event: MemberEvent) -> None:
        if event.member == victim and event.step == at and event.to == "measured":
            if kind == "after":
                launcher.kill(shared)
            elif kind == "truncated":
                bundle = kept.attempt(at, victim, event.attempt) / folder.BUNDLE
                bundle.write_bytes(bundle.read_bytes()[:-20])

    session.measure(kept, tell, 64, again, launcher)


def failing(kept: folder.CampaignFolder, kind: str, victim: str) -> Any:
    """The campaign's launcher, whose one member fails."""
    if kept.campaign.launcher == "local":
        return FailingLauncher(len(kept.members()), sys.executable, kind=kind, victim=victim)
    return kill_runs_bed.failing(kept, kind, victim)


def main() -> int:
    """Prints a line for each kind, and each that was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    parser.add_argument("--each", action="store_true", help="each kind once, in place of --runs")
    parser.add_argument("--bed", action="store_true", help="over nodes of a bed, by ssh and Slurm")
    parser.add_argument("--kinds", default="", help=f"of {','.join((*KINDS, 'link', 'requeue'))}; the last two with --bed")
    for hidden in ("--child", "--kind", "--victim", "--shared"):
        parser.add_argument(hidden, default="", help=argparse.SUPPRESS)
    parser.add_argument("--at", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--again", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(Path(args.child), args.kind, args.victim, args.at, args.again, Path(args.shared))
        return 0
    if args.bed:
        with kill_runs_bed.standing(kinds=args.kinds) as bed:
            print(*(f"left out  {why}" for why in bed.lacks), sep="\n", end="\n" if bed.lacks else "", flush=True)
            kinds = chosen(args.kinds, bed.kinds)
            return matrix(kinds, len(kinds) if args.each else args.runs, args.seed, bed.run)
    kinds = chosen(args.kinds, KINDS)
    if "disk" in kinds and os.getuid():
        kinds.remove("disk")
        print("disk        left out: it needs root", flush=True)
    return matrix(kinds, len(kinds) if args.each else args.runs, args.seed, KillRun)


def chosen(text: str, kinds: Sequence[str]) -> list[str]:
    """Of those that there are."""
    return [kind for kind in text.split(",") if kind in kinds] if text else list(kinds)


def matrix(kinds: list[str], runs: int, seed: int, make: Callable[[str, int, Path], KillRun]) -> int:
    """Kinds in turns."""
    if not kinds:
        print("nothing can be run here")
        return 1
    right, took, began_s = Counter[str](), Counter[str](), time.monotonic()
    for number in range(runs):
        kind, start_s = kinds[number % len(kinds)], time.monotonic()
        with tempfile.TemporaryDirectory(prefix="hotlap-kills-") as home:
            run = make(kind, seed + number, Path(home))
            try:
                run.run()
            except (OSError, subprocess.SubprocessError) as error:
                run.wrong.append(f"it could not be asked: {error}")
            run.clean()
        right[kind] += not run.wrong
        took[kind] += time.monotonic() - start_s  # type: ignore[assignment]
        for wrong in run.wrong:
            print(f"WRONG  {kind}, seed {run.seed}: {wrong}", flush=True)
    for place, kind in enumerate(kinds):
        count = len(range(place, runs, len(kinds)))
        if count:
            print(f"{kind:11} {right[kind]} of {count} right, {took[kind] / count:.1f} s each")
    print(f"{sum(right.values())} of {runs} runs right, {time.monotonic() - began_s:.0f} s (asked: all, in ≤ 40 min for 200)")
    return 0 if sum(right.values()) == runs else 1


if __name__ == "__main__":
    sys.exit(main())

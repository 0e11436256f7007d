"""The kill matrix of campaigns: agents, bundles, disks, clocks and controllers fail at seeded places; what is then known, what is kept,
and what is left.

    python benchmarks/cluster_kills.py [--runs 200] [--seed 1] [--each] [--kinds before,in]

A run is a campaign of three to five local members and two or three steps, with one fault. Asked of each: the states right after the fault
are those that are true; after `resume` every member is measured, nothing that was measured ran again or changed, each member is counted
once in each step, and no process and no folder of an agent is left. Exit code 1 where one is not. `disk` mounts a small tmpfs in a
namespace of its own and needs root; without it, it is left out, and that is printed. Links and Slurm are not here.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import hotlap
from hotlap.cluster import agent, folder, session
from hotlap.cluster.launch.base import popen
from hotlap.cluster.launch.local import LocalLauncher
from hotlap.cluster.record import Campaign, Member, MemberEvent, StepRecord
from hotlap.core.store import bundle as bundles

KINDS = ("before", "in", "after", "stopped", "truncated", "disk", "clock", "controller", "interrupt", "two")
WAIT_S = 60.0
AHEAD_S = 3600.0
SCRIPT = """echo {member} %(step)d >> %(home)s/ran
fault=%(home)s/fault-{member}-%(step)d
test -e $fault || exit 0
read what < $fault
rm $fault
case $what in
in) kill -9 $PPID; sleep 60;;
stopped) kill -STOP $PPID; sleep 60;;
disk) mkdir -p $HOTLAP_HOME/runs/r; head -c 3000000 /dev/urandom > $HOTLAP_HOME/runs/r/big;;
held) while ! test -e %(home)s/go; do sleep 0.02; done;;
esac
"""
SMALL = 'mount -t tmpfs -o size=4m small "$TMPDIR" && exec "$@"'
AHEAD = f"import time\nreal=time.time\ntime.time=lambda:real()+{AHEAD_S}\n"


@dataclass(frozen=True)
class FailingLauncher(LocalLauncher):
    """One of its members, `victim`, fails as `kind` says; the rest of it the steps do themselves."""

    kind: str = ""
    victim: str = ""
    started: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, member: Member) -> subprocess.Popen[bytes]:
        words = [self.python, "-I", "-S", "-c", agent.BOOTSTRAP]
        if member.name == self.victim and self.kind == "clock":
            words[-1] = AHEAD + agent.BOOTSTRAP
        if member.name == self.victim and self.kind == "disk":
            words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", SMALL, "sh", *words]
        process = self.started[member.name] = popen(words)
        if member.name == self.victim and self.kind == "before":
            process.kill()
        return process


@dataclass
class KillRun:
    """One of the matrix: what is drawn, and what was found wrong."""

    kind: str
    seed: int
    home: Path
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        draw = random.Random(f"{self.kind} {self.seed}")
        self.draw, self.count, self.steps = draw, draw.randint(3, 5), draw.randint(2, 3)
        self.victim, self.at = f"slot{draw.randrange(self.count):02}", draw.randint(1, self.steps - (self.kind == "after"))
        scripts = [SCRIPT % {"step": number, "home": self.home} for number in range(1, self.steps + 1)]
        named, began = folder.new_id()
        campaign = Campaign(
            id=named, hotlap=hotlap.__version__, began=began, launcher="local", options={"count": self.count}, python=sys.executable,
            silent_s=3.0 if self.kind == "stopped" else 30.0, beat_s=0.5,
            steps=[
                StepRecord(number=number, name=f"step{number}", gather="command", argv=["sh", "-c", script], label="sh")
                for number, script in enumerate(scripts, 1)
            ],
        )  # fmt: skip
        self.kept = folder.create(self.home, campaign, LocalLauncher(self.count, sys.executable).members(), {}, "local")
        (self.home / "tmp").mkdir()
        in_step = {"in": "in", "stopped": "stopped", "disk": "disk", "controller": "held", "interrupt": "held", "two": "held"}
        if self.kind in in_step:
            (self.home / f"fault-{self.victim}-{self.at}").write_text(in_step[self.kind] + "\n")

    # ------------------------------------------------------------ processes

    def environment(self) -> dict[str, str]:
        return {**os.environ, "HOTLAP_HOME": str(self.home), "TMPDIR": str(self.home / "tmp")}

    def child(self, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, __file__, "--child", str(self.kept.path), *words]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=self.environment())

    def cli(self, *words: str) -> int:
        command = [sys.executable, "-m", "hotlap", "cluster", *words, self.kept.path.name]
        return subprocess.run(command, capture_output=True, env=self.environment(), timeout=WAIT_S).returncode

    def ended(self, process: subprocess.Popen[bytes]) -> None:
        _, errors = process.communicate(timeout=2 * WAIT_S)
        self.ask(process.returncode == 0, f"a controller ended with {process.returncode}: {errors.decode(errors='replace')[-300:]}")

    # ------------------------------------------------------------ what is asked

    def ask(self, true: bool, wrong: str) -> None:
        if not true:
            self.wrong.append(wrong)

    def until(self, what: str, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not holds():
            if time.monotonic() > deadline:
                self.wrong.append(f"not within {WAIT_S:.0f} s: {what}")
                return
            time.sleep(0.01)

    def run(self) -> None:
        """The fault, then the campaign goes on."""
        process = self.child("--kind", self.kind, "--victim", self.victim, "--at", str(self.at))
        if self.kind in ("controller", "interrupt", "two"):
            self.controllers(process)
        else:
            self.ended(process)
            self.ask_states()
        before = {(state.step, state.member): state for state in self.kept.states(time.time()) if state.state == "measured"}
        ran = Counter((self.home / "ran").read_text().split("\n")) if (self.home / "ran").exists() else Counter[str]()
        (self.home / "go").touch()
        self.ended(self.child("--again"))
        for state in self.kept.states(time.time()):
            place = state.step, state.member
            self.ask(state.state == "measured", f"{state.member} in step {state.step} is {state.state} at the end: {state.why}")
            self.ask(self.kept.result(*place, state.attempt) is not None, f"{state.member} in step {state.step} has no whole bundle")
            if place in before:
                self.ask(state == before[place], f"the result of {state.member} in step {state.step} changed")
        again = Counter((self.home / "ran").read_text().split("\n")) - ran
        twice = [f"{member} {step}" for step, member in before if again[f"{member} {step}"]]
        self.ask(not twice, f"what was measured ran again: {twice}")
        counted = Counter((each.device, each.case) for each in bundles.load(self.kept.path).samples)
        self.ask(len(counted) == self.count * self.steps and set(counted.values()) == {1}, f"counted: {sorted(counted.values())}")
        self.until("no process is left", lambda: not agent.marked(self.kept.campaign.id)[0])
        self.until("no folder is left", lambda: not list((self.home / "tmp").iterdir()))

    def ask_states(self) -> None:
        """Right after the fault, before anything goes on."""
        for state in self.kept.states(time.time()):
            wanted, why = self.true_state(state.step) if state.member == self.victim else ("measured", "")
            is_true = state.state == wanted and why in state.why
            self.ask(is_true, f"{state.member} in step {state.step} is {state.state} ({state.why}), not {wanted} ({why})")
        if self.kind == "clock":
            off = {member.name: float(member.facts["clock_off_s"]) for member in self.kept.members()}
            far = {name for name, off_s in off.items() if abs(off_s) > AHEAD_S / 2}
            self.ask(far == {self.victim}, f"clocks that are off: {off}")

    def true_state(self, step: int) -> tuple[str, str]:
        """The victim's, and a part of its reason."""
        reached = {"before": "never started", "in": "died", "stopped": "silent", "truncated": "truncated", "disk": "died"}
        whys = {"before": "", "in": "killed by signal 9", "stopped": "no beat", "truncated": "digest", "disk": "No space left"}
        if self.kind == "before" or (step > self.at and self.kind in ("in", "stopped", "after")):
            return "never started", ""
        return (reached[self.kind], whys[self.kind]) if step == self.at and self.kind in reached else ("measured", "")

    def controllers(self, process: subprocess.Popen[bytes]) -> None:
        """One is killed or interrupted after so many events, or stays and refuses others."""
        most = 2 * self.count * (self.at - 1) + 2 * self.count - 1
        least = self.draw.randint(1, most) if self.kind != "two" else most
        self.until(f"{least} events", lambda: len(self.kept.events()) >= least or process.poll() is not None)
        if self.kind == "controller":
            process.send_signal(signal.SIGKILL)
            process.communicate()
            return
        if self.kind == "interrupt":
            process.send_signal(signal.SIGINT)
            self.ended(process)
            left = {state.state for state in self.kept.states(time.time())} - {"measured", "died", "never started"}
            self.ask(not left, f"after Ctrl-C members are {sorted(left)}")
            self.until("no process is left after Ctrl-C", lambda: not agent.marked(self.kept.campaign.id)[0])
            return
        codes = {self.cli("resume"), self.cli("collect")}
        self.ask(codes == {3}, f"while the campaign is controlled, two others ended with {sorted(codes)}, not 3")
        self.ask(self.cli("status") == 0, "status of a campaign that is controlled did not end with 0")
        (self.home / "go").touch()
        self.ended(process)


def child(path: Path, kind: str, victim: str, at: int, again: bool) -> None:
    """A controller, in a process of its own."""
    kept = folder.load(path)
    launcher = FailingLauncher(len(kept.members()), sys.executable, kind=kind, victim=victim)

    def tell(event: MemberEvent) -> None:
        if event.member == victim and event.step == at and event.to == "measured":
            if kind == "after":
                launcher.started[victim].kill()
            elif kind == "truncated":
                bundle = kept.attempt(at, victim, event.attempt) / folder.BUNDLE
                bundle.write_bytes(bundle.read_bytes()[:-20])

    session.measure(kept, tell, 64, again, launcher)


def main() -> int:
    """Prints a line for each kind, and each that was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    parser.add_argument("--each", action="store_true", help="each kind once, in place of --runs")
    parser.add_argument("--kinds", default=",".join(KINDS))
    for hidden in ("--child", "--kind", "--victim"):
        parser.add_argument(hidden, default="", help=argparse.SUPPRESS)
    parser.add_argument("--at", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--again", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(Path(args.child), args.kind, args.victim, args.at, args.again)
        return 0
    kinds = [kind for kind in args.kinds.split(",") if kind in KINDS]
    if "disk" in kinds and os.getuid():
        kinds.remove("disk")
        print("disk        left out: it needs root", flush=True)
    return matrix(kinds, len(kinds) if args.each else args.runs, args.seed)


def matrix(kinds: list[str], runs: int, seed: int) -> int:
    """Kinds in turns."""
    right, took, began_s = Counter[str](), Counter[str](), time.monotonic()
    for number in range(runs):
        kind, start_s = kinds[number % len(kinds)], time.monotonic()
        with tempfile.TemporaryDirectory(prefix="hotlap-kills-") as home:
            run = KillRun(kind, seed + number, Path(home))
            run.run()
            agent.sweep(run.kept.campaign.id, 0.2)
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

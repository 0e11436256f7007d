"""A run of the kill matrix (`cluster_kills.py`): what is drawn from its seed, what is asked of it, and its local members."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import hotlap
from hotlap.cluster import agent, folder
from hotlap.cluster.launch.base import popen
from hotlap.cluster.launch.local import LocalLauncher
from hotlap.cluster.record import Campaign, Member, StepRecord
from hotlap.core.store import bundle as bundles

COMMAND = Path(__file__).with_name("cluster_kills.py")
KINDS = ("before", "in", "after", "stopped", "truncated", "disk", "clock", "controller", "interrupt", "two")
ONCE = ("controller", "link")  # after these no program runs twice
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


@dataclass(frozen=True)
class FailingLauncher(LocalLauncher):
    """One of its members, `victim`, fails as `kind` says; the rest of it the steps do themselves."""

    kind: str = ""
    victim: str = ""
    started: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, member: Member) -> subprocess.Popen[bytes]:
        words = [self.python, "-I", "-S", "-c", agent.BOOTSTRAP]
        clock = {agent.CLOCK: str(AHEAD_S)} if member.name == self.victim and self.kind == "clock" else {}
        if member.name == self.victim and self.kind == "disk":
            words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", SMALL, "sh", *words]
        process = self.started[member.name] = popen(words, {**os.environ, **clock})
        if member.name == self.victim and self.kind == "before":
            process.kill()
        return process

    def kill(self, _shared: Path) -> None:
        self.started[self.victim].kill()


@dataclass
class KillRun:
    """One of the matrix: what is drawn, and what was found wrong."""

    kind: str
    seed: int
    home: Path
    most: int = 5  # members; three is the least, where it is not sixteen
    launcher: str = "local"
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.draw = draw = random.Random(f"{self.kind} {self.seed}")
        members, options, self.shared = self.members(), self.options(), self.place()
        self.count, self.steps = len(members), draw.randint(2, 3)
        self.victim, self.at = draw.choice(members).name, draw.randint(1, self.steps - (self.kind == "after"))
        scripts = [self.SCRIPT % {"step": number, "home": self.shared} for number in range(1, self.steps + 1)]
        named, began = folder.new_id()
        campaign = Campaign(
            id=named, hotlap=hotlap.__version__, began=began, launcher=self.launcher, options=options, python=sys.executable,
            silent_s=3.0 if self.kind in ("stopped", "link") else 30.0, beat_s=0.5,
            steps=[
                StepRecord(number=number, name=f"step{number}", gather="command", argv=["sh", "-c", script], label="sh")
                for number, script in enumerate(scripts, 1)
            ],
        )  # fmt: skip
        self.kept = folder.create(self.home, campaign, members, {}, self.launcher)
        (self.home / "tmp").mkdir()
        in_step = self.kind if self.kind in ("in", "stopped", "disk") else "held"
        if self.kind not in ("before", "after", "truncated", "clock"):
            (self.shared / f"fault-{self.victim}-{self.at}").write_text(in_step + "\n")

    # ------------------------------------------------------------ where it runs: here, on this machine

    SCRIPT: ClassVar[str] = SCRIPT
    KILLED: ClassVar[str] = "killed by signal 9"  # as it is known of an agent

    def members(self) -> list[Member]:
        self.count = self.draw.randint(3, self.most)
        return LocalLauncher(self.count, sys.executable).members()

    def options(self) -> dict[str, object]:
        return {"count": self.count}

    def place(self) -> Path:
        """Seen by every member and by this process: what ran is written there, and faults are read."""
        return self.home

    def popen(self, command: list[str]) -> subprocess.Popen[bytes]:
        """A program where the controller is."""
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ, **self.environment()})

    def signal(self, process: subprocess.Popen[bytes], number: int) -> None:
        process.send_signal(number)

    def left(self) -> list[str]:
        """Processes and folders of the campaign."""
        return [f"process {pid}" for pid in agent.marked(self.kept.campaign.id)[0]] + [str(path) for path in (self.home / "tmp").iterdir()]

    # ------------------------------------------------------------ processes

    def environment(self) -> dict[str, str]:
        return {"HOTLAP_HOME": str(self.home), "TMPDIR": str(self.home / "tmp")}

    def child(self, *words: str) -> subprocess.Popen[bytes]:
        return self.popen([sys.executable, str(COMMAND), "--child", str(self.kept.path), *words])

    def cli(self, *words: str) -> int:
        process = self.popen([sys.executable, "-m", "hotlap", "cluster", *words, self.kept.path.name])
        process.communicate(timeout=WAIT_S)
        return process.returncode

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
        process = self.child("--kind", self.kind, "--victim", self.victim, "--at", str(self.at), "--shared", str(self.shared))
        self.hurt()
        if self.kind in ("controller", "interrupt", "two"):
            self.controllers(process)
        else:
            self.ended(process)
            self.ask_states()
        self.heal()
        before = {(state.step, state.member): state for state in self.kept.states(time.time()) if state.state == "measured"}
        ran = self.ran()
        (self.shared / "go").touch()
        self.ended(self.child("--again"))
        for state in self.kept.states(time.time()):
            place = state.step, state.member
            self.ask(state.state == "measured", f"{state.member} in step {state.step} is {state.state} at the end: {state.why}")
            self.ask(self.kept.result(*place, state.attempt) is not None, f"{state.member} in step {state.step} has no whole bundle")
            if place in before:
                self.ask(state == before[place], f"the result of {state.member} in step {state.step} changed")
        again = self.ran() - ran
        twice = [f"{member} {step}" for step, member in before if again[f"{member} {step}"]]
        self.ask(not twice, f"what was measured ran again: {twice}")
        if self.kind in ONCE:
            twice = sorted(place for place in again if place in ran)
            self.ask(not twice, f"what had gone on without a controller ran again: {twice}")
        counted = Counter((each.device, each.case) for each in bundles.load(self.kept.path).samples)
        self.ask(len(counted) == self.count * self.steps and set(counted.values()) == {1}, f"counted: {sorted(counted.values())}")
        if self.kind == "controller":  # a result that was here, and of which its member did not hear
            self.ask(self.cli("stop") == 0, "stop after the end did not end with 0")
        self.until("nothing is left", lambda: not self.left())

    def clean(self) -> None:
        """Leaves nothing to the next, whatever went wrong."""
        agent.sweep(self.kept.campaign.id, 0.2)

    def hurt(self) -> None:
        """What the members' scripts, the launcher and the child do not do themselves."""

    def heal(self) -> None:
        """Undoes it."""

    def ran(self) -> Counter[str]:
        """`MEMBER STEP` of all that ran so far."""
        return Counter((self.shared / "ran").read_text().split("\n")) if (self.shared / "ran").exists() else Counter[str]()

    def ask_states(self) -> None:
        """Right after the fault, before anything goes on."""
        for state in self.kept.states(time.time()):
            wanted, why = self.true_state(state.step) if state.member == self.victim else self.true_other(state.step)
            is_true = state.state == wanted and why in state.why
            self.ask(is_true, f"{state.member} in step {state.step} is {state.state} ({state.why}), not {wanted} ({why})")
        if self.kind == "clock":
            off = {member.name: float(member.facts["clock_off_s"]) for member in self.kept.members()}
            far = {name for name, off_s in off.items() if abs(off_s) > AHEAD_S / 2}
            self.ask(far == {self.victim}, f"clocks that are off: {off}")

    def true_other(self, step: int) -> tuple[str, str]:
        """Of a member without the fault."""
        return "measured", ""

    def true_state(self, step: int) -> tuple[str, str]:
        """The victim's, and a part of its reason."""
        reached = {"before": "never started", "in": "died", "stopped": "silent", "truncated": "truncated", "disk": "died", "link": "silent"}
        whys = {"before": "", "in": self.KILLED, "stopped": "no beat", "truncated": "digest", "disk": "No space left", "link": "no beat"}
        if self.kind == "before" or (step > self.at and self.kind in ("in", "stopped", "after", "link")):
            return "never started", ""
        return (reached[self.kind], whys[self.kind]) if step == self.at and self.kind in reached else ("measured", "")

    def controllers(self, process: subprocess.Popen[bytes]) -> None:
        """One is killed or interrupted after so many events, or stays and refuses others."""
        most = 2 * self.count * (self.at - 1) + 2 * self.count - 1
        least = self.draw.randint(1, most) if self.kind != "two" else most
        self.until(f"{least} events", lambda: len(self.kept.events()) >= least or process.poll() is not None)
        if self.kind == "controller":
            self.signal(process, signal.SIGKILL)
            process.communicate()
            return
        if self.kind == "interrupt":
            self.signal(process, signal.SIGINT)
            self.ended(process)
            left = {state.state for state in self.kept.states(time.time())} - {"measured", "died", "never started"}
            self.ask(not left, f"after Ctrl-C members are {sorted(left)}")
            self.until("nothing is left after Ctrl-C", lambda: not self.left())
            return
        codes = {self.cli("resume"), self.cli("collect")}
        self.ask(codes == {3}, f"while the campaign is controlled, two others ended with {sorted(codes)}, not 3")
        self.ask(self.cli("status") == 3, "status of a campaign that is controlled did not end with 3: its members run")
        (self.shared / "go").touch()
        self.ended(process)

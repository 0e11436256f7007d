"""Runs of the kill matrix over real nodes: by ssh over a bed of namespaces, and by Slurm over two slurmd. Both stand for many runs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from tests.cluster import slurm_bed
from tests.netbed import bed as beds
from tests.netbed.spec import CONTROLLER, Spec

from benchmarks.kill_runs import AHEAD_S, SCRIPT, KillRun
from hotlap.cluster import folder
from hotlap.cluster.launch.slurm import SlurmLauncher
from hotlap.cluster.launch.ssh import SshLauncher
from hotlap.cluster.record import Member
from hotlap.core.store import files

NODES = 16
ROOT = Path(__file__).resolve().parents[1]
SSH_KINDS = ("before", "in", "after", "stopped", "link", "truncated", "disk", "clock", "controller", "interrupt", "two")
DIES = "import os\nos.kill(os.getpid(),9)\n"
NODE_SCRIPT = SCRIPT.replace("test -e $fault", "echo $PPID > %(home)s/agent-{member}\ntest -e $fault").replace(
    "runs/r/big;;", "runs/r/big; touch %(home)s/writes; while ! test -e %(home)s/full; do sleep 0.02; done;;"
)


@dataclass(frozen=True)
class FailingSshLauncher(SshLauncher):
    """`victim` fails as `kind` says; the rest of it the steps and the bed do."""

    kind: str = ""
    victim: str = ""

    def bootstrap(self, member: Member) -> str:
        return DIES if (member.name, self.kind) == (self.victim, "before") else super().bootstrap(member)

    def kill(self, shared: Path) -> None:
        pid = (shared / f"agent-{self.victim}").read_text().strip()
        subprocess.run(["ssh", self.victim, f"kill -9 {pid}"], check=True, capture_output=True)


def failing(kept: folder.CampaignFolder, kind: str, victim: str) -> Any:
    """The campaign's launcher, with a member that fails."""
    if kept.campaign.launcher == "ssh":
        return FailingSshLauncher(str(kept.campaign.options["hosts"]), kept.campaign.python, kind=kind, victim=victim)
    options = [str(word) for word in kept.campaign.options["options"]]
    return SlurmLauncher(options, kept.campaign.python, 60.0)


@dataclass
class NodeRun(KillRun):
    """Where members see a folder that no campaign lies in."""

    seen: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="hotlap-kills-", dir="/var/tmp")))

    def place(self) -> Path:
        return self.seen

    def environment(self) -> dict[str, str]:
        return {"HOTLAP_HOME": str(self.home), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}

    def signal(self, process: subprocess.Popen[bytes], number: int) -> None:
        """To what nsenter started: it forks."""
        for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(child), number)

    def clean(self) -> None:
        super().clean()
        shutil.rmtree(self.seen, ignore_errors=True)


@dataclass
class BedRun(NodeRun):
    """By ssh, over all nodes of a bed."""

    bed: beds.Bed = field(kw_only=True)
    launcher: str = "ssh"
    SCRIPT: ClassVar[str] = NODE_SCRIPT
    KILLED: ClassVar[str] = "the way to its agent was lost"  # ssh says no signal

    def members(self) -> list[Member]:
        return SshLauncher(",".join(self.bed.spec.names)).members()

    def options(self) -> dict[str, object]:
        return {"hosts": ",".join(self.bed.spec.names), "config": ""}

    def popen(self, command: list[str]) -> subprocess.Popen[bytes]:
        argv = self.bed.argv(command, CONTROLLER, self.environment())
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def left(self) -> list[str]:
        """Of a node only sshd stays."""
        few = {name: len(self.bed.processes(name)) - (name != CONTROLLER) for name in self.bed.spec.everyone}
        return [f"{count} processes on {name}" for name, count in few.items() if count] + [str(place) for place in self.folders()]

    def folders(self) -> list[Path]:
        roots = [Path(f"/proc/{self.bed.pid(name)}/root") for name in self.bed.spec.names]
        return [path for root in roots for path in (*(root / "tmp").glob("hotlap-agent-*"), *(root / "dev/shm").glob("hotlap-agent-*"))]

    def hurt(self) -> None:
        if self.kind == "link":
            self.until("the victim runs", lambda: self.ran()[f"{self.victim} {self.at}"] > 0)
            self.bed.fault("link-down", self.victim)
        elif self.kind == "disk":
            self.until("the victim writes", (self.seen / "writes").exists)
            self.bed.fault("disk-full", self.victim)
            (self.seen / "full").touch()

    def heal(self) -> None:
        self.bed.heal()

    def run(self) -> None:
        if self.kind == "clock":
            self.bed.fault("clock", self.victim, AHEAD_S)
        super().run()

    def clean(self) -> None:
        self.bed.heal()
        if self.left():
            for name in self.bed.spec.everyone:
                for pid in self.bed.processes(name)[name != CONTROLLER :]:
                    os.kill(pid, signal.SIGKILL)
            for place in self.folders():
                shutil.rmtree(place, ignore_errors=True)
        super().clean()


@dataclass
class SlurmRun(NodeRun):
    """By Slurm, whose job is requeued in the middle."""

    bed: slurm_bed.SlurmBed = field(kw_only=True)
    launcher: str = "slurm"
    SCRIPT: ClassVar[str] = NODE_SCRIPT

    def members(self) -> list[Member]:
        for name in ("n1", "n2"):  # both nodes are this machine
            files.write_whole(_made(self.seen / name / "etc") / "machine-id", name.encode())
        return [Member(name=name, index=index, address=name) for index, name in enumerate(("n1", "n2"))]

    def options(self) -> dict[str, object]:
        return {"options": ["-N", "2", "--requeue"], "queue_s": 60.0}

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "HOTLAP_AGENT_ROOT": f"{self.seen}/{{member}}"}

    def popen(self, command: list[str]) -> subprocess.Popen[bytes]:
        environment = self.bed.environment(self.environment())
        return subprocess.Popen(self.bed.argv(command), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def jobs(self) -> list[str]:
        return self.bed.run(["squeue", "-h", "-o", "%i", "-t", "PENDING,RUNNING,CONFIGURING"]).stdout.split()

    def left(self) -> list[str]:
        return super().left() + [f"job {number}" for number in self.jobs()]

    def hurt(self) -> None:
        def others_ended() -> bool:
            ended = {state.member for state in self.kept.states(0.0) if state.step == self.at and state.state == "measured"}
            return self.ran()[f"{self.victim} {self.at}"] > 0 and len(ended) == 1

        self.until("the victim alone runs", others_ended)
        for number in self.jobs():
            self.bed.run(["scontrol", "requeue", number])

    def true_other(self, step: int) -> tuple[str, str]:
        return ("measured", "") if step <= self.at else ("never started", "")

    def true_state(self, step: int) -> tuple[str, str]:
        return ("died", "Slurm requeued job") if step == self.at else self.true_other(step)

    def clean(self) -> None:
        for number in self.jobs():
            self.bed.run(["scancel", number])
        super().clean()


def _made(place: Path) -> Path:
    place.mkdir(parents=True)
    return place


@dataclass
class Standing:
    """A bed, and Slurm's, where they can be. `lacks`: why one is not."""

    ssh: beds.Bed | None = None
    slurm: slurm_bed.SlurmBed | None = None
    lacks: list[str] = field(default_factory=list)

    @property
    def kinds(self) -> tuple[str, ...]:
        return (SSH_KINDS if self.ssh else ()) + (("requeue",) if self.slurm else ())

    def run(self, kind: str, seed: int, home: Path) -> KillRun:
        if kind == "requeue":
            assert self.slurm
            return SlurmRun(kind, seed, home, bed=self.slurm)
        assert self.ssh
        return BedRun(kind, seed, home, bed=self.ssh)


@contextmanager
def standing(nodes: int = NODES, kinds: str = "") -> Iterator[Standing]:
    """Both, or what can be of them here for these kinds ("": all)."""
    with ExitStack() as stack:
        here, wanted = Standing(), set(kinds.split(",")) if kinds else {*SSH_KINDS, "requeue"}
        why = beds.missing() or ("" if beds.sshd() else "there is no sshd: HOTLAP_SSHD=$(scripts/sshd.sh FOLDER)")
        if why:
            here.lacks.append(f"ssh: {why}")
        elif wanted - {"requeue"}:
            here.ssh = stack.enter_context(beds.Bed(Spec(nodes=nodes, leaves=max(nodes // 4, 1))))
        if why := slurm_bed.lacking():
            here.lacks.append(f"requeue: {why}")
        elif "requeue" in wanted:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sl", dir="/tmp"))
            here.slurm = stack.enter_context(slurm_bed.slurm(Path(folder)))
        yield here

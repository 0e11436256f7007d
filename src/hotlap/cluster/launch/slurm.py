"""Members by Slurm: one job holds the nodes, and on each of them `srun` starts the agent, whose pipes are srun's own.

The job's script only waits. It ends itself when no agent has run for five minutes, as after a controller that was killed, and at once when
Slurm requeues it: its agents are gone then, and `cluster resume` asks for nodes anew, as a new attempt. Slurm 20.11 or later (`--overlap`).
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from hotlap.cluster import agent, hosts
from hotlap.cluster.launch.base import AgentProcess, Everyone, last_line, popen
from hotlap.cluster.record import Member, State
from hotlap.core.errors import InputError, MachineError, Unavailable
from hotlap.core.units import show

SCRIPT = """#!/bin/sh
# Holds nodes for hotlap, whose agents are steps of this job.
[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || exit 0
idle=0
while [ $idle -lt 10 ]; do
    sleep 30
    steps=$(squeue -h -s -j "$SLURM_JOB_ID" -o %i) || continue
    case "$steps" in *.[0-9]*) idle=0 ;; *) idle=$((idle + 1)) ;; esac
done
"""
OWN = ("--parsable", "--job-name=hotlap", "--output=/dev/null", "--no-requeue", "--no-kill")  # the user's options follow, and win
SRUN = ("--overlap", "--nodes=1", "--ntasks=1", "--mpi=none", "--cpu-bind=none", "--unbuffered", "--quiet", "--chdir=/")
WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "RESV_DEL_HOLD")
LOOK_S = 1.0
CALL_S = 60.0  # for Slurm's commands to answer


@dataclass
class SlurmLauncher(Everyone):
    """`options`: of sbatch. `job`: of an allocation that is there already; "": one is asked for, and given back by `release`."""

    options: Sequence[str]
    python: str = "python3"
    queue_s: float = 3600.0
    job: str = ""
    name: str = "slurm"
    _nodes: list[str] = field(default_factory=list)
    _fate: str = ""
    _looked_s: float = -1e9

    def __post_init__(self) -> None:
        self._given = next((option.partition("=")[2] for option in self.options if option.startswith("--jobid=")), "")
        self.job = self._given or self.job

    @property
    def planned(self) -> str:
        return f"sbatch {shlex.join([*OWN, *self.options])}" if not self._given else f"the nodes of job {self._given}"

    @property
    def kept(self) -> dict[str, str]:
        return {"job": self.job} if self.job else {}

    def members(self) -> list[Member]:
        """Of the job's nodes, once it runs. Raises InputError for options that sbatch refuses, MachineError where it does not start."""
        if not self.job:
            self.job = self._submitted([])
        self._wait()
        return [Member(name=node, index=index, address=node) for index, node in enumerate(self._nodes)]

    def prepare(self, members: Sequence[Member]) -> None:
        """A job with the nodes of these members: the one that runs, else a new one."""
        names = [member.address for member in members]
        if self._nodes and set(names) <= set(self._nodes):
            return
        state, _, nodes = self._state()
        if state == "RUNNING" and set(names) <= set(nodes):
            self._nodes = nodes
            return
        if self._given:
            raise MachineError(f"job {self._given} does not run any more, or lacks a node: {state.lower()}")
        self.release()
        self.job = self._submitted([f"--nodes={len(names)}", f"--nodelist={','.join(names)}"])
        self._wait()

    def start(self, member: Member) -> AgentProcess:
        try:
            command = [self.python, "-I", "-S", "-c", agent.BOOTSTRAP]
            return popen(["srun", f"--jobid={self.job}", f"--nodelist={member.address}", *SRUN, *command])
        except OSError as error:
            raise MachineError(f"srun cannot be run: {error.strerror}") from None

    def stop(self, member: Member, process: AgentProcess, mark: str) -> None:
        """srun ends its step when it is asked to; what stays ends with the job."""
        with suppress(OSError):
            process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(3.0)
        with suppress(OSError):
            process.kill()
        process.wait()

    def failure(self, code: int, errors: str) -> tuple[State, str]:
        if code == 43:
            return "refused", last_line(errors)
        return "never started", last_line(errors) or f"srun ended with {code} before the agent said hello"

    def ending(self, errors: str) -> str:
        """A job that was requeued or cancelled, or whose time was up, rather than what srun says of it."""
        now = time.monotonic()
        if now - self._looked_s > LOOK_S:  # many members end with it
            facts = self._facts()
            state, restarts = facts.get("JobState", ""), facts.get("Restarts", "0")
            ended = f"job {self.job} is {state.lower()}" if state and state != "RUNNING" else ""
            self._fate = f"Slurm requeued job {self.job}" if restarts not in ("0", "") else ended
            self._looked_s = now
        return self._fate or last_line(errors)

    def release(self) -> None:
        """Cancels the job, and with it all that runs in it; not one that the user gave."""
        if self.job and not self._given:
            with suppress(MachineError):
                _call(["scancel", "--quiet", self.job])
            self.job, self._nodes = "", []

    # ------------------------------------------------------------ the job

    def _submitted(self, more: Sequence[str]) -> str:
        """Its number. Raises InputError saying why sbatch refused it."""
        done = _call(["sbatch", *OWN, *self.options, *more], SCRIPT)
        number = done.stdout.strip().partition(";")[0]
        if done.returncode or not number.isdecimal():
            why = last_line(done.stderr).removeprefix("sbatch: error: ").removeprefix("Batch job submission failed: ")
            raise InputError(f"--slurm '{shlex.join(self.options)}': sbatch refused it: {why or 'it gave no number of a job'}")
        return number

    def _wait(self) -> None:
        """Until it runs. Raises MachineError, and cancels it, where that takes too long."""
        deadline, told_of = time.monotonic() + self.queue_s, ""
        try:
            while True:
                state, reason, nodes = self._state()
                if state == "RUNNING" and nodes:
                    self._nodes = nodes
                    return
                if state not in ("RUNNING", *WAITING):
                    why = reason or "no reason is given"
                    raise MachineError(f"job {self.job} is {state.lower() or 'not known'} and did not start: {why}")
                if time.monotonic() > deadline:
                    waited = show(self.queue_s, "s")
                    raise MachineError(
                        f"job {self.job} did not start within {waited}: {reason}; it was cancelled", "--queue TIME waits longer",
                    )
                if reason not in (told_of, "None"):
                    told_of = reason
                    print(f"hotlap: job {self.job} waits: {reason}", file=sys.stderr)
                time.sleep(LOOK_S)
        except BaseException:
            self.release()
            raise

    def _state(self) -> tuple[str, str, list[str]]:
        """State, reason and nodes of the job, as scontrol says them."""
        facts = self._facts()
        nodes = facts.get("NodeList", "")
        # The comma: it is no file's name.
        return facts.get("JobState", ""), facts.get("Reason", ""), hosts.parse(f"{nodes},") if nodes.strip("(nul)") else []

    def _facts(self) -> dict[str, str]:
        """Of the job; none where Slurm does not know it any more."""
        done = _call(["scontrol", "show", "job", "-o", self.job]) if self.job else None
        return dict(word.partition("=")[::2] for word in done.stdout.split()) if done else {}


def _call(argv: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    """One of Slurm's commands. Raises Unavailable where there is none, MachineError where it does not answer."""
    if not shutil.which(argv[0]):
        raise Unavailable(f"there is no {argv[0]} on this machine", "run it where jobs are submitted, with Slurm's commands")
    try:
        return subprocess.run(argv, input=text, capture_output=True, text=True, timeout=CALL_S)
    except (OSError, subprocess.SubprocessError) as error:
        raise MachineError(f"{argv[0]} does not answer: {error}") from None

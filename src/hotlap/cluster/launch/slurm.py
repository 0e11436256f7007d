"""Members by Slurm: one job holds the nodes, and on each of them `srun` starts the agent, whose pipes are srun's own.

The job's script only waits. It ends itself when no agent has run for five minutes, as after a controller that was killed, and at once when
Slurm requeues it: its agents are gone then, and `cluster resume` asks for nodes anew, as a new attempt. Slurm 20.11 or later (`--overlap`).

With `--array` among the options the nodes are those of the tasks, each of which starts when there is room for it; one that does not start
in time is a member that never started, and keeps no other from running.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from hotlap.cluster import agent, hosts
from hotlap.cluster.launch.base import AgentProcess, Everyone, last_line, old_python, popen
from hotlap.cluster.record import Member, State
from hotlap.core.errors import InputError, MachineError, Unavailable
from hotlap.core.units import show

SCRIPT = """#!/bin/sh
# Holds nodes for hotlap, whose agents are steps of this job.
[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || exit 0
idle=0
while [ $idle -lt LOOKS ]; do
    sleep 30
    steps=$(squeue -h -s -j "$SLURM_JOB_ID" -o %i) || continue
    case "$steps" in *.[0-9]*) idle=0 ;; *) idle=$((idle + 1)) ;; esac
done
"""
OWN = ("--parsable", "--job-name=hotlap", "--output=/dev/null", "--no-requeue", "--no-kill")  # the user's options follow, and win
SRUN = ("--overlap", "--nodes=1", "--ntasks=1", "--mpi=none", "--cpu-bind=none", "--unbuffered", "--quiet", "--chdir=/")
WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "RESV_DEL_HOLD")
LOOK_S = 1.0
IDLE_S = 300.0  # that a job holds nodes without an agent
CALL_S = 60.0  # for Slurm's commands to answer


@dataclass(frozen=True)
class SlurmTask:
    """Of an array. `nodes`: none unless it runs."""

    number: int
    job: str
    state: str
    reason: str
    nodes: list[str]


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
    _places: dict[str, tuple[str, str]] = field(default_factory=dict)  # of an array: job and node by member; no node: why there is none

    def __post_init__(self) -> None:
        self._given = next((option.partition("=")[2] for option in self.options if option.startswith("--jobid=")), "")
        self.job = self._given or self.job
        self.array = is_array(self.options)

    @property
    def planned(self) -> str:
        return f"sbatch {shlex.join([*OWN, *self.options])}" if not self._given else f"the nodes of job {self._given}"

    def outline(self) -> list[str]:
        """How the job holds its nodes, and how an agent starts on one, as `--dry-run` prints it."""
        command = [self.python, "-I", "-S", "-c", "AGENT"]
        srun = ["srun", f"--jobid={self._given or 'JOB'}", "--nodelist=NODE", *SRUN, *command]
        start = [f"agent   {shlex.join(srun)} (AGENT: its first lines, which read the rest)"]
        return start if self._given else ["script  of the job, on standard input of sbatch:", *self._script().splitlines(), *start]

    def _script(self) -> str:
        idle_s = IDLE_S + (self.queue_s if self.array else 0.0)  # of the first task, until the last has started
        return SCRIPT.replace("LOOKS", str(int(idle_s / 30.0)))

    @property
    def kept(self) -> dict[str, str]:
        return {"job": self.job} if self.job else {}

    def members(self) -> list[Member]:
        """Of the job's nodes, once it runs. Raises InputError for options that sbatch refuses, MachineError where it does not start."""
        if not self.job:
            self.job = self._submitted(self.options)
        if self.array:
            return self._tasks()
        self._wait()
        return [Member(name=node, index=index, address=node) for index, node in enumerate(self._nodes)]

    def prepare(self, members: Sequence[Member]) -> None:
        """A job with the nodes of these members: the one that runs, else a new one."""
        names = [member.address for member in members if member.address]
        if self._places or (self._nodes and set(names) <= set(self._nodes)):
            return
        state, _, nodes = ("", "", []) if self.array else self._state()
        if state == "RUNNING" and set(names) <= set(nodes):
            self._nodes = nodes
            return
        if self._given:
            raise MachineError(f"job {self._given} does not run any more, or lacks a node: {state.lower()}")
        self.release()
        listed = [f"--nodelist={','.join(names)}"] if names else []
        self.job = self._submitted([*_alone(self.options), f"--nodes={len(members)}", *listed])
        self._wait()
        free = iter(sorted(set(self._nodes) - set(names)))
        self._places = {member.name: (self.job, member.address or next(free, "")) for member in members}

    def start(self, member: Member) -> AgentProcess:
        job, node = self._places.get(member.name, (self.job, member.address))
        try:
            if not node:
                return popen(["sh", "-c", 'echo "$0" >&2; exit 1', job or "its task did not start"])
            command = [self.python, "-I", "-S", "-c", agent.BOOTSTRAP]
            return popen(["srun", f"--jobid={job}", f"--nodelist={node}", *SRUN, *command])
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
        if old := old_python(code, errors):
            return "refused", old
        return "never started", last_line(errors) or f"srun ended with {code} before the agent said hello"

    def ending(self, errors: str) -> str:
        """A job that was requeued or cancelled, or whose time was up, rather than what srun says of it."""
        now = time.monotonic()
        if self.array:
            return last_line(errors)
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
            self.job, self._nodes, self._places = "", [], {}

    # ------------------------------------------------------------ the job

    def _tasks(self) -> list[Member]:
        """Members of an array: nodes of tasks that run, and tasks that did not start in time. Raises MachineError where none runs."""
        deadline = time.monotonic() + self.queue_s
        try:
            while True:
                tasks = self._array()
                waiting = [task for task in tasks if task.state in WAITING]
                if (tasks and not waiting) or time.monotonic() > deadline:
                    break
                time.sleep(LOOK_S)
            if not any(task.nodes for task in tasks):
                why = next((task.reason for task in tasks), "Slurm does not know it")
                waited = show(self.queue_s, "s")
                raise MachineError(f"no task of job {self.job} started within {waited}: {why}", "--queue TIME waits longer")
        except BaseException:
            self.release()
            raise
        members = list[Member]()
        for task in tasks:
            for node in task.nodes or [""]:
                name = node if node and node not in self._places else f"{node or 'task'}-{task.number}"
                self._places[name] = (task.job, node) if node else (f"its task did not start: {task.state.lower()}, {task.reason}", "")
                members.append(Member(name=name, index=len(members), address=node))
        for task in waiting:
            _call(["scancel", "--quiet", f"{self.job}_{task.number}"])
        return members

    def _array(self) -> list[SlurmTask]:
        """Tasks in their order; those that wait stand together in one line of Slurm's."""
        tasks = list[SlurmTask]()
        for line in _call(["scontrol", "show", "job", "-o", self.job]).stdout.splitlines():
            facts = dict(word.partition("=")[::2] for word in line.split())
            for number in _numbers(facts.get("ArrayTaskId", "")):
                nodes = hosts.parse(f"{facts['NodeList']},") if facts.get("JobState") == "RUNNING" and facts.get("NodeList") else []
                tasks.append(SlurmTask(number, facts["JobId"], facts.get("JobState", ""), facts.get("Reason", ""), nodes))
        return sorted(tasks, key=lambda task: task.number)

    def _submitted(self, options: Sequence[str]) -> str:
        """Its number. Raises InputError saying why sbatch refused it."""
        done = _call(["sbatch", *OWN, *options], self._script())
        number = done.stdout.strip().partition(";")[0]
        if done.returncode or not number.isdecimal():
            why = re.sub(r"^sbatch: (error|fatal): (Batch job submission failed: )?", "", last_line(done.stderr))
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


def is_array(options: Sequence[str]) -> bool:
    """Whether these options of sbatch ask for an array."""
    return any(re.match(r"--array\b|-a", option) for option in options)


def _alone(options: Sequence[str]) -> list[str]:
    """Without what makes an array of a job."""
    kept, skip = list[str](), False
    for option in options:
        if not skip and not re.match(r"--array=|-a.", option) and option not in ("--array", "-a"):
            kept.append(option)
        skip = option in ("--array", "-a")
    return kept


def _numbers(text: str) -> list[int]:
    """Of 0-3,7,10-20:5%8, as Slurm writes tasks of an array that wait; none for a text that is another."""
    numbers = list[int]()
    for match in re.finditer(r"(\d+)(?:-(\d+)(?::(\d+))?)?(?:,|$)", text.partition("%")[0]):
        first, last, step = (int(part) if part else 0 for part in match.groups())
        numbers += range(first, (last or first) + 1, step or 1)
    return numbers


def _call(argv: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    """One of Slurm's commands. Raises Unavailable where there is none, MachineError where it does not answer."""
    if not shutil.which(argv[0]):
        raise Unavailable(f"there is no {argv[0]} on this machine", "run it where jobs are submitted, with Slurm's commands")
    try:
        return subprocess.run(argv, input=text, capture_output=True, text=True, timeout=CALL_S)
    except (OSError, subprocess.SubprocessError) as error:
        raise MachineError(f"{argv[0]} does not answer: {error}") from None

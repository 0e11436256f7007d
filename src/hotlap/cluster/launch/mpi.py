"""Members that mpirun, srun or torchrun started: rank 0 is the controller with an agent of its own, every other rank becomes an agent that
comes to it.

On one machine they meet by a file that only this user can read. On several, rank 0 listens at --meet HOST:PORT, and all know the token in
the environment variable HOTLAP_TOKEN.
"""

from __future__ import annotations

import json
import os
import secrets
import stat
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from hotlap.cluster import agent
from hotlap.cluster.launch.base import AgentProcess, AtOnce, last_line, popen
from hotlap.cluster.launch.dialled import AgentListener, SocketProcess, dial
from hotlap.cluster.record import Member, State
from hotlap.core.errors import InputError, MachineError

NUMBERS: Sequence[tuple[str, str, str]] = (  # rank, number of ranks, ranks on this machine; the first that is set counts
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"), ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"), ("SLURM_PROCID", "SLURM_NTASKS", ""),
)  # fmt: skip
JOBS = ("PMIX_NAMESPACE", "TORCHELASTIC_RUN_ID", "PMI_JOBID", "SLURM_JOB_ID")  # what all ranks of a start share
TOKEN = "HOTLAP_TOKEN"
EXAMPLE = "mpirun -np 4 hotlap cluster run --mpi …"
MOST_BYTES = 4096  # of the file by which they meet


class MpiRank(NamedTuple):
    """This process among those that were started together. `local`: how many of them are on this machine; 0: not known."""

    number: int
    world: int
    local: int
    job: str


def started(environment: Mapping[str, str] = os.environ) -> MpiRank | None:
    """This process as a rank; None where nobody started it as one."""
    for rank, world, local in NUMBERS:
        if environment.get(rank, "").isdecimal() and environment.get(world, "").isdecimal():
            job = next((f"{name}-{environment[name]}" for name in JOBS if environment.get(name)), f"parent-{os.getppid()}")
            return MpiRank(int(environment[rank]), int(environment[world]), int(environment.get(local) or 0), job)
    return None


def own(environment: Mapping[str, str] = os.environ) -> MpiRank:
    """Raises InputError where nobody started it as a rank."""
    if rank := started(environment):
        return rank
    raise InputError("--mpi: nobody started this as a rank; begin with mpirun, srun or torchrun: " + EXAMPLE)


def _meeting(rank: MpiRank, meet: str) -> tuple[str, int, bytes] | None:
    """Host, port and token where ranks are on several machines; None where all are on this one. Raises InputError."""
    if not meet and rank.local == rank.world:
        return None
    host, _, port = meet.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        where = f"not '{meet}'" if meet else f"as the {rank.world} ranks are on several machines"
        raise InputError(f"--meet HOST:PORT says where rank 0 listens, {where}; HOST is rank 0's, PORT free there")
    token = os.environ.get(TOKEN, "")
    if len(token) < 16:
        raise InputError(f"ranks on several machines need a secret of 16 characters or more in {TOKEN}, as in mpirun -x {TOKEN} …")
    return host, int(port), token.encode()


def _file(rank: MpiRank) -> Path:
    name = "".join(letter if letter.isalnum() else "-" for letter in rank.job)[:80]
    return Path(tempfile.gettempdir()) / f"hotlap-ranks-{os.getuid()}-{name}"


def serve(rank: MpiRank, meet: str, wait_s: float) -> int:
    """Of every rank but 0: comes to rank 0 and becomes an agent. Returns only where that fails, raising MachineError."""
    given = _meeting(rank, meet)
    deadline = time.monotonic() + wait_s
    while given is None:
        given = _read(_file(rank))
        if given is None and time.monotonic() > deadline:
            raise MachineError(f"rank {rank.number}: rank 0 did not come within {wait_s:g} s")
        time.sleep(0.05)
    try:
        connection = dial(*given, {"rank": rank.number, "host": os.uname().nodename}, max(deadline - time.monotonic(), 1.0))
    except (OSError, ValueError) as error:
        raise MachineError(f"rank {rank.number}: rank 0 at {given[0]}:{given[1]} cannot be reached: {error}") from None
    for number in (0, 1):
        os.dup2(connection.fileno(), number)
    os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", agent.BOOTSTRAP])


def _read(path: Path) -> tuple[str, int, bytes] | None:
    """What rank 0 wrote; None where it has not yet, or where another user did."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            about = os.fstat(file.fileno())
            if about.st_uid != os.getuid() or stat.S_IMODE(about.st_mode) != 0o600:
                return None
            content = json.loads(file.read(MOST_BYTES))
        return "127.0.0.1", int(content["port"]), bytes.fromhex(content["token"])
    return None


@dataclass
class MpiLauncher(AtOnce):
    """`meet` as --meet has it; `wait_s` for all ranks to come."""

    meet: str
    wait_s: float
    name: str = "mpi"
    _came: dict[int, tuple[str, SocketProcess]] = field(default_factory=dict)
    _listener: AgentListener | None = None

    @property
    def planned(self) -> str:  # type: ignore[override]
        rank = started()
        return f"the {rank.world} ranks of this start" if rank else f"the ranks of a start such as {EXAMPLE}"

    def members(self) -> list[Member]:
        """Rank by rank, once all have come. Raises MachineError naming those that have not."""
        rank = own()
        self._gather(rank)
        hosts = {0: os.uname().nodename, **{number: host for number, (host, _) in self._came.items()}}
        several = Counter(hosts.values())
        digits = max(len(str(rank.world - 1)), 2)
        return [
            Member(
                name=f"rank{number:0{digits}}", index=number, address=host,
                slot=f"rank {number} of {rank.world}, one of {several[host]} on {host}" if several[host] > 1 else "",
            )
            for number, host in sorted(hosts.items())
        ]  # fmt: skip

    def prepare(self, members: Sequence[Member]) -> None:
        """The ranks of this start, of which there must be as many."""
        if self._listener is None:
            self.members()
        lost = [member.name for member in members if member.index and member.index not in self._came]
        if lost:
            raise MachineError(f"{lost[0]} was not started; begin with as many ranks as the campaign has members")

    def _gather(self, rank: MpiRank) -> None:
        given = _meeting(rank, self.meet)
        host, port, token = given or ("127.0.0.1", 0, secrets.token_bytes(32))
        try:
            self._listener = AgentListener(host, port, token)
        except OSError as error:
            raise MachineError(f"rank 0 cannot listen at {host}:{port}: {error.strerror}") from None
        path = None if given else _file(rank)
        try:
            if path:
                path.unlink(missing_ok=True)
                with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w") as file:
                    file.write(json.dumps({"port": self._listener.address[1], "token": token.hex()}))
            self._take(rank)
        except OSError as error:
            raise MachineError(f"'{path}' cannot be written: {error.strerror}") from None
        finally:
            if path:
                path.unlink(missing_ok=True)

    def _take(self, rank: MpiRank) -> None:
        assert self._listener is not None
        deadline = time.monotonic() + self.wait_s
        while len(self._came) < rank.world - 1:
            taken = self._listener.take(0.5)
            if taken and (number := _number(taken[0], rank.world)) and number not in self._came:
                self._came[number] = str(taken[0].get("host", ""))[:200], taken[1]
            elif taken:
                taken[1].kill()
            if time.monotonic() > deadline:
                missing = [str(number) for number in range(1, rank.world) if number not in self._came]
                raise MachineError(f"of {rank.world} ranks {len(missing)} did not come within {self.wait_s:g} s: {', '.join(missing[:8])}")

    def start(self, member: Member) -> AgentProcess:
        if member.index == 0:
            return popen([sys.executable, "-I", "-S", "-c", agent.BOOTSTRAP])
        if member.index not in self._came:
            raise MachineError(f"{member.name} has ended; begin with mpirun again")
        return self._came.pop(member.index)[1]

    def stop(self, member: Member, process: AgentProcess, mark: str) -> None:
        with suppress(OSError):
            process.kill()
        with suppress(subprocess.TimeoutExpired):
            process.wait(5.0)
        if member.index == 0:
            agent.sweep(mark, 0.2)

    def failure(self, code: int, errors: str) -> tuple[State, str]:
        return "never started", last_line(errors) or "its rank ended before it said hello"

    def release(self) -> None:
        """Ranks that were not needed end."""
        for _, process in self._came.values():
            process.kill()
        self._came.clear()
        if self._listener:
            self._listener.close()


def _number(about: Mapping[str, Any], world: int) -> int:
    """The rank that one says it is; 0: none that is possible."""
    number = about.get("rank")
    return number if isinstance(number, int) and 0 < number < world else 0

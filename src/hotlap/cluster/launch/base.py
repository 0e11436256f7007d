"""The contract of launchers. A launcher knows how to start an agent on a member, and nothing of steps."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from typing import IO, Any, Protocol

from hotlap.cluster.agent import OLD_PYTHON
from hotlap.cluster.record import Member, State


class AgentProcess(Protocol):
    """The way to an agent, as `subprocess.Popen` is one: bytes on its input and output reach the agent and come from it."""

    stdin: IO[bytes] | None
    stdout: IO[bytes] | None
    stderr: IO[bytes] | None

    def poll(self) -> int | None:
        """The exit status, once it is known."""

    def wait(self, timeout: float | None = None) -> int:
        """Raises TimeoutExpired."""

    def kill(self) -> None:
        """At once."""

    def terminate(self) -> None:
        """By asking."""


class AgentLauncher(Protocol):
    """`members` by name and address; `start` gives a process whose pipes lead to the agent; `stop` ends what it left."""

    @property
    def name(self) -> str:
        """As --dry-run and campaign.toml say it."""

    @property
    def planned(self) -> str:
        """What is asked for before members are known, as --dry-run says it; "" where they are known at once."""

    @property
    def kept(self) -> dict[str, str]:
        """What `resume` and `stop` need of it beside its options: the number of a job."""

    def members(self) -> list[Member]:
        """Raises InputError for a list that is wrong. Waits for a job, where there is one."""

    def at_hand(self, members: Sequence[Member]) -> list[Member]:
        """Of members without a result, those that are to be tried now."""

    def prepare(self, members: Sequence[Member]) -> None:
        """Makes sure of what these members stand on. Raises MachineError where that cannot be had."""

    def ending(self, errors: str) -> str:
        """Why the way to an agent was lost, by the end of its standard error or by what became of a job; "" where nobody says."""

    def release(self) -> None:
        """Gives back what was asked for; more than once does no harm."""

    def start(self, member: Member) -> AgentProcess:
        """Raises MachineError where the launcher itself cannot run."""

    def stop(self, member: Member, process: AgentProcess, mark: str) -> None:
        """Ends the way to an agent that does not answer, and what carries its mark where that can be reached."""

    def failure(self, code: int, errors: str) -> tuple[State, str]:
        """Why an agent never said hello, from the exit status of the process and the end of its standard error."""


class Everyone:
    """Of launchers that try all members."""

    def at_hand(self, members: Sequence[Member]) -> list[Member]:
        return list(members)


class AtOnce(Everyone):
    """Of launchers whose members are there without asking anybody for them."""

    planned = ""

    @property
    def kept(self) -> dict[str, str]:
        return {}

    def prepare(self, members: Sequence[Member]) -> None:
        """They are there."""

    def ending(self, errors: str) -> str:
        return last_line(errors)

    def release(self) -> None:
        """There is nothing."""


def popen(argv: list[str], environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """With pipes, in a session of its own, so that Ctrl-C in the terminal reaches the controller alone."""
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, bufsize=0, env=environment)


def seam(member: Member) -> dict[str, str]:
    """Where the agent reads what identifies its machine: HOTLAP_AGENT_ROOT, in which {member} stands for the name; for containers, and for
    tests."""
    root = os.environ.get("HOTLAP_AGENT_ROOT", "")
    return {"root": root.replace("{member}", member.name)} if root else {}


def last_line(errors: str) -> str:
    """What a program said last."""
    return next((line.strip()[:200] for line in reversed(errors.splitlines()) if line.strip()), "")


def available(stream: Any) -> bytes | None:
    """What there is; b"" at the end, None where nothing has come yet."""
    try:
        return os.read(stream.fileno(), 1 << 18)
    except BlockingIOError:
        return None
    except (OSError, ValueError):
        return b""


def old_python(code: int, errors: str) -> str:
    """Why a Python is no agent's, by how it ended; "" where it is not for its age."""
    if "Unknown option: -I" in errors:
        return "Python 2 is there, 3.9 or later is needed: name another by --python"
    return f"{last_line(errors)}: name another by --python" if code == OLD_PYTHON else ""

"""The contract of launchers. A launcher knows how to start an agent on a member, and nothing of steps."""

from __future__ import annotations

import subprocess
from typing import Protocol

from hotlap.cluster.record import Member, State


class AgentLauncher(Protocol):
    """`members` by name and address; `start` gives a process whose pipes lead to the agent; `stop` ends what it left."""

    @property
    def name(self) -> str:
        """As --dry-run and campaign.toml say it."""

    def members(self) -> list[Member]:
        """Raises InputError for a list that is wrong."""

    def start(self, member: Member) -> subprocess.Popen[bytes]:
        """Raises MachineError where the launcher itself cannot run."""

    def alive(self, process: subprocess.Popen[bytes]) -> bool:
        """Whether the way to the agent still stands."""

    def stop(self, member: Member, process: subprocess.Popen[bytes], mark: str) -> None:
        """Ends the way to an agent that does not answer, and what carries its mark where that can be reached."""

    def failure(self, code: int, errors: str) -> tuple[State, str]:
        """Why an agent never said hello, from the exit status of the process and the end of its standard error."""


def popen(argv: list[str], environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    """With pipes, in a session of its own, so that Ctrl-C in the terminal reaches the controller alone."""
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, bufsize=0, env=environment)


def last_line(errors: str) -> str:
    """What a program said last."""
    return next((line.strip()[:200] for line in reversed(errors.splitlines()) if line.strip()), "")

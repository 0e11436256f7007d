"""Members that are slots of this machine: to try a campaign, or to run many processes at once. They are no machines of their own."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from hotlap.cluster import agent
from hotlap.cluster.launch.base import AgentProcess, AtOnce, last_line, old_python, popen
from hotlap.cluster.record import Member, State
from hotlap.core.errors import InputError, MachineError

MOST = 4096


@dataclass(frozen=True)
class LocalLauncher(AtOnce):
    """`count` slots."""

    count: int
    python: str
    name: str = "local"

    def members(self) -> list[Member]:
        if not 1 <= self.count <= MOST:
            raise InputError(f"--local is a number of members from 1 to {MOST}, not {self.count}")
        digits = max(len(str(self.count - 1)), 2)
        return [
            Member(name=f"slot{index:0{digits}}", index=index, slot=f"{index + 1} of {self.count} on this machine")
            for index in range(self.count)
        ]

    def start(self, member: Member) -> AgentProcess:
        try:
            return popen([self.python, "-I", "-S", "-c", agent.BOOTSTRAP])
        except OSError as error:
            raise MachineError(f"'{self.python}' cannot be run: {error.strerror}; name a Python by --python") from None

    def stop(self, member: Member, process: AgentProcess, mark: str) -> None:
        with suppress(OSError):
            process.kill()
        process.wait()
        agent.sweep(mark, 0.2)

    def failure(self, code: int, errors: str) -> tuple[State, str]:
        if old := old_python(code, errors):
            return "refused", old
        return "never started", last_line(errors) or f"the agent ended with {code} before it said hello"

"""Gangs: members that need one another. Each round of a step is one message to agents that run already, with the ranks and the rendezvous
of that round; a gang has a result when all of its members have, and ends when one fails, with that as the cause.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hotlap.cluster.record import Member, State
from hotlap.core.errors import InputError

SETTLE_S = 1.0  # in which failures that follow from the first arrive: the one that ended first is the cause
OBEY_S = 15.0  # for members to end when their gang does
TIMEOUT_S = 1800.0  # of a step of gangs, unless one is given


@dataclass
class GangEnd:
    """How one member's part ended. `at_s`: since its part began, on its own clock where that is known."""

    state: State
    why: str
    at_s: float
    more: Mapping[str, Any]


@dataclass
class Gang:
    """One gang in one step, members by rank."""

    members: list[Member]
    local: bool = False  # all on one machine, which is reached by 127.0.0.1
    ready: dict[str, tuple[int, int, str]] = field(default_factory=dict)  # round, port and address by member
    ends: dict[str, GangEnd] = field(default_factory=dict)
    failed_s: float = 0.0  # when the first failure came, monotonic; 0: none
    stopping: bool = False

    @property
    def names(self) -> list[str]:
        return [member.name for member in self.members]

    @property
    def whole(self) -> bool:
        """Whether every member has ended."""
        return all(name in self.ends for name in self.names)

    def take(self, name: str, number: int, port: int, address: str) -> list[dict[str, str]]:
        """A member that is ready for a round; the environments by rank when all are, else nothing."""
        self.ready[name] = number, port, address
        if {place for place, _, _ in self.ready.values()} != {number} or len(self.ready) < len(self.members):
            return []
        environments = self._environments()
        self.ready.clear()
        return environments

    def _environments(self) -> list[dict[str, str]]:
        addresses = ["127.0.0.1" if self.local else self.ready[name][2] for name in self.names]
        shared = {
            "MASTER_ADDR": addresses[0], "MASTER_PORT": str(self.ready[self.names[0]][1]), "WORLD_SIZE": str(len(self.members)),
            "LOCAL_WORLD_SIZE": str(len(self.members) if self.local else 1), "HOTLAP_GANG": ",".join(addresses),
        }  # fmt: skip
        return [{**shared, "RANK": str(rank), "LOCAL_RANK": str(rank if self.local else 0)} for rank in range(len(self.members))]

    def end(self, name: str, ended: GangEnd) -> None:
        """The first end of a member counts."""
        if name not in self.ends:
            self.ends[name] = ended
            if ended.state != "measured" and not self.failed_s:
                self.failed_s = time.monotonic()

    def due(self, now: float) -> Literal["", "stop", "force"]:
        """What is to be done with members that have not ended, once one has failed."""
        if not self.failed_s or self.whole:
            return ""
        if not self.stopping:
            return "stop" if now - self.failed_s >= SETTLE_S else ""
        return "force" if now - self.failed_s >= SETTLE_S + OBEY_S else ""

    def outcome(self) -> dict[str, GangEnd]:
        """What is recorded of each member: results where all have one; else the member that failed first has its own reason, and the
        others died of it."""
        failures = {name: each for name, each in self.ends.items() if each.state != "measured"}
        if not failures:
            return self.ends
        first = min(failures, key=lambda name: failures[name].at_s)
        cause, caused = failures[first], {"because_of": first}
        why = f"its gang ended: {first} {cause.state}{f': {cause.why}' if cause.why else ''}"[:300]
        others = {
            name: GangEnd("died", why, each.at_s, {**{key: value for key, value in each.more.items() if key != "evidence"}, **caused})
            for name, each in self.ends.items() if name != first
        }  # fmt: skip
        return {**others, first: cause}


def gangs(members: Sequence[Member], size: int, local: bool) -> list[Gang]:
    """Members in their order, `size` to a gang. Raises InputError where some are left over."""
    if size < 2:
        raise InputError(f"--gang is a number of members from 2 on, not {size}")
    if len(members) % size:
        raise InputError(f"--gang {size}: of {len(members)} members {len(members) % size} would be left over; give a multiple of {size}")
    return [Gang(list(members[begin : begin + size]), local) for begin in range(0, len(members), size)]

"""Rounds of transfers between the members of a campaign: one gang of all of them, whose agents stay; each round is a message to each.

    begin(folder, launcher) → PairController; transfer(pairs) → rates; finish()
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from hotlap.bringup import member_link, member_pair
from hotlap.bringup.record import Floats, Ints
from hotlap.cluster.controller import AgentLink, ClusterController
from hotlap.cluster.gang import Gang
from hotlap.cluster.receiving import Attempt
from hotlap.cluster.record import Member, StepRecord
from hotlap.core.errors import Interrupted, MachineError

SCRIPT, LINK = "pair.py", "member_link.py"
MOST_ROUNDS = 10_000
STEP = "pairs"


def source(module: ModuleType) -> str:
    """Of a module that is sent to members."""
    assert module.__file__
    return Path(module.__file__).read_text(encoding="utf-8")


def step(python: str, time_s: float, members: int) -> StepRecord:
    """What every member runs, until it is asked for no more."""
    return StepRecord(
        number=1, name=STEP, gather="command", argv=[python, "-I", "-S", SCRIPT], label=f"transfers of {time_s:g} s between pairs",
        files={SCRIPT: source(member_pair), LINK: source(member_link)}, rounds=MOST_ROUNDS, gang=members,
        timeout_s=MOST_ROUNDS * (time_s + 2 * member_pair.PATIENCE_S), timed=False,
    )  # fmt: skip


class PairController(ClusterController):
    """Of members that transfer between each other. `rest`: those with an agent, in the order of the numbers of pairs."""

    rest: Sequence[Member] = ()
    time_s = 1.0
    lead_s = member_pair.LEAD_S  # at most that
    failures = 0
    why = ""  # of the last transfer that gave nothing
    until_s = math.inf  # no transfer is waited for beyond, monotonic
    _gang: Gang | None = None

    def begin(self, order: StepRecord, members: Sequence[Member], time_s: float) -> None:
        """The step on members that have an agent."""
        self.rest, self.time_s = members, time_s
        self._gang = Gang(list(members), self.launcher.name == "local")
        self._gangs = {member.name: self._gang for member in members}
        self._printed: dict[str, bytes] = {}
        self.known: dict[str, dict[str, Any]] = {}  # of the link that a member received by, as `member_link` says it
        self._places: dict[str, tuple[int, int, str]] = {}
        self._environments: list[dict[str, str]] = []
        for member in members:
            self._begin(self.links[member.name], order)

    def transfer(self, pairs: Ints) -> Floats:
        """Bytes per second from the first of each pair to the second, all at once. [P, 2] → [P, 1]

        Raises MachineError where a member is lost, Interrupted.
        """
        self._wait()
        orders: dict[int, dict[str, Any]] = {}
        begins_s = time.time() + self.lead_s
        for source, sink in pairs.tolist():
            _, port, address = self._places[self.rest[sink].name]
            address = "127.0.0.1" if self.launcher.name == "local" else address
            at_s = begins_s + self._off_s(self.rest[source].name)
            orders[source] = {"do": "send", "address": address, "port": port, "time_s": self.time_s, "at_s": at_s}
            orders[sink] = {"do": "receive", "address": address, "port": port, "time_s": self.time_s, "own": address}
        self._printed = {}
        self._send_round(orders, last=False)
        self._wait()
        return np.array([[self._rate(self.rest[sink].name)] for sink in pairs[:, 1]])

    @property
    def rdma(self) -> list[str]:
        """Members that have adapters, which TCP does not use."""
        return sorted(name for name, link in self.known.items() if link.get("rdma"))

    def finish(self) -> None:
        """A last round without transfers, after which members have their result."""
        self._wait()
        self._send_round({}, last=True)
        while any(link.attempt for link in self.links.values()) and not self.interrupted and time.monotonic() < self.until_s:
            self._turn()

    def ended_first(self) -> str | None:
        """The member whose end ended the gang; None where all are there."""
        ends = self._gang.ends if self._gang else {}
        failed = {name: each for name, each in ends.items() if each.state != "measured"}
        return min(failed, key=lambda name: failed[name].at_s, default=None)

    def _send_round(self, orders: Mapping[int, Mapping[str, Any]], last: bool) -> None:
        environments, self._environments = self._environments, []
        for number, member in enumerate(self.rest):
            order = json.dumps(orders.get(number, {"do": "rest"}))
            self._send(self.links[member.name], {"do": "round", "env": {**environments[number], "HOTLAP_PAIR": order}, "last": last})

    def _off_s(self, name: str) -> float:
        """A member's clock less the one here."""
        return float(self.links[name].member.facts.get("clock_off_s", 0.0))

    def _rate(self, name: str) -> float:
        try:
            answer = json.loads(self._printed.get(name, b""))
            rate = float(answer["rate"])
        except (ValueError, KeyError, TypeError):
            return math.nan
        if isinstance(answer.get("link"), dict):
            self.known[name] = answer["link"]
        if not 0 <= rate < math.inf:
            return math.nan
        if rate == 0:
            self.failures, self.why = self.failures + 1, f"to {name}: {str(answer.get('why'))[:200]}"
        return rate

    def _wait(self) -> None:
        """Until all members are ready for another round."""
        gang = self._gang
        assert gang is not None
        while not self._environments:
            if self.interrupted:
                raise Interrupted("")
            if time.monotonic() > self.until_s:
                raise MachineError("the transfers did not end in time", "give more by --budget")
            if gang.failed_s and gang.whole:
                name, ended = min(
                    ((name, each) for name, each in gang.ends.items() if each.state != "measured"), key=lambda item: item[1].at_s
                )
                raise MachineError(f"{name} {ended.state}: {ended.why}", "leave it out, and run again")
            self._turn()

    def _begin_round(self, link: AgentLink, message: Mapping[str, Any]) -> None:
        """A member is ready; when all are, a round can be asked for."""
        gang, name = self._gang, link.member.name
        assert gang is not None
        place = int(message["round"]), int(message["port"]), str(message["address"])[:200]
        self._places[name] = place
        self._environments = gang.take(name, *place)

    def _of_attempt(self, link: AgentLink, attempt: Attempt, kind: str, message: Mapping[str, Any], body: bytes) -> None:
        if self._gang and kind == "output" and message["stream"] == "stdout":
            self._printed[link.member.name] = (self._printed.get(link.member.name, b"") + body)[:4096]
        super()._of_attempt(link, attempt, kind, message, body)

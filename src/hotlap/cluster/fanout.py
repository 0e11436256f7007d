"""Who sends the wheels to whom: the controller to a few members, each of these to a few more that lack them too, and so on: a tree.

What a member passes on is accepted by its digest alone; where it does not come, the controller sends it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from hotlap.cluster import agent
from hotlap.cluster.parcel import Parcel
from hotlap.core.show import words

FAN = 2  # that each sends to at a time
CONTROLLER = ""
Send = Callable[[str, Mapping[str, Any]], None]  # to a member


@dataclass
class _Relay:
    """A member that passes wheels on."""

    address: str
    port: int


@dataclass
class WheelFanOut:
    """Of one campaign. `parcel`: None where nothing is sent; `launcher`: its name, by which members know how others reach them."""

    parcel: Parcel | None
    launcher: str
    members: int
    send: Send
    token: str = field(default_factory=lambda: secrets.token_hex(agent.TOKEN_DIGITS // 2))
    sent: int = 0  # members that the controller sent them to
    relayed: int = 0  # members that got them from another
    _relays: dict[str, _Relay] = field(default_factory=dict)
    _from: dict[str, str] = field(default_factory=dict)  # who gets them from whom
    _wait: dict[str, list[Path]] = field(default_factory=dict)
    _left: dict[str, list[Path]] = field(default_factory=dict)  # what is still to be sent from here
    _open: dict[str, IO[bytes]] = field(default_factory=dict)

    def offer(self) -> dict[str, Any]:
        """What Hotlap on a member that lacks it can be made of."""
        files = self.parcel.files() if self.parcel else []
        relays = self.launcher if self.members > FAN else ""
        return {"do": "offer", "files": [file.offered for file in files], "relays": relays, "token": self.token}

    def want(self, name: str, digests: Sequence[str], direct: bool) -> None:
        """A member asks for wheels that were offered; `direct`: not from another member. Raises FrameError for others."""
        offered = {file.digest: file.path for file in (self.parcel.files() if self.parcel else [])}
        paths = [offered[digest] for digest in digests if digest in offered]
        if len(paths) < len(digests) or not paths or name in self._wait or name in self._open:
            raise agent.FrameError("it wants what was not offered")
        self._from.pop(name, None)
        if direct:
            self._supply(name, paths)
        else:
            self._wait[name] = paths
        self._next()

    def got(self, name: str) -> None:
        """A member has them."""
        source = self._from.pop(name, None)
        self.relayed += bool(source)
        self._next()

    def relays(self, name: str, address: str, port: int) -> None:
        """A member passes on what it has."""
        self._relays[name] = _Relay(address[:200], port)
        self._next()

    def leave(self, name: str) -> None:
        """A member's step has ended, or its agent: it gets nothing more. What it passes on others notice where it does not come."""
        self._from.pop(name, None)
        self._wait.pop(name, None)
        self._left.pop(name, None)
        if file := self._open.pop(name, None):
            file.close()
        self._next()

    def lose(self, name: str) -> None:
        """A member's agent has gone, and with it what it passed on."""
        self._relays.pop(name, None)
        self.leave(name)

    def part(self, name: str) -> bytes:
        """The next bytes of a wheel for a member; b"" where nothing is to be sent to it."""
        while file := self._open.get(name):
            if data := file.read(agent.PART_BYTES):
                return data
            file.close()
            del self._open[name]
            self._begin(name)
        return b""

    def summary(self) -> str:
        """How the wheels went; "" where none did."""
        count = self.sent + self.relayed
        by = f", {self.relayed} of them from another member" if self.relayed else ""
        return f"{words.counted(count, 'member')} got Hotlap and its wheels{by}" if count else ""

    def _busy(self, source: str) -> int:
        return sum(each == source for each in self._from.values())

    def _next(self) -> None:
        """Those that wait, as far as there is somebody who sends to them."""
        for name in list(self._wait):
            free = [relay for relay in self._relays if relay != name and self._busy(relay) < FAN]
            if free:
                source = min(free, key=self._busy)
                del self._wait[name]
                self._from[name] = source
                relay = self._relays[source]
                self.send(name, {"do": "from", "address": relay.address, "port": relay.port})
            elif self._busy(CONTROLLER) < FAN:
                self._supply(name, self._wait.pop(name))
            else:
                return

    def _supply(self, name: str, paths: list[Path]) -> None:
        self._from[name] = CONTROLLER
        self.sent += 1
        self._left[name] = list(paths)
        self._begin(name)
        self.send(name, {"do": "wheels"})

    def _begin(self, name: str) -> None:
        left = self._left.get(name)
        if left:
            self._open[name] = open(left.pop(0), "rb")  # noqa: SIM115 - closed at its end, or when the member leaves

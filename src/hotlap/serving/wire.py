"""One HTTP/1.1 connection and the answer that comes on it, each piece with the time at which it came.

A protocol of asyncio rather than its streams: `data_received` is called where the bytes come in, so their time is taken before any task
of ours has to wake up.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

HEAD_BYTES, BODY_BYTES, LINE_BYTES = 64 * 1024, 16 * 2**20, 4 * 2**20
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")


class Malformed(ValueError):
    """What came is no answer of HTTP."""


class Response:
    """One answer of HTTP, fed as it comes. Who wants it overrides `body`, `over` and `lost`; `feed` raises Malformed."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.began_s: float | None = None  # the status line came
        self.complete = False
        self._buffer = b""
        self._left: int | None = 0  # of the body or chunk; None: until the connection closes
        self._chunked = False
        self._part = "head"

    def body(self, data: bytes, now_s: float) -> None:
        """A piece of the body."""

    def over(self, now_s: float) -> None:
        """All of it is here."""

    def lost(self, reason: str, now_s: float) -> None:
        """It will not be whole."""

    @property
    def stays_open(self) -> bool:
        """Whether the connection can carry another request."""
        return self.complete and not self._buffer and self.headers.get("connection", "").lower() != "close" and self._left is not None

    def feed(self, data: bytes, now_s: float) -> None:
        self._buffer += data
        if self._part == "head":
            self._head(now_s)
        if self._part == "body" and not self._chunked:
            self._plain(now_s)
        elif self._part != "head":
            while not self.complete and self._chunk(now_s):
                pass

    def ended(self, now_s: float) -> bool:
        """The connection closed: whether that was the end of the answer."""
        if self._part == "body" and self._left is None and not self.complete:
            self._finish(now_s)
        return self.complete

    def _head(self, now_s: float) -> None:
        if self.began_s is None:
            self.began_s = now_s
        head, ending, rest = self._buffer.partition(b"\r\n\r\n")
        match = _STATUS.match(head)
        if (len(head) > 12 and not match) or len(head) > HEAD_BYTES:
            raise Malformed(f"no HTTP answer: it begins with {head[:24]!r}")
        if not ending or not match:
            return
        status = int(match[1])
        self._buffer = rest
        if status < 200:  # 100 Continue: the answer comes after it
            self._head(now_s)
            return
        self.status = status
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            self.headers[name.strip().lower().decode("latin-1")] = value.strip().decode("latin-1")
        self._chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()
        length = self.headers.get("content-length")
        if length is not None and not length.isdecimal():
            raise Malformed(f"Content-Length is {length[:24]!r}")
        self._left = 0 if self.status in (204, 304) else int(length) if length is not None else None
        self._part = "size" if self._chunked else "body"
        self._left = 0 if self._chunked else self._left

    def _plain(self, now_s: float) -> None:
        data, self._buffer = self._buffer, b""
        if self._left is not None:
            data, self._buffer = data[: self._left], data[self._left :]
            self._left -= len(data)
        if data:
            self.body(data, now_s)
        if self._left == 0:
            self._finish(now_s)

    def _chunk(self, now_s: float) -> bool:
        """One step through a chunked body; whether there may be another."""
        if self._part == "size":
            line, ending, rest = self._buffer.partition(b"\r\n")
            if not ending:
                if len(line) > 64:
                    raise Malformed(f"the size of a chunk is {line[:24]!r}")
                return False
            try:
                self._left = int(line.partition(b";")[0], 16)
            except ValueError:
                raise Malformed(f"the size of a chunk is {line[:24]!r}") from None
            self._buffer, self._part = rest, "data" if self._left else "trailer"
            return True
        if self._part == "data":
            left = self._left or 0
            data, self._buffer = self._buffer[:left], self._buffer[left:]
            self._left = left - len(data)
            if data:
                self.body(data, now_s)
            if self._left:
                return False
            self._part = "end"
        if self._part == "end":
            if len(self._buffer) < 2:
                return False
            if not self._buffer.startswith(b"\r\n"):
                raise Malformed(f"a chunk is longer than it says: {self._buffer[:24]!r}")
            self._buffer, self._part = self._buffer[2:], "size"
            return True
        line, ending, rest = self._buffer.partition(b"\r\n")
        if ending:
            self._buffer = rest
            if not line:
                self._finish(now_s)
        return bool(ending)

    def _finish(self, now_s: float) -> None:
        self.complete = True
        self.over(now_s)


class Connection(asyncio.Protocol):
    """Carries one request at a time. `response` is the one under way."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.transport: asyncio.Transport | None = None
        self.response: Response | None = None
        self.closed = False
        self.free_s: float | None = None  # since when it has been idle; None: new, or under way

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def send(self, data: bytes, response: Response) -> float:
        """Hands a request to the socket; the time when that was done."""
        assert self.transport is not None
        self.response = response
        self.free_s = None
        self.transport.write(data)
        return self.clock()

    def data_received(self, data: bytes) -> None:
        now_s = self.clock()
        response = self.response
        if response is None:
            self.close()
            return
        try:
            response.feed(data, now_s)
        except Malformed as error:
            self._lose(str(error), now_s)
            self.close()
            return
        if response.complete:
            self.response = None
            if not response.stays_open:
                self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        now_s = self.clock()
        if self.response is not None and not self.response.ended(now_s):
            why = getattr(exc, "strerror", None) or exc
            when = "before a byte of the answer" if self.response.began_s is None else "early"
            self._lose(f"the connection was closed {when}{f': {why}' if why else ''}", now_s)

    def _lose(self, reason: str, now_s: float) -> None:
        response, self.response = self.response, None
        if response is not None:
            response.lost(reason, now_s)

    def close(self) -> None:
        self.closed = True
        if self.transport is not None:
            self.transport.abort()

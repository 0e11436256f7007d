"""HTTP/1.1 as far as a server of JSON and of events needs it: one request at a time on a connection, bodies with a length or in chunks."""

from __future__ import annotations

import asyncio
import select
import selectors
import socket
import struct
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

MOST_HEAD_BYTES = 2**16
MOST_BODY_BYTES = 2**26
FD_SETSIZE = 1024  # descriptors that select(2) can wait for, from 0


class Received(NamedTuple):
    """One request; names of headers in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class BadWire(Exception):
    """What came is no HTTP, or too much of it: the status to answer with."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Wire(asyncio.Protocol):
    """One connection. `handle` answers a request by `respond`, or by `begin`, `send` … and `end`; `gone` is called when the client leaves
    before; `closed` when the connection is."""

    def __init__(self, handle: Callable[[Received, Wire], None], closed: Callable[[Wire], None]) -> None:
        self.handle, self.closed = handle, closed
        self.buffer = bytearray()
        self.transport: asyncio.Transport | None = None
        self.gone: Callable[[], None] | None = None
        self.busy = self.closes = self.continued = False

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        self.closed(self)
        gone, self.gone = self.gone, None
        if gone is not None:
            gone()

    def eof_received(self) -> bool:
        return False  # a client that ends its side is gone: closed, and `connection_lost` follows

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if self.busy and len(self.buffer) > MOST_BODY_BYTES and self.transport is not None:
            self.transport.abort()  # it sends and sends before it was answered
        self._next()

    def _next(self) -> None:
        """Handles the next request as soon as it is there whole; further ones wait for their turn."""
        if self.busy or self.transport is None:
            return
        try:
            received = self._parse()
        except BadWire as error:
            self.busy = self.closes = True
            self.respond(error.status, str(error).encode(), "text/plain")
            return
        if received is not None:
            self.busy, self.continued = True, False
            self.closes = received.headers.get("connection", "").lower() == "close"
            self.handle(received, self)

    def _parse(self) -> Received | None:
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self.buffer) > MOST_HEAD_BYTES:
                raise BadWire(431, "the head of the request is too long")
            return None
        first, *lines = self.buffer[:end].decode("latin-1").split("\r\n")
        words = first.split(" ")
        if len(words) != 3 or words[2] != "HTTP/1.1":
            raise BadWire(400 if len(words) != 3 else 505, "HTTP/1.1 is spoken here")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if headers.get("expect", "").lower() == "100-continue" and not self.continued and self.transport is not None:
            self.continued = True
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = self._body(headers, end + 4)
        if body is None:
            return None
        del self.buffer[: body[1]]
        return Received(words[0], words[1], headers, body[0])

    def _body(self, headers: Mapping[str, str], start: int) -> tuple[bytes, int] | None:
        """The body and where it ends in the buffer; None where it is not whole yet."""
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return self._chunks(start)
        length = headers.get("content-length", "0")
        if not length.isdecimal():
            raise BadWire(400, "a content-length is a whole number")
        if int(length) > MOST_BODY_BYTES:
            raise BadWire(413, f"a body has {MOST_BODY_BYTES} bytes at most")
        end = start + int(length)
        return (bytes(self.buffer[start:end]), end) if len(self.buffer) >= end else None

    def _chunks(self, at: int) -> tuple[bytes, int] | None:
        parts = bytearray()
        while (line := self.buffer.find(b"\r\n", at)) >= 0:
            try:
                size = int(bytes(self.buffer[at:line]).split(b";")[0], 16)
            except ValueError:
                raise BadWire(400, "a chunk begins with its size") from None
            if len(parts) + size > MOST_BODY_BYTES:
                raise BadWire(413, f"a body has {MOST_BODY_BYTES} bytes at most")
            at = line + 2
            if not size:
                end = self.buffer.find(b"\r\n", at)
                return (bytes(parts), end + 2) if end == at else self._trailers(parts, at)
            if len(self.buffer) < at + size + 2:
                return None
            parts += self.buffer[at : at + size]
            at += size + 2
        return None

    def _trailers(self, parts: bytearray, at: int) -> tuple[bytes, int] | None:
        end = self.buffer.find(b"\r\n\r\n", at)
        return (bytes(parts), end + 4) if end >= 0 else None

    # ---------------------------------------------------------------- answers

    def respond(self, status: int, body: bytes, kind: str = "application/json", headers: Mapping[str, str] | None = None) -> None:
        """A whole answer."""
        more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        self._write(self._head(status, kind) + f"content-length: {len(body)}\r\n{more}\r\n".encode() + body)
        self._done()

    def begin(self) -> None:
        """An answer of events."""
        self._write(self._head(200, "text/event-stream; charset=utf-8") + b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n")

    def send(self, event: bytes) -> None:
        self._write(b"%x\r\n%b\r\n" % (len(event), event))

    def end(self) -> None:
        """No more events."""
        self._write(b"0\r\n\r\n")
        self._done()

    def reset(self) -> None:
        """The connection is thrown away: the client's next read fails."""
        if self.transport is not None:
            sock = self.transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # no FIN but RST
            self.gone = None
            self.transport.abort()

    def _head(self, status: int, kind: str) -> bytes:
        first = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nserver: hotlap\r\n"
        return f"{first}connection: {'close' if self.closes else 'keep-alive'}\r\ncontent-type: {kind}\r\n".encode()

    def _write(self, data: bytes) -> None:
        if self.transport is not None:
            self.transport.write(data)

    def _done(self) -> None:
        self.gone, self.busy = None, False
        if self.closes and self.transport is not None:
            self.transport.close()
        elif self.buffer:
            asyncio.get_running_loop().call_soon(self._next)


class FineSelector(selectors.DefaultSelector):
    """Waits to the microsecond: epoll alone rounds up to the next millisecond, and a step takes a few of them. Among very many open
    descriptors, epoll alone."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout > 0 and self.fileno() < FD_SETSIZE:
            select.select([self.fileno()], [], [], timeout)
            timeout = 0
        return super().select(timeout)

"""Agents that somebody else started, and that come to the controller by TCP: each side proves that it knows the token, which is never sent.

    member → controller   24 bytes of greeting, 16 random bytes
    controller → member   16 random bytes, HMAC-SHA-256 over both of them
    member → controller   HMAC-SHA-256 over both, a line of JSON that says who it is
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import socket
import subprocess
import time
from contextlib import suppress
from typing import IO, Any

GREETING = b"hotlap-cluster-agent-v1\n"
PATIENCE_S = 5.0  # for one that comes to prove itself
MOST_BYTES = 4096  # of what it says of itself


class SocketProcess:
    """An agent by its connection, as `base.AgentProcess`: nobody knows an exit status of it."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.stdin: IO[bytes] | None = os.fdopen(os.dup(connection.fileno()), "wb", 0)
        self.stdout: IO[bytes] | None = os.fdopen(os.dup(connection.fileno()), "rb", 0)
        inner, outer = os.pipe()
        os.close(outer)
        self.stderr: IO[bytes] | None = os.fdopen(inner, "rb", 0)
        self._code: int | None = None

    def poll(self) -> int | None:
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Raises TimeoutExpired unless it was ended from here: there is nobody to wait for."""
        if self._code is None:
            raise subprocess.TimeoutExpired("agent", timeout or 0.0)
        return self._code

    def kill(self) -> None:
        """Its input ends, and so does it."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()
        self._code = 0

    terminate = kill


class AgentListener:
    """Takes agents that know the token."""

    def __init__(self, host: str, port: int, token: bytes) -> None:
        """Raises OSError where nothing can listen there."""
        self._server, self._token = socket.create_server((host, port), backlog=1024), token
        self.address: tuple[str, int] = self._server.getsockname()[:2]

    def take(self, wait_s: float) -> tuple[dict[str, Any], SocketProcess] | None:
        """The next agent with what it says of itself; None where none came, or a stranger did."""
        self._server.settimeout(max(wait_s, 0.001))
        try:
            connection, _ = self._server.accept()
        except OSError:
            return None
        try:
            connection.settimeout(PATIENCE_S)
            about = self._proved(connection)
            connection.settimeout(None)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except (OSError, ValueError):
            connection.close()
            return None
        return about, SocketProcess(connection)

    def _proved(self, connection: socket.socket) -> dict[str, Any]:
        """What it says of itself. Raises OSError, and ValueError for a stranger."""
        greeting = exactly(connection, len(GREETING) + 16)
        if greeting[: len(GREETING)] != GREETING:
            raise ValueError("another protocol")
        theirs, ours = greeting[len(GREETING) :], secrets.token_bytes(16)
        connection.sendall(ours + proof(self._token, b"controller", theirs, ours))
        if not hmac.compare_digest(exactly(connection, 32), proof(self._token, b"member", theirs, ours)):
            raise ValueError("another token")
        line = b""
        while not line.endswith(b"\n"):
            line += exactly(connection, 1)
            if len(line) > MOST_BYTES:
                raise ValueError("too much said")
        about = json.loads(line)
        if not isinstance(about, dict):
            raise ValueError("no object")
        return about

    def close(self) -> None:
        self._server.close()


def dial(host: str, port: int, token: bytes, about: dict[str, Any], wait_s: float) -> socket.socket:
    """A connection to the controller, both proved. Raises OSError where it is not there within the time, ValueError for a stranger."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            connection = socket.create_connection((host, port), timeout=PATIENCE_S)
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
    ours = secrets.token_bytes(16)
    connection.settimeout(max(deadline - time.monotonic(), PATIENCE_S))  # the controller may take others first
    connection.sendall(GREETING + ours)
    theirs = exactly(connection, 16)
    if not hmac.compare_digest(exactly(connection, 32), proof(token, b"controller", ours, theirs)):
        connection.close()
        raise ValueError(f"what answers on {host}:{port} does not know the token")
    connection.sendall(proof(token, b"member", ours, theirs) + json.dumps(about).encode() + b"\n")
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def proof(token: bytes, side: bytes, member: bytes, controller: bytes) -> bytes:
    """That a side knows the token."""
    return hmac.digest(token, side + member + controller, "sha256")


def exactly(connection: socket.socket, count: int) -> bytes:
    """So many bytes. Raises OSError where they do not come."""
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise ConnectionError("it ended")
        data += part
    return data

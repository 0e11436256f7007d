"""Takes records of pods by HTTP PUT, where that is asked for: with the campaign's token, of its members only, and never over another."""

from __future__ import annotations

import hmac
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from hotlap.cluster import agent
from hotlap.cluster.launch.kubernetes import RECORD

MOST_BYTES = agent.MOST_BUNDLE_BYTES + 4 * agent.MOST_OUTPUT_BYTES  # of one record
MOST_RECORDS = 4  # of one member
IDLE_S = 60.0  # without a byte
CHUNK_BYTES = 1 << 18


@dataclass
class RecordTaker:
    """Records for `count` members into `place`. `tell` hears of each that came."""

    place: Path
    token: bytes
    count: int
    tell: Callable[[str], None] = lambda name: None
    came: dict[int, int] = field(default_factory=dict)  # how many records of each index
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def refusal(self, path: str, authorization: str, length: str) -> tuple[int, str]:
        """Status and reason why a PUT is not taken; (0, "") where it is."""
        if not hmac.compare_digest(authorization.encode(errors="replace"), b"Bearer " + self.token):
            return 401, "another token"
        match = RECORD.fullmatch(path.rpartition("/")[2])
        if not match or int(match[1]) >= self.count:
            return 404, "no record of a member"
        if not length.isdecimal():
            return 411, "its length is missing"
        if int(length) > MOST_BYTES:
            return 413, "longer than any record"
        with self._lock:
            if self.came.get(int(match[1]), 0) >= MOST_RECORDS:
                return 429, "too many records of this member"
            if (self.place / match[0]).exists():
                return 409, "it is there"
            self.came[int(match[1])] = self.came.get(int(match[1]), 0) + 1
        return 0, ""

    def take(self, name: str, source: Any, length: int) -> bool:
        """Whether all of it came. Raises OSError where it cannot be kept."""
        beside = self.place / f".{name}.{threading.get_ident()}"
        left = length
        try:
            with open(beside, "xb") as file:
                while left and (data := source.read(min(left, CHUNK_BYTES))):
                    file.write(data)
                    left -= len(data)
            if left:
                return False
            os.link(beside, self.place / name)
        finally:
            with suppress(OSError):
                beside.unlink()
        self.tell(name)
        return True

    def back(self, name: str) -> None:
        """One that did not come whole does not count."""
        with self._lock:
            index = int(name.partition("-")[0])
            self.came[index] -= 1


def server(host: str, port: int, taker: RecordTaker) -> ThreadingHTTPServer:
    """One that listens, and is to be served and closed. Raises OSError."""

    class Handler(BaseHTTPRequestHandler):
        timeout = IDLE_S
        server_version, sys_version = "hotlap", ""

        def do_PUT(self) -> None:
            length = self.headers.get("Content-Length", "")
            status, why = taker.refusal(self.path, self.headers.get("Authorization", ""), length)
            name = self.path.rpartition("/")[2]
            if not status:
                try:
                    status, why = (201, "kept") if taker.take(name, self.rfile, int(length)) else (400, "it ended early")
                except OSError as error:
                    status, why = 507, f"it cannot be kept: {error.strerror}"
                if status != 201:
                    taker.back(name)
            self.close_connection = True
            self.send_response(status, why)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: a header may hold a secret."""

    listening = ThreadingHTTPServer((host, port), Handler)
    listening.daemon_threads = True
    return listening

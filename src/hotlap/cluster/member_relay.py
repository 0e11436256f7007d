"""Wheels that a member passes on to others of its campaign, so that the controller sends them to a few only. Sent with the agent, so it
needs the standard library only, of Python 3.9 or later.

A request is the campaign's token and a digest (SHA-256), both hexadecimal; the answer is the bytes of that file, or none. The receiver
accepts a file by its digest alone.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import select
import signal
import socket
import threading
import time
from contextlib import suppress
from typing import Any

TOKEN_DIGITS, DIGEST_DIGITS = 32, 64
CONNECT_S = 5.0
STALL_S = 20.0  # without a byte
IDLE_S = 120.0  # without a request, after which nothing is passed on any more
CHUNK_BYTES = 1 << 18


def relay(files: dict[str, str], token: str, host: str) -> tuple[int, int]:
    """A process that passes on files, by their digests, until the descriptor that is returned is closed. -> its port, and that descriptor.
    Raises OSError."""
    held = {digest: os.open(path, os.O_RDONLY) for digest, path in files.items()}  # they may be deleted
    listener = socket.create_server((host, 0))
    port = listener.getsockname()[1]
    inner, outer = os.pipe()
    if os.fork():
        os.close(inner)
        listener.close()
        for number in held.values():
            os.close(number)
        return port, outer
    try:
        for number in (signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        _close_all_but([listener.fileno(), inner, *held.values()])
        _serve(listener, inner, held, token)
    finally:
        os._exit(0)


def _close_all_but(kept: list[int]) -> None:
    """The agent's ways to its controller, and to its guard, end with the agent, not with this process."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    at = 3
    for number in sorted(kept):
        os.closerange(at, number)
        at = number + 1
    os.closerange(at, os.sysconf("SC_OPEN_MAX"))


def _serve(listener: socket.socket, inner: int, held: dict[str, int], token: str) -> None:
    both = select.poll()
    both.register(listener, select.POLLIN)
    both.register(inner, select.POLLIN)  # its end, too
    while True:
        ready = [number for number, _ in both.poll(1e3 * IDLE_S)]
        if inner in ready or (not ready and threading.active_count() == 1):
            return
        if ready:
            stream = listener.accept()[0]
            threading.Thread(target=_pass_on, args=(stream, held, token), daemon=True).start()


def _pass_on(stream: socket.socket, held: dict[str, int], token: str) -> None:
    with stream, suppress(OSError):
        stream.settimeout(STALL_S)
        asked = b""
        while len(asked) < TOKEN_DIGITS + DIGEST_DIGITS and (data := stream.recv(TOKEN_DIGITS + DIGEST_DIGITS - len(asked))):
            asked += data
        number = held.get(asked[TOKEN_DIGITS:].decode("ascii", "replace"))
        if number is None or not hmac.compare_digest(asked[:TOKEN_DIGITS], token.encode()):
            return
        at = 0
        while data := os.pread(number, CHUNK_BYTES, at):
            stream.sendall(data)
            at += len(data)


def fetch(place: tuple[str, int], token: str, file: dict[str, Any], path: str, pause: Any) -> bool:
    """One file from a relay into `path`; `pause` is called between its parts. -> whether all of it came, and as it should"""
    whole, size = hashlib.sha256(), 0
    try:
        with socket.create_connection(place, CONNECT_S) as stream, open(path, "wb") as out:
            stream.sendall((token + file["digest"]).encode())
            stream.settimeout(1.0)
            heard_s = time.monotonic()
            while size < file["size"] and time.monotonic() - heard_s < STALL_S:
                pause()
                try:
                    data = stream.recv(min(CHUNK_BYTES, file["size"] - size))
                except socket.timeout:  # noqa: UP041 - another class before Python 3.10
                    continue
                if not data:
                    break
                heard_s = time.monotonic()
                whole.update(data)
                out.write(data)
                size += len(data)
    except OSError:
        return False
    return bool(whole.hexdigest() == file["digest"])

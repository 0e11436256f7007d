"""Servers of `hotlap serving ab` while they are needed: one that runs, a simulated one, or a program in a process group of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from hotlap.core.errors import InputError, Unavailable
from hotlap.serving import address as addresses
from hotlap.serving import probe
from hotlap.serving.ab_config import ServerSide
from hotlap.serving.address import Address
from hotlap.serving.simulated import options as simulated
from hotlap.serving.simulated import starting

END_S, WAIT_S = 20.0, 0.2
GUARD = """
import os, signal, sys, time
if not sys.stdin.buffer.read():
    os.killpg(int(sys.argv[1]), signal.SIGTERM)
    time.sleep(5)
    os.killpg(int(sys.argv[1]), signal.SIGKILL)
"""
WORDS_KEPT = 4096  # bytes of its last output that a message is made of


@contextmanager
def running(server: ServerSide, is_mine: bool) -> Iterator[tuple[Address, str]]:
    """Its address and model ("": the only one that it lists) while it serves. Raises Unavailable where it does not come up, InputError for
    an address where another already answers."""
    if server.simulated:
        with starting.started(simulated.parse(server.simulator)) as started:
            yield addresses.resolve(started.facts.url, False), server.model or started.facts.model
        return
    address = addresses.resolve(server.url, is_mine)
    if not server.command:
        yield address, server.model
        return
    if _answers(address, server):
        raise InputError(f"another server already answers at {address.shown}: end it, or leave out command to compare that one")
    with tempfile.TemporaryFile() as output:
        process = _start(server, output)
        try:
            with _guarded(process):
                _wait(process, address, server, output)
                yield address, server.model
        finally:
            _end(process)


@contextmanager
def _guarded(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Where Hotlap is killed, a process beside it ends the server with all that it started."""
    argv = [sys.executable, "-I", "-S", "-c", GUARD, str(process.pid)]
    guard = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield
    finally:
        guard.communicate(b"done")


def _start(server: ServerSide, output: IO[bytes]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            server.command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            env={**os.environ, **server.environment},
        )  # fmt: skip
    except OSError as error:
        raise InputError(f"the command '{server.command[0]}' does not start: {error.strerror or error}") from None


def _wait(process: subprocess.Popen[bytes], address: Address, server: ServerSide, output: IO[bytes]) -> None:
    until_s = time.monotonic() + server.ready_s
    while not _answers(address, server):
        if _ended(process):
            reason = f"the server ended before it answered{_last(output)}"
            raise Unavailable(reason, "mend its command; of two that do not fit beside each other: hotlap serving ab --one-at-a-time")
        if time.monotonic() > until_s:
            raise Unavailable(f"the server did not answer within {server.ready_within}{_last(output)}", "give it more by ready_within")
        time.sleep(WAIT_S)


def _answers(address: Address, server: ServerSide) -> bool:
    """Whether one of the paths is there; a loading server has a port and refuses."""
    headers = {"Authorization": f"Bearer {os.environ[server.api_key_env]}"} if server.api_key_env else {}
    for path in [server.ready] if server.ready else ["/health", f"{address.base}/models"]:
        with suppress(Unavailable):
            if probe.get(address, path, headers) is not None:
                return True
    return False


def _ended(process: subprocess.Popen[bytes]) -> bool:
    """Without taking it from the system's table, so that its group keeps its number."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(process: subprocess.Popen[bytes]) -> None:
    """By SIGTERM; what is left of its group then, or after a while, by SIGKILL."""
    until_s = time.monotonic() + END_S
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        while not _ended(process) and time.monotonic() < until_s:
            time.sleep(WAIT_S / 4)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _last(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(size - WORDS_KEPT, 0))
    lines = output.read().decode(errors="replace").strip().splitlines()
    return f"; its last words: {lines[-1].strip()[:200]}" if lines else ""

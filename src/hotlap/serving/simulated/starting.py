"""A simulated server started as a process of its own, and ended."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

import msgspec

from hotlap.core.errors import InputError, Unavailable
from hotlap.serving.simulated import options as asked
from hotlap.serving.simulated.facts import ServerFacts
from hotlap.serving.simulated.options import ServerOptions

START_S = 60.0  # for imports and the table of steps, on a busy machine
END_S = 5.0


class Started(NamedTuple):
    """A server that listens."""

    facts: ServerFacts
    process: subprocess.Popen[bytes]


@contextmanager
def started(options: ServerOptions) -> Iterator[Started]:
    """It listens inside, and is ended at the end; Ctrl-C does not reach it. Raises InputError for options that the
    server refuses, Unavailable with what it printed where it does not come up."""
    with tempfile.TemporaryFile() as errors:
        command = [sys.executable, "-P", "-m", "hotlap.serving.simulated", asked.encode(options), str(os.getpid())]
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": errors}
        process = subprocess.Popen(command, **pipes, start_new_session=True)
        try:
            assert process.stdout is not None
            line = _line(process.stdout)
            if not line:
                code = _ended(process)
                errors.seek(0)
                lines = errors.read().decode(errors="replace").strip().splitlines()
                if lines and code == InputError.exit_code:
                    raise InputError(lines[-1])
                raise Unavailable("the simulated server did not start", lines[-1] if lines else f"no word of it in {START_S:.0f} s")
            yield Started(msgspec.json.decode(line, type=ServerFacts), process)
        finally:
            end(process)


def _line(pipe: IO[bytes]) -> bytes:
    """The first line; empty where there is none in time."""
    text, until = b"", time.monotonic() + START_S
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while not text.endswith(b"\n") and selector.select(max(until - time.monotonic(), 0.0)):
            more = os.read(pipe.fileno(), 2**16)
            if not more:
                return b""
            text += more
    return text if text.endswith(b"\n") else b""


def _ended(process: subprocess.Popen[bytes]) -> int:
    """The exit code of a server that says no more; it is killed where it does not end."""
    try:
        return process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def end(process: subprocess.Popen[bytes]) -> int:
    """By SIGTERM, by SIGKILL where that does nothing; its exit code."""
    process.terminate()
    try:
        return _ended(process)
    finally:
        if process.stdout is not None:
            process.stdout.close()

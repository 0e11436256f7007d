"""Work in a process of its own: a module of Hotlap that reads a job from standard input and writes its answer to standard output."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping


class Broken(Exception):
    """The process gave no answer; the text says how it ended: "ended with status 1; its last words: …"."""


def answer(module: str, job: bytes, limit_s: float, environment: Mapping[str, str]) -> bytes:
    """What `module` writes, run as a program with no other environment than this. Raises Broken where it ends badly, says nothing or takes
    longer than `limit_s`, seconds."""
    command = [sys.executable, "-P", "-m", module]
    try:
        done = subprocess.run(command, input=job, capture_output=True, timeout=limit_s, check=False, env=environment)
    except subprocess.TimeoutExpired:
        raise Broken(f"did not end within {limit_s:.0f} s and was stopped") from None
    if done.returncode or not done.stdout.strip():
        words = [line for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
        raise Broken(f"ended with status {done.returncode}; its last words: {words[-1] if words else 'none'}")
    return done.stdout

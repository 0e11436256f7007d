"""Processes of a campaign on a member: found by a mark in their environment, never by name. Sent with the agent, so it needs the standard
library only, of Python 3.9 or later."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

MARK = "HOTLAP_CLUSTER_MARK"
GRACE_S = 2.0  # between SIGTERM and SIGKILL


def marked(mark: str) -> tuple[list[int], int]:
    """Processes whose environment has this mark, or one that begins with it and a slash; and how many could not be looked at."""
    wanted, pids, hidden = (MARK + "=" + mark).encode(), [], 0
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                names = file.read().split(b"\0")
        except PermissionError:
            hidden += 1
            continue
        except OSError:
            continue
        if any(item == wanted or item.startswith(wanted + b"/") for item in names):
            pids.append(int(name))
    return pids, hidden


def sweep(mark: str, grace_s: float = GRACE_S) -> tuple[int, list[int], int]:
    """Ends them: how many were there, which are left, and how many processes could not be looked at."""
    before, _ = marked(mark)
    everyone, deadline = set(before), time.monotonic() + grace_s
    _signal(before, signal.SIGTERM)
    _signal(before, signal.SIGCONT)
    while True:
        pids, hidden = marked(mark)
        everyone.update(pids)
        if not pids or time.monotonic() > deadline + GRACE_S:
            return len(everyone), pids, hidden
        if time.monotonic() > deadline:
            _signal(pids, signal.SIGKILL)
        time.sleep(0.02)


def _signal(pids: list[int], number: int) -> None:
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, number)

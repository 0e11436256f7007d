"""Agents of a campaign that were on this member before, by the notes in their folders. Sent with the agent, so it needs the standard
library only, of Python 3.9 or later."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from contextlib import suppress
from typing import Any

PREFIX = "hotlap-agent-"
NOTE = "agent.json"  # in an agent's folder: its mark, its process, and when that began
OLD_S = 7 * 86400.0  # for what nobody has fetched


def places() -> list[str]:
    """Where an agent's folder may be, in the order in which they are tried."""
    named = [os.environ.get("TMPDIR", ""), "/tmp", "/var/tmp", "/dev/shm", os.environ.get("HOME", "")]
    return [place for place in dict.fromkeys(named) if place]


def note(folder: str, mark: str) -> None:
    """Says whose folder it is. Raises OSError."""
    with open(os.path.join(folder, NOTE), "w") as file:
        json.dump({"mark": mark, "pid": os.getpid(), "began": began(os.getpid())}, file)


def began(pid: int) -> str:
    """When a process began, in ticks since boot: no later process of its number has the same. "" where there is none."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def end_earlier(mark: str) -> int:
    """Ends agents with this mark that are there still, stopped ones too, and removes the folders of those and of very old ones. -> how many
    were ended"""
    ended = 0
    for folder, kept in _notes():
        if kept["mark"] != mark:
            if not began_as(kept) and time.time() - os.lstat(folder).st_mtime > OLD_S:
                shutil.rmtree(folder, ignore_errors=True)
            continue
        if began_as(kept):
            with suppress(OSError):
                os.kill(kept["pid"], signal.SIGKILL)
                ended += 1
        shutil.rmtree(folder, ignore_errors=True)
    return ended


def began_as(kept: dict[str, Any]) -> bool:
    """Whether the process of a note is there still."""
    return bool(kept["began"]) and began(kept["pid"]) == kept["began"]


def _notes() -> list[tuple[str, dict[str, Any]]]:
    """Folders of agents of this user, with their notes; this agent's own is left out."""
    notes = []
    for place in places():
        with suppress(OSError):
            for name in os.listdir(place):
                folder = os.path.join(place, name)
                kept = _note(folder) if name.startswith(PREFIX) else None
                if kept and kept["pid"] != os.getpid():
                    notes.append((folder, kept))
    return notes


def _note(folder: str) -> dict[str, Any] | None:
    with suppress(OSError, ValueError):
        if os.lstat(folder).st_uid != os.getuid() or os.path.islink(folder):
            return None
        with open(os.path.join(folder, NOTE)) as file:
            kept = json.loads(file.read(4096))
        if isinstance(kept, dict) and isinstance(kept.get("pid"), int) and all(isinstance(kept.get(key), str) for key in ("mark", "began")):
            return kept
    return None

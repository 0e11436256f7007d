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
OWN = ".hotlap-"  # begins the names of an agent's files beside those of the program that runs there
ENDED = OWN + "ended.json"  # in a step's folder: how it ended, where nobody has fetched that
LEAVE = signal.SIGUSR1  # says to an agent that its controller is gone
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


def take_over(mark: str, adopt: bool) -> tuple[int, bool]:
    """Ends agents with this mark, or one below it, that are there still, stopped ones too, and removes their folders and very old ones.

    `adopt`: one that runs a step is told that its controller is gone, and one that has ended a step which nobody fetched is left as it is.
    -> how many were ended, and whether one is still at work
    """
    ended, beside = 0, False
    for folder, kept in _notes():
        there = began_as(kept)
        if kept["mark"] != mark and not kept["mark"].startswith(mark + "/"):
            if not there and time.time() - os.lstat(folder).st_mtime > OLD_S:
                shutil.rmtree(folder, ignore_errors=True)
            continue
        if adopt and _steps(folder, ENDED) and not there:
            continue
        with suppress(OSError):
            if adopt and there and _steps(folder) and _state(kept["pid"]) != "T":
                os.kill(kept["pid"], LEAVE)
                beside = True
                continue
            if there:
                os.kill(kept["pid"], signal.SIGKILL)
                ended += 1
        shutil.rmtree(folder, ignore_errors=True)
    return ended, beside


def ended_steps(mark: str) -> list[int]:
    """Which an agent before has run to their end, and nobody fetched."""
    places = [place for folder, kept in _notes() if kept["mark"] == mark for place in _steps(folder, ENDED)]
    return sorted({int(os.path.basename(place).partition("-")[0]) for place in places})


def of_step(mark: str, step: int) -> tuple[str, dict[str, Any]] | None:
    """Where an agent before has run this step to its end, or runs it, and its note."""
    working = None
    for folder, kept in _notes():
        for place in _steps(folder) if kept["mark"] == mark else []:
            if os.path.basename(place).partition("-")[0] == str(step):
                if os.path.exists(os.path.join(place, ENDED)):
                    return place, kept
                working = (place, kept) if began_as(kept) else working
    return working


def _steps(folder: str, name: str = "") -> list[str]:
    """Folders of steps in an agent's, those with this file in them."""
    with suppress(OSError):
        steps = [os.path.join(folder, entry) for entry in os.listdir(folder) if entry.replace("-", "").isdigit()]
        return [step for step in steps if os.path.exists(os.path.join(step, name))]
    return []


def _state(pid: int) -> str:
    with suppress(OSError, IndexError), open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]
    return ""


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

"""The folder that a test process has to itself, and what killed ones left behind: it is held by a lock as long as its process lives."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
import time
from pathlib import Path
from typing import IO

PREFIX = "hotlap-tests-"
YOUNG_S = 600.0  # one that was just made may not be locked yet
_held: list[IO[str]] = []  # locks last as long as their files are open


def folder() -> Path:
    """Makes and holds one; removes those of processes that are gone."""
    remove_abandoned(Path(tempfile.gettempdir()))
    own = Path(tempfile.mkdtemp(prefix=PREFIX))
    _held.append((own / "lock").open("w"))
    fcntl.flock(_held[-1], fcntl.LOCK_EX)
    return own


def remove_abandoned(place: Path, young_s: float = YOUNG_S) -> None:
    for one in place.glob(f"{PREFIX}*"):
        try:
            if time.time() - one.stat().st_mtime < young_s:
                continue
            with (one / "lock").open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(one, ignore_errors=True)
        except OSError:
            continue  # held, of another user, or removed by a process beside this

"""Where everything is kept: HOTLAP_HOME, else the user's data folder of the system."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from hotlap.errors import MachineError


def home() -> Path:
    """The folder of runs, catalog and locks, made when it is missing.

    HOTLAP_HOME, else `hotlap` in the user's data folder: XDG base directories on Linux, Library/Application Support on
    macOS, LOCALAPPDATA on Windows. Raises MachineError when it cannot be made.
    """
    try:
        folder = place(os.environ, sys.platform)
    except RuntimeError as error:  # no HOME, or a ~user that is not there
        raise MachineError(f"the user's data folder is not known ({error}); set HOTLAP_HOME to a folder that can be written") from None
    return made(folder)


def place(environment: Mapping[str, str], platform: str) -> Path:
    """Where the home is by these variables on this platform, made or not."""
    if chosen := environment.get("HOTLAP_HOME"):
        return Path(os.path.abspath(Path(chosen).expanduser()))
    if platform == "win32":
        local = environment.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "hotlap"
    if platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "hotlap"
    data = environment.get("XDG_DATA_HOME", "")
    # The XDG base directory specification has relative paths ignored.
    return (Path(data) if os.path.isabs(data) else Path.home() / ".local" / "share") / "hotlap"


def runs(home: Path) -> Path:
    """The folder that holds a folder per run; it may not be there yet."""
    return home / "runs"


def made(folder: Path) -> Path:
    """The folder itself, made with its parents when it is missing. Raises MachineError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = "it is a file" if isinstance(error, FileExistsError) else error.strerror
        raise MachineError(f"the folder '{folder}' cannot be made: {why}; set HOTLAP_HOME to a folder that can be written") from None
    return folder

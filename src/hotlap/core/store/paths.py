"""Where everything is kept: HOTLAP_HOME, else the user's data folder of the system; and the locks that all users of a machine share."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hotlap.core.errors import MachineError


def home() -> Path:
    """The folder of runs and catalog, made when it is missing.

    HOTLAP_HOME, else `hotlap` in the user's data folder: XDG base directories on Linux, Library/Application Support on
    macOS, LOCALAPPDATA on Windows. Raises MachineError when it cannot be made.
    """
    try:
        folder = place(os.environ, sys.platform)
    except RuntimeError as error:  # no HOME, or a ~user that is not there
        raise MachineError(f"the user's data folder is not known ({error}); set HOTLAP_HOME to a folder that can be written") from None
    return create(folder)


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


def locks() -> Path:
    """The folder of the locks of devices, one for all users and homes of the machine, made when it is missing.

    HOTLAP_LOCKS, else /run/lock/hotlap, else hotlap-locks in /tmp (TMPDIR may be the user's or the job's own) or, without one, in
    the system's folder for temporary files. Raises MachineError when none of them can be written.
    """
    chosen = os.environ.get("HOTLAP_LOCKS")
    if chosen:
        places = [Path(os.path.abspath(Path(chosen).expanduser()))]
    else:
        temporary = Path("/tmp") if os.path.isdir("/tmp") and os.name == "posix" else Path(tempfile.gettempdir())
        places = [Path("/run/lock/hotlap"), temporary / "hotlap-locks"]
    reasons = []
    for folder in places:
        try:
            return _shared(folder, parents=bool(chosen))
        except OSError as error:
            reasons.append(f"'{folder}' ({error.strerror})")
    raise MachineError(
        f"the locks of devices cannot be kept in {' or '.join(reasons)}; set HOTLAP_LOCKS to a folder that all who measure here can write"
    )


def _shared(folder: Path, parents: bool) -> Path:
    """The folder, of mode 1777 from its first moment: every user may make files in it and nobody remove another's. Raises OSError."""
    if not folder.is_dir():
        if parents:
            folder.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=".hotlap-", dir=folder.parent))
        try:
            fresh.chmod(0o1777)
            fresh.rename(folder)
        except OSError:
            fresh.rmdir()
            if not folder.is_dir():  # else another process was first
                raise
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return folder


def create(folder: Path) -> Path:
    """The folder itself, made with its parents when it is missing. Raises MachineError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = "it is a file" if isinstance(error, FileExistsError) else error.strerror
        raise MachineError(f"the folder '{folder}' cannot be made: {why}; set HOTLAP_HOME to a folder that can be written") from None
    return folder

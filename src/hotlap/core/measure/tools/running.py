"""One execution of a tool: in a folder that was made for it, behind a wall, for a limited time."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hotlap.core import units
from hotlap.core.errors import InputError, NotSupported
from hotlap.core.measure.spawn import Execution, Launcher, TimedOut
from hotlap.core.measure.tools import enclosed, toolfile
from hotlap.core.measure.tools.reading import ToolOutput
from hotlap.core.measure.tools.toolfile import ToolFile

MOST_BYTES = 64 * 2**20  # of an output that is read
PARTS = re.compile(r"[=:,;\s]+")
SPARE_BYTES = 256 * 2**20  # that a disk keeps beside what a tool writes


class Executed(NamedTuple):
    """What came of it. `late`: its time was over; `began_s` and `ended_s` by the caller's clock are its own affair."""

    output: ToolOutput
    execution: Execution | None
    late: str = ""


def check(tool: ToolFile, given: Mapping[str, object]) -> dict[str, str]:
    """The parameters of a run. Raises InputError, also for one that leads out of the folder made for the run."""
    settings = tool.settings(given)
    for name in given:
        spec = tool.parameters[name]
        if not isinstance(spec.default, str) or spec.unit:
            continue
        if spec.input:
            settings[name] = _input(name, settings[name])
        elif outside := next((part for part in PARTS.split(settings[name]) if _leads_out(part)), ""):
            where = "a device" if outside.startswith("/dev/") else "a place outside the folder that is made for the run"
            raise InputError(f"{tool.name}: '{name}' names {where}, '{outside}'; tools write only into that folder: leave it out")
    return settings


def _leads_out(part: str) -> bool:
    return part.startswith(("/", "~", "\\")) or ".." in Path(part).parts


def _input(name: str, text: str) -> str:
    path = Path(text).absolute()
    try:
        regular = stat.S_ISREG(path.stat().st_mode)
    except OSError as error:
        raise InputError(f"'{name}': there is no file '{text}' ({error.strerror})") from None
    if not regular:
        raise InputError(f"'{name}': '{text}' is no regular file; give a file that can be read")
    return str(path)


def execute(tool: ToolFile, program: str, settings: Mapping[str, str], folder: Path | None = None) -> Executed:
    """Runs it once and takes up what it left; nothing of it is running afterwards. `folder`: where the run's folder is made.

    Raises NotSupported where it cannot be started.
    """
    assert tool.run is not None
    with _own_folder(tool, settings, folder) as out:
        argv = [*tool.run.prefix, *tool.run.command]
        values = {**settings, "program": program, "out": str(out / "out"), "port": str(_free_port())}
        job = {
            "network": _network(tool), "memory_bytes": int(units.parse(tool.run.memory, "B")) if tool.run.memory else 0,
            "argv": [toolfile.filled(word, values) for word in argv], "server": [toolfile.filled(word, values) for word in tool.run.server],
            "port": int(values["port"]), "stdout": str(out / "stdout"), "stderr": str(out / "stderr"),
        }  # fmt: skip
        limit_s = toolfile.seconds(tool.run.timeout, settings)
        launcher = Launcher(
            [sys.executable, "-I", "-S", enclosed.__file__, json.dumps(job)], _environment(tool, out / "out", values), str(out / "out"),
            "pipe", limit_s,
        )  # fmt: skip
        try:
            done = launcher.once()
        except TimedOut:
            return Executed(_output(out, None), None, f"{tool.name} ran longer than its limit of {units.exact(limit_s, 's')} and was ended")
        except (OSError, ValueError) as error:
            raise NotSupported(f"{tool.name} cannot be started: {error}") from error
        if done.status == enclosed.NOT_STARTED and done.errors.strip():
            raise NotSupported(f"{tool.name} cannot be started: {done.errors.strip()}")
        return Executed(_output(out, done.status), done)


def _environment(tool: ToolFile, out: Path, values: Mapping[str, str]) -> dict[str, str]:
    """That of the user, in English and without colours; home and caches in the run's folder, but for a program with a licence there."""
    assert tool.run is not None
    own = {"LC_ALL": "C", "LANG": "C", "LANGUAGE": "C", "NO_COLOR": "1", "TERM": "dumb"}
    if not tool.run.home and "licence" not in tool.needs:
        home = os.environ.get("HOME", "")
        own |= {"HOME": str(out), "XDG_CACHE_HOME": str(out), "XDG_CONFIG_HOME": str(out), "XDG_DATA_HOME": str(out)}
        own |= {"XAUTHORITY": f"{home}/.Xauthority"} if "XAUTHORITY" not in os.environ and Path(home, ".Xauthority").exists() else {}
    return {**os.environ, **own, **{name: toolfile.filled(text, values) for name, text in tool.run.environment.items()}}


@contextmanager
def _own_folder(tool: ToolFile, settings: Mapping[str, str], folder: Path | None) -> Iterator[Path]:
    """Made for one execution, and removed. Raises NotSupported where the disk has no room for what the tool writes."""
    assert tool.run is not None
    with TemporaryDirectory(prefix="hotlap-tool-", dir=folder, ignore_cleanup_errors=True) as name:
        needed = units.parse(settings.get(tool.run.space, tool.run.space) or "0", "B")
        free = shutil.disk_usage(name).free
        if needed and free < needed + SPARE_BYTES:
            room = f"{units.size(needed)}, {units.size(SPARE_BYTES)} stay free, and {Path(name).parent} has {units.show(free, 'B')}"
            raise NotSupported(f"{tool.name} writes {room}; set TMPDIR to another disk")
        (Path(name) / "out").mkdir()
        yield Path(name)


def _output(out: Path, status: int | None) -> ToolOutput:
    files = {path.name: _text(path) for path in sorted((out / "out").iterdir()) if path.is_file() and not path.is_symlink()}
    return ToolOutput(status, _text(out / "stdout"), _text(out / "stderr"), files)


def _text(path: Path) -> str:
    """The beginning of a file; "" where there is none. A file that is longer than what is read is taken for none."""
    try:
        if path.stat().st_size > MOST_BYTES:
            return ""
        return path.read_bytes().decode("utf-8", errors="replace")
    except OSError:
        return ""


# ---------------------------------------------------------------- the wall


def _network(tool: ToolFile) -> str:
    if "network" in tool.needs or (tool.run and tool.run.prefix) or not closable():
        return "host"
    return "loopback" if "loopback" in tool.needs else "none"


@cache
def closable() -> bool:
    """Whether this user may have a network namespace here."""
    if sys.platform != "linux":
        return False
    job = json.dumps({"network": "loopback", "argv": ["true"]})
    try:
        return Launcher([sys.executable, "-I", "-S", enclosed.__file__, job], dict(os.environ), None, "pipe", 10.0).once().status == 0
    except (TimedOut, OSError, ValueError):
        return False


def open_network(tool: ToolFile) -> str:
    """Why a tool's network is not closed although nothing in its file asks for one; "" where it is."""
    if "network" in tool.needs or (tool.run and tool.run.prefix) or closable():
        return ""
    return "this user may not have a network namespace here, so the tool ran with the machine's own network"


def _free_port() -> int:
    with socket.socket() as channel:
        channel.bind(("127.0.0.1", 0))
        return int(channel.getsockname()[1])

"""Whether a tool can be run here: its program, its version, what it needs, and the command that installs it where it is missing."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hotlap.core.measure.spawn import Launcher, TimedOut
from hotlap.core.measure.tools.rows import clean
from hotlap.core.measure.tools.toolfile import ToolFile

VERSION_S = 20.0  # for a program to say its version
MANAGERS = {
    "debian": ("apt-get", "apt-get install"), "fedora": ("dnf", "dnf install"), "arch": ("pacman", "pacman -S"),
    "pip": ("pip", "pip install"),
}
"""Who installs a package → its program, and the command."""


class FoundTool(NamedTuple):
    """`missing`: why it cannot be run here; "" where it can. `remedy`: the command that installs it. `untested`: a version whose output
    was not seen."""

    program: str = ""
    version: str = ""
    missing: str = ""
    remedy: str = ""
    untested: bool = False
    lacks: str = ""  # what of its needs is not here: display, gpu …


def find(tool: ToolFile, environment: Mapping[str, str] | None = None) -> FoundTool:
    """Looks for the program and asks for its version. Never raises."""
    environment = os.environ if environment is None else environment
    if tool.run and tool.run.prefix:
        return _elsewhere(tool, tool.run.prefix, environment)
    if not tool.runs:
        return FoundTool(missing="it is not run from here; its result files can be read", remedy=install(tool))
    program = next((path for name in tool.find if (path := shutil.which(name, path=environment.get("PATH")))), None)
    if program is None:
        names = " or ".join(tool.find)
        return FoundTool(missing=f"there is no program {names}", remedy=install(tool))
    version, wrong = _version(tool, program, environment)
    if wrong:
        return FoundTool(program, missing=wrong, remedy=install(tool))
    if tool.version.least and version and _order(version) < _order(tool.version.least):
        return FoundTool(program, version, f"version {version} is too old: {tool.version.least} is the least", install(tool))
    lacks = next((need for need, (here, _) in NEEDS.items() if need in tool.needs and not here(environment)), "")
    if lacks:
        return FoundTool(program, version, NEEDS[lacks][1], lacks=lacks)
    return FoundTool(program, version, untested=bool(tool.version.tested) and version not in tool.version.tested)


def _elsewhere(tool: ToolFile, prefix: Sequence[str], environment: Mapping[str, str]) -> FoundTool:
    """Behind a prefix: whether it is there, only its version says."""
    if shutil.which(prefix[0], path=environment.get("PATH")) is None:
        return FoundTool(missing=f"there is no program {prefix[0]}, which stands in front of it")
    version, wrong = _version(tool, tool.find[0], environment, prefix)
    return FoundTool(tool.find[0], version, wrong, untested=not wrong and bool(tool.version.tested) and version not in tool.version.tested)


def _version(tool: ToolFile, program: str, environment: Mapping[str, str], prefix: Sequence[str] = ()) -> tuple[str, str]:
    """The version, and why the program is not the one that is meant."""
    asked = tool.version
    if not asked.run:
        return "", ""
    argv = [*prefix, *(word.replace("{program}", program) for word in asked.run)]
    try:
        done = Launcher(argv, {**environment, "LC_ALL": "C"}, None, "pipe", VERSION_S).once()
    except TimedOut:
        return "", f"{program} did not say its version within {VERSION_S:g} s"
    except (OSError, ValueError) as error:
        return "", f"{program} cannot be run: {error}"
    match = re.search(asked.match, clean(f"{done.output}\n{done.errors}"), re.MULTILINE) if asked.match else None
    if asked.match and not match:
        return "", f"{program} is another program of that name: it does not print '{asked.match}' for {' '.join(argv[1:]) or 'its version'}"
    return (match[1] if match.groups() else match[0]) if match else "", ""


def _order(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def _gpu() -> bool:
    return Path("/dev/nvidia0").exists() or Path("/dev/kfd").exists() or any(Path("/dev/dri").glob("renderD*"))


NEEDS: Mapping[str, tuple[Callable[[Mapping[str, str]], bool], str]] = {
    "display": (
        lambda environment: bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")),
        "it needs a display (DISPLAY is not set); xvfb-run before the command gives it one that the processor draws",
    ),
    "gpu": (lambda _: _gpu(), "it needs a GPU, and this machine shows none (/dev/nvidia0, /dev/kfd, /dev/dri/renderD*)"),
    "root": (lambda _: os.geteuid() == 0, "it needs root"),
    "mpi": (lambda environment: shutil.which("mpirun", path=environment.get("PATH")) is not None, "it needs mpirun, which is not here"),
}
"""What a tool may need → whether it is here, and what is said where it is not."""


def install(tool: ToolFile) -> str:
    """The command that installs it here, else where it comes from."""
    for name, (program, command) in MANAGERS.items():
        if name in tool.install and shutil.which(program):
            return f"{command} {tool.install[name]}"
    return (tool.install.get("source") or tool.site).partition(" ")[0]

"""Captures of a program that draws, by MangoHud: each in a process of its own, started and read as its tool file says.

The tool file is found by the table of features: what reads other people's tools may be absent, and then nothing is captured.
What MangoHud does not say of itself is handled here: a log only where the program still draws when it is due, the summary beside it, a log
for every process that draws.
"""

from __future__ import annotations

import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from hotlap.core import extend, units
from hotlap.core.errors import InputError, MachineError, NotSupported, Unavailable
from hotlap.core.measure.tools import finding, running
from hotlap.core.measure.tools.finding import FoundTool
from hotlap.core.measure.tools.toolfile import ToolFile
from hotlap.core.work.program import cannot_start
from hotlap.frames import reading
from hotlap.frames.record import FrameCapture

TOOL = "mangohud"
SUMMARY = "_summary.csv"
SPARE_S = 2  # in which the log is written, when it is complete


@dataclass(frozen=True)
class LogOptions:
    """What to run and how long. Times in whole s: `logged_s` of frames, from `after_s` behind the first; `start_s` until there is one."""

    argv: Sequence[str]
    logged_s: int
    after_s: int
    start_s: int
    captures: int
    process: str = ""  # only logs whose program has this in its name
    folder: Path = Path()  # in which the program runs


Listener = Callable[[int, str], None]
"""Told of each capture when it is over: its number from 0, and why it gave none ("" where it did)."""


def capture(options: LogOptions, home: Path, listen: Listener) -> Iterator[FrameCapture]:
    """The captures that succeed, one a process, each as soon as it is read.

    Raises InputError for no such program, Unavailable where MangoHud, its tool file or a display is missing, MachineError where the first
    capture gives none, with the reason.
    """
    program = shutil.which(options.argv[0])
    if program is None:
        raise InputError(cannot_start(options.argv[0]))
    tool, place = _tool(home)
    command = _one_word([str(Path(program).absolute()), *options.argv[1:]])
    settings = tool.settings({
        "over": command, "seconds": options.logged_s, "after": options.after_s, "folder": str(options.folder.absolute()),
        "limit": options.start_s + options.after_s + options.logged_s + SPARE_S,
    })
    taken = 0
    for number in range(options.captures):
        log, refused = _once(tool, place.program, settings, options)
        if log is not None:
            facts = {"command": shlex.join(options.argv), **({TOOL: place.version} if place.version else {})}
            taken += 1
            yield FrameCapture(replace(log.kept, facts={**log.kept.facts, **facts}), log.ticks)
        listen(number, refused)
        if not taken:
            raise MachineError(f"nothing was captured: {refused}")


def _tool(home: Path) -> tuple[ToolFile, FoundTool]:
    """The user's own program runs as he would run it: with his home folder and the network."""
    load = extend.find("tool_files", "load")
    if load is None:
        raise Unavailable("the part of Hotlap that knows other people's tools, MangoHud too, is not here", "give captures that it wrote")
    tool: ToolFile = load(TOOL, home)
    place = finding.find(tool)
    if place.missing:
        remedy = place.remedy if place.program else f"install it with: {place.remedy}"
        raise Unavailable(f"MangoHud cannot be run: {place.missing}", remedy)
    assert tool.run is not None
    return replace(tool, needs=[*tool.needs, "network"], run=replace(tool.run, home=True)), place


def _one_word(argv: Sequence[str]) -> str:
    """A command as `env -S` takes it apart again (coreutils: in single quotes, only \\\\ and \\' are special)."""
    return " ".join("'" + word.replace("\\", "\\\\").replace("'", "\\'") + "'" for word in argv)


def _once(tool: ToolFile, program: str, settings: dict[str, str], options: LogOptions) -> tuple[FrameCapture | None, str]:
    """One capture, or why there is none."""
    try:
        done = running.execute(tool, program, settings)
    except NotSupported as error:
        return None, error.reason
    logs = {name: text for name, text in done.output.files.items() if name.endswith(".csv") and not name.endswith(SUMMARY) and text}
    chosen = [name for name in logs if options.process.casefold() in name.casefold()]
    if not chosen:
        return None, done.late or _no_log(done.output.status, done.output.stderr, list(logs), options)
    if len(chosen) > 1:
        return None, f"{len(chosen)} programs drew: {', '.join(chosen)}; choose one with --process"
    with tempfile.TemporaryDirectory(prefix="hotlap-frames-") as folder:
        path = Path(folder, chosen[0])
        path.write_text(logs[chosen[0]], encoding="utf-8")
        try:
            (log,) = reading.read(path)
        except InputError as error:
            return None, str(error).replace(f"{folder}/", "")
    return log, ""


def _no_log(status: int | None, errors: str, others: list[str], options: LogOptions) -> str:
    if others:
        return f"no program that drew has '{options.process}' in its name: {', '.join(others)}"
    if status in (None, 124, 137):
        longest = units.exact(options.start_s + options.after_s + options.logged_s + SPARE_S, "s")
        return (
            f"MangoHud saw no complete log within {longest}: give a program that draws by Vulkan or OpenGL all that time, "
            "and more of it with --start"
        )
    if status:
        last = (errors.strip().splitlines() or ["it printed nothing"])[-1]
        return f"the program ended with status {status}: {last[:160]}"
    needed = units.exact(options.after_s + options.logged_s, "s")
    return f"the program ended by itself before {needed} of frames, and MangoHud writes whole logs only; ask for less with --seconds"

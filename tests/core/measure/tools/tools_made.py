"""Tool files for tests, written into a folder."""

from __future__ import annotations

from pathlib import Path

from hotlap.core.measure.tools import toolfile
from hotlap.core.measure.tools.reading import ToolOutput, ToolReading, read
from hotlap.core.measure.tools.toolfile import ToolFile

HEAD = 'name = "{name}"\nabout = "for a test"\nmeasures = "machine"\nfind = ["{program}"]\n'


def tool(folder: Path, text: str, name: str = "mine", program: str = "sh", run: str = 'command = ["{program}", "-c", "true"]') -> ToolFile:
    """A tool file with this [run] and these tables behind it. Raises InputError."""
    path = folder / f"{name}.toml"
    path.write_text(HEAD.format(name=name, program=program) + (f"[run]\n{run}\n" if run else "") + text)
    return toolfile.load(path)


def numbers(answer: ToolReading) -> dict[str, tuple[float, ...]]:
    """By name, those that have one."""
    return {value.name: value.values for value in answer.values if value.values}


def reading_of(folder: Path, result: str, stdout: str = "", status: int | None = 0, **files: str) -> ToolReading:
    """What a [[result]] reads of an output."""
    written = {name.replace("_", "."): text for name, text in files.items()}
    return read(tool(folder, f"[[result]]\n{result}\n"), ToolOutput(status, stdout, "", written))

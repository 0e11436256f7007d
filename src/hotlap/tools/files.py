"""Where tool files stand: Hotlap's own, the user's, those of the current folder. A later one of the same name replaces an earlier one."""

from __future__ import annotations

from pathlib import Path

from hotlap.core.errors import InputError, nearest
from hotlap.core.measure.tools import toolfile
from hotlap.core.measure.tools.toolfile import ToolFile

OWN = Path(__file__).parent / "catalogue"


def folders(home: Path) -> list[Path]:
    return [OWN, home / "tools", Path("tools")]


def names(home: Path) -> dict[str, Path]:
    """Tool files by name."""
    return {path.stem: path for folder in folders(home) if folder.is_dir() for path in sorted(folder.glob("*.toml"))}


def load(name: str, home: Path) -> ToolFile:
    """The tool of a name, or of a path that ends in .toml. Raises InputError with the nearest name there is."""
    if name.endswith(".toml"):
        return toolfile.load(Path(name))
    known = names(home)
    if name not in known:
        where = f"a file of your own is {home / 'tools' / f'{name}.toml'} (docs/adding-a-tool.md)"
        raise InputError(f"there is no tool '{name}'; {nearest(name, known, len(known))}; {where}")
    return toolfile.load(known[name])


def every(home: Path) -> list[ToolFile]:
    """All tools by name. Raises InputError for a file that is not valid."""
    return [toolfile.load(path) for _, path in sorted(names(home).items())]

"""What the paths given to `hotlap import` hold: bundles, results of other tools, tables, logs of simulators; nothing is written here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from hotlap.core.errors import InputError
from hotlap.core.store.readers import accelsim, archives, bundled, formats
from hotlap.core.store.readers.source import ReadRun, Source


@dataclass
class Gathered:
    """By kind. `unclaimed`: files of folders that no reader takes; `places`: what users gave, by where it was unpacked."""

    bundles: list[Path] = field(default_factory=list)
    runs: dict[str, list[ReadRun]] = field(default_factory=dict)
    tables: list[Source] = field(default_factory=list)
    logs: list[Path] = field(default_factory=list)
    unclaimed: list[Path] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many things can be imported."""
        return len(self.bundles) + sum(map(len, self.runs.values())) + len(self.tables) + len(self.logs)


def gather(paths: Sequence[Path], name: str, stack: ExitStack) -> Gathered:
    """What files, folders and zips hold. `name`: the user's format; `stack` removes what was unpacked. Raises InputError, also for a path
    that brings nothing."""
    into = Gathered()
    for given in paths:
        before = into.count
        _path(given, name, into, stack)
        if into.count == before:
            hint = "hotlap import --formats lists what can, a table is named itself"
            raise InputError(f"'{given}' holds nothing that can be imported; {hint}")
    into.runs = {kind: formats.merged(runs) for kind, runs in into.runs.items()}
    beside = {file for reader in formats.READERS if reader.NAME in into.runs for file in getattr(reader, "BESIDE", ())}
    into.unclaimed = [path for path in into.unclaimed if path.name not in beside]
    return into


def _path(given: Path, name: str, into: Gathered, stack: ExitStack) -> None:
    if not given.exists():
        raise InputError(f"there is no file '{given}'")
    if given.is_dir():
        _folder(given, name, into)
    elif archives.is_archive(given):
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="hotlap-import-")))
        archives.unpack(given, folder)
        try:
            _folder(folder, name, into)
        except InputError as error:
            raise InputError(str(error).replace(str(folder), str(given))) from None
    else:
        _file(given, name, into, named=True)


def _folder(folder: Path, name: str, into: Gathered) -> None:
    """Bundles and files of known formats below a folder, in the order of their names; links are not followed."""
    for where, folders, files in os.walk(folder):
        folders.sort()
        if bundled.is_bundle(Path(where)):
            into.bundles.append(Path(where))
            folders.clear()
            continue
        for file in sorted(files):
            path = Path(where) / file
            if not path.is_symlink() and path.is_file():
                _file(path, name, into, named=False)


def _file(path: Path, name: str, into: Gathered, named: bool) -> None:
    if name in ("", "simulator") and accelsim.recognised(path):
        into.logs.append(path)
        return
    source = Source.open(path)
    reader = formats.find(source, name)
    if reader is not None:
        into.runs.setdefault(reader.NAME, []).extend(formats.read(source, reader))
    elif named:
        into.tables.append(source)
    else:
        into.unclaimed.append(path)

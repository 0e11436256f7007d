"""Runs of Hotlap that somebody mailed: taken into the home as they are, never in place of another."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from hotlap.core.errors import InputError, MachineError
from hotlap.core.store import bundle, paths
from hotlap.core.store.files import RUN

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

LOST = ("torn_line", "lost_lines")  # notices


def is_bundle(folder: Path) -> bool:
    return (folder / RUN).is_file()


def check(folder: Path, home: Path) -> tuple[str, bool, list[str]]:
    """The run's id, whether the home has it already, and what of it is lost. Raises InputError for an id that is none and for another run
    of that id."""
    read = bundle.load(folder, readings=False)
    run_id, lost = read.run.id, [notice.seen for notice in read.notices if notice.code in LOST]
    if not ID.fullmatch(run_id):
        raise InputError(f"{folder / RUN}: {run_id!r} is no id of a run")
    if any(file.is_symlink() for file in folder.rglob("*")):
        raise InputError(f"'{folder}' holds a link, which is not followed; nothing was imported")
    kept = paths.runs(home) / run_id
    if not kept.exists():
        return run_id, False, lost
    if _content(kept) != _content(folder):
        raise InputError(f"a run {run_id} of other content is kept in {kept}; move it away to import this one. Nothing was imported")
    return run_id, True, lost


def take(folder: Path, run_id: str, home: Path) -> None:
    """Copies it whole or not at all. Raises MachineError."""
    runs = paths.create(paths.runs(home))
    beside = runs / f".{run_id}"
    try:
        shutil.rmtree(beside, ignore_errors=True)
        shutil.copytree(folder, beside)
        beside.rename(runs / run_id)
    except OSError as error:
        shutil.rmtree(beside, ignore_errors=True)
        raise MachineError(f"the run '{runs / run_id}' cannot be written: {error.strerror or error}") from None


def _content(folder: Path) -> dict[str, bytes]:
    """What was measured; reports beside it may differ."""
    return {name: (folder / name).read_bytes() for name in ("run.json", "samples.jsonl") if (folder / name).is_file()}

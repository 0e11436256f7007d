"""A bundle's three files as bytes: read from a folder or a zip, written so that nobody ever sees half of one."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from hotlap.core.errors import InputError, MachineError, SchemaError

RUN, SAMPLES, READINGS = "run.json", "samples.jsonl", "readings.log"
FILES = (RUN, SAMPLES, READINGS)
LONG = ("stress.json*", "readings-*.log", "readings-*.parquet", "levels-*.parquet")  # what else the readings of a long run are in
ZIP_LIMIT_BYTES = 2**30  # unpacked, all three files; a thousand times what a usual run holds
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError, KeyError, struct.error)


def read(path: Path, names: tuple[str, ...] = FILES) -> dict[str, bytes]:
    """Content by name, from a bundle's folder or a zip of it; files that are not there are left out, save run.json. A zip gives all.

    Raises InputError when nothing is at `path`, SchemaError when it is no bundle, MachineError when the system refuses.
    """
    try:
        there, folder = path.exists(), path.is_dir()
    except (OSError, ValueError) as error:
        raise InputError(f"'{str(path)[:200]}' is no path: {error}") from None
    if not there:
        raise InputError(f"there is no bundle at '{path}'; give a run's folder, a zip of it, or a selector such as 'latest'")
    return from_folder(path, names) if folder else _from_zip(path)


def write_whole(path: Path, data: bytes, sync: bool = True) -> None:
    """Puts `data` in place of a file in one step: whoever reads sees the old file or the new, with `sync` also after a power cut."""
    beside = path.with_name(path.name + ".tmp")  # one writer per bundle, so the name needs nothing random
    try:
        with open(beside, "wb") as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError:
        with suppress(OSError):
            beside.unlink()
        raise
    if sync:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes names in a folder last; where the system has no such thing, it does so by itself."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def from_folder(path: Path, names: tuple[str, ...]) -> dict[str, bytes]:
    """Those of the named files that are there; run.json must be. Raises SchemaError, MachineError."""
    contents: dict[str, bytes] = {}
    for name in names:
        try:
            contents[name] = (path / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise MachineError(f"'{path / name}' cannot be read: {error.strerror}") from None
    if RUN not in contents:
        raise _no_bundle(path)
    return contents


def long(path: Path, patterns: tuple[str, ...] = LONG) -> dict[str, bytes]:
    """What the readings of a long run are in beside `readings.log`: chunks, levels and logs that were set aside, of a folder or a zip."""
    if not path.is_dir():
        return {name: data for one in patterns for name, data in members(path, one).items()}
    found: dict[str, bytes] = {}
    for file in (file for one in patterns for file in sorted(path.glob(one))):
        with suppress(FileNotFoundError):  # a log that was compacted just now: then its chunk is there
            found[file.name] = file.read_bytes()
    return found


def _from_zip(path: Path, more: tuple[str, ...] = ()) -> dict[str, bytes]:
    if not path.is_file():
        raise _no_bundle(path, "it is neither a folder nor a file")
    try:
        file = open(path, "rb")  # noqa: SIM115 - a refusal of the system is told from a broken zip
    except OSError as error:
        raise MachineError(f"'{path}' cannot be read: {error.strerror}") from None
    with file:
        try:
            with zipfile.ZipFile(file) as archive:
                return _members(path, archive, more)
        except _BROKEN as error:
            other = "" if path.suffix == ".zip" else "; results of other tools become runs by hotlap import"
            raise SchemaError(f"'{path}' is no zip of a run bundle that can be read: {error}{other}") from None


def members(path: Path, pattern: str) -> dict[str, bytes]:
    """Files of a zipped bundle by a pattern of names. Raises as `read` does."""
    return {name: data for name, data in _from_zip(path, (pattern,)).items() if fnmatchcase(name, pattern)}


def _members(path: Path, archive: zipfile.ZipFile, more: tuple[str, ...]) -> dict[str, bytes]:
    """The three files, and those of the patterns `more`, at the top of the zip or in its one folder."""
    inside = {i.filename: i for i in archive.infolist()}
    holders = [name.removesuffix(RUN) for name in inside if name == RUN or (name.endswith("/" + RUN) and name.count("/") == 1)]
    if len(holders) != 1:
        raise _no_bundle(path, f"it has {len(holders) or 'no'} {RUN}")
    here = {name.removeprefix(holders[0]): info for name, info in inside.items() if name.startswith(holders[0])}
    chosen = {name: info for name, info in here.items() if name in FILES or any(fnmatchcase(name, one) for one in more)}
    size = sum(info.file_size for info in chosen.values())
    if size > ZIP_LIMIT_BYTES:
        raise SchemaError(f"'{path}' would unpack to {size:.3g} bytes, more than {ZIP_LIMIT_BYTES:.3g}; unpack it and give the folder")
    return {name: _member(path, archive, info) for name, info in chosen.items()}


def _member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """One file. Only of kinds that zipfile unpacks no further than asked, so that a header that lies is no way to fill the memory."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise SchemaError(f"'{path}' is packed by method {info.compress_type}; valid: stored and deflated")
    with archive.open(info) as file:
        return file.read(info.file_size)


def _no_bundle(path: Path, why: str = f"it has no {RUN}") -> SchemaError:
    return SchemaError(f"'{path}' is no run bundle: {why}; a bundle is a folder of {', '.join(FILES)}, or a zip of one")

"""The run bundle: a folder that is the truth of a run.

    run.json        everything but the numbers; written whole to a file beside it, then renamed
    samples.jsonl   one line per case and round, appended and flushed before the next case begins
    readings.log    what the sensors read, appended

A killed run loses at most the line it was writing. That torn line is cut off on reading, and said.
"""

from __future__ import annotations

import os
import secrets
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hotlap.errors import InputError, MachineError, SchemaError
from hotlap.record import SCHEMA, Readings, Record, Run, Samples, encode
from hotlap.store import paths

RUN, SAMPLES, READINGS = "run.json", "samples.jsonl", "readings.log"
SYNC_S = 1.0  # at most this much between two fsyncs
LARGEST_BYTES = 2 << 30  # of an unpacked zip member: a bomb is refused
T = TypeVar("T", bound=Record)


def new_id(began: datetime) -> str:
    """A name that sorts by time and is unique: ``20261121T101500-4f2a9c``."""
    return f"{began:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"


@dataclass(frozen=True)
class Bundle:
    """A run as it was read."""

    path: Path
    run: Run
    samples: list[Samples]
    read_readings: Callable[[], list[Readings]] = field(repr=False)
    warnings: list[str] = field(default_factory=list)

    @property
    def readings(self) -> list[Readings]:
        """What the sensors read; parsed when asked for."""
        return self.read_readings()


class Writer:
    """Appends to a bundle. Every method returns only when the operating system has what was written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.synced_s = 0.0
        self.files = {name: _opened(path / name) for name in (SAMPLES, READINGS)}

    @classmethod
    def create(cls, run: Run, home: Path) -> Writer:
        """A new bundle under `home`."""
        path = paths.runs(home) / run.id
        try:
            path.mkdir()
        except OSError as error:
            raise MachineError(f"the bundle {path} cannot be made: {error.strerror}") from error
        _write_whole(path / RUN, run)
        return cls(path)

    @classmethod
    def resume(cls, path: Path) -> Writer:
        """An existing bundle, its torn last lines cut off so that new ones begin clean."""
        if not path.is_dir():
            raise InputError(f"{path} is packed; unpack it before going on with it")
        for name in (SAMPLES, READINGS):
            _cut_torn(path / name)
        return cls(path)

    def append(self, samples: Samples) -> None:
        """One line of samples.jsonl."""
        self._line(SAMPLES, samples)

    def readings(self, readings: list[Readings]) -> None:
        """Lines of readings.log."""
        for one in readings:
            self._line(READINGS, one)

    def finish(self, run: Run) -> None:
        """Writes run.json anew and closes the files."""
        for file in self.files.values():
            os.fsync(file)
        _write_whole(self.path / RUN, run)
        for file in self.files.values():
            os.close(file)

    def _line(self, name: str, record: Record) -> None:
        data = encode(record) + b"\n"
        try:
            while data:
                data = data[os.write(self.files[name], data) :]
            if time.monotonic() - self.synced_s > SYNC_S:
                os.fsync(self.files[name])
                self.synced_s = time.monotonic()
        except OSError as error:
            raise MachineError(f"{self.path / name} cannot be written ({error.strerror}); every line before is kept") from error


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    except OSError as error:
        raise MachineError(f"{path} cannot be written: {error.strerror}") from error


def _write_whole(path: Path, run: Run) -> None:
    beside = path.with_suffix(f".{os.getpid()}.new")
    try:
        with open(beside, "wb") as file:
            file.write(msgspec.json.format(encode(run), indent=1) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise MachineError(f"{path} cannot be written ({error.strerror}); what it held is kept") from error


def _cut_torn(path: Path) -> None:
    if not path.exists():
        return
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(path, whole)


def load(path: Path) -> Bundle:
    """A bundle from its folder or from a zip of it.

    Raises SchemaError when it is none, or of a newer schema. A torn last line becomes a warning; nothing before it is lost.
    """
    if not path.exists():
        raise InputError(f"{path} does not exist; 'hotlap ls' lists the runs")
    read = _zip_reader(path) if path.is_file() else _folder_reader(path)
    content = read(RUN)
    if content is None:
        raise SchemaError(f"{path} is not a run bundle: it has no {RUN}")
    run = _run(path, content)
    warnings: list[str] = []
    samples = _lines(path, SAMPLES, read(SAMPLES) or b"", Samples, warnings)
    return Bundle(path, run, samples, lambda: _lines(path, READINGS, read(READINGS) or b"", Readings, []), warnings)


def _run(path: Path, content: bytes) -> Run:
    try:
        version = msgspec.json.decode(content, type=dict[str, Any]).get("schema")
    except msgspec.DecodeError as error:
        raise SchemaError(f"{path / RUN} is not JSON ({error}); the bundle is damaged") from None
    if not isinstance(version, int) or version > SCHEMA:
        raise SchemaError(f"{path} has schema {version}; this Hotlap reads up to {SCHEMA}: install a newer one")
    try:
        return msgspec.json.decode(content, type=Run)
    except msgspec.ValidationError as error:
        raise SchemaError(f"{path / RUN} does not fit the schema: {error}") from None


def _lines(path: Path, name: str, content: bytes, kind: type[T], warnings: list[str]) -> list[T]:
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        warnings.append(f"the last line of {name} was torn when the run ended; everything before it was read")
    decoder = msgspec.json.Decoder(kind)
    found = []
    for number, line in enumerate(content[:whole].splitlines(), 1):
        if not line.strip():
            continue
        try:
            found.append(decoder.decode(line))
        except msgspec.DecodeError as error:
            warnings.append(f"{path / name}:{number} cannot be read ({error}); the other lines were")
    return found


def _folder_reader(path: Path) -> Callable[[str], bytes | None]:
    def read(name: str) -> bytes | None:
        try:
            return (path / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise MachineError(f"{path / name} cannot be read: {error.strerror}") from error

    return read


def _zip_reader(path: Path) -> Callable[[str], bytes | None]:
    if not zipfile.is_zipfile(path):
        raise SchemaError(f"{path} is neither a bundle's folder nor a zip of one")

    def read(name: str) -> bytes | None:
        try:
            with zipfile.ZipFile(path) as archive:
                for entry in archive.infolist():
                    if entry.filename == name or entry.filename.endswith("/" + name):
                        if entry.file_size > LARGEST_BYTES:
                            raise SchemaError(f"{path}: {entry.filename} would unpack to {entry.file_size} B, more than {LARGEST_BYTES}")
                        return archive.read(entry)
        except (zipfile.BadZipFile, OSError, EOFError) as error:
            raise SchemaError(f"{path} cannot be unpacked: {error}") from error
        return None

    return read


def pack(path: Path, out: Path) -> None:
    """The bundle's folder as one zip."""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in (RUN, SAMPLES, READINGS):
            if (path / name).exists():
                archive.write(path / name, f"{path.name}/{name}")

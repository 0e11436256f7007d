"""What a reader of foreign results gets and gives: a file's content, and runs of cases with their samples by process.

A reader is a module with NAME, BRINGS (what it takes over), ORIGIN (the run or the public document that showed the format; "": not
seen, and nothing is read), `detect(source)` and `read(source)`. `formats.READERS` is the table of them.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec

from hotlap.core.errors import InputError
from hotlap.core.where import Cpu

LIMIT_BYTES = 2**30  # of a file, unpacked
GZIP = b"\x1f\x8b"
Better = Literal["", "lower", "higher"]
Fields = Mapping[str, Any]


@dataclass(frozen=True)
class ReadRound:
    """What one process measured: its samples, or why it has none."""

    values: Sequence[float]
    failed: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)  # what else is known of it: samples, noise, bytes_per_second …
    aggregate: bool = False  # the value stands for `samples` that the file does not hold


@dataclass(frozen=True)
class ReadCase:
    """One benchmark. `unit` as it was written; `better` "" where the unit says it; `place`: where it stands, for messages."""

    name: str
    unit: str
    rounds: Sequence[ReadRound]
    parameters: tuple[str, ...] = ()  # NAME=value
    better: Better = ""
    place: str = ""


@dataclass(frozen=True)
class ReadRun:
    """Benchmarks of one time, host and device. Runs of one `group` become one; `device` is a name, `uuid` only a real one."""

    cases: Sequence[ReadCase]
    time_s: float
    host: str = ""
    device: str = ""
    uuid: str = ""
    index: int = 0
    os: str = ""
    cpu: Cpu = field(default_factory=Cpu)
    software: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    group: str = ""
    ignored: tuple[str, ...] = ()  # numbers whose meaning is not known


class FileTime(float):
    """Seconds since 1970 when a file was last written. A copy has another, so it tells no two runs apart."""


@dataclass(frozen=True)
class Source:
    """A file as bytes, unpacked where it was gzipped."""

    path: Path
    data: bytes

    @classmethod
    def open(cls, path: Path) -> Source:
        """Raises InputError for what cannot be read, and for more than 1 GiB."""
        try:
            with path.open("rb") as file:
                packed = file.read(len(GZIP)) == GZIP
                file.seek(0)
                stream: io.BufferedIOBase = gzip.GzipFile(fileobj=file) if packed else file
                data = stream.read(LIMIT_BYTES + 1)
        except FileNotFoundError:
            raise InputError(f"there is no file '{path}'") from None
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"'{path}' cannot be read: {getattr(error, 'strerror', None) or error}") from None
        if len(data) > LIMIT_BYTES:
            raise InputError(f"'{path}' holds more than 1 GiB; import it in parts")
        return cls(path, data)

    @cached_property
    def decoded(self) -> str:
        """UTF-8, with or without a byte order mark. Raises InputError."""
        try:
            return self.data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(f"{self.path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None

    @cached_property
    def json(self) -> Any:
        """The document; None where it is no JSON. `Infinity` and `NaN`, which some tools write, are read as numbers."""
        start = self.data[:64].removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
        if start not in (b"{", b"["):
            return None
        try:
            return msgspec.json.decode(self.data.removeprefix(b"\xef\xbb\xbf"))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        try:
            return json.loads(self.decoded)
        except (ValueError, InputError, RecursionError):
            return None

    @cached_property
    def lines(self) -> list[Fields]:
        """The objects of a file with a JSON object per line; [] where it is none."""
        if self.data[:1] != b"{":
            return []
        try:
            found = [json.loads(line) for line in self.decoded.splitlines() if line.strip()]
        except (ValueError, InputError, RecursionError):
            return []
        return found if all(isinstance(line, dict) for line in found) else []

    @property
    def modified_s(self) -> FileTime:
        """When the file was last written: the time of results that do not say theirs."""
        return FileTime(self.path.stat().st_mtime)

    def beside(self, *names: str) -> Source | None:
        """A file in the same folder, or below or above it; None where it is missing or a link."""
        path = self.path.parent.joinpath(*names)
        return Source.open(path) if path.is_file() and not path.is_symlink() else None


def exported(own: Fields, values: Any, place: str) -> ReadCase:
    """A case that `hotlap export` wrote: numbers of rounds, or samples of one process, in their own unit, with name, parameters and
    direction."""
    known = numbers(values, place)
    rounds = [ReadRound(known)] if own.get("one_process") else [ReadRound([value]) for value in known]
    better: Better = own.get("better", "")
    given = tuple(map(str, own.get("parameters", ())))
    return ReadCase(str(own.get("name", "")), str(own.get("unit", "")), rounds, given, better, place)


def has(document: Any, *keys: str) -> bool:
    """Whether a JSON object has these keys."""
    return isinstance(document, dict) and all(key in document for key in keys)


def objects(value: Any, place: str) -> list[Fields]:
    """A list of JSON objects. Raises InputError."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise InputError(f"{place}: a list of objects is needed")
    return value


def number(value: Any, place: str) -> float:
    """A finite number, also written as a string. Raises InputError."""
    try:
        if isinstance(value, bool) or value is None:
            raise ValueError
        parsed = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{place}: {str(value)[:40]!r} is not a number") from None
    if not math.isfinite(parsed):
        raise InputError(f"{place}: {parsed} is not a finite number")
    return parsed


def numbers(values: Any, place: str) -> list[float]:
    """A list of finite numbers. Raises InputError that names the first that is none."""
    if not isinstance(values, list):
        raise InputError(f"{place}: a list of numbers is needed")
    return [number(value, f"{place}, number {place_in}") for place_in, value in enumerate(values, 1)]


def parameters(given: Any) -> tuple[str, ...]:
    """NAME=value of a JSON object, in its order."""
    return tuple(f"{name}={written(value)}" for name, value in given.items()) if isinstance(given, dict) else ()


def written(value: Any) -> str:
    """A parameter's value as text: that of JSON, strings without quotes."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def texts(given: Mapping[str, Any]) -> dict[str, str]:
    """What is known of some facts, as text."""
    return {name: written(value) for name, value in given.items() if value not in (None, "", [], {})}


def moment(value: Any, place: str) -> float:
    """Seconds since 1970 of ISO 8601; UTC where no zone is given. Raises InputError."""
    try:
        time = datetime.fromisoformat(str(value).strip())
    except ValueError:
        raise InputError(f"{place}: {str(value)[:40]!r} is no time of ISO 8601") from None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()

"""Lines of JSON that are appended to a file: how they are written so that they can be read, and read when the last is torn."""

from __future__ import annotations

import io
import math
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from hotlap.core.errors import SchemaError
from hotlap.core.record import Notice, Readings, Record, Samples, encode

R = TypeVar("R", bound=Record)
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Lines(NamedTuple, Generic[R]):
    """What a file of lines holds. `kept_bytes` reaches to the end of the last readable line, `torn` is what follows."""

    records: list[R]
    kept_bytes: int
    torn: bytes

    def notices(self, name: str) -> list[Notice]:
        """That the last line is torn; [] when it is not."""
        seen = f"{name}: its last line was cut off ({len(self.torn)} bytes, left out); the {len(self.records)} lines before it are kept"
        return [Notice("torn_line", seen)] if self.torn else []


def read(data: bytes, kind: type[R], name: str) -> Lines[R]:
    """The records in `data`. A last line that is not whole is left out, and one that lacks only its newline is kept.

    Raises SchemaError with `name` and line number when any other line cannot be read.
    """
    decoder, records, position = msgspec.json.Decoder(kind), list[R](), 0
    if data.endswith(b"\n"):
        try:
            whole = decoder.decode_lines(data)
            if len(whole) == data.count(b"\n"):  # one record a line; all else is looked at line by line
                return Lines(whole, len(data), b"")
        except UNREADABLE:
            pass
    for number, line in enumerate(io.BytesIO(data), 1):
        try:
            if not line.isspace():
                records.append(decoder.decode(line))
        except UNREADABLE as error:
            if position + len(line) == len(data) and _torn(line, error):
                return Lines(records, position, line)
            raise SchemaError(f"{name}:{number}: {error}; restore the file from a copy, or remove that line to read the rest") from None
        position += len(line)
    return Lines(records, position, b"")


def _torn(line: bytes, error: Exception) -> bool:
    """Whether a crash can have left it so: no newline, or, when the machine went down, holes. Wrong types are no tear."""
    return not line.endswith(b"\n") or not isinstance(error, msgspec.ValidationError)


def line(record: Samples | Readings) -> bytes:
    """One line, newline included, that reads back as its type.

    JSON has no NaN, no infinity and no half characters: samples with such numbers become an error that says so.
    """
    try:
        text = encode(record)
        msgspec.json.decode(text, type=type(record))
    except (msgspec.MsgspecError, UnicodeEncodeError):
        text = encode(_mended(record) if isinstance(record, Samples) else _aligned(record))
    return text + b"\n"


def _mended(samples: Samples) -> Samples:
    given = msgspec.to_builtins(samples)
    clean = _clean(given)
    lost = [name for name, value in given.items() if _count(value) != _count(clean.get(name))]
    if lost:
        reason = f"numbers that are not finite, left out of {', '.join(lost)}"
        clean |= {"status": "error", "reason": f"{clean['reason']}; {reason}" if clean["reason"] else reason}
    return msgspec.convert(clean, Samples)


def _aligned(readings: Readings) -> Readings:
    own = readings.sensor_times_s or [None] * len(readings.times_s)
    kept = [row for row in zip(readings.times_s, readings.values, own, strict=False) if math.isfinite(row[0])]
    columns: dict[str, Any] = {"times_s": [t for t, _, _ in kept], "values": [v for _, v, _ in kept]}
    columns["sensor_times_s"] = [o if o is None or math.isfinite(o) else None for _, _, o in kept] if readings.sensor_times_s else []
    return msgspec.convert(_clean(msgspec.to_builtins(readings)) | columns, Readings)


def _clean(value: Any) -> Any:
    """Without numbers that are not finite; a key left out takes its default."""
    if isinstance(value, dict):
        return {_clean(k): _clean(v) for k, v in value.items() if not _infinite(v)}
    if isinstance(value, list):
        return [_clean(v) for v in value if not _infinite(v)]
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _infinite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _count(value: Any) -> int:
    """Values in a field, however deep."""
    if isinstance(value, (dict, list)):
        return sum(_count(v) for v in (value.values() if isinstance(value, dict) else value))
    return int(value is not None)

"""Protocol Buffers' wire format: fields of a message, without a schema.

Source: protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class DamagedWire(ValueError):
    """The bytes are no message."""


class Field(NamedTuple):
    """One field: its number, its type on the wire, and an int (varint) or the bytes."""

    number: int
    kind: int
    value: int | memoryview

    @property
    def data(self) -> memoryview:
        """The bytes of a message or text; empty for a number."""
        return self.value if isinstance(self.value, memoryview) else memoryview(b"")

    @property
    def whole(self) -> int:
        return self.value if isinstance(self.value, int) else 0

    @property
    def text(self) -> str:
        return bytes(self.data).decode("utf-8", "replace")

    @property
    def real(self) -> float:
        """The number of any numeric field."""
        if isinstance(self.value, int):
            return float(self.value)
        return float(struct.unpack("<d" if self.kind == FIXED64 else "<f", self.value)[0]) if self.kind != BYTES else float("nan")


def fields(data: memoryview) -> Iterator[Field]:
    """The fields of a message, in order. Raises Damaged where it is none."""
    at, end = 0, len(data)
    while at < end:
        key = data[at]
        if key < 128:  # nearly all are: numbers of fields up to 15
            at += 1
        else:
            key, at = varint(data, at)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise DamagedWire("a field without a number")
        if kind == VARINT:
            value, at = varint(data, at)
            yield Field(number, kind, value)
            continue
        if kind == BYTES:
            size, at = varint(data, at)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise DamagedWire(f"a field of the unknown type {kind}")
        if size > end - at:
            raise DamagedWire("a field longer than its message")
        yield Field(number, kind, data[at : at + size])
        at += size


def varint(data: memoryview, at: int) -> tuple[int, int]:
    """A number of 7 bits per byte, at most 10 bytes, and the place after it."""
    if at < len(data) and data[at] < 128:
        return data[at], at + 1
    value = shift = 0
    for place in range(at, min(at + 10, len(data))):
        byte = data[place]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place + 1
        shift += 7
    raise DamagedWire("a number without an end")

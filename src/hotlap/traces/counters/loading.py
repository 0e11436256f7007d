"""The bytes of a file of counters, unpacked where it is .gz or .zip: kernels are few, so that it may be held whole."""

from __future__ import annotations

import mmap
from pathlib import Path

from hotlap.core.errors import InputError
from hotlap.traces.readers import packed


def load(path: Path, most: int) -> memoryview:
    """All of it, mapped where it is not packed. Raises InputError past `most` bytes, and for what cannot be read or unpacked."""
    try:
        with open(path, "rb") as file:
            start = file.read(4)
            if start[:2] != b"\x1f\x8b" and start != b"PK\x03\x04":
                size = path.stat().st_size
                if size > most:
                    raise _too_large(path, most)
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b"")
        data = bytearray()
        for block in packed.blocks(path):
            data += block
            if len(data) > most:
                raise _too_large(path, most)
    except OSError as error:
        raise InputError(f"'{path}' cannot be read: {error.strerror}") from None
    return memoryview(data)


def _too_large(path: Path, most: int) -> InputError:
    return InputError(f"'{path}' is larger than {most >> 20} MiB; profile fewer kernels, as with ncu --launch-count or a filter of kernels")

"""Bytes of a file, unpacked where it is .gz or .zip, a block at a time, read ahead by a thread while the caller works."""

from __future__ import annotations

import contextlib
import queue
import struct
import threading
import zipfile
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import IO

from hotlap.core.errors import InputError

BLOCK = 1 << 22
MOST_RATIO, MOST_BYTES = 300, 1 << 30  # more than this many times its size, and more than a gibibyte, is a bomb
UNZIPPABLE = (zipfile.BadZipFile, NotImplementedError, RuntimeError, zlib.error, EOFError, OSError, ValueError, struct.error)


def head(path: Path, size: int = 1 << 16) -> bytes:
    """The first bytes, unpacked; b"" where the file is empty or damaged there."""
    text = b""
    with contextlib.suppress(InputError, OSError, zipfile.BadZipFile, zlib.error):
        for block in _blocks(path, size):
            text += block
            if len(text) >= size:
                break
    return text[:size]


def whole(path: Path, most: int, remedy: str) -> bytes:
    """All of a file, unpacked. Raises InputError past `most` bytes, a count of whole GiB; `remedy` ends its line."""
    text = bytearray()
    for block in blocks(path):
        text += block
        if len(text) > most:
            raise InputError(f"'{path}' is larger than {most >> 30} GiB{remedy}")
    return bytes(text)


def blocks(path: Path) -> Generator[bytes, None, None]:
    """Blocks of some megabytes, in order. Raises InputError for what cannot be unpacked at all."""
    ready: queue.Queue[bytes | BaseException | None] = queue.Queue(maxsize=2)
    stop = threading.Event()

    def put(item: bytes | BaseException | None) -> bool:
        while not stop.is_set():
            with contextlib.suppress(queue.Full):
                ready.put(item, timeout=0.1)
                return True
        return False

    def ahead() -> None:
        try:
            for block in _blocks(path, BLOCK):
                if not put(block):
                    return
        except BaseException as error:
            put(error)
        put(None)

    thread = threading.Thread(target=ahead, name="unpack", daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()
        thread.join()


def _blocks(path: Path, size: int) -> Iterator[bytes]:
    with open(path, "rb") as file:
        start = file.read(4)
        file.seek(0)
        if start[:2] == b"\x1f\x8b":
            yield from _gunzip(path, file, size)
        elif start == b"PK\x03\x04":
            yield from _unzip(path, size)
        else:
            while block := file.read(size):
                yield block


def _gunzip(path: Path, file: IO[bytes], size: int) -> Iterator[bytes]:
    packed = unpacked = 0
    unpack = zlib.decompressobj(31)
    waiting = b""
    while True:
        block = waiting or file.read(max(size // 8, 1 << 12))
        packed += 0 if waiting else len(block)
        if not block:
            return  # a file that ends early gives what it has; its reader sees that it is cut
        try:
            out = unpack.decompress(block, size)
        except zlib.error as error:
            if unpacked:
                return  # damaged from here on
            raise InputError(f"'{path}' cannot be unpacked: {error}") from None
        waiting = unpack.unconsumed_tail
        if unpack.eof:  # several members one after another
            waiting, unpack = unpack.unused_data, zlib.decompressobj(31)
            if waiting and not waiting.strip(b"\0"):
                waiting = b""
        unpacked += len(out)
        _refuse_bomb(path, packed, unpacked)
        if out:
            yield out


def _unzip(path: Path, size: int) -> Iterator[bytes]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = [one for one in archive.infolist() if not one.filename.endswith("/")]
            if len(members) != 1:
                raise InputError(f"'{path}' holds {len(members)} files; a packed trace holds one")
            if members[0].compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise InputError(f"'{path}' is packed by another method than deflate; pack it again")
            made = 0
            with archive.open(members[0]) as file:
                while block := file.read(size):
                    made += len(block)
                    _refuse_bomb(path, members[0].compress_size, made)
                    yield block
    except InputError:
        raise
    except UNZIPPABLE as error:
        raise InputError(f"'{path}' cannot be unpacked: {why(error)}") from None


def why(error: Exception) -> str:
    """The message of an error in one line; a damaged archive's may quote the damage."""
    return " ".join(str(error).split())[:160] or type(error).__name__


def _refuse_bomb(path: Path, packed: int, size: int) -> None:
    if size > MOST_BYTES and size > MOST_RATIO * max(packed, 1):
        raise InputError(f"'{path}' grows to more than {MOST_RATIO} times its size when unpacked: this is no trace")

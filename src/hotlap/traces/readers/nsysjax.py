"""nsys-jax archives (JAX Toolbox): Nsight Systems' markers as a table, and what of them ran on the device.

Format: NVIDIA/JAX-Toolbox .github/container/nsys_jax. `report_nvtx_pushpop_trace.csv.xz` holds the markers of host threads;
`nvtx_gpu_proj_trace/trace.parquet` holds each marker's first to last work on the device. XLA marks each thunk, and a thunk is
mostly one kernel, copy or collective: those without thunks inside stand for the work of the device. Single kernels are not in it.
"""

from __future__ import annotations

import csv
import lzma
import re
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from hotlap.core.errors import InputError
from hotlap.traces import events as ev
from hotlap.traces.building import Builder
from hotlap.traces.events import Head
from hotlap.traces.readers import packed
from hotlap.traces.readers.filling import Filling, lines, places, whole

NAME = "nsysjax"
ABOUT = "nsys-jax archives (.zip)"

HOST, WORK, DEVICES = "report_nvtx_pushpop_trace.csv.xz", "nvtx_gpu_proj_trace/trace.parquet", "device-metadata.parquet"
THUNK = "TSL:Thunk:"
COLLECTIVES = ("all-", "reduce-scatter", "collective-", "send", "recv", "ragged-all")
_OPERATION = re.compile("hlo_op=([^,#]+)")
MOST = 1 << 28  # bytes of a table, unpacked
MEMORY = 1 << 28  # bytes that unpacking may take
LONGEST = 10_000_000  # rows of a Parquet table: a few bytes can stand for any number of equal rows
ROWS = 1 << 16


def sniff(path: Path, head: bytes) -> bool:
    """A zip with one of the two tables."""
    return bool({HOST, WORK} & set(_members(path)))


def _members(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            if file.read(4) != b"PK\x03\x04":
                return []
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except packed.UNZIPPABLE:
        return []


def read(path: Path, into: Builder) -> Head:
    """Adds the markers of the host, and the thunks of the device where pyarrow is installed."""
    devices: list[dict[str, Any]] = []
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            fill = Filling(into)
            if HOST in names:
                _host(path, _member(path, archive, HOST), fill)
            if WORK in names:
                _work(path, _member(path, archive, WORK), fill)
            if DEVICES in names:
                devices = _devices(_member(path, archive, DEVICES))
    except InputError:
        raise
    except packed.UNZIPPABLE as error:
        raise InputError(f"'{path}' cannot be unpacked: {packed.why(error)}") from None
    return fill.head(path, NAME, devices=devices)


def _member(path: Path, archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InputError(f"'{path}' is packed by another method than deflate; pack it again")
    with archive.open(name) as file:
        data = file.read(MOST + 1)
    if len(data) > MOST:
        raise InputError(f"'{path}' holds a table {name} of more than {MOST >> 20} MiB; this is no archive of nsys-jax")
    return data


def _host(path: Path, data: bytes, fill: Filling) -> None:
    rows = csv.reader(lines(path, _unpacked(path, data)))
    try:
        header = next(rows, [])
        if missing := {"Start (ns)", "End (ns)", "Name"} - set(header):
            raise InputError(f"{HOST} in '{path}' has no column {', '.join(sorted(missing))}")
        while block := list(islice(rows, ROWS)):
            good = [row for row in block if len(row) == len(header)]
            fill.into.notice("broken_lines", "lines with another number of values than the header were skipped", len(block) - len(good))
            if good:
                given = dict(zip(header, zip(*good, strict=True), strict=True))
                count = len(good)
                threads = zip(given.get("PID", [""] * count), given.get("TID", [""] * count), strict=True)
                fill.add(
                    *(np.fromiter(map(whole, given[name]), np.int64, count) for name in ("Start (ns)", "End (ns)")), kind=ev.MARKER,
                    name=places(fill.into.names, given["Name"], count), thread=places(fill.into.threads, threads, count),
                )  # fmt: skip
    except csv.Error as error:
        raise InputError(f"{HOST} in '{path}' cannot be read as CSV: {error}") from None


def _unpacked(path: Path, data: bytes) -> Iterator[bytes]:
    """Blocks of packed text, in bounded memory; what is damaged ends it."""
    unpack, size = lzma.LZMADecompressor(memlimit=MEMORY), 0
    try:
        while not unpack.eof:
            block = unpack.decompress(data, packed.BLOCK)
            data = b""
            size += len(block)
            if size > packed.MOST_BYTES:
                raise InputError(f"{HOST} in '{path}' grows to more than {packed.MOST_BYTES >> 30} GiB when unpacked")
            if not block and unpack.needs_input:
                return  # cut off
            yield block
    except (lzma.LZMAError, EOFError, MemoryError) as error:
        raise InputError(f"{HOST} in '{path}' cannot be unpacked: {packed.why(error)}") from None


def _work(path: Path, data: bytes, fill: Filling) -> None:
    table = _parquet(data)
    if table is None:
        seen = "work of the device was not read: it is in Parquet, and pyarrow is not installed (pip install pyarrow)"
        fill.into.notice("missing_package", seen)
        return
    needed = ("Name", "Projected Start", "Projected Duration", "RangeId", "RangeStack")
    if missing := [one for one in needed if one not in table.column_names]:
        raise InputError(f"{WORK} in '{path}' has no column {', '.join(missing)}")
    table = table.select(list(needed))
    around: set[str] = set()  # thunks with thunks inside, like loops: what is inside is read
    for batch in table.to_batches(ROWS):
        for name, stack in zip(batch["Name"].to_pylist(), batch["RangeStack"].to_pylist(), strict=True):
            if isinstance(name, str) and name.startswith(THUNK) and isinstance(stack, str):
                around.update(stack.split(":")[1:-1])
    for batch in table.to_batches(ROWS):
        given = batch.to_pydict()
        at = [
            i for i, (name, own) in enumerate(zip(given["Name"], given["RangeId"], strict=True))
            if isinstance(name, str) and name.startswith(THUNK) and str(whole(own)) not in around
        ]  # fmt: skip
        count = len(at)
        start, length = (np.fromiter((whole(given[one][i]) for i in at), np.int64, count) for one in needed[1:3])
        names = [_operation(given["Name"][i]) for i in at]
        copies = np.array([name.startswith(("copy.", "copy-start")) or name == "copy" for name in names], bool)
        fill.add(
            start, np.where(length < 0, start - 1, start + length), kind=np.where(copies, ev.COPY, ev.KERNEL),
            name=places(fill.into.names, (f"nccl {name}" if name.startswith(COLLECTIVES) else name for name in names), count),
            device=0, stream=0,
        )  # fmt: skip
        fill.into.notice("no_kernels", "work of the device is known by thunks of XLA, not by kernels; its streams are not known", count)


def _operation(name: str) -> str:
    """The operation of XLA that a thunk is for: TSL:Thunk:#name=…,hlo_op=all-gather.3# is all-gather.3."""
    found = _OPERATION.search(name)
    return found[1] if found else name.removeprefix(THUNK).strip("#")


def _devices(data: bytes) -> list[dict[str, Any]]:
    table = _parquet(data)
    if table is None:
        return []
    wanted = ("id", "name", "smCount", "totalMemory", "memoryBandwidth", "clockRate")
    rows = table.slice(0, 64).to_pylist()
    return [{key: row[full] for key in wanted if (full := f"('TARGET_INFO_GPU', '{key}')") in row} for row in rows]


def _parquet(data: bytes) -> Any:
    """A table, or None without pyarrow. Raises InputError where it is damaged."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        return None
    try:
        about = parquet.ParquetFile(pyarrow.BufferReader(data))
        if about.metadata.num_rows > LONGEST:
            raise InputError(f"a table of the archive has more than {LONGEST:,} rows; this is no archive of nsys-jax")
        return about.read(use_threads=False)
    except InputError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise InputError(f"a table of the archive is damaged: {packed.why(error)}") from None

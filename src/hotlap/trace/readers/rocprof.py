"""rocprofv3: its JSON, and its CSV files by table; the file of kernels takes those beside it along.

Format: rocm.docs.amd.com/projects/rocprofiler-sdk, "Using rocprofv3", output file fields; JSON as
ROCm/rocm-systems projects/rocprofiler-sdk/source/lib/output/generateJSON.cpp writes it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from hotlap.errors import InputError
from hotlap.trace import events as ev
from hotlap.trace.building import Builder
from hotlap.trace.events import Head
from hotlap.trace.readers import packed
from hotlap.trace.readers.filling import FAR, Filling, places, whole

NAME = "rocprof"
ABOUT = "rocprofv3 (JSON, or CSV with its kernel_trace.csv)"

LARGEST = 1 << 30  # bytes of JSON: it is held whole
ROWS = 1 << 16
KEY = b'"rocprofiler-sdk-tool"'
TABLES = (  # how a CSV file's name ends; calls first, because what they start comes after
    "marker_api_trace", "hip_api_trace", "hsa_api_trace", "rccl_api_trace", "kernel_trace", "memory_copy_trace",
)  # fmt: skip
RECORDS = {  # of JSON; calls first, because what they start comes after
    "marker_api": ev.MARKER, "hip_api": ev.RUNTIME, "hsa_api": ev.RUNTIME, "rccl_api": ev.RUNTIME, "kernel_dispatch": ev.KERNEL,
    "memory_copy": ev.COPY,
}  # fmt: skip
DIRECTIONS = {"HOST_TO_DEVICE": "HtoD", "DEVICE_TO_HOST": "DtoH", "DEVICE_TO_DEVICE": "DtoD", "HOST_TO_HOST": "HtoH"}
_TABLE = re.compile(rf"({'|'.join(TABLES)})\.csv$")


def sniff(path: Path, head: bytes) -> bool:
    """JSON of the tool, or a CSV file with both times and a kind or domain."""
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") and KEY in head[:4096]:
        return True
    line = head.partition(b"\n")[0]
    return b"Start_Timestamp" in line and b"End_Timestamp" in line and (b"Kind" in line or b"Domain" in line)


def read(path: Path, into: Builder) -> Head:
    """Adds the events of one JSON file, or of one CSV file; of kernels: with the other tables of the same run."""
    if packed.head(path, 4096).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return _json(path, into)
    fill, took = Filling(into), []
    for one in _together(path):
        _Csv(one, fill).read()
        took.append(one.name)
    return fill.head(path, NAME, facts={"files": ", ".join(took)} if len(took) > 1 else {})


def copied(direction: str) -> str:
    """The name of a copy, as other profilers write it; HIP's runtime writes MEMORY_COPY_HOST_TO_DEVICE in newer versions."""
    return f"Memcpy {DIRECTIONS.get(direction.removeprefix('MEMORY_COPY_'), direction or 'of unknown direction')}"


# ---- CSV


def _together(path: Path) -> list[Path]:
    """A file of kernels with the tables beside it whose names begin alike; any other file alone."""
    found = _TABLE.search(path.name)
    if found is None or found[1] != "kernel_trace":
        return [path]
    begin = path.name[: found.start()]
    beside = [path.with_name(f"{begin}{table}.csv") for table in TABLES]
    return [one for one in beside if one == path or (one.is_file() and one.stat().st_size)]


class _Csv:
    """One table; columns are found by their names, in any order."""

    def __init__(self, path: Path, fill: Filling) -> None:
        self.path, self.fill, self.into = path, fill, fill.into

    def read(self) -> None:
        rows = csv.reader(_lines(self.path))
        try:
            header = next(rows, [])
            at = {name.strip(): place for place, name in enumerate(header)}
            if "Start_Timestamp" not in at or "End_Timestamp" not in at:
                raise InputError(f"'{self.path}' has no columns Start_Timestamp and End_Timestamp in its first line; it has: {' '.join(', '.join(header).split())[:200]}")
            while block := list(islice(rows, ROWS)):
                good = [row for row in block if len(row) == len(header)]
                self.into.doubt("lines with another number of values than the header were skipped", len(block) - len(good))
                if good:
                    self._block(dict(zip(at, zip(*good, strict=True), strict=False)) if len(at) == len(header) else _columns(good, at))
        except csv.Error as error:
            raise InputError(f"'{self.path}' cannot be read as CSV: {error}") from None

    def _block(self, given: dict[str, Any]) -> None:
        count = len(given["Start_Timestamp"])

        def numbers(name: str, read: Callable[[Any], int] = whole) -> Any:
            return np.fromiter(map(read, given[name]), np.int64, count) if name in given else np.full(count, -1)

        common = {"correlation": numbers("Correlation_Id")}
        start, end = numbers("Start_Timestamp"), numbers("End_Timestamp")
        if "Kernel_Name" in given:
            stream = "Stream_Id" if "Stream_Id" in given else "Queue_Id"
            self.fill.add(
                start, end, kind=ev.KERNEL, name=places(self.into.names, given["Kernel_Name"], count),
                device=numbers("Agent_Id", _agent), stream=_small(numbers(stream)), launch=self._launches(given, count), **common,
            )  # fmt: skip
        elif "Direction" in given:
            device = np.maximum(numbers("Source_Agent_Id", _agent), numbers("Destination_Agent_Id", _agent))
            self.fill.add(
                start, end, kind=ev.COPY, name=places(self.into.names, map(copied, given["Direction"]), count), device=device,
                stream=_small(numbers("Stream_Id")) if "Stream_Id" in given else 0, **common,
            )  # fmt: skip
        else:
            domain = str(given.get("Domain", given.get("Kind", [""]))[0])
            threads = zip(given.get("Process_Id", [""] * count), given.get("Thread_Id", [""] * count), strict=True)
            self.fill.add(
                start, end, kind=ev.MARKER if domain.startswith("MARKER") else ev.RUNTIME,
                name=places(self.into.names, given.get("Function", given.get("Name", ["unnamed"] * count)), count),
                thread=places(self.into.threads, threads, count), **common,
            )  # fmt: skip

    def _launches(self, given: dict[str, Any], count: int) -> Any:
        names = [f"{what}_{axis}" for what in ("Grid_Size", "Workgroup_Size") for axis in "XYZ"]
        if not all(name in given for name in names) or "launch" not in self.into.columns:
            return -1
        shared = given.get("LDS_Block_Size", given.get("Group_Segment_Size", ["-1"] * count))
        registers = given.get("VGPR_Count", ["-1"] * count)
        return places(self.into.launches, (launch(*row) for row in zip(*(given[n] for n in names), registers, shared, strict=True)), count)


def _columns(rows: list[list[str]], at: dict[str, int]) -> dict[str, Any]:
    return {name: [row[place] for row in rows] for name, place in at.items()}


def _lines(path: Path) -> Iterator[str]:
    """Lines of text, unpacked where need be; one that does not end within 16 MiB is no line of a table."""
    rest = b""
    for block in packed.blocks(path):
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace").replace("\0", "").lstrip("\ufeff") + "\n"
        if len(rest) > 1 << 24:
            raise InputError(f"'{path}' has a line of more than 16 MiB; it is no table")
    if rest:
        yield rest.decode("utf-8", "replace").replace("\0", "")


def _agent(value: str) -> int:
    """1 and "Agent 1" are both number 1."""
    return whole(str(value).removeprefix("Agent").strip())


def _small(numbers: Any) -> Any:
    """Queues that are addresses get numbers in the order of their appearance."""
    if not len(numbers) or numbers.max() < 1 << 31:
        return numbers
    unique, first, back = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.empty(len(unique), np.int64)
    order[np.argsort(first)] = np.arange(len(unique))
    return order[back]


def launch(gx: Any, gy: Any, gz: Any, bx: Any, by: Any, bz: Any, registers: Any, shared: Any) -> tuple[Any, ...]:
    """Key of a launch. AMD counts the grid in work items: in blocks it is divided by the group."""
    block = tuple(max(whole(one), 1) for one in (bx, by, bz))
    grid = tuple(-(-max(whole(one), 1) // size) for one, size in zip((gx, gy, gz), block, strict=True))
    return grid, block, whole(registers), whole(shared), -1.0


# ---- JSON


class _Handle(msgspec.Struct):
    handle: Any = -1


class _Correlation(msgspec.Struct):
    internal: Any = -1
    external: Any = -1


class _Size(msgspec.Struct):
    x: Any = 1
    y: Any = 1
    z: Any = 1


class _Dispatch(msgspec.Struct):
    agent_id: _Handle = msgspec.field(default_factory=_Handle)
    queue_id: _Handle = msgspec.field(default_factory=_Handle)
    kernel_id: Any = -1
    group_segment_size: Any = -1
    workgroup_size: _Size = msgspec.field(default_factory=_Size)
    grid_size: _Size = msgspec.field(default_factory=_Size)


class _Record(msgspec.Struct):
    kind: Any = -1
    operation: Any = -1
    thread_id: Any = ""
    correlation_id: _Correlation = msgspec.field(default_factory=_Correlation)
    start_timestamp: Any = -1
    end_timestamp: Any = -1
    dispatch_info: _Dispatch = msgspec.field(default_factory=_Dispatch)
    stream_id: _Handle = msgspec.field(default_factory=_Handle)
    dst_agent_id: _Handle = msgspec.field(default_factory=_Handle)
    src_agent_id: _Handle = msgspec.field(default_factory=_Handle)
    bytes: Any = -1


class _Tool(msgspec.Struct):
    metadata: dict[str, Any] = {}
    agents: list[dict[str, Any]] = []
    kernel_symbols: list[dict[str, Any]] = []
    strings: dict[str, Any] = {}
    buffer_records: dict[str, msgspec.Raw] = {}


class _Document(msgspec.Struct):
    tool: _Tool | list[_Tool] = msgspec.field(name="rocprofiler-sdk-tool")


_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_MANY, _ONE = msgspec.json.Decoder(list[_Record]), msgspec.json.Decoder(_Record)


def _json(path: Path, into: Builder) -> Head:
    text = bytearray()
    for block in packed.blocks(path):
        text += block
        if len(text) > LARGEST:
            raise InputError(f"'{path}' holds more than {LARGEST >> 30} GiB of JSON; let rocprofv3 write CSV or rocpd (--output-format rocpd)")
    try:
        tools = msgspec.json.decode(text.removeprefix(b"\xef\xbb\xbf"), type=_Document).tool
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            tools = msgspec.json.decode(text.decode("utf-8", "replace"), type=_Document).tool
        except (msgspec.DecodeError, RecursionError) as error:
            raise InputError(f"'{path}' is no JSON of rocprofv3: {error}") from None
    del text
    fill, facts, devices = Filling(into), {}, []
    for tool in tools if isinstance(tools, list) else [tools]:
        found = _JsonTool(tool, fill)
        found.read(path)
        devices += found.devices
        facts |= {key: value for key, value in tool.metadata.items() if isinstance(value, str) or (isinstance(value, int) and abs(value) < FAR)}
    return fill.head(path, NAME, facts=facts, devices=devices)


class _JsonTool:
    """What one process recorded."""

    def __init__(self, tool: _Tool, fill: Filling) -> None:
        self.tool, self.fill, self.into = tool, fill, fill.into
        self.kernels: dict[Any, str] = {
            whole(one.get("kernel_id")): str(one.get("formatted_kernel_name") or one.get("kernel_name")) for one in tool.kernel_symbols
        }
        self.kinds = [one for one in _entries(tool.strings.get("buffer_records")) if isinstance(one, dict)]
        self.texts = {whole(one.get("key")): str(one.get("value")) for one in _entries(tool.strings.get("marker_api")) if isinstance(one, dict)}
        self.agents: dict[int, int] = {}
        self.devices = []
        for one in tool.agents:
            handle = one.get("id")
            number = whole(one.get("logical_node_type_id", one.get("node_id")))
            if isinstance(handle, dict) and one.get("type") == 2:
                self.agents[whole(handle.get("handle"))] = number
                self.devices.append({"id": number, "name": str(one.get("product_name") or one.get("name")), "units": one.get("cu_count")})

    def read(self, path: Path) -> None:
        for name, kind in RECORDS.items():
            given = self.tool.buffer_records.get(name)
            if given is None:
                continue
            try:
                records = _MANY.decode(given)
            except (msgspec.DecodeError, UnicodeDecodeError):
                records = self._one_by_one(given)
            for at in range(0, len(records), ROWS):
                self._block(records[at : at + ROWS], kind)

    def _one_by_one(self, given: msgspec.Raw) -> list[_Record]:
        records = []
        try:
            raws = _LIST.decode(given)
        except msgspec.DecodeError:
            raws = []
            self.into.doubt("tables that are no lists were skipped")
        for raw in raws:
            try:
                records.append(_ONE.decode(raw))
            except (msgspec.DecodeError, UnicodeDecodeError):
                self.into.doubt("records of another form than is usual were skipped")
        return records

    def _block(self, given: list[_Record], kind: int) -> None:
        count = len(given)

        def numbers(read: Callable[[_Record], Any]) -> Any:
            return np.fromiter((whole(read(one)) for one in given), np.int64, count)

        common = {"kind": kind, "correlation": numbers(lambda one: one.correlation_id.internal)}
        start, end = numbers(lambda one: one.start_timestamp), numbers(lambda one: one.end_timestamp)
        if kind == ev.KERNEL:
            stream = numbers(lambda one: one.stream_id.handle)
            keys = (
                launch(i.grid_size.x, i.grid_size.y, i.grid_size.z, i.workgroup_size.x, i.workgroup_size.y, i.workgroup_size.z, -1, i.group_segment_size)
                for i in (one.dispatch_info for one in given)
            )  # fmt: skip
            self.fill.add(
                start, end, name=places(self.into.names, (self._kernel(one) for one in given), count),
                device=self._device(given, lambda one: one.dispatch_info.agent_id),
                stream=np.where(stream >= 0, stream, _small(numbers(lambda one: one.dispatch_info.queue_id.handle))),
                launch=places(self.into.launches, keys, count), **common,
            )  # fmt: skip
        elif kind == ev.COPY:
            device = np.maximum(self._device(given, lambda one: one.dst_agent_id), self._device(given, lambda one: one.src_agent_id))
            self.fill.add(
                start, end, name=places(self.into.names, (copied(self._operation(one)) for one in given), count), device=device,
                stream=np.maximum(numbers(lambda one: one.stream_id.handle), 0), bytes=numbers(lambda one: one.bytes), **common,
            )  # fmt: skip
        else:
            process = str(self.tool.metadata.get("pid", ""))
            names = (self.texts.get(whole(one.correlation_id.internal)) if kind == ev.MARKER else None for one in given)
            self.fill.add(
                start, end, name=places(self.into.names, (t or self._operation(one) for t, one in zip(names, given, strict=True)), count),
                thread=places(self.into.threads, ((process, str(one.thread_id)) for one in given), count), **common,
            )  # fmt: skip

    def _kernel(self, one: _Record) -> str:
        return self.kernels.get(whole(one.dispatch_info.kernel_id), f"kernel {whole(one.dispatch_info.kernel_id)}")

    def _device(self, given: list[_Record], read: Callable[[_Record], _Handle]) -> Any:
        return np.fromiter((self.agents.get(whole(read(one).handle), -1) for one in given), np.int64, len(given))

    def _operation(self, one: _Record) -> str:
        """The name of what a record is of, by the tables of names."""
        kind, operation = whole(one.kind), whole(one.operation)
        if 0 <= kind < len(self.kinds):
            names = _entries(self.kinds[kind].get("operations"))
            if 0 <= operation < len(names):
                return str(names[operation])
        return f"operation {kind}.{operation}"


def _entries(given: Any) -> list[Any]:
    return given if isinstance(given, list) else []

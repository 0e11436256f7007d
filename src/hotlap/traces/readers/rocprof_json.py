"""The JSON of rocprofv3, as ROCm/rocm-systems projects/rocprofiler-sdk/source/lib/output/generateJSON.cpp writes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from hotlap.core.errors import InputError
from hotlap.traces import events as ev
from hotlap.traces.building import Builder
from hotlap.traces.events import Head
from hotlap.traces.readers import packed
from hotlap.traces.readers.filling import FAR, Filling, places, whole
from hotlap.traces.readers.rocm import copied, launch, small

LARGEST = 1 << 30  # bytes of a document
ROWS = 1 << 16
RECORDS = {  # of JSON; calls first, because what they start comes after
    "marker_api": ev.MARKER, "hip_api": ev.RUNTIME, "hsa_api": ev.RUNTIME, "rccl_api": ev.RUNTIME, "kernel_dispatch": ev.KERNEL,
    "memory_copy": ev.COPY,
}  # fmt: skip


class _Handle(msgspec.Struct):
    handle: Any = -1


class _Correlation(msgspec.Struct):
    internal: Any = -1
    external: Any = -1


class _Size(msgspec.Struct):
    x: Any = 1
    y: Any = 1
    z: Any = 1

    def all(self) -> tuple[Any, Any, Any]:
        return self.x, self.y, self.z


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


def read(path: Path, into: Builder, name: str) -> Head:
    """Adds the events of all processes of one document; it is kept whole."""
    text = packed.whole(path, LARGEST, "; let rocprofv3 write CSV or rocpd (--output-format rocpd)")
    try:
        tools = msgspec.json.decode(text.removeprefix(b"\xef\xbb\xbf"), type=_Document).tool
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            tools = msgspec.json.decode(text.decode("utf-8", "replace"), type=_Document).tool
        except (msgspec.DecodeError, RecursionError) as error:
            raise InputError(f"'{path}' is no JSON of rocprofv3: {error}") from None
    del text
    fill = Filling(into)
    facts: dict[str, Any] = {}
    devices: list[dict[str, Any]] = []
    for tool in tools if isinstance(tools, list) else [tools]:
        found = _JsonTool(tool, fill)
        found.read(path)
        devices += found.devices
        facts |= {
            key: value for key, value in tool.metadata.items() if isinstance(value, str) or (isinstance(value, int) and abs(value) < FAR)
        }
    return fill.head(path, name, facts=facts, devices=devices)


class _JsonTool:
    """What one process recorded."""

    def __init__(self, tool: _Tool, fill: Filling) -> None:
        self.tool, self.fill, self.into = tool, fill, fill.into
        self.kernels: dict[Any, str] = {
            whole(one.get("kernel_id")): str(one.get("formatted_kernel_name") or one.get("kernel_name")) for one in tool.kernel_symbols
        }
        self.kinds = [one for one in _entries(tool.strings.get("buffer_records")) if isinstance(one, dict)]
        self.texts = {
            whole(one.get("key")): str(one.get("value")) for one in _entries(tool.strings.get("marker_api")) if isinstance(one, dict)
        }
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
            self.into.notice("unusual_form", "tables that are no lists were skipped")
        for raw in raws:
            try:
                records.append(_ONE.decode(raw))
            except (msgspec.DecodeError, UnicodeDecodeError):
                self.into.notice("unusual_form", "records of another form than is usual were skipped")
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
                launch(i.grid_size.all(), i.workgroup_size.all(), -1, i.group_segment_size) for i in (one.dispatch_info for one in given)
            )
            self.fill.add(
                start, end, name=places(self.into.names, (self._kernel(one) for one in given), count),
                device=self._device(given, lambda one: one.dispatch_info.agent_id),
                stream=np.where(stream >= 0, stream, small(numbers(lambda one: one.dispatch_info.queue_id.handle))),
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

    def _kernel(self, record: _Record) -> str:
        return self.kernels.get(whole(record.dispatch_info.kernel_id), f"kernel {whole(record.dispatch_info.kernel_id)}")

    def _device(self, given: list[_Record], read: Callable[[_Record], _Handle]) -> Any:
        return np.fromiter((self.agents.get(whole(read(one).handle), -1) for one in given), np.int64, len(given))

    def _operation(self, record: _Record) -> str:
        """The name of what a record is of, by the tables of names."""
        kind, operation = whole(record.kind), whole(record.operation)
        if 0 <= kind < len(self.kinds):
            names = _entries(self.kinds[kind].get("operations"))
            if 0 <= operation < len(names):
                return str(names[operation])
        return f"operation {kind}.{operation}"


def _entries(given: Any) -> list[Any]:
    return given if isinstance(given, list) else []

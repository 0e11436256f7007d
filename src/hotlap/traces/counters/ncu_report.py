"""Nsight Compute's own report, .ncu-rep: blocks of Protocol Buffers messages.

Format: `NVR\\0`, then a header and blocks, each message behind its length (4 bytes, little endian). The numbers of fields are those
of the .proto files that Nsight Compute ships in extras/FileFormat (docs.nvidia.com/nsight-compute/CustomizationGuide, Report File
Format); they are named below where they are used. Checked against files of version 7 of the format (2022); estimates of gains that later
versions keep beside the texts of rules are not read.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

from hotlap.core.errors import InputError
from hotlap.core.record import Notice
from hotlap.traces.counters import metrics, wire
from hotlap.traces.counters.kernel import CountedKernel, KernelProfile, Remark, Three, three, whole
from hotlap.traces.counters.loading import load
from hotlap.traces.counters.wire import DamagedWire, Field

NAME = "ncu-rep"
ABOUT = "Nsight Compute (.ncu-rep)"
MAGIC = b"NVR\0"
MOST_BYTES = 1 << 30
OPCODES = "sass__inst_executed_per_opcode"
KINDS = {0: "", 1: "OK", 2: "OPT", 3: "ERR", 4: "OPT"}


class ReportBlock(NamedTuple):
    """Header of a block: what follows it."""

    sources: int
    results: int
    size: int  # bytes of its payload
    strings: list[str]


class Value(NamedTuple):
    """A metric: its number or text, and the numbers of its instances that are named by a text."""

    number: float | None
    text: str
    instances: dict[str, float]


def sniff(path: Path, head: bytes) -> bool:
    return head[:4] == MAGIC


def read(path: Path) -> KernelProfile:
    """The kernels of one file. Raises InputError where there are none."""
    data = load(path, MOST_BYTES)
    kernels: list[CountedKernel] = []
    notices: list[Notice] = []
    strings: list[str] = []
    at = 4
    try:
        head, at = _message(data, at)
        facts = {"version": next((f.whole for f in wire.fields(head) if f.number == 1), 0)}
        while at < len(data):
            raw, at = _message(data, at)
            block = _block(raw)
            strings = strings + block.strings  # a later block adds to the texts of those before it
            for message in _results(data, at, block):
                kernels.append(_kernel(len(kernels), message, strings))
            at += block.size
            if at > len(data):
                raise DamagedWire("it ends within a block")
    except DamagedWire as error:
        if not kernels:
            raise InputError(f"'{path}' is no whole report of Nsight Compute: {error}") from None
        notices.append(Notice("cut_off", f"the file is cut off or damaged ({error}): kernels before that place were read"))
    if not kernels:
        raise InputError(f"'{path}' holds no kernel; were kernels profiled? (reports of ranges alone are not read)")
    return KernelProfile(path=str(path), reader=NAME, kernels=kernels, facts=facts, notices=notices)


def _message(data: memoryview, at: int) -> tuple[memoryview, int]:
    """A message behind its length, and the place after it."""
    if at + 4 > len(data):
        raise DamagedWire("it ends within a length")
    (size,) = struct.unpack_from("<I", data, at)
    if size > len(data) - at - 4:
        raise DamagedWire("it ends within a message")
    return data[at + 4 : at + 4 + size], at + 4 + size


def _block(raw: memoryview) -> ReportBlock:
    """BlockHeader: NumSources 1, NumResults 2, StringTable 4 (Strings 1), PayloadSize 5."""
    numbers = {1: 0, 2: 0, 5: 0}
    strings: list[str] = []
    for field in wire.fields(raw):
        if field.number in numbers:
            numbers[field.number] = field.whole
        elif field.number == 4:
            strings = [one.text for one in wire.fields(field.data) if one.number == 1]
    return ReportBlock(numbers[1], numbers[2], numbers[5], strings)


def _results(data: memoryview, at: int, block: ReportBlock) -> list[memoryview]:
    """The messages of kernels in a payload, behind those of sources."""
    results: list[memoryview] = []
    end = at + block.size
    if block.sources + block.results > block.size // 4:
        raise DamagedWire("a block that counts more messages than it has room for")
    for place in range(block.sources + block.results):
        raw, at = _message(data, at)
        if at > end:
            raise DamagedWire("a message longer than its block")
        if place >= block.sources:
            results.append(raw)
    return results


def _three(field: Field) -> Three | None:
    """Uint64x3: X 1, Y 2, Z 3."""
    sizes = {one.number: one.whole for one in wire.fields(field.data)}
    return three([sizes.get(1, 1), sizes.get(2, 1), sizes.get(3, 1)])


def _kernel(place: int, raw: memoryview, strings: list[str]) -> CountedKernel:
    """ProfileResult: names 5, 6, 7 (mangled, function, demangled), GridSize 10, BlockSize 11, MetricResults 13, RuleResults 19."""
    names: dict[int, str] = {}
    sizes: dict[int, Three | None] = {}
    values: dict[str, Value] = {}
    remarks: list[Remark] = []
    for field in wire.fields(raw):
        if field.number in (5, 6, 7):
            names[field.number] = field.text
        elif field.number in (10, 11):
            sizes[field.number] = _three(field)
        elif field.number == 13:
            values.update(_metric(field, strings))
        elif field.number == 19:
            remarks += _remarks(field)
    by_metric = {name: (value.number, "") for name, value in values.items() if value.number is not None}
    known, used = metrics.by_name(by_metric)
    shared = by_metric.get(
        "launch__shared_mem_per_block", (sum(known.get(f"shared_{part}_bytes", 0.0) for part in ("static", "dynamic")), "")
    )
    version = {part: by_metric.get(f"device__attribute_compute_capability_{part}", (None, ""))[0] for part in ("major", "minor")}
    return CountedKernel(
        place=place, name=names.get(7) or names.get(6) or names.get(5) or "(no name)",
        device=values["device__attribute_display_name"].text if "device__attribute_display_name" in values else "",
        capability="" if None in version.values() else f"{version['major']:.0f}.{version['minor']:.0f}",
        grid=sizes.get(10), block=sizes.get(11), registers=whole(known.get("registers")),
        shared_bytes=whole(shared[0]), duration_s=known.get("duration_s"), metrics=known,
        others={name: pair for name, pair in by_metric.items() if name not in used},
        opcodes=values[OPCODES].instances if OPCODES in values else {}, remarks=remarks,
    )  # fmt: skip


def _metric(field: Field, strings: list[str]) -> dict[str, Value]:
    """ProfileMetricResult: NameId 1, MetricValue 2, MetricInstances 3 (CorrelationId 1, Value 2)."""
    name = ""
    number: float | None = None
    text = ""
    instances: dict[str, float] = {}
    for piece in wire.fields(field.data):
        if piece.number == 1:
            name = strings[piece.whole] if piece.whole < len(strings) else ""
        elif piece.number == 2:
            number, text = _value(piece)
        elif piece.number == 3:
            if name != OPCODES:  # instances stand last and are most of the file: one per instruction of the kernel
                break
            parts = {part.number: _value(part) for part in wire.fields(piece.data)}
            amount = parts.get(2, (None, ""))[0]
            if amount is not None and parts.get(1, (None, ""))[1]:
                instances[parts[1][1]] = amount
    return {name: Value(number, text, instances)} if name else {}


def _value(field: Field) -> tuple[float | None, str]:
    """ProfileMetricValue, one of: StringValue 1, FloatValue 2, DoubleValue 3, Uint32Value 4, Uint64Value 5."""
    for one in wire.fields(field.data):
        if one.number == 1:
            return None, one.text
        if one.number in (2, 3, 4, 5) and one.kind != wire.BYTES:
            real = one.real
            return (real if abs(real) < float("inf") else None), ""  # neither infinite nor NaN
    return None, ""


def _remarks(field: Field) -> list[Remark]:
    """RuleResult: Identifier 1, Body 3 (Items 1: Message 1: Message 1, Type 2)."""
    rule = ""
    remarks = []
    for one in wire.fields(field.data):
        if one.number == 1:
            rule = one.text
        elif one.number == 3:
            for item in wire.fields(one.data):
                for part in wire.fields(item.data) if item.number == 1 else ():
                    if part.number == 1:
                        said = {piece.number: piece for piece in wire.fields(part.data)}
                        kind = KINDS.get(said[2].whole, "") if 2 in said else ""
                        remarks.append(Remark(rule=rule, text=said[1].text if 1 in said else "", kind=kind))
    return remarks

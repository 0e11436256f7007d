"""Reads an ONNX file: its nodes, constants and inputs. The format is protocol buffers (onnx/onnx.proto3, field numbers below)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.training.infer_record import ModelInput

Array = NDArray[Any]
DTYPES = {  # TensorProto.DataType
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16", 11: "float64",
    12: "uint32", 13: "uint64",
}  # fmt: skip
TYPED = {4: "<f4", 5: "varint", 7: "varint", 10: "<f8", 11: "varint"}  # of a TensorProto whose values are no raw bytes


class Node(NamedTuple):
    """One operator. "" in `inputs` is an optional one that is not given."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]


class Graph(NamedTuple):
    """A graph; its nodes stand in an order in which they can run."""

    nodes: tuple[Node, ...]
    constants: dict[str, Array]
    inputs: tuple[ModelInput, ...]
    outputs: tuple[str, ...]
    opset: int


def read(data: bytes) -> Graph:
    """Raises ValueError for what is no ONNX file."""
    try:
        model = _grouped(data)
        opsets = [_grouped(one) for one in model.get(8, [])]
        version = max((int(one[2][0]) for one in opsets if not one.get(1, [b""])[0]), default=0)
        return _graph(model[7][0], version)
    except (KeyError, IndexError, TypeError, struct.error, UnicodeDecodeError) as error:
        raise ValueError(f"no ONNX file, or one that is cut off ({type(error).__name__} in its protobuf): export it again") from None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise IndexError("a number of more than 10 bytes")


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        size, at = _varint(data, at) if wire == 2 else ({1: 8, 5: 4}[wire], at)
        if at + size > len(data):
            raise IndexError("it ends early")
        yield key >> 3, data[at : at + size]
        at += size


def _grouped(data: bytes) -> dict[int, list[Any]]:
    if not isinstance(data, bytes):
        raise TypeError("a message where a number stands")
    groups: dict[int, list[Any]] = {}
    for number, value in _fields(data):
        groups.setdefault(number, []).append(value)
    return groups


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _numbers(values: list[Any]) -> list[int]:
    """Of a repeated integer, packed or not."""
    every: list[int] = []
    for value in values:
        if isinstance(value, int):
            every.append(_signed(value))
            continue
        at = 0
        while at < len(value):
            number, at = _varint(value, at)
            every.append(_signed(number))
    return every


def _graph(data: bytes, opset: int) -> Graph:
    groups = _grouped(data)
    tensors = [_grouped(one) for one in groups.get(5, [])]
    constants = {one[8][0].decode(): _tensor(one) for one in tensors}
    inputs = [_input(_grouped(one)) for one in groups.get(11, [])]
    nodes = tuple(_node(_grouped(one), opset) for one in groups.get(1, []))
    outputs = tuple(_grouped(one)[1][0].decode() for one in groups.get(12, []))
    return Graph(nodes, constants, tuple(i for i in inputs if i.name not in constants), outputs, opset)


def _input(group: dict[int, list[Any]]) -> ModelInput:
    tensor = _grouped(_grouped(group[2][0])[1][0])
    sizes = [_grouped(one) for one in _grouped(tensor[2][0]).get(1, [])] if 2 in tensor else []
    return ModelInput(group[1][0].decode(), DTYPES[tensor[1][0]], tuple(one[1][0] if 1 in one else None for one in sizes))


def _node(group: dict[int, list[Any]], opset: int) -> Node:
    attributes = dict(_attribute(_grouped(one), opset) for one in group.get(5, []))
    names = [tuple(name.decode() for name in group.get(field, [])) for field in (1, 2)]
    return Node(group[4][0].decode(), names[0], names[1], attributes)


def _attribute(group: dict[int, list[Any]], opset: int) -> tuple[str, Any]:
    name, kind = group[1][0].decode(), group.get(20, [0])[0]
    if kind == 1 or (not kind and 2 in group):
        return name, struct.unpack("<f", group[2][0])[0] if 2 in group else 0.0
    if kind == 2 or (not kind and 3 in group):
        return name, _signed(group[3][0]) if 3 in group else 0
    if kind == 3 or 4 in group:
        return name, group[4][0].decode() if 4 in group else ""
    if kind == 4 or 5 in group:
        return name, _tensor(_grouped(group[5][0]))
    if kind == 5 or 6 in group:
        return name, _graph(group[6][0], opset)
    if kind == 6 or 7 in group:
        return name, [value for piece in group.get(7, []) for (value,) in struct.iter_unpack("<f", piece)]
    if kind == 8 or 9 in group:
        return name, [value.decode() for value in group.get(9, [])]
    return name, _numbers(group.get(8, []))


def _tensor(group: dict[int, list[Any]]) -> Array:
    sizes, dtype = _numbers(group.get(1, [])), np.dtype(DTYPES[group[2][0]])
    if 9 in group:
        return np.frombuffer(group[9][0], dtype.newbyteorder("<")).astype(dtype).reshape(sizes)
    field = next((number for number in TYPED if number in group), None)
    if field is None:
        return np.zeros(sizes, dtype)
    if TYPED[field] != "varint":
        return np.frombuffer(b"".join(group[field]), TYPED[field]).astype(dtype).reshape(sizes)
    values = np.array(_numbers(group[field]), np.int64)
    return (values.astype(np.uint16).view(np.float16) if dtype == np.float16 else values.astype(dtype)).reshape(sizes)

"""Writes small ONNX files: a perceptron whose first size is open, as protocol buffers."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number: int, value: int | bytes | str | float) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def tensor(name: str, values: np.ndarray) -> bytes:
    sizes = b"".join(field(1, size) for size in values.shape)
    return sizes + field(2, 1) + field(8, name) + field(9, values.astype("<f4").tobytes())


def value_info(name: str, sizes: tuple[int | str, ...]) -> bytes:
    shape = b"".join(field(1, field(1, size) if isinstance(size, int) else field(2, size)) for size in sizes)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)))


def node(kind: str, inputs: tuple[str, ...], outputs: tuple[str, ...], attributes: bytes = b"") -> bytes:
    return b"".join(field(1, name) for name in inputs) + b"".join(field(2, name) for name in outputs) + field(4, kind) + attributes


def perceptron(path: Path, seed: int = 0, kind: str = "Relu", width: int = 16) -> Path:
    """y = activation(x·W + b)·V of 8 inputs and 4 outputs."""
    random = np.random.default_rng(seed)
    weights = {"w": (8, width), "b": (width,), "v": (width, 4)}
    graph = b"".join((
        field(1, node("MatMul", ("x", "w"), ("a",))), field(1, node("Add", ("a", "b"), ("c",))), field(1, node(kind, ("c",), ("d",))),
        field(1, node("MatMul", ("d", "v"), ("y",))), field(2, "perceptron"),
        *(field(5, tensor(name, random.standard_normal(sizes) / 4)) for name, sizes in weights.items()),
        field(11, value_info("x", ("batch", 8))), field(12, value_info("y", ("batch", 4))),
    ))  # fmt: skip
    path.write_bytes(field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13)))
    return path

"""The signature of a kernel in OpenCL C or CUDA C++: its name and its arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

DTYPES = {"float": "fp32", "double": "fp64", "half": "fp16", "__half": "fp16", "__nv_bfloat16": "bf16", "int": "int32", "char": "int8"}
SCALARS = {"int": "int32", "unsigned": "uint32", "uint": "uint32", "long": "int64", "size_t": "int64", "float": "fp32", "double": "fp64"}
SIGNATURE = re.compile(
    r"(?:__kernel|\bkernel|__global__)\s+(?:__attribute__\s*\(\(.*?\)\)\s*)?void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(([^)]*)\)"
)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
QUALIFIERS = {"__global", "global", "const", "restrict", "__restrict__", "__restrict", "volatile", "__constant", "constant"}


class Argument(NamedTuple):
    """Of the signature. `kind`: its C type without qualifiers."""

    name: str
    kind: str
    pointer: bool
    const: bool


def arguments(text: str) -> list[Argument]:
    """Of the text between the brackets."""
    found = []
    for part in filter(str.strip, text.split(",")):
        tokens = re.findall(r"\w+|\*", part)
        types = [token for token in tokens[:-1] if token not in QUALIFIERS and token != "*"]
        found.append(Argument(tokens[-1], types[-1] if types else "int", "*" in tokens, "const" in tokens))
    return found


def listed(names: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"

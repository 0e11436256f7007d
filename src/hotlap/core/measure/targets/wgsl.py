"""Kernels in WGSL with a heading that says what they take, so that one source holds many and a call names buffers and scalars alone:

    KERNEL scale(a: read S, b: write S, factor: f32, n: u32) {
        if (ID < n) { b[ID] = factor * a[ID]; }
    }

`read`, `write` and `atomic` are arrays in storage, bound in order; the rest are scalars, packed into one uniform. ID, LID, ITEMS and
GROUP_SIZE are as in the common C dialect. Its defines are understood too: S=float, T=VEC(float,4), CHAINS=8, BLOCKED=1. In a line that
begins with DO, which is repeated for each chain, # is the chain's number. WGSL has no 64-bit whole numbers: those given become u32.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hotlap.core.errors import DoesNotCompile, NotSupported

HEADING = re.compile(r"\bKERNEL\s+(\w+)\s*\(([^)]*)\)\s*\{")
SCALARS = {"float": "f32", "uint": "u32", "int": "i32"}
Number = type[np.float32] | type[np.uint32] | type[np.int32]
NUMPY: dict[str, Number] = {"f32": np.float32, "u32": np.uint32, "i32": np.int32}
RANGES: dict[Number, tuple[float, float]] = {np.uint32: (0, 2**32 - 1), np.int32: (-(2**31), 2**31 - 1)}
WIDTHS = (1, 2, 4)
TYPES = ("S", "T", "R")  # defines that are names of types
ACCESS = {"read": "read", "write": "read_write", "atomic": "read_write"}
BUILT_IN = {"hl_global": "global_invocation_id", "hl_local": "local_invocation_id", "hl_groups": "num_workgroups"}
PLACES = ", ".join(f"@builtin({name}) {word}: vec3u" for word, name in BUILT_IN.items())
ENTRY = "hl_kernel"  # whatever the kernel is called: `atomic` is a word of WGSL
BEGIN = "ID = hl_global.x; LID = hl_local.x; ITEMS = hl_groups.x * GROUP_SIZE;"


@dataclass(frozen=True)
class WgslSource:
    """One kernel, taken out of its source: `text` lacks only the group's size."""

    text: str
    buffers: tuple[str, ...]  # access of each, in order of binding
    scalars: tuple[str, ...]  # WGSL types, in order

    def sized(self, group: int) -> str:
        """The module for groups of so many work-items."""
        return f"const GROUP_SIZE: u32 = {group}u;\n{self.text}"

    def packed(self, values: Sequence[np.generic]) -> bytes:
        """The uniform's bytes. Raises NotSupported for a whole number that does not fit 32 bits."""
        if len(values) != len(self.scalars):
            raise NotSupported(f"the kernel takes {len(self.scalars)} scalars, not {len(values)}")
        return b"".join(_word(value, NUMPY[kind]) for value, kind in zip(values, self.scalars, strict=True))


def _word(value: np.generic, kind: Number) -> bytes:
    low, high = RANGES.get(kind, (-np.inf, np.inf))
    if not low <= value.item() <= high:
        raise NotSupported(f"WGSL has no whole numbers of 64 bits, and {value} does not fit 32")
    return kind(value).tobytes()


def taken(source: str, name: str, defines: Sequence[str] = ()) -> WgslSource:
    """The kernel of that name with all functions, and without the other kernels. Raises DoesNotCompile."""
    values = {key: value for key, _, value in (one.partition("=") for one in defines)}
    outside, at, chosen = [], 0, None
    for heading in HEADING.finditer(source):
        end = _closing(source, heading.end())
        outside.append(source[at : heading.start()])
        at = end + 1
        if heading[1] == name:
            chosen = (heading[2], source[heading.end() : end])
    if chosen is None:
        raise DoesNotCompile(f"the kernel '{name}' does not compile: there is no KERNEL {name} in its source")
    arguments = [_argument(one, name, values) for one in chosen[0].split(",") if one.strip()]
    body = _repeated("".join([*outside, source[at:], "\x00", chosen[1]]), int(values.get("CHAINS", "1")))
    helpers, body = body.split("\x00")
    return WgslSource(
        _module(helpers, body, arguments, values),
        tuple(access for _, access, _ in arguments if access), tuple(kind for _, access, kind in arguments if not access),
    )


def _closing(source: str, at: int) -> int:
    depth = 1
    for place in range(at, len(source)):
        depth += {"{": 1, "}": -1}.get(source[place], 0)
        if not depth:
            return place
    raise DoesNotCompile("the kernel does not compile: a brace is not closed")


def _argument(text: str, name: str, values: dict[str, str]) -> tuple[str, str, str]:
    """Name, access ("" for a scalar) and WGSL type of one argument."""
    word, _, rest = text.partition(":")
    *access, kind = rest.split() or [""]
    known = _kind(values.get(kind, kind))
    if not word.strip() or not kind or (access and access[0] not in ACCESS) or (not access and known not in NUMPY):
        raise DoesNotCompile(f"the kernel '{name}' does not compile: '{text.strip()}' is no argument, as n: u32 or a: read f32 is")
    return word.strip(), access[0] if access else "", known


def _kind(text: str) -> str:
    """A type of the common C dialect in WGSL."""
    vector = re.fullmatch(r"VEC\((\w+),\s*(\d+)\)", text)
    if not vector:
        return SCALARS.get(text, text)
    scalar, width = SCALARS.get(vector[1], vector[1]), int(vector[2])
    if width not in WIDTHS:
        raise DoesNotCompile(f"WGSL has no vector of {width}; at most 4")
    return scalar if width == 1 else f"vec{width}<{scalar}>"


def _repeated(text: str, chains: int) -> str:
    def lines(match: re.Match[str]) -> str:
        return "\n".join(match[1].replace("#", str(chain)) for chain in range(chains))

    return re.sub(r"^\s*DO (.*)$", lines, text, flags=re.MULTILINE)


def _module(helpers: str, body: str, arguments: list[tuple[str, str, str]], values: dict[str, str]) -> str:
    buffers = [(word, access, kind) for word, access, kind in arguments if access]
    scalars = [(word, kind) for word, access, kind in arguments if not access]
    head = ["var<private> ID: u32;", "var<private> LID: u32;", "var<private> ITEMS: u32;"]
    head += [f"alias {word} = {_kind(value)};" for word, value in values.items() if word in TYPES]
    head.append(f"const BLOCKED: bool = {'true' if 'BLOCKED' in values else 'false'};")
    head += [f"const {word}: u32 = {value}u;" for word, value in values.items() if value.isdigit() and word not in (*TYPES, "BLOCKED")]
    for place, (word, access, kind) in enumerate(buffers):
        element = f"atomic<{kind}>" if access == "atomic" else kind
        head.append(f"@group(0) @binding({place}) var<storage, {ACCESS[access]}> {word}: array<{element}>;")
    if scalars:
        head.append("struct HlScalars { " + ", ".join(f"{word}: {kind}" for word, kind in scalars) + " }")
        head.append(f"@group(0) @binding({len(buffers)}) var<uniform> hl_scalars: HlScalars;")
    lets = " ".join(f"let {word} = hl_scalars.{word};" for word, _ in scalars)
    start = f"@compute @workgroup_size(GROUP_SIZE) fn {ENTRY}({PLACES}) {{ {BEGIN} {lets}"
    return "\n".join([*head, helpers, start, body, "}"])

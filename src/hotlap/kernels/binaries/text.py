"""Kernels in text: PTX, and disassembly of NVIDIA's and AMD's machine code. Names of instructions out, kernel by kernel."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import NamedTuple

from hotlap.core.errors import InputError

_ENTRY = re.compile(r"\.entry\s+([\w$]+)")
_FUNC = re.compile(r"^\s*(?:\.visible\s+|\.weak\s+|\.extern\s+)*\.(?:func|entry)\b", re.MULTILINE)
_PTX_LINE = re.compile(r"(?:^|[;{}]|\w:)\s*(?:@!?%\w+\s+)?([a-z][\w.]*(?:::\w+[\w.]*)*)(?=[\s;])", re.MULTILINE)
_SASS_TEXT = re.compile(r"^\s*(?:\.section\s+)?\.text\.([^,:\s]+)")
_SASS_LINE = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:\{\s*)?(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*(?:\.[\w.]+)?)")
_SASS_FUNCTION = re.compile(r"^\s*Function\s*:\s*(\S+)")
_AMD_LABEL = re.compile(r"^(?:[0-9a-f]+ <)?([\w.$]+)>?:")
_AMD_LINE = re.compile(r"^\s+([sv]_\w+|(?:ds|global|buffer|flat|scratch)_\w+)")


class PtxKernel(NamedTuple):
    """A kernel of a PTX file. Registers are virtual there, so that they say nothing of the machine's."""

    name: str
    instructions: list[str]
    threads: int | None
    shared_bytes: int  # declared within it
    local_bytes: int


class Ptx(NamedTuple):
    """A PTX file."""

    target: str  # sm_90
    version: str
    kernels: list[PtxKernel]


def ptx(text: str, name: str) -> Ptx:
    """Raises InputError for a text that is no PTX."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    version, target = re.search(r"^\s*\.version\s+([\d.]+)", text, re.MULTILINE), re.search(r"^\s*\.target\s+(\w+)", text, re.MULTILINE)
    if not version or not target:
        raise InputError(f"{name}: not PTX: no line '.version' and '.target'")
    ends = [*(one.start() for one in _FUNC.finditer(text)), len(text)]
    kernels = []
    for start, end in itertools.pairwise(ends):
        body = text[start:end]
        entry = _ENTRY.search(body)
        if entry and "{" in body:
            head, _, code = body.partition("{")
            instructions = [one for one in _PTX_LINE.findall(code) if one not in ("reg", "local", "shared")]
            kernels.append(PtxKernel(entry[1], instructions, _threads(head), _declared(code, "shared"), _declared(code, "local")))
    return Ptx(target[1], version[1], kernels)


def _threads(head: str) -> int | None:
    """Of `.reqntid` or `.maxntid`."""
    given = re.search(r"\.(?:reqntid|maxntid)\s+([\d,\s]+)", head)
    if not given:
        return None
    product = 1
    for part in given[1].split(","):
        product *= int(part) if part.strip() else 1
    return product


def _declared(code: str, space: str) -> int:
    """Bytes of variables of a state space."""
    total = 0
    for bits, sizes in re.findall(rf"\.{space}\s+(?:\.align\s+\d+\s+)?\.[bfus](\d+)\s+[\w$]+((?:\[\d+\])*)", code):
        count = 1
        for size in re.findall(r"\d+", sizes):
            count *= int(size)
        total += int(bits) // 8 * count
    return total


def sass(text: str) -> Mapping[str, list[str]]:
    """Instructions of each kernel from the output of `nvdisasm` or `cuobjdump -sass`. A half-precision product of zeros is how compilers
    load a constant: a move."""
    by_kernel: dict[str, list[str]] = {}
    here: list[str] | None = None
    for line in text.splitlines():
        if header := _SASS_TEXT.match(line) or _SASS_FUNCTION.match(line):
            here = by_kernel.setdefault(header[1].strip('"'), [])
        elif here is not None and (match := _SASS_LINE.match(line)):
            here.append("MOV" if match[1].startswith("HFMA2") and "RZ, RZ" in line else match[1])
    return by_kernel


def amdgcn(text: str) -> Mapping[str, list[str]]:
    """The same from an assembler's listing, or from `llvm-objdump -d`."""
    by_kernel: dict[str, list[str]] = {}
    here: list[str] | None = None
    for line in text.splitlines():
        label = _AMD_LABEL.match(line)
        if label and not label[1].startswith((".L", "BB", "L")):
            here = by_kernel.setdefault(label[1], [])
        elif here is not None and (match := _AMD_LINE.match(line)):
            here.append(match[1])
    return {name: some for name, some in by_kernel.items() if some}


_PTXAS = re.compile(r"Compiling entry function '([^']+)' for '(\w+)'")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


def ptxas(log: str) -> Mapping[str, tuple[int, int]]:
    """Bytes of spill stores and loads of each kernel, from what `ptxas -v` says."""
    by_kernel: dict[str, tuple[int, int]] = {}
    name = ""
    for line in log.splitlines():
        if entry := _PTXAS.search(line):
            name = entry[1]
        elif name and (spills := _SPILLS.search(line)):
            by_kernel[name], name = (int(spills[2]), int(spills[3])), ""
    return by_kernel

"""A processor that is newer than PoCL's compiler.

PoCL passes the name that LLVM has for the host processor to Clang. LLVM answers "generic" for one that it does not know, and Clang
refuses that name on x86 ("unknown target CPU 'generic'", pocl issue 1049), so no kernel compiles: PoCL 3.0 from PyPI on AMD's Zen 5.
PoCL has no option for the name. So it is replaced in the driver's record of the device by the x86-64 level (psABI) whose features
the processor has. Levels of a known processor are never touched.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from pathlib import Path

UNKNOWN = b"generic"
RECORD_BYTES = 4096  # of the driver's record of a device, in which the pointer to the name is looked for
LEVELS = {  # newest first: what Linux calls the features that a level adds to the one below it
    "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
    "x86-64-v3": {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"},
    "x86-64-v2": {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"},
    "x86-64": set(),
}
_names = {name: ctypes.create_string_buffer(name.encode()) for name in LEVELS}  # drivers keep pointers to them


def level(flags: set[str]) -> str:
    """The x86-64 level of a processor with these features, as /proc/cpuinfo spells them."""
    names = list(LEVELS)
    return next(name for i, name in enumerate(names) if all(LEVELS[lower] <= flags for lower in names[i:]))


def name_processor(address: int, cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Gives the driver's record of a device at `address` a name that Clang knows; returns it, or "" where nothing was changed."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        return ""
    place = _pointer_to(UNKNOWN, address)
    if place is None:
        return ""
    name = level(_flags(cpuinfo))
    ctypes.c_void_p.from_address(place).value = ctypes.addressof(_names[name])
    return name


def _pointer_to(text: bytes, address: int) -> int | None:
    """The address of the pointer in the record that points to this text. Read as a file: an address that is none is an error, no crash."""
    try:
        memory = os.open("/proc/self/mem", os.O_RDONLY)
    except OSError:
        return None
    try:
        record = _read(memory, address, RECORD_BYTES)
        for offset in range(0, len(record) - 7, 8):
            (pointer,) = struct.unpack_from("Q", record, offset)
            if pointer >> 47 == 0 and pointer > 4096 and _read(memory, pointer, len(text) + 1) == text + b"\0":
                return address + offset
        return None
    finally:
        os.close(memory)


def _read(memory: int, address: int, nbytes: int) -> bytes:
    try:
        return os.pread(memory, nbytes, address)
    except OSError:
        return b""


def _flags(cpuinfo: Path) -> set[str]:
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()
    return next((set(line.partition(":")[2].split()) for line in text.splitlines() if line.startswith("flags")), set())

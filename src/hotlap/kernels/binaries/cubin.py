"""NVIDIA's machine code: registers, stack, shared memory and sizes from a cubin's `.nv.info`, without a tool.

The attributes are not documented; their numbers and layout are what `cuobjdump -elf` of CUDA 11 to 13 prints for them (EIATTR_*): a byte
of format, a byte of name, then two bytes of value or of the length of what follows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from hotlap.core.errors import InputError
from hotlap.kernels.binaries.base import Compiled
from hotlap.kernels.binaries.elf import CUDA, FUNCTION, Elf

REGISTERS, FRAME, STACK, MAX_THREADS, REQUIRED_THREADS = 0x2F, 0x11, 0x12, 0x05, 0x10  # EIATTR_*
SIZED = 0x04  # EIFMT_SVAL: the two bytes are a length
ENTRY = 0x10  # st_other: a kernel, not a function that kernels call
RESERVED = ".nv.reservedSmem.offset0"  # a symbol; where it is there, sizes of shared memory hold the bytes below
RESERVED_BYTES = 1024  # of shared memory, which the system takes from compute capability 8.0 on
NEW_ABI = 8  # e_ident[EI_ABIVERSION], CUDA 13: the architecture moved up by a byte in e_flags


def read(data: bytes, name: str) -> list[Compiled]:
    """The kernels of a cubin. Raises InputError for a file that is none, or is damaged."""
    elf = Elf(data, name)
    if elf.machine != CUDA:
        raise InputError(f"{name}: an ELF file, but not of NVIDIA's machine code (machine {elf.machine}, not {CUDA})")
    names = [one.name for one in elf.symbols]
    figures: dict[str, dict[int, int]] = {}
    info = elf.section(".nv.info")
    for attribute, value in _attributes(info.data if info else b"", name):
        if attribute in (REGISTERS, FRAME, STACK) and len(value) >= 8:
            symbol, number = struct.unpack_from("<II", value)
            if symbol < len(names):
                figures.setdefault(names[symbol], {})[attribute] = number
    kernels = [one for one in elf.symbols if one.kind == FUNCTION and one.other & ENTRY and one.name in figures]
    architecture = arch(elf)
    return [_kernel(elf, one.name, figures[one.name], architecture) for one in kernels]


def arch(elf: Elf) -> str:
    """As in sm_90."""
    number = (elf.flags >> 8) & 0xFF if elf.abi[1] >= NEW_ABI else elf.flags & 0xFF
    return f"sm_{number}" if number else ""


def _kernel(elf: Elf, name: str, figures: dict[int, int], architecture: str) -> Compiled:
    own = elf.section(f".nv.info.{name}")
    threads = None
    for attribute, value in _attributes(own.data if own else b"", elf.name):
        if attribute in (MAX_THREADS, REQUIRED_THREADS) and len(value) >= 12:
            x, y, z = struct.unpack_from("<III", value)
            threads = x * max(y, 1) * max(z, 1)
    shared = elf.section(f".nv.shared.{name}")
    taken = shared.size if shared else 0
    if taken >= RESERVED_BYTES and any(one.name == RESERVED for one in elf.symbols):
        taken -= RESERVED_BYTES
    code = elf.section(f".text.{name}")
    return Compiled(
        kernel=name,
        architecture=architecture,
        source=elf.name,
        registers=figures.get(REGISTERS),
        stack_bytes=max(figures.get(STACK, 0), figures.get(FRAME, 0)),
        shared_bytes=taken,
        threads=threads,
        code_bytes=code.size if code else None,
    )


def _attributes(data: bytes, name: str) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        form, attribute, value = struct.unpack_from("<BBH", data, at)
        at += 4
        if form != SIZED:
            yield attribute, struct.pack("<H", value)
            continue
        if at + value > len(data):
            raise InputError(f"{name}: cut short: an attribute of .nv.info ends {at + value - len(data)} bytes behind it")
        yield attribute, data[at : at + value]
        at += value

"""AMD's machine code: registers, spills and memory from the metadata note of a code object.

Source: LLVM, User Guide for AMDGPU Backend, Code Object V3 Metadata and above (note type 32, MessagePack).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import Any

import msgspec

from hotlap.core.errors import InputError
from hotlap.core.record import Notice
from hotlap.kernels.binaries.base import Compiled
from hotlap.kernels.binaries.elf import AMDGPU, NOTE, Elf

METADATA = 32  # NT_AMDGPU_METADATA


def read(data: bytes, name: str) -> list[Compiled]:
    """The kernels of a code object. Raises InputError for a file that is none, or whose metadata are damaged."""
    elf = Elf(data, name)
    if elf.machine != AMDGPU:
        raise InputError(f"{name}: an ELF file, but not of AMD's machine code (machine {elf.machine}, not {AMDGPU})")
    notes = [note for section in elf.sections if section.kind == NOTE for note in _notes(section.data)]
    text = next((body for owner, kind, body in notes if kind == METADATA and owner == b"AMDGPU"), None)
    if text is None:
        raise InputError(f"{name}: no metadata of its kernels (a note of type {METADATA}); code objects before version 3 have none")
    try:
        told: dict[str, Any] = msgspec.msgpack.decode(text)
        kernels = [_kernel(one, _architecture(told), elf) for one in told["amdhsa.kernels"]]
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{name}: its metadata cannot be read ({error}): damaged") from None
    return kernels


def _architecture(metadata: dict[str, Any]) -> str:
    """gfx942 of amdgcn-amd-amdhsa--gfx942:sramecc+."""
    found = re.search(r"gfx\w+", str(metadata.get("amdhsa.target", "")))
    return found[0] if found else ""


def _kernel(metadata: dict[str, Any], architecture: str, elf: Elf) -> Compiled:
    name = str(metadata[".name"])
    symbol = next((one for one in elf.symbols if one.name == name), None)
    vector, spilled = int(metadata[".vgpr_count"]), int(metadata.get(".vgpr_spill_count", 0))
    notices = []
    if metadata.get(".agpr_count"):
        notices.append(Notice("matrix_registers", f"{metadata['.agpr_count']} of its registers accumulate matrix products (AGPRs)"))
    if metadata.get(".sgpr_spill_count"):
        notices.append(Notice("scalar_spills", f"{metadata['.sgpr_spill_count']} scalar registers spilled"))
    return Compiled(
        kernel=name,
        architecture=architecture,
        source=elf.name,
        registers=vector,
        scalar_registers=metadata.get(".sgpr_count"),
        spill_store_bytes=4 * spilled,
        stack_bytes=metadata.get(".private_segment_fixed_size"),
        shared_bytes=metadata.get(".group_segment_fixed_size"),
        threads=metadata.get(".max_flat_workgroup_size"),
        code_bytes=symbol.size if symbol and symbol.size else None,
        notices=notices,
    )


def _notes(data: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    at = 0
    while at + 12 <= len(data):
        name_size, size, kind = struct.unpack_from("<III", data, at)
        start = at + 12
        body = start + (name_size + 3) // 4 * 4
        if body + size > len(data):
            return
        yield data[start : start + name_size].rstrip(b"\0"), kind, data[body : body + size]
        at = body + (size + 3) // 4 * 4

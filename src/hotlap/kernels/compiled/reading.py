"""From products and ready binaries to kernels: figures from the file, instructions from its disassembly, else from PTX."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from hotlap.core.errors import InputError
from hotlap.kernels.binaries import classes, cubin, elf, hsaco, spirv, text
from hotlap.kernels.binaries.base import Compiled
from hotlap.kernels.compiled import disassembling
from hotlap.kernels.compiled.protocol import Made

FATBIN = 0xBA55ED50
NO_SASS = f"no nvdisasm is here, so its machine code is not counted; {disassembling.REMEDY}"
LOCAL = "its PTX declares no array in local memory: the stack holds spilled registers"


def sniff(path: Path) -> str:
    """What a file is, by its content: cubin, hsaco, ptx, spirv, fatbin, or "" for a source."""
    try:
        head = path.open("rb").read(4096)
    except OSError as error:
        raise InputError(f"'{path}' cannot be read: {error.strerror}") from None
    if head[:4] == elf.MAGIC:
        machine = struct.unpack_from("<H", head, 18)[0] if len(head) >= 20 else 0
        return {elf.CUDA: "cubin", elf.AMDGPU: "hsaco"}.get(machine, "elf")
    word = struct.unpack_from("<I", head)[0] if len(head) >= 4 else 0
    if word in (FATBIN, spirv.MAGIC):
        return "fatbin" if word == FATBIN else "spirv"
    return "ptx" if b".version" in head and (b".target" in head) else ""


def binary(path: Path, kind: str) -> list[Compiled]:
    """The kernels of a ready binary. Raises InputError."""
    if kind == "cubin":
        return [_local(one) for one in _cubin(path)]
    if kind == "hsaco":
        return _amd(path, None)
    if kind == "spirv":
        return [
            _mixed(Compiled(kernel=name, source=path.name, how="read"), some, "SPIR-V")
            for name, some in spirv.read(path.read_bytes(), path.name).items()
        ]
    raise InputError(
        f"'{path}' is {_words(kind)}, which cannot be read; valid: cubin, HSACO, SPIR-V, PTX, or a source (.cu, .cl, FILE.py:FUNCTION)"
    )


def ptx(path: Path, why: str) -> list[Compiled]:
    """The kernels of PTX that could not be made machine code."""
    found = text.ptx(path.read_text(encoding="utf-8", errors="replace"), path.name)
    return [
        _mixed(
            Compiled(
                kernel=one.name,
                architecture=found.target,
                source=path.name,
                how=f"PTX {found.version}",
                threads=one.threads,
                shared_bytes=one.shared_bytes,
                notes=[f"registers, spills and stack are not known: {why}"],
            ),
            one.instructions,
            "PTX",
        )
        for one in found.kernels
    ]


def made(answer: Made, source: str, architecture: str, flags: str) -> list[Compiled]:
    """The kernels that a compilation made."""
    files = {one.kind: Path(one.path) for one in answer.products}
    if "cubin" in files:
        found = _with_ptx(_cubin(files["cubin"]), files.get("ptx"), answer)
    elif "hsaco" in files:
        found = _amd(files["hsaco"], files.get("amdgcn"))
    elif "ptx" in files:
        found = ptx(files["ptx"], "the driver gives PTX, and compiles it when a program is loaded")
    elif "elf" in files:
        kind = sniff(files["elf"])
        found = binary(files["elf"], kind) if kind in ("cubin", "hsaco") else _told(answer)
    else:
        found = _told(answer)
    return [
        replace(
            one,
            source=source,
            architecture=one.architecture or architecture,
            flags=flags,
            how=answer.compiler,
            threads=one.threads or answer.threads,
            shared_dynamic_bytes=answer.shared_dynamic_bytes,
            notes=[*one.notes, *answer.notes],
        )
        for one in found
    ]


def _told(answer: Made) -> list[Compiled]:
    """Kernels of which only the driver's own figures are known."""
    note = "the driver's binary is in a form of its own: no registers and no instructions can be read from it"
    return [
        Compiled(
            kernel=name,
            stack_bytes=told.get("stack_bytes"),
            shared_bytes=told.get("shared_bytes"),
            threads=told.get("threads"),
            notes=[note],
        )
        for name, told in answer.facts.items()
    ]


def _with_ptx(found: Sequence[Compiled], path: Path | None, answer: Made) -> list[Compiled]:
    """With spills as ptxas says them, or as the PTX implies."""
    told = text.ptxas(answer.log)
    listed = text.ptx(path.read_text(encoding="utf-8", errors="replace"), path.name).kernels if path else []
    declared = {one.name: one for one in listed}
    kernels = []
    for one in found:
        source = declared.get(one.kernel)
        if one.kernel in told:
            stores, loads = told[one.kernel]
            one = replace(one, spill_store_bytes=stores, spill_load_bytes=loads)
        elif one.stack_bytes == 0:
            one = replace(one, spill_store_bytes=0, spill_load_bytes=0)
        elif source is not None and not source.local_bytes:
            one = replace(one, spill_store_bytes=one.stack_bytes, notes=[*one.notes, LOCAL])
        if source is not None and not one.of:
            one = _mixed(one, source.instructions, "PTX")
        if source is not None:
            one = replace(one, dtypes=classes.narrow(source.instructions))
        kernels.append(one)
    return kernels


def _cubin(path: Path) -> list[Compiled]:
    found = cubin.read(path.read_bytes(), path.name)
    shown = disassembling.sass(path) if found else None
    listing = None if shown is None else text.sass(shown)
    return [_counted_sass(one, listing) for one in found]


def _local(one: Compiled) -> Compiled:
    """A cubin alone tells how much local memory a thread has, not what for."""
    if one.stack_bytes == 0:
        return replace(one, spill_store_bytes=0, spill_load_bytes=0)
    return replace(one, notes=[*one.notes, "spills or arrays: a cubin does not say what its local memory is for"])


def _counted_sass(one: Compiled, listing: Mapping[str, list[str]] | None) -> Compiled:
    if listing is None or one.kernel not in listing:
        return replace(one, how="read", notes=[*one.notes, NO_SASS] if listing is None else one.notes)
    return _mixed(replace(one, how="read"), listing[one.kernel], "SASS")


def _amd(path: Path, listing: Path | None) -> list[Compiled]:
    found = hsaco.read(path.read_bytes(), path.name)
    shown = listing.read_text(encoding="utf-8") if listing else disassembling.amdgcn(path, found[0].architecture if found else "")
    code = text.amdgcn(shown) if shown else {}
    why = [] if code else ["no llvm-objdump that knows this architecture is here, so its machine code is not counted"]
    return [
        replace(_mixed(one, code[one.kernel], "AMDGCN"), how="read")
        if one.kernel in code
        else replace(one, how="read", notes=[*one.notes, *why])
        for one in found
    ]


def _mixed(one: Compiled, instructions: list[str], language: str) -> Compiled:
    counts, matrix = classes.mix(instructions, language)
    return replace(one, instructions=counts, matrix=matrix, of=language, dtypes=classes.narrow(instructions))


def _words(kind: str) -> str:
    return {"fatbin": "a fat binary", "elf": "an ELF file of a processor", "": "no binary of a kernel that is known here"}.get(kind, kind)

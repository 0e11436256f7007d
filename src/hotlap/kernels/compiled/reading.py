"""From products and ready binaries to kernels: figures from the file, instructions from its disassembly, else from PTX."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from hotlap.core.errors import InputError
from hotlap.core.record import Notice
from hotlap.kernels.binaries import classes, cubin, elf, hsaco, spirv, text
from hotlap.kernels.binaries.base import Compiled
from hotlap.kernels.compiled import disassembling
from hotlap.kernels.compiled.protocol import CompiledFiles

FATBIN = 0xBA55ED50
NO_SASS = Notice("not_counted", "no nvdisasm is here, so its machine code is not counted", disassembling.REMEDY)
LOCAL_MEMORY = Notice("local_memory", "spills or arrays: a cubin does not say what its local memory is for")
NO_OBJDUMP = Notice("not_counted", "no llvm-objdump that knows this architecture is here, so its machine code is not counted")
LOCAL = Notice("stack_spills", "its PTX declares no array in local memory: the stack holds spilled registers")


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
    module = text.ptx(path.read_text(encoding="utf-8", errors="replace"), path.name)
    return [
        _mixed(
            Compiled(
                kernel=kernel.name,
                architecture=module.target,
                source=path.name,
                how=f"PTX {module.version}",
                threads=kernel.threads,
                shared_bytes=kernel.shared_bytes,
                notices=[Notice("not_compiled", f"registers, spills and stack are not known: {why}")],
            ),
            kernel.instructions,
            "PTX",
        )
        for kernel in module.kernels
    ]


def read(answer: CompiledFiles, source: str, architecture: str, flags: str) -> list[Compiled]:
    """The kernels that a compilation made."""
    files = {one.kind: Path(one.path) for one in answer.products}
    if "cubin" in files:
        kernels = _with_ptx(_cubin(files["cubin"]), files.get("ptx"), answer)
    elif "hsaco" in files:
        kernels = _amd(files["hsaco"], files.get("amdgcn"))
    elif "ptx" in files:
        kernels = ptx(files["ptx"], "the driver gives PTX, and compiles it when a program is loaded")
    elif "elf" in files:
        kind = sniff(files["elf"])
        kernels = binary(files["elf"], kind) if kind in ("cubin", "hsaco") else _told(answer)
    else:
        kernels = _told(answer)
    return [
        replace(
            kernel,
            source=source,
            architecture=kernel.architecture or architecture,
            flags=flags,
            how=answer.compiler,
            threads=kernel.threads or answer.threads,
            shared_dynamic_bytes=answer.shared_dynamic_bytes,
            notices=[*kernel.notices, *answer.notices],
        )
        for kernel in kernels
    ]


def _told(answer: CompiledFiles) -> list[Compiled]:
    """Kernels of which only the driver's own figures are known."""
    notice = Notice("own_form", "the driver's binary is in a form of its own: no registers and no instructions can be read from it")
    return [
        Compiled(
            kernel=name,
            stack_bytes=told.get("stack_bytes"),
            shared_bytes=told.get("shared_bytes"),
            threads=told.get("threads"),
            notices=[notice],
        )
        for name, told in answer.facts.items()
    ]


def _with_ptx(binaries: Sequence[Compiled], path: Path | None, answer: CompiledFiles) -> list[Compiled]:
    """With spills as ptxas says them, or as the PTX implies."""
    usage = text.ptxas(answer.log)
    listed = text.ptx(path.read_text(encoding="utf-8", errors="replace"), path.name).kernels if path else []
    declared = {one.name: one for one in listed}
    kernels = []
    for kernel in binaries:
        source = declared.get(kernel.kernel)
        if kernel.kernel in usage:
            stores, loads = usage[kernel.kernel]
            kernel = replace(kernel, spill_store_bytes=stores, spill_load_bytes=loads)
        elif kernel.stack_bytes == 0:
            kernel = replace(kernel, spill_store_bytes=0, spill_load_bytes=0)
        elif source is not None and not source.local_bytes:
            kernel = replace(kernel, spill_store_bytes=kernel.stack_bytes, notices=[*kernel.notices, LOCAL])
        if source is not None and not kernel.of:
            kernel = _mixed(kernel, source.instructions, "PTX")
        if source is not None:
            kernel = replace(kernel, dtypes=classes.narrow(source.instructions))
        kernels.append(kernel)
    return kernels


def _cubin(path: Path) -> list[Compiled]:
    found = cubin.read(path.read_bytes(), path.name)
    shown = disassembling.sass(path) if found else None
    listing = None if shown is None else text.sass(shown)
    return [_counted_sass(one, listing) for one in found]


def _local(compiled: Compiled) -> Compiled:
    """A cubin alone tells how much local memory a thread has, not what for."""
    if compiled.stack_bytes == 0:
        return replace(compiled, spill_store_bytes=0, spill_load_bytes=0)
    return replace(compiled, notices=[*compiled.notices, LOCAL_MEMORY])


def _counted_sass(compiled: Compiled, listing: Mapping[str, list[str]] | None) -> Compiled:
    if listing is None or compiled.kernel not in listing:
        return replace(compiled, how="read", notices=[*compiled.notices, NO_SASS] if listing is None else compiled.notices)
    return _mixed(replace(compiled, how="read"), listing[compiled.kernel], "SASS")


def _amd(path: Path, listing: Path | None) -> list[Compiled]:
    kernels = hsaco.read(path.read_bytes(), path.name)
    shown = listing.read_text(encoding="utf-8") if listing else disassembling.amdgcn(path, kernels[0].architecture if kernels else "")
    code = text.amdgcn(shown) if shown else {}
    why = [] if code else [NO_OBJDUMP]
    return [
        replace(_mixed(one, code[one.kernel], "AMDGCN"), how="read")
        if one.kernel in code
        else replace(one, how="read", notices=[*one.notices, *why])
        for one in kernels
    ]


def _mixed(compiled: Compiled, instructions: list[str], language: str) -> Compiled:
    counts, matrix = classes.mix(instructions, language)
    return replace(compiled, instructions=counts, matrix=matrix, of=language, dtypes=classes.narrow(instructions))


def _words(kind: str) -> str:
    return {"fatbin": "a fat binary", "elf": "an ELF file of a processor", "": "no binary of a kernel that is known here"}.get(kind, kind)

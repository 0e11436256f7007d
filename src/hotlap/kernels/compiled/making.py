"""The process that compiles: a job on standard input, files into its folder, one line of JSON on standard output.

A process of its own for each compilation: caches are cold, and a compiler or module that crashes takes nothing with it.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from hotlap.core.errors import HotlapError, InputError, NotSupported, Unavailable, nearest
from hotlap.kernels import named
from hotlap.kernels.compiled import disassembling, nvrtc, opencl
from hotlap.kernels.compiled.protocol import CompiledFiles, CompileJob, ProductSpec

TYPES = ("i1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "fp8e4nv", "fp8e5", "fp16", "bf16", "fp32", "fp64")
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")  # of Triton's compiler, given among a signature


def main() -> int:
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=CompileJob)
    answer, sys.stdout = os.fdopen(os.dup(1), "wb"), sys.stderr  # a user's module may print
    os.dup2(2, 1)
    try:
        made = {"cuda": nvrtc.make, "opencl": opencl.make, "triton": triton, "ptx": assemble}[job.language](job)
    except HotlapError as error:
        made = CompiledFiles(problem=str(error), usage_error=isinstance(error, InputError))
    except Exception as error:  # compilers and users' modules raise kinds of their own
        made = CompiledFiles(problem=f"{type(error).__name__}: {(str(error).strip() or 'no words').splitlines()[0]}")
    answer.write(msgspec.json.encode(made) + b"\n")
    answer.close()
    return 0


def assemble(job: CompileJob) -> CompiledFiles:
    """PTX to a cubin by ptxas."""
    tool = disassembling.ptxas(job.architecture)
    if tool is None:
        raise Unavailable(
            "no ptxas is here, so PTX cannot be made machine code", "pip install nvidia-cuda-nvcc, or triton, which brings one"
        )
    out = Path(job.folder) / f"{Path(job.source).stem}.{job.architecture}.cubin"
    began = time.perf_counter()
    done = disassembling.run([tool, "-v", f"-arch={job.architecture}", *job.flags, "-o", str(out), job.source])
    seconds = time.perf_counter() - began
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise NotSupported(
            f"ptxas refuses it: {next((line for line in lines if 'error' in line or 'fatal' in line), lines[0] if lines else '')}"
        )
    return CompiledFiles(
        products=[ProductSpec(kind="cubin", path=str(out))],
        seconds=seconds,
        compiler=disassembling.version(tool),
        log=done.stdout + done.stderr,
    )


def triton(job: CompileJob) -> CompiledFiles:
    """A Triton function for a GPU that need not be here."""
    os.environ["TRITON_CACHE_DIR"] = str(Path(job.folder) / "cache")
    try:
        import triton as compiler
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
    except ImportError as error:
        raise Unavailable(f"Triton cannot be imported ({error})", "pip install triton") from error
    function = named.find(job.source, "FUNCTION", lambda one: hasattr(one, "arg_names"))  # what @triton.jit makes
    signature, constants, options, aligned = _signature(job, list(function.arg_names), _likely(function))
    if job.architecture.startswith("gfx"):
        target = GPUTarget("hip", job.architecture, 64 if job.architecture.startswith("gfx9") else 32)
    else:
        target = GPUTarget("cuda", nvrtc.capability(job.architecture), 32)
    attributes = {(n,): [["tt.divisibility", 16]] for n in aligned}
    source = ASTSource(function, signature=signature, constexprs=constants, attrs=attributes)
    began = time.perf_counter()
    binary = compiler.compile(source, target=target, options=options)
    seconds = time.perf_counter() - began
    products = []
    for kind in ("cubin", "ptx", "hsaco", "amdgcn", "llir", "ttgir"):
        if kind in binary.asm:
            path = Path(job.folder) / f"{binary.metadata.name}.{job.architecture}.{kind}"
            data = binary.asm[kind]
            path.write_bytes(data if isinstance(data, bytes) else data.encode())
            products.append(ProductSpec(kind=kind, path=str(path)))
    threads = binary.metadata.num_warps * (target.warp_size if hasattr(target, "warp_size") else 32)
    return CompiledFiles(
        products=products,
        seconds=seconds,
        compiler=f"Triton {compiler.__version__}",
        threads=threads,
        shared_dynamic_bytes=binary.metadata.shared,
    )


def _likely(function: Any) -> dict[str, str]:
    """A type that each argument of a Triton function may have, for an example: a value for a constant, a pointer for what is loaded from or
    stored to."""
    constants = {param.name for param in getattr(function, "params", ()) if getattr(param, "is_constexpr", False)}
    source = str(getattr(function, "src", ""))
    pointers = {name for name in function.arg_names if re.search(rf"\b(?:load|store|atomic_\w+)\(\s*{re.escape(name)}\b", source)}
    kinds = {name: "1024" if name in constants or name.isupper() else "*fp32" for name in function.arg_names}
    return {name: kind if name in pointers | constants or kind == "1024" or name.endswith("ptr") else "i32" for name, kind in kinds.items()}


def _signature(
    job: CompileJob, names: list[str], likely: Mapping[str, str] = MappingProxyType({})
) -> tuple[dict[str, str], dict[str, Any], dict[str, int], list[int]]:
    """Types, constants, options of the compiler, and the places of arguments that are multiples of 16."""
    given: dict[str, str] = {}
    for part in filter(None, (one.strip() for one in job.signature.split(","))):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        if not sign or name not in (*names, *OPTIONS):
            raise InputError(f"--signature: '{part}' is not NAME=TYPE; {nearest(name, [*names, *OPTIONS])}")
        given[name] = value
    missing = [name for name in names if name not in given]
    if missing:
        example = ", ".join(f"{name}={likely.get(name, 'i32')}" for name in names)
        raise InputError(f"{job.source}: --signature lacks {', '.join(missing)}; as in --signature '{example}'")
    types: dict[str, str] = {}
    constants: dict[str, Any] = {}
    aligned: list[int] = []
    for place, name in enumerate(names):
        value, _, multiple = given[name].partition(":")
        if value.lstrip("*") in TYPES:
            types[name] = value
            aligned += [place] if multiple == "16" else []
        elif re.fullmatch(r"-?\d+|True|False|-?\d*\.\d+", value):
            types[name] = "constexpr"
            constants[name] = {"True": True, "False": False}.get(value, float(value) if "." in value else None)
            constants[name] = int(value) if constants[name] is None else constants[name]
        else:
            raise InputError(
                f"--signature: '{name}={given[name]}' is neither a type nor a constant; valid: {', '.join(TYPES)}, *TYPE, a number"
            )
    return types, constants, {name: int(value) for name, value in given.items() if name in OPTIONS}, aligned


if __name__ == "__main__":
    sys.exit(main())

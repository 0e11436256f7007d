"""CUDA C++ by NVRTC: a cubin with its spills, and the PTX it was made from."""

from __future__ import annotations

import re
import time
from pathlib import Path

from hotlap.core.errors import InputError, NotSupported
from hotlap.core.measure.targets import cuda_compile
from hotlap.kernels.compiled import disassembling
from hotlap.kernels.compiled.protocol import CompiledFiles, CompileJob, ProductSpec

VERBOSE = "--ptxas-options=-v"


def capability(architecture: str) -> int:
    """90 of sm_90a. Raises InputError."""
    match = re.fullmatch(r"(?:sm|compute)_(\d+)[af]?", architecture)
    if not match:
        raise InputError(f"'{architecture}' is no architecture of NVIDIA; as in sm_90, sm_90a, sm_100")
    return int(match[1])


def make(job: CompileJob) -> CompiledFiles:
    """Raises NotSupported with the compiler's first error, InputError for an architecture that NVRTC does not know."""
    known = cuda_compile.architectures()
    if capability(job.architecture) not in known:
        shown = ", ".join(f"sm_{one}" for one in known)
        raise InputError(f"NVRTC {cuda_compile.version()} makes no code for {job.architecture}; valid: {shown}, some with a or f behind")
    text = Path(job.source).read_text(encoding="utf-8", errors="replace")
    folders = [str(Path(job.source).resolve().parent), *job.include, *_toolkit()]
    options = [f"--gpu-architecture={job.architecture}", *(f"--include-path={one}" for one in folders), VERBOSE]
    if not any(flag.startswith(("-std", "--std")) for flag in job.flags):
        options.append("--std=c++17")
    began = time.perf_counter()
    cubin, ptx, log = cuda_compile.compile_plain(text, Path(job.source).name, [*options, *job.flags])
    seconds = time.perf_counter() - began
    stem = Path(job.folder) / f"{Path(job.source).stem}.{job.architecture}"
    if not cubin:
        raise NotSupported(f"NVRTC gave no machine code for {job.architecture}")
    products = []
    for kind, data in (("cubin", cubin), ("ptx", ptx.rstrip(b"\0"))):
        path = Path(f"{stem}.{kind}")
        path.write_bytes(data)
        products.append(ProductSpec(kind=kind, path=str(path)))
    return CompiledFiles(products=products, seconds=seconds, compiler=f"NVRTC {cuda_compile.version()}", log=log)


def _toolkit() -> list[str]:
    """Headers of an installed toolkit, where there is one."""
    return [str(path) for home in disassembling.toolkits() if (path := home / "include").is_dir()][:1]

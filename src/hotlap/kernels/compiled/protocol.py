"""What the process that compiles is told, and what it answers: one JSON object each way."""

from __future__ import annotations

import msgspec

from hotlap.core.record import Notice

ARCHITECTURE = "sm_90"  # compiled for where nothing else is asked


class CompileJob(msgspec.Struct, frozen=True, kw_only=True):
    """One source for one architecture."""

    language: str  # cuda, opencl, triton, ptx
    source: str  # a file, or MODULE:FUNCTION
    architecture: str = ""
    flags: list[str] = []  # of the compiler
    include: list[str] = []  # folders of headers
    signature: str = ""  # of a Triton function: x=*fp32, n=i32, BLOCK=1024
    folder: str  # where products are written


class ProductSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a compiler wrote."""

    kind: str  # cubin, ptx, hsaco, amdgcn, spirv, llvm, elf, binary
    path: str


class CompiledFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a job."""

    products: list[ProductSpec] = []
    seconds: float = 0.0  # of the compiler's calls alone
    compiler: str = ""  # with its version
    log: str = ""  # what ptxas -v says of spills
    threads: int | None = None  # of a block, where the language fixes it
    shared_dynamic_bytes: int | None = None  # of a block, asked for at each launch
    facts: dict[str, dict[str, int]] = {}  # kernel → figures that a driver tells (OpenCL)
    notices: list[Notice] = []
    problem: str = ""  # why nothing was made
    usage_error: bool = False  # by the user, not by source or machine

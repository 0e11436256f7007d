"""A compiled kernel as its binary tells it."""

from __future__ import annotations

from hotlap.core.record import Notice, Record


class Compiled(Record, frozen=True, kw_only=True):
    """One kernel for one architecture. None: neither the binary nor the compiler says it."""

    kernel: str
    architecture: str = ""  # sm_90, gfx942, x86-64; "" where the file names none
    source: str = ""  # file or MODULE:FUNCTION that it was compiled from, or the binary's own file
    how: str = ""  # compiler and flags, or what was read
    flags: str = ""  # of the compiler, as the user gave them
    registers: int | None = None  # of a thread, 32 bits each
    scalar_registers: int | None = None  # of a wave, where the architecture has them
    spill_store_bytes: int | None = None  # of a thread, written by all spill instructions together
    spill_load_bytes: int | None = None
    stack_bytes: int | None = None  # of a thread, in local memory: spilled registers, arrays and calls
    shared_bytes: int | None = None  # of a block, known when compiled
    shared_dynamic_bytes: int | None = None  # of a block, asked for at the launch
    threads: int | None = None  # of a block: required or at most, as the kernel declares
    code_bytes: int | None = None
    instructions: dict[str, int] = {}  # by class, as they stand in the code: a loop's body counts once
    of: str = ""  # what was counted: SASS, PTX, AMDGCN, SPIR-V
    matrix: dict[str, int] = {}  # matrix instructions by name
    dtypes: list[str] = []  # 16-bit and narrower types that arithmetic or conversions of its code name
    notices: list[Notice] = []
    compile_s: list[float] = []  # of each fresh process, its cache empty

    @property
    def shared_all_bytes(self) -> int:
        return (self.shared_bytes or 0) + (self.shared_dynamic_bytes or 0)

    @property
    def spills(self) -> bool:
        return bool(self.spill_store_bytes or self.spill_load_bytes)

"""Machine code of Hotlap's own CUDA kernels, as NVRTC makes it: whether their loops can reach what they are to measure. Needs no GPU.

    python benchmarks/sass.py [--json]

Two tables. Arithmetic: of the loop of each variant of `fma`, the share of instructions that are multiply-adds, NOPs left out, by
which compilers wait for a slow unit. `reachable` is the share of the peak that this leaves: all of it where the unit takes longer for
a multiply-add than the scheduler for an instruction. Memory: bytes of loads that one multiprocessor has under way in the loop of each
`stream`, at the occupancy that registers allow, against Little's law: the device's bandwidth × a latency of 800 ns, which is assumed.
`covers` is the latency for which they are just enough. A copy's reads are half of its traffic. Exits with 1 if a figure is below what
it should be, or a kernel spills.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hotlap.core.errors import Unavailable
from hotlap.core.measure.targets import cuda_compile
from hotlap.core.measure.workloads import source
from hotlap.core.measure.workloads.arithmetic import SCALAR, Variant
from hotlap.core.model import machines
from hotlap.core.work.base import DTYPES
from hotlap.core.work.memory import STREAM_OPS
from hotlap.kernels.advice import study
from hotlap.kernels.binaries import cubin
from hotlap.kernels.compiled import disassembling

ARCHITECTURES = {"sm_80": "a100-sxm-80gb", "sm_90": "h100-sxm", "sm_100": "b200", "sm_120": "rtx-5090"}  # and whose unit's rates
SCHEDULERS = 4  # of a multiprocessor, an instruction for a warp in a clock each
CARDS = ("h100-sxm", "h200-sxm", "b200")
FMA = {"fp64": "DFMA", "fp32": "FFMA", "fp16": "HFMA2", "int32": "IMAD", "int8": "IMAD"}
LEAST = 0.94  # share of multiply-adds in the best variant's loop
LATENCY_S = 800e-9
GROUP = 256  # work-items of a block: `layout.group_size`
LABEL = re.compile(r"^\s*(\.L_x_\d+):")
LINE = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:\{\s*)?(@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)\s*([^;]*);")
REGISTER = re.compile(r"\bR(\d+)\b")
WIDTH = {"64": 2, "128": 4, "256": 8}  # registers that a load fills


@dataclass(frozen=True)
class Instruction:
    """One line of machine code."""

    opcode: str
    operands: str

    @property
    def name(self) -> str:
        return self.opcode.partition(".")[0]

    @property
    def moves(self) -> bool:
        """A multiply-add by zero or one is how compilers move, shift and convert."""
        return self.opcode.startswith(("IMAD.MOV", "IMAD.IADD", "IMAD.SHL", "IMAD.X")) or "RZ, RZ" in self.operands

    @property
    def load_bytes(self) -> int:
        """Of one thread."""
        return 4 * self._width if self.name == "LDG" else 0

    @property
    def _width(self) -> int:
        return next((WIDTH[part] for part in self.opcode.split(".") if part in WIDTH), 1)

    @property
    def filled(self) -> frozenset[int]:
        """Registers that a load writes."""
        first = REGISTER.search(self.operands)
        return frozenset(range(int(first[1]), int(first[1]) + self._width)) if first and self.name == "LDG" else frozenset()

    def reads(self, registers: frozenset[int]) -> bool:
        """Whether it uses one of them; what a store or an addition writes or reads may be wider than it says."""
        if self.name == "LDG":  # its own first operand is written
            return any(int(n) in registers for n in REGISTER.findall(self.operands.partition(",")[2]))
        return any(int(n) in registers for n in REGISTER.findall(self.operands))


Loop = tuple[Instruction, ...]


def loops(listing: str, kernel: str) -> list[Loop]:
    """The innermost loops of a kernel: from a label to the branch back to it, with none inside."""
    start = listing.find(f"\n.text.{kernel}:")
    body = listing[start + 1 :] if start >= 0 else ""
    code: list[Instruction] = []
    at: dict[str, int] = {}
    spans: list[tuple[int, int]] = []
    for line in body.splitlines()[1:]:
        if ".section" in line or (line.startswith("$") and line.rstrip().endswith(":")):
            break  # the next kernel, or a function that this one calls
        if label := LABEL.match(line):
            at[label[1]] = len(code)
        elif match := LINE.match(line):
            code.append(Instruction(match[2], match[3]))
            back = re.search(r"\.L_x_\d+", match[3]) if match[2].startswith("BRA") else None
            if back and back[0] in at:
                spans.append((at[back[0]], len(code)))
    inner = [one for one in spans if not any(other != one and one[0] <= other[0] and other[1] <= one[1] for other in spans)]
    return [tuple(code[first:last]) for first, last in inner if last - first > 1]


def share(loop: Loop, dtype: str) -> float:
    """Multiply-adds of a loop ÷ all of its instructions."""
    wanted = FMA[dtype]
    code = [one for one in loop if one.name != "NOP"]
    return sum(one.name.startswith(wanted) and not one.moves for one in code) / len(code)


def reachable(multiply_adds: float, dtype: str, flop_per_clock: float | None) -> float:
    """Share of the peak. `flop_per_clock`: of a multiprocessor, which issues SCHEDULERS instructions in a clock; None: not in the table."""
    per_instruction = 2 * 32 * (2 if dtype == "fp16" else 1)  # HFMA2 does two
    rate = SCHEDULERS if flop_per_clock is None else min(flop_per_clock / per_instruction, SCHEDULERS)
    return min(multiply_adds * SCHEDULERS / rate, 1.0)


def in_flight(loop: Loop) -> int:
    """Bytes of loads of one thread that are under way before the first instruction that waits for one of them."""
    waiting: frozenset[int] = frozenset()
    nbytes = most = 0
    for one in loop:
        if waiting and one.reads(waiting):
            most, nbytes, waiting = max(most, nbytes), 0, frozenset()
        nbytes += one.load_bytes
        waiting |= one.filled
    return max(most, nbytes)


@dataclass(frozen=True)
class Arithmetic:
    """The loop of one variant of `fma`."""

    architecture: str
    dtype: str
    variant: str
    share: float
    reachable: float
    instructions: int
    registers: int
    stack_bytes: int


@dataclass(frozen=True)
class Memory:
    """The loop of one `stream` on one device. `held_bytes`, `needed_bytes`: of loads under way, in one multiprocessor."""

    card: str
    op: str
    dtype: str
    thread_bytes: int
    warps: int
    held_bytes: float
    needed_bytes: float
    stack_bytes: int


class Module:
    """Kernels of one source as machine code. Raises Unavailable without nvdisasm."""

    def __init__(self, text: str, architecture: str, defines: Sequence[str] = ()) -> None:
        code = cuda_compile.compile_source(text, "own", architecture, tuple(defines))
        self.kernels = {one.kernel: one for one in cubin.read(code, "own")}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "own.cubin"
            path.write_bytes(code)
            listing = disassembling.sass(path)
        if listing is None:
            raise Unavailable("no nvdisasm is here, or it cannot read this machine code", disassembling.REMEDY)
        self.listing = listing


def _variants(dtype: str) -> list[Variant]:
    """Those that `arithmetic.candidates` tries on a GPU."""
    return [Variant(width, chains) for width in ((2, 4) if DTYPES[dtype] == 2 else (1, 2)) for chains in (4, 8, 16)]


def _all_chains(dtypes: Sequence[str]) -> str:
    """One source with `fma_chains` once for each variant, under a name of its own: headers are read once."""
    parts = []
    for dtype in dtypes:
        for variant in _variants(dtype):
            defines = [one.partition("=") for one in variant.defines(SCALAR[dtype])]
            name = f"{dtype}_{variant.width}_{variant.chains}"
            given = [*((key, value) for key, _, value in defines), ("fma_chains", name), ("intensity", f"intensity_{name}")]
            parts += [*(f"#define {key} {value}" for key, value in given), source("compute"), *(f"#undef {key}" for key, _ in given)]
    return "\n".join(parts)


def arithmetic(architectures: Sequence[str] = tuple(ARCHITECTURES), dtypes: Sequence[str] = tuple(SCALAR)) -> Iterator[Arithmetic]:
    """Every variant that `fma` tries on a GPU."""
    for architecture in architectures:
        module = Module(_all_chains(dtypes), architecture)
        for dtype in dtypes:
            for variant in _variants(dtype):
                name = f"{dtype}_{variant.width}_{variant.chains}"
                loop = max(loops(module.listing, name), key=lambda one: sum(i.name.startswith(FMA[dtype]) for i in one))
                text, known = f"{SCALAR[dtype]}{variant.width} × {variant.chains} chains", module.kernels[name]
                part = share(loop, dtype)
                reach = reachable(part, dtype, machines.load(ARCHITECTURES[architecture]).flop_per_clock.get(f"fma.{dtype}"))
                yield Arithmetic(architecture, dtype, text, part, reach, len(loop), known.registers or 0, known.stack_bytes or 0)


@functools.cache
def _streams(architecture: str, dtype: str) -> Module:
    return Module(source("memory"), architecture, [f"S={SCALAR[dtype]}", f"T=VEC({SCALAR[dtype]},{16 // DTYPES[dtype]})"])


def memory(cards: Sequence[str] = CARDS) -> Iterator[Memory]:
    """Every `stream` that reads, in both types."""
    for card in cards:
        machine = machines.load(card)
        for dtype in ("fp32", "fp64"):
            module = _streams(machine.compile_target, dtype)
            for op, (read, written, _) in STREAM_OPS.items():
                if not read:
                    continue
                known = module.kernels[f"stream_{op}"]
                held = study(known, GROUP).occupancy
                warps, thread_bytes = held.warps if held else 0, max(map(in_flight, loops(module.listing, known.kernel)))
                resident = min(32 * warps, 2048)  # a case launches 2048 work-items for each unit
                needed = (machine.memory_bandwidth_b_s or 0.0) * read / (read + written) * LATENCY_S / (machine.compute_units or 1)
                yield Memory(card, op, dtype, thread_bytes, warps, float(thread_bytes * resident), needed, known.stack_bytes or 0)


def best(rows: Sequence[Arithmetic]) -> list[Arithmetic]:
    """The variant with the highest share, by architecture and type."""
    groups: dict[tuple[str, str], Arithmetic] = {}
    for row in rows:
        key = (row.architecture, row.dtype)
        groups[key] = max(groups.get(key, row), row, key=lambda one: one.share)
    return list(groups.values())


def problems(chains: Sequence[Arithmetic], streams: Sequence[Memory]) -> list[str]:
    """What falls short. An 8-bit multiply-add is emulated, which its cases say: no share is asked of it."""
    short = [
        f"{row.architecture} {row.dtype}: {row.reachable:.3f} of the peak can be reached, below {LEAST}"
        for row in best(chains) if row.dtype != "int8" and row.reachable < LEAST
    ]  # fmt: skip
    spilt = [f"{row.architecture} {row.variant}: {row.stack_bytes} B of stack" for row in chains if row.stack_bytes]
    spilt += [f"{row.card} {row.op} {row.dtype}: {row.stack_bytes} B of stack" for row in streams if row.stack_bytes]
    few = [
        f"{row.card} {row.op} {row.dtype}: {row.held_bytes:.0f} B of loads under way, {row.needed_bytes:.0f} B needed"
        for row in streams if row.held_bytes < row.needed_bytes
    ]  # fmt: skip
    return short + spilt + few


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    chains, streams = list(arithmetic()), list(memory())
    short = problems(chains, streams)
    if asked.json:
        print(json.dumps({"arithmetic": [asdict(one) for one in chains], "memory": [asdict(one) for one in streams], "problems": short}))
        return int(bool(short))
    print(f"NVRTC {cuda_compile.version()}; the best variant of each type, blocks of {GROUP}\n")
    print(f"{'':8} {'type':6} {'variant':20} {'multiply-adds':>13} {'reachable':>9} {'instructions':>13} {'registers':>10} {'stack':>6}")
    for one in best(chains):
        figures = f"{one.share:13.3f} {one.reachable:9.3f} {one.instructions:13} {one.registers:10} {one.stack_bytes:6}"
        print(f"{one.architecture:8} {one.dtype:6} {one.variant:20} {figures}")
    print(f"\n{'':9} {'':6} {'type':5} {'of a thread':>12} {'warps':>6} {'under way':>10} {'needed':>9} {'covers':>9}")
    for row in streams:
        covers_s = LATENCY_S * row.held_bytes / row.needed_bytes
        print(
            f"{row.card:9} {row.op:6} {row.dtype:5} {row.thread_bytes:10} B {row.warps:6} {row.held_bytes / 1024:6.1f} KiB "
            f"{row.needed_bytes / 1024:5.1f} KiB {covers_s * 1e9:6.0f} ns"
        )
    print("\n".join(["", *short]) if short else "\nnothing spills, and nothing falls short")
    return int(bool(short))


if __name__ == "__main__":
    sys.exit(main())

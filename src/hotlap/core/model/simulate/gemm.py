"""Matrix products as kernels: C[m, n] = A[m, k] · B[k, n], in tiles that libraries have, with the k loop split where it helps."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.errors import InputError
from hotlap.core.model.kernels.base import Chip
from hotlap.core.model.simulate import chip as facts
from hotlap.core.model.simulate.tasks import (
    REGISTERS_OWN,
    Operand,
    SimulatedKernel,
    TaskBlock,
    TaskStep,
    countable,
    counts,
    pipe_cycles,
    slots,
)

TILES = ((256, 128), (128, 256), (128, 128), (256, 64), (64, 256), (128, 64), (64, 128), (64, 64))
TILES_MODERN = (*TILES, (128, 192), (192, 128), (32, 128), (32, 64), (16, 128), (16, 64))  # where one side may be any multiple of 8
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16)
STEP_BYTES = 128.0  # of k in one step of the main loop: 64 elements of bf16, as cuBLAS and CUTLASS have
STAGES_MOST, STAGES_OLD = 8.0, 3.0  # in flight; where warps copy themselves: cuBLAS names …_64x3, …_32x5 on sm_80
SHARED_OWN = 2048.0  # of a block beside its stages: barriers, what the runtime keeps: assumed
ASYNC_RATE = 4096.0  # bf16 FLOP per unit and clock from which units read shared memory themselves, clusters share loads (Hopper on)
TMEM_RATE = 8192.0  # and from which accumulators have a memory of their own (Blackwell)
CLOSE = 1.15  # candidates that are slower than the best by more are not simulated
ENDING_OPS = 10.0  # vector operations per element from accumulators to memory: scale, convert, move, address: assumed
OVERLAP_OLD = 0.92  # of loads from shared memory behind matrix instructions, where the same warps issue both: assumed
DRAM_OLD = 0.92  # of a stream's bandwidth, where warps copy strips of rows themselves: A100's products of m ≤ 64 (AIC data): calibrated
TURN_CYCLES = 300.0  # to the next tile where other warps empty a second set of accumulators meanwhile (Blackwell): assumed
SPLIT_CYCLES = 4000.0  # partial sums: a fence, waiting for the others, reading them back through L2: assumed


class GemmProblem(NamedTuple):
    """A product; `copies` of B are used in turn by successive calls, A and C are the same ones each time."""

    m: int
    n: int
    k: int
    dtype: str = "bf16"
    copies: int = 1
    out: str = "bf16"
    batch: int = 1


class GemmPlan(NamedTuple):
    """How a library runs it."""

    tile_m: int
    tile_n: int
    split: int = 1


def check(problem: GemmProblem) -> None:
    counts(m=problem.m, n=problem.n, k=problem.k, copies=problem.copies, batch=problem.batch)
    for dtype in (problem.dtype, problem.out):
        if dtype not in facts.BYTES:
            raise InputError(f"there is no dtype '{dtype}' here; there are {', '.join(facts.BYTES)}")


def unit_of(problem: GemmProblem) -> str:
    return f"matrix.{problem.dtype}"


def modern(chip: Chip, rate: float) -> bool:
    """Whether matrix units of this machine take operands from shared memory on their own."""
    chip = chip.original or chip  # an imagined machine keeps its generation
    return max(chip.flop_per_clock.get("matrix.bf16", 0.0), chip.flop_per_clock.get("matrix.fp16", 0.0)) >= rate


def fragment(plan: GemmPlan, chip: Chip) -> tuple[int, int]:
    """Rows and columns that one instruction (or warp) makes from one reading of its operands."""
    large, small = max(plan.tile_m, plan.tile_n), min(plan.tile_m, plan.tile_n)
    if modern(chip, ASYNC_RATE):  # 64 (Blackwell: 128) rows by up to 256 columns; the smaller side lies along the columns
        return (min(128 if modern(chip, TMEM_RATE) else 64, large), min(256, small)) if small < 64 else (
            min(128 if modern(chip, TMEM_RATE) else 64, small), min(256, large))
    return min(64, max(large // 2, 16)), min(64, max(small // 2, 16))


def step_of(plan: GemmPlan, problem: GemmProblem, chip: Chip, shared: bool) -> TaskStep:
    """Demands of one step. `shared`: two tiles side by side load their larger common operand once."""
    size, depth = facts.BYTES[problem.dtype], STEP_BYTES / facts.BYTES[problem.dtype]
    m, n = plan.tile_m, plan.tile_n
    rows, columns = fragment(plan, chip)
    half = 2.0 if shared else 1.0
    asked = (min(m, n) + max(m, n) / half) * depth * size
    if shared and modern(chip, TMEM_RATE):  # two units work as one: each keeps and reads half of the common operand
        stored, asked = asked, asked / 2.0  # and two such pairs share both their operands
        read = m * n / (rows * columns) * (rows + columns / half) * depth * size
    else:
        stored, read = (m + n) * depth * size, m * n / (rows * columns) * (rows + columns) * depth * size
    deep = 16.0 * 2.0 / size  # one instruction's depth: 32 B of k
    return TaskStep(
        flop=2.0 * m * n * depth, shared_bytes=read + stored, l2_bytes=asked,
        latency_cycles=facts.MATRIX_CYCLES * depth / deep,
    )  # fmt: skip


def block_of(plan: GemmPlan, chip: Chip) -> tuple[TaskBlock, float]:
    """What a block occupies, and its stages: as many as fit when as many blocks share the unit as registers allow, at most 2."""
    m, n = plan.tile_m, plan.tile_n
    threads = (256 if m * n > 64 * 128 else 128) + (128 if modern(chip, ASYNC_RATE) else 0)
    accumulators = 0.0 if modern(chip, TMEM_RATE) else float(m * n)
    registers = accumulators + threads * REGISTERS_OWN
    blocks = 2 if m * n <= 128 * 128 and 2 * registers <= chip.registers else 1
    stage = (m + n) * STEP_BYTES
    stages = min(STAGES_MOST if modern(chip, ASYNC_RATE) else STAGES_OLD, (chip.shared_bytes / blocks - SHARED_OWN) / stage)
    return TaskBlock(threads, registers, stages * stage + SHARED_OWN), stages


def build(problem: GemmProblem, plan: GemmPlan, chip: Chip) -> SimulatedKernel:
    """The product as tiles. Raises InputError for sizes that are none or a tile that does not fit the machine."""
    check(problem)
    m, n, k, size = problem.m, problem.n, problem.k, facts.BYTES[problem.dtype]
    rows, columns, split = math.ceil(m / plan.tile_m), math.ceil(n / plan.tile_n), max(1, plan.split)
    steps_all = math.ceil(k * size / STEP_BYTES)
    steps = math.ceil(steps_all / split)
    split = math.ceil(steps_all / steps)
    countable(rows * columns * split * problem.batch)
    block, stages = block_of(plan, chip)
    if stages < 1:
        raise InputError(f"a tile of {plan.tile_m} × {plan.tile_n} does not fit {chip.shared_bytes:g} B of shared memory")
    shared = modern(chip, ASYNC_RATE) and max(rows, columns) > 1
    r, c = order(rows, columns, plan, chip)
    part, batch = np.arange(split), np.arange(problem.batch)
    r, c, p = (np.tile(np.repeat(r, split), problem.batch), np.tile(np.repeat(c, split), problem.batch),
               np.tile(np.tile(part, rows * columns), problem.batch) + split * np.repeat(batch, split * rows * columns))
    high, wide = np.minimum(plan.tile_m, m - r * plan.tile_m), np.minimum(plan.tile_n, n - c * plan.tile_n)
    length = np.minimum(steps, steps_all - (p % split) * steps).astype(float)
    deep = np.minimum(length * STEP_BYTES, k * size - (p % split) * steps * STEP_BYTES)
    operand_bytes = m * k * size + m * n * facts.BYTES[problem.out]
    weights = n * k * size
    lots = split * problem.batch
    step, end = step_of(plan, problem, chip, shared), facts.END_CYCLES + ending(plan, problem, chip, split)
    main = steps * step.flop / facts.rate(chip, unit_of(problem))
    path = f"tile {plan.tile_m}×{plan.tile_n}" + (f", split {split}" if split > 1 else "")
    return SimulatedKernel(
        name=f"gemm {m}×{n}×{k} {problem.dtype}, {path}", path=path,
        unit=unit_of(problem), steps=length, step=step,
        reads=(
            Operand(r * lots + p, high * deep, rows * lots, (operand_bytes + weights) * problem.batch),
            Operand(c * lots + p, wide * deep, columns * lots, (operand_bytes + weights * problem.copies) * problem.batch),
        ),
        written_bytes=high * wide * (facts.BYTES[problem.out] if split == 1 else 4.0 + facts.BYTES[problem.out] / split),
        block=block, stages=stages, overlap=1.0 if modern(chip, ASYNC_RATE) else OVERLAP_OLD, ahead=modern(chip, ASYNC_RATE),
        output_age_bytes=(operand_bytes + weights) * problem.batch,
        end_cycles=end, turn_cycles=max(TURN_CYCLES, end - main) if modern(chip, TMEM_RATE) else None,
        dram_share=1.0 if modern(chip, ASYNC_RATE) else DRAM_OLD, useful_flop=2.0 * m * n * k * problem.batch, kind="gemm",
    )  # fmt: skip


def ending(plan: GemmPlan, problem: GemmProblem, chip: Chip, split: int) -> float:
    """Cycles to bring a tile from accumulators to memory, and where k is split to exchange partial sums."""
    elements = plan.tile_m * plan.tile_n
    vector = ENDING_OPS * elements / (facts.rate(chip, "fma.fp32") / 2.0)
    through = elements / (facts.L2_PORT_BYTES * chip.l2_factor)
    return vector + through * facts.BYTES[problem.out] if split == 1 else vector + through * 8.0 + SPLIT_CYCLES


def order(rows: int, columns: int, plan: GemmPlan, chip: Chip) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and column of each tile in the order they start: down strips of rows, so that what runs together is about square."""
    strip = max(1, min(rows, round(math.sqrt(chip.units * plan.tile_n / plan.tile_m))))
    number = np.arange(rows * columns)
    top = number // (strip * columns) * strip
    height = np.minimum(strip, rows - top)
    inside = number - top * columns
    return top + inside % height, inside // height


def rough(problem: GemmProblem, plan: GemmPlan, chip: Chip) -> float:
    """Seconds, good enough to drop hopeless candidates: the fullest unit's steps, or loading, and the ends of each round."""
    block, stages = block_of(plan, chip)
    if stages < 1:
        return math.inf
    size = facts.BYTES[problem.dtype]
    steps = math.ceil(math.ceil(problem.k * size / STEP_BYTES) / plan.split)
    tiles = math.ceil(problem.m / plan.tile_m) * math.ceil(problem.n / plan.tile_n) * plan.split * problem.batch
    step = step_of(plan, problem, chip, modern(chip, ASYNC_RATE) and tiles > 1)
    dummy = SimulatedKernel("", unit_of(problem), np.ones(1), step, (), np.ones(1), block, stages)
    each = math.ceil(tiles / chip.units)
    held = min(each, slots(block, chip))
    run = each * steps * max(max(pipe_cycles(dummy, chip).values()), step.latency_cycles / held) / chip.clock_hz
    busy = min(tiles, chip.units)
    loads = each * steps * step.l2_bytes
    arrive = loads / (held * stages * step.l2_bytes) * (facts.MEMORY_S if problem.m < 1024 else facts.MEMORY_S / 2)
    shared = loads * busy / (facts.L2_SLICE_BYTES * chip.l2_factor * chip.units * chip.clock_max_hz)
    dram = (problem.n * problem.k + problem.m * problem.k) * size * problem.batch / (facts.DRAM_SHARE * chip.memory_b_s)
    rounds = math.ceil(each / held)
    ends = facts.START_CYCLES + rounds * (facts.END_CYCLES + ending(plan, problem, chip, plan.split)) + (
        0 if modern(chip, ASYNC_RATE) else (rounds - 1) * facts.START_CYCLES)
    return max(run, arrive, shared, dram) + ends / chip.clock_hz


def candidates(problem: GemmProblem, chip: Chip, most: int = 2) -> list[SimulatedKernel]:
    """The most promising plans, best first by `rough`; simulate them to choose."""
    check(problem)
    steps = math.ceil(problem.k * facts.BYTES[problem.dtype] / STEP_BYTES)
    possible = []
    for m, n in TILES_MODERN if modern(chip, ASYNC_RATE) else TILES:
        tiles = math.ceil(problem.m / m) * math.ceil(problem.n / n) * problem.batch
        if (m > 64 and m >= 2 * problem.m) or (n > 64 and n >= 2 * problem.n):
            continue
        for split in SPLITS:
            if split == 1 or (split * 2 <= steps and tiles * split <= 4 * chip.units):
                possible.append((rough(problem, GemmPlan(m, n, split), chip), GemmPlan(m, n, split)))
    best = [one for one in sorted(possible)[:most] if one[0] <= CLOSE * min(possible)[0]]
    if not best or not math.isfinite(best[0][0]):
        raise InputError("no tile of this product fits the machine")
    return [build(problem, plan, chip) for cost, plan in best if math.isfinite(cost)]

"""Attention as kernels: prefill in tiles of queries that pass over keys and values, decode split over them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from hotlap.core.errors import InputError
from hotlap.core.model.kernels.base import Chip
from hotlap.core.model.simulate import chip as facts
from hotlap.core.model.simulate.gemm import ASYNC_RATE, TMEM_RATE, modern
from hotlap.core.model.simulate.tasks import REGISTERS_OWN, Operand, SimulatedKernel, TaskBlock, TaskStep, countable, counts, slots

SOFTMAX_FMA = 8.0  # vector operations per score: scale, maximum, subtract, sum, convert, with a multiply-add as 2: FlashAttention's loop
LOADS = 3.0  # one after another before a tile runs: length of its sequence, its pages, keys
OVERLAP, OVERLAP_ASYNC = 0.6, 0.8  # of exponentials and scalars behind matrix products, where warps wait for them and where they need not:
# FlashAttention-3 (arXiv 2407.08608) hides most of them by two groups of warps in turn, FlashAttention-2 less: assumed
DECODE_FILL = 2  # splits until each unit has so many tiles
SPLIT_CYCLES = 6000.0  # partial results written, a second kernel that joins them: assumed


class AttentionProblem(NamedTuple):
    """Sizes of one call. `keys`: length of keys and values; prefill: `queries` of them are new, at the end."""

    batch: int
    heads: int
    kv_heads: int
    head_dim: int
    queries: int
    keys: int
    causal: bool = True
    window: int = 0  # keys that a query sees at most; 0: all
    dtype: str = "bf16"
    kv_dtype: str = ""
    copies: int = 1


def check(p: AttentionProblem) -> None:
    counts(batch=p.batch, heads=p.heads, kv_heads=p.kv_heads, head_dim=p.head_dim, queries=p.queries, keys=p.keys, copies=p.copies)
    if p.heads % p.kv_heads:
        raise InputError(f"heads ({p.heads}) must be a multiple of kv_heads ({p.kv_heads})")
    if p.queries > p.keys:
        raise InputError(f"queries ({p.queries}) are among the keys ({p.keys}), so they cannot be more")
    for dtype in (p.dtype, p.kv_dtype or p.dtype):
        if dtype not in facts.BYTES:
            raise InputError(f"there is no dtype '{dtype}' here; there are {', '.join(facts.BYTES)}")


def tile(p: AttentionProblem, chip: Chip, rows: float) -> tuple[int, int]:
    """Queries and keys of one step."""
    high = 256 if modern(chip, TMEM_RATE) and rows > 128 else 128
    if rows <= 64:
        high = 64 if modern(chip, ASYNC_RATE) or rows > 16 else 16
    wide = 128 if p.head_dim <= 128 and (modern(chip, ASYNC_RATE) or p.head_dim <= 64) else 64
    return high, wide


def step_of(p: AttentionProblem, high: int, wide: int, chip: Chip) -> TaskStep:
    """Scores, softmax and output of one block of keys. Queries stay in registers or shared memory."""
    size, kv = facts.BYTES[p.dtype], facts.BYTES[p.kv_dtype or p.dtype]
    loaded = 2.0 * wide * p.head_dim * kv
    readers = max(1.0, high / (128.0 if modern(chip, TMEM_RATE) else 64.0))  # groups of warps that each read keys and values
    return TaskStep(
        flop=4.0 * high * wide * p.head_dim, fma=SOFTMAX_FMA * high * wide, special=float(high * wide),
        shared_bytes=loaded + readers * 2.0 * wide * p.head_dim * size + high * p.head_dim * size, l2_bytes=loaded,
        latency_cycles=2.0 * facts.MATRIX_CYCLES * (p.head_dim + wide) / 16.0 / 4.0,
    )  # fmt: skip


def block_of(p: AttentionProblem, chip: Chip, high: int, wide: int) -> tuple[TaskBlock, float]:
    """Registers hold the output and scores; shared memory queries and two stages of keys and values, if they fit."""
    size = facts.BYTES[p.kv_dtype or p.dtype]
    threads = 128 * max(1, high // 64) + (128 if modern(chip, ASYNC_RATE) else 0)
    inside = 0.0 if modern(chip, TMEM_RATE) else float(high * (p.head_dim + wide))
    stage = 2.0 * wide * p.head_dim * size
    own = high * p.head_dim * facts.BYTES[p.dtype] + 2048.0
    stages = min(2.0, (chip.shared_bytes - own) / stage)
    if stages < 0.5:
        raise InputError(f"heads of {p.head_dim} do not fit {chip.shared_bytes:g} B of shared memory")
    return TaskBlock(threads, min(inside + threads * REGISTERS_OWN, chip.registers), own + stages * stage), stages


def overlap(chip: Chip) -> float:
    return OVERLAP_ASYNC if modern(chip, ASYNC_RATE) else OVERLAP


def prefill(p: AttentionProblem, chip: Chip) -> SimulatedKernel:
    """Longest tiles first, as persistent schedulers do. Raises InputError for impossible sizes."""
    check(p)
    high, wide = tile(p, chip, p.queries)
    block, stages = block_of(p, chip, high, wide)
    rows = math.ceil(p.queries / high)
    countable(rows * p.batch * p.heads)
    last = p.keys - p.queries + np.minimum((np.arange(rows) + 1) * high, p.queries)  # keys that a tile's last query sees
    first_query = p.keys - p.queries + np.arange(rows) * high
    begin = np.maximum(0, first_query - p.window + 1) if p.window else np.zeros(rows)
    end = last if p.causal else np.full(rows, p.keys)
    steps = np.ceil(end / wide) - np.floor(begin / wide)
    lots = p.batch * p.heads
    row = np.tile(np.arange(rows)[::-1], lots) if p.causal else np.tile(np.arange(rows), lots)
    head = np.repeat(np.arange(lots), rows)
    if p.causal and not p.window:
        order = np.argsort(-steps[row], kind="stable") if lots * rows <= 4 * chip.units else np.arange(lots * rows)
        row, head = row[order], head[order]
    group = p.heads // p.kv_heads
    size, kv = facts.BYTES[p.dtype], facts.BYTES[p.kv_dtype or p.dtype]
    queries = np.minimum(high, p.queries - row * high) * p.head_dim * size
    all_bytes = 2.0 * lots * p.queries * p.head_dim * size + 2.0 * p.batch * p.kv_heads * p.keys * p.head_dim * kv
    seen = np.minimum(end - begin, p.keys)
    return SimulatedKernel(
        name=f"prefill batch {p.batch}, heads {p.heads}/{p.kv_heads}×{p.head_dim}, {p.queries} of {p.keys} keys, tile {high}×{wide}",
        path=f"prefill, tile {high}×{wide}", unit=f"matrix.{p.dtype}", steps=steps[row], step=step_of(p, high, wide, chip),
        reads=(
            Operand(head // group, seen[row] * 2.0 * p.head_dim * kv, p.batch * p.kv_heads, all_bytes * p.copies, True),
            Operand(np.arange(len(row)), queries, len(row), all_bytes * p.copies),
        ),
        written_bytes=queries, block=block, stages=stages, overlap=overlap(chip), loads=LOADS, output_age_bytes=all_bytes,
        end_cycles=facts.END_CYCLES + high * p.head_dim * size / (facts.L2_PORT_BYTES * chip.l2_factor),
        useful_flop=4.0 * lots * scores(p) * p.head_dim, kind="prefill",
    )  # fmt: skip


def scores(p: AttentionProblem) -> float:
    """Pairs of a query and a key that it may see, of one head of one sequence."""
    if not p.causal:
        return float(p.queries) * min(p.keys, p.window + p.queries - 1 if p.window else p.keys)
    first = p.keys - p.queries + 1  # keys that the first query sees
    if not p.window or p.window >= p.keys:
        return p.queries * (first + p.keys) / 2.0
    growing = max(0, min(p.queries, p.window - first))  # queries that see fewer keys than the window
    return growing * (2 * first + growing - 1) / 2.0 + (p.queries - growing) * float(p.window)


def decode(p: AttentionProblem, chip: Chip) -> SimulatedKernel:
    """One query a sequence (`queries` is 1), all heads of a group at once, keys split so that every unit has work."""
    check(p)
    group = p.heads // p.kv_heads
    high, wide = tile(p, chip, group)
    block, stages = block_of(p, chip, high, wide)
    keys = min(p.keys, p.window) if p.window else p.keys
    steps_all = math.ceil(keys / wide)
    lots = p.batch * p.kv_heads * math.ceil(group / high)
    held = chip.units * min(DECODE_FILL, slots(block, chip))
    split = max(1, min(steps_all, held // lots))
    steps = math.ceil(steps_all / split)
    split = math.ceil(steps_all / steps)
    size, kv = facts.BYTES[p.dtype], facts.BYTES[p.kv_dtype or p.dtype]
    countable(split * lots)
    part = np.tile(np.arange(split), lots)
    length = np.minimum(steps, steps_all - part * steps).astype(float)
    out = group * p.head_dim * (size if split == 1 else 4.0)
    total = 2.0 * p.batch * p.kv_heads * keys * p.head_dim * kv
    seen = np.minimum(length * wide, keys - part * steps * wide)
    return SimulatedKernel(
        name=f"decode batch {p.batch}, heads {p.heads}/{p.kv_heads}×{p.head_dim}, {p.keys} keys, split {split}",
        path=f"decode, split {split}", unit=f"matrix.{p.dtype}", steps=length, step=step_of(p, high, wide, chip),
        reads=(Operand(np.repeat(np.arange(lots), split) * split + part, seen * 2.0 * p.head_dim * kv, lots * split, total * p.copies),),
        written_bytes=np.full(lots * split, out), block=block, stages=stages, overlap=overlap(chip), loads=LOADS,
        output_age_bytes=total, end_cycles=facts.END_CYCLES + (SPLIT_CYCLES if split > 1 else 0.0),
        useful_flop=4.0 * p.batch * p.heads * keys * p.head_dim, kind="decode",
    )  # fmt: skip

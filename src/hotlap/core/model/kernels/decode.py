"""Decode attention: one new token against a cache of keys and values, which is read once: bytes, and what it takes to ask for them.

A task is one key-value head of one sequence (with as many query heads as a tile packs), or one of the splits of its keys. It
starts in `start_clocks` and then takes each block of keys in the clocks of its products, softmax and loads. Memory is busy for
bytes ÷ bandwidth, beside which the first blocks of every unit fill the pipeline. A cache that fits L2 stays there from call to
call, since the benchmark repeats one call. Few tasks cannot keep memory busy: bytes in flight = bandwidth × latency (Little).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hotlap.core.model.kernels import attention, attention_library
from hotlap.core.model.kernels.attention import AttentionPlan, Cases, norm
from hotlap.core.model.kernels.attention_library import LibraryFamily
from hotlap.core.model.kernels.base import Chip, Coefficients, Estimate, Floats


@dataclass(frozen=True)
class DecodeTraits:
    """What a library's source says of its kernel."""

    rule: str  # how keys are split: "even" shares of all blocks, "efficiency" of the last wave, "fill" the slots
    packs: int = 64  # query heads of a group in one task
    rows: int = 64  # of a tile, padding included
    row_step: int = 64  # heads beyond which the tile grows
    keys: int = 128  # of a block
    slots: float = 1.0  # tasks per unit that the split rule aims at
    resident: float = 1.0  # tasks of a unit whose starts overlap, by shared memory and registers
    most: int = 32  # splits
    unsplit: int = 0  # blocks that are never split ("efficiency")
    least_keys: int = 128  # of a split ("fill")
    staged: bool = True  # the next block loads while this one is computed
    searched: float = np.inf  # batch up to which a scheduler walks the sequences
    swaps: bool = False  # the heads of a group become rows by copies of queries and output


KERNELS: Mapping[str, DecodeTraits] = {
    # vLLM flash-attention `csrc/flash_attn/flash_api.cpp`: seqlenq_ngroups_swapped (not of single heads), num_splits_heuristic
    "fa2": DecodeTraits("efficiency", slots=2.0, resident=2.0, most=64, swaps=True),
    # flash-attention `hopper/flash_prepare_scheduler.cu` (batches to 992); vLLM captures graphs with at most 32 splits
    "fa3": DecodeTraits("even", searched=992.0),
    # the same source for Ampere, `tile_size_fwd_sm8x`: where SGLang's version 3 runs (`sgl_kernel.flash_attn.is_fa3_supported`)
    "fa3_sm80": DecodeTraits("efficiency", rows=128, keys=64, resident=2.0, most=128, unsplit=4, staged=False),
    # TensorRT-LLM `cpp/kernels/xqa` and `masked_multihead_attention`; slots and steps judged by the training rows
    "xqa": DecodeTraits("fill", packs=32, rows=32, keys=64, slots=8.0),
    "xqa_fp8": DecodeTraits("fill", packs=32, rows=32, row_step=8, keys=64, slots=2.0, resident=2.0),
    "mmha": DecodeTraits("fill", packs=1, rows=1, keys=64, slots=2.0, resident=2.0, most=64),
    "default": DecodeTraits("even"),
}


class DecodeTasks(NamedTuple):
    """How a case is cut up."""

    number: Floats  # without splits
    blocks: Floats  # of keys, per task
    splits: Floats
    each: Floats  # blocks of one split


def tasks(c: Cases, chip: Chip, t: DecodeTraits) -> DecodeTasks:
    count = c.batch * c.kv_heads * np.ceil(c.group * c.query / np.minimum(c.group, t.packs))
    blocks = np.ceil(c.window / t.keys) + 0.5 * c.windowed  # a window seldom starts where a block does
    slots = chip.units * t.slots
    if t.rule == "even":
        splits = np.clip(np.ceil(blocks / np.ceil(count * blocks / slots)), 1, t.most)
    elif t.rule == "fill":
        splits = np.clip(np.floor(slots / count), 1, np.minimum(np.ceil(c.kv / t.least_keys), t.most))
    else:
        whole = (blocks <= t.unsplit) | (t.swaps & (c.group == 1))
        splits = np.where(whole, 1.0, attention.splits_by_efficiency(count, slots, blocks, t.most))
    return DecodeTasks(count, blocks, splits, blocks / splits if t.rule == "fill" else np.ceil(blocks / splits))


# ---------------------------------------------------------------- time


def plan(c: Cases, chip: Chip, t: DecodeTraits, k: Mapping[str, float]) -> AttentionPlan:
    """Seconds by name, and what the call asks of the machine."""
    w = tasks(c, chip, t)
    start, products, loads = _clocks(c, chip, t, k)
    per_unit, block = w.number * w.splits / chip.units, products + loads
    flow = attention.waves(per_unit, k["wave_rounding"]) * (start / t.resident + w.each * block)
    busy = norm(flow, k["alone"] * (start + np.maximum(w.each, 1) * block), 6.0) / chip.clock_hz
    kv, reread, q = _bytes(c, w)
    miss = 1 / (1 + (k["cache_share"] * chip.l2_bytes / (kv + q)) ** 4)  # cyclic reading: all or nothing
    memory = (kv + q) * miss / (min(k["memory_efficiency"], 1.0) * chip.memory_b_s)
    overlap = k["overlap"] if t.staged else 1.0
    both = norm(busy, memory, overlap)
    cache = (reread + q) / (k["l2_bytes_per_clock"] * chip.l2_factor * chip.units * chip.clock_hz)
    total, weight = norm(both, cache, 4.0), attention.share(both, cache, 4.0)
    own = attention.share(busy, memory, overlap) * weight * total
    clocks = per_unit * (start / t.resident + w.each * block)
    share = own / np.maximum(busy * chip.clock_hz, clocks)
    first = np.minimum(kv + q, k["fill_blocks"] * chip.units * t.keys * c.row_elements * c.kv_bytes) * miss
    written = c.writes * k["token_block_clocks"] * attention.token_blocks(c, chip) / chip.clock_hz
    parts = {
        "launch": _launch(c, t, k, w), "cache write": written, "query and output": k["query_passes"] * q / chip.memory_b_s,
        "pipeline fill": first / chip.memory_b_s, "DRAM": weight * total - own, "L2": (1 - weight) * total,
        "task start": per_unit * start / t.resident * share, "matrix unit and softmax": per_unit * w.each * products * share,
        "loads": per_unit * w.each * loads * share,
    }
    parts["wave quantisation"] = np.maximum(own - clocks * share, 0.0)
    tile = {"tile_rows": np.full_like(q, t.rows), "tile_keys": np.full_like(q, t.keys)}
    choice = {**tile, "tasks": w.number, "splits": w.splits, "waves": np.ceil(per_unit)}
    padded = w.number * w.blocks * t.keys * t.rows
    return AttentionPlan(parts, choice, 2 * padded * c.width, padded, (kv + q) * miss, reread + q)


def _clocks(c: Cases, chip: Chip, t: DecodeTraits, k: Mapping[str, float]) -> tuple[Floats, Floats, Floats]:
    """Of a task's start, of a block's products and softmax, of a block's loads (with the conversion of 8-bit elements)."""
    size = c.width / 256
    more = 1 + k["step_extra"] * (np.ceil(np.minimum(c.group, t.packs) / t.row_step) - 1)
    low = np.where(c.low > 0, k["start_low_ratio"], 1.0)
    start = k["start_clocks"] * low * np.maximum(1 + k["start_width_slope"] * (size - 1), 0.1) + k["window_clocks"] * c.windowed
    products = t.keys * t.rows * (2 * c.width / attention.matrix_rate(chip, c.low) + attention.softmax_clocks(chip)) * k["product_share"]
    loads = t.keys * c.row_elements * np.where(c.low > 0, k["load_low_clocks"] * size ** k["low_width_exponent"], k["load_clocks"])
    return start * more, products * more, loads * more


def _bytes(c: Cases, w: DecodeTasks) -> tuple[Floats, Floats, Floats]:
    """The cache's, the cache's as often as tasks read it, the queries' and the output's."""
    row = c.window * c.row_elements * c.kv_bytes
    return c.batch * c.kv_heads * row, w.number * row, c.batch * c.query * c.heads * c.width * 2


def _launch(c: Cases, t: DecodeTraits, k: Mapping[str, float], w: DecodeTasks) -> Floats:
    copies = (c.group > 1) & (c.batch > 1) & (c.kv_heads > 1) & t.swaps
    walk = np.where(c.batch <= t.searched, c.batch, 0.0) * k["sequence_s"]
    once = attention.launched(k["launch_s"], c) * np.where(c.low > 0, k["launch_low_ratio"], 1.0)
    return once + np.where(w.splits > 1, k["split_s"], 0.0) + walk + k["copy_s"] * copies


def bound(c: Cases, chip: Chip) -> Floats:
    """Nothing is faster: products at the highest clock, bytes that no cache can have kept."""
    flop = 2 * c.batch * c.heads * c.query * c.window * c.width
    read = c.batch * c.kv_heads * c.window * c.row_elements * c.kv_bytes + c.batch * c.heads * (c.head_dim * c.q_bytes + c.value_dim * 2)
    memory = np.maximum(read - chip.l2_bytes, 0.0) / chip.memory_b_s
    return np.maximum(flop / (attention.matrix_rate(chip, c.low) * chip.units * chip.clock_max_hz), memory)


# ---------------------------------------------------------------- the family


def inside(c: Cases) -> NDArray[np.bool_]:
    """Shapes that were measured."""
    fits = (c.kv <= 131072) & (c.batch <= 2048) & (c.heads <= 128) & (c.head_dim >= 64) & (c.head_dim <= 256)
    return np.asarray(fits & (c.latent == 0) & (c.value_dim == c.head_dim) & (c.query == 1))


FAMILY = LibraryFamily("decode", KERNELS, plan, bound, inside)


def estimate(
    params: Mapping[str, ArrayLike], chip: Chip, implementation: str | ArrayLike = "", coefficients: Coefficients | None = None
) -> Estimate:
    """Expected time of decode calls. `params`: batch, kv (keys, the new one included), heads, kv_heads, head_dim, value_dim,
    window, latent, dtype, kv_dtype, cache_write. Fitted on H100 and A100, repeated calls at the highest clock. Raises InputError."""
    return attention_library.estimate(FAMILY, params, chip, implementation, coefficients)

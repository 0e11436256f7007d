"""Decode attention: one new token against a cache of keys and values, which is read once: bytes, and what it takes to ask for them.

A task is one key-value head of one sequence (with as many query heads as a tile packs), or one of the splits of its keys. It
starts in `start_clocks` and then takes each block of keys in the clocks of its products, softmax and loads. Memory is busy for
bytes ÷ bandwidth, beside which the first blocks of every unit fill the pipeline. A cache that fits L2 stays there from call to
call, since the benchmark repeats one call. Few tasks cannot keep memory busy: bytes in flight = bandwidth × latency (Little).
"""

from __future__ import annotations

import math
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

    rule: str  # how keys are split: "even" shares of all blocks, "efficiency" of the last wave, "fill" the slots, "chunks" (see `_splits`)
    packs: int = 64  # query heads of a group in one task
    rows: int = 64  # of a tile, padding included
    row_step: int = 64  # heads beyond which the tile grows
    grows: int = 0  # by which factor it grows; 0: by steps of the same size
    keys: int = 128  # of a block
    keys_by_width: tuple[int, ...] = ()  # by head dimension up to 64, 128, 192, 256 and beyond
    slots: float = 1.0  # tasks per unit that the split rule aims at
    resident: float = 1.0  # tasks of a unit whose starts overlap, by shared memory and registers
    most: int = 32  # splits
    unsplit: int = 0  # blocks that are never split ("efficiency")
    least_keys: int = 128  # of a split ("fill")
    staged: bool = True  # the next block loads while this one is computed
    searched: float = 0.0  # batch up to which a scheduler walks the sequences
    heads_last: bool = False  # blocks of one head of all sequences start before those of the next
    swaps: bool = False  # the heads of a group become rows by copies of queries and output, where there is no window
    warp_level: bool = False  # products by warp-level instructions
    low: str = "cache"  # what makes its products 8 bits wide: `Cases.products_low`
    native: bool = False  # elements of 8 bits are multiplied as they are loaded
    pads: bool = False  # head dimensions to a power of two
    value_part: int = 0
    of: str = ""  # the kernel whose coefficients it has
    own: tuple[str, ...] = ()  # but for these
    like: str = ""  # the kernel whose coefficients stand in for it where nothing was fitted


KERNELS: Mapping[str, DecodeTraits] = {
    # vLLM flash-attention `csrc/flash_attn/flash_api.cpp`: seqlenq_ngroups_swapped (neither of single heads nor with a window),
    # num_splits_heuristic, and only of swapped calls; `flash_fwd_launch_template.h`: blocks by head dimension, grid (rows, batch, heads)
    "fa2": DecodeTraits(
        "efficiency", slots=2.0, resident=2.0, most=64, keys_by_width=(256, 128, 64, 64, 64), swaps=True, heads_last=True, warp_level=True,
        low="never",
    ),
    # flash-attention `hopper/flash_prepare_scheduler.cu` (batches to 992); vLLM captures graphs with at most 32 splits
    "fa3": DecodeTraits("even", searched=992.0),
    "fa4": DecodeTraits("even", of="fa3"),
    # the same source for Ampere, `tile_size_fwd_sm8x`: where SGLang's version 3 runs (`sgl_kernel.flash_attn.is_fa3_supported`)
    "fa3_sm80": DecodeTraits(
        "efficiency", rows=128, keys=64, resident=2.0, most=128, unsplit=4, warp_level=True, low="never", like="fa2"
    ),
    # TensorRT-LLM `cpp/kernels/xqa` and `masked_multihead_attention`; slots and steps judged by the training rows
    "xqa": DecodeTraits("fill", packs=32, rows=16, row_step=16, grows=2, keys=64, slots=8.0, low="never", pads=True, like="fa3_sm80"),
    "xqa_fp8": DecodeTraits("fill", packs=32, rows=32, row_step=8, keys=64, slots=2.0, resident=2.0, like="xqa"),
    "mmha": DecodeTraits("fill", packs=1, rows=1, keys=64, slots=2.0, resident=2.0, most=64, low="never", pads=True, like="xqa"),
    # the same with an 8-bit cache before Hopper: keys are not split (seen in the rows; the source decides by a table of its own), and
    # elements are converted one by one
    "xqa_mma_fp8": DecodeTraits("none", packs=32, rows=16, row_step=16, grows=2, keys=64, pads=True, of="xqa",
                                own=("start_clocks", "load_low_clocks", "kernel_launch_clocks")),
    "mmha_fp8": DecodeTraits("fill", packs=1, rows=1, keys=64, slots=2.0, resident=2.0, most=64, low="never", pads=True, of="mmha",
                             own=("start_clocks", "load_low_clocks", "kernel_launch_clocks", "low_width_exponent")),
    # FlashInfer `trtllm/fmha/fmhaKernels.cuh`, computeCtaAndClusterConfig, selectGqGenerationKernel: tiles of 8 to 128 rows, steps of 256
    # keys, at least two steps a split, no more tasks than units; unsplit ones are persistent. TensorRT-LLM has the same kernels.
    "gen": DecodeTraits("chunks", packs=128, rows=8, row_step=8, grows=2, keys=256, most=10**6, native=True, like="fa3"),
    # FlashInfer `attention/decode.cuh` and `scheduler.cuh`, PartitionPagedKVCacheBinarySearchMinNumPagePerBatch: chunks that fill the grid
    "flashinfer": DecodeTraits("fill", packs=64, rows=16, row_step=16, grows=4, keys=64, slots=2.0, resident=2.0, most=256, warp_level=True,
                               low="never", like="fa2"),
    # sglang `triton_ops/decode_attention.py` and `triton_backend.py` get_num_kv_splits_triton: at most 8 splits; 16 heads a task
    "triton": DecodeTraits("triton", packs=16, rows=16, keys=32, resident=4.0, most=8, warp_level=True, low="never", pads=True, like="fa2"),
    "triton_mha": DecodeTraits("triton", packs=1, rows=1, keys=64, resident=4.0, most=8, low="never", pads=True, of="triton",
                               own=("start_clocks", "product_share", "load_clocks", "load_low_clocks")),
    # vllm `triton_unified_attention.py`: 16 segments up to 128 tasks, else none; tiles of 16 keys, of 32 from an 8-bit cache
    "triton_vllm": DecodeTraits("segments", packs=10**6, rows=16, row_step=16, keys=32, resident=4.0, most=16, warp_level=True, low="never",
                                pads=True, like="triton"),
}  # fmt: skip


class DecodeTasks(NamedTuple):
    """How a case is cut up."""

    number: Floats  # without splits
    blocks: Floats  # of keys, per task
    splits: Floats
    each: Floats  # blocks of one split
    packed: Floats  # heads of one task


def tasks(c: Cases, chip: Chip, t: DecodeTraits) -> DecodeTasks:
    of, packed, keys = c.of, c.of.minimum(c.group, t.packs), _keys(c, t)
    if t.swaps:
        packed = of.where(c.limited, 1.0, packed)
    count = c.batch * c.kv_heads * of.ceil(c.group * c.query / packed)
    blocks = of.ceil(c.kv / keys) - of.floor((c.kv - c.window) / keys)
    splits = _splits(c, chip, t, count, blocks)
    whole = t.rule in ("fill", "chunks", "triton", "none")
    return DecodeTasks(count, blocks, splits, blocks / splits if whole else of.ceil(blocks / splits), packed)


def _keys(c: Cases, t: DecodeTraits) -> Floats | int:
    return c.of.pick(attention.WIDTHS, t.keys_by_width, c.head_dim) if t.keys_by_width else t.keys


def _splits(c: Cases, chip: Chip, t: DecodeTraits, count: Floats, blocks: Floats) -> Floats:
    """Parts of a task's keys, by the rule of the kernel."""
    of, slots = c.of, chip.units * t.slots
    if t.rule == "none":
        return count * 0 + 1.0
    if t.rule == "even":
        return of.clip(of.ceil(blocks / of.ceil(count * blocks / slots)), 1, t.most)  # type: ignore[no-any-return]
    if t.rule == "fill":
        return of.clip(of.floor(slots / count), 1, of.minimum(of.ceil(c.kv / t.least_keys), t.most))  # type: ignore[no-any-return]
    if t.rule == "chunks":
        return of.clip(of.floor(slots / count), 1, of.ceil(c.window / (2 * t.keys)))  # type: ignore[no-any-return]
    if t.rule == "triton":
        return of.clip(of.ceil(chip.units * of.maximum(of.log2(c.window / 64), 1) / count), 1, t.most)  # type: ignore[no-any-return]
    if t.rule == "segments":
        each = of.minimum(of.ceil(of.ceil(c.kv / t.keys) / t.most), blocks)  # of all keys, whether a window hides them or not
        return of.where(c.batch <= of.floor(128 / c.kv_heads), of.ceil(blocks / each), 1.0)  # type: ignore[no-any-return]
    alone = (blocks <= t.unsplit) | (t.swaps & ((c.group == 1) | c.limited))
    return of.where(alone, 1.0, attention.splits_by_efficiency(count, slots, blocks, t.most))  # type: ignore[no-any-return]


# ---------------------------------------------------------------- time


def plan(c: Cases, chip: Chip, t: DecodeTraits, k: Mapping[str, float]) -> AttentionPlan:
    """Seconds by name, and what the call asks of the machine."""
    w = tasks(c, chip, t)
    kv, reread, q = _bytes(c, w)
    miss = attention.missed(kv + q, attention.kept(chip, k), k["cache_edge"], c.of)
    start, products, loads = _clocks(c, chip, t, k, w, miss)
    per_unit, block = w.number * w.splits / chip.units, products + loads
    flow = attention.waves(per_unit, k["wave_rounding"], c.of) * (start / t.resident + w.each * block)
    busy = norm(flow, k["alone"] * (start + c.of.maximum(w.each, 1) * block), 6.0) / chip.clock_hz
    efficiency = k["memory_efficiency" if attention.parted(chip) else "memory_efficiency_gddr"]
    memory = (kv * _again(c, chip, t, k, w) + q) * miss / (min(efficiency, 1.0) * chip.memory_b_s)
    overlap = k["overlap"] if t.staged else 1.0
    both = norm(busy, memory, overlap)
    cache = (reread + q) / (attention.l2_rate(chip, k) * chip.units * chip.clock_hz)
    total, weight = norm(both, cache, 4.0), attention.share(both, cache, 4.0)
    own = attention.share(busy, memory, overlap) * weight * total
    clocks = per_unit * (start / t.resident + w.each * block)
    share = own / c.of.maximum(busy * chip.clock_hz, clocks)
    first = c.of.minimum(kv + q, k["fill_blocks"] * chip.units * _keys(c, t) * c.row_elements * c.kv_bytes) * miss
    written = c.writes * k["token_block_clocks"] * attention.token_blocks(c, chip) / chip.clock_hz
    parts = {
        "launch": _launch(c, chip, t, k, w), "cache write": written,
        "query and output": (k["query_passes"] + k["copy_passes"] * _copies(c, t)) * q / chip.memory_b_s,
        "pipeline fill": first / chip.memory_b_s, "DRAM": weight * total - own, "L2": (1 - weight) * total,
        "task start": per_unit * start / t.resident * share, "matrix unit and softmax": per_unit * w.each * products * share,
        "loads": per_unit * w.each * loads * share,
    }  # fmt: skip
    parts["wave quantisation"] = c.of.maximum(own - clocks * share, 0.0)
    tile = {"tile_rows": q * 0 + t.rows, "tile_keys": q * 0 + _keys(c, t)}
    choice = {**tile, "tasks": w.number, "splits": w.splits, "waves": c.of.ceil(per_unit)}
    padded = w.number * w.blocks * _keys(c, t) * t.rows
    return AttentionPlan(parts, choice, 2 * padded * c.width, padded, (kv + q) * miss, reread + q)


def _clocks(c: Cases, chip: Chip, t: DecodeTraits, k: Mapping[str, float], w: DecodeTasks, miss: Floats) -> tuple[Floats, Floats, Floats]:
    """Of a task's start, of a block's products and softmax, of a block's loads (with the conversion of 8-bit elements; what waits for
    DRAM waits longer than for L2)."""
    of = c.of
    width = 2.0 ** of.ceil(of.log2(c.head_dim)) + 2.0 ** of.ceil(of.log2(c.value_dim)) if t.pads else c.width
    size = width / 256
    heads = w.packed / t.row_step
    steps = of.maximum(of.ceil(of.log2(heads) / math.log2(t.grows) - 1e-9), 0) if t.grows else of.ceil(heads) - 1
    more = 1 + k["step_extra"] * steps
    wider = of.maximum(1 + k["start_width_slope"] * (size - 1), 0.1)
    start = k["start_clocks"] * chip.clock_hz / attention.latency_hz(chip, k) * wider + k["window_clocks"] * c.windowed
    rate = attention.matrix_rate(chip, c.products_low(t.low), t.warp_level)
    products = _keys(c, t) * t.rows * (2 * width / rate + attention.softmax_clocks(chip)) * k["product_share"]
    low = k["load_clocks"] / 2 if t.native else k["load_low_clocks"] * size ** k["low_width_exponent"]
    elements = of.where(c.kv_bytes < 2, low, k["load_clocks"] * size ** k["width_exponent"])
    elements = elements * (1 + k["miss_extra"] * miss)
    return start * more, products * more, _keys(c, t) * (width if t.pads else c.row_elements) * elements * more


def _bytes(c: Cases, w: DecodeTasks) -> tuple[Floats, Floats, Floats]:
    """The cache's, the cache's as often as tasks read it, the queries' and the output's."""
    row = c.window * c.row_elements * c.kv_bytes
    return c.batch * c.kv_heads * row, w.number * row, c.batch * c.query * c.heads * c.width * 2


def _again(c: Cases, chip: Chip, t: DecodeTraits, k: Mapping[str, float], w: DecodeTasks) -> Floats | float:
    """How often DRAM is read: heads of a group that do not run at the same time read again, unless L2 holds one head's keys of all."""
    if not t.heads_last:
        return 1.0
    of, heads, head = c.of, c.group / w.packed, c.batch * c.window * c.row_elements * c.kv_bytes
    together = of.maximum(chip.units * t.slots / c.batch, 1.0)
    again = of.maximum(heads / together, 1.0) - 1
    return 1 + again * attention.missed(head, attention.kept(chip, k), k["cache_edge"], of)  # type: ignore[no-any-return]


def _launch(c: Cases, chip: Chip, t: DecodeTraits, k: Mapping[str, float], w: DecodeTasks) -> Floats:
    walk = (c.batch <= t.searched) * c.batch * k["sequence_clocks"]
    low = (c.kv_bytes < 2) * k["launch_low_clocks"]
    latency = attention.latency_hz(chip, k)
    once = attention.launched((k["launch_clocks"] + k["kernel_launch_clocks"]) / latency, c)
    return once + (low + (w.splits > 1) * k["split_clocks"] + walk + k["copy_clocks"] * _copies(c, t)) / latency


def _copies(c: Cases, t: DecodeTraits) -> NDArray[np.bool_]:
    return (c.group > 1) & (c.batch > 1) & (c.kv_heads > 1) & t.swaps & c.of.negated(c.limited)  # type: ignore[no-any-return]


def bound(c: Cases, chip: Chip) -> Floats:
    """Nothing is faster: products at the highest clock, bytes that no cache can have kept."""
    flop = 2 * c.batch * c.heads * c.query * c.window * c.width
    read = c.batch * c.kv_heads * c.window * c.row_elements * c.kv_bytes + c.batch * c.heads * (c.head_dim * c.q_bytes + c.value_dim * 2)
    memory = c.of.maximum(read - chip.l2_bytes, 0.0) / chip.memory_b_s
    return c.of.maximum(flop / (attention.matrix_rate(chip, c.low) * chip.units * chip.clock_max_hz), memory)  # type: ignore[no-any-return]


# ---------------------------------------------------------------- the family


def inside(c: Cases) -> NDArray[np.bool_]:
    """Shapes that were measured."""
    fits = (c.kv <= 131072) & (c.batch <= 2048) & (c.heads <= 128) & (c.head_dim >= 64) & (c.head_dim <= 256)
    return np.atleast_1d(fits & (c.latent == 0) & (c.value_dim == c.head_dim) & (c.query == 1))


FAMILY = LibraryFamily("decode", KERNELS, plan, bound, inside)


def estimate(
    params: Mapping[str, ArrayLike], chip: Chip, implementation: str | ArrayLike = "", coefficients: Coefficients | None = None
) -> Estimate:
    """Expected time of decode calls. `params`: batch, kv (keys, the new one included), heads, kv_heads, head_dim, value_dim,
    window, latent, dtype, kv_dtype, cache_write. Fitted on H100 and A100, repeated calls at the highest clock. Raises InputError."""
    return attention_library.estimate(FAMILY, params, chip, implementation, coefficients)

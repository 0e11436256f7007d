"""Prefill attention: two matrix products with a softmax between them, in tiles of query rows.

A task is one tile of rows of one head against all keys that it sees, in blocks of keys. Clocks of a block: its two products
at the matrix unit's rate (÷ `matrix_efficiency`), and the softmax on the special-function unit and the fp32 lanes, of which
`softmax_share` is not hidden behind the products (FlashAttention-3, section 3). Tasks go over the units in waves; a causal
mask leaves tiles unequal. Beside them: bytes of memory, the kernel that writes the cache, launches.
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
class PrefillTraits:
    """What a library's source says of its kernel. Widths of key blocks by head dimension up to 64, 128, 192, 256 and beyond."""

    rows: tuple[int, ...]  # of a query tile; the smallest that holds all rows is taken
    keys: tuple[int, int, int, int, int]
    keys_low: tuple[int, int, int, int, int] | None = None  # where products are 8 bits wide
    rows_64: int = 0  # where the head dimension is 64 or less, whatever the number of rows
    rows_128: int = 0  # where it is 65 to 128 and these hold all rows
    rows_wide: int = 0  # where it is 256 or more
    rows_small: int = 0  # on units with less than 128 KiB of shared memory
    packs: bool = False  # the heads of a group fill one tile's rows
    packs_single: bool = False  # only where there is one new token, and no window
    group_rows: bool = False  # a tile has the rows of one group, 16 at least
    warp_level: bool = False  # products by warp-level instructions
    splits: bool = False  # keys are split where tasks are few
    low: str = "cache"  # what makes its products 8 bits wide: `Cases.products_low`
    pads: bool = False  # head dimensions to a power of two
    value_part: int = 0  # of the output's dimension in one task: wider ones are several tasks, each with all scores
    walks: bool = False  # a window is masked, not skipped
    of: str = ""  # the kernel whose coefficients it has
    own: tuple[str, ...] = ()  # but for these
    like: str = ""  # the kernel whose coefficients stand in for it where nothing was fitted


SMALL_SHARED_BYTES = 128 * 1024  # Ada's and GB202's units have 100 KiB
USUALLY_HELD, MOST = 0.85, 1.15  # of the matrix peak by long products; of what they usually hold by attention's
ROWS_16_FLOP = 1024.0  # per clock and unit, of tiles of 16 rows: Ada's and Blackwell's do as many per clock (sizes of one instruction)
QMMA = ("start_clocks", "row_clocks", "matrix_efficiency_low", "softmax_work", "blend", "work_64", "work_192", "work_256")
KERNELS: Mapping[str, PrefillTraits] = {
    # flash-attention `csrc/flash_attn/src/flash_fwd_launch_template.h`, run_mha_fwd_splitkv_dispatch: a paged cache takes this kernel
    "fa2": PrefillTraits((64,), (256, 128, 64, 64, 64), packs_single=True, warp_level=True, low="never"),
    # flash-attention `hopper/tile_size.h`, tile_size_fwd_sm90, causal; `heuristics.h`: use_one_mma_wg, should_pack_gqa
    "fa3": PrefillTraits((128,), (128, 128, 96, 80, 64), (160, 160, 160, 128, 128), rows_64=192, rows_128=64, packs=True, splits=True),
    "fa4": PrefillTraits((128,), (128, 128, 112, 80, 64), packs=True, splits=True, of="fa3",
                         own=("start_clocks", "row_clocks", "matrix_efficiency", "alone")),
    # flash-attention `hopper/tile_size.h`, tile_size_fwd_sm8x: SGLang's version 3 runs on Ampere (`sgl_kernel.flash_attn.is_fa3_supported`)
    "fa3_sm80": PrefillTraits((128,), (112, 64, 64, 96, 96), packs=True, splits=True, warp_level=True, low="never", like="fa2"),
    # TensorRT-LLM `cpp/kernels/fmha_v2/setup.py`, warp-specialised kernels; blocks of keys also judged by the training rows
    "fmha": PrefillTraits((128,), (128, 128, 64, 64, 64), (256, 256, 128, 128, 128), like="gen"),
    # the same source's tiled kernels of Ampere and Ada (granular tiling: 64 or 128 rows by 128 to 16 keys)
    "fmha_mma": PrefillTraits((64, 128), (128, 128, 64, 64, 64), warp_level=True, low="query", like="fa2"),
    "fmha_qmma": PrefillTraits((64,), (64, 64, 64, 64, 64), warp_level=True, low="query", of="fmha_mma", own=QMMA),
    # TensorRT-LLM and FlashInfer `trtllm/fmha/fmhaKernels.cuh`: two tiles of 128 rows a task, persistent; values of 256 a task
    "gen": PrefillTraits((256,), (128, 128, 128, 128, 128), value_part=256, like="fmha"),
    # the same for generation, which vLLM runs on single new tokens: the rows of a group
    "gen_single": PrefillTraits((8, 16, 32, 64, 128), (128, 128, 128, 128, 128), packs=True, of="gen"),
    # FlashInfer `attention/blackwell/fmha_cutlass_sm100.cuh`: two tiles of 128 rows, persistent, of queries and keys side by side
    "cutlass": PrefillTraits((256,), (128, 128, 128, 128, 128), low="query", of="gen", own=("start_clocks", "row_clocks", "softmax_work")),
    # FlashInfer `attention/prefill.cuh`, `utils.cuh` FA2DetermineCtaTileQ: 128, 64 or 16 rows of a group; an 8-bit cache is converted
    "flashinfer": PrefillTraits((16, 64, 128), (64, 64, 64, 32, 32), rows_wide=64, packs=True, warp_level=True, low="never", like="fa2"),
    # sglang `triton_ops/extend_attention.py`: 128 by 64 from 9.0 on, 64 rows on 8.6, 8.9 and 12.0; a window is masked, not skipped
    "triton": PrefillTraits((128,), (64, 64, 64, 64, 64), rows_small=64, warp_level=True, low="query", walks=True, like="fa2"),
    # vllm `triton_unified_attention.py`: 16 rows or a group's, 32 keys; head dimensions padded to powers of two; 8 bits are converted
    "triton_vllm": PrefillTraits((16,), (32, 32, 32, 32, 32), group_rows=True, packs=True, warp_level=True, low="never", pads=True,
                                 like="triton"),
}  # fmt: skip


class PrefillTasks(NamedTuple):
    """The tiles of each case."""

    rows: Floats  # of a tile
    block: Floats  # keys
    number: Floats
    mean: Floats  # keys that a task goes through, padded to blocks
    longest: Floats
    masked: Floats  # share of a windowed task's blocks that needs the mask
    splits: Floats


def tasks(c: Cases, chip: Chip, t: PrefillTraits) -> PrefillTasks:
    of, heads = c.of, c.group
    packed = t.packs | (t.packs_single & (c.query == 1) & of.negated(c.limited))
    each = of.where(packed, c.query * heads, c.query)
    rows, block = _rows(c, chip, t, each), _block(c, t)
    tiles, span = of.ceil(each / rows), of.maximum(of.minimum(of.where(packed, rows / heads, rows), c.query), 1.0)
    step = of.divisor(span, block)
    window, visible = (c.kv, attention.triangle(c)) if t.walks else (c.window, attention.seen(c))
    edges = 1.0 + c.windowed  # ends at which a tile's keys are cut
    mean = visible + of.where(c.causal, edges * ((span - 1) + (block - step)) / 2, 0.0)
    whole = of.ceil(c.kv / block) * block
    single = of.ceil(of.minimum(c.kv, window + span + block - step) / block) * block
    several = of.maximum(of.minimum(mean, whole), block)
    mean = of.where((tiles <= 1) | of.negated(c.causal), of.where(c.causal, single, whole), several)
    longest = of.ceil(of.minimum(window + span * c.windowed, c.kv) / block) * block
    count = c.batch * of.where(packed, c.kv_heads, c.heads) * tiles
    masked = of.where(c.windowed, of.minimum(1.0, 2 * of.maximum(span, block) / mean), 0.0)
    blocks = of.where(longest > 4 * block, longest / block / 2, 1.0)  # four blocks and fewer are never split, and a part has two
    splits = attention.splits_by_efficiency(count, chip.units, blocks, 64) if t.splits else count * 0 + 1.0
    return PrefillTasks(rows, block, count * _value_parts(c, t), mean, of.maximum(longest, mean), masked, splits)


def _rows(c: Cases, chip: Chip, t: PrefillTraits, each: Floats) -> Floats:
    """Of a tile, by the rows that there are."""
    of = c.of
    if t.group_rows:
        return of.maximum(16.0, 2.0 ** of.ceil(of.log2(c.group)))  # type: ignore[no-any-return]
    rows = of.pick(t.rows[:-1], t.rows, each) if len(t.rows) > 1 else each * 0 + t.rows[0]
    if t.rows_small and chip.shared_bytes < SMALL_SHARED_BYTES:
        rows = rows * 0 + t.rows_small
    if t.rows_wide:
        rows = of.where(c.head_dim >= 256, of.minimum(rows, t.rows_wide), rows)
    if t.rows_128:
        rows = of.where((c.head_dim > 64) & (c.head_dim <= 128) & (each <= t.rows_128), t.rows_128, rows)
    return of.where(c.head_dim <= 64, t.rows_64, rows) if t.rows_64 else rows


def _block(c: Cases, t: PrefillTraits) -> Floats:
    wide = c.of.pick(attention.WIDTHS, t.keys, c.head_dim)
    if t.keys_low is None:
        return wide  # type: ignore[no-any-return]
    return c.of.where(c.products_low(t.low) > 0, c.of.pick(attention.WIDTHS, t.keys_low, c.head_dim), wide)  # type: ignore[no-any-return]


def _value_parts(c: Cases, t: PrefillTraits) -> Floats | float:
    return c.of.ceil(c.value_dim / t.value_part) if t.value_part else 1.0


def _width(c: Cases, t: PrefillTraits) -> Floats:
    """Multiply-adds of one row of a task against one key, padding included."""
    score, value = (2.0 ** c.of.ceil(c.of.log2(n)) if t.pads else n for n in (c.head_dim, c.value_dim))
    return score + value / _value_parts(c, t)


# ---------------------------------------------------------------- time


class PerKey(NamedTuple):
    """Clocks of one unit for each key of a task."""

    matrix: Floats
    soft: Floats  # what is not hidden behind the products
    converted: Floats  # turning keys and values of 8 bits to 16, or turning them over


def plan(c: Cases, chip: Chip, t: PrefillTraits, k: Mapping[str, float]) -> AttentionPlan:
    """Seconds by name, and what the call asks of the machine."""
    w, width = tasks(c, chip, t), _width(c, t)
    key = _per_key(c, chip, t, k, w)
    latency = attention.latency_hz(chip, k)
    start = k["start_clocks"] * chip.clock_hz / latency + k["row_clocks"] * w.rows / 128 * width / 256
    per_unit, per_key, shared_by = w.number * w.splits / chip.units, key.matrix + key.soft + key.converted, 1 / w.splits
    uneven = k["uneven"] * c.of.minimum(per_unit, 1) * (w.longest - w.mean) * per_key
    flow = attention.waves(per_unit, k["wave_rounding"], c.of) * (start + w.mean * shared_by * per_key) + uneven
    busy = norm(flow, start + w.longest * shared_by * per_key * k["alone"], 8.0)
    q, kv, miss = _bytes(c, chip, k)
    memory = (q + kv) / chip.memory_b_s * miss
    total, weight = norm(busy / chip.clock_hz, memory, k["overlap"]), attention.share(busy / chip.clock_hz, memory, k["overlap"])
    share, keys = weight * total / busy, c.of.minimum(attention.seen(c), w.mean) * shared_by
    turned, written = _beside(c, chip, k, miss)
    parts = {
        "launch": attention.launched((k["launch_clocks"] + k["kernel_launch_clocks"]) / latency, c)
        + (k["launch_low_clocks"] * c.low + (w.splits > 1) * k["split_clocks"]) / latency,
        "query and output": turned, "cache write": written, "DRAM": total * (1 - weight),
        "matrix unit": per_unit * keys * key.matrix * share, "special functions": per_unit * keys * (key.soft + key.converted) * share,
        "task start": per_unit * start * share, "tile quantisation": per_unit * (w.mean * shared_by - keys) * per_key * share,
    }  # fmt: skip
    parts["wave quantisation"] = parts["launch"] + turned + written + total - sum(parts.values())
    padded = w.number * w.rows * w.mean
    choice = {"tile_rows": w.rows, "tile_keys": w.block, "tasks": w.number, "splits": w.splits, "waves": c.of.ceil(per_unit)}
    return AttentionPlan(parts, choice, 2 * padded * width, padded, (q + kv) * miss, w.number * w.mean * c.row_elements * c.kv_bytes + q)


def _per_key(c: Cases, chip: Chip, t: PrefillTraits, k: Mapping[str, float], w: PrefillTasks) -> PerKey:
    """Products and softmax overlap as far as the kernel interleaves them: `blend` 1 is one after the other, more is less of the shorter."""
    low, width = c.products_low(t.low), _width(c, t)
    most = ROWS_16_FLOP if t.group_rows else np.inf
    rate = c.of.minimum(attention.matrix_rate(chip, low, t.warp_level), most) * chip.matrix_held / USUALLY_HELD
    narrow = k["matrix_efficiency_low"] * (c.width / 256) ** -k["low_width_exponent"]
    feed = c.row_elements * (2.0 - low) / attention.l2_rate(chip, k)
    efficiency = c.of.where(low > 0, c.of.minimum(narrow, MOST), min(k["matrix_efficiency"], MOST))
    matrix = norm(2 * w.rows * width / rate / efficiency, feed, 4.0)
    soft = w.rows * attention.softmax_clocks(chip) * k["softmax_work"] * (1 + k["mask_extra"] * w.masked)
    both = norm(matrix, soft, k["blend"])
    apart = c.of.pick(attention.WIDTHS[:3], (k["work_64"], 1.0, k["work_192"], k["work_256"]), c.head_dim)
    return PerKey(matrix * apart, (both - matrix) * apart, k["convert_clocks"] * c.row_elements * (c.kv_bytes < 2))


def _bytes(c: Cases, chip: Chip, k: Mapping[str, float]) -> tuple[Floats, Floats, Floats]:
    """Of queries and output, of keys and values, and the share that the cache does not keep between calls (they repeat)."""
    q = c.batch * c.query * c.heads * (c.head_dim * c.q_bytes + c.value_dim * 2)
    kv = c.batch * c.kv_heads * c.row_elements * (c.of.minimum(c.query, c.kv) * 2 + c.of.maximum(c.kv - c.query, 0) * c.kv_bytes)
    return q, kv, (q + kv) / (q + kv + attention.kept(chip, k))


def _beside(c: Cases, chip: Chip, k: Mapping[str, float], miss: Floats) -> tuple[Floats, Floats]:
    """Kernels before the attention: queries turned (by positions, to 8 bits, to another order); new keys and values written."""
    new = c.batch * c.query
    q, kv = new * c.heads * c.head_dim, new * c.kv_heads * c.row_elements
    asked = (k["query_passes"] * q * 2 + k["query_passes_low"] * c.low * q * 3) / chip.memory_b_s * miss
    turned = k["query_element_clocks"] * (q + kv) / chip.units / chip.clock_hz
    blocks = k["token_block_clocks"] * attention.token_blocks(c, chip) + k["token_clocks"] * new / chip.units
    return norm(asked, turned, 3.0), c.writes * (k["cache_passes"] * kv * 2 / chip.memory_b_s * miss + blocks / chip.clock_hz)


def bound(c: Cases, chip: Chip) -> Floats:
    """Nothing is faster: products without padding at the highest clock, bytes that no cache can have kept."""
    flop = 2 * c.batch * c.heads * c.query * attention.seen(c) * c.width
    q = c.batch * c.query * c.heads * (c.head_dim * c.q_bytes + c.value_dim * 2)
    kv = c.batch * c.kv_heads * c.row_elements * c.of.minimum(c.kv, c.window + c.query) * c.kv_bytes
    memory = c.of.maximum(q + kv - chip.l2_bytes, 0.0) / chip.memory_b_s
    return c.of.maximum(flop / (attention.matrix_rate(chip, c.low) * chip.units * chip.clock_max_hz), memory)  # type: ignore[no-any-return]


def inside(c: Cases) -> NDArray[np.bool_]:
    """Shapes that were measured: a causal call on an empty cache."""
    fits = (c.query <= 16384) & (c.batch <= 256) & (c.heads <= 96) & (c.head_dim >= 64) & (c.head_dim <= 512)
    return np.atleast_1d(fits & c.causal & (c.latent == 0) & (c.value_dim == c.head_dim) & (c.kv == c.query))


FAMILY = LibraryFamily("prefill", KERNELS, plan, bound, inside)


def estimate(
    params: Mapping[str, ArrayLike], chip: Chip, implementation: str | ArrayLike = "", coefficients: Coefficients | None = None
) -> Estimate:
    """Expected time of prefill calls. `params`: batch, query, kv (default: query), heads, kv_heads, head_dim, value_dim, window,
    latent, dtype, kv_dtype, causal, cache_write. Fitted on H100 and A100, repeated calls at the highest clock. Raises InputError."""
    return attention_library.estimate(FAMILY, params, chip, implementation, coefficients)

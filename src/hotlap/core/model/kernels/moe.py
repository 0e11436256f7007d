"""Mixture of experts: routing, two grouped matrix products (up with its gate, and down), activation, and the way to rows and back.

Routing gives loads of the experts that live on this rank; each expert's rows are cut into tiles, so few rows per expert waste
tiles, and every expert with at least one row streams its weights from DRAM. A product takes
    (compute^p + memory^p)^(1/p),  compute = waves × cycles of a tile,  memory = weights ÷ min(bandwidth, bytes in flight ÷ latency)
and the tile is a softened choice among candidates, but for SGLang's Triton kernel, which without a tuned file takes 16 × 32 up to
as many tokens as experts and 64 × 64 beyond (its `get_default_config`, as vLLM's before 2025).

Conventions, checked in the data: `inter` is divided by `tp`, `experts` by `ep`. Balanced: tokens × topk ÷ ep rows reach a rank.
Power law: loads of experts are drawn from x^-α between 1 and 0.8 × tokens, and the rank with the highest load is timed
(aiconfigurator's collectors). SGLang's kernels multiply all topk rows of a token that has any expert here, the remote ones too;
Triton kernels of others pass over all rows in the activation and the sum, but multiply only their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hotlap.core.model.kernels import moe_cases
from hotlap.core.model.kernels.base import Chip, Demand, Estimate, Floats, stored
from hotlap.core.model.kernels.moe_cases import Routed

PARTS = (
    "matrix unit", "tile quantisation", "operand feed", "tile latency", "wave quantisation", "DRAM", "bytes in flight", "row passes",
    "launch",
)
TILES = ((16, 64), (16, 128), (32, 64), (64, 64), (64, 128), (128, 128), (128, 256))
UNTUNED = ((16, 32), (64, 64))  # up to as many tokens as experts, and beyond
DEPTH_BLOCK = 64  # the inner dimension is padded to it
TILE_START, LARGE_TILE = 0.3, 128 * 128  # of the cycles before and after a tile: the part that does not grow with its area
CHUNK = 1024  # cases at once: their arrays stay in the processor's cache
CACHE_SHARE = 0.3  # time of a row pass that stays in L2, as a share of DRAM's
FALLBACK = {  # group of coefficients where an implementation is not known with this dtype
    "bf16": "triton_bf16", "fp8": "triton_fp8_block", "fp8_block": "triton_fp8_block", "int4_wo": "marlin_int4_wo",
    "w4a16_mxfp4": "triton_w4a16_mxfp4",
}


def group(implementation: str, dtype: str, known: Mapping[str, Any]) -> str:
    """The coefficients that an implementation uses: by the words in its name, else its dtype's default."""
    found = f"{moe_cases.kind(implementation)}_{dtype}"
    return found if found in known else FALLBACK[dtype]


def estimate(
    params: Mapping[str, ArrayLike], chip: Chip, implementation: str | ArrayLike = "",
    coefficients: Mapping[str, Mapping[str, float]] | None = None,
) -> Estimate:
    """Expected times of one rank's layer. Cases: `tokens` (of all ranks together), `hidden`, `inter`, `topk`, `experts`, and
    optionally `tp`, `ep`, `distribution` ("balanced", "power_law_1.2"), `dtype`, `gated`. `implementation`: the kernel's source as
    aiconfigurator names it, as "vllm_fused_moe" or "sglang_marlin_moe"; unknown ones are taken for Triton kernels. Raises InputError.
    """
    cases = moe_cases.read(params, implementation)
    cases |= {"flop": moe_cases.flop_per_clock(cases["dtype"], chip)}
    c, fitted = _coefficients(cases, coefficients or stored("moe"))
    count = len(cases["tokens"])
    found = []
    for start in range(0, count, CHUNK):
        rows = slice(start, start + CHUNK)
        found.append(_estimate({k: v[rows] for k, v in cases.items()}, chip, {k: v[rows] for k, v in c.items()}, fitted[rows]))
    return found[0] if len(found) == 1 else _joined(found)


def _coefficients(
    cases: Mapping[str, NDArray[Any]], known: Mapping[str, Mapping[str, float]]
) -> tuple[dict[str, Floats], NDArray[np.bool_]]:
    """Of each case, and whether its implementation was fitted in its dtype."""
    (sources, of_source), (dtypes, of_dtype) = (moe_cases.codes(cases[name]) for name in ("implementation", "dtype"))
    split = [(source, dtype) for source in sources for dtype in dtypes]
    which = of_source * len(dtypes) + of_dtype
    groups = [group(source, dtype, known) for source, dtype in split]
    table = np.array([list(known[name].values()) for name in groups])
    fitted = np.array([name == f"{moe_cases.kind(source)}_{dtype}" for name, (source, dtype) in zip(groups, split, strict=True)])
    return {name: table[which, i] for i, name in enumerate(known[groups[0]])}, fitted[which]


def _estimate(cases: Mapping[str, NDArray[Any]], chip: Chip, c: Mapping[str, Floats], fitted: NDArray[np.bool_]) -> Estimate:
    routed = moe_cases.route(cases)
    parts, choice = _products(cases, routed, chip, c)
    moved = _row_bytes(cases, routed)
    spilled = moved / (moved + chip.l2_bytes)
    parts["row passes"] = c["row_passes"] * moved / chip.memory_b_s * (spilled + CACHE_SHARE * (1.0 - spilled))
    parts["launch"] = 1e-6 * c["launch_us"]
    demand = _demand(cases, routed, moved, choice, chip)
    return Estimate(np.sum(list(parts.values()), axis=0), parts, demand, choice, _inside(cases, chip) & fitted)


def _joined(demands: list[Estimate]) -> Estimate:
    """Chunks of cases as one."""

    def join(tables: list[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
        return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}

    demand = Demand(
        join([e.demand.operations for e in demands]),
        *(np.concatenate([e.demand[i] for e in demands]) for i in (1, 2, 3)),
    )
    seconds, inside = (np.concatenate([e[i] for e in demands]) for i in (0, 4))
    return Estimate(seconds, join([e.parts for e in demands]), demand, join([e.choice for e in demands]), inside)


# ---------------------------------------------------------------- the two products


def _products(
    cases: Mapping[str, NDArray[Any]], routed: Routed, chip: Chip, c: Mapping[str, Floats]
) -> tuple[dict[str, Floats], dict[str, NDArray[Any]]]:
    """Parts of both products by the softened choice of their tile, and that choice."""
    tiles = np.array((*(() if cases["untuned"].all() else TILES), *(UNTUNED if cases["untuned"].any() else ())))
    found = _both(cases, routed, chip, c, tiles)
    seconds = np.where(_allowed(cases, c, tiles), np.sum([found[name] for name in PARTS[:7]], axis=0), np.inf)
    weights = (seconds / seconds.min(axis=0)) ** -c["choice_power"]
    weights /= weights.sum(axis=0)
    mixed: dict[str, Floats] = {name: (weights * values).sum(axis=0) for name, values in found.items()}
    chosen = tiles[np.argmax(weights, axis=0)]
    choice = {"tile_m": chosen[:, 0], "tile_n": chosen[:, 1], **{name: mixed.pop(name) for name in ("waves", "padded", "weights")}}
    return mixed, choice


def _allowed(cases: Mapping[str, NDArray[Any]], c: Mapping[str, Floats], tiles: NDArray[np.int_]) -> NDArray[np.bool_]:
    """Tiles × cases: the fixed rule where nothing was tuned, else all that are tall enough."""
    tall, count = tiles[:, :1], len(tiles)
    fixed = np.arange(count)[:, None] - count + len(UNTUNED)  # the last ones: 0 and 1
    many = cases["tokens"] > cases["experts"]
    tuned = (tall >= c["rows_least"]) & ((fixed < 0) | ~cases["untuned"].any())
    found: NDArray[np.bool_] = np.where(cases["untuned"], fixed == many, tuned)
    return found


def _both(
    cases: Mapping[str, NDArray[Any]], routed: Routed, chip: Chip, c: Mapping[str, Floats], tiles: NDArray[np.int_]
) -> dict[str, Floats]:
    """Parts of both products together, arrays of tiles × cases. Inside: products × tiles × cases."""
    tall, across, clock = tiles[:, :1].astype(float), tiles[:, 1:].astype(float), chip.clock_hz
    columns = np.stack([cases["gates"] * cases["width"], cases["hidden"]])[:, None, :]
    depth = np.stack([cases["hidden"], cases["width"]])[:, None, :]
    padded, blocks, rows = np.ceil(depth / DEPTH_BLOCK) * DEPTH_BLOCK, _blocks(routed, tall), routed.rows + routed.remote
    count = blocks * np.ceil(columns / across)
    at_once = count / chip.units
    ideal = padded * (2.0 * tall * across / (cases["flop"] * c["matrix_share"]))
    feed = padded * ((tall * cases["item"] + across * cases["weight"]) / c["feed_b_per_sm_clock"])
    start = c["tile_cycles"] * (TILE_START + (1.0 - TILE_START) * tall * across / LARGE_TILE)
    tile = ideal + feed + start
    waves = np.maximum(1.0, at_once + c["tail_waves"] * np.minimum(1.0, at_once))
    useful = 2.0 * rows * columns * depth / (cases["flop"] * c["matrix_share"] * chip.units)
    ragged = c["ragged"] * (1.0 - rows / (blocks * tall)) * waves * tile
    compute = {
        "matrix unit": useful / clock + 0.0 * tile, "tile quantisation": (at_once * ideal - useful + ragged) / clock,
        "operand feed": at_once * feed / clock, "tile latency": at_once * start / clock,
        "wave quantisation": (waves - at_once) * tile / clock,
    }
    weights = routed.touched * columns * depth * cases["weight"] + 0.0 * tile
    in_flight = chip.units * clock * c["flight_b_per_sm_clock"] * np.minimum(at_once, 8.0) * across * cases["weight"] / 64.0
    memory = {"DRAM": weights / (chip.memory_b_s * c["memory_share"]), "bytes in flight": weights / in_flight}
    work = {"waves": waves, "padded": 2.0 * count * tall * across * padded, "weights": weights}
    found = _overlapped(compute, memory, 1.0 + c["overlap"]) | work
    return {name: values.sum(axis=0) for name, values in found.items()}


def _blocks(routed: Routed, tall: Floats) -> Floats:
    """Blocks of `tall` rows over all experts, tiles × cases; an expert with a row has one at least."""
    heights, which = np.unique(tall[:, 0], return_inverse=True)
    some, full = np.minimum(routed.loads, 1.0), np.maximum(routed.loads, 1.0)
    each = np.stack([(some * np.ceil(full / height - 1e-9)).mean(axis=0) for height in heights])
    blocks = np.maximum(each * routed.local, routed.touched) + np.ceil(routed.remote / heights[:, None])
    found: Floats = blocks[which]
    return found


def _overlapped(compute: Mapping[str, Floats], memory: Mapping[str, Floats], power: Floats) -> dict[str, Floats]:
    """Both in (a^p + b^p)^(1/p), shared out as their p-th powers, so that what is hidden counts little."""
    one, other = sum(compute.values()), sum(memory.values())
    ratio = (other / one) ** power
    total = one * (1.0 + ratio) ** (1.0 / power)
    first, second = total / (1.0 + ratio) / one, total * ratio / (1.0 + ratio) / other
    return {name: value * first for name, value in compute.items()} | {name: value * second for name, value in memory.items()}


# ---------------------------------------------------------------- the rest


def _row_bytes(cases: Mapping[str, NDArray[Any]], routed: Routed) -> Floats:
    """Rows written and read between the steps: gate and up, activation, down, and the weighted sum of each token's experts."""
    inner = 4.0 * cases["gates"] * cases["width"] + 2.0 * cases["item"] * cases["width"]
    found: Floats = routed.passed * (inner + (4.0 + cases["item"]) * cases["hidden"]) + 4.0 * cases["tokens"] * cases["hidden"]
    return found


def _demand(
    cases: Mapping[str, NDArray[Any]], routed: Routed, moved: Floats, choice: Mapping[str, NDArray[Any]], chip: Chip
) -> Demand:
    narrow = np.char.startswith(cases["dtype"], "fp8")
    wide = "matrix.bf16" if "matrix.bf16" in chip.flop_per_clock else "matrix.fp16"
    operations = {wide: np.where(narrow, 0.0, choice["padded"]), "matrix.fp8": np.where(narrow, choice["padded"], 0.0)}
    columns = cases["gates"] * cases["width"] + cases["hidden"]
    depths = cases["hidden"] * cases["gates"] * cases["width"] + cases["width"] * cases["hidden"]
    rows = routed.rows + routed.remote
    loaded = choice["weights"] * np.maximum(rows / np.maximum(routed.touched * choice["tile_m"], 1.0), 1.0)
    through = loaded + rows * depths * cases["item"] / choice["tile_n"] + rows * columns * 2.0 + moved
    return Demand(operations, routed.passed * cases["width"], choice["weights"] + np.maximum(moved - chip.l2_bytes, 0.0), through)


def _inside(cases: Mapping[str, NDArray[Any]], chip: Chip) -> NDArray[np.bool_]:
    """Of the fitted domain: server GPUs from A100 to H200, models of 8 to 896 experts, up to 16,384 tokens."""
    shapes = (cases["tokens"] <= 16384) & (cases["hidden"] >= 1024) & (cases["hidden"] <= 8192) & (cases["inter"] <= 16384)
    many = (cases["experts"] >= 8) & (cases["experts"] <= 896) & (cases["topk"] <= 22) & (cases["width"] >= 16)
    near = 100 <= chip.units <= 140 and 1.5e12 <= chip.memory_b_s <= 5e12
    return np.asarray(shapes & many & near, dtype=bool)

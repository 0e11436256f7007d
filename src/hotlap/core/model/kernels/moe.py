"""Mixture of experts: routing, two grouped matrix products (up with its gate, and down), activation, and the way to rows and back.

Routing gives loads of the experts that live on this rank; each expert's rows are cut into tiles, so few rows per expert waste
tiles, and every expert with at least one row streams its weights: from DRAM, or from L2 where what is used between two calls fits into
the part of it that keeps it. A product takes
    (compute^p + memory^p)^(1/p),  compute = waves × cycles of a tile,  memory = weights ÷ min(bandwidth, bytes in flight ÷ latency)
and the tile is a softened choice among candidates where a library tunes, or the one that its public rule takes (`moe_kernels`).

Conventions, checked in the data: `inter` is divided by `tp`, `experts` by `ep`. Balanced: tokens × topk ÷ ep rows reach a rank.
Power law: loads of experts are drawn from x^-α between 1 and 0.8 × tokens, and the rank with the highest load is timed
(aiconfigurator's collectors). Kernels of 8 and 4 bits include the pass that narrows the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hotlap.core.model.kernels import moe_cases, moe_coefficients
from hotlap.core.model.kernels.base import Chip, Demand, Estimate, Floats, stored
from hotlap.core.model.kernels.moe_cases import Routed

PARTS = (
    "matrix unit", "tile quantisation", "operand feed", "tile latency", "wave quantisation", "DRAM", "bytes in flight", "row passes",
    "launch",
)
TILES = ((8, 128), (16, 64), (16, 128), (32, 64), (64, 64), (64, 128), (128, 128), (128, 256))
DEPTH_BLOCK = 64  # the inner dimension is padded to it
TILE_START, LARGE_TILE = 0.3, 128 * 128  # of the cycles before and after a tile: the part that does not grow with its area
TEXTS = ("distribution", "implementation", "family")  # of a case, that are looked up before
CHUNK = 1024  # cases at once: their arrays stay in the processor's cache
CACHE_SHARE = 0.3  # time of a row pass that stays in L2, as a share of DRAM's
CACHE_LATENCY = 0.4  # of L2, as a share of DRAM's (Chips and Cheese, H100: 273 of 660 ns)
FEW_CHOICES = 16  # experts a token, up to which they are chosen without sorting all
ROUTED_AT_ONCE = 32.0  # tokens that are sorted by expert before that takes longer
RAGGED = 0.03  # of a wave that its rows leave empty, the part that costs


def estimate(
    params: Mapping[str, ArrayLike], chip: Chip, implementation: str | ArrayLike = "",
    coefficients: Mapping[str, Mapping[str, float]] | None = None,
) -> Estimate:
    """Expected times of one rank's layer. Cases: `tokens` (of all ranks together), `hidden`, `inter`, `topk`, `experts`, and
    optionally `tp`, `ep`, `distribution` ("balanced", "power_law_1.2"), `dtype`, `gated`. `implementation`: the kernel, as
    "vllm_fused_moe" or "vllm 0.22.0/vllm_fused_moe" (`moe_kernels.find`); none: vLLM's Triton kernel. Raises InputError.
    """
    cases = moe_cases.read(params, implementation, chip.target)
    cases |= {"flop": moe_cases.flop_per_clock(cases["dtype"], chip)}
    c, fitted = moe_coefficients.of_cases(cases, chip, coefficients or stored("moe"))
    remarks = tuple(note for note in moe_cases.codes(cases.pop("noted"))[0] if note)
    cases = {name: values for name, values in cases.items() if name not in TEXTS}
    ruled = cases["rule"] != "tuned"
    places = np.argsort(ruled, kind="stable")  # of one kind in each chunk
    if 0 < ruled.sum() < len(ruled):
        cases, c, fitted = ({k: v[places] for k, v in cases.items()}, {k: v[places] for k, v in c.items()}, fitted[places])
    parts, split = [], int((~ruled).sum())
    for begin, end, fixed in ((0, split, False), (split, len(ruled), True)):
        for start in range(begin, end, CHUNK):
            rows = slice(start, min(start + CHUNK, end))
            few = {k: v[rows] for k, v in cases.items()}
            parts.append(_estimate(few, chip, {k: v[rows] for k, v in c.items()}, fitted[rows], fixed))
    return (parts[0] if len(parts) == 1 else _joined(parts, places))._replace(remarks=remarks)


def _estimate(cases: Mapping[str, NDArray[Any]], chip: Chip, c: Mapping[str, Floats], fitted: NDArray[np.bool_], fixed: bool) -> Estimate:
    routed = moe_cases.route(cases)
    parts, choice = _products(cases, routed, chip, c, fixed)
    moved = _row_bytes(cases, routed)
    spilled = moved / (moved + chip.l2_bytes)
    parts["row passes"] = c["row_passes"] * moved / chip.memory_b_s * (spilled + CACHE_SHARE * (1.0 - spilled))
    some = cases["tokens"] / (cases["tokens"] + ROUTED_AT_ONCE)
    more = np.where(cases["ep"] > 1, cases["map_us"], 0.0) + np.where(cases["topk"] > FEW_CHOICES, cases["sort_us"], 0.0)
    parts["launch"] = 1e-6 * np.maximum(c["launch_us"] + c["routing_us"] * some + more, cases["host_us"])
    parts = {name: value * cases["slower"] for name, value in parts.items()}
    demand = _demand(cases, routed, moved, choice, chip)
    return Estimate(np.sum(list(parts.values()), axis=0), parts, demand, choice, _inside(cases, chip) & fitted)


def _joined(demands: list[Estimate], places: NDArray[np.int_]) -> Estimate:
    """Chunks of cases as one, each case back at its place."""
    back = np.empty_like(places)
    back[places] = np.arange(len(places))

    def join(tables: list[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
        return {name: np.concatenate([table[name] for table in tables])[back] for name in tables[0]}

    demand = Demand(
        join([e.demand.operations for e in demands]),
        *(np.concatenate([e.demand[i] for e in demands])[back] for i in (1, 2, 3)),
    )
    seconds, inside = (np.concatenate([e[i] for e in demands])[back] for i in (0, 4))
    return Estimate(seconds, join([e.parts for e in demands]), demand, join([e.choice for e in demands]), inside)


# ---------------------------------------------------------------- the two products


def _products(
    cases: Mapping[str, NDArray[Any]], routed: Routed, chip: Chip, c: Mapping[str, Floats], fixed: bool
) -> tuple[dict[str, Floats], dict[str, NDArray[Any]]]:
    """Parts of both products by the softened choice of their tile, and that choice."""
    tiles = np.array(TILES if (cases["least"] < TILES[1][0]).any() else TILES[1:])
    tall, across = _ruled(cases, routed) if fixed else (tiles[:, i : i + 1].astype(float) for i in (0, 1))
    each = _both(cases, routed, chip, c, tall, across)
    if fixed:
        mixed = {name: values[0] for name, values in each.items()}
        chosen = {"tile_m": tall[0].astype(int), "tile_n": across[0].astype(int)}
    else:
        seconds = np.sum([each[name] for name in PARTS[:7]], axis=0)
        seconds = np.where(tall >= cases["least"], seconds, np.inf)
        weights = (((seconds.min(axis=0) / seconds) ** 2) ** 2) ** 2  # inverse eighth power: how surely the fastest one runs
        weights /= weights.sum(axis=0)
        mixed = {name: (weights * values).sum(axis=0) for name, values in each.items()}
        best = tiles[np.argmax(weights, axis=0)]
        chosen = {"tile_m": best[:, 0], "tile_n": best[:, 1]}
    return mixed, {**chosen, **{name: mixed.pop(name) for name in ("waves", "padded", "weights", "loaded")}}


def _ruled(cases: Mapping[str, NDArray[Any]], routed: Routed) -> tuple[Floats, Floats]:
    """Height and width of the one tile that the library takes, 1 × cases. Sources: `get_default_config` of vLLM's and SGLang's fused_moe,
    to which both fall back where nobody has tuned their Triton kernel for these experts on this GPU; fused_marlin_moe.py; opt_flags.py of
    OpenAI's triton_kernels."""
    tokens, blocked, sglang = cases["tokens"], cases["dtype"] == "fp8_block", cases["rule"] == "sglang"
    vllm = np.select([tokens <= 32, tokens <= 96, tokens <= 512], [16.0, 32.0, 64.0], 128.0)
    few = routed.here <= routed.local
    tall = np.where(sglang, np.where(few, 16.0, 64.0), vllm)
    across = np.where(sglang, np.where(few, 32.0, 64.0), np.where(tokens <= 64, 64.0, 128.0))
    rows = routed.here * cases["topk"] / routed.local
    marlin = np.select([rows < 7.2, rows < 14.4, rows < 28.8, rows < 43.2], [8.0, 16.0, 32.0, 48.0], 64.0)
    tall = np.where(blocked, np.where((tokens <= 64) & ~sglang, 16.0, 64.0), tall)
    ogs = np.clip(2.0 ** np.ceil(np.log2(cases["tokens"] * cases["topk"] / cases["experts"])), 16.0, 128.0)
    by_marlin, by_ogs = cases["rule"] == "marlin", cases["rule"] == "ogs"
    tall, across = np.select([by_marlin, by_ogs], [marlin, ogs], tall), np.where(blocked | by_marlin | by_ogs, 128.0, across)
    return tall[None, :], across[None, :]


def _both(
    cases: Mapping[str, NDArray[Any]], routed: Routed, chip: Chip, c: Mapping[str, Floats], tall: Floats, across: Floats
) -> dict[str, Floats]:
    """Parts of both products together, arrays of tiles × cases. Inside: products × tiles × cases."""
    clock = chip.clock_hz
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
    ragged = RAGGED * (1.0 - rows / (blocks * tall)) * waves * tile
    compute = {
        "matrix unit": useful / clock + 0.0 * tile, "tile quantisation": (at_once * ideal - useful + ragged) / clock,
        "operand feed": at_once * feed / clock, "tile latency": at_once * start / clock,
        "wave quantisation": (waves - at_once) * tile / clock,
    }
    weights = routed.touched * columns * depth * cases["weight"] + 0.0 * tile
    entries = columns[0] * depth[0] + columns[1] * depth[1]
    away = _away(routed.between * (entries * cases["weight"])[0], chip, c)
    streams = np.minimum(routed.touched * np.ceil(columns / across) / chip.units, 8.0)  # of a unit, each of other weights
    in_flight = chip.units * clock * c["flight_b_per_sm_clock"] * streams * across * cases["weight"] / 64.0
    memory = {
        "DRAM": weights * away / (chip.memory_b_s * c["memory_share"]),
        "bytes in flight": weights / in_flight * (CACHE_LATENCY + (1.0 - CACHE_LATENCY) * away),
    }
    work = {"waves": waves, "padded": 2.0 * count * tall * across * padded, "weights": weights, "loaded": weights * away}
    found = _overlapped(compute, memory, c["overlap"]) | work
    return {name: values.sum(axis=0) for name, values in found.items()}


def _away(between: Floats, chip: Chip, c: Mapping[str, Floats]) -> Floats:
    """Share of the weights that come from DRAM: what is used `between` two uses of one does not fit into the part of L2 that keeps it."""
    share = between / (c["resident"] * chip.l2_bytes)
    ratio = (share * share * share) ** 2  # to the sixth power: weights stop staying in L2 rather suddenly as they outgrow it
    found: Floats = ratio / (1.0 + ratio)
    return found


def _blocks(routed: Routed, tall: Floats) -> Floats:
    """Blocks of `tall` rows over all experts, tiles × cases; an expert with a row has one at least."""
    heights, which = (tall, np.zeros(1, int)) if tall.shape[1] > 1 else np.unique(tall[:, 0], return_inverse=True)
    some, full = np.minimum(routed.loads, 1.0), np.maximum(routed.loads, 1.0)
    each = np.stack([(some * np.ceil(full / height - 1e-9)).mean(axis=0) for height in heights])
    blocks = np.maximum(each * routed.local, routed.touched)[which] + np.ceil(routed.remote / tall)
    found: Floats = blocks
    return found


def _overlapped(compute: Mapping[str, Floats], memory: Mapping[str, Floats], power: Floats) -> dict[str, Floats]:
    """Both in (a^p + b^p)^(1/p), shared out as their p-th powers, so that what is hidden counts little."""
    one, other = sum(compute.values()), sum(memory.values())
    square = bool(np.all(power == 2.0))
    ratio = (other / one) ** 2 if square else (other / one) ** power
    total = one * (np.sqrt(1.0 + ratio) if square else (1.0 + ratio) ** (1.0 / power))
    first, second = total / (1.0 + ratio) / one, total * ratio / (1.0 + ratio) / other
    return {name: value * first for name, value in compute.items()} | {name: value * second for name, value in memory.items()}


# ---------------------------------------------------------------- the rest


def _row_bytes(cases: Mapping[str, NDArray[Any]], routed: Routed) -> Floats:
    """Rows written and read between the steps: gate and up, activation, down, and the weighted sum of each token's experts."""
    activation = np.where(cases["fused"], 0.0, 4.0 * cases["gates"] * cases["width"])
    inner = activation + 2.0 * cases["item"] * cases["width"]
    summed = np.where(cases["sums"], 2.0, 0.0)
    quantised = np.where(cases["item"] < 2.0, 2.0 + cases["item"], 0.0)  # rows come in 16 bits
    once = (2.0 * summed + quantised) * cases["tokens"] * cases["hidden"]
    found: Floats = routed.passed * (inner + (2.0 + summed + cases["item"]) * cases["hidden"]) + once
    return found


def _demand(
    cases: Mapping[str, NDArray[Any]], routed: Routed, moved: Floats, choice: Mapping[str, NDArray[Any]], chip: Chip
) -> Demand:
    wide = "matrix.bf16" if "matrix.bf16" in chip.flop_per_clock else "matrix.fp16"
    dtypes, which = moe_cases.codes(cases["dtype"])
    units = [moe_cases.UNITS.get(one, wide) for one in dtypes]
    have = (wide, "matrix.fp8", *(("matrix.fp4",) if "matrix.fp4" in chip.flop_per_clock else ()))
    operations = {unit: np.where(np.array([one == unit for one in units])[which], choice["padded"], 0.0) for unit in have}
    columns = cases["gates"] * cases["width"] + cases["hidden"]
    depths = cases["hidden"] * cases["gates"] * cases["width"] + cases["width"] * cases["hidden"]
    rows = routed.rows + routed.remote
    loaded = choice["weights"] * np.maximum(rows / np.maximum(routed.touched * choice["tile_m"], 1.0), 1.0)
    through = loaded + rows * depths * cases["item"] / choice["tile_n"] + rows * columns * 2.0 + moved
    return Demand(operations, routed.passed * cases["width"], choice["loaded"] + np.maximum(moved - chip.l2_bytes, 0.0), through)


def _inside(cases: Mapping[str, NDArray[Any]], chip: Chip) -> NDArray[np.bool_]:
    """Of the fitted domain: server GPUs from A100 to B200, models of 8 to 896 experts, up to 16,384 tokens."""
    shapes = (cases["tokens"] <= 16384) & (cases["hidden"] >= 1024) & (cases["hidden"] <= 8192) & (cases["inter"] <= 16384)
    many = (cases["experts"] >= 8) & (cases["experts"] <= 896) & (cases["topk"] <= 22) & (cases["width"] >= 16)
    near = 100 <= chip.units <= 200 and 8e11 <= chip.memory_b_s <= 8.2e12
    return np.asarray(shapes & many & near, dtype=bool)

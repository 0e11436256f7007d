"""Published cases with measured power: what each asks of the machine, counted from its shape, and in which order it was measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.model.kernels.base import Demand, Floats
from research.fit.data import FOLDERS, dealt
from research.fit.power_readings import Timeline, timeline

POWER_FROM_S = 0.34e-3  # shorter cases are repeated for less than a second (data/README.md)
GEMM_TILE = (128, 256)  # output tile that L2 traffic is counted with
ROWS_TILE = 128  # of queries in attention, of tokens and columns in a mixture of experts
# Rows of A at which DeepGEMM changes its kernel, so that the machine waits for the compiler before: there the median of the fitted rows
# falls from the cap to below 460 W, and comes back at the next size.
COMPILED_AT = {
    "NVIDIA H200": (32768, 1025, 256, 128, 64, 32, 17, 16, 3, 1),
    "NVIDIA B200": (32768, 4352, 2560, 2304, 2048, 256, *(m for m in range(193) if m % 16 == 0 or m < 16)),
}
WORKERS = 8
COMPILE_S = 4.0  # at least the window of a reading
ITEMS = {  # unit that multiplies, bytes of one number with its scales
    "bfloat16": ("matrix.bf16", 2.0), "fp8": ("matrix.fp8", 1.0), "fp8_block": ("matrix.fp8", 1.0), "nvfp4": ("matrix.fp4", 0.5625),
    "int4_wo": ("matrix.bf16", 0.53), "w4a16_mxfp4": ("matrix.bf16", 0.53),
}  # fmt: skip
UNITS = ("matrix.bf16", "matrix.fp8", "matrix.fp4")
Columns = dict[str, NDArray[Any]]


class Series(NamedTuple):
    """Cases in the order in which one machine measured them. `previous` is the index of the case before, itself where not known."""

    family: str
    demand: Demand
    seconds: Floats
    power_w: Floats
    fold: NDArray[np.int64]
    previous: NDArray[np.intp]
    group: NDArray[np.intp]  # with waits of its own: an index into GAPS
    calls: Floats
    warm_ups: Floats
    cold: NDArray[np.bool_]  # after a wait longer than a reading's window
    full_clock_s: Floats  # time at the highest clock, where it was measured: NaN elsewhere
    shape: Floats  # cases × numbers that describe them, for a table of neighbours
    kind: NDArray[np.str_]  # neighbours are of the same kind
    source: NDArray[np.str_]  # library, version and kernel

    @property
    def held(self) -> NDArray[np.bool_]:
        return np.asarray(self.fold == 0)

    def at(self, places: NDArray[np.intp]) -> Series:
        """Some of the cases; `previous` still counts in all."""
        demand = Demand({unit: count[places] for unit, count in self.demand.operations.items()}, *(d[places] for d in self.demand[1:]))
        columns: Any = [column[places] for column in self[2:]]
        return Series(self.family, demand, *columns)

    def when(self, gaps: Floats) -> Timeline:
        gap = np.where(self.cold, COMPILE_S, gaps[self.group])
        return timeline(self.seconds, self.calls, self.warm_ups, gap)


SIZES = {
    "gemm": ("m", "n", "k"),
    "prefill": ("batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim"),
    "decode": ("batch_size", "step", "num_heads", "num_key_value_heads", "head_dim"),
    "moe": ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size"),
}
KINDS = {
    "gemm": ("gemm_dtype",),
    "prefill": ("kv_cache_dtype", "window_size"),
    "decode": ("kv_cache_dtype", "window_size"),
    "moe": ("moe_dtype", "distribution"),
}
GAPS = ("gemm bf16", "gemm fp8", "moe", "moe power law", "prefill", "decode")


def _read(gpu: str, root: Path, pattern: str) -> Columns:
    """Columns of the first file that matches and carries power; none where there is no such file."""
    import pyarrow.parquet as parquet

    for file in sorted((root / FOLDERS[gpu]).glob(pattern)):
        table = parquet.read_table(file)
        if "power" in table.column_names:
            return {name: np.array(table[name].to_pylist()) for name in table.column_names}
    return {}


def _sources(case: Columns) -> NDArray[np.str_]:
    """Library, version and kernel, as "vllm 0.22.0/vllm_fused_moe"."""
    columns = zip(*(case[name].tolist() for name in ("framework", "version", "kernel_source")), strict=True)
    return np.array([f"{framework.lower()} {version}/{kernel}" for framework, version, kernel in columns])


def _series(family: str, case: Columns, demand: Demand, keys: list[str], **more: Any) -> Series:
    count = len(case["latency"])
    given = {
        "previous": np.arange(count),
        "group": np.full(count, GAPS.index(family) if family in GAPS else 0),
        "calls": np.ones(count),
        "warm_ups": np.full(count, 7.0),
        "cold": np.zeros(count, bool),
        "full_clock_s": np.full(count, np.nan),
        "shape": np.stack([case[name].astype(float) for name in SIZES[family]], axis=1),
        "kind": np.array(["/".join(map(str, one)) for one in zip(*(case[name].tolist() for name in KINDS[family]), strict=True)]),
        "source": _sources(case),
        **more,
    }
    demand = demand._replace(l2_bytes=np.maximum(demand.l2_bytes, demand.dram_bytes))  # all that comes from memory passes L2
    return Series(family, demand, case["latency"] * 1e-3, np.where(case["power"] > 0, case["power"], np.nan), dealt(keys), **given)


def _operations(dtypes: NDArray[Any], count: Floats) -> tuple[dict[str, Floats], Floats]:
    """Operations by the unit that a type of numbers uses, and bytes of one number."""
    units, items = (np.array([ITEMS[one][n] for one in dtypes.tolist()]) for n in range(2))
    return {unit: np.where(units == unit, count, 0.0) for unit in UNITS}, items.astype(float)


def gemm(case: Columns) -> Series:
    """Matrix products: the file is in the order of measuring. Six copies of B in bf16, one in others (collector/vllm/collect_gemm.py)."""
    m, n, k = (case[name].astype(float) for name in "mnk")
    operations, item = _operations(case["gemm_dtype"], 2 * m * n * k)
    plain, compiled = case["gemm_dtype"] == "bfloat16", case["gemm_dtype"] == "fp8_block"
    quantised = np.where(plain, 0.0, (2 + item) * m * k)
    l2 = m * n * k * sum(1 / tile for tile in GEMM_TILE) * item
    demand = Demand(operations, np.zeros(len(m)), (m * k + n * k) * item + 2 * m * n + quantised, l2)
    previous = np.maximum(np.arange(len(m)) - 1, 0)
    keys = [f"{a},{b}" for a, b in zip(case["n"].tolist(), case["k"].tolist(), strict=True)]
    return _series(
        "gemm", case, demand, keys, previous=previous, group=np.where(plain, 0, 1), calls=np.where(plain, 6.0, 1.0),
        cold=compiled & np.isin(case["m"], COMPILED_AT.get(str(case["device"][0]), ())),
    )  # fmt: skip


def _pairs(queries: Floats, window: Floats) -> Floats:
    """Query-key pairs of a causal prefill, of which a window keeps the last `window` keys."""
    full = queries * (queries + 1) / 2
    return np.where((window > 0) & (window < queries), queries * window - window * (window - 1) / 2, full)


def _attention_keys(case: Columns) -> list[str]:
    columns = (case[name].tolist() for name in ("num_heads", "num_key_value_heads", "head_dim"))
    return [",".join(map(str, one)) for one in zip(*columns, strict=True)]


def _begun(case: Columns) -> NDArray[np.bool_]:
    """The first case of each worker at a new shape: it waits while the worker makes its tensors, so its reading averages idle time."""
    names = ("num_heads", "num_key_value_heads", "head_dim", "window_size")
    shapes, count = list(zip(*(case[name].tolist() for name in names), strict=True)), dict[tuple[Any, ...], int]()
    found = np.zeros(len(shapes), bool)
    for i, shape in enumerate(shapes):
        found[i] = count.setdefault(shape, 0) < WORKERS
        count[shape] += 1
    return found


def _attention(family: str, case: Columns, pairs: Floats, stored: Floats, l2: Floats, written: Floats) -> Series:
    """`pairs`: of a query and a key, over all heads; `stored`: numbers of the cache that are read; `written`: bytes of queries, results."""
    fp8 = (case["kv_cache_dtype"] == "fp8") & (case["kernel_source"] != "vllm_triton_attn")  # there queries become fp8 too
    operations, _ = _operations(np.where(fp8, "fp8", "bfloat16"), 4 * case["head_dim"].astype(float) * pairs)
    item = np.where(case["kv_cache_dtype"] == "fp8", 1.0, 2.0)
    demand = Demand(operations, pairs, stored * item + written, l2 * np.where(fp8, 1.0, 2.0))
    before = np.maximum(np.arange(len(pairs)) - WORKERS, 0)
    return _series(family, case, demand, _attention_keys(case), previous=before, cold=_begun(case))


def prefill(case: Columns) -> Series:
    """Prefill attention. Eight workers took turns: of lags 0 to 16, the eighth case before tells most of a training row's reading."""
    batch, queries, heads, kv, dim = _shape(case, "isl")
    pairs = batch * heads * _pairs(queries, case["window_size"])
    tokens = batch * queries * dim
    return _attention("prefill", case, pairs, 2 * tokens * kv, pairs / ROWS_TILE * 2 * dim, 4 * tokens * heads)


def decode(case: Columns) -> Series:
    """Decode attention: one query against `step` + 1 keys, or the window."""
    batch, step, heads, kv, dim = _shape(case, "step")
    window, keys = case["window_size"], step + 1
    keys = np.where((window > 0) & (window < keys), window, keys)
    read = 2 * batch * keys * kv * dim
    return _attention("decode", case, batch * heads * keys, read, read, 4 * batch * heads * dim)


def _shape(case: Columns, length: str) -> tuple[Floats, ...]:
    return tuple(case[name].astype(float) for name in ("batch_size", length, "num_heads", "num_key_value_heads", "head_dim"))


def moe(case: Columns) -> Series:
    """Mixtures of experts: one machine measures a shape's token counts in rising order, five draws of a power law to a repeat."""
    names = ("moe_dtype", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "distribution")
    texts = ["x".join(map(str, one)) for one in zip(*(case[name].tolist() for name in names), strict=True)]
    order = np.lexsort((np.array(case["num_tokens"]), np.array(texts)))
    case = {name: column[order] for name, column in case.items()}
    texts = [texts[i] for i in order]
    tokens, hidden, inter, topk, experts, tp, ep = (case[name].astype(float) for name in ("num_tokens", *names[1:7]))
    local, rows = experts / ep, tokens * topk / ep
    weights = 3 * hidden * inter / tp
    touched = local * -np.expm1(rows * np.log1p(-1 / np.maximum(local, 1.0000001)))
    tile = np.where(tokens <= experts, 16.0, 64.0)  # rows of a Triton block by default; an expert's rows fill whole blocks
    flop = 2 * weights * touched * tile * np.ceil(np.round(rows / np.maximum(touched, 1e-9) / tile, 9))
    operations, item = _operations(case["moe_dtype"], flop)
    demand = Demand(
        operations, rows * inter / tp, touched * weights * item + 4 * tokens * hidden, flop / 2 * (1 / tile + 1 / ROWS_TILE) * item
    )
    count, drawn = len(texts), case["distribution"] != "balanced"
    first = np.array([i == 0 or texts[i] != texts[i - 1] for i in range(count)])
    keys = [",".join(map(str, one)) for one in zip(*(case[n].tolist() for n in (*names[1:3], "num_experts", "topk")), strict=True)]
    return _series(
        "moe",
        case,
        demand,
        keys,
        previous=np.where(first, np.arange(count), np.arange(count) - 1),
        group=np.where(drawn, 3, 2),
        calls=np.where(drawn, 5.0, 1.0),
        warm_ups=np.where(drawn, 2.0, 7.0),
        cold=first,
    )


SOURCES: dict[str, tuple[str, Callable[[Columns], Series]]] = {
    "gemm": ("gemm/*/*/gemm_perf.parquet", gemm),
    "prefill": ("attention/*/*/context_attention_perf.parquet", prefill),
    "decode": ("attention/*/*/generation_attention_perf.parquet", decode),
    "moe": ("moe/*/*/moe_perf.parquet", moe),
}


def rows(gpu: str, root: Path, burst: str = "") -> list[Series]:
    """All cases with power on a GPU, a series per family; empty where the files carry no power.

    `burst`: a GPU with the same units and clocks whose matrix products were timed in bursts too short for its power cap.
    """
    read = {family: _read(gpu, root, pattern) for family, (pattern, _) in SOURCES.items()}
    series = [make(read[family]) for family, (_, make) in SOURCES.items() if read[family]]
    if burst and read["gemm"]:
        series[0] = series[0]._replace(full_clock_s=_elsewhere(burst, root, read["gemm"]))
    return series


def _elsewhere(gpu: str, root: Path, asked: Columns) -> Floats:
    """Times of the same matrix products by the same library on another GPU."""
    import pyarrow.parquet as parquet

    names = ("m", "n", "k", "gemm_dtype")
    table = parquet.read_table(min((root / FOLDERS[gpu]).glob("gemm/vllm/*/gemm_perf.parquet")))
    shapes = zip(*(table[name].to_pylist() for name in names), strict=True)
    times = dict(zip(shapes, table["latency"].to_pylist(), strict=True))
    wanted = zip(*(asked[name].tolist() for name in names), strict=True)
    return np.array([times.get(one, np.nan) for one in wanted]) * 1e-3

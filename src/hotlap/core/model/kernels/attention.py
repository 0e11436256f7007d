"""What prefill and decode attention share: cases, rates of the units, overlap, waves, splits, what an estimate needs of a kernel.

Symbols: B batch, Q new tokens, K keys, H heads, G key-value heads, D head dimension, V value dimension.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hotlap.core.errors import InputError, nearest
from hotlap.core.model.kernels.base import Chip, Floats
from hotlap.core.model.kernels.numeric import Arrays, Plain

ELEMENT_BYTES = {"bf16": 2.0, "bfloat16": 2.0, "fp16": 2.0, "float16": 2.0, "fp8": 1.0, "float8_e4m3fn": 1.0}
SIZES = ("batch", "query", "kv", "heads", "kv_heads", "head_dim", "window", "causal", "value_dim", "latent", "cache_write")
USUAL_HZ = 1.98e9  # of H100 and H200, from which most measured rows are
WIDTHS = (64, 128, 192, 256)  # head dimensions up to which libraries compile kernels
FROM_ZERO = ("window", "causal", "latent", "cache_write")
LARGEST = 2.0**40
THREADS_OF_SM, COPY_THREADS = 2048, 512  # vLLM `reshape_and_cache_flash_kernel`: one block a token, G·D threads up to 512
SMALL_KERNEL_S = 2e-6  # a kernel with next to no work inside a CUDA graph, start to start; an assumption, nothing fitted
# per clock and SM, by the rate of 16-bit asynchronous products: assumptions, nothing fitted
WARP_LEVEL_FLOP: Mapping[float, float] = {4096.0: 0.63 * 4096, 8192.0: 2048.0}
SOFTMAX_OPERATIONS = 4.0  # fp32 instructions per score beside the exponential: scale, maximum, sum, conversion (FlashAttention-3, 3.2)


@dataclass(frozen=True)
class Cases:
    """Attention calls as arrays of one length, or a single one as plain numbers (`of` says which). Sizes in elements; `q_bytes` and
    `kv_bytes` of one element."""

    batch: Floats
    query: Floats
    kv: Floats
    heads: Floats
    kv_heads: Floats
    head_dim: Floats
    value_dim: Floats
    latent: Floats  # 0, or the width of the one row per token that all heads share (MLA)
    window: Floats  # keys that a position sees at most; all where there is no window
    causal: NDArray[np.bool_]
    windowed: NDArray[np.bool_]  # the window hides something
    limited: NDArray[np.bool_]  # there is one, whether it hides something or not
    writes: Floats  # 1 where the call writes the new keys and values to the cache
    q_bytes: Floats
    kv_bytes: Floats
    of: Any = Arrays  # the functions that formulas take: of arrays, or of plain numbers

    def where(self, mask: NDArray[np.bool_]) -> Cases:
        return Cases(**{f.name: getattr(self, f.name)[mask] for f in fields(self) if f.name != "of"})

    @property
    def count(self) -> int:
        return 1 if self.of is Plain else len(self.batch)

    @property
    def group(self) -> Floats:
        """Query heads that share one key-value head."""
        return self.heads / self.kv_heads

    @property
    def width(self) -> Floats:
        """Multiply-adds of one query row against one key: D for the scores, V for the output."""
        return self.head_dim + self.value_dim

    @property
    def row_elements(self) -> Floats:
        """Elements kept per token and key-value head."""
        return self.of.where(self.latent > 0, self.latent, self.width)  # type: ignore[no-any-return]

    @property
    def low(self) -> Floats:
        """1 where the products may run on 8-bit operands: queries or a cache of that type."""
        return self.of.real((self.q_bytes < 2) | (self.kv_bytes < 2))  # type: ignore[no-any-return]

    def products_low(self, by: str) -> Floats:
        """1 where a kernel multiplies 8-bit operands: by an 8-bit "cache" (it turns queries to 8 bits, too), by 8-bit queries ("query": a
        cache of 8 bits is turned to 16 before the product), or "never"."""
        return self.low if by == "cache" else self.of.real((self.q_bytes < 2) & (by == "query"))


def read(params: Mapping[str, ArrayLike], phase: str) -> Cases:
    """Cases of checked parameters. Decode: `query` 1, no causal mask needed. Raises InputError."""
    unknown = set(params) - {*SIZES, "dtype", "kv_dtype"}
    if unknown:
        raise InputError(f"attention has no parameter '{min(unknown)}'; {nearest(min(unknown), [*SIZES, 'dtype', 'kv_dtype'])}")
    given = {"query": 1, "window": 0, "causal": phase == "prefill", "latent": 0, "cache_write": 1, "dtype": "bf16", **params}
    for name, other in (("kv", "query"), ("kv_heads", "heads"), ("value_dim", "head_dim"), ("kv_dtype", "dtype")):
        given.setdefault(name, given.get(other, 0))
    missing = [name for name in SIZES if name not in given]
    if missing:
        raise InputError(f"attention needs '{missing[0]}'")
    single = {name: value.item() if isinstance(value, np.ndarray) and value.shape in ((), (1,)) else value for name, value in given.items()}
    if all(isinstance(value, (int, float, str, np.generic)) for value in single.values()):
        return _plain(single)
    try:
        arrays = np.broadcast_arrays(*(np.atleast_1d(np.asarray(given[name])) for name in (*SIZES, "dtype", "kv_dtype")))
    except ValueError:
        raise InputError("parameters are arrays of one length, or single values", about="attention: ") from None
    if arrays[0].ndim > 1 or not arrays[0].size:
        raise InputError("parameters are arrays of one dimension with at least one case", about="attention: ")
    size = {name: _sizes(name, array) for name, array in zip(SIZES, arrays, strict=False)}
    _check(size, Arrays)
    return _cases(size, _bytes(arrays[-2]), _bytes(arrays[-1]), Arrays)


def _plain(given: Mapping[str, Any]) -> Cases:
    """A single case."""
    size = {}
    for name in SIZES:
        try:
            size[name] = float(given[name])
        except (TypeError, ValueError):
            raise InputError(f"'{name}' is a number", about="attention: ") from None
        least = 0.0 if name in FROM_ZERO else 1.0
        if not (least <= size[name] <= LARGEST and size[name] == math.floor(size[name])):
            raise _not_a_size(name, least, size[name])
    _check(size, Plain)
    return _cases(size, _element(str(given["dtype"])), _element(str(given["kv_dtype"])), Plain)


def _cases(size: Mapping[str, Any], q_bytes: Any, kv_bytes: Any, of: Any) -> Cases:
    kv, limited = size["kv"], size["window"] > 0
    window = of.where(limited, of.minimum(size["window"], kv), kv)
    return Cases(
        **{name: size[name] for name in ("batch", "query", "kv", "heads", "kv_heads", "head_dim", "value_dim", "latent")},
        window=window, causal=size["causal"] > 0, windowed=window < kv, limited=limited, writes=of.minimum(size["cache_write"], 1.0),
        q_bytes=q_bytes, kv_bytes=kv_bytes, of=of,
    )  # fmt: skip


def _sizes(name: str, array: NDArray[Any]) -> Floats:
    try:
        values = array.astype(float)
    except (TypeError, ValueError):
        raise InputError(f"'{name}' is a number", about="attention: ") from None
    least = 0.0 if name in FROM_ZERO else 1.0
    bad = ~((values >= least) & (values <= LARGEST) & (values == np.floor(values)))
    if bad.any():
        raise _not_a_size(name, least, values[bad][0])
    return values


def _not_a_size(name: str, least: float, value: float) -> InputError:
    return InputError(f"'{name}' is a whole number from {least:g} to 2^40, not {value:g}", about="attention: ")


def _check(size: Mapping[str, Any], of: Any) -> None:
    if of.some(size["heads"] % size["kv_heads"] != 0):
        raise InputError("'heads' is a multiple of 'kv_heads'", about="attention: ")
    if of.some((size["kv"] < size["query"]) & (size["causal"] > 0)):
        raise InputError("a causal call has at least as many keys ('kv') as new tokens ('query')", about="attention: ")


def _bytes(names: NDArray[Any]) -> Floats:
    different, which = np.unique(names, return_inverse=True)
    return np.array([_element(str(name)) for name in different])[which]


def _element(name: str) -> float:
    if name not in ELEMENT_BYTES:
        raise InputError(f"attention has no dtype '{name}'; {nearest(name, list(ELEMENT_BYTES))}")
    return ELEMENT_BYTES[name]


# ---------------------------------------------------------------- the machine


def matrix_rate(chip: Chip, low: Floats, warp_level: bool = False) -> Floats:
    """FLOP per clock and unit: 8-bit products where the machine has them, otherwise 16-bit ones after conversion. `warp_level`:
    of kernels written for Ampere, which do not reach the rate of later machines' asynchronous instructions."""
    rates = chip.flop_per_clock
    wide = next((rates[u] for u in ("matrix.bf16", "matrix.fp16", "fma.fp16", "fma.fp32") if rates.get(u)), None)
    if wide is None:
        raise InputError("the machine table has no rate of 16-bit products for this machine", about="attention: ")
    narrow = rates.get("matrix.fp8", wide)
    if warp_level and wide in WARP_LEVEL_FLOP:
        wide, narrow = WARP_LEVEL_FLOP[wide], min(narrow, 2 * WARP_LEVEL_FLOP[wide])
    return np.where(low > 0, narrow, wide) if isinstance(low, np.ndarray) else narrow if low > 0 else wide


def softmax_clocks(chip: Chip) -> float:
    """Clocks of one unit per score: an exponential, and the other instructions on the fp32 lanes."""
    lanes = chip.flop_per_clock.get("fma.fp32", 128.0) / 2
    return 1 / chip.special_per_clock + SOFTMAX_OPERATIONS / lanes


def parted(chip: Chip) -> bool:
    """Whether L2 is in two partitions, which hold the other one's data again: accelerators since Ampere (NVIDIA A100 white paper, "L2
    cache"). That of Ada and of GB202 is one, and large."""
    return (chip.original or chip).target.startswith(("sm_80", "sm_90", "sm_10"))


def latency_hz(chip: Chip, k: Mapping[str, float]) -> float:
    """Clocks per second of what is counted in clocks and in part waits for memory, front end and host, which have clocks of their own."""
    return float(chip.clock_hz ** (1 - k["latency_fixed"]) * USUAL_HZ ** k["latency_fixed"])


def kept(chip: Chip, k: Mapping[str, float]) -> float:
    """Bytes that L2 keeps from call to call."""
    return (k["cache_share"] if parted(chip) else k["cache_share_whole"]) * chip.l2_bytes


def l2_rate(chip: Chip, k: Mapping[str, float]) -> float:
    """Bytes per clock of one unit from L2."""
    return (k["l2_bytes_per_clock"] if parted(chip) else k["l2_whole_bytes_per_clock"]) * chip.l2_factor


def token_blocks(c: Cases, chip: Chip) -> Floats:
    """Rounds of the cache-writing kernel over the threads of all units."""
    return c.batch * c.query * c.of.minimum(c.kv_heads * c.head_dim, COPY_THREADS) / THREADS_OF_SM / chip.units  # type: ignore[no-any-return]


def launched(seconds: float, c: Cases) -> Floats:
    """The time of a call's launches, which is fitted with the cache-writing kernel among them."""
    return seconds - (1 - c.writes) * min(SMALL_KERNEL_S, seconds / 2)


# ---------------------------------------------------------------- arithmetic of the model


def norm(a: Floats, b: Floats, p: float) -> Floats:
    """(aᵖ + bᵖ)^(1/p): 1 where nothing overlaps, ∞ where the longer hides the shorter."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        larger = np.maximum(np.maximum(a, b), 1e-30)
        return np.asarray(larger * ((a / larger) ** p + (b / larger) ** p) ** (1 / p))
    most = max(a, b, 1e-30)
    return most * ((a / most) ** p + (b / most) ** p) ** (1 / p)


def waves(tasks: Floats, rounding: float, of: Any) -> Floats:
    """Rounds over the units: `rounding` 1 for whole ones, 0 where several tasks of a unit share its pipes."""
    return tasks + rounding * (of.ceil(tasks) - tasks)  # type: ignore[no-any-return]


def splits_by_efficiency(tasks: Floats, slots: float, blocks: Floats, most: int) -> Floats:
    """The fewest parts that fill the last wave to within 85 % of the best (flash-attention, `num_splits_heuristic`)."""
    if not isinstance(tasks, np.ndarray):
        return _splits_of_a_case(float(tasks), slots, float(blocks), most)
    splits = np.ones_like(tasks)
    few = np.flatnonzero((tasks < 0.8 * slots) & (blocks > 1))
    if len(few):
        parts = np.arange(1.0, most + 1)[None, :]
        rounds = tasks[few, None] * parts / slots
        filled = np.where(parts <= blocks[few, None], rounds / np.ceil(rounds), 0.0)
        splits[few] = (filled >= 0.85 * filled.max(axis=1, keepdims=True)).argmax(axis=1) + 1.0
    return splits


def _splits_of_a_case(tasks: float, slots: float, blocks: float, most: int) -> float:
    if tasks >= 0.8 * slots or blocks <= 1:
        return 1.0
    rounds = [tasks * parts / slots for parts in range(1, min(most, int(blocks)) + 1)]
    filled = [round_ / math.ceil(round_) for round_ in rounds]
    enough = 0.85 * max(filled)
    return 1.0 + next(n for n, share_ in enumerate(filled) if share_ >= enough)


def seen(c: Cases) -> Floats:
    """Keys that a query position sees on average, exact: mean over t = K−Q+1 … K of min(window, t); all of them without a mask."""
    first, last, w = c.kv - c.query + 1, c.kv, c.window
    below = c.of.maximum(c.of.minimum(w, last) - first + 1, 0)
    total = below * (first + c.of.minimum(w, last)) / 2 + (c.query - below) * w
    return c.of.where(c.causal, total / c.query, w)  # type: ignore[no-any-return]


def triangle(c: Cases) -> Floats:
    """The same without a window."""
    return c.of.where(c.causal, c.kv - (c.query - 1) / 2, c.kv)  # type: ignore[no-any-return]


def share(a: Floats, b: Floats, p: float) -> Floats:
    """Of `norm`, what a accounts for."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        larger = np.maximum(np.maximum(a, b), 1e-30)
        return np.asarray((a / larger) ** p / ((a / larger) ** p + (b / larger) ** p))
    most = max(a, b, 1e-30)
    return (a / most) ** p / ((a / most) ** p + (b / most) ** p)


def missed(bytes_: Floats, held: float, edge: float, of: Any) -> Floats:
    """Share of what is read over and over that a cache of `held` bytes does not keep: all or nothing, at an edge."""
    return 1 / (1 + of.minimum(held / bytes_, 1e9) ** edge)  # type: ignore[no-any-return]


class AttentionPlan(NamedTuple):
    """What a kernel does for each case, in seconds by name and in what it asks of the machine."""

    parts: Mapping[str, Floats]  # add up to the time of the call
    choice: Mapping[str, Floats]  # tile_rows, tile_keys, tasks, splits, waves
    flop: Floats  # with padding
    special: Floats
    dram_bytes: Floats
    l2_bytes: Floats

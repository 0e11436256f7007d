"""Operations and bytes of attention in one kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.core.record import Value
from hotlap.core.work.base import STORED, Param, Work, Workload, bounded, count, element_type, from_zero, integer, plain, text, unit_of
from hotlap.core.work.variety import Variety, VarietyColumns, VarietyForm, first


def visible_pairs(query: Any, kv: Any, causal: bool, window: Any) -> Any:
    """Pairs of a query and a key that it sees: the last query sees the last key; a window counts the query itself, 0 is none."""
    most = np.where(np.asarray(window) > 0, np.minimum(window, kv), kv)
    if not causal:
        return plain(query * most)
    first = kv - query + 1  # keys that the first query sees, were there no window
    short = np.clip(most - first, 0, query)  # queries that see fewer than the most
    return plain(short * (2 * first + short - 1) / 2 + (query - short) * most)


def _attention(params: Mapping[str, Value]) -> Work:
    """2·(head_dim + value_dim) operations per pair and head (Q·K and P·V); Q, K, V read and O written once. A latent is read once for
    keys and values."""
    batch, query, heads, kv_heads, width = (count(params, name) for name in ("batch", "query", "heads", "kv_heads", "head_dim"))
    kv, window = plain(np.where(count(params, "kv") > 0, count(params, "kv"), query)), count(params, "window")
    values, row = attention_widths(params)
    pairs = visible_pairs(query, kv, text(params, "mask") == "causal", window)
    own, cached = STORED[text(params, "dtype")], STORED[text(params, "kv_dtype")]
    keys = plain(np.where(window > 0, np.minimum(kv, window + query - 1), kv))
    kept = keys * kv_heads * row * cached
    if params["op"] == "backward":
        # Scores again, then gradients of scores, values, queries and keys: Dao, FlashAttention-2, arXiv 2307.08691, section 3.1.
        rows, sides = query * heads, query * heads * (width + 2 * values) * own
        return Work(
            read_bytes=batch * (sides + kept + 4.0 * rows), written_bytes=batch * (query * heads * width * own + kept),
            operations={unit_of(text(params, "dtype")): 2.0 * batch * heads * (3 * width + 2 * values) * pairs},
            working_set_bytes=batch * (sides + kept),
        )  # fmt: skip
    return Work(
        read_bytes=batch * (query * heads * width * own + kept),
        written_bytes=batch * query * heads * values * max(own, 2.0),  # of 8 bits the result has 16
        operations={unit_of(text(params, "dtype")): 2.0 * batch * heads * (width + values) * pairs},
        # libraries turn queries to the type of an 8-bit cache and multiply that: TensorRT-LLM's fp8 kernels, vLLM's FlashAttention 3
        quicker={unit_of(text(params, "dtype")): unit_of(text(params, "kv_dtype"))} if cached < own else {},
        working_set_bytes=batch * (query * heads * (width + values) * own + kept),
    )


def attention_widths(params: Mapping[str, Any]) -> tuple[Any, Any]:
    """Elements of a head's value, and those kept for each token and key-value head. Cases recorded before there were a value width and
    a latent have neither."""
    given = {"value_dim": 0, "latent": 0, **params}
    width, value, latent = (count(given, name) for name in ("head_dim", "value_dim", "latent"))
    values = plain(np.where(value > 0, value, width))
    return values, plain(np.where(latent > 0, latent, width + values))


def _attention_fault(params: Mapping[str, Value]) -> tuple[str, str] | None:
    heads, kv_heads, query, kv = (integer(params, name) for name in ("heads", "kv_heads", "query", "kv"))
    if heads % kv_heads:
        return "kv_heads", f"{heads} heads cannot share {kv_heads} key-value heads: a divisor of {heads} is needed"
    if kv and kv < query and text(params, "mask") == "causal":
        return "kv", f"{query} queries need at least as many keys under a causal mask, not {kv}"
    latent, widest = integer(params, "latent"), max(integer(params, "head_dim"), integer(params, "value_dim"))
    if latent and kv_heads != 1:
        return "latent", f"all heads share the one latent of a token: kv_heads is 1 there, not {kv_heads}"
    if latent and latent < widest:
        return "latent", f"a latent of {latent} cannot hold keys and values of {widest}: at least {widest} is needed"
    return None


def _phase(c: VarietyColumns) -> NDArray[np.int_]:
    return first(c["query"] <= 1, (c["kv"] == 0) | (c["kv"] == c["query"]))


def _sharing(c: VarietyColumns) -> NDArray[np.int_]:
    return first(c["latent"] > 0, c["kv_heads"] == c["heads"], c["kv_heads"] == 1)


def _fitted(params: dict[str, Any], levels: Mapping[str, str], _step: int) -> Iterator[dict[str, Any]]:
    keys = params["kv"]
    query = {"decode": 1, "prefill": keys, "append": max(keys // 2, 2)}[levels["phase"]]
    wide = {"head_dim": 576} if levels["heads"] == "latent" else {}
    yield {**params, "query": query, "kv": 0 if levels["phase"] == "prefill" else keys, **wide}


_HEADS = {
    "latent": {"heads": 4, "kv_heads": 1, "head_dim": 576, "value_dim": 512, "latent": 576},
    "own": {"heads": 8, "kv_heads": 8}, "one": {"heads": 8, "kv_heads": 1}, "grouped": {"heads": 16, "kv_heads": 4},
}
_WIDTHS = {"64": {"head_dim": 64}, "128": {"head_dim": 128}, "other": {"head_dim": 96}}
_VARIETY = Variety(
    edges=("kv",), grown=("batch",), values={"kv": lambda c: np.where(c["kv"] > 0, c["kv"], c["query"])},
    forms=(
        VarietyForm("phase", {"decode": {"query": 1}, "prefill": {"kv": 0}, "append": {}}, _phase),
        VarietyForm("heads", _HEADS, _sharing),
        VarietyForm("width", _WIDTHS, lambda c: first(c["head_dim"] == 64, c["head_dim"] == 128)),
        VarietyForm("window", {"none": {"window": 0}, "some": {"window": 48}}, lambda c: first(c["window"] == 0)),
        VarietyForm("pages", {"none": {"page": 0}, "some": {"page": 16}}, lambda c: first(c["page"] == 0)),
    ),
    rules=({"heads": ("latent",), "width": ("64", "128")},), base={"kv": 0, "window": 0}, fitted=_fitted, directed={"query": 1},
)  # fmt: skip

ATTENTION = Workload(
    "attention",
    "softmax(Q·Kᵀ)·V in one kernel: prefill with many queries, decode with one",
    (
        bounded("batch", "sequences", 1),
        bounded("query", "queries of each sequence: 1 is decode", 4096),
        from_zero("kv", "keys of each sequence (0: as many as queries)"),
        bounded("heads", "query heads", 32, 65536),
        bounded("kv_heads", "key-value heads", 8, 65536),
        bounded("head_dim", "width of a head", 128, 1024),
        from_zero("value_dim", "width of a head's value (0: as head_dim)"),
        from_zero("latent", "width of the one row per token that all heads share as keys and values, MLA (0: none)"),
        from_zero("window", "keys that a query sees, itself included (0: all)"),
        Param("mask", "str", "causal: no key after the query", "causal", choices=("causal", "full")),
        element_type(),
        element_type(name="kv_dtype", about="type of the keys and values"),
        Param(
            "op", "str", "forward, or the gradients of queries, keys and values", "forward", choices=("forward", "backward"),
            added_after_release=True,
        ),
        Param(
            "page", "int", "tokens of a page of the keys and values (0: they lie in one piece)", 0, low=0, high=65536,
            added_after_release=True,
        ),
        Param(
            "cache_write", "int", "1: an expected time counts the kernel that writes the cache of keys and values, 0: it does not", 1,
            low=0, high=1, added_after_release=True,
        ),
    ),
    "time",
    "s",
    "lower",
    _attention,
    fault=_attention_fault,
    implementations=("flash", "efficient", "cudnn", "math", "flex"),
    heading="model kernels", operator="attention", arrays=True, model="attention",
    variety=_VARIETY,
)

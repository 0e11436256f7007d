"""The kinds of layers that a network's file can have: each a kernel, the size of its result, and its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from hotlap.core.errors import InputError, nearest
from hotlap.core.work.layers import GATES, POOLS
from hotlap.core.work.networks.calls import UNCACHED, Call
from hotlap.core.work.networks.flow import Flow, FlowOptions, Map
from hotlap.core.work.networks.transformer import experts

EXPERT_DTYPES = ("bf16", "fp16")


def _set(flow: Flow, asked: FlowOptions) -> None:
    """`set`: the channels, height and width of what flows from here."""
    at = flow.at
    high, wide = asked.number("height", at.height), asked.number("width", at.width)
    flow.at = Map(asked.number("set"), high, wide, asked.flag("learnt", at.learnt))


def _save(flow: Flow, asked: FlowOptions) -> None:
    flow.kept[asked.text("save")] = flow.at


def _find(flow: Flow, asked: FlowOptions, key: str) -> Map:
    name = asked.text(key)
    if name not in flow.kept:
        raise InputError(f"{asked.where}: nothing was saved as '{name}'; {nearest(name, flow.kept)}")
    return flow.kept[name]


def _back(flow: Flow, asked: FlowOptions) -> None:
    flow.at = _find(flow, asked, "back")


def _add(flow: Flow, asked: FlowOptions) -> None:
    other = _find(flow, asked, "add")
    if other[:3] != flow.at[:3]:
        raise InputError(f"{asked.where}: {flow.at[:3]} and {other[:3]} (channels, height, width) cannot be added")
    flow.at = flow.at._replace(learnt=flow.at.learnt or other.learnt)
    flow.call(asked, "add", "pointwise", "pointwise", {"op": "add", "elements": flow.batch * flow.at.size})


def _concat(flow: Flow, asked: FlowOptions) -> None:
    other, at = _find(flow, asked, "concat"), flow.at
    if (other.height, other.width) != (at.height, at.width):
        raise InputError(f"{asked.where}: {at[1:3]} and {other[1:3]} (height, width) cannot be put side by side")
    flow.at = at._replace(channels=at.channels + other.channels, learnt=at.learnt or other.learnt)
    flow.call(asked, "concatenate", "pointwise", "pointwise", {"op": "copy", "elements": flow.batch * flow.at.size})


def _conv(flow: Flow, asked: FlowOptions) -> None:
    at, filters, wide, stride = flow.at, asked.number("conv"), asked.number("filter", 1), asked.number("stride", 1)
    tall, dilation, groups = asked.number("filter_height", wide), asked.number("dilation", 1), asked.number("groups", 1)
    pad = asked.number("pad", (wide - 1) * dilation // 2)
    if at.channels % groups or filters % groups:
        raise InputError(f"{asked.where}: {at.channels} channels and {filters} filters cannot be cut into {groups} groups")
    params = {
        "images": flow.batch, "channels": at.channels, "height": at.height, "width": at.width, "filters": filters, "filter": wide,
        "stride": stride, "pad": pad, "dtype": flow.dtype, "groups": groups, "dilation": dilation,
        "filter_height": 0 if tall == wide else tall,
    }  # fmt: skip
    word = "depthwise " if groups == at.channels > 1 else ""
    flow.call(asked, f"{word}{tall} × {wide} convolution", "conv", "convolution", params)
    line = at.height == 1 and tall == 1  # one-dimensional: no padding above and below, no steps down
    high = 1 if line else _places(at.height, tall, stride, pad, dilation)
    across = _places(at.width, wide, stride, pad, dilation) - asked.number("trim", 0)
    if min(high, across) < 1:
        raise InputError(f"{asked.where}: a filter of {tall} × {wide} does not fit into {at.height} × {at.width}")
    flow.at = Map(filters, high, across, True)
    flow.learn(filters * at.channels // groups * wide * tall + (filters if asked.flag("bias", False) else 0))


def _places(size: int, filter_: int, stride: int, pad: int, dilation: int = 1) -> int:
    return (size + 2 * pad - dilation * (filter_ - 1) - 1) // stride + 1


def _linear(flow: Flow, asked: FlowOptions) -> None:
    """`linear`: columns of the result; `rows` of each sample where they are not all places; `aside`: what flows stays as it is."""
    at, out, inner = flow.at, asked.number("linear"), asked.number("of", flow.at.channels)
    rows, times, bias = asked.number("rows", at.places), asked.number("groups", 1), asked.flag("bias", True)
    params = {"m": flow.batch * rows, "n": out, "k": inner, "dtype": flow.dtype, "layout": "nt"}
    params |= {"batch": times} if times > 1 else {}
    params |= {"epilogue": "bias"} if bias else {}
    flow.call(asked, "linear", "gemm", "linear", params)
    if not asked.flag("shared", False):
        flow.learn(times * (inner * out + (out if bias else 0)))
    if not asked.flag("aside", False):
        flow.at = flow.at._replace(channels=out * times, learnt=True)


def _product(flow: Flow, asked: FlowOptions) -> None:
    """`product`: columns of a product of two activations, `count` of them for each sample; nothing is learnt."""
    n, rows, inner = asked.number("product"), asked.number("rows", flow.at.places), asked.number("of", flow.at.channels)
    params = {"m": rows, "n": n, "k": inner, "batch": flow.batch * asked.number("count", 1), "dtype": flow.dtype, "layout": "nt"}
    flow.call(asked, "product", "gemm", "product", params)


def _norm(flow: Flow, asked: FlowOptions) -> None:
    op, at, batch = asked.text("norm"), flow.at, flow.batch
    groups, rows = asked.number("groups", 32 if op == "groupnorm" else 1), asked.number("rows", at.places)
    columns = asked.number("columns", at.channels)
    shapes = {
        "batchnorm": (at.channels, batch * at.places), "groupnorm": (batch * groups, at.size // groups),
        "layernorm": (batch * rows, columns), "rmsnorm": (batch * rows, columns),
    }  # fmt: skip
    if op not in shapes:
        raise InputError(f"{asked.where}: no norm '{op}'; {nearest(op, shapes)}")
    if op == "batchnorm" and not flow.train:  # statistics are known: a scale and a shift of every element
        flow.call(asked, "batch norm", "pointwise", "norms", {"op": "scale", "elements": batch * at.size})
    else:
        high, across = shapes[op]
        flow.call(asked, NORMS[op], "rowwise", "norms", {"op": op, "rows": high, "columns": across})
    if asked.flag("affine", True):
        flow.learn((1 if op == "rmsnorm" else 2) * (columns if op in ("layernorm", "rmsnorm") else at.channels))


NORMS = {"batchnorm": "batch norm", "groupnorm": "group norm", "layernorm": "layer norm", "rmsnorm": "RMS norm"}


def _act(flow: Flow, asked: FlowOptions) -> None:
    op, at = asked.text("act"), flow.at
    if op.endswith("_mul"):
        flow.at = at = at._replace(channels=at.channels // 2)
    elements = asked.number("elements", at.size)
    flow.call(asked, WORDS.get(op, op), "pointwise", "pointwise", {"op": op, "elements": flow.batch * elements})


WORDS = {"relu": "ReLU", "gelu": "GELU", "silu": "SiLU", "silu_mul": "SiLU and product", "gelu_mul": "GELU and product", "mul": "product"}


def _attention(flow: Flow, asked: FlowOptions) -> None:
    """`attention`: heads; queries are the places that flow, keys are as many, or `kv`; `cache`: a kernel writes them to a cache."""
    heads, width = asked.number("attention"), asked.number("head_dim")
    query = asked.number("query", flow.at.places)
    written = {} if asked.flag("cache", False) and not flow.train else UNCACHED
    flow.call(asked, "attention", "attention", "attention", {
        **written,
        "batch": flow.batch * asked.number("windows", 1), "query": query, "kv": asked.number("kv", query), "heads": heads,
        "kv_heads": asked.number("kv_heads", heads), "head_dim": width, "mask": asked.text("mask", "full"),
    })  # fmt: skip
    flow.at = flow.at._replace(channels=heads * width)


def _embedding(flow: Flow, asked: FlowOptions) -> None:
    columns, vocabulary, rows = asked.number("embedding"), asked.number("vocabulary"), asked.number("rows", flow.at.places)
    lookups, tables = asked.number("lookups", 0), asked.number("tables", 1)
    table = {"columns": columns, "vocabulary": vocabulary}
    if lookups:
        bags = {"bags": flow.batch * rows, "lookups": lookups, **table}
        flow.call(asked, "embedding bag", "embedding_bag", "embedding", bags, tables)
    else:
        flow.call(asked, "embedding", "embedding", "embedding", {"tokens": flow.batch * rows, **table}, tables)
    if not asked.flag("shared", False):
        flow.learn(columns * vocabulary * tables)
        flow.looked_up += columns * vocabulary * tables if lookups else 0
    flow.at = flow.at._replace(channels=columns, learnt=True)


def _pool(flow: Flow, asked: FlowOptions) -> None:
    """`pool`: max, average or upsample; an average without a filter is one sum over all places of each channel."""
    op, at = asked.text("pool"), flow.at
    if op not in POOLS:
        raise InputError(f"{asked.where}: no pool '{op}'; {nearest(op, POOLS)}")
    if op == "average" and not asked.given("filter"):
        rows = {"op": "sum", "rows": flow.batch * at.channels, "columns": at.places}
        flow.call(asked, "mean over places", "rowwise", "pointwise", rows)
        flow.at = at._replace(height=1, width=1)
        return
    filter_ = asked.number("filter")
    stride, pad = asked.number("stride", filter_), asked.number("pad", 0)
    params = {
        "op": op, "images": flow.batch, "channels": at.channels, "height": at.height, "width": at.width, "filter": filter_,
        "stride": stride, **({"pad": pad} if pad else {}),
    }  # fmt: skip
    flow.call(asked, f"{op} pool" if op != "upsample" else op, "pool", "pointwise", params)
    if op == "upsample":
        flow.at = at._replace(height=at.height * filter_, width=at.width * filter_)
    else:
        high, across = (_places(size, filter_, stride, pad) for size in (at.height, at.width))
        flow.at = at._replace(height=high, width=across)


def _softmax(flow: Flow, asked: FlowOptions) -> None:
    rows = asked.number("rows", flow.at.places)
    params = {"op": "softmax", "rows": flow.batch * rows, "columns": asked.number("softmax", flow.at.channels)}
    flow.call(asked, "softmax", "rowwise", "pointwise", params)


def _loss(flow: Flow, asked: FlowOptions) -> None:
    """`loss`: columns of a cross-entropy over the places that flow; only while training."""
    columns, rows = asked.number("loss"), asked.number("rows", flow.at.places)
    if flow.train:
        flow.call(asked, "cross-entropy", "rowwise", "loss", {"op": "cross_entropy", "rows": flow.batch * rows, "columns": columns})


def _rnn(flow: Flow, asked: FlowOptions) -> None:
    op, at = asked.text("rnn"), flow.at
    hidden, steps, gates = asked.number("hidden"), asked.number("steps", at.places), GATES.get(op, 0)
    if not gates:
        raise InputError(f"{asked.where}: no cell '{op}'; valid: gru, lstm")
    params = {"op": op, "steps": steps, "batch": flow.batch, "inputs": at.channels, "hidden": hidden, "dtype": flow.dtype}
    flow.call(asked, op.upper(), "rnn", "recurrent", params)
    flow.at = at._replace(channels=hidden)
    flow.learn(gates * hidden * (at.channels + hidden + 2))


def _experts(flow: Flow, asked: FlowOptions) -> None:
    """`experts`: a router and so many experts with an inner width of `inner`, of which each token goes through `topk`."""
    count, topk, inner, gated = asked.number("experts"), asked.number("topk"), asked.number("inner"), asked.flag("gated", True)
    tokens, hidden = flow.batch * flow.at.places, flow.at.channels
    if flow.dtype not in EXPERT_DTYPES:
        raise InputError(f"{asked.where}: experts are described in {' and '.join(EXPERT_DTYPES)}, not {flow.dtype}")
    if topk > count:
        raise InputError(f"{asked.where}: a token cannot choose {topk} of {count} experts")
    router = {"m": tokens, "n": count, "k": hidden, "dtype": flow.dtype, "layout": "nt"}
    params = {"tokens": tokens, "hidden": hidden, "inter": inner, "topk": topk, "experts": count}
    fused = Call("experts", "experts", "moe", {**params, "tp": 1, "ep": 1, "dtype": flow.dtype, "gated": gated})
    for call in (Call("router", "experts", "gemm", router), *experts(fused, flow.train)):
        flow.calls.append(replace(call, name=" ".join(filter(None, (asked.label, call.name))), leaf=not flow.at.learnt))
    flow.learn(count * hidden * (1 + (3 if gated else 2) * inner))


def _weights(flow: Flow, asked: FlowOptions) -> None:
    """`weights`: parameters that no kernel of their own reads, as positions that are added."""
    flow.learn(asked.number("weights"))


KINDS: Mapping[str, Callable[[Flow, FlowOptions], None]] = {
    "set": _set, "save": _save, "back": _back, "add": _add, "concat": _concat, "conv": _conv, "linear": _linear, "product": _product,
    "norm": _norm, "act": _act, "attention": _attention, "embedding": _embedding, "pool": _pool, "softmax": _softmax, "loss": _loss,
    "rnn": _rnn, "experts": _experts, "weights": _weights,
}  # fmt: skip

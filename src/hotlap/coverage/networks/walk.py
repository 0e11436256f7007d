"""A layered network's layers as kernels: walked in order, the size of what flows from one to the next kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from hotlap import work
from hotlap.coverage.networks import arithmetic
from hotlap.coverage.networks.calls import Call
from hotlap.coverage.networks.layered import Layer, Layered
from hotlap.errors import InputError, nearest

DEEPEST = 8  # blocks within blocks
MOST_REPEATS = 10_000
RESERVED = ("batch", "channels", "height", "width", "tokens")  # what flows, in every expression


class Map(NamedTuple):
    """What flows, for one sample: channels at height × width places. Tokens are places; an image of one row is a sequence."""

    channels: int
    height: int = 1
    width: int = 1
    learnt: bool = False  # whether a layer before has parameters: only then is its gradient asked for

    @property
    def places(self) -> int:
        return self.height * self.width

    @property
    def size(self) -> int:
        return self.channels * self.places


class Walked(NamedTuple):
    """Kernels of a forward pass on one GPU, and the parameters that were met."""

    calls: list[Call]
    parameters: int
    looked_up: int  # of them rows of tables whose gradients are sparse: an optimizer updates only those that were used


def walk(network: Layered, section: str, batch: int, context: int = 0, dtype: str = "bf16", train: bool = False) -> Walked:
    """`section`: layers or decode. Raises InputError: which layer, and what is wrong with it."""
    walker = _Walker(network, batch, dtype, train)
    names = {**network.inputs, **({"context": context} if context and network.has_context else {}), "batch": batch}
    for name, written in (*network.inputs.items(), *network.widths.items()):
        if name in RESERVED:
            raise InputError(f"{network.name}: '{name}' is a name that layers set; call the width something else")
        if name not in names or isinstance(names[name], str):
            names[name] = arithmetic.value(written, names, f"{network.name}: {name}")
    walker.run(network.decode if section == "decode" else network.layers, names, network.name, "", 0)
    return Walked(_merged(walker.calls), walker.parameters, walker.looked_up)


def _merged(calls: Sequence[Call]) -> list[Call]:
    """Equal kernels of one name once, their times added."""
    found: dict[tuple[Any, ...], Call] = {}
    for call in calls:
        key = (call.name, call.workload, call.leaf, *call.params.items())
        found[key] = replace(call, times=found[key].times + call.times) if key in found else call
    return list(found.values())


@dataclass
class _Walker:
    network: Layered
    batch: int
    dtype: str
    train: bool
    at: Map = Map(0)
    calls: list[Call] = field(default_factory=list)
    kept: dict[str, Map] = field(default_factory=dict)
    parameters: int = 0
    looked_up: int = 0

    def run(self, layers: Sequence[Layer], names: Mapping[str, float], where: str, label: str, depth: int) -> None:
        if depth > DEEPEST:
            raise InputError(f"{where}: blocks stand in each other more than {DEEPEST} deep")
        for number, layer in enumerate(layers, 1):
            here = f"{where}, layer {number}"
            wanted = layer.get("when", "")
            if wanted and wanted != ("train" if self.train else "forward"):
                continue
            for _ in range(_repeats(layer, self.names(names), here)):
                self.layer(layer, names, here, label, depth)

    def names(self, given: Mapping[str, float]) -> dict[str, float]:
        at = self.at
        return {**given, "channels": at.channels, "height": at.height, "width": at.width, "tokens": at.places}

    def layer(self, layer: Layer, names: Mapping[str, float], where: str, label: str, depth: int) -> None:
        kind = next(iter(layer), "")
        if kind == "block":
            self.block(layer, names, where, label, depth)
            return
        made = _KINDS.get(kind)
        if made is None:
            raise InputError(f"{where}: no kind of layer '{kind}'; {nearest(kind, [*_KINDS, 'block'])}")
        asked = _Asked(layer, self.names(names), where, " ".join(filter(None, (label, str(layer.get("name", ""))))))
        made(self, asked)
        asked.check()

    def block(self, layer: Layer, names: Mapping[str, float], where: str, label: str, depth: int) -> None:
        name = layer["block"]
        if name not in self.network.block:
            raise InputError(f"{where}: there is no block '{name}'; {nearest(str(name), self.network.block)}")
        now = self.names(names)
        given = {
            key: arithmetic.value(written, now, f"{where}, {key}")
            for key, written in layer.items() if key not in ("block", "repeat", "name", "when", "shared")
        }  # fmt: skip
        inner = " ".join(filter(None, (label, str(layer.get("name", "")))))
        before = self.parameters
        self.run(self.network.block[name], {**names, **given}, f"{where}, block {name}", inner, depth + 1)
        if layer.get("shared", False):  # its weights were counted where they were met first
            self.parameters = before

    def call(self, asked: _Asked, fallback: str, workload: str, group: str, params: dict[str, Any], times: float = 1.0) -> None:
        name = " ".join(filter(None, (asked.label, "" if asked.given("name") else fallback)))
        self.calls.append(Call(name, group, workload, params, times, leaf=not self.at.learnt))

    def learn(self, parameters: int) -> None:
        self.parameters += parameters
        self.at = self.at._replace(learnt=True)


@dataclass
class _Asked:
    """One layer as it is written: its numbers evaluated when they are asked for; keys that nothing asked for are errors."""

    layer: Layer
    names: Mapping[str, float]
    where: str
    label: str
    seen: set[str] = field(default_factory=lambda: {"name", "repeat", "when"})

    def number(self, key: str, default: int | None = None) -> int:
        self.seen.add(key)
        if key not in self.layer:
            if default is None:
                raise InputError(f"{self.where}: '{next(iter(self.layer))}' needs '{key}'")
            return default
        return arithmetic.whole(self.layer[key], self.names, f"{self.where}, {key}")

    def text(self, key: str, default: str = "") -> str:
        self.seen.add(key)
        return str(self.layer.get(key, default))

    def flag(self, key: str, default: bool) -> bool:
        self.seen.add(key)
        return bool(self.layer.get(key, default))

    def given(self, key: str) -> bool:
        return key in self.layer

    def check(self) -> None:
        if stray := [key for key in self.layer if key not in self.seen]:
            raise InputError(f"{self.where}: '{next(iter(self.layer))}' has no '{stray[0]}'; {nearest(stray[0], self.seen)}")


def _repeats(layer: Layer, names: Mapping[str, float], where: str) -> int:
    times = arithmetic.whole(layer.get("repeat", 1), names, f"{where}, repeat")
    if not 0 <= times <= MOST_REPEATS:
        raise InputError(f"{where}: repeat is 0 to {MOST_REPEATS}, not {times}")
    return times


def _set(walker: _Walker, asked: _Asked) -> None:
    """`set`: the channels, height and width of what flows from here."""
    at = walker.at
    walker.at = Map(asked.number("set"), asked.number("height", at.height), asked.number("width", at.width), asked.flag("learnt", at.learnt))


def _save(walker: _Walker, asked: _Asked) -> None:
    walker.kept[asked.text("save")] = walker.at


def _find(walker: _Walker, asked: _Asked, key: str) -> Map:
    name = asked.text(key)
    if name not in walker.kept:
        raise InputError(f"{asked.where}: nothing was saved as '{name}'; {nearest(name, walker.kept)}")
    return walker.kept[name]


def _back(walker: _Walker, asked: _Asked) -> None:
    walker.at = _find(walker, asked, "back")


def _add(walker: _Walker, asked: _Asked) -> None:
    other = _find(walker, asked, "add")
    if other[:3] != walker.at[:3]:
        raise InputError(f"{asked.where}: {walker.at[:3]} and {other[:3]} (channels, height, width) cannot be added")
    walker.at = walker.at._replace(learnt=walker.at.learnt or other.learnt)
    walker.call(asked, "add", "pointwise", "pointwise", {"op": "add", "elements": walker.batch * walker.at.size})


def _concat(walker: _Walker, asked: _Asked) -> None:
    other, at = _find(walker, asked, "concat"), walker.at
    if (other.height, other.width) != (at.height, at.width):
        raise InputError(f"{asked.where}: {at[1:3]} and {other[1:3]} (height, width) cannot be put side by side")
    walker.at = at._replace(channels=at.channels + other.channels, learnt=at.learnt or other.learnt)
    walker.call(asked, "concatenate", "pointwise", "pointwise", {"op": "copy", "elements": walker.batch * walker.at.size})


def _conv(walker: _Walker, asked: _Asked) -> None:
    at, filters, wide, stride = walker.at, asked.number("conv"), asked.number("filter", 1), asked.number("stride", 1)
    tall, dilation, groups = asked.number("filter_height", wide), asked.number("dilation", 1), asked.number("groups", 1)
    pad = asked.number("pad", (wide - 1) * dilation // 2)
    if at.channels % groups or filters % groups:
        raise InputError(f"{asked.where}: {at.channels} channels and {filters} filters cannot be cut into {groups} groups")
    params = {
        "images": walker.batch, "channels": at.channels, "height": at.height, "width": at.width, "filters": filters, "filter": wide,
        "stride": stride, "pad": pad, "dtype": walker.dtype, "groups": groups, "dilation": dilation,
        "filter_height": 0 if tall == wide else tall,
    }  # fmt: skip
    word = "depthwise " if groups == at.channels > 1 else ""
    walker.call(asked, f"{word}{tall} × {wide} convolution", "conv", "convolution", params)
    line = at.height == 1 and tall == 1  # one-dimensional: no padding above and below, no steps down
    high = 1 if line else _places(at.height, tall, stride, pad, dilation)
    across = _places(at.width, wide, stride, pad, dilation) - asked.number("trim", 0)
    if min(high, across) < 1:
        raise InputError(f"{asked.where}: a filter of {tall} × {wide} does not fit into {at.height} × {at.width}")
    walker.at = Map(filters, high, across, True)
    walker.learn(filters * at.channels // groups * wide * tall + (filters if asked.flag("bias", False) else 0))


def _places(size: int, filter_: int, stride: int, pad: int, dilation: int = 1) -> int:
    return (size + 2 * pad - dilation * (filter_ - 1) - 1) // stride + 1


def _linear(walker: _Walker, asked: _Asked) -> None:
    """`linear`: columns of the result; `rows` of each sample where they are not all places; `aside`: what flows stays as it is."""
    at, out, inner = walker.at, asked.number("linear"), asked.number("of", walker.at.channels)
    rows, times, bias = asked.number("rows", at.places), asked.number("groups", 1), asked.flag("bias", True)
    params = {"m": walker.batch * rows, "n": out, "k": inner, "dtype": walker.dtype, "layout": "nt"}
    params |= {"batch": times} if times > 1 else {}
    params |= {"epilogue": "bias"} if bias else {}
    walker.call(asked, "linear", "gemm", "linear", params)
    if not asked.flag("shared", False):
        walker.learn(times * (inner * out + (out if bias else 0)))
    if not asked.flag("aside", False):
        walker.at = walker.at._replace(channels=out * times, learnt=True)


def _product(walker: _Walker, asked: _Asked) -> None:
    """`product`: columns of a product of two activations, `count` of them for each sample; nothing is learnt."""
    n, rows, inner = asked.number("product"), asked.number("rows", walker.at.places), asked.number("of", walker.at.channels)
    params = {"m": rows, "n": n, "k": inner, "batch": walker.batch * asked.number("count", 1), "dtype": walker.dtype, "layout": "nt"}
    walker.call(asked, "product", "gemm", "product", params)


def _norm(walker: _Walker, asked: _Asked) -> None:
    op, at, batch = asked.text("norm"), walker.at, walker.batch
    groups, rows = asked.number("groups", 32 if op == "groupnorm" else 1), asked.number("rows", at.places)
    columns = asked.number("columns", at.channels)
    shapes = {
        "batchnorm": (at.channels, batch * at.places), "groupnorm": (batch * groups, at.size // groups),
        "layernorm": (batch * rows, columns), "rmsnorm": (batch * rows, columns),
    }  # fmt: skip
    if op not in shapes:
        raise InputError(f"{asked.where}: no norm '{op}'; {nearest(op, shapes)}")
    if op == "batchnorm" and not walker.train:  # statistics are known: a scale and a shift of every element
        walker.call(asked, "batch norm", "pointwise", "norms", {"op": "scale", "elements": batch * at.size})
    else:
        high, across = shapes[op]
        walker.call(asked, NORMS[op], "rowwise", "norms", {"op": op, "rows": high, "columns": across})
    if asked.flag("affine", True):
        walker.learn((1 if op == "rmsnorm" else 2) * (columns if op in ("layernorm", "rmsnorm") else at.channels))


NORMS = {"batchnorm": "batch norm", "groupnorm": "group norm", "layernorm": "layer norm", "rmsnorm": "RMS norm"}


def _act(walker: _Walker, asked: _Asked) -> None:
    op, at = asked.text("act"), walker.at
    if op.endswith("_mul"):
        walker.at = at = at._replace(channels=at.channels // 2)
    elements = asked.number("elements", at.size)
    walker.call(asked, WORDS.get(op, op), "pointwise", "pointwise", {"op": op, "elements": walker.batch * elements})


WORDS = {"relu": "ReLU", "gelu": "GELU", "silu": "SiLU", "silu_mul": "SiLU and product", "gelu_mul": "GELU and product", "mul": "product"}


def _attention(walker: _Walker, asked: _Asked) -> None:
    """`attention`: heads; queries are the places that flow, keys are as many, or `kv`."""
    heads, width = asked.number("attention"), asked.number("head_dim")
    query = asked.number("query", walker.at.places)
    walker.call(asked, "attention", "attention", "attention", {
        "batch": walker.batch * asked.number("windows", 1), "query": query, "kv": asked.number("kv", query), "heads": heads,
        "kv_heads": asked.number("kv_heads", heads), "head_dim": width, "mask": asked.text("mask", "full"),
    })  # fmt: skip
    walker.at = walker.at._replace(channels=heads * width)


def _embedding(walker: _Walker, asked: _Asked) -> None:
    columns, vocabulary, rows = asked.number("embedding"), asked.number("vocabulary"), asked.number("rows", walker.at.places)
    lookups, tables = asked.number("lookups", 0), asked.number("tables", 1)
    table = {"columns": columns, "vocabulary": vocabulary}
    if lookups:
        walker.call(asked, "embedding bag", "embedding_bag", "embedding", {"bags": walker.batch * rows, "lookups": lookups, **table}, tables)
    else:
        walker.call(asked, "embedding", "embedding", "embedding", {"tokens": walker.batch * rows, **table}, tables)
    if not asked.flag("shared", False):
        walker.learn(columns * vocabulary * tables)
        walker.looked_up += columns * vocabulary * tables if lookups else 0
    walker.at = walker.at._replace(channels=columns, learnt=True)


def _pool(walker: _Walker, asked: _Asked) -> None:
    """`pool`: max, average (of all places where no filter is given) or upsample."""
    op, at = asked.text("pool"), walker.at
    filter_ = asked.number("filter", at.height)
    stride, pad = asked.number("stride", filter_), asked.number("pad", 0)
    if op == "upsample":
        high, across = at.height * filter_, at.width * filter_
    elif asked.given("filter"):
        high, across = (_places(size, filter_, stride, pad) for size in (at.height, at.width))
    else:
        high = across = 1
    if at.height == at.width or asked.given("filter"):
        params = {
            "op": op, "images": walker.batch, "channels": at.channels, "height": at.height, "width": at.width, "filter": filter_,
            "stride": stride, **({"pad": pad} if pad else {}),
        }  # fmt: skip
        walker.call(asked, f"{op} pool" if op != "upsample" else op, "pool", "pointwise", params)
    else:
        walker.call(asked, "mean over places", "rowwise", "pointwise", {"op": "sum", "rows": walker.batch * at.channels, "columns": at.places})
    walker.at = at._replace(height=high, width=across)


def _softmax(walker: _Walker, asked: _Asked) -> None:
    rows = asked.number("rows", walker.at.places)
    params = {"op": "softmax", "rows": walker.batch * rows, "columns": asked.number("softmax", walker.at.channels)}
    walker.call(asked, "softmax", "rowwise", "pointwise", params)


def _loss(walker: _Walker, asked: _Asked) -> None:
    """`loss`: columns of a cross-entropy over the places that flow; only while training."""
    columns, rows = asked.number("loss"), asked.number("rows", walker.at.places)
    if walker.train:
        walker.call(asked, "cross-entropy", "rowwise", "loss", {"op": "cross_entropy", "rows": walker.batch * rows, "columns": columns})


def _rnn(walker: _Walker, asked: _Asked) -> None:
    op, at = asked.text("rnn"), walker.at
    hidden, steps, gates = asked.number("hidden"), asked.number("steps", at.places), {"lstm": 4, "gru": 3}.get(op, 0)
    if not gates:
        raise InputError(f"{asked.where}: no cell '{op}'; valid: gru, lstm")
    params = {"op": op, "steps": steps, "batch": walker.batch, "inputs": at.channels, "hidden": hidden, "dtype": walker.dtype}
    walker.call(asked, op.upper(), "rnn", "recurrent", params)
    walker.at = at._replace(channels=hidden)
    walker.learn(gates * hidden * (at.channels + hidden + 2))


def _weights(walker: _Walker, asked: _Asked) -> None:
    """`weights`: parameters that no kernel of their own reads, as positions that are added."""
    walker.learn(asked.number("weights"))


_KINDS: Mapping[str, Callable[[_Walker, _Asked], None]] = {
    "set": _set, "save": _save, "back": _back, "add": _add, "concat": _concat, "conv": _conv, "linear": _linear, "product": _product,
    "norm": _norm, "act": _act, "attention": _attention, "embedding": _embedding, "pool": _pool, "softmax": _softmax, "loss": _loss,
    "rnn": _rnn, "weights": _weights,
}  # fmt: skip


PRODUCTS = ("gemm", "conv", "attention", "rnn", "moe", "grouped_gemm")


def multiply_adds(calls: Sequence[Call], without: Sequence[str] = ()) -> float:
    """Of matrix products, convolutions, attention and recurrent layers; what norms and activations compute is left out, as in papers.
    `without`: workloads that are left out, too."""
    total = 0.0
    for call in calls:
        if call.workload in PRODUCTS and call.workload not in without:
            kind = work.find(call.workload)
            total += call.times * math.fsum(kind.work(kind.parse(call.params)).operations.values()) / 2
    return total

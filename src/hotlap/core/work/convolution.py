"""Operations and bytes of convolutions and their gradients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.record import Value
from hotlap.core.work.base import STORED, Param, Work, Workload, bounded, count, element_type, integer, plain, text, unit_of
from hotlap.core.work.variety import ALIGNMENTS, EDGES, Variety, VarietyColumns, VarietyForm, first


class ConvSide(NamedTuple):
    """One side of a convolution: sizes of the input, of the filter and of the result; zeros on each end, step of the filter."""

    size: Any
    taps: Any
    result: Any
    pad: Any
    step: Any


def conv_sides(params: Mapping[str, Any]) -> dict[str, ConvSide]:
    """Of each side of an image: depth, height, width. Without a depth it is 1. A side of 1 under a filter of 1, as lines have, is not
    padded."""
    every_pad, every_step, gap, filter_ = (count(params, name) for name in ("pad", "stride", "dilation", "filter"))
    depth, tall, deep = count(params, "depth"), count(params, "filter_height"), count(params, "filter_depth")
    filters = {
        "depth": np.where(depth > 0, np.where(deep > 0, deep, filter_), 1.0),
        "height": np.where(tall > 0, tall, filter_),
        "width": filter_,
    }
    sides = {}
    for name, taps in filters.items():
        size = np.maximum(count(params, name), 1.0)
        line = (size == 1) & (taps == 1) & ((np.asarray(tall) == 1) | (name == "depth"))
        pad, step = np.where(line, 0.0, every_pad), np.where(line, 1.0, every_step)
        whole = (size + 2 * pad - gap * (taps - 1) - 1) // step + 1
        sides[name] = ConvSide(*(plain(one) for one in (size, taps, whole, pad, step)))
    return sides


def _conv(params: Mapping[str, Value]) -> Work:
    """2·taps multiply-adds per input channel of a group, output channel and output pixel; both operands and the result once. Gradients take
    as many as the forward pass: each exchanges the result with one operand."""
    images, channels, filters = (count(params, name) for name in ("images", "channels", "filters"))
    depth, high, wide = conv_sides(params).values()
    size, inner = STORED[text(params, "dtype")], channels / count(params, "groups")
    pixels, taps, out = (plain(depth[i] * high[i] * wide[i]) for i in range(3))
    parts = {
        "input_gradient": size * images * channels * pixels, "weight_gradient": size * taps * inner * filters,
        "forward": size * images * filters * out,
    }  # fmt: skip
    written, moved = parts[text(params, "op")], sum(parts.values())
    return Work(
        read_bytes=moved - written,
        written_bytes=written,
        operations={unit_of(text(params, "dtype")): 2.0 * images * filters * out * taps * inner},
        working_set_bytes=moved,
    )


def _conv_fault(params: Mapping[str, Value]) -> tuple[str, str] | None:
    if min(side.result for side in conv_sides(params).values()) < 1:
        return "filter", f"a filter of {params['filter']} does not fit into {params['height']} × {params['width']} with pad {params['pad']}"
    groups = integer(params, "groups")
    for name in ("channels", "filters"):
        if integer(params, name) % groups:
            return "groups", f"{params[name]} {name} cannot be parted into {groups} groups; take a divisor"
    return None


def _grouping(c: VarietyColumns) -> NDArray[np.int_]:
    return first(c["groups"] == 1, c["groups"] >= c["channels"])


def _rank(c: VarietyColumns) -> NDArray[np.int_]:
    return first(c["depth"] > 0, (c["height"] == 1) & (c["filter_height"] == 1))


def _row_lengths(columns: VarietyColumns) -> list[NDArray[Any]]:
    return [np.where(columns.by_word("layout", lambda word: word == "nhwc") > 0, columns["channels"], columns["width"])]


def _fitted(params: dict[str, Any], levels: Mapping[str, str], step: int) -> Iterator[dict[str, Any]]:
    channels = params["channels"]
    parts = {"none": 1, "depthwise": channels}.get(levels["grouping"]) or _divisor(channels)
    filters = {"none": 8, "depthwise": channels}.get(levels["grouping"], 2 * parts)
    wide = 64 if step == 0 or levels["layout"] == "nhwc" else 64 + step
    high, deep = {"1-D": (1, 0), "3-D": (8, 8)}.get(levels["dimensions"], (16, 0))
    yield {**params, "filters": filters, "groups": parts, "width": wide, "height": high, "depth": deep}


def _divisor(channels: int) -> int:
    """The smallest number of groups above one that parts them; all, where they are prime, which is then found out."""
    return next((n for n in range(2, channels) if channels % n == 0), channels)


_FILTERS = {"1": {"filter": 1, "pad": 0}, "3": {"filter": 3, "pad": 1}, "wide": {"filter": 7, "pad": 3}}
_VARIETY = Variety(
    edges=("channels",), grown=("images",), row_lengths=_row_lengths,
    forms=(
        VarietyForm("grouping", {"none": {"groups": 1}, "depthwise": {}, "groups": {}}, _grouping),
        VarietyForm("dimensions", {"3-D": {"depth": 8}, "1-D": {"height": 1, "filter_height": 1}, "2-D": {}}, _rank),
        VarietyForm("filter", _FILTERS, lambda c: first(c["filter"] == 1, c["filter"] <= 3)),
        VarietyForm("stride", {"1": {"stride": 1}, "more": {"stride": 2}}, lambda c: first(c["stride"] == 1)),
        VarietyForm("dilation", {"1": {"dilation": 1}, "more": {"dilation": 2}}, lambda c: first(c["dilation"] == 1)),
    ),
    rules=({"layout": ("nhwc",), "edge channels": EDGES[:3], "alignment": ALIGNMENTS[:4]},), fitted=_fitted,
    directed={"filters": 256, "height": 16, "width": 16}, together=lambda params: {**params, "filters": params["channels"]},
)  # fmt: skip

CONV = Workload(
    "conv",
    "convolution of images, lines or volumes",
    (
        bounded("images", "of a batch", 32),
        bounded("channels", "of the input", 64, 2**20),
        bounded("height", "of the input", 56),
        bounded("width", "of the input", 56),
        bounded("filters", "channels of the output", 64, 2**20),
        bounded("filter", "its height and width", 3, 1024),
        bounded("stride", "step of the filter", 1, 1024),
        Param("pad", "int", "zeros on each side", 1, low=0, high=1024),
        element_type(choices=("fp32", "tf32", "fp16", "bf16", "fp8", "int8")),
        Param(
            "op",
            "str",
            "forward, or one of its gradients",
            "forward",
            choices=("forward", "input_gradient", "weight_gradient"),
            added_after_release=True,
        ),
        Param(
            "groups",
            "int",
            "that channels and filters are parted into; as many as channels is depthwise",
            1,
            low=1,
            high=2**20,
            added_after_release=True,
        ),
        Param("dilation", "int", "step between taps of the filter", 1, low=1, high=1024, added_after_release=True),
        Param("depth", "int", "of the input (0: a flat image)", 0, low=0, high=2**20, added_after_release=True),
        Param(
            "filter_height",
            "int",
            "of the filter, where it is no square (0: as filter); 1 with height 1 is a line",
            0,
            low=0,
            high=1024,
            added_after_release=True,
        ),
        Param("filter_depth", "int", "of the filter (0: as filter)", 0, low=0, high=1024, added_after_release=True),
        Param(
            "layout", "str", "how images lie in memory: channels first or last", "nchw", choices=("nchw", "nhwc"), added_after_release=True
        ),
    ),
    "compute",
    "FLOP/s",
    "higher",
    _conv,
    fault=_conv_fault,
    heading="model kernels", operator="conv", arrays=True, model="convolution",
    variety=_VARIETY,
)

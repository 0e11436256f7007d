"""Operators of PyTorch (aten) as workloads, by the shapes, types, strides and arguments of a call, as profilers record them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from hotlap.core.work import aten_calls as calls
from hotlap.core.work.aten_calls import AtenCall, CallRequest

__all__ = ["DTYPES", "CallRequest", "is_free", "moving", "parts"]

DTYPES = {
    "float": "fp32", "double": "fp64", "c10::Half": "fp16", "c10::BFloat16": "bf16", "signed char": "int8", "c10::Float8_e4m3fn": "fp8",
    "Float": "fp32", "Half": "fp16", "BFloat16": "bf16", "float16": "fp16", "bfloat16": "bf16",
}  # fmt: skip

FREE = re.compile(
    r"(_unsafe_|_reshape_)?(view|reshape|alias)|t|transpose|permute|expand|slice|select|squeeze|unsqueeze|detach|split|split_with_sizes|chunk|unbind|"
    r"as_strided|unfold|empty|empty_like|empty_strided|new_empty|new_empty_strided|lift_fresh|zeros|ones|full|arange|zeros_like|ones_like|"
    r"full_like|new_zeros|new_ones|new_full|fill|zero|scalar_tensor|_local_scalar_dense|is_same_size|diagonal|triu|tril|movedim|_to_copy_meta|"
    r"resolve_conj|resolve_neg"
)
"""Operators that move no data or only fill small constants."""


def is_free(operator: str) -> bool:
    """Whether an operator moves no data, or only fills a small constant."""
    return FREE.fullmatch(operator.removeprefix("aten::").rstrip("_")) is not None


def moving(elements: int, dtype: str) -> CallRequest:
    """A copy whose reads and writes are so many elements together."""
    return CallRequest("pointwise", {"op": "copy", "elements": max(elements // 2, 1), "dtype": dtype})


def parts(operator: str, dims_json: str, types_json: str, values_json: str = "", strides_json: str = "") -> list[CallRequest]:
    """What an innermost operator computes: a workload, two for a convolution's gradients; none where it is no workload or its shapes are
    incomplete. `dims_json`: sizes of each argument; `types_json`: their element types; `values_json`: arguments that are no tensors, as
    text; `strides_json`: as sizes; all as Kineto records them."""
    handler = OPERATORS.get(operator.removeprefix("aten::").rstrip("_"))
    if handler is None:
        return []
    try:
        dims, types = json.loads(dims_json), json.loads(types_json)
        values = json.loads(values_json) if values_json else []
        strides = json.loads(strides_json) if strides_json else []
        dtype = next((DTYPES[one] for one in types if one in DTYPES), "")
        return handler(AtenCall(dims, dtype, values, strides)) if dtype else []
    except (ValueError, IndexError, TypeError, KeyError):
        return []  # a shape of a kind that this operator does not usually have


_CONVOLUTION, _LIBRARY, _OTHER = (
    calls.ArgumentPlaces(0, 1, 3, 4, 5, 8, 6),
    calls.ArgumentPlaces(0, 1, 3, 2, 4, 5),
    calls.ArgumentPlaces(0, 1, 4, 3, 5, 6),
)
_FORWARD = {  # kernels of attention: the place of is_causal among their arguments
    "flash_attention": 4, "flash_attention_for_cpu": 4, "efficient_attention": 6, "cudnn_attention": 6, "fused_attention_overrideable": 5,
}  # fmt: skip
_BACKWARD = {
    "flash_attention": 11, "flash_attention_for_cpu": 7, "efficient_attention": 11, "cudnn_attention": 14,
    "fused_attention_overrideable": 13,
}  # fmt: skip
OPERATORS: Mapping[str, calls.Made] = {
    "mm": lambda call: calls.gemm(call, 0, 1),
    "bmm": lambda call: calls.gemm(call, 0, 1),
    "addmm": lambda call: calls.gemm(call, 1, 2, 0),
    "_addmm_activation": calls.addmm_activation,
    "baddbmm": lambda call: calls.gemm(call, 1, 2),
    "linear": calls.linear,
    "convolution": calls.conv(_CONVOLUTION),
    "_convolution": calls.conv(_CONVOLUTION),
    "convolution_overrideable": calls.conv(_CONVOLUTION),
    "cudnn_convolution": calls.conv(_LIBRARY),
    "mkldnn_convolution": calls.conv(_OTHER),
    "miopen_convolution": calls.conv(_OTHER),
    "miopen_depthwise_convolution": calls.conv(_OTHER),
    "convolution_backward": calls.conv_backward,
    "_flash_attention_forward": calls.attention(8, heads_first=False),
    "_flash_attention_backward": calls.attention(11, "backward", heads_first=False),
    **{f"_scaled_dot_product_{kernel}": calls.attention(place) for kernel, place in _FORWARD.items()},
    **{f"_scaled_dot_product_{kernel}_backward": calls.attention(place, "backward") for kernel, place in _BACKWARD.items()},
    "scaled_dot_product_attention": calls.attention(5),
    **dict.fromkeys(("add", "sub", "rsub", "where", "maximum", "minimum"), calls.pointwise("add")),
    **dict.fromkeys(("mul", "div", "addcmul", "lerp"), calls.pointwise("mul")),
    "relu": calls.pointwise("relu"),
    "clamp_min": calls.pointwise("relu"),
    "clamp": calls.pointwise("relu"),
    "hardtanh": calls.pointwise("relu"),
    "gelu": calls.pointwise("gelu"),
    "silu": calls.pointwise("silu"),
    "sigmoid": calls.pointwise("sigmoid"),
    "tanh": calls.pointwise("tanh"),
    "exp": calls.pointwise("sigmoid"),
    "pow": calls.pointwise("scale"),
    "neg": calls.pointwise("scale"),
    "sqrt": calls.pointwise("scale"),
    "rsqrt": calls.pointwise("scale"),
    "copy": calls.pointwise("copy"),
    "clone": calls.pointwise("copy"),
    "_to_copy": calls.pointwise("copy"),
    "native_dropout": calls.pointwise("dropout"),
    "bernoulli": calls.pointwise("dropout"),
    "masked_fill": calls.pointwise("scale"),
    "threshold_backward": calls.pointwise("relu_backward"),
    "gelu_backward": calls.pointwise("gelu_backward"),
    "silu_backward": calls.pointwise("gelu_backward"),
    "sigmoid_backward": calls.pointwise("gelu_backward"),
    "tanh_backward": calls.pointwise("gelu_backward"),
    "_softmax": calls.along("softmax"),
    "_safe_softmax": calls.along("softmax"),
    "_log_softmax": calls.along("softmax"),
    "_softmax_backward_data": calls.along("softmax_backward", 2),
    "_log_softmax_backward_data": calls.along("softmax_backward", 2),
    "native_layer_norm": calls.rowwise("layernorm"),
    "native_layer_norm_backward": calls.rowwise("layernorm_backward"),
    "_fused_rms_norm": calls.rowwise("rmsnorm"),
    "_fused_rms_norm_backward": calls.rowwise("rmsnorm_backward"),
    "native_group_norm": calls.rowwise("groupnorm", rows_from="group"),
    "native_group_norm_backward": calls.rowwise("groupnorm_backward", rows_from="group"),
    **dict.fromkeys(
        (
            "native_batch_norm",
            "cudnn_batch_norm",
            "miopen_batch_norm",
            "_native_batch_norm_legit",
        ),
        calls.batchnorm,
    ),
    "_batch_norm_with_update": calls.rowwise("batchnorm", rows_from="channel"),
    "_native_batch_norm_legit_no_training": calls.pointwise("scale"),
    **dict.fromkeys(
        ("native_batch_norm_backward", "cudnn_batch_norm_backward", "batch_norm_backward"),
        calls.rowwise("batchnorm_backward", rows_from="channel"),
    ),
    "sum": calls.total("sum"),
    "mean": calls.total("sum"),
    "amax": calls.total("max"),
    "argmax": calls.largest,
    "embedding": calls.embedding,
    "index_select": calls.selected,
    "embedding_dense_backward": calls.scatter,
    "index_add": calls.index_add,
    "_embedding_bag": calls.bag,
    "_embedding_bag_forward_only": calls.bag,
    "topk": calls.topk,
    "mkldnn_rnn_layer": calls.recurrent,
    "sort": calls.whole("sort", line=True),
    "cumsum": calls.whole("scan", line=True),
    "max_pool2d_with_indices": calls.pool("max"),
    "avg_pool2d": calls.pool("average"),
}

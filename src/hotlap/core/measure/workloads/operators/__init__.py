"""Operators of PyTorch: the kernels that networks and scientific programs are made of, one family a file."""

from __future__ import annotations

FAMILIES = {
    "gemm": "gemm", "grouped_gemm": "grouped", "moe": "moe", "conv": "conv", "attention": "attention", "rnn": "rnn",
    "rowwise": "rowwise", "pointwise": "pointwise",
    **dict.fromkeys(("embedding", "embedding_bag", "scatter", "permute", "transpose"), "tables"),
    **dict.fromkeys(("topk", "sampling", "routing"), "choices"),
    "optimizer": "optimizer", "pool": "pool",
    **dict.fromkeys(("fft", "spmv", "stencil", "montecarlo"), "science"),
    **dict.fromkeys(("reduce", "scan", "sort", "histogram"), "sums"),
}  # fmt: skip
"""Workload → module."""

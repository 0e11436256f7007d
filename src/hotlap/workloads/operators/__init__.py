"""Operators of PyTorch: the kernels that networks and scientific programs are made of, one family a file."""

from __future__ import annotations

FAMILIES = {
    "gemm": "gemm", "grouped_gemm": "grouped", "moe": "moe", "conv": "conv", "attention": "attention", "rnn": "rnn", "rowwise": "rowwise",
}  # fmt: skip
"""Workload → module."""

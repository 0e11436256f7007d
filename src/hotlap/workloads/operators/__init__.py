"""Operators of PyTorch: the kernels that networks and scientific programs are made of, one family a file."""

from __future__ import annotations

FAMILIES = {"rowwise": "rowwise", "pointwise": "pointwise"}
"""Workload → module."""

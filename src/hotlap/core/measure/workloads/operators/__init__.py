"""Operators of PyTorch: the kernels that networks and scientific programs are made of, one family a file."""

from __future__ import annotations

from hotlap.core.work import WORKLOADS

FAMILIES = {name: one.operator for name, one in WORKLOADS.items() if one.operator}
"""Workload → module."""

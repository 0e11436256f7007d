"""Copies between host and device memory: the link's rate × a share, and a fixed time for each.

A share of 0.84 lies between what nvbandwidth reports of pinned memory: 12.4 of 15.75 GB/s (PCI Express 3, its README), 24.8 of 31.5 (A100,
forums.developer.nvidia.com/t/352186) and 55.6 of 63.0 (NVIDIA's blog on NVbandwidth). Both ways at once each keep 0.90 of that (its README:
11.16 of 12.36 GB/s). The fixed time is assumed. Nothing is fitted, so every case is outside of what was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hotlap.core.errors import InputError
from hotlap.core.model.kernels.base import Demand, Estimate

SHARE, BOTH_SHARE, FIXED_S = 0.84, 0.90, 5e-6


def estimate(params: Mapping[str, Any], link_b_s: float) -> Estimate:
    """`params` of the workload `transfer`; `link_b_s` one way. Raises InputError for pageable memory, which the host's own copies set."""
    if params["memory"] != "pinned":
        raise InputError("pageable memory is copied by the host first, of which the machine table says nothing; ask for memory=pinned")
    size = np.atleast_1d(np.asarray(params["size"], dtype=float))
    rate = link_b_s * SHARE * (BOTH_SHARE if params["direction"] == "both" else 1.0)
    parts = {"link": size / rate, "copy": np.full(len(size), FIXED_S)}
    none = np.zeros(len(size))
    return Estimate(parts["link"] + parts["copy"], parts, Demand({}, none, none, none), {}, np.zeros(len(size), dtype=bool))

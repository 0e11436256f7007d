"""Coefficients of cases of a mixture of experts: those of its kernel, type and architecture, or of the nearest that was fitted.

Six numbers of a group are fitted (coefficients/moe.toml); what follows here is of the machine or was chosen once for all groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.core.model.kernels import moe_cases, moe_kernels
from hotlap.core.model.kernels.base import Chip, Floats

RESIDENT = {"ada": 1.0}  # share of L2 that keeps weights between calls: all of it where it is one piece, half where two partitions
TWO_COPIES = 0.5  # (white papers of A100 and H100: each caches for its own SMs) or two dies keep copies of their own
TAIL_WAVES = {"ada": 0.25, "ampere": 0.25}  # of a last wave: blocks of several waves share an SM there,
WHOLE_WAVE = 1.0  # and one of TMA and its barriers fills it
MEMORY_SHARE = {"ada": 0.82}  # of the table's bandwidth, on GDDR6
STREAMED = 0.93  # and on HBM
SLOWER_PRODUCTS = {"triton_fp8_block_blackwell": 0.18}  # share of the matrix unit's rate: mma.sync, and scales on FMA lanes
OVERLAP = {"deepgemm": 5.0}  # p of (compute^p + memory^p)^(1/p): a persistent kernel with a warp of its own for loads hides more,
OVERLAPPED = 2.0  # than others
DEEPGEMM_MEMORY = 0.8
LIKE = {  # families that stand in for one that is not known with a type
    "triton": ("triton", "sglang"), "sglang": ("sglang", "triton"), "cutlass": ("cutlass", "flashinfer", "gen"),
    "flashinfer": ("flashinfer", "cutlass", "gen"), "deepgemm": ("deepgemm", "flashinfer", "cutlass"),
    "gen": ("gen", "cutlass", "flashinfer"),
    "marlin": ("marlin", "matmul_ogs", "gen"), "matmul_ogs": ("matmul_ogs", "matmul_ogs_trtllm", "marlin", "gen"),
    "matmul_ogs_trtllm": ("matmul_ogs_trtllm", "matmul_ogs", "marlin", "gen"),
}  # fmt: skip
STORED_LIKE = {
    "bf16": ("bf16",), "fp8": ("fp8", "fp8_block"), "fp8_block": ("fp8_block", "fp8"), "int4_wo": ("int4_wo", "w4a16_mxfp4"),
    "w4a16_mxfp4": ("w4a16_mxfp4", "int4_wo"), "nvfp4": ("nvfp4", "w4a8_mxfp4_mxfp8", "fp8", "fp8_block"),
    "w4a8_mxfp4_mxfp8": ("w4a8_mxfp4_mxfp8", "nvfp4", "fp8_block", "fp8"),
}  # fmt: skip
NEAR = {  # architectures, the nearest first
    "ampere": ("ampere", "hopper", "ada", "blackwell"), "ada": ("ada", "hopper", "ampere", "blackwell"),
    "hopper": ("hopper", "ampere", "blackwell", "ada"), "blackwell": ("blackwell", "hopper", "ampere", "ada"),
}  # fmt: skip


def group(family: str, dtype: str, architecture: str, known: Mapping[str, Any]) -> str:
    """The coefficients of a family of kernels with a type on an architecture; the nearest, where these are not known."""
    family, dtype = ("triton", "bf16") if family == "wna16" else (family, dtype)  # its weights are widened before the product
    if f"{family}_{dtype}" in known:  # of all architectures
        return f"{family}_{dtype}"
    families = dict.fromkeys((*LIKE[family], *LIKE))
    names = ((f"{one}_{like}_{near}", f"{one}_{like}") for one in families for near in NEAR[architecture] for like in STORED_LIKE[dtype])
    return next((name for pair in names for name in pair if name in known), next(iter(known)))


def of_cases(
    cases: Mapping[str, NDArray[Any]], chip: Chip, known: Mapping[str, Mapping[str, float]]
) -> tuple[dict[str, Floats], NDArray[np.bool_]]:
    """Of each case, and whether its kernel was fitted in its dtype."""
    (families, of_family), (dtypes, of_dtype) = (moe_cases.codes(cases[name]) for name in ("family", "dtype"))
    architecture = moe_kernels.ARCHITECTURES.get(chip.target, moe_kernels.USUAL_ARCHITECTURE)
    split = [(family, dtype) for family in families for dtype in dtypes]
    which = of_family * len(dtypes) + of_dtype
    groups = [group(family, dtype, architecture, known) for family, dtype in split]
    table = np.array([list(known[name].values()) for name in groups])
    exact = [(f"{family}_{dtype}", f"{family}_{dtype}_{architecture}") for family, dtype in split]
    fitted = np.array([name in own for name, own in zip(groups, exact, strict=True)])
    c = {name: table[which, i] for i, name in enumerate(known[groups[0]])}
    c["matrix_share"] = np.array([SLOWER_PRODUCTS.get(name, 1.0) for name in groups])[which]
    share = MEMORY_SHARE.get(architecture, STREAMED)
    c["memory_share"] = np.array([DEEPGEMM_MEMORY if name.startswith("deepgemm") else share for name in groups])[which]
    c["overlap"] = np.array([OVERLAP.get(family, OVERLAPPED) for family, _ in split])[which]
    c["resident"] = np.full(len(which), RESIDENT.get(architecture, TWO_COPIES))
    c["tail_waves"] = np.full(len(which), TAIL_WAVES.get(architecture, WHOLE_WAVE))
    return c, fitted[which] & cases["known"]

"""Prefill attention: `python -m research.fit prefill` fits its coefficients and prints their accuracy."""

from __future__ import annotations

from hotlap.core.model.kernels import prefill
from hotlap.core.model.kernels.attention import Cases
from hotlap.core.model.kernels.prefill import PrefillTraits
from research.fit import attention_table
from research.fit.attention import Prior, Priors

SERIAL = Prior(1.2, 0.3, low=1.0)  # products, then softmax, in the same warps


def _low(t: PrefillTraits, c: Cases) -> bool:
    return bool(c.products_low(t.low).any())


APART = [prefill.KERNELS[name] for name in ("fmha_mma", "fmha_qmma", "triton", "flashinfer")]  # compiled with other tiles for a head size
PRIORS = Priors(
    family={
        "latency_fixed": Prior(0.4, 0.2, log=False, low=0.0, high=1.0),
        "cache_share": Prior(0.6, 0.5),
        "cache_share_whole": Prior(0.8, 0.5),
        "overlap": Prior(1.3, 0.3, low=1.0),
        "l2_bytes_per_clock": Prior(50.0, 0.5),
        "l2_whole_bytes_per_clock": Prior(20.0, 0.5),
    },
    library={
        "launch_clocks": Prior(15000.0, 1.0),
        "launch_low_clocks": Prior(2000.0, 1.0),
        "query_passes": Prior(0.3, 1.0),
        "cache_passes": Prior(1.0, 1.0),
        "query_passes_low": Prior(0.3, 1.0),
        "query_element_clocks": Prior(0.05, 1.5),
        "token_clocks": Prior(50.0, 1.0),
        "token_block_clocks": Prior(1000.0, 1.0),
    },
    kernel={
        "start_clocks": Prior(2000.0, 1.0),
        "row_clocks": Prior(1000.0, 1.0),
        "matrix_efficiency": Prior(0.8, 0.3, high=prefill.MOST),
        "matrix_efficiency_low": Prior(0.6, 0.5),
        "low_width_exponent": Prior(0.1, 0.3, log=False),
        "softmax_work": Prior(1.0, 0.5),
        "blend": Prior(2.0, 0.5, low=1.0),
        "mask_extra": Prior(0.1, 1.0),
        "convert_clocks": Prior(0.02, 1.5),
        "work_64": Prior(1.0, 0.3),
        "work_192": Prior(1.0, 0.3),
        "work_256": Prior(1.0, 0.3),
        "wave_rounding": Prior(0.6, 0.3, log=False, low=0.0, high=1.0),
        "alone": Prior(1.1, 0.3),
        "uneven": Prior(0.3, 0.5),
        "split_clocks": Prior(6000.0, 1.0),
        "kernel_launch_clocks": Prior(3000.0, 1.0),
    },
    shows={
        "work_64": lambda t, c: t in APART and bool((c.head_dim <= 64).any()),
        "work_192": lambda t, c: t in APART and bool((c.head_dim == 192).any()),
        "work_256": lambda t, c: t in APART and bool((c.head_dim >= 256).any()),
        "matrix_efficiency_low": _low, "low_width_exponent": lambda t, c: _low(t, c) and t not in APART,
        "convert_clocks": lambda t, c: bool((c.kv_bytes < 2).any()), "mask_extra": lambda t, c: bool(c.windowed.any()),
        "split_clocks": lambda t, c: t.splits,
    },
    kernels={kernel: {"blend": SERIAL} for kernel, t in prefill.KERNELS.items() if t.warp_level},
    fixed=("work_64", "work_192", "work_256"),
)  # fmt: skip


FIT = attention_table.Fit(prefill.FAMILY, PRIORS)
rows, fit, predicted, tags, roofline = FIT.rows, FIT.fit, FIT.predicted, FIT.tags, FIT.roofline

if __name__ == "__main__":
    attention_table.main(FIT)

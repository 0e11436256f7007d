"""Decode attention: `python -m research.fit decode` fits its coefficients and prints their accuracy."""

from __future__ import annotations

from hotlap.core.model.kernels import decode
from hotlap.core.model.kernels.attention import Cases
from hotlap.core.model.kernels.decode import DecodeTraits
from research.fit import attention_table
from research.fit.attention import Prior, Priors


def _low(t: DecodeTraits, c: Cases) -> bool:
    return bool((c.kv_bytes < 2).any()) and not t.native


PRIORS = Priors(
    family={
        "memory_efficiency": Prior(0.92, 0.1, high=1.0),
        "memory_efficiency_gddr": Prior(0.88, 0.1, high=1.0),
        "latency_fixed": Prior(0.4, 0.2, log=False, low=0.0, high=1.0),
        "cache_share": Prior(0.7, 0.3),
        "cache_share_whole": Prior(0.9, 0.3),
        "cache_edge": Prior(5.0, 0.5),
        "l2_bytes_per_clock": Prior(40.0, 0.5),
        "l2_whole_bytes_per_clock": Prior(15.0, 0.5),
        "fill_blocks": Prior(2.0, 0.5),
        "start_width_slope": Prior(0.2, 1.0),
    },
    library={
        "launch_clocks": Prior(10000.0, 1.0),
        "launch_low_clocks": Prior(1000.0, 1.5),
        "token_block_clocks": Prior(4000.0, 0.5),
        "query_passes": Prior(0.3, 1.0),
    },
    kernel={
        "kernel_launch_clocks": Prior(3000.0, 1.0),
        "split_clocks": Prior(4000.0, 1.0),
        "sequence_clocks": Prior(2.0, 1.5),
        "copy_clocks": Prior(6000.0, 1.0),
        "copy_passes": Prior(1.0, 1.0),
        "start_clocks": Prior(4000.0, 1.0),
        "miss_extra": Prior(0.3, 1.0),
        "window_clocks": Prior(500.0, 1.0),
        "step_extra": Prior(0.2, 1.0),
        "product_share": Prior(0.7, 0.5),
        "load_clocks": Prior(0.02, 0.7),
        "load_low_clocks": Prior(0.02, 0.7),
        "low_width_exponent": Prior(0.0, 0.5, log=False),
        "width_exponent": Prior(0.0, 0.3, log=False),
        "overlap": Prior(2.0, 0.5, low=1.0),
        "wave_rounding": Prior(0.5, 0.3, log=False, low=0.0, high=1.0),
        "alone": Prior(1.0, 0.3),
    },
    shows={
        "sequence_clocks": lambda t, c: t.searched > 0, "copy_clocks": lambda t, c: t.swaps, "copy_passes": lambda t, c: t.swaps,
        "window_clocks": lambda t, c: bool(c.windowed.any()),
        "step_extra": lambda t, c: bool((c.group > t.row_step).any()) and t.packs > t.row_step,
        "load_low_clocks": _low, "low_width_exponent": _low, "load_clocks": lambda t, c: bool((c.kv_bytes == 2).any()),
        "width_exponent": lambda t, c: t.pads and bool((c.kv_bytes == 2).any()),
        "overlap": lambda t, c: t.staged,
    },
    kernels={},
    fixed=("width_exponent",),
)  # fmt: skip


FIT = attention_table.Fit(decode.FAMILY, PRIORS)
rows, fit, predicted, tags, roofline = FIT.rows, FIT.fit, FIT.predicted, FIT.tags, FIT.roofline

if __name__ == "__main__":
    attention_table.main(FIT)

"""Decode attention: `python -m research.fit decode` fits its coefficients and prints their accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hotlap.core.model.kernels import attention as attention_kernels
from hotlap.core.model.kernels import decode
from hotlap.core.model.kernels.base import Coefficients, Floats
from research.fit import attention, attention_table
from research.fit.attention import Prior
from research.fit.data import Rows
from research.fit.scores import Score

PRIORS = {
    "launch_s": Prior(8e-6, 1.0),
    "launch_low_ratio": Prior(1.0, 0.5),
    "split_s": Prior(2e-6, 1.0),
    "sequence_s": Prior(1e-9, 1.0),
    "copy_s": Prior(3e-6, 1.0),
    "token_block_clocks": Prior(4000.0, 0.3),  # that of prefill
    "start_clocks": Prior(4000.0, 1.0),
    "start_low_ratio": Prior(1.0, 0.5),
    "start_width_slope": Prior(0.2, 1.0),
    "window_clocks": Prior(500.0, 1.0),
    "step_extra": Prior(0.2, 1.0),
    "query_passes": Prior(0.3, 1.0),
    "product_share": Prior(0.7, 0.5),
    "load_clocks": Prior(0.02, 0.7),
    "load_low_clocks": Prior(0.02, 0.7),
    "low_width_exponent": Prior(0.3, 0.5, log=False),
    "memory_efficiency": Prior(0.95, 0.1, high=1.0),
    "overlap": Prior(2.0, 0.5, low=1.0),
    "wave_rounding": Prior(0.5, 0.3, log=False, low=0.0, high=1.0),
    "alone": Prior(1.0, 0.3),
    "cache_share": Prior(0.7, 0.3),
    "l2_bytes_per_clock": Prior(20.0, 0.5),
    "fill_blocks": Prior(2.0, 0.5),
}


def rows(gpu: str, root: Path) -> Rows:
    return attention.rows(gpu, root, "decode")


def fit(data: Sequence[Rows]) -> dict[str, dict[str, float]]:
    return attention.fit(decode.FAMILY, PRIORS, data)


def predicted(data: Rows, coefficients: Coefficients) -> Floats:
    """Expected seconds of measured rows."""
    return attention.predicted(decode.FAMILY, data, coefficients)


def roofline(data: Rows) -> Floats:
    """Seconds at the published peaks, nothing cached."""
    return attention_table.roofline(attention_kernels.read(data.params, "decode"), data.gpu)


def table(root: Path) -> list[Score]:
    return attention_table.table(decode.FAMILY, PRIORS, root)


if __name__ == "__main__":
    attention_table.main(decode.FAMILY, PRIORS)

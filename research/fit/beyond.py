"""How many healthy cases are slower than the stated interval, and how much cases of one shape go together: `gate --against expected`.

Of rows that are held out, of every second shape group: the other groups are left for `benchmarks/expected.py`, which draws plans of
them. Stored in `coefficients/beyond.toml`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.model import intervals
from hotlap.core.model.kernels import decode as decode_kernels
from hotlap.core.model.kernels import gemm as gemm_kernels
from hotlap.core.model.kernels import moe as moe_kernels
from hotlap.core.model.kernels import prefill as prefill_kernels
from hotlap.core.stats import beyond
from research.fit import decode, gemm, moe, prefill, scores

SHAPE = {  # parameters that a plan usually holds while it sweeps the others
    "gemm": ("n", "k"),
    "prefill": ("heads", "kv_heads", "head_dim", "window", "kv_dtype"),
    "decode": ("heads", "kv_heads", "head_dim", "window", "kv_dtype"),
    "moe": ("hidden", "inter", "topk", "experts", "tp", "ep", "distribution", "dtype", "gated"),
}
MACHINES = ("h100-sxm", "h200-sxm", "b200", "l40s")  # measured with vLLM 0.22 or 0.24
FAMILIES = {
    "gemm": (gemm, gemm_kernels), "prefill": (prefill, prefill_kernels), "decode": (decode, decode_kernels), "moe": (moe, moe_kernels),
}  # fmt: skip
HEAD = (
    "# Healthy cases slower than the 90 % interval: their share, and the intraclass correlation within shapes (research.fit.beyond).",
    "# dtypes: those that were measured. torch: vLLM 0.22 and 0.24, which were measured, run on PyTorch 2.11 or later (vLLM's",
    "# release notes of 0.20.0).",
    'torch = "2.11"',
)
DTYPES = {"bfloat16": "bf16", "float16": "fp16"}


class Healthy(NamedTuple):
    """Held-out rows of one family on one machine."""

    family: str
    machine: str
    ratio: NDArray[np.float64]  # measured ÷ the slow end of the interval
    group: NDArray[np.str_]
    learnt: NDArray[np.bool_]  # of groups that the stored figures come from
    dtypes: list[str]


def healthy(root: Path, families: tuple[str, ...] = tuple(SHAPE)) -> Iterator[Healthy]:
    """Of each family and machine for which there are rows."""
    for family in families:
        fitting, kernels = FAMILIES[family]
        for gpu in MACHINES:
            data = fitting.rows(gpu, root)
            if family == "gemm":
                data = data.where(data.params["dtype"] == "bf16")
            chip = scores.chip(gpu) if family == "moe" else scores.fastest(gpu)
            found = kernels.estimate(data.params, chip, data.implementation, None)
            _, high_s = intervals.interval(family, f"fitted {gpu}", found.seconds, found.inside, "bf16" if family == "gemm" else "")
            here = data.held & found.inside
            names = [data.params[name][here] for name in SHAPE[family]]
            group = np.array(["|".join(map(str, row)) for row in zip(data.implementation[here], *names, strict=True)])
            learnt = np.array([zlib.crc32(f"beyond {one}".encode()) % 2 == 0 for one in group])
            dtypes = sorted({DTYPES.get(str(one), str(one)) for one in data.params["dtype"][here]})
            yield Healthy(family, gpu, (data.seconds / high_s)[here], group, learnt, dtypes)


def main() -> None:
    """Learns the figures, stores and prints them."""
    lines = [*HEAD]
    for one in healthy(scores.folder()):
        slow, group = (one.ratio > 1)[one.learnt], one.group[one.learnt]
        share, alike = float(slow.mean()), beyond.alike(slow, group)
        dtypes = ", ".join(f'"{name}"' for name in one.dtypes)
        figures = f"share = {share:.4f}, alike = {max(alike, 0.0):.4f}, rows = {len(slow)}, groups = {len(set(group))}"
        lines.append(f"beyond.{one.family}.{one.machine} = {{ {figures}, dtypes = [{dtypes}] }}")
        print(lines[-1], flush=True)
    file = Path(intervals.__file__).parent / "coefficients" / "beyond.toml"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Whether any published kernel beats the bound: rows faster than it, and faster by more than two measurements of one kernel differ.

    python benchmarks/bounds.py

Counts rows of matrix products, attention and experts on A100, H100, H200, B200 and L40S by family, machine, type and implementation.
A row that beats its bound by more than 5 % is a wrong measurement, a kernel that does less than the count takes for needed, or a bug in
the bound; the last lines name them. Needs the measurements in `$HOTLAP_SHARED/data/kernels` and pyarrow.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FLOOR = 0.05  # two collections of the same kernels differ by this on average
TYPES = {"bfloat16": "bf16", "int4_wo": "int4", "w4a16_mxfp4": "mxfp4", "nvfp4": "fp4"}  # the data's words for types
TEXTS = ("dtype", "kv_dtype", "distribution", "gated")  # the same for all cases of one call


class Group(NamedTuple):
    """Rows of one kernel and type on one machine, as measured ÷ bound."""

    family: str
    gpu: str
    name: str
    ratio: NDArray[np.float64]


def groups(place: Path) -> Iterator[Group]:
    """Every row that the families are fitted to or scored on."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # research is not in the package
    from research.fit import decode, gemm, moe, prefill
    from research.fit.data import FOLDERS

    for gpu in FOLDERS:
        yield from _split("gemm", "gemm", gemm.rows(gpu, place), {})
        yield from _split("prefill", "attention", prefill.rows(gpu, place), {"mask": "causal"})
        yield from _split("decode", "attention", decode.rows(gpu, place), {"mask": "causal"})
        experts = moe.rows(gpu, place)
        asked = experts.params["dtype"] != "w4a8_mxfp4_mxfp8"  # a type that no workload has: 4-bit weights beside 8-bit rows
        yield from _split("moe", "moe", experts.where(asked), {})


def _split(family: str, workload: str, rows: Any, fixed: Mapping[str, Any]) -> Iterator[Group]:
    from hotlap.core import work
    from hotlap.core.model import machines
    from hotlap.core.model.bounds import bounds

    if not len(rows.seconds):
        return
    known = {one.name for one in work.find(workload).params}
    texts = [name for name in TEXTS if name in rows.params]
    labels = np.array(["|".join(map(str, key)) for key in zip(rows.implementation, *(rows.params[t] for t in texts), strict=True)])
    spec = machines.load(rows.gpu)
    defaults = {one.name: one.default for one in work.find(workload).params}
    for label in np.unique(labels):
        here = labels == label
        first = int(np.flatnonzero(here)[0])
        same = {name: rows.params[name][first].item() for name in texts}
        same = {name: TYPES.get(value, value) for name, value in same.items()}
        numbers = {n: v[here].astype(float) for n, v in rows.params.items() if n in known and n not in texts}
        if family == "decode":
            numbers["query"] = np.ones(int(here.sum()))
        floor, _ = bounds(workload, {**defaults, **fixed, **same, **numbers}, spec)
        yield Group(family, rows.gpu, label.replace("|", " "), rows.seconds[here] / floor)


def main() -> None:
    if find_spec("pyarrow") is None:
        sys.exit("not run, because pyarrow is not installed; pip install pyarrow")
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # research is not in the package
    from research.fit import scores

    all_groups = list(groups(scores.folder()))
    print(f"{'family':<9} {'machine':<14} {'rows':>8} {'faster than the bound':>22} {'by more than 5 %':>17}")
    for family, gpu in dict.fromkeys((g.family, g.gpu) for g in all_groups):
        ratio = np.concatenate([g.ratio for g in all_groups if (g.family, g.gpu) == (family, gpu)])
        print(f"{family:<9} {gpu:<14} {np.isfinite(ratio).sum():>8,} {(ratio < 1).sum():>22,} {(ratio < 1 / (1 + FLOOR)).sum():>17,}")
    ratio = np.concatenate([g.ratio for g in all_groups])
    print(f"{'all':<24} {np.isfinite(ratio).sum():>8,} {(ratio < 1).sum():>22,} {(ratio < 1 / (1 + FLOOR)).sum():>17,}")
    print(f"\nnot bounded, because the table lacks a figure: {np.isnan(ratio).sum():,}")
    print("\nkernels with rows that beat the bound by more than 5 %:")
    for group in all_groups:
        beaten = group.ratio < 1 / (1 + FLOOR)
        if beaten.any():
            share = f"{beaten.sum():>5,} of {len(beaten):>7,}"
            print(f"  {group.family:<8} {group.gpu:<14} {share}, fastest {np.nanmin(group.ratio):.2f} of the bound  {group.name}")


if __name__ == "__main__":
    main()

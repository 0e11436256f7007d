"""Published measurements that coefficients are fitted to and scored on, with the frozen split into five folds."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
FOLDERS = {
    "a100-sxm-80gb": "a100_sxm", "h100-sxm": "h100_sxm", "h200-sxm": "h200_sxm", "b200": "b200_sxm", "l40s": "l40s",
}  # fmt: skip
GROUPS: dict[str, tuple[str, ...]] = {  # parameters that name a shape group of the family
    "gemm": ("n", "k"), "prefill": ("heads", "kv_heads", "head_dim"), "decode": ("heads", "kv_heads", "head_dim"),
    "moe": ("hidden", "inter", "experts", "topk"), "collective": ("op", "gpus"),
}  # fmt: skip
FOLDS = 5  # shape groups are dealt to so many; a fit leaves one fold out


class Rows(NamedTuple):
    """Measured cases of one family on one machine."""

    gpu: str  # slug of the machine table
    params: dict[str, NDArray[Any]]
    seconds: Floats
    power_w: Floats  # NaN where not measured
    implementation: NDArray[np.str_]  # as the model is asked
    fold: NDArray[np.int64]  # of the row's shape group
    held: NDArray[np.bool_]  # not fitted: fold 0, where nothing else is said
    source: NDArray[np.str_]  # "vllm 0.24.0/kernel": library, version and kernel as they were published

    def where(self, mask: NDArray[Any]) -> Rows:
        """Some of the rows, by a mask or by places."""
        params = {name: values[mask] for name, values in self.params.items()}
        return Rows(self.gpu, params, *(column[mask] for column in self[2:]))

    def holding(self, fold: int | None) -> Rows:
        """The same rows with another fold held out; None: with none."""
        return self._replace(held=np.zeros(len(self.seconds), bool) if fold is None else self.fold == fold)


def none(gpu: str) -> Rows:
    """Of a machine on which the family was not measured."""
    empty = np.zeros(0)
    return Rows(gpu, {}, empty, empty, np.zeros(0, str), *split(()), np.zeros(0, str))


def root() -> Path | None:
    """Folder of the measurements: `$HOTLAP_SHARED/data/kernels`, or beside the repository; None where there is none."""
    places = [os.environ.get("HOTLAP_SHARED", ""), str(Path(__file__).parents[2] / ".." / "shared")]
    return next((p for p in (Path(one) / "data" / "kernels" for one in places if one) if p.is_dir()), None)


def split(groups: Iterable[str]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The fold of each row by its shape group, and whether it is held out where nothing else is said."""
    folds = dealt(groups)
    return folds, folds == 0


def dealt(groups: Iterable[str]) -> NDArray[np.int64]:
    """The fold of each shape group, by the SHA-1 of its name ("4096,14336"), so that the split never changes."""
    known: dict[str, int] = {}
    names = list(groups)
    for name in set(names):
        known[name] = int(hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest(), 16) % FOLDS
    return np.array([known[name] for name in names], dtype=np.int64)


def keys(params: dict[str, NDArray[Any]], names: tuple[str, ...]) -> list[str]:
    """Names of shape groups: these parameters, separated by commas."""
    columns = [params[name].tolist() for name in names]
    return [",".join(str(int(v)) if isinstance(v, float) else str(v) for v in row) for row in zip(*columns, strict=True)]

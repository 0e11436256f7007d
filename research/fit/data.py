"""Published measurements that coefficients are fitted to and scored on, with the frozen split."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
FOLDERS = {"a100-sxm-80gb": "a100_sxm", "h100-sxm": "h100_sxm", "h200-sxm": "h200_sxm"}
HELD_OF = 5  # one shape group in five is never fitted


class Rows(NamedTuple):
    """Measured cases of one family on one machine."""

    gpu: str  # slug of the machine table
    params: dict[str, NDArray[Any]]
    seconds: Floats
    power_w: Floats  # NaN where not measured
    implementation: NDArray[np.str_]
    held: NDArray[np.bool_]


def root() -> Path | None:
    """Folder of the measurements: `$HOTLAP_SHARED/data/kernels`, or beside the repository; None where there is none."""
    places = [os.environ.get("HOTLAP_SHARED", ""), str(Path(__file__).parents[2] / ".." / "shared")]
    return next((p for p in (Path(one) / "data" / "kernels" for one in places if one) if p.is_dir()), None)


def held(keys: Iterable[str]) -> NDArray[np.bool_]:
    """Whether a shape group is held out: by its name's CRC-32, so that the split never changes."""
    return np.array([zlib.crc32(key.encode()) % HELD_OF == 0 for key in keys], dtype=bool)

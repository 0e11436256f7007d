"""Pictures against what they should be, pixel by pixel; and what a simulated GPU draws of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.core.record import Check

Array = NDArray[Any]
TILE = 8  # pixels of the side of a tile, in which errors are counted
SIDE = 64  # pixels of the side of a picture that a simulated GPU draws


def compared(got: Array, should: Array, tolerance: float, what: str) -> Check:
    """Every pixel. The error is the largest; the words count the tiles of 8 × 8 that hold one beyond what is allowed."""
    off = np.abs(got.astype(np.float64) - should.astype(np.float64)).max(axis=2)
    error = float(off.max())
    rows, columns = (-(-n // TILE) for n in off.shape)
    bad = np.zeros((rows * TILE, columns * TILE), bool)
    bad[: off.shape[0], : off.shape[1]] = off > tolerance
    tiles = int(bad.reshape(rows, TILE, columns, TILE).any(axis=(1, 3)).sum())
    seen = f"; {tiles} of {rows * columns} tiles differ" if tiles else ""
    return Check(passed=error <= tolerance, what=f"{what}{seen}", error=error, tolerance=tolerance)


def simulated(wrong_tiles: int, seed: int) -> Check:
    """A picture of noise, in which so many tiles hold one pixel that is off by the least step."""
    rng = np.random.default_rng(seed)
    should = rng.integers(0, 255, (SIDE, SIDE, 4), np.uint8)
    got, rows = should.copy(), SIDE // TILE
    for tile in rng.choice(rows * rows, min(wrong_tiles, rows * rows), replace=False).tolist():
        y, x = (TILE * place + int(rng.integers(TILE)) for place in divmod(tile, rows))
        got[y, x, int(rng.integers(4))] += 1
    return compared(got, should, 0.0, f"all pixels of a simulated picture of {SIDE} × {SIDE}")

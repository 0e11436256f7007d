"""Numbers of a file as whole ticks of its own resolution, and back, without loss."""

from __future__ import annotations

import numpy as np

from hotlap.frames.record import MISSING, RAW, Floats, Ints

MOST_DIGITS = 9
CLOSE = 1e-13  # of a value: what its double may be off by, as in 100.06489999999999 for 100.0649
EXACT = 2.0**52  # ticks beyond which doubles have gaps


def of(values: Floats) -> tuple[Ints, int]:
    """Ticks and their decimal places; RAW, and the doubles' bits, where no number of places up to 9 gives the values back."""
    known = np.isfinite(values)
    numbers = values[known]
    sample = numbers[:: max(1, len(numbers) // 1000)]
    for digits in range(MOST_DIGITS + 1):
        if _fits(sample, digits) and _fits(numbers, digits):
            ticks = np.full(len(values), MISSING, np.int64)
            ticks[known] = np.rint(numbers * 10.0**digits).astype(np.int64)
            return ticks, digits
    return np.where(known, values, np.nan).view(np.int64), RAW


def _fits(numbers: Floats, digits: int) -> bool:
    if not len(numbers):
        return True
    scaled = numbers * 10.0**digits
    whole = np.rint(scaled)
    if float(np.abs(whole).max()) >= EXACT:
        return digits == 0 and bool((whole == numbers).all()) and float(np.abs(whole).max()) < 2.0**62
    return bool((np.abs(whole / 10.0**digits - numbers) <= CLOSE * np.maximum(np.abs(numbers), 1.0)).all())

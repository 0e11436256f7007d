"""What a test may ask of a real device while other programs load it: a busy machine can set the device's timer and the wall clock apart."""

from __future__ import annotations

from hotlap.core.record import Samples


def ran(samples: Samples) -> bool:
    """Whether there are numbers whose result is right: measured, or called invalid for its timers alone, which a loaded processor does."""
    return bool(samples.values) and (samples.status == "measured" or samples.cause == "timers")

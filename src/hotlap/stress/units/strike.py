"""Flips single bits where a unit of load keeps its data, to prove that its check finds them, where, and what kind of fault it is.

A transient fault strikes once; a permanent one sets the same bit again each time that the data is made anew. Flips go through the
target's own reads and copies, on any target that keeps real data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hotlap.core.errors import InputError
from hotlap.core.measure.targets.base import Target
from hotlap.stress.units.memory import MemoryUnit
from hotlap.stress.units.products import ProductUnit
from hotlap.stress.units.traffic import Atomics, LinkTraffic

WHERE = ("result", "operand", "memory", "there", "source", "cells")


def flip(target: Target, held: Any, octet: int, bit: int) -> None:
    """Flips a bit of a byte of a target's buffer, or of a tensor."""
    if hasattr(held, "data_ptr"):
        data = held.cpu().contiguous()
        flat = data.view(-1).view(target.library.uint8)
        flat[octet] ^= 1 << bit
        held.copy_(data)
        return
    data = np.array(target.read(held)).reshape(-1)
    data.view(np.uint8)[octet] ^= np.uint8(1 << bit)
    target.copy(held, target.buffer(data))
    target.sync()


def holds(target: Target, held: Any, octet: int, bit: int) -> int:
    """The bit as it stands."""
    data = held.cpu().contiguous().view(-1).view(target.library.uint8).numpy() if hasattr(held, "data_ptr") else target.read(held)
    return int(np.asarray(data).reshape(-1).view(np.uint8)[octet]) >> bit & 1


def arm(unit: Any, where: str, octet: int, bit: int, permanent: bool = False) -> Callable[[], None]:
    """The next unit of work is struck there once; a permanent fault goes on striking until the function returned is called.

    `where`: of products result or operand (A); memory; of the link there (on the device) or source; of atomics cells. `octet`: byte of
    that buffer. Raises InputError for a place that the unit does not have.
    """
    steps: dict[tuple[type, str], tuple[str, str]] = {
        (ProductUnit, "result"): ("run", "c"), (ProductUnit, "operand"): ("put", "a"), (MemoryUnit, "memory"): ("write", "buffer"),
        (LinkTraffic, "there"): ("out", "there"), (LinkTraffic, "source"): ("home", "source"), (Atomics, "cells"): ("add", "buffer"),
    }  # fmt: skip
    step, name = next((found for (kind, at), found in steps.items() if isinstance(unit, kind) and at == where), ("", ""))
    if not step:
        valid = [at for (kind, at) in steps if isinstance(unit, kind)]
        raise InputError(f"{unit.name} has no data called '{where}'; valid: {', '.join(valid)}")
    real, left, stuck = getattr(unit, step), [1], [0]

    def struck() -> None:
        held = getattr(unit, name)
        if not permanent:
            if left[0]:
                left[0] -= 1
                stuck[0] = 1 - holds(unit.target, held, octet, bit)
                flip(unit.target, held, octet, bit)
        else:
            if left[0]:  # the value at which the bit sticks: that which the data does not have now
                left[0], stuck[0] = 0, 1 - holds(unit.target, held, octet, bit)
            if holds(unit.target, held, octet, bit) != stuck[0]:
                flip(unit.target, held, octet, bit)

    def wrapped(*given: Any) -> None:
        real(*given)
        struck()

    setattr(unit, step, wrapped)
    if where in ("operand", "source"):  # these are written once, before any unit of work
        struck()
    return lambda: setattr(unit, step, real)

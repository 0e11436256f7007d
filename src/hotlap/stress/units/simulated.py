"""Units on a simulated GPU: cases that it plays, and wrong results where they were asked for."""

from __future__ import annotations

from typing import Literal

import numpy as np

from hotlap.core import work as works
from hotlap.core.measure.targets.base import Target
from hotlap.core.record import Case
from hotlap.core.work.base import integer, text
from hotlap.core.work.compute import GEMM
from hotlap.core.work.latency import ATOMIC
from hotlap.core.work.link import TRANSFER
from hotlap.core.work.memory import STREAM
from hotlap.stress.units.base import RESULT_BITS, Wrong

SIDE, LEAST = 8192, 1024  # m, n and k; smaller where a product takes long
UNIT_S = 0.1  # what a unit is made to take: calls are as many as fit, whatever the dtype's rate
MOST_CALLS = 4096
CASES = {
    "memory": STREAM.case({"op": "copy", "size": "4 GiB"}), "link": TRANSFER.case({"direction": "h2d", "size": "1 GiB"}),
    "atomics": ATOMIC.case({"contention": "same"}),
}  # fmt: skip


def product(target: Target, dtype: str, seed: int) -> SimulatedUnit:
    """A matrix product, of sides that are halved until a call fits into a unit."""
    side = SIDE
    while True:
        made = SimulatedUnit(target, f"products {dtype}", GEMM.case({"m": side, "n": side, "k": side, "dtype": dtype}), seed)
        if made.call_s <= UNIT_S or side <= LEAST:
            return made
        side //= 2


def other(target: Target, kind: str, seed: int) -> SimulatedUnit:
    """Memory, link or atomics."""
    return SimulatedUnit(target, kind, CASES[kind], seed)


class SimulatedUnit:
    """A case of the simulated GPU; wrong results are those that were asked for."""

    def __init__(self, target: Target, name: str, case: Case, seed: int) -> None:
        self.target, self.name = target, name
        kind = works.find(case.workload)
        self.prepared = target.library.prepare(case)
        self.call_s = target.library.call_s(case)
        self.calls = max(1, min(round(UNIT_S / self.call_s), MOST_CALLS))
        self.side = integer(case.params, "m") if kind.model == "product" else SIDE
        self.flop = 2.0 * self.side**3 * self.calls if kind.model == "product" else 0.0
        self.width = RESULT_BITS.get(text(case.params, "dtype"), 16) if kind.model == "product" else 32  # bits of what is compared
        asked = kind.work(case.params)
        self.moved_bytes = float(asked.link_bytes or asked.working_set_bytes) * self.calls if kind.metric == "bandwidth" else 0.0
        self.steps = asked.steps * self.calls if kind.drawn else 0.0
        self.picture = integer(case.params, "side") if kind.drawn else 0
        self.rng = np.random.default_rng([seed, *name.encode()])

    def run(self) -> None:
        self.target.time(self.prepared.enqueue, self.calls)

    def check(self) -> list[Wrong]:
        check = self.prepared.check()
        if check.passed:
            return []
        if self.picture:
            again: Literal["transient", "permanent"] = "transient" if self.prepared.check().passed else "permanent"
            return [Wrong(check.what, "the picture", f"one that is off by {check.error:g}", [], "picture", again)]
        bit, word = int(self.rng.integers(self.width)), int(self.rng.integers(2**self.width, dtype=np.uint64))
        row, column = self.rng.integers(self.side, size=2)
        place = f"row {row}, column {column} of {self.side} × {self.side}" if self.flop else f"address 0x{4 * (self.side * row + column):x}"
        place = f"cell {column % 64}" if self.name == "atomics" else place
        kind: Literal["transient", "permanent"] = "transient" if self.prepared.check().passed else "permanent"
        digits = self.width // 4
        return [Wrong(place, f"0x{word:0{digits}x}", f"0x{word ^ 1 << bit:0{digits}x}", [bit], "repeat", kind)]

    def facts(self) -> dict[str, float]:
        if self.flop:
            return {name: float(self.side) for name in "mnk"} | {"library": 1.0}
        if self.picture:
            return {"side": float(self.picture)}
        return {"plain": 1.0} if self.moved_bytes else {}

"""Units on a simulated GPU: cases that it plays, and wrong results where they were asked for."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from hotlap import plan as plans
from hotlap import work as works
from hotlap.targets.base import Target
from hotlap.workloads.stress.base import Wrong

SIDE = 8192  # m, n and k
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "memory": ("stream", {"op": "copy", "size": "4 GiB"}), "link": ("transfer", {"direction": "h2d", "size": "1 GiB"}),
    "atomics": ("atomic", {"contention": "same"}),
}  # fmt: skip


def product(target: Target, dtype: str, seed: int) -> Simulated:
    """A matrix product."""
    return Simulated(target, f"products {dtype}", "gemm", {"m": SIDE, "n": SIDE, "k": SIDE, "dtype": dtype}, seed)


def other(target: Target, kind: str, seed: int) -> Simulated:
    """Memory, link or atomics."""
    workload, params = CASES[kind]
    return Simulated(target, kind, workload, params, seed)


class Simulated:
    """A case of the simulated GPU; wrong results are those that were asked for."""

    def __init__(self, target: Target, name: str, workload: str, params: dict[str, Any], seed: int) -> None:
        self.target, self.name = target, name
        case = plans.case(workload, params)
        self.prepared = target.library.prepare(case)
        self.calls = 32
        self.flop = 2.0 * SIDE**3 * self.calls if workload == "gemm" else 0.0
        asked = works.find(workload).work(case.params)
        moved = workload in ("stream", "transfer")
        self.moved_bytes = float(asked.link_bytes or asked.working_set_bytes) * self.calls if moved else 0.0
        self.rng = np.random.default_rng([seed, *name.encode()])

    def run(self) -> None:
        self.target.time(self.prepared.enqueue, self.calls)

    def check(self) -> list[Wrong]:
        if self.prepared.check().passed:
            return []
        bit, word = int(self.rng.integers(32)), int(self.rng.integers(2**32))
        row, column = self.rng.integers(SIDE, size=2)
        place = f"row {row}, column {column} of {SIDE} × {SIDE}" if self.flop else f"address 0x{4 * (SIDE * row + column):x}"
        place = f"cell {column % 64}" if self.name == "atomics" else place
        kind: Literal["transient", "permanent"] = "transient" if self.prepared.check().passed else "permanent"
        return [Wrong(place, f"0x{word:08x}", f"0x{word ^ 1 << bit:08x}", [bit], "repeat", kind)]

    def facts(self) -> dict[str, float]:
        return {"m": float(SIDE), "n": float(SIDE), "k": float(SIDE)} if self.flop else {}

"""What draws: every workload of drawn pixels, texels and triangles, with its picture checked after each unit."""

from __future__ import annotations

from typing import Literal

import numpy as np

from hotlap.core import work as works
from hotlap.core.errors import NotSupported
from hotlap.core.measure import workloads
from hotlap.core.measure.targets.base import Target
from hotlap.core.record import Case
from hotlap.core.work.base import integer
from hotlap.stress.units.base import TRIES, Wrong
from hotlap.stress.units.simulated import SimulatedUnit

SIDES = {"cpu": 256, "gpu": 2048}  # of a picture, in pixels
UNIT_S = 0.02  # what a unit is made to take, before its check
MOST_CALLS = 4096


def cases(target: Target) -> list[Case]:
    """One of each workload that draws. A software adapter gets small pictures."""
    side = SIDES["cpu" if target.device.kind == "cpu" else "gpu"]
    return [one.case({"side": side}) for one in works.WORKLOADS.values() if one.drawn]


def units(target: Target, seed: int) -> tuple[list[PictureUnit | SimulatedUnit], dict[str, str]]:
    """The units, and those that the device cannot do, with the reason."""
    drawing: list[PictureUnit | SimulatedUnit] = []
    missing: dict[str, str] = {}
    for case in cases(target):
        name = f"graphics {case.workload}"
        try:
            drawing.append(SimulatedUnit(target, name, case, seed) if target.dialect == "model" else PictureUnit(target, name, case, seed))
        except NotSupported as error:
            missing[name] = error.reason
    return drawing, missing


class PictureUnit:
    """A picture drawn again and again, then once with fresh colours, and every pixel of that compared."""

    flop = moved_bytes = 0.0

    def __init__(self, target: Target, name: str, case: Case, seed: int) -> None:
        self.target, self.name = target, name
        self.prepared = workloads.prepare(target, case, int(np.random.default_rng([seed, *name.encode()]).integers(2**31)))
        target.time(self.prepared.enqueue, 1)  # drivers compile at the first
        self.calls = 1
        self.calls = int(np.clip(UNIT_S / max(target.time(self.prepared.enqueue, 1).wall_s, 1e-6), 1, MOST_CALLS))

        self.steps = works.find(case.workload).work(case.params).steps * self.calls
        self.side = integer(case.params, "side")

    def run(self) -> None:
        self.target.time(self.prepared.enqueue, self.calls)

    def check(self) -> list[Wrong]:
        check = self.prepared.check()
        if check.passed:
            return []
        again = [self.prepared.check().passed for _ in range(TRIES)]
        kind: Literal["transient", "permanent"] = "transient" if all(again) else "permanent"
        return [Wrong(check.what, "the picture", f"one that is off by {check.error:g}", [], "picture", kind)]

    def facts(self) -> dict[str, float]:
        return {"side": float(self.side)}

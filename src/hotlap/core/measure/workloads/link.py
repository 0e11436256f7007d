"""Transfers between memories, checked byte by byte."""

from __future__ import annotations

import numpy as np

from hotlap.core.errors import NotSupported
from hotlap.core.measure.targets.base import Target, Where
from hotlap.core.measure.workloads.base import Prepared
from hotlap.core.record import Case, Check
from hotlap.core.work.base import integer


def prepare(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    """Dispatches by workload."""
    return _peer(target, case, rng) if case.workload == "peer" else _transfer(target, case, rng)


def _transfer(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    direction, size = str(case.params["direction"]), integer(case.params, "size")
    where: Where = "pinned" if case.params["memory"] == "pinned" else "pageable"
    up, down = direction in ("h2d", "both"), direction in ("d2h", "both")
    data = rng.integers(0, 256, size, np.uint8)
    outgoing, inbound = target.buffer(data, where), target.buffer(size)  # host → device
    stored, incoming = target.buffer(data), target.buffer(size, where)  # device → host

    def enqueue(calls: int) -> None:
        for _ in range(calls):
            if up:
                target.copy(inbound, outgoing)
            if down:
                target.copy(incoming, stored, queue=1 if up else 0)

    def check() -> Check:
        enqueue(1)
        target.sync()
        pairs = [(target.read(inbound), data)] * up + [(target.read(incoming), data)] * down
        wrong = sum(int((got.view(np.uint8) != expected).sum()) for got, expected in pairs)
        return Check(passed=wrong == 0, what=f"all {size} bytes compared, each way", error=float(wrong), tolerance=0.0)

    return Prepared(
        enqueue, check, timer="wall" if direction == "both" else "device", variant=f"{where} {direction}",
        capture=where == "pinned", host_part=where == "pageable",
    )


def _peer(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    to, size = integer(case.params, "to"), integer(case.params, "size")
    if target.dialect != "torch":
        raise NotSupported("copies between peers are measured by PyTorch; use --target torch:cuda or torch:xpu")
    torch, place = target.library, str(target.device.facts["place"])
    kind = place.partition(":")[0]
    count = getattr(torch, kind).device_count() if kind in ("cuda", "xpu") else 1
    if to >= count or to == target.device.index:
        raise NotSupported(f"needs two devices of one target; there {'is' if count == 1 else 'are'} {count} here")
    data = torch.from_numpy(rng.integers(0, 256, size, np.uint8)).to(place)
    there = torch.zeros(size, dtype=torch.uint8, device=f"{kind}:{to}")

    def enqueue(calls: int) -> None:
        for _ in range(calls):
            there.copy_(data, non_blocking=True)

    def check() -> Check:
        enqueue(1)
        target.sync()
        wrong = int((there.cpu() != data.cpu()).sum())
        return Check(passed=wrong == 0, what=f"all {size} bytes compared", error=float(wrong), tolerance=0.0)

    return Prepared(enqueue, check, variant=f"{place} to {kind}:{to}")

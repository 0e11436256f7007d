"""What starting, waiting and agreeing cost: launch, synchronise, atomics, barriers."""

from __future__ import annotations

import numpy as np

from hotlap.core.errors import NotSupported
from hotlap.core.measure.targets.base import Target, TargetKernel
from hotlap.core.measure.workloads import source
from hotlap.core.measure.workloads.base import Prepared
from hotlap.core.measure.workloads.layout import group_size
from hotlap.core.record import Case, Check
from hotlap.core.work.base import integer
from hotlap.core.work.latency import ATOMIC_ITEMS, barrier_passes


def prepare(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    """Dispatches by workload."""
    if case.workload == "sync":
        return _sync(target, case)
    if case.workload == "launch":
        return _launch_torch(target, case) if target.dialect == "torch" else _launch(target, case)
    if target.dialect == "torch":
        raise NotSupported(f"PyTorch has no {case.workload} of its own; measured through opencl or cuda")
    return _atomic(target, case) if case.workload == "atomic" else _barrier(target, case)


def _launch(target: Target, case: Case) -> Prepared:
    """An empty kernel. The check runs a kernel that counts, by the same way, and reads the count."""
    mode = str(case.params["mode"])
    if mode == "graph" and "graph" not in target.features:
        raise NotSupported(f"{target.device.target} has no graphs here")
    empty = target.kernel(source("latency", target.dialect), "empty")
    counted = target.kernel(source("latency", target.dialect), "counted")
    cell = target.buffer(np.zeros(1, np.uint32))

    def run(kernel: TargetKernel, calls: int) -> None:
        for _ in range(calls):
            kernel(1, 1, cell)
            if mode == "single":
                target.sync()

    def check() -> Check:
        target.time(lambda n: run(counted, n), 100, graph=mode == "graph")
        got = int(target.read(cell)[0])
        return Check(passed=got == 100, what="launches counted by the device", error=float(abs(got - 100)), tolerance=0.0)

    return Prepared(lambda n: run(empty, n), check, timer="wall", graph=mode == "graph", variant="empty kernel")


def _launch_torch(target: Target, case: Case) -> Prepared:
    """The smallest PyTorch operation there is: one addition in place on one element."""
    mode, torch = str(case.params["mode"]), target.library
    if mode == "graph" and "graph" not in target.features:
        raise NotSupported("PyTorch has graphs on CUDA and ROCm alone")
    operand = torch.zeros(1, device=target.device.facts["place"])

    def enqueue(calls: int) -> None:
        for _ in range(calls):
            operand.add_(1)
            if mode == "single":
                target.sync()

    def check() -> Check:
        operand.zero_()
        target.time(enqueue, 100, graph=mode == "graph")
        error = abs(float(operand[0]) - 100)
        return Check(passed=error == 0, what="additions counted", error=error, tolerance=0.0)

    return Prepared(enqueue, check, timer="wall", graph=mode == "graph", variant="torch add_ on one element")


def _sync(target: Target, case: Case) -> Prepared:
    by_event = case.params["kind"] == "event"
    if by_event and "events" not in target.features:
        raise NotSupported(f"{target.device.target} has no events on this device")

    def enqueue(calls: int) -> None:
        for _ in range(calls):
            target.sync(by_event)

    def check() -> Check:
        data = np.arange(1024, dtype=np.uint32)
        there = target.buffer(np.zeros(1024, np.uint32))
        target.copy(there, target.buffer(data, "pageable"))
        target.sync(by_event)
        wrong = int((target.read(there) != data).sum())
        return Check(passed=wrong == 0, what="a copy has landed after waiting", error=float(wrong), tolerance=0.0)

    return Prepared(enqueue, check, timer="wall", variant="record and wait" if by_event else "synchronise an idle device")


def _atomic(target: Target, case: Case) -> Prepared:
    repeats, spread = integer(case.params, "repeats"), 16 if case.params["contention"] == "spread" else 0
    cells = target.buffer(np.zeros(ATOMIC_ITEMS * max(spread, 1) if spread else 16, np.uint32))
    kernel = target.kernel(source("latency", target.dialect), "atomic")
    launches = 0

    def enqueue(calls: int) -> None:
        nonlocal launches
        launches += calls
        for _ in range(calls):
            kernel(ATOMIC_ITEMS, group_size(target), cells, np.uint32(repeats), np.uint32(spread))

    def check() -> Check:
        got = int(target.read(cells).astype(np.uint64).sum()) % 2**32 if not spread else _spread_sum(target.read(cells), spread)
        expected = launches * repeats * (ATOMIC_ITEMS if not spread else 1) % 2**32
        return Check(passed=got == expected, what="additions counted in memory", error=float(abs(got - expected)), tolerance=0.0)

    return Prepared(enqueue, check, variant=f"{ATOMIC_ITEMS} work-items")


def _spread_sum(cells: np.ndarray[tuple[int, ...], np.dtype[np.uint32]], spread: int) -> int:
    """The one value that every cell in use must hold, or -1."""
    used = cells[::spread]
    return int(used[0]) if bool((used == used[0]).all()) else -1


def _barrier(target: Target, case: Case) -> Prepared:
    passes, group = barrier_passes(case.params), integer(case.params, "group")
    if group > int(target.device.facts.get("max_group", 1024)):
        raise NotSupported(f"groups of this device hold at most {target.device.facts.get('max_group')} work-items")
    out = target.buffer(np.zeros(group, np.uint32))
    kernel = target.kernel(source("latency", target.dialect), "barrier_ring")

    def enqueue(calls: int) -> None:
        for _ in range(calls):
            kernel(group, group, out, np.uint32(passes))

    def check() -> Check:
        enqueue(1)
        wrong = int((target.read(out) != (np.arange(group) + passes) % group).sum())
        return Check(passed=wrong == 0, what=f"values after {passes} passes round the group", error=float(wrong), tolerance=0.0)

    return Prepared(enqueue, check, variant=f"one group of {group}")

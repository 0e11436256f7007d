"""Memory access that is not contiguous: strided and random gather, and the pointer chase."""

from __future__ import annotations

import numpy as np

from hotlap.core.errors import NotSupported
from hotlap.core.measure.targets.base import Array, Target
from hotlap.core.measure.workloads import source
from hotlap.core.measure.workloads.base import Prepared
from hotlap.core.measure.workloads.flush import flusher
from hotlap.core.measure.workloads.layout import layout, most_turns
from hotlap.core.record import Case, Check
from hotlap.core.work.base import integer
from hotlap.core.work.memory import LINE, chase_hops, gather_shape


def prepare(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    """Dispatches by workload and dialect."""
    if case.workload == "chase":
        if target.dialect == "torch":
            raise NotSupported("PyTorch has no operation that follows pointers; measured through opencl or cuda")
        return _chase(target, case, rng)
    return _gather_torch(target, case, rng) if target.dialect == "torch" else _gather(target, case, rng)


def _inputs(case: Case, rng: np.random.Generator) -> tuple[Array, Array, int]:
    """Random table, which of its elements are read (none for strided, where the kernel counts), and the stride."""
    table, count = gather_shape(case.params)
    if table > 2**32:
        raise NotSupported("the table needs more than 32-bit indices; at most 16 GiB")
    values = rng.random(table, np.float32)
    if case.params["pattern"] == "random":
        return values, rng.integers(0, table, count, dtype=np.uint32), 1
    return values, np.zeros(1, np.uint32), integer(case.params, "stride")


def _gathered(case: Case, values: Array, index: Array, stride: int) -> Array:
    return values[index] if case.params["pattern"] == "random" else values[::stride]


def _gather(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    values, index, stride = _inputs(case, rng)
    count = gather_shape(case.params)[1]
    shape = layout(target, 4, 4 * count)
    kernel = target.kernel(source("memory", target.dialect), f"gather_{case.params['pattern']}", shape.defines("float"))
    table, places, out = target.buffer(values), target.buffer(index), target.buffer(np.zeros(count, np.float32))

    def enqueue(calls: int) -> None:
        for _ in range(calls):
            kernel(shape.items, shape.group, out, table, places, np.uint64(count), np.uint32(stride))

    def check() -> Check:
        fresh = rng.random(len(values), np.float32)
        target.copy(table, target.buffer(fresh, "pageable"))
        target.sync()
        enqueue(1)
        wrong = int((target.read(out) != _gathered(case, fresh, index, stride)).sum())
        return Check(passed=wrong == 0, what=f"all {count} gathered elements, exact", error=float(wrong), tolerance=0.0)

    return Prepared(enqueue, check, variant="float", flush=flusher(target, case), capture=True)


def _gather_torch(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    torch, place = target.library, target.device.facts["place"]
    values, index, stride = _inputs(case, rng)
    if len(values) >= 2**31:
        raise NotSupported("PyTorch's 32-bit indices are signed; at most 8 GiB")
    table, places = torch.from_numpy(values).to(place), torch.from_numpy(index.astype(np.int32)).to(place)
    out = torch.zeros(gather_shape(case.params)[1], dtype=torch.float32, device=place)
    random = case.params["pattern"] == "random"

    def enqueue(calls: int) -> None:
        for _ in range(calls):
            if random:
                torch.index_select(table, 0, places, out=out)
            else:
                out.copy_(table[::stride])

    def check() -> Check:
        fresh = rng.random(len(values), np.float32)
        table.copy_(torch.from_numpy(fresh))
        enqueue(1)
        wrong = int((out.cpu().numpy() != _gathered(case, fresh, index, stride)).sum())
        return Check(passed=wrong == 0, what=f"all {len(out)} gathered elements, exact", error=float(wrong), tolerance=0.0)

    return Prepared(enqueue, check, variant="index_select" if random else "strided copy", flush=flusher(target, case), capture=True)


def _chase(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    """One random cycle through all cache lines of the working set; each call goes on where the last one stopped."""
    lines, hops, step = max(int(str(case.params["size"])) // LINE, 2), chase_hops(case.params), LINE // 4
    if lines * step > 2**32:
        raise NotSupported("the working set needs more than 32-bit indices; at most 16 GiB")
    order = rng.permutation(lines).astype(np.uint32)
    cycle = np.zeros(lines * step, np.uint32)
    cycle[order.astype(np.int64) * step] = np.roll(order, -1) * np.uint32(step)
    links, place = target.buffer(cycle), target.buffer(np.array([order[0] * step], np.uint32))
    kernel = target.kernel(source("memory", target.dialect), "chase", ["S=float", "T=float"])
    launches, turns = 0, most_turns(target)

    def enqueue(calls: int) -> None:
        nonlocal launches
        launches += calls
        for _ in range(calls):
            for first in range(0, hops, turns):
                kernel(1, 1, links, place, np.uint32(min(turns, hops - first)))

    def check() -> Check:
        enqueue(1)
        expected = int(order[launches * hops % lines]) * step
        got = int(target.read(place)[0])
        return Check(passed=got == expected, what=f"place after {launches * hops} hops", error=float(got != expected), tolerance=0.0)

    return Prepared(enqueue, check, variant=f"{lines} lines of {LINE} B in one random cycle")

"""Memory access that is not contiguous: strided and random gather, and the pointer chase."""

from __future__ import annotations

import numpy as np

from hotlap.errors import NotSupported
from hotlap.record import Case, Check
from hotlap.targets.base import Array, Target
from hotlap.work.memory import LINE, chase_hops, gather_elements
from hotlap.workloads import source
from hotlap.workloads.base import Prepared
from hotlap.workloads.flush import flusher
from hotlap.workloads.layout import layout


def prepare(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    """Dispatches by workload and dialect."""
    if case.workload == "chase":
        if target.dialect == "torch":
            raise NotSupported("PyTorch has no operation that follows pointers; measured through opencl or cuda")
        return _chase(target, case, rng)
    return _gather_torch(target, case, rng) if target.dialect == "torch" else _gather(target, case, rng)


def _index(case: Case, table: int, count: int, rng: np.random.Generator) -> tuple[Array, int]:
    """Which elements are read: places (none for strided, where the kernel counts) and the stride."""
    if case.params["pattern"] == "random":
        return rng.integers(0, table, count, dtype=np.uint32), 1
    return np.zeros(1, np.uint32), int(str(case.params["stride"]))


def _gather(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    count, table = gather_elements(case.params), int(str(case.params["size"])) // 4
    index, stride = _index(case, table, count, rng)
    shape = layout(target, 4)
    kernel = target.kernel(source("memory"), f"gather_{case.params['pattern']}", shape.defines("float"))
    values = target.buffer(np.zeros(max(table, count * stride), np.float32))
    places, out = target.buffer(index), target.buffer(np.zeros(count, np.float32))

    def enqueue(calls: int) -> None:
        for _ in range(calls):
            kernel(shape.items, shape.group, out, values, places, np.uint64(count), np.uint32(stride))

    def check() -> Check:
        fresh = rng.random(max(table, count * stride), np.float32)
        target.copy(values, target.buffer(fresh, "pageable"))
        target.sync()
        enqueue(1)
        expected = fresh[index] if case.params["pattern"] == "random" else fresh[: count * stride : stride]
        wrong = int((target.read(out) != expected).sum())
        return Check(passed=wrong == 0, what=f"all {count} gathered elements, exact", error=float(wrong), tolerance=0.0)

    return Prepared(enqueue, check, variant="float", flush=flusher(target, case))


def _gather_torch(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    torch, place = target.library, target.device.facts["place"]
    count, table = gather_elements(case.params), int(str(case.params["size"])) // 4
    index, stride = _index(case, table, count, rng)
    values = torch.zeros(max(table, count * stride), dtype=torch.float32, device=place)
    out = torch.zeros(count, dtype=torch.float32, device=place)
    places = torch.from_numpy(index.astype(np.int64)).to(place)
    random = case.params["pattern"] == "random"

    def enqueue(calls: int) -> None:
        for _ in range(calls):
            if random:
                torch.index_select(values, 0, places, out=out)
            else:
                out.copy_(values[: count * stride : stride])

    def check() -> Check:
        fresh = rng.random(len(values), np.float32)
        values.copy_(torch.from_numpy(fresh))
        enqueue(1)
        expected = fresh[index] if random else fresh[: count * stride : stride]
        wrong = int((out.cpu().numpy() != expected).sum())
        return Check(passed=wrong == 0, what=f"all {count} gathered elements, exact", error=float(wrong), tolerance=0.0)

    return Prepared(enqueue, check, variant="index_select, 64-bit indices" if random else "strided copy", flush=flusher(target, case))


def _chase(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    """One random cycle through all cache lines of the working set; each call goes on where the last one stopped."""
    lines, hops, step = max(int(str(case.params["size"])) // LINE, 2), chase_hops(case.params), LINE // 4
    if lines * step > 2**32:
        raise NotSupported("the working set needs more than 32-bit indices; at most 16 GiB")
    order = rng.permutation(lines).astype(np.uint32)
    cycle = np.zeros(lines * step, np.uint32)
    cycle[order.astype(np.int64) * step] = np.roll(order, -1) * np.uint32(step)
    links, place = target.buffer(cycle), target.buffer(np.array([order[0] * step], np.uint32))
    kernel = target.kernel(source("memory"), "chase", ["S=float", "T=float"])
    made = 0

    def enqueue(calls: int) -> None:
        nonlocal made
        made += calls
        for _ in range(calls):
            kernel(1, 1, links, place, np.uint32(hops))

    def check() -> Check:
        enqueue(1)
        expected = int(order[made * hops % lines]) * step
        got = int(target.read(place)[0])
        return Check(passed=got == expected, what=f"place after {made * hops} hops", error=float(got != expected), tolerance=0.0)

    return Prepared(enqueue, check, variant=f"{lines} lines of {LINE} B in one random cycle")

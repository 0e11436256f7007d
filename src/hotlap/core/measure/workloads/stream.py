"""Contiguous memory: read, write, copy, scale, add, triad. Checked element by element on the device itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hotlap.core.errors import NotSupported
from hotlap.core.measure.targets.base import Buffer, Target, TargetKernel
from hotlap.core.measure.workloads import source
from hotlap.core.measure.workloads.base import Prepared
from hotlap.core.measure.workloads.flush import flusher
from hotlap.core.measure.workloads.layout import layout, most_turns
from hotlap.core.record import Case, Check, Notice
from hotlap.core.units import size
from hotlap.core.work.base import DTYPES
from hotlap.core.work.memory import STREAM_OPS, stream_elements

SCALAR = {"fp32": "float", "fp64": "double"}
NUMPY: Mapping[str, Any] = {"fp32": np.float32, "fp64": np.float64}
S = 3
PASSES_CHECKED = 2
CHUNK = 1 << 26  # elements checked at a time
PASS_BYTES = {"cpu": 128 << 20, "gpu": 32 << 20}
"""Bytes to move in one launch, per compute unit: small working sets are passed over until a launch's own cost is under 1 %."""


def prepare(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    """Dispatches by dialect."""
    if str(case.params["dtype"]) not in target.features:
        raise NotSupported(f"this device has no {case.params['dtype']}")
    return _torch(target, case, rng) if target.dialect == "torch" else _kernels(target, case, rng)


def factors(op: str, s: int) -> tuple[int, int, int]:
    """What a[i] is: factors of b[i] and of c[i], and a constant."""
    return {"write": (0, 0, s), "copy": (1, 0, 0), "scale": (s, 0, 0), "add": (1, 1, 0), "triad": (1, s, 0)}[op]


class _Stream:
    """Buffers and kernels of one case in the C dialect."""

    def __init__(self, target: Target, case: Case, rng: np.random.Generator) -> None:
        self.op, dtype = str(case.params["op"]), str(case.params["dtype"])
        self.target, self.rng, self.real = target, rng, NUMPY[dtype]
        self.shape = layout(target, DTYPES[dtype], stream_elements(case.params))
        defines, text = self.shape.defines(SCALAR[dtype]), source("memory", target.dialect)
        self.run = target.kernel(text, f"stream_{self.op}", defines)
        self.fill = target.kernel(text, "fill", defines)
        self.n = stream_elements(case.params)
        self.vectors = np.uint64(self.n // self.shape.width)
        read, written, _ = STREAM_OPS[self.op]
        size = self.n * DTYPES[dtype]
        out = size if written else self.shape.items * self.shape.width * DTYPES[dtype]
        tiny = target.buffer(64)  # stands in for an array that the operation does not use
        self.a = target.buffer(out)
        self.b = target.buffer(size) if read else tiny
        self.c = target.buffer(size) if read > 1 else tiny
        self.seeds = (0, 0)
        self.refill(1023)
        moved = (read + written) * size
        per_unit = PASS_BYTES.get(target.device.kind, 32 << 20)
        turns = 1 + int(self.vectors) // self.shape.items  # of a pass, in one work-item
        self.passes = max(1, min(per_unit * (target.device.compute_units or 1) // moved, most_turns(target) // (2 * turns)))
        self.read_bytes = read * size

    def launch(self, kernel: TargetKernel, *args: Buffer | np.generic) -> None:
        kernel(self.shape.items, self.shape.group, *args)

    def refill(self, mask: int) -> None:
        self.seeds = (int(self.rng.integers(2**31)), int(self.rng.integers(2**31)))
        for buffer, seed in zip((self.b, self.c), self.seeds, strict=True):
            if buffer.nbytes > 64:
                self.launch(self.fill, buffer, np.uint64(self.n), np.uint32(seed), np.uint32(mask))

    def once(self, passes: int, s: int = S) -> None:
        self.launch(self.run, self.a, self.b, self.c, self.vectors, np.uint32(passes), self.real(s))

    def enqueue(self, calls: int) -> None:
        """A call is one pass; whole launches of `passes`, then the rest."""
        whole, rest = divmod(calls, self.passes)
        for _ in range(whole):
            self.once(self.passes)
        if rest:
            self.once(rest)


def _kernels(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    work = _Stream(target, case, rng)
    path = f"{SCALAR[str(case.params['dtype'])]}{work.shape.width}"
    variant = f"{path}, {work.passes} passes a launch" if work.passes > 1 else path
    return Prepared(
        work.enqueue, check=lambda: _check_read(work) if work.op == "read" else _check_write(work, case),
        variant=variant, code_path=path, flush=flusher(target, case), capture=True, multiple=work.passes, passes=work.passes,
        notices=lambda: _near(work),
    )


def _near(work: _Stream) -> list[Notice]:
    """On GPUs every pass reads other parts in each unit, so that first caches are missed: not where one of them holds all of it."""
    device, blocks = work.target.device, work.shape.items // work.shape.group
    fits = work.read_bytes <= int(device.facts.get("shared_per_unit_bytes", 0)) or blocks < (device.compute_units or 1)
    if device.kind != "gpu" or work.passes < 2 or not work.read_bytes or not fits:
        return []
    seen = f"{blocks} blocks read {size(work.read_bytes)} again and again: from the first cache of each unit that runs one, not from L2"
    return [Notice(code="first_cache", seen=seen)]


def _check_write(work: _Stream, case: Case) -> Check:
    """Fresh input and s, and every element against the formula, computed by another kernel from the seeds alone.

    Three passes where a work-item owns its stretch; elsewhere one, since passes of different groups may end in any order.
    """
    s = int(work.rng.integers(S + 1, 10))
    work.refill(1023)
    work.once(3 if work.shape.blocked else 1, s)
    defines = work.shape.defines(SCALAR[str(case.params["dtype"])])
    verify = work.target.kernel(source("memory", work.target.dialect), "stream_verify", defines)
    wrong = work.target.buffer(np.zeros(1, np.uint32))
    terms = [work.real(f) for f in factors(work.op, s)]
    seeds = [np.uint32(s) for s in work.seeds]
    work.launch(verify, work.a, np.uint64(work.n), *seeds, *terms, wrong)
    count = int(work.target.read(wrong)[0])
    return Check(passed=count == 0, what=f"all {work.n} elements recomputed on the device, exact", error=float(count), tolerance=0.0)


def _check_read(work: _Stream) -> Check:
    """Fresh ones and zeros, so that the float sums are exact, against their sum in whole numbers."""
    work.refill(1)
    work.once(PASSES_CHECKED)
    lanes = work.target.read(work.a).view(work.real)
    defines = work.shape.defines("float" if work.real is np.float32 else "double")
    total = work.target.kernel(source("memory", work.target.dialect), "fill_sum", defines)
    sums = work.target.buffer(np.zeros(work.shape.items, np.uint64))
    work.launch(total, sums, np.uint64(work.n), np.uint32(work.seeds[0]), np.uint32(1))
    expected = float(PASSES_CHECKED * work.target.read(sums).sum())
    got = float(lanes.astype(np.float64).sum() - S * lanes.size)
    return Check(passed=got == expected, what=f"sum of {work.n} elements, exact", error=abs(got - expected), tolerance=0.0)


def _torch(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    torch, op, dtype = target.library, str(case.params["op"]), str(case.params["dtype"])
    n = stream_elements(case.params)
    kind = {"fp32": torch.float32, "fp64": torch.float64}[dtype]
    read, written, _ = STREAM_OPS[op]
    place = target.device.facts["place"]
    try:
        a, b, c = (torch.ones(n if wanted else 1, dtype=kind, device=place) for wanted in (written, read, read > 1))
    except (RuntimeError, MemoryError) as error:
        raise NotSupported(f"the working set does not fit the device's memory ({str(error).splitlines()[0]})") from error
    total = torch.ones((), dtype=kind, device=place)
    steps: dict[str, Callable[[], Any]] = {
        "read": lambda: torch.sum(b, dim=0, out=total), "write": lambda: a.fill_(S), "copy": lambda: a.copy_(b),
        "scale": lambda: torch.mul(b, S, out=a), "add": lambda: torch.add(b, c, out=a),
        "triad": lambda: torch.add(b, c, alpha=S, out=a),
    }
    step = steps[op]

    def enqueue(calls: int) -> None:
        for _ in range(calls):
            step()

    def check() -> Check:
        generator = torch.Generator(device=place).manual_seed(int(rng.integers(2**31)))
        for array in (b, c):
            array.random_(0, 1024 if op != "read" else 2, generator=generator)
        if written:
            a.fill_(-1)
        step()
        if op == "read":
            expected = float(sum(int(part.count_nonzero()) for part in b.split(CHUNK)))
            error = abs(float(total) - expected)
            return Check(passed=error <= 1e-6 * n, what=f"sum of {n} elements", error=error, tolerance=1e-6 * n)
        kb, kc, k = factors(op, S)
        empty = torch.zeros(1, dtype=kind, device=place)
        parts = zip(a.split(CHUNK), *(x.split(CHUNK) if f else [empty] * (n // CHUNK + 1) for x, f in ((b, kb), (c, kc))), strict=False)
        wrong = sum(int((pa != pb * kb + pc * kc + k).sum()) for pa, pb, pc in parts)  # whole numbers below 2²⁴: exact in fp32
        return Check(passed=wrong == 0, what=f"all {n} elements recomputed, exact", error=float(wrong), tolerance=0.0)

    return Prepared(enqueue, check, variant=f"torch {op}", flush=flusher(target, case), capture=True)

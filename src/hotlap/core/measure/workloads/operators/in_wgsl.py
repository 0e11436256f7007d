"""Matrix products and operations on rows by kernels of Hotlap's own in WGSL, fp32: on adapters that have no library of operators.

Operands are whole numbers small enough that sums are exact. A product is proved by Freivalds' check: C·x = A·(B·x) for random whole x, in
fp64 without rounding, so that a wrong element is missed once in a million (Freivalds, "Probabilistic machines can use less running time",
IFIP 1977). Rows are recomputed on the host. Both look at an output of the timed loop, then at one of fresh operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from hotlap.core.errors import NotSupported
from hotlap.core.measure.targets.base import Array, Target
from hotlap.core.measure.workloads import source
from hotlap.core.measure.workloads.base import Prepared
from hotlap.core.measure.workloads.flush import flusher
from hotlap.core.measure.workloads.layout import most_turns
from hotlap.core.measure.workloads.operators.base import complete, sizes
from hotlap.core.measure.workloads.operators.rowwise_backward import EPSILON
from hotlap.core.record import Case, Check
from hotlap.core.work.compute import GEMM
from hotlap.core.work.network import ROWWISE

GROUP, TILE, TAKEN = 256, 64, 16  # items of a group; rows and columns of C that it makes; of k at a time
MOST_GROUPS = 32768  # of rows: some take several
LARGEST = 4  # of an operand's elements: sums of 2**20 products are exact in fp32
CHECKED = 2**20  # range of what C is multiplied by
NEAR = 2.0**-23 * 64  # of softmax and norms, relative: WGSL leaves exp() up to 3 + 2·|x| units in the last place
Rows = Callable[[Array, Array], Array]
RULES: Mapping[str, Rows] = {
    "sum": lambda x, _: x.sum(1), "max": lambda x, _: x.max(1),
    "softmax": lambda x, _: np.exp(x - x.max(1, keepdims=True)) / np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True),
    "rmsnorm": lambda x, w: x / np.sqrt((x * x).mean(1, keepdims=True) + EPSILON) * w,
}  # fmt: skip
EXACT = ("sum", "max")


def prepare(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    """Raises NotSupported for other operators, types and settings."""
    makers = {GEMM.name: _product, ROWWISE.name: _rows}
    if case.workload not in makers:
        raise NotSupported(f"Hotlap has no kernel of {case.workload} in WGSL; it has {', '.join(makers)}, and torch the others")
    if case.params["dtype"] != "fp32":
        raise NotSupported(f"Hotlap's kernels in WGSL are of fp32, not {case.params['dtype']}; torch has it")
    if int(target.device.facts.get("max_group", GROUP)) < GROUP:
        raise NotSupported(f"this adapter's groups have fewer than {GROUP} work-items")
    return makers[case.workload](target, case, rng)


def _whole(rng: np.random.Generator, *shape: int) -> Array:
    return rng.integers(-LARGEST, LARGEST + 1, shape).astype(np.float32)


class _Run:
    """A kernel with its operands, which are drawn anew by `draw`."""

    def __init__(self, target: Target, name: str, operands: Sequence[Array], out: int) -> None:
        self.target, self.operands = target, list(operands)
        self.kernel = target.kernel(source("operators", "wgsl"), name)
        self.held = [target.buffer(one) for one in operands]
        self.out = target.buffer(np.zeros(out, np.float32))

    def draw(self, operands: Sequence[Array]) -> None:
        self.operands = list(operands)
        for held, one in zip(self.held, operands, strict=True):
            self.target.copy(held, self.target.buffer(one, "pageable"))

    def result(self) -> Array:
        return self.target.read(self.out)


def _product(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    given = complete(case)
    m, n, k = sizes(given, "m", "n", "k")
    usual = {"batch": 1, "layout": "nn", "epilogue": "none", "pad": 0}
    if other := next((f"{name}={given[name]}" for name, value in usual.items() if given[name] != value), ""):
        raise NotSupported(f"Hotlap's product in WGSL is plain, without {other}; torch has it")
    if given["cache"] == "rotated":
        raise NotSupported("inputs are not rotated in WGSL: give cache=warm or cache=cold")
    if 2 * k > most_turns(target):
        raise NotSupported(f"this adapter leaves loops of {2 * k} turns before their end")
    wide, high = -(-n // TILE), -(-m // TILE)
    run = _Run(target, "product", (_whole(rng, m, k), _whole(rng, k, n)), m * n)
    numbers = [np.uint32(value) for value in (m, n, k, wide)]

    def enqueue(calls: int) -> None:
        for _ in range(calls):
            run.kernel(wide * high * GROUP, GROUP, *run.held, run.out, *numbers)

    def error() -> float:
        a, b = (one.astype(np.float64) for one in run.operands)
        x = rng.integers(0, CHECKED, n).astype(np.float64)
        return float(np.abs(run.result().reshape(m, n).astype(np.float64) @ x - a @ (b @ x)).max())

    def check() -> Check:
        wrong = error()
        run.draw((_whole(rng, m, k), _whole(rng, k, n)))
        target.copy(run.out, target.buffer(np.full(m * n, np.nan, np.float32), "pageable"))
        enqueue(1)
        return _checked(float(np.max([wrong, error()])), 0.0, f"all {m} × {n} elements, by Freivalds' check, exact")

    return Prepared(enqueue, check, variant=f"Hotlap's own, fp32, {TILE} × {TILE}", flush=flusher(target, case))


def _rows(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    op = str(case.params["op"])
    rows, columns = sizes(case.params, "rows", "columns")
    if op not in RULES:
        raise NotSupported(f"Hotlap has no kernel of rowwise {op} in WGSL; it has {', '.join(RULES)}, and torch the others")
    if rows * columns >= 2**32 or columns > 2**20:
        raise NotSupported("the kernel counts elements in 32 bits, and columns up to 2**20")
    groups = min(rows, MOST_GROUPS)
    turns = -(-rows // groups)
    if 4 * turns * (-(-columns // GROUP) + 16) > most_turns(target):
        raise NotSupported("this adapter leaves loops of so many turns before their end")
    weighted = op == "rmsnorm"
    weight = _whole(rng, columns)

    def operands() -> list[Array]:
        return [_whole(rng, rows, columns), *([weight] if weighted else [])]

    run = _Run(target, f"rows_{op}", operands(), rows if op in EXACT else rows * columns)
    numbers: list[np.generic] = [np.uint32(value) for value in (rows, columns, turns)]
    numbers += [np.float32(EPSILON)] if weighted else []

    def enqueue(calls: int) -> None:
        for _ in range(calls):
            run.kernel(groups * GROUP, GROUP, run.out, *run.held, *numbers)

    def error() -> float:
        should = RULES[op](run.operands[0].astype(np.float64), weight.astype(np.float64))
        off = np.abs(run.result().reshape(should.shape).astype(np.float64) - should)
        return float((off if op in EXACT else off / np.maximum(np.abs(should), 1e-30)).max())

    def check() -> Check:
        wrong = error()
        run.draw(operands())
        target.copy(run.out, target.buffer(np.full(run.out.nbytes // 4, np.nan, np.float32), "pageable"))
        enqueue(1)
        what = f"all {rows} rows recomputed on the host, {'exact' if op in EXACT else 'relative'}"
        return _checked(float(np.max([wrong, error()])), 0.0 if op in EXACT else NEAR, what)

    return Prepared(enqueue, check, variant=f"Hotlap's own, fp32, {GROUP} work-items a row", flush=flusher(target, case))


def _checked(error: float, tolerance: float, what: str) -> Check:
    """An error that is no number is a wrong result too."""
    shown = error if np.isfinite(error) else float(np.finfo(np.float64).max)
    return Check(passed=error <= tolerance, what=what, error=shown, tolerance=tolerance)


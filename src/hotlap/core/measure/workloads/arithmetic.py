"""Vector arithmetic: chains of multiply-adds in registers, and the arithmetic-intensity ladder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hotlap.core.errors import NotSupported
from hotlap.core.measure.targets.base import Array, Buffer, Target
from hotlap.core.measure.workloads import source
from hotlap.core.measure.workloads.base import Prepared
from hotlap.core.measure.workloads.layout import Layout, group_size, layout, most_turns
from hotlap.core.record import Case, Check, Notice
from hotlap.core.work.base import DTYPES
from hotlap.core.work.compute import intensity_elements

SCALAR = {"fp64": "double", "fp32": "float", "fp16": "half", "int32": "uint", "int8": "uchar"}
NUMPY: Mapping[str, Any] = {"fp64": np.float64, "fp32": np.float32, "fp16": np.float16, "int32": np.uint32, "int8": np.uint8}
EMULATED = Notice(
    code="emulated",
    seen="an 8-bit multiply-add runs as byte moves (PRMT) and a 32-bit one (IMAD), at half the rate of int32: no dp4a, no tensor cores",
)  # seen in NVRTC's machine code for sm_90, sm_100 and sm_120
TRIAL_OPERATIONS = {"cpu": 5e8, "gpu": 2e10}  # of the first trial of a variant, from which the length of the others follows
TRIAL_S, WARM_S, TRIALS = 3e-3, 0.1, 3  # of a GPU: a trial, what comes before the first one, and trials of each variant


def prepare(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    """The best variant is measured."""
    return prepare_as(target, case, rng, "")


def prepare_as(target: Target, case: Case, rng: np.random.Generator, variant: str) -> Prepared:
    """Dispatches by workload; PyTorch has no kernel that stays in registers."""
    dtype = str(case.params["dtype"])
    if target.dialect == "torch":
        raise NotSupported("PyTorch has no kernel that stays in registers; measured through opencl or cuda")
    if dtype not in SCALAR:
        raise NotSupported(f"{dtype} has no scalar type in the common C dialect; gemm measures it")
    if dtype not in target.features:
        raise NotSupported(f"this device's vector units have no {dtype}, as far as its driver says")
    return _intensity(target, case, rng) if case.workload == "intensity" else _fma(target, case, rng, variant)


@dataclass(frozen=True)
class Variant:
    """Vector width and number of independent chains."""

    width: int
    chains: int

    def defines(self, scalar: str) -> list[str]:
        return [f"S={scalar}", f"T={scalar if self.width == 1 else f'VEC({scalar},{self.width})'}", f"CHAINS={self.chains}"]


def candidates(target: Target, element_bytes: int) -> list[Variant]:
    """Widths and chains worth trying: the reported register's width and half of it on CPUs; scalars and pairs on GPUs."""
    if target.device.kind == "cpu":
        lanes = min(max(int(target.device.facts.get("vector_bytes", 32)) // element_bytes, 2), 16)
        tries = ((lanes, 4), (lanes, 5), (lanes, 8), (lanes, 10), (lanes // 2, 8), (lanes // 2, 10))
        return [Variant(width, chains) for width, chains in tries if width > 1]
    widths = (2, 4) if element_bytes == 2 else (1, 2)
    return [Variant(w, c) for w in widths for c in (4, 8, 16)]


class _Chains:
    """One compiled variant with its buffers."""

    def __init__(self, target: Target, dtype: str, variant: Variant, rng: np.random.Generator) -> None:
        self.target, self.variant, self.real = target, variant, NUMPY[dtype]
        self.xy = _factors(dtype, rng)
        self.kernel = target.kernel(source("compute", target.dialect), "fma_chains", variant.defines(SCALAR[dtype]))
        units = target.device.compute_units or 1
        self.items, self.group = (units * 256, 64) if target.device.kind == "cpu" else (units * 2048, group_size(target))
        self.first = rng.integers(0, 8, self.items * variant.width).astype(self.real)
        self.start = target.buffer(self.first)
        self.out = target.buffer(np.zeros(self.items * variant.width, self.real))

    @property
    def per_loop(self) -> int:
        return 2 * self.items * self.variant.width * self.variant.chains

    def launch(self, loops: int) -> None:
        self.kernel(self.items, self.group, self.out, self.start, *self.xy, np.uint32(loops))

    def timed_s(self, loops: int) -> float:
        timing = self.target.time(lambda _: self.launch(loops), 1)
        return timing.device_s or timing.wall_s

    def expected(self, loops: int) -> Array:
        """The sum of a work-item's chains after so many loops: fp64 by the closed form, whole numbers step by step."""
        x, y = (v.item() for v in self.xy)
        starts = [self.first.astype(np.float64) + j for j in range(self.variant.chains)]
        if isinstance(x, float):
            power = x**loops
            return np.array(np.stack(starts).sum(axis=0) * power + self.variant.chains * y * (1 - power) / (1 - x))
        modulus = 2.0 ** (8 * np.dtype(self.real).itemsize)
        for _ in range(loops):
            starts = [(s * x + y) % modulus for s in starts]
        return np.array(np.stack(starts).sum(axis=0) % modulus)


def best_of(trials: Sequence[_Chains]) -> _Chains:
    """The one with the most operations a second. On a GPU the device is warm first, and the variants take turns: a clock that rises
    meanwhile favours none."""
    target, kind = trials[0].target, trials[0].target.device.kind
    operations = int(TRIAL_OPERATIONS.get(kind, 5e8))
    loops = [min(max(operations // one.per_loop, 50), most_turns(target)) for one in trials]
    began = target.clock.now()
    while kind == "gpu" and target.clock.now() - began < WARM_S:
        trials[0].timed_s(loops[0])
    seconds = [one.timed_s(count) for one, count in zip(trials, loops, strict=True)]
    if kind == "gpu":
        loops = [max(round(count * TRIAL_S / max(took_s, 1e-9)), 1) for count, took_s in zip(loops, seconds, strict=True)]
        seconds = [one.timed_s(count) for one, count in zip(trials, loops, strict=True)]
    for _ in range(TRIALS - 1):
        seconds = [min(best_s, one.timed_s(count)) for best_s, one, count in zip(seconds, trials, loops, strict=True)]
    rates = [one.per_loop * count / took_s for one, count, took_s in zip(trials, loops, seconds, strict=True)]
    return trials[rates.index(max(rates))]


def _fma(target: Target, case: Case, rng: np.random.Generator, variant: str) -> Prepared:
    dtype = str(case.params["dtype"])
    tries = candidates(target, DTYPES[dtype])
    known = [one for one in tries if _name(dtype, one) == variant]
    trials = [_Chains(target, dtype, one, rng) for one in known or tries]
    best = trials[0] if known else best_of(trials)
    wanted = max(round(float(str(case.params["operations"])) / best.per_loop), 1)
    parts = -(-wanted // most_turns(target))  # launches of a call
    loops = round(wanted / parts)

    def enqueue(calls: int) -> None:
        for _ in range(calls * parts):
            best.launch(loops)

    return Prepared(
        enqueue, lambda: _check_chains(best, dtype, loops), operations=float(best.per_loop * loops * parts),
        variant=_name(dtype, best.variant), capture=True,
        notices=lambda: [EMULATED] if dtype == "int8" and target.device.target == "cuda" else [],
    )


def _name(dtype: str, variant: Variant) -> str:
    return f"{SCALAR[dtype]}{variant.width} × {variant.chains} chains"


def _factors(dtype: str, rng: np.random.Generator) -> tuple[np.generic, np.generic]:
    real = NUMPY[dtype]
    if dtype.startswith("int"):
        return real(2 * int(rng.integers(1, 60)) + 1), real(rng.integers(1, 100))
    return real(rng.uniform(0.9, 0.96)), real(rng.uniform(0.1, 0.5))


def _check_chains(chains: _Chains, dtype: str, loops: int) -> Check:
    """What the timed kernel wrote, and a short run of 37 loops from fresh values, against a recomputation on the host.

    Whole numbers do not settle, so there only the short run is recomputed.
    """
    whole = dtype.startswith("int")
    timed = None if whole else _worst(chains.target.read(chains.out), chains.expected(loops))
    chains.launch(37)
    short = _worst(chains.target.read(chains.out), chains.expected(37))
    tolerance = 0.0 if whole else 64 * float(np.finfo(chains.real).eps)
    error = max(short, timed or 0.0)
    what = f"chains of {chains.items} work-items recomputed on the host"
    return Check(passed=error <= tolerance, what=what, error=error, tolerance=tolerance)


def _worst(got: Array, expected: Array) -> float:
    """Largest difference, as a share of the largest value."""
    return float(np.abs(got.astype(np.float64) - expected).max() / max(float(np.abs(expected).max()), 1.0))


def _intensity(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    dtype, fmas = str(case.params["dtype"]), int(str(case.params["fmas"]))
    shape = layout(target, DTYPES[dtype])
    variant = Variant(max(shape.width // 2, 1) if shape.blocked else shape.width, 8 if shape.blocked else 4)
    defines = [*variant.defines(SCALAR[dtype]), *(["BLOCKED=1"] if shape.blocked else [])]
    kernel = target.kernel(source("compute", target.dialect), "intensity", defines)
    items, per_item = _shares(shape, variant, intensity_elements(case.params))
    if per_item // variant.chains * (fmas + 1) > most_turns(target):
        raise NotSupported(f"this software adapter leaves loops after {most_turns(target)} turns, and this case takes more")
    n = items * variant.width * per_item
    x, y = _factors(dtype, rng)
    source_array = rng.random(n, NUMPY[dtype])
    data, out = target.buffer(source_array), target.buffer(n * DTYPES[dtype])

    def enqueue(calls: int) -> None:
        for _ in range(calls):
            kernel(items, shape.group, out, data, np.uint64(per_item), np.uint32(fmas), x, y)

    def check() -> Check:
        enqueue(1)
        return _check_intensity(target.read(Buffer(out.handle, out.nbytes, out.where, np.dtype(NUMPY[dtype]))), source_array, (x, y), fmas)

    return Prepared(
        enqueue, check, operations=2.0 * n * fmas, variant=f"{SCALAR[dtype]}{variant.width} × {variant.chains} in flight",
        capture=True,
    )


def _shares(shape: Layout, variant: Variant, elements: int) -> tuple[int, int]:
    """Work-items, and vectors for each in whole groups of chains, so that together they cover `elements` to 1 % or better."""
    chunk = variant.width * variant.chains
    if shape.blocked:
        return shape.items, max(elements // (shape.items * chunk), 1) * variant.chains
    chunks = -(-elements // (shape.items * chunk))
    items = max(elements // (chunks * chunk) // shape.group * shape.group, shape.group)
    return items, chunks * variant.chains


def _check_intensity(got: Array, start: Array, xy: tuple[np.generic, np.generic], fmas: int) -> Check:
    """Every element by its closed form in fp64."""
    x, y = float(xy[0]), float(xy[1])
    power = x**fmas
    expected = start.astype(np.float64) * power + y * (1 - power) / (1 - x)
    error = float(np.abs(got - expected).max() / max(float(np.abs(expected).max()), 1e-30))
    tolerance = 64 * float(np.finfo(got.dtype).eps)
    return Check(passed=error <= tolerance, what=f"all {got.size} elements, closed form in fp64", error=error, tolerance=tolerance)

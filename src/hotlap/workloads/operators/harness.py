"""An operator into something that can be timed and checked: inputs rotated past the last cache, outputs held against the reference."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from hotlap.errors import NotSupported
from hotlap.record import Case, Check
from hotlap.targets.base import Target
from hotlap.work import find
from hotlap.workloads.base import Prepared
from hotlap.workloads.flush import flusher
from hotlap.workloads.operators import FAMILIES
from hotlap.workloads.operators.base import Exact, Family, Operator, kind

ROTATED_CACHES, MOST_SETS = 2.0, 64  # inputs are rotated over so many last-level caches, in at most so many sets
UNKNOWN_CACHE_BYTES = 32 << 20


class Tensors:
    """Fresh random tensors; see `base.Maker`."""

    def __init__(self, library: Any, place: str, seed: int) -> None:
        self.library, self.place = library, place
        self.generator = library.Generator(device=place).manual_seed(seed)

    def normal(self, *shape: int, dtype: str) -> Any:
        made = kind(self.library, dtype)
        first = made if dtype != "fp8" else self.library.float32
        return self.library.randn(shape, dtype=first, device=self.place, generator=self.generator).to(made)

    def uniform(self, *shape: int, dtype: str, low: float = 0.0, high: float = 1.0) -> Any:
        made = self.library.rand(shape, dtype=self.library.float32, device=self.place, generator=self.generator)
        return (made * (high - low) + low).to(kind(self.library, dtype))

    def whole(self, high: int, *shape: int, dtype: str = "int32", low: int = 0) -> Any:
        made = kind(self.library, dtype)
        return self.library.randint(low, high, shape, dtype=made, device=self.place, generator=self.generator)

    def order(self, count: int) -> Any:
        return self.library.randperm(count, device=self.place, generator=self.generator)

    def empty(self, *shape: int, dtype: str) -> Any:
        made = self.library.empty(shape, dtype=kind(self.library, dtype), device=self.place)
        return made.fill_(float("nan")) if made.is_floating_point() else made.fill_(-1)


def prepare(target: Target, case: Case, rng: np.random.Generator) -> Prepared:
    """Only targets with a library of operators run them. Raises NotSupported."""
    if target.dialect != "torch":
        raise NotSupported(f"the {target.device.target} target has no library of operators; measured through torch")
    module = cast(Family, importlib.import_module(f"hotlap.workloads.operators.{FAMILIES[case.workload]}"))
    return prepared(target, case, module.operator(case, target.library), rng)


def prepared(target: Target, case: Case, operator: Operator, rng: np.random.Generator) -> Prepared:
    """Raises NotSupported where the library refuses the case or it does not fit."""
    run = _Run(target, case, operator, rng)
    return Prepared(run.enqueue, run.check, variant=operator.variant, flush=flusher(target, case), graph=operator.graph)


class _Run:
    """The sets of inputs of one case, and the operator that goes round them."""

    def __init__(self, target: Target, case: Case, operator: Operator, rng: np.random.Generator) -> None:
        self.target, self.operator, self.rng = target, operator, rng
        self.place = target.device.facts["place"]
        self.common: dict[str, Any] = {}  # inputs that all sets share
        try:
            self.sets = [self._fresh() for _ in range(_sets(target, case))]
            self.next = 0
            self.enqueue(1)
            target.sync()
        except (RuntimeError, MemoryError, TypeError, NotImplementedError) as error:
            raise NotSupported(f"PyTorch refuses this {case.workload} ({_line(error)})") from error

    def _fresh(self) -> Mapping[str, Any]:
        made = dict(self.operator.inputs(Tensors(self.target.library, self.place, int(self.rng.integers(2**31)))))
        return made | {name: self.common.setdefault(name, made[name]) for name in self.operator.shared}

    def enqueue(self, calls: int) -> None:
        launch, sets, count = self.operator.launch, self.sets, len(self.sets)
        for _ in range(calls):
            launch(sets[self.next])
            self.next = (self.next + 1) % count

    def check(self) -> Check:
        """Fresh inputs, every element of every output."""
        inputs = self._fresh()
        before = {name: value.clone() for name, value in inputs.items() if hasattr(value, "clone")}
        found = self.operator.launch(inputs)
        self.target.sync()
        outputs = list(found) if isinstance(found, Sequence) else [found]
        wide = {**inputs, **{name: self._wide(value) for name, value in before.items()}}
        outputs = list(self.operator.settle(wide, outputs)) if self.operator.settle else outputs
        exact = self.operator.reference(wide)
        worst = max((self._error(one, want) for one, want in zip(outputs, exact, strict=True)), key=lambda pair: pair[0] / pair[1])
        return Check(passed=worst[0] <= worst[1], what=f"{len(outputs)} outputs against fp64", error=worst[0], tolerance=worst[1])

    def _wide(self, value: Any) -> Any:
        return value.double() if value.is_floating_point() else value

    def _error(self, found: Any, want: Exact) -> tuple[float, float]:
        """The largest error ÷ scale, and what is allowed; one unequal element of whole numbers is an error of infinity."""
        allowed = want.allowed(self.operator.dtype)
        if tuple(found.shape) != tuple(want.value.shape):
            return float("inf"), allowed or 1.0
        if not want.value.is_floating_point():
            return (0.0 if bool((found == want.value).all()) else float("inf")), 1.0
        scale = want.value.abs() if want.scale is None else want.scale
        error = (found.double() - want.value).abs() / scale.clamp_min(1e-300)
        worst = float(error.max()) if error.numel() else 0.0
        return (float("inf") if worst != worst else worst), max(allowed, 1e-300)


def _sets(target: Target, case: Case) -> int:
    """One set of inputs for warm and cold cases; as many as pass the last cache for rotated ones."""
    if case.params.get("cache", "rotated") != "rotated":
        return 1
    working = find(case.workload).work(case.params).working_set_bytes
    wanted = ROTATED_CACHES * (target.device.cache_bytes or UNKNOWN_CACHE_BYTES)
    return int(np.clip(np.ceil(wanted / max(working, 1.0)), 1, MOST_SETS))


def _line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0]

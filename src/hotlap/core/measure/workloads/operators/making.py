"""Fresh random tensors for operators."""

from __future__ import annotations

from typing import Any

from hotlap.core.measure.workloads.operators.base import kind


class Tensors:
    """Fresh random tensors; see `base.Maker`."""

    def __init__(self, library: Any, place: str, seed: int) -> None:
        self.library, self.place = library, place
        self.generator = library.Generator(device=place).manual_seed(seed)
        self.blank: list[Any] = []  # made for outputs

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
        self.blank.append(made.fill_(float("nan")) if made.is_floating_point() else made.fill_(-1))
        return self.blank[-1]

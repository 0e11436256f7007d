"""What an engine is: it loads a model within a budget, names its inputs, and answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hotlap.training.infer_record import Budget, ModelInput

Array = NDArray[Any]


class CannotLoad(Exception):
    """This engine cannot run this model: becomes `not_run`. `remedy`: what would mend it."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy


class LoadedModel(Protocol):
    """A model that is ready to answer."""

    version: str
    budget: Budget  # as the engine confirms it
    inputs: Sequence[ModelInput]

    def run(self, feed: Mapping[str, Array]) -> list[Array]:
        """The outputs of one batch, in the model's order."""


class EngineModule(Protocol):
    """A module of an engine."""

    def load(self, path: str, budget: Budget) -> LoadedModel:
        """Raises CannotLoad; ImportError where the package is missing."""


class InputSamples:
    """Inputs that are drawn once, from a seed that all engines have in common: 16 samples, and their batches.

    `batch`: samples at once; 1 where an input of the model has no open first size that could hold more.
    """

    COUNT = 16

    def __init__(
        self, inputs: Sequence[ModelInput], seed: int, batch: int, shapes: Mapping[str, tuple[int, ...]], values: Mapping[str, float],
        high: Mapping[str, int],
    ) -> None:  # fmt: skip
        open_first = all(i.shape and i.shape[0] is None and i.name not in shapes for i in inputs)
        self.batch = batch if open_first else 1
        self.ones = [{i.name: _drawn(i, seed, k, shapes.get(i.name), values, high) for i in inputs} for k in range(self.COUNT)]
        self._batches: dict[tuple[int, int], dict[str, Array]] = {}

    def feeds(self, first: int, count: int) -> list[tuple[dict[str, Array], int]]:
        """So many samples from `first` on, as batches with their sizes."""
        sizes = [self.batch] * (count // self.batch) + ([count % self.batch] if count % self.batch else [])
        return [(self._feed(first + at * self.batch, size), size) for at, size in enumerate(sizes)]

    def _feed(self, first: int, size: int) -> dict[str, Array]:
        key = first % self.COUNT, size
        if key not in self._batches:
            some = [self.ones[(first + k) % self.COUNT] for k in range(size)]
            self._batches[key] = some[0] if size == 1 else {name: np.concatenate([one[name] for one in some]) for name in some[0]}
        return self._batches[key]


def _drawn(
    given: ModelInput, seed: int, number: int, shape: tuple[int, ...] | None, values: Mapping[str, float], high: Mapping[str, int]
) -> Array:
    sizes = shape if shape is not None else tuple(1 if size is None else size for size in given.shape)
    if given.name in values:
        return np.full(sizes, values[given.name], given.dtype)
    random = np.random.default_rng([seed, number, *given.name.encode()])
    kind = np.dtype(given.dtype).kind
    if kind == "f":
        return random.standard_normal(sizes).astype(given.dtype)
    return random.integers(0, 2 if kind == "b" else high.get(given.name, 100), sizes).astype(given.dtype)

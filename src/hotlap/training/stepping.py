"""`hotlap.steps`: the steps of a loop of one's own, at the cost of a look into a table where nothing measures.

    with hotlap.steps() as t:
        for batch in t.loader(batches):
            …
            t.step(tokens=batch.numel())

The standard library alone is imported, and of that only what every program has.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import TracebackType
from typing import TypeVar

T = TypeVar("T")
RECORDER = "hotlap_recorder"  # the module that measures, put there by whoever started the program


class MarkedSteps:
    """Marks where steps end. Under `hotlap training run` they are timed; under `hotlap trace capture` they are counted."""

    __slots__ = ()

    def __enter__(self) -> MarkedSteps:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return None

    def step(self, tokens: int | None = None, samples: int | None = None) -> None:
        """A step has ended; of so many tokens that are not padding, or samples, of this process."""
        recorder = sys.modules.get(RECORDER)
        if recorder is None:
            return
        if (step_of := getattr(recorder, "step_of", None)) is not None:
            step_of(tokens, samples)
        else:
            recorder.step()

    def loader(self, batches: Iterable[T]) -> Iterable[T]:
        """The same batches; the time that is spent waiting for them is measured, and they can be frozen to the first."""
        wrap = getattr(sys.modules.get(RECORDER), "loader", None)
        return batches if wrap is None else wrap(batches)

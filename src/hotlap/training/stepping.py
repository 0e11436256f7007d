"""`hotlap.steps`: the steps of a loop of one's own, at the cost of a look into a table where nothing measures.

    with hotlap.steps() as t:
        for batch in t.loader(batches):
            …
            t.step(tokens=batch.numel())

The standard library alone is imported, and of that only what every program has.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Literal, TypeVar

T = TypeVar("T")
RECORDER = "hotlap_recorder"  # the module that measures, put there by whoever started the program
MLLOG = "HOTLAP_MLLOG"  # of the environment: the file that quality is logged to


class MarkedSteps:
    """Marks where steps end. Under `hotlap training run` they are timed; under `hotlap trace capture` they are counted; under `hotlap
    training converge` the quality that is reached is kept as MLPerf logs it."""

    __slots__ = ()

    def __enter__(self) -> MarkedSteps:
        if MLLOG in os.environ:
            _log().begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if MLLOG in os.environ:
            _log().end()

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

    def quality(
        self, value: float, target: float | None = None, *, samples: float | None = None, epoch: float | None = None,
        better: Literal["higher", "lower"] = "higher", name: str = "",
    ) -> bool:
        """An evaluation gave this value after so many samples or epochs (each evaluation counts as one where neither is said). Returns
        whether the target is reached, so that the loop can end: `if t.quality(accuracy, 0.97, samples=seen): break`."""
        if MLLOG in os.environ:
            _log().evaluated(value, target, samples, epoch, better, name)
        return target is not None and (value >= target if better == "higher" else value <= target)

    def mllog(self, key: str, value: Any = None, **metadata: Any) -> None:
        """Any other entry of MLPerf's log, as in `t.mllog("global_batch_size", 64)`."""
        if MLLOG in os.environ:
            _log().write(key, value, metadata)


def _log() -> Any:
    from hotlap.training import mllog_writer

    return mllog_writer.of(os.environ[MLLOG])

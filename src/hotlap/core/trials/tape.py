"""The measurements of a search in order, each kept before it is used: what decides knows nothing else of the world."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from hotlap.core.errors import InputError, MachineError, SchemaError
from hotlap.core.record import Record, Samples
from hotlap.core.trials.commits import Commit

ATTEMPTS = 2  # of a round that gives no number, before its commit is given up


class TapeSample(Record, frozen=True, kw_only=True):
    """One round of the case at one commit. Without a value there is a reason. One line of measurements.jsonl."""

    commit: str
    value: float | None = None  # in the case's unit, above zero
    reason: str = ""
    built: bool = True
    samples: Samples | None = None  # that the value is the median of


class Bench(Protocol):
    """What measures commits."""

    def measure(self, commit: str) -> TapeSample: ...

    def forget(self, commit: str) -> None: ...

    def describe(self, commit: str) -> Commit: ...


class OutOfTime(Exception):
    """The budget is used up."""


class Tape:
    """The measurements of a search in order: those that were kept first, then new ones, each kept before it is used."""

    def __init__(
        self, bench: Bench, kept: Sequence[TapeSample] = (), keep: Callable[[TapeSample], None] = lambda _: None,
        late: Callable[[], bool] = lambda: False,
    ) -> None:
        self.bench, self.took, self.keep, self.late = bench, list(kept), keep, late
        self.read = 0

    def take(self, commit: str) -> TapeSample:
        """The next measurement, with or without a number."""
        took = self._next(commit)
        self._pass(took)
        return took

    def must(self, commit: str, name: str) -> float:
        """The number of good or bad. What fails there is not kept, so that it is tried again when the search goes on.

        Raises InputError when it never gave one, MachineError when it did before.
        """
        for _ in range(ATTEMPTS):
            took = self._next(commit)
            if took.value is not None:
                self._pass(took)
                return took.value
        before = any(one.commit == commit for one in self.took)
        raise (MachineError if before else InputError)(f"{name} {commit[:10]} cannot be measured: {took.reason}")

    def _next(self, commit: str) -> TapeSample:
        if self.read < len(self.took):
            if self.took[self.read].commit != commit:
                raise SchemaError("the search that was kept took another way than this version of Hotlap would; begin a new one")
            return self.took[self.read]
        if self.late():
            raise OutOfTime
        return self.bench.measure(commit)

    def _pass(self, took: TapeSample) -> None:
        if self.read == len(self.took):
            self.took.append(took)
            self.keep(took)
        self.read += 1

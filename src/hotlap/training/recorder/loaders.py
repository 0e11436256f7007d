"""Loaders whose batches are waited for by the clock, and frozen to their first where that is asked. Runs within the measured program."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from typing import Any

from hotlap.training.recorder.rows import StepRecorder


class Frozen:
    """The first batch of a loader again and again, as often as the loader would have given one."""

    def __init__(self, recorder: StepRecorder, batch: Any, left: int | None) -> None:
        self.recorder, self.kept, self.left = recorder, batch, left

    def __iter__(self) -> Frozen:
        return self

    def __next__(self) -> Any:
        counted = self.recorder.enter("data_wait")
        try:
            if self.left is not None:
                if self.left <= 0:
                    raise StopIteration
                self.left -= 1
            self.recorder.batch(self.kept)
            return self.kept
        finally:
            if counted:
                self.recorder.leave()


class Waited:
    """A loader whose batches are waited for by the clock."""

    def __init__(self, recorder: StepRecorder, batches: Any) -> None:
        self.recorder, self.batches = recorder, batches
        self.kept: list[Any] = []

    def __len__(self) -> int:
        return len(self.batches)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.batches, name)

    def __iter__(self) -> Iterator[Any]:
        recorder = self.recorder
        if recorder.frozen and self.kept:
            return Frozen(recorder, self.kept[0], _length(self.batches))
        counted = recorder.enter("data_wait")
        try:
            inner = iter(self.batches)
        finally:
            if counted:
                recorder.leave()
        return self._each(inner)

    def _each(self, inner: Iterator[Any]) -> Iterator[Any]:
        recorder, given = self.recorder, 0
        while True:
            counted = recorder.enter("data_wait")
            try:
                batch = next(inner)
                recorder.batch(batch)
            except StopIteration:
                return
            finally:
                if counted:
                    recorder.leave()
            given += 1
            if recorder.frozen:
                self.kept = [batch]
                yield batch
                left = _length(self.batches)
                yield from Frozen(recorder, batch, None if left is None else left - 1)
                return
            yield batch


def _length(batches: Any) -> int | None:
    try:
        return len(batches)
    except (TypeError, NotImplementedError):
        return None


def arm_loader(recorder: StepRecorder | None, module: Any) -> None:
    """PyTorch's DataLoader: seen by itself, and frozen where that is asked."""
    if recorder is None or not hasattr(module, "_BaseDataLoaderIter"):
        return
    original_next, original_iter = module._BaseDataLoaderIter.__next__, module.DataLoader.__iter__

    @functools.wraps(original_next)
    def waited(self: Any) -> Any:
        counted = recorder.enter("data_wait")
        try:
            batch = original_next(self)
            if counted and recorder.stack == ["data_wait"]:
                recorder.batch(batch)
            return batch
        finally:
            if counted:
                recorder.leave()

    @functools.wraps(original_iter)
    def begun(self: Any) -> Any:
        if getattr(sys.modules.get("torch.utils.data"), "get_worker_info", lambda: None)() is not None:
            return original_iter(self)
        workers = getattr(self, "num_workers", 0)
        recorder.met(f"DataLoader, {workers} worker{'' if workers == 1 else 's'}", workers)
        kept = self.__dict__.get("_hotlap_kept")
        if recorder.frozen and kept is not None:
            return Frozen(recorder, kept[0], _length(self))
        counted = recorder.enter("data_wait")
        try:
            inner = original_iter(self)
        finally:
            if counted:
                recorder.leave()
        if not recorder.frozen:
            return inner
        batch = next(inner)
        recorder.samples = 0.0  # it is given once more
        self.__dict__["_hotlap_kept"] = [batch]
        return Frozen(recorder, batch, _length(self))

    module._BaseDataLoaderIter.__next__ = waited
    module.DataLoader.__iter__ = begun

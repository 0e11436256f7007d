"""Patterns written to device memory, compared, inverted and compared again: on GPUs slice by slice over what is free.

A share of the memory is left to others, and slices are given back where others need more than that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from hotlap.core.errors import NotSupported
from hotlap.core.measure.targets.base import Target
from hotlap.core.measure.targets.cuda_driver import check
from hotlap.core.measure.workloads.layout import UNTOLD_UNITS
from hotlap.stress.units.base import TRIES, Wrong, bits_of, source

PATTERNS = ("walking ones", "walking zeros", "solid", "random with address")
WORDS = {"cpu": 1 << 20, "gpu": 1 << 28}  # of 4 bytes, in one unit and slice
LEFT_SHARE, LEFT_BYTES = 0.05, 1 << 30  # of the device's memory, the larger of both, for others
LISTED = 64  # wrong words that a comparison names
LOW = 0xFFFFFFFF
Found = list[tuple[int, int, int]]  # word, expected, got


class MemoryUnit(ABC):
    """A pattern written, compared and inverted, compared again; another pattern each time, and after all of them another slice."""

    flop = 0.0
    buffer: Any  # the slice whose turn it is
    full: tuple[type[Exception], ...] = (NotSupported,)  # what is raised where memory does not suffice

    def __init__(self, target: Target, seed: int) -> None:
        self.target, self.seed, self.turn = target, seed & 0xFFFF, 0
        self.words = WORDS["cpu" if target.device.kind == "cpu" else "gpu"]
        self.moved_bytes, self.wrong = 5.0 * 4 * self.words, Found()
        self.slices: list[Any] = []
        self.at = self.tested = 0  # which slice, and how many have had all patterns

    @property
    def tested_bytes(self) -> float:
        """In slices that have had all patterns."""
        done = self.at + 1 if self.turn and self.turn % len(PATTERNS) == 0 else 0
        return 4.0 * self.words * max(self.tested, done)

    @property
    def name(self) -> str:
        return f"memory {PATTERNS[self.turn % len(PATTERNS)]}"

    def facts(self) -> dict[str, float]:
        return {}

    @abstractmethod
    def slice(self) -> Any:
        """One more slice of the device's memory. Raises one of `full` where there is none."""

    @abstractmethod
    def free_bytes(self) -> int | None:
        """Of the device's memory; None where the driver does not tell."""

    @abstractmethod
    def write(self) -> None:
        """The pattern of this turn into every word."""

    @abstractmethod
    def compare(self, inverted: bool) -> Found:
        """Words that differ from the pattern, or from its inverse; leaves the inverse of what should be there behind."""

    def _pass(self) -> Found:
        self.write()
        return [*self.compare(False), *self.compare(True)]

    def run(self) -> None:
        if self.turn and self.turn % len(PATTERNS) == 0:
            self.tested = max(self.tested, self.at + 1)
            self._next()
        self.turn, self.seed = self.turn + 1, (self.seed * 5 + 1) & 0xFFFF
        try:
            self.wrong = self._pass()
        except self.full:
            if len(self.slices) == 1:
                raise
            self._keep(1)
            self.wrong = self._pass()

    def _next(self) -> None:
        """On to the next slice: a new one while there is room, else round again; fewer where others have come."""
        left = max(LEFT_SHARE * (self.target.device.memory_bytes or 0), LEFT_BYTES)
        free = self.free_bytes()
        if free is None:
            return
        own = 4 * self.words
        if free < left:
            self._keep(max(len(self.slices) - int(-(-(left - free) // own)), 1))
        self.at += 1
        if self.at >= len(self.slices) and (free - own < left or not self._grown()):
            self.at = 0
        self.buffer = self.slices[self.at]

    def _grown(self) -> bool:
        try:
            self.slices.append(self.slice())
        except self.full:
            return False
        return True

    def _keep(self, count: int) -> None:
        """Gives slices back, the last ones first."""
        del self.slices[count:]
        self.at = min(self.at, count - 1)
        self.buffer = self.slices[self.at]

    def check(self) -> list[Wrong]:
        if not self.wrong:
            return []
        again = {at for _ in range(TRIES) for at, _, _ in self._pass()}
        return [
            Wrong(f"address 0x{4 * (self.at * self.words + at):x}", f"0x{was:08x}", f"0x{now:08x}", bits_of(was ^ now), "pattern",
                  "permanent" if at in again else "transient")
            for at, was, now in self.wrong
        ]  # fmt: skip


class KernelMemory(MemoryUnit):
    """By kernels of Hotlap's own."""

    def __init__(self, target: Target, seed: int) -> None:
        super().__init__(target, seed)
        seen: Any = getattr(target, "limits", {})  # of WebGPU: what a kernel may see of one buffer
        self.words = min(self.words, int(seen.get("max-storage-buffer-binding-size", 4 * self.words)) // 4)
        self.moved_bytes = 5.0 * 4 * self.words
        self.slices = [self.slice()]
        self.buffer = self.slices[0]
        defines = ["T=float", "R=float"]
        self.writing = target.kernel(source(target), "pattern_write", defines)
        self.checking = target.kernel(source(target), "pattern_check", defines)
        self.items = 1024 * (target.device.compute_units or (UNTOLD_UNITS if target.device.kind == "gpu" else 1))

    def slice(self) -> Any:
        return self.target.buffer(4 * self.words)

    def free_bytes(self) -> int | None:
        driver = getattr(self.target, "cu", None)  # OpenCL does not tell
        return int(check(driver.cuMemGetInfo(), "read the free memory")[0]) if driver else None

    def write(self) -> None:
        self.writing(self.items, 64, self.buffer, np.uint32(self.turn % 4), np.uint32(self.seed), np.uint32(self.words))

    def compare(self, inverted: bool) -> Found:
        mode, errors = self.turn % 4, self.target.buffer(np.zeros(1 + 2 * LISTED, np.uint32))
        self.checking(
            self.items, 64, self.buffer, errors, np.uint32(mode), np.uint32(self.seed), np.uint32(self.words), np.uint32(inverted)
        )
        wrong = self.target.read(errors)
        rows = wrong[1 : 1 + 2 * min(int(wrong[0]), LISTED)].reshape(-1, 2).tolist()
        return [(at, pattern(mode, self.seed, at) ^ (LOW if inverted else 0), got) for at, got in rows]


def pattern(mode: int, seed: int, i: int) -> int:
    """What `kernels/stress.c` writes at a word."""
    h = (i ^ seed) * 2654435761 & LOW
    h = (h ^ (h >> 15)) * 2246822519 & LOW
    one = 1 << ((i + seed) & 31)
    return (one, ~one & LOW, LOW, (h ^ (h >> 13)) ^ i)[mode]


class TorchMemory(MemoryUnit):
    """By whole tensors."""

    def __init__(self, target: Target, seed: int) -> None:
        super().__init__(target, seed)
        torch = self.torch = target.library
        self.full = (NotSupported, torch.OutOfMemoryError)
        self.index = torch.arange(self.words, dtype=torch.int32, device=target.device.facts["place"])
        self.slices = [self.slice()]
        self.buffer = self.slices[0]

    def slice(self) -> Any:
        return self.torch.empty_like(self.index)

    def free_bytes(self) -> int | None:
        place = self.index.device
        module = getattr(self.torch, place.type)
        return int(module.mem_get_info(place)[0]) if place.type != "cpu" and hasattr(module, "mem_get_info") else None

    def _keep(self, count: int) -> None:
        super()._keep(count)
        getattr(self.torch, self.index.device.type).empty_cache()  # to others, not to PyTorch's own store

    def write(self) -> None:
        self.should = self._should()
        self.buffer.copy_(self.should)
        self.target.sync()

    def _should(self) -> Any:
        torch, mode = self.torch, self.turn % 4
        if mode == 3:
            h = (self.index ^ self.seed) * -1640531535
            return (h ^ (h >> 15)) * -2048144777 ^ self.index
        one = torch.bitwise_left_shift(torch.ones_like(self.index), (self.index + self.seed) & 31)
        return (one, ~one, torch.full_like(self.index, -1))[mode]

    def compare(self, inverted: bool) -> Found:
        should = ~self.should if inverted else self.should
        wrong = Found()
        if not self.torch.equal(self.buffer, should):
            places = (self.buffer != should).nonzero().flatten()[:LISTED]
            rows = zip(places.tolist(), should[places].tolist(), self.buffer[places].tolist(), strict=True)
            wrong = [(at, was & LOW, now & LOW) for at, was, now in rows]
        self.buffer.copy_(~should)
        self.target.sync()
        return wrong

"""Link traffic that is compared on the host, and atomic additions whose sums are known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

import numpy as np

from hotlap.core.measure.targets.base import Array, Target
from hotlap.stress.units.base import TRIES, Wrong, bits_of, source

LISTED = 64  # wrong bytes that a comparison names
BYTES = {"cpu": 4 << 20, "gpu": 256 << 20}  # of the link's buffer


class LinkTraffic:
    """Random bytes to the device and back, compared on the host."""

    name, flop = "link", 0.0

    def __init__(self, target: Target, seed: int) -> None:
        self.target = target
        size = BYTES["cpu" if target.device.kind == "cpu" else "gpu"]
        where: Literal["pinned", "pageable"] = "pinned" if "pinned" in target.features else "pageable"
        self.plain = where == "pinned" and target.device.kind == "gpu"
        self.data = np.random.default_rng(seed).integers(0, 256, size, np.uint8)
        self.source, self.back = target.buffer(self.data, where), target.buffer(size, where)
        self.there, self.moved_bytes = target.buffer(size), 2.0 * size

    def out(self) -> None:
        self.target.copy(self.there, self.source)

    def home(self) -> None:
        self.target.copy(self.back, self.there)
        self.target.sync()

    def run(self) -> None:
        self.out()
        self.home()

    def _differs(self, buffer: Any) -> dict[int, int]:
        """Offset → what stands there, of bytes that are not what was sent."""
        held = self.target.read(buffer).view(np.uint8)
        return {int(at): int(held[at]) for at in np.flatnonzero(held != self.data)[:LISTED]}

    def check(self) -> list[Wrong]:
        differing = self._differs(self.back)
        if not differing:
            return []
        if at_source := self._differs(self.source):  # it was wrong before it was sent: written anew, not only sent anew
            self.target.copy(self.source, self.target.buffer(self.data, "pageable"))
            return self._wrong(at_source, set(self._differs(self.source)), "of the buffer that is sent from")
        again: set[int] = set()
        for _ in range(TRIES):
            self.run()
            again |= set(self._differs(self.back))
        return self._wrong(differing, again, "of the copy")

    def _wrong(self, differing: dict[int, int], again: set[int], of: str) -> list[Wrong]:
        return [
            Wrong(f"byte 0x{at:x} {of}", f"0x{self.data[at]:02x}", f"0x{now:02x}", bits_of(int(self.data[at]) ^ now), "repeat",
                  "permanent" if at in again else "transient")
            for at, now in differing.items()
        ]  # fmt: skip

    def facts(self) -> dict[str, float]:
        return {"plain": 1.0} if self.plain else {}


class Atomics(ABC):
    """Many additions to few cells; their sum is known."""

    name, flop, cells, repeats = "atomics", 0.0, 64, 64
    moved_bytes = 0.0
    should = 0

    @abstractmethod
    def clear(self) -> None:
        """All cells at 0."""

    @abstractmethod
    def add(self) -> None:
        """All additions."""

    @abstractmethod
    def sums(self) -> Array:
        """The cells on the host."""

    def counts(self) -> Array:
        self.clear()
        self.add()
        return self.sums()

    def run(self) -> None:
        self.last = self.counts()

    def check(self) -> list[Wrong]:
        wrong = np.flatnonzero(self.last != self.should)
        if not len(wrong):
            return []
        again = {int(at) for _ in range(TRIES) for at in np.flatnonzero(self.counts() != self.should)}
        return [
            Wrong(f"cell {at}", f"0x{self.should:08x}", f"0x{int(self.last[at]) & 0xFFFFFFFF:08x}",
                  bits_of(self.should ^ int(self.last[at]) & 0xFFFFFFFF), "count", "permanent" if at in again else "transient")
            for at in wrong.tolist()
        ]  # fmt: skip

    def facts(self) -> dict[str, float]:
        return {}


class KernelAtomics(Atomics):
    """By a kernel of Hotlap's own."""

    def __init__(self, target: Target) -> None:
        self.target, self.items = target, 4096
        self.kernel = target.kernel(source(target), "count_up", ["T=float", "R=float"])
        self.should = self.items * self.repeats // self.cells
        self.zeros = target.buffer(np.zeros(self.cells, np.uint32))
        self.buffer = target.buffer(np.zeros(self.cells, np.uint32))

    def clear(self) -> None:
        self.target.copy(self.buffer, self.zeros)

    def add(self) -> None:
        self.kernel(self.items, 64, self.buffer, np.uint32(self.repeats), np.uint32(self.cells - 1))
        self.target.sync()

    def sums(self) -> Array:
        return self.target.read(self.buffer)


class TorchAtomics(Atomics):
    """By an indexed addition."""

    def __init__(self, target: Target) -> None:
        torch, self.target = target.library, target
        place, count = target.device.facts["place"], self.cells * 4096
        self.index = torch.arange(count, device=place) % self.cells
        self.ones = torch.ones(count, dtype=torch.int32, device=place)
        self.buffer = torch.zeros(self.cells, dtype=torch.int32, device=place)
        self.should = 4096

    def clear(self) -> None:
        self.buffer.zero_()

    def add(self) -> None:
        self.buffer.index_add_(0, self.index, self.ones)
        self.target.sync()

    def sums(self) -> Array:
        return np.array(self.buffer.cpu().numpy())

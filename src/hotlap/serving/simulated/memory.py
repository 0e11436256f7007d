"""The cache of keys and values of a simulated server: what requests hold, and blocks of prompts that later ones find."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

BLOCK = 512  # tokens that are shared as a whole, as the hash ids of Mooncake's traces


@dataclass(slots=True)
class Held:
    """What one request holds. `own`: tokens that it shares with none; `shared`: blocks in order; `entered`: blocks of its prompt that
    are computed and were offered to others."""

    own: int
    shared: list[int]
    entered: int


@dataclass
class KVMemory:
    """Tokens up to `capacity`. A request reserves its prompt and its longest answer when it is admitted, so that none is ever put
    out again; blocks that nobody holds stay, the longest unused go first."""

    capacity: int
    block: int = BLOCK
    reserved: int = 0  # tokens held by one request alone
    pinned: dict[int, int] = field(default_factory=dict)  # block → requests that hold it
    idle: OrderedDict[int, None] = field(default_factory=OrderedDict)  # the next to go first

    @property
    def used(self) -> int:
        """Tokens in memory, blocks that nobody holds with them."""
        return self.reserved + self.block * (len(self.pinned) + len(self.idle))

    @property
    def share(self) -> float:
        """Of the capacity, held by requests; blocks that nobody holds are as good as free."""
        return (self.reserved + self.block * len(self.pinned)) / self.capacity

    def hits(self, blocks: Sequence[int], input_tokens: int) -> int:
        """Leading blocks that are there. One token of a prompt is always computed, for its answer begins with what follows it."""
        most = min(len(blocks), (input_tokens - 1) // self.block)
        for place in range(most):
            if blocks[place] not in self.pinned and blocks[place] not in self.idle:
                return place
        return most

    def take(self, blocks: Sequence[int], input_tokens: int, tokens: int) -> Held | None:
        """Room for a request of `tokens` in all, its prompt with them; None where there is none now."""
        shared = list(blocks[: self.hits(blocks, input_tokens)])
        own = tokens - len(shared) * self.block
        fresh = sum(block not in self.pinned for block in shared)
        if self.reserved + own + self.block * (len(self.pinned) + fresh) > self.capacity:
            return None
        for block in shared:
            self.idle.pop(block, None)
            self.pinned[block] = self.pinned.get(block, 0) + 1
        self.reserved += own
        while self.used > self.capacity:
            self.idle.popitem(last=False)
        return Held(own, shared, len(shared))

    def enter(self, held: Held, blocks: Sequence[int], computed: int) -> None:
        """Whole blocks of the prompt that are computed by now can be found by others. One that another request entered meanwhile stays
        this one's own."""
        whole = min(computed // self.block, len(blocks))
        for block in blocks[held.entered : whole]:
            if block not in self.pinned and block not in self.idle:
                self.pinned[block] = 1
                held.shared.append(block)
                held.own -= self.block
                self.reserved -= self.block
        held.entered = max(held.entered, whole)

    def give(self, held: Held) -> None:
        """Back again; of its blocks the last goes first."""
        self.reserved -= held.own
        for block in reversed(held.shared):
            self.pinned[block] -= 1
            if not self.pinned[block]:
                del self.pinned[block]
                self.idle[block] = None

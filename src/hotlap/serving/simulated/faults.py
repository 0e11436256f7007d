"""What a simulated server does wrong on request. Without any it is honest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hotlap.serving.simulated.engine import Chunk, StepCost

FAULTS: Mapping[str, str] = {
    "role-first": "a first event without text, as soon as the request is read",
    "batched": "events of 4 tokens each after the first",
    "no-usage": "tokens are never counted, asked or not",
    "reasoning": "chat: the first third of an answer is reasoning",
    "early-end": "answers end after half of the tokens asked for, as if they were complete",
    "refuse": "every 4th request is refused with 429",
    "reset": "the connection of every 4th request is reset in the middle of its answer",
    "cached": "half of every prompt counts as cached, whatever it is",
    "stall": "every 4th answer is held back for 2 s in its middle, then comes at once",
    "slow-start": "steps take 3 times as long until the server has worked for 5 s",
    "duplicate": "every 8th event is sent twice",
    "drift": "times in /metrics are by a clock that runs 20 % fast",
}
EVERY = 4  # requests, of which the last is refused, reset or held back
BATCHED_TOKENS = 4
DUPLICATED = 8  # events, of which the last is sent twice
STALL_S = 2.0
SLOW, SLOW_S = 3.0, 5.0
DRIFT = 1.2
PHANTOM_SHARE = 0.5  # of a prompt that counts as cached
EARLY_SHARE = 0.5  # of the tokens asked for
REASONING_SHARE = 1 / 3


def of_request(faults: Sequence[str], index: int) -> frozenset[str]:
    """Those that a request meets; `index` counts from 0."""
    rare = {"refuse", "reset", "stall"} if index % EVERY != EVERY - 1 else set[str]()
    return frozenset(faults) - rare


class SlowStart:
    """Steps that take longer until so much work, in its own seconds, is done."""

    def __init__(self, cost: StepCost, times: float = SLOW, until_s: float = SLOW_S) -> None:
        self.cost, self.times, self.left_s = cost, times, until_s

    def seconds(self, decodes: int, context: int, chunks: Sequence[Chunk]) -> float:
        honest_s = self.cost.seconds(decodes, context, chunks)
        if self.left_s <= 0:
            return honest_s
        slow_s = honest_s * self.times
        self.left_s -= slow_s
        return slow_s

"""Blocks of requests as the pairs of core's test: a number of each block, of requests measured now or recorded before.

A block is one turn of a side. Where the client was late or starved in it, the numbers are the client's: the pair does not count.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from hotlap.core.errors import MachineError
from hotlap.core.measure.targets.host import HostTarget
from hotlap.core.record import BLOCK, CONFIGURATION, Case, Plan, Samples
from hotlap.core.trials.arms import Arm, BothSides
from hotlap.core.work.program import REQUESTS
from hotlap.serving import ab_tails
from hotlap.serving.ab_config import SideLoad
from hotlap.serving.ab_tails import AbTails
from hotlap.serving.record import Request
from hotlap.serving.summary import BAD, value_of

METRICS: Mapping[str, tuple[str, Literal["higher", "lower"]]] = {  # unit, and which way is better
    "ttft": ("s", "lower"), "tpot": ("s", "lower"), "e2e": ("s", "lower"), "throughput": ("1/s", "higher"),
}  # fmt: skip
WARM_UP = 2  # blocks before the first pair: a cold engine reads 30 % low
SURE = 0.01  # chance below which B fails more often
FEW, SHARE = 15, 2 / 3  # pairs of which so many were spoilt by the client that there is no use in going on


class Block(NamedTuple):
    """What became of a block: its requests without the warm-up, and what was wrong with the client; `run` is where it is kept."""

    requests: Sequence[Request]
    flaws: Sequence[str] = ()
    run: str = ""


BlockSource = Callable[[str, int | None], Block]
"""Side and pair → its block; None: a warm-up."""


class Tally:
    """What happened to the blocks of both sides."""

    def __init__(self) -> None:
        self.lost: dict[int, str] = {}  # pair → what was wrong with the client
        self.failed, self.sent = {"A": 0, "B": 0}, {"A": 0, "B": 0}  # of all blocks, those that warm up and those left out too
        self.requests: dict[str, dict[int, Sequence[Request]]] = {"A": {}, "B": {}}  # by pair, of both sides
        self.runs: list[str] = []
        self.spoilt = ""  # why nothing may be concluded

    def document(self) -> dict[str, object]:
        left = sorted(self.lost)
        sent = {"sent": self.sent, "counted": self.counted(), "failed": self.failed}
        return {"blocks": self.runs, "left_out": left, **sent, "tails": self.tails()}

    @property
    def pairs(self) -> list[int]:
        """That both sides have, and that the client did not spoil."""
        return sorted((self.requests["A"].keys() & self.requests["B"].keys()) - self.lost.keys())

    def counted(self) -> dict[str, int]:
        """Requests of pairs that count, by side."""
        return {side: sum(len(self.requests[side][pair]) for pair in self.pairs) for side in "AB"}

    def tails(self) -> AbTails:
        """Of requests of pairs that count."""
        return ab_tails.of({side: [one for pair in self.pairs for one in self.requests[side][pair]] for side in "AB"}, more)

    def go_on(self, pairs: int) -> None:
        """After so many whole pairs. Raises BothSides once there is no use in going on."""
        if pairs >= FEW and len(self.lost) > SHARE * pairs:
            self.spoilt = f"the client was {self.lost[max(self.lost)]}; {len(self.lost)} of {pairs} pairs are lost to it"
            raise BothSides(f"inconclusive: the client: {self.spoilt}", "use a quieter machine, or longer requests")


def worse(tally: Tally) -> bool:
    """Whether B surely fails more often than A, of requests that count."""
    return more((tally.failed["A"], tally.sent["A"]), (tally.failed["B"], tally.sent["B"]))


def more(first: tuple[int, int], second: tuple[int, int]) -> bool:
    """Whether the second surely has more bad ones, of (bad, all): Fisher's exact test, one-sided at 1 %."""
    bad, few, many = first[0] + second[0], first[1], second[1]
    if not bad or not few or not many:
        return False
    as_many = sum(math.comb(many, k) * math.comb(few, bad - k) for k in range(second[0], min(bad, many) + 1) if bad - k <= few)
    return as_many / math.comb(few + many, bad) < SURE


class BlockTrial(NamedTuple):
    """What both sides have in common."""

    load: SideLoad
    metrics: Sequence[str]
    source: BlockSource
    tally: Tally
    warm_up: int = WARM_UP


def arm(side: str, name: str, trial: BlockTrial, configuration: str = "") -> Arm:
    """A side of core's test whose turns are blocks. The first turn of all is the warm-up's blocks, which are kept and not counted.
    `configuration`: of its server, in a label: runs of another one are another series."""
    host, tally, warm = HostTarget(), trial.tally, [False]
    cases = [case(metric, trial.load) for metric in trial.metrics]

    def once(number: int) -> list[Samples]:
        if not warm[0]:
            warm[0] = True
            for _ in range(trial.warm_up):
                _counted(trial.source(side, None), side, tally)
            return []
        if all(number not in tally.requests[each] for each in "AB"):
            tally.go_on(number)
        began_s = host.clock.now()
        block = Block(()) if number in tally.lost else _counted(trial.source(side, number), side, tally)
        tally.requests[side][number] = block.requests
        if block.flaws:
            tally.lost[number] = ", ".join(block.flaws)
        when: dict[str, Any] = {"device": host.device.key, "round": number, "method": BLOCK, "began_s": began_s}
        when["ended_s"] = host.clock.now()
        if number in tally.lost:
            reason = f"the client was {tally.lost[number]}"
            return [Samples(case=of.id, status="not_run", reason=reason, **when) for of in cases]
        return [_samples(of, block, when) for of in cases]

    labels = {CONFIGURATION: configuration} if configuration else {}
    plan = Plan(name="blocks", about=configuration, cases=cases, source="hotlap serving ab")
    return Arm(name, plan, host.device, "host", once, labels)


def case(metric: str, load: SideLoad) -> Case:
    """The same on both sides."""
    unit, better = METRICS[metric]
    return REQUESTS.case({"metric": metric, "unit": unit, "better": better, "load": load.pairs})


def own(requests: Sequence[Request], metrics: Sequence[str]) -> float:
    """What the client's delays are compared with: the median TTFT where that is compared, else E2E; 0 where there is none."""
    values = [one for request in requests if (one := request.ttft_s if "ttft" in metrics else request.e2e_s) is not None]
    return statistics.median(values) if values else 0.0


def seed(drawn: int, pair: int | None, count: int = 0) -> int:
    """Of the arrivals of a pair, the same on both sides; `count` tells warm-ups apart."""
    return random.Random(f"{drawn}/{pair}/{count}").getrandbits(31)


def value(requests: Sequence[Request], metric: str) -> float:
    """Of a block: the median of a latency, where what failed never came; output tokens a second (requests where there are none), from
    the first that was due to the last end. NaN where there is none."""
    if metric == "throughput":
        ok = [request for request in requests if request.outcome == "ok"]
        span_s = max((request.ended_s or 0.0 for request in ok), default=0.0) - min((request.due_s for request in requests), default=0.0)
        done = sum(request.output_tokens or 0 for request in ok) or len(ok)
        return done / span_s if ok and span_s > 0 else math.nan
    values = [math.inf if request.outcome in BAD else value_of(request, metric) for request in requests]
    known = [one for one in values if one is not None]
    return statistics.median(known) if known else math.nan


def _counted(block: Block, side: str, tally: Tally) -> Block:
    tally.sent[side] += len(block.requests)
    tally.failed[side] += sum(request.outcome in BAD for request in block.requests)
    if block.run:
        tally.runs.append(block.run)
    return block


def _samples(of: Case, block: Block, when: dict[str, Any]) -> Samples:
    """Raises MachineError for a block without a number."""
    metric, bad = str(of.params["metric"]), [request for request in block.requests if request.outcome in BAD]
    number = value(block.requests, metric)
    if not math.isfinite(number) and bad:
        raise MachineError(f"{len(bad)} of {len(block.requests)} requests of a block failed: {bad[0].reason}")
    if not math.isfinite(number) or number <= 0:
        raise MachineError(f"a block has no {metric}: its answers come at once, or the server counts no tokens; take another --metric")
    return Samples(
        case=of.id, values=[number], unit=METRICS[metric][0], variant=f"block of {len(block.requests)}",
        metrics={"requests": len(block.requests), "failed": len(bad)}, **when,
    )  # fmt: skip

"""What the number of a block does not show: medians and tails of both sides, over all requests of the pairs that count."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from hotlap.core import units
from hotlap.core.record import Record
from hotlap.core.show.table import Cell, Column, Table
from hotlap.serving import quantiles
from hotlap.serving.doubts import STALL_S, STALL_TIMES
from hotlap.serving.quantiles import Quantile
from hotlap.serving.record import Request

SHARES = (0.5, 0.9, 0.99)
SIDES = ("A", "B")
METRICS: Mapping[str, tuple[str, Callable[[Request], float | None]]] = {
    "ttft": ("TTFT", lambda request: request.ttft_s), "e2e": ("E2E", lambda request: request.e2e_s),
    "tpot": ("TPOT", lambda request: request.tpot_s), "stall": ("stall", lambda request: request.stall_s),
}  # fmt: skip


class SideTail(Record, frozen=True, kw_only=True):
    """One metric of one side: of answers, in seconds."""

    metric: str
    side: str
    count: int
    quantiles: list[Quantile]


class AbTails(Record, frozen=True, kw_only=True):
    """`paused`: answers of each side that paused for STALL_S and STALL_TIMES usual gaps. `differ`: what is unlike, by metric
    and quantile (their 95 % intervals lie apart: of a dozen that are compared some do by chance), or
    surely `paused` (Fisher's exact test, one-sided at 1 %)."""

    tails: list[SideTail]
    answered: dict[str, int]
    paused: dict[str, int]
    differ: list[str]


def of(requests: Mapping[str, Sequence[Request]], more: Callable[[tuple[int, int], tuple[int, int]], bool]) -> AbTails:
    """`requests`: by side, in order of time. `more`: whether the second surely has more bad ones, of (bad, all)."""
    ok = {side: [request for request in requests[side] if request.outcome == "ok"] for side in SIDES}
    tails = []
    for metric, (_, value) in METRICS.items():
        for side in SIDES:
            values = [one for request in ok[side] if (one := value(request)) is not None]
            if values:
                shown = [quantiles.quantile(values, p) for p in SHARES]
                tails.append(SideTail(metric=metric, side=side, count=len(values), quantiles=shown))
    paused = {side: sum((one.stall_s or 0.0) > _still_s([*ok["A"], *ok["B"]]) for one in ok[side]) for side in SIDES}
    answered = {side: len(ok[side]) for side in SIDES}
    counts = [(paused[side], answered[side]) for side in SIDES]
    pauses = ["paused"] if more(counts[0], counts[1]) or more(counts[1], counts[0]) else []
    return AbTails(tails=tails, answered=answered, paused=paused, differ=[*_apart(tails), *pauses])


def _still_s(ok: Sequence[Request]) -> float:
    usual = [request.tpot_s for request in ok if request.tpot_s is not None]
    return max(STALL_S, STALL_TIMES * float(np.median(usual))) if usual else STALL_S


def _apart(tails: Sequence[SideTail]) -> list[str]:
    """Metric and quantile where one side's interval lies beyond the other's: `ttft p99`."""
    by = {(tail.metric, tail.side): tail.quantiles for tail in tails}
    unlike = []
    for metric in METRICS:
        for a, b in zip(by.get((metric, "A"), []), by.get((metric, "B"), []), strict=False):
            if _beyond(a, b) or _beyond(b, a):
                unlike.append(f"{metric} p{a.p * 100:g}")
    return unlike


def _beyond(small: Quantile, large: Quantile) -> bool:
    return small.high is not None and large.low is not None and small.high < large.low


def table(tails: AbTails) -> Table:
    """A row a metric, both sides beside each other."""
    by = {(tail.metric, tail.side): tail for tail in tails.tails}
    names = [metric for metric in METRICS if (metric, "A") in by and (metric, "B") in by]
    columns = [Column("", [Cell(METRICS[metric][0]) for metric in names])]
    for place, p in enumerate(SHARES):
        for side in SIDES:
            shown = [units.show(by[metric, side].quantiles[place].value or 0.0, "s") for metric in names]
            columns.append(Column(f"{side} p{p * 100:g}", [Cell(one) for one in shown], right=True))
    return Table(columns)


def notices(tails: AbTails, decides: Sequence[str]) -> list[str]:
    """What differs although the verdict is not of it. `decides`: metrics whose median decides."""
    notes = []
    unlike = [name for name in tails.differ if name != "paused" and name not in [f"{metric} p50" for metric in decides]]
    if unlike:
        words = ", ".join(f"{name.split()[1]} of {METRICS[name.split()[0]][0]}" for name in unlike)
        compared = f"of {len(tails.tails) // 2 * len(SHARES)} that are compared, and some of so many do by chance"
        notes.append(f"{words}: perhaps unlike on both sides (95 % intervals lie apart, {compared}); the verdict is not of that")
    if "paused" in tails.differ:
        counts = " and ".join(f"{side} {tails.paused[side]} of {tails.answered[side]}" for side in SIDES)
        notes.append(f"answers that paused for a second or more: {counts}; the verdict does not count pauses")
    elif any(tails.paused.values()):
        counts = " and ".join(f"{side} {tails.paused[side]} of {tails.answered[side]}" for side in SIDES)
        notes.append(f"answers that paused for a second or more: {counts}: too few to say that the sides differ; more --pairs would")
    return notes

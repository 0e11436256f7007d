"""Who came last to each collective, who waited for it and how long, and what the last one did before it came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.record import Record
from hotlap.traces import intervals
from hotlap.traces.clocks import Clocks
from hotlap.traces.collectives import PARTS
from hotlap.traces.meeting import Met
from hotlap.traces.reducing import Reduced

Floats = NDArray[np.float64]
SURE = 2.0  # times the ends' deviation that first and last arrival must be apart for anyone to be late
ENDS = 0.5  # of that, which nineteen of twenty ends of the collective itself may lie from its median end
MOST = 3  # causes and kernels named
LEAST = 0.05  # of all that a late rank spends longer in: what is less is not named


class Late(Record, frozen=True, kw_only=True):
    """A rank others waited for."""

    rank: int
    times: int  # collectives to which it came last, the others clearly before it
    of: int  # collectives in which it took part
    caused_s: float  # exposed waiting of the median other rank
    saved_s: float  # of that, what is left until the rank that came second to last, which would then be waited for
    share: float  # caused, of the window
    saved_share: float
    median_s: float  # by how much it came after the median other rank, when it came last
    more: dict[str, float]  # seconds before those collectives above the median of the others, by what they went into
    kernels: dict[str, float]  # seconds in the window above the median rank, by kernel; on a host by operator


class Arrivals(NamedTuple):
    """Waiting of all ranks for all ranks."""

    ranks: list[int]
    waits: Floats  # waiter × late: seconds of exposed waiting
    lost: Floats  # by rank: share of its window
    late: list[Late]  # by what they cause
    collectives: int
    close: int  # collectives at which all came together, as far as clocks tell, or whose own ends do not agree

    @property
    def lost_share(self) -> float:
        """Of the window, mean over ranks."""
        return float(np.mean(self.lost)) if len(self.lost) else 0.0


class _Group(NamedTuple):
    rows: NDArray[np.int64]  # of ranks
    last: NDArray[np.int64]  # row of the rank that came last, by collective; −1 where no one clearly did
    exposed: Floats  # ranks × collectives, ns of waiting behind which nothing computes
    margin: Floats  # last to second to last, ns
    behind: Floats  # last to the median of the others


def arrivals(ranks: Mapping[int, Reduced], met_groups: Sequence[Met], set_to: Clocks) -> Arrivals:
    """Waiting by arrival order, by the clocks as they were set."""
    order = sorted(ranks)
    count = len(order)
    begun: list[list[NDArray[np.int64]]] = [[] for _ in order]
    until: list[list[NDArray[np.int64]]] = [[] for _ in order]
    groups = [_group(ranks, order, one, set_to, begun, until) for one in met_groups]
    waits, lost = np.zeros((count, count)), np.zeros(count)
    for one in groups:
        known = one.last >= 0
        for row, exposed in zip(one.rows, one.exposed, strict=True):
            waits[row] += np.bincount(one.last[known], weights=exposed[known], minlength=count)
    for row, rank in enumerate(order):
        if not begun[row] or not ranks[rank].window_s:
            continue
        waiting = intervals.union(np.concatenate(begun[row]), np.concatenate(until[row]))
        once = float(intervals.intersection(waiting, ranks[rank].exposed).length)
        counted = float(waits[row].sum())
        waits[row] *= once / counted if counted > once else 1.0  # collectives that overlap wait at once
        lost[row] = min(once, counted) / 1e9 / ranks[rank].window_s
    late = [_late(ranks, order, row, met_groups, groups) for row in range(count)]
    total = sum(len(one.last) for one in groups)
    close = sum(int((one.last < 0).sum()) for one in groups)
    by_harm = sorted((one for one in late if one.times), key=lambda one: -one.caused_s)
    return Arrivals(order, waits / 1e9, lost, by_harm, total, close)


def _group(
    ranks: Mapping[int, Reduced], order: list[int], group: Met, set_to: Clocks, begun: list[list[NDArray[np.int64]]],
    until: list[list[NDArray[np.int64]]],
) -> _Group:
    """Waiting in one group; adds each rank's waits, by its own clock, to `begun` and `until`."""
    came, ended = set_to.true(group.ranks, group.start), set_to.true(group.ranks, group.end)
    by_time = np.sort(came, axis=0)
    last_time, spread = by_time[-1], by_time[-1] - by_time[0]
    rows = np.searchsorted(order, group.ranks)
    apart = np.quantile(np.abs(ended - np.median(ended, axis=0)), 0.95, axis=0) * (len(rows) / (len(rows) - 1))
    clear = (spread > SURE * set_to.residual_ns) & (apart <= np.maximum(ENDS * spread, SURE * set_to.residual_ns))
    last = np.where(clear, rows[np.argmax(came, axis=0)], -1)
    wait = np.where(clear, np.maximum(np.minimum(last_time, ended) - came, 0.0), 0.0).astype(np.int64)
    exposed = np.zeros(wait.shape)
    for i, row in enumerate(rows):
        start, end = group.start[i], group.start[i] + wait[i]
        exposed[i] = intervals.covered(ranks[order[row]].exposed, start, end)
        begun[row].append(start)
        until[row].append(end)
    return _Group(rows, last, exposed, by_time[-1] - by_time[-2], last_time - np.median(by_time[:-1], axis=0))


def _late(ranks: Mapping[int, Reduced], order: list[int], row: int, met_groups: Sequence[Met], groups: Sequence[_Group]) -> Late:
    """What one rank caused, and why."""
    caused = saved = 0.0
    times = of = 0
    behind: list[Floats] = []
    more = np.zeros(len(PARTS))
    for late_group, group in zip(met_groups, groups, strict=True):
        mine = np.flatnonzero(group.rows == row)
        of += group.last.size if len(mine) else 0
        at = np.flatnonzero(group.last == row)
        if not len(at):
            continue
        others = np.delete(np.arange(len(group.rows)), mine)
        waited = np.median(group.exposed[np.ix_(others, at)], axis=0)
        caused += float(waited.sum())
        # The work does not vanish where it is shared: of two ranks half of it comes back.
        saved += float(np.minimum(waited, group.margin[at]).sum()) * (late_group.members - 1) / max(late_group.members, 2)
        times += len(at)
        behind.append(group.behind[at])
        own = ranks[order[row]].calls.before[late_group.places[mine[0], at]]
        some = others if len(others) <= 64 else others[:: len(others) // 64]
        theirs = np.median([ranks[order[group.rows[i]]].calls.before[late_group.places[i, at]] for i in some], axis=0)
        more += (own - theirs).sum(axis=0)
    window = ranks[order[row]].window_s or 1.0
    least = LEAST * more.clip(0).sum()
    above = sorted(((float(ns) / 1e9, part) for part, ns in zip(PARTS, more, strict=True) if ns > least), reverse=True)[:MOST]
    return Late(
        rank=order[row], times=times, of=of, caused_s=caused / 1e9, saved_s=saved / 1e9, share=min(caused / 1e9 / window, 1.0),
        saved_share=min(saved / 1e9 / window, 1.0), median_s=float(np.median(np.concatenate(behind))) / 1e9 if behind else 0.0,
        more={part: seconds for seconds, part in above}, kernels=_kernels(ranks, order[row]) if times else {},
    )  # fmt: skip


def _kernels(ranks: Mapping[int, Reduced], rank: int) -> dict[str, float]:
    """Kernels that took more on this rank than on the median other, most first."""
    others = [one.kernels for number, one in ranks.items() if number != rank]
    others = others if len(others) <= 64 else others[:: len(others) // 64]
    excess = sorted(
        ((own - float(np.median([one.get(name, 0.0) for one in others])), name) for name, own in ranks[rank].kernels.items()), reverse=True
    )
    return {name: seconds for seconds, name in excess[:MOST] if seconds > 0.02 * sum(ranks[rank].kernels.values())}

"""Collectives of one group put side by side: the same one on every rank, by group, order, name and size."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.record import Record
from hotlap.traces.collectives import TOGETHER, Calls, CollectiveKind, ProcessGroup
from hotlap.traces.intervals import Times

AHEAD = 32  # collectives that are looked through for where two sequences agree again
AGREE = 3  # in a row, to take it that they do


class GroupMismatch(Record, frozen=True, kw_only=True):
    """Ranks of a group that did not record the same collectives."""

    group: str
    rank: int
    what: str


class Met(NamedTuple):
    """Collectives of one group: a row for each rank, a column for each collective that all of these ranks recorded."""

    group: ProcessGroup
    ranks: NDArray[np.int64]
    places: NDArray[np.int64]  # ranks × collectives: place in that rank's calls
    start: Times  # ranks × collectives, by each rank's own clock
    end: Times
    kinds: list[CollectiveKind]  # by column
    bytes: NDArray[np.int64]  # ranks × collectives; −1 unknown

    @property
    def members(self) -> int:
        """Ranks in the group, whether their traces are here or not."""
        return max(self.group.size, len(self.ranks))


def met(calls: Mapping[int, Calls]) -> tuple[list[Met], list[GroupMismatch]]:
    """All groups of which two ranks or more are here, and what does not fit. Only collectives that none can end before all have come."""
    by_group: dict[tuple[str, tuple[int, ...]], dict[int, int]] = defaultdict(dict)
    for rank, one in calls.items():
        for number, group in enumerate(one.groups):
            by_group[group.name, group.members][rank] = number
    groups: list[Met] = []
    wrong: list[GroupMismatch] = []
    for (_, members), numbers in by_group.items():
        if len(numbers) < 2:
            continue
        group = max((calls[rank].groups[number] for rank, number in numbers.items()), key=lambda one: one.size)
        if group.size and len(numbers) > group.size:
            wrong.append(
                GroupMismatch(
                    group=_called(group),
                    rank=min(numbers),
                    what=f"{len(numbers)} ranks name it, though {group.size} are in it: not matched",
                )
            )
            continue
        places = {rank: _ours(calls[rank], number) for rank, number in numbers.items()}
        if members:
            places = {rank: one for rank, one in places.items() if rank in members}
        places = {rank: one for rank, one in places.items() if len(one)}
        if len(places) > 1:
            _group(group, calls, places, groups, wrong)
    return groups, wrong


def _called(group: ProcessGroup) -> str:
    return f"{group.name} ({group.about})" if group.about else group.name


def _ours(events: Calls, group: int) -> NDArray[np.int64]:
    """Places of a group's collectives that end together."""
    together = np.array([kind.name in TOGETHER for kind in events.kinds], bool)
    return np.flatnonzero((events.group == group) & together[events.kind]) if len(events.kinds) else np.empty(0, np.int64)


def _group(
    group: ProcessGroup, calls: Mapping[int, Calls], places: dict[int, NDArray[np.int64]], groups: list[Met], wrong: list[GroupMismatch]
) -> None:
    codes: dict[tuple[str, str, int], int] = {}
    sequences = {rank: _sequence(calls[rank], here, codes) for rank, here in places.items()}
    common = Counter(one.tobytes() for one in sequences.values()).most_common()
    texts = [text for text, count in common if count == common[0][1]]
    model_rank = max((rank for rank, one in sequences.items() if one.tobytes() in texts), key=lambda rank: (len(sequences[rank]), -rank))
    model, model_places = sequences[model_rank], places[model_rank]
    columns = {}
    for rank, members in sequences.items():
        if members.tobytes() == model.tobytes():
            columns[rank] = np.arange(len(model))
            continue
        ends = calls[rank].end[places[rank]], calls[model_rank].end[model_places]
        columns[rank] = _aligned(members, model, *ends)
        if what := _told(calls[model_rank], model_places, columns[rank], len(members)):
            wrong.append(GroupMismatch(group=_called(group), rank=rank, what=what))
    columns = {rank: at for rank, at in columns.items() if (at >= 0).any()}
    both = np.all([at >= 0 for at in columns.values()], axis=0)
    if len(columns) < 2 or not both.any():
        return
    ranks = sorted(columns)
    rows = np.array([places[rank][columns[rank][both]] for rank in ranks])
    sizes = [_bytes(calls[rank])[row] for rank, row in zip(ranks, rows, strict=True)]
    groups.append(
        Met(
            group, np.array(ranks), rows, np.array([calls[rank].start[row] for rank, row in zip(ranks, rows, strict=True)]),
            np.array([calls[rank].end[row] for rank, row in zip(ranks, rows, strict=True)]),
            [calls[model_rank].kinds[int(i)] for i in calls[model_rank].kind[model_places[both]]], np.array(sizes),
        )
    )  # fmt: skip


def _bytes(events: Calls) -> NDArray[np.int64]:
    """Of every call."""
    return np.array([kind.bytes for kind in events.kinds], np.int64)[events.kind]


def _sequence(events: Calls, here: NDArray[np.int64], codes: dict[tuple[str, str, int], int]) -> NDArray[np.int64]:
    """A number for each collective: the same for those that may be one. Parts of an all-to-all may differ in size by rank."""
    table = [codes.setdefault((kind.name, kind.dtype, -1 if kind.name == "alltoall" else kind.bytes), len(codes)) for kind in events.kinds]
    return np.array(table, np.int64)[events.kind[here]]


def _aligned(sequence: NDArray[np.int64], model: NDArray[np.int64], ends: Times, model_ends: Times) -> NDArray[np.int64]:
    """For each collective of the model its place in the other sequence; −1 where it is missing there.

    A window that began or ended elsewhere is a shift: of the shifts at which all names and sizes agree, the one is taken at which
    the two clocks differ most evenly. Else both are walked side by side.
    """
    fewer = len(sequence) < len(model)
    short, long = (sequence, model) if fewer else (model, sequence)
    best: tuple[float, int] | None = None
    for shift in range(len(long) - len(short) + 1 if len(sequence) != len(model) else 0):
        here = slice(shift, shift + len(short))
        if np.array_equal(long[here], short):
            apart = ends - model_ends[here] if fewer else ends[here] - model_ends
            spread = float(np.median(np.abs(apart - np.median(apart))))
            best = min(best, (spread, shift)) if best else (spread, shift)
    if best:
        at = np.full(len(model), -1, np.int64)
        if fewer:
            at[best[1] : best[1] + len(sequence)] = np.arange(len(sequence))
        else:
            at[:] = np.arange(best[1], best[1] + len(model))
        return at
    return _walked(sequence, model)


def _walked(sequence: NDArray[np.int64], model: NDArray[np.int64]) -> NDArray[np.int64]:
    at = np.full(len(model), -1, np.int64)
    i = j = 0
    while i < len(model) and j < len(sequence):
        if model[i] == sequence[j]:
            at[i] = j
            i, j = i + 1, j + 1
            continue
        steps = ((skipped, total - skipped) for total in range(1, 2 * AHEAD) for skipped in range(total, -1, -1))
        for a, b in steps:
            left = min(AGREE, len(model) - i - a, len(sequence) - j - b)
            if left > 0 and np.array_equal(model[i + a : i + a + left], sequence[j + b : j + b + left]):
                i, j = i + a, j + b
                break
        else:
            i, j = i + 1, j + 1
    return at


def _told(model: Calls, places: NDArray[np.int64], at: NDArray[np.int64], own: int) -> str:
    """In words, where a rank's sequence differs; "" where it does not."""
    missing = np.flatnonzero(at < 0)
    names = []
    if len(missing):
        first = int(missing[0])
        kind = model.kinds[int(model.kind[places[first]])]
        many = "one" if len(missing) == 1 else str(len(missing))
        size = f" of {kind.bytes:,} B" if kind.bytes >= 0 else ""
        names.append(
            f"misses {many} of {len(at)} collectives that others have{', first' if len(missing) > 1 else ':'} number {first + 1}, "
            f"{kind.name}{size}"
        )
    if (more := own - int((at >= 0).sum())) > 0:
        names.append(f"has {more} that the others do not have")
    return " and ".join(names)

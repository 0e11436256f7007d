"""Cases that are near others: likely the same kernel at a size alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hotlap.core import work
from hotlap.core.record import Case
from hotlap.kernels.coverage import features, regions
from hotlap.kernels.coverage.groups import CaseGroup, Groups, grouped
from hotlap.kernels.coverage.regions import RegionRoof

NEAR = 2.0
"""A case is near another of equal texts, alignment and side of the roofline where every size is within this factor."""


def matched(asked: Sequence[Case], have: Groups, roof: RegionRoof | None) -> tuple[set[str], dict[str, Case]]:
    """Of the cases asked for: the ids of those that are there, and of the others that have a near one Case.id → that case."""
    exact: set[str] = set()
    near: dict[str, Case] = {}
    for name, wanted in grouped(asked).items():
        if name not in have:
            continue
        there = have[name].cases
        for case, (places, apart) in zip(wanted.cases, _around(wanted, have[name], roof), strict=True):
            if not len(places):
                continue
            if any(there[place].id == case.id for place in places[apart == 0].tolist()):  # only these: an id takes its time
                exact.add(case.id)
            elif apart.min() <= np.log2(NEAR) + 1e-9:
                near[case.id] = there[int(places[np.argmin(apart)])]
    return exact, near


def _around(wanted: CaseGroup, there: CaseGroup, roof: RegionRoof | None) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """For each wanted case the places of those that are alike but for their sizes, and how far apart in the worst size, to 2."""
    keys, sizes = _coordinates([wanted, there], roof)
    count = len(wanted.cases)
    theirs = np.lexsort((sizes[count:, 0], keys[count:]))
    kept_keys, kept = keys[count:][theirs], sizes[count:][theirs]
    lows = np.searchsorted(kept_keys, keys[:count], side="left")
    highs = np.searchsorted(kept_keys, keys[:count], side="right")
    for one in range(count):
        low, high = int(lows[one]), int(highs[one])
        begin, end = low + np.searchsorted(kept[low:high, 0], [sizes[one, 0] - 1.0001, sizes[one, 0] + 1.0001])
        yield theirs[begin:end], np.abs(kept[begin:end] - sizes[one]).max(axis=1, initial=0.0)


def _coordinates(both: Sequence[CaseGroup], roof: RegionRoof | None) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """What must be equal as one number, and sizes as logarithms to 2; zero is like nothing but zero."""
    name, columns = both[0].name, [group.columns for group in both]
    same = []
    for text in columns[0].texts():
        places: dict[str, int] = {}
        same.append(np.concatenate([one.by_word(text, lambda word: places.setdefault(word, len(places))) for one in columns]))  # noqa: B023
    variety = work.find(name).variety
    if variety and features.aligned(variety):
        same.append(np.concatenate([features.alignment(variety, one) for one in columns]).astype(np.int64))
    if roof is not None:
        same.append(np.concatenate([regions.placed(name, one, roof).computes for one in columns]).astype(np.int64))
    same.append(np.unique([case.implementation for group in both for case in group.cases], return_inverse=True)[1])
    key = np.zeros(len(same[-1]), dtype=np.int64)
    for one in same:
        key = key * (int(one.max()) + 1) + one
    params = [param for param, values in columns[0].items() if values.dtype != object and param != "pad"]
    numbers = [np.concatenate([one[param] for one in columns]) for param in params]
    logs = [np.where(values > 0, np.log2(np.maximum(values, 1e-9)), -99.0) for values in numbers]
    return key, np.stack(logs, axis=1) if logs else np.zeros((len(key), 1))

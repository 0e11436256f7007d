"""Cases that are near others: likely the same kernel at a size alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hotlap.coverage import features, regions
from hotlap.coverage.groups import Group, Groups, grouped
from hotlap.coverage.regions import Roof
from hotlap.record import Case

NEAR = 2.0
"""A case is near another of equal texts, alignment and side of the roofline where every size is within this factor."""


def near_cases(asked: Sequence[Case], have: Groups, roof: Roof | None) -> dict[str, Case]:
    """Of the cases asked for that have a near one: Case.id → that case."""
    found = {}
    for name, wanted in grouped(asked).items():
        if name in have:
            for one, place in zip(wanted.cases, _nearest(wanted, have[name], roof), strict=True):
                if place >= 0:
                    found[one.id] = have[name].cases[place]
    return found


def _nearest(wanted: Group, there: Group, roof: Roof | None) -> NDArray[np.int64]:
    """For each wanted case the place of the nearest near one, −1 where there is none."""
    keys, sizes = _coordinates([wanted, there], roof)
    count = len(wanted.cases)
    theirs = np.lexsort((sizes[count:, 0], keys[count:]))
    kept_keys, kept = keys[count:][theirs], sizes[count:][theirs]
    found = np.full(count, -1, dtype=np.int64)
    lows = np.searchsorted(kept_keys, keys[:count], side="left")
    highs = np.searchsorted(kept_keys, keys[:count], side="right")
    for one in range(count):
        low, high = int(lows[one]), int(highs[one])
        first = kept[low:high, 0]
        begin, end = low + np.searchsorted(first, [sizes[one, 0] - 1.0001, sizes[one, 0] + 1.0001])
        apart = np.abs(kept[begin:end] - sizes[one]).max(axis=1) if end > begin else np.zeros(0)
        if len(apart) and apart.min() <= np.log2(NEAR) + 1e-9:
            found[one] = theirs[begin + int(np.argmin(apart))]
    return found


def _coordinates(both: Sequence[Group], roof: Roof | None) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """What must be equal as one number, and sizes as logarithms to 2; zero is like nothing but zero."""
    name, columns = both[0].name, [group.columns for group in both]
    same = []
    for text in columns[0].texts():
        places: dict[str, int] = {}
        same.append(np.concatenate([one.by_word(text, lambda word: places.setdefault(word, len(places))) for one in columns]))  # noqa: B023
    if name in features.ROWS or name in ("gemm", "conv"):
        same.append(np.concatenate([features.alignment(name, one) for one in columns]).astype(np.int64))
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

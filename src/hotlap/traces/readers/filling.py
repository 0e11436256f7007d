"""Columns from what readers of other formats than JSON hold: times checked, numbers fitted, texts given their places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.core.errors import InputError
from hotlap.core.record import Notice
from hotlap.traces.building import Builder
from hotlap.traces.events import COLUMNS, Head

Numbers = NDArray[np.int64]
FAR = 1 << 61  # no clock of a profiler reads more nanoseconds than this; differences of such times cannot overflow
NEGATIVE = "events without a time or of negative duration were skipped"


class Filling:
    """Adds blocks whose times are absolute nanoseconds; the first block's first event becomes the origin unless one is given."""

    def __init__(self, into: Builder, origin_ns: int | None = None) -> None:
        self.into, self.origin_ns = into, origin_ns

    def add(self, start: Numbers, end: Numbers, **columns: Numbers | int) -> None:
        """A block of events of absolute times in ns; those that end before they start, or have no time, are left out with a notice."""
        good = (end >= start) & (start > -FAR) & (end < FAR)
        if not good.all():
            self.into.notice("no_time", NEGATIVE, int(len(good) - good.sum()))
            start, end = start[good], end[good]
            columns = {name: one if isinstance(one, int) else one[good] for name, one in columns.items()}
        if not len(start):
            return
        if self.origin_ns is None:
            self.origin_ns = int(start.min())
        wanted = {name: one if isinstance(one, int) else fitted(one, name) for name, one in columns.items() if name in self.into.columns}
        self.into.add(start=start - self.origin_ns, duration=end - start, **wanted)

    def head(self, path: Any, reader: str, **facts: Any) -> Head:
        """The head of what was added; InputError where nothing was."""
        if not self.into.count:
            raise InputError(f"'{path}' holds no events with a start and a duration")
        notices = [Notice(code, seen, count=count) for (code, seen), count in self.into.notices.items()]
        return Head(reader=reader, origin_ns=self.origin_ns or 0, notices=notices, **facts)


def lines(path: Any, blocks: Iterable[bytes]) -> Iterator[str]:
    """Lines of text in blocks of bytes; InputError where one does not end within 16 MiB, as no line of a table does."""
    rest = b""
    for block in blocks:
        *whole_ones, rest = (rest + block).split(b"\n")
        for line in whole_ones:
            yield line.decode("utf-8", "replace").replace("\0", "").lstrip("\ufeff") + "\n"
        if len(rest) > 1 << 24:
            raise InputError(f"'{path}' has a line of more than 16 MiB; it is no table")
    if rest:
        yield rest.decode("utf-8", "replace").replace("\0", "")


def fitted(values: Numbers, column: str) -> Numbers:
    """The values, −1 where the column's type cannot hold one."""
    limits: Any = np.iinfo(COLUMNS[column])
    out = (values < max(limits.min, -FAR)) | (values > min(limits.max, FAR))
    return np.where(out, -1, values) if out.any() else values


def places(table: dict[Any, int], keys: Iterable[Any], count: int) -> Numbers:
    """The places of keys in a table that gives new keys the next one."""
    return np.fromiter(map(table.__getitem__, keys), np.int64, count)


def whole(value: Any, missing: int = -1) -> int:
    """A whole number below 2⁶¹ in size, also where it is written as text, or `missing`."""
    if isinstance(value, bool):
        return missing
    if isinstance(value, str):
        try:
            value = int(value, 0) if len(value) < 32 else missing
        except ValueError:
            try:
                value = float(value)
            except ValueError:
                return missing
    if isinstance(value, float):
        value = int(value) if abs(value) < FAR else missing
    return value if isinstance(value, int) and abs(value) < FAR else missing

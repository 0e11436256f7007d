"""What readers of captures share: the heading found, columns named, rows checked, numbers made ticks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import numpy as np

from hotlap.core.errors import InputError
from hotlap.core.record import Notice
from hotlap.frames import sheet, ticks
from hotlap.frames.record import STREAM, CaptureKept, ColumnKind, Floats, FrameCapture, Ints
from hotlap.frames.sheet import Sheet, SheetHead

EMPTY = "{path} has a heading and no frame; record again, for longer"
MOST_TIME = 1e15  # of any unit: 30 years in µs
LEAST = 2  # frames of a stream that is judged
OWN = ("generated", "skipped")  # columns that readers make
DELIMITERS = (",", ";", "\t")


class Wanted:
    """A column: its unit, and its names in files, without case and blanks, the first that is there."""

    def __init__(self, unit: str, *names: str) -> None:
        self.unit, self.names = unit, names


def plain(name: str) -> str:
    return name.strip().strip('"').casefold().replace(" ", "")


def heading(head: SheetHead, fits: Callable[[list[str]], bool]) -> SheetHead | None:
    """The first line that is a heading, with its delimiter."""
    for place, line in enumerate(head.lines):
        for delimiter in DELIMITERS:
            names = sheet.fields(line, delimiter) if delimiter in line else []
            if names and fits([plain(name) for name in names]):
                return SheetHead(head.path, head.lines, place, tuple(name.strip() for name in names), delimiter)
    return None


def places(names: tuple[str, ...]) -> dict[str, int]:
    """By plain name; of a name that stands twice the first."""
    return {plain(name): place for place, name in reversed(list(enumerate(names)))}


def wanted(head: SheetHead, columns: Mapping[str, Wanted]) -> dict[str, tuple[int, str]]:
    """Place and unit of each column that the file has."""
    there = places(head.names)
    chosen = {name: next((there[other] for other in want.names if other in there), None) for name, want in columns.items()}
    return {name: (place, columns[name].unit) for name, place in chosen.items() if place is not None}


def kept(
    head: SheetHead, tool: str, layout: str, columns: Mapping[str, tuple[int, str]], numbers: Mapping[str, Floats], facts: Mapping[str, str]
) -> CaptureKept:
    """All but its streams. Digits are filled in by `capture`."""
    names = head.names or ("",)
    kinds = {name: ColumnKind(digits=0, unit=unit, theirs=names[place]) for name, (place, unit) in columns.items()}
    kinds |= {name: ColumnKind(digits=0, unit="", theirs="") for name in OWN if name in numbers}
    used = {place for place, _ in columns.values()}
    try:
        time_s = head.path.stat().st_mtime
    except OSError:
        time_s = 0.0
    ignored = [name for place, name in enumerate(names) if place not in used and name]
    return CaptureKept(
        file=head.path.name, tool=tool, layout=layout, time_s=time_s, timed_by="file", columns=kinds, streams=[], ignored=ignored,
        facts=dict(facts),
    )


def capture(table: Sheet, kept: CaptureKept, numbers: dict[str, Floats], codes: Ints) -> FrameCapture:
    """The rows, checked, as ticks. Raises InputError with the line of what cannot be."""
    _check(table, numbers, codes)
    columns, whole = {}, {STREAM: codes}
    for name in list(numbers):
        whole[name], digits = ticks.of(numbers.pop(name))
        columns[name] = msgspec.structs.replace(kept.columns[name], digits=digits)
    columns[STREAM] = ColumnKind(digits=0, unit="", theirs="")
    return FrameCapture(msgspec.structs.replace(kept, columns=columns), whole)


def positive(table: Sheet, frames: Floats, between: np.ndarray[tuple[int], np.dtype[np.bool_]] | None = None) -> None:
    """Raises InputError for a frame time that is none. `between`: rows of generated frames, which may have 0."""
    wrong = (frames > MOST_TIME) | (frames < 0) | ((frames == 0) if between is None else (frames == 0) & ~between)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        what = "negative" if frames[row] < 0 else "0" if frames[row] == 0 else "longer than any"
        raise InputError(f"{table.line(row)}: a frame time that is {what}; the capture is broken there: give the part before or after it")


def _check(table: Sheet, numbers: Mapping[str, Floats], codes: Ints) -> None:
    frames, path = numbers["frame"], table.head.path
    if not len(frames):
        raise InputError(EMPTY.format(path=path))
    positive(table, frames, numbers.get("generated", np.zeros(len(frames))) > 0)
    if not np.isfinite(frames).any():
        raise InputError(f"{path}: every frame time is NA; nothing is known of its frames")
    if int(np.bincount(codes[np.isfinite(frames)]).max()) < LEAST:
        raise InputError(f"{path} has one frame; at least {LEAST} of a program are needed")
    if "start" in numbers:
        _forwards(table, numbers["start"], codes)
    if (gone := dropped(numbers)) is not None and gone.all():
        raise InputError(f"{path}: all {len(frames)} frames were dropped: nothing was displayed, so there is no rate to speak of")


def dropped(numbers: Mapping[str, Floats]) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
    """Which rows were never on the screen; None where the file does not say. PresentMon 1 has a column; since 2 it is a missing time."""
    if "dropped" in numbers:
        return np.asarray(numbers["dropped"] > 0)
    column = next((numbers[name] for name in ("displayed", "until_displayed") if name in numbers), None)
    return None if column is None or not np.isfinite(column).any() else np.asarray(np.isnan(column))


def _forwards(table: Sheet, starts: Floats, codes: Ints) -> None:
    """Within a stream; rows of several may be mixed."""
    order = np.argsort(codes, kind="stable")
    steps, same = np.diff(starts[order]), np.diff(codes[order]) == 0
    back = np.flatnonzero((steps < 0) & same)
    if len(back):
        row = int(order[int(back[0]) + 1])
        raise InputError(f"{table.line(row)}: time goes back within a program's frames; two captures in one file? give them apart")


def torn(table: Sheet) -> Notice:
    return Notice("torn_line", f"{table.head.path.name} ends within a row, which is left out")

"""A table of numbers as text, read in pieces: its memory is that of the columns that are wanted, not that of the text."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TextIO

import numpy as np

from hotlap.core.errors import InputError
from hotlap.frames.record import Floats, Ints

CHUNK = 20_000  # lines
GZIP = b"\x1f\x8b"
ABSENT = frozenset(("NA", "N/A", "NAN", "", "-NAN", "-NAN(IND)"))
SUMMARIES = {"% min fps": "MangoHud's summary", "log name": "FrameView's summary"}
BINARY = {  # how files begin that people give by mistake
    b"\x89PNG": "a picture (PNG)", b"\xff\xd8\xff": "a picture (JPEG)", b"GIF8": "a picture (GIF)", b"%PDF": "a PDF",
    b"PK\x03\x04": "a zip",
}
HEAD = 60  # lines in which the heading is looked for
MOST_ROWS = 50_000_000


@dataclass(frozen=True)
class SheetHead:
    """The first lines of a file, and where the heading stands among them."""

    path: Path
    lines: list[str]
    place: int = -1
    names: tuple[str, ...] = ()
    delimiter: str = ","

    @property
    def first_line(self) -> int:
        """Of the rows, counted from 1."""
        return self.place + 2


@dataclass
class Sheet:
    """Columns by name, and the groups of rows by the texts of some columns. `torn`: the last line ends within a row."""

    head: SheetHead
    numbers: dict[str, Floats] = field(default_factory=dict)
    codes: dict[str, Ints] = field(default_factory=dict)  # by what they are asked for: which of `texts` a row has
    texts: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    torn: bool = False

    def line(self, row: int) -> str:
        return f"{self.head.path}:{self.head.first_line + row}"


@contextmanager
def opened(path: Path) -> Iterator[TextIO]:
    """UTF-8 with or without a byte order mark, also gzipped. Raises InputError for what cannot be read."""
    try:
        with path.open("rb") as file:
            begins = file.read(4)
        packed = begins.startswith(GZIP)
        with gzip.open(path, "rt", encoding="utf-8-sig", newline="") if packed else path.open(encoding="utf-8-sig", newline="") as text:
            yield text
    except FileNotFoundError:
        raise InputError(f"there is no file '{path}'") from None
    except UnicodeDecodeError as error:
        if what := next((name for start, name in BINARY.items() if begins.startswith(start)), None):
            raise InputError(f"{path} is {what}, and no capture") from None
        raise InputError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"'{path}' cannot be read: {getattr(error, 'strerror', None) or error}") from None


def head(path: Path) -> SheetHead:
    with opened(path) as text:
        return SheetHead(path, [line.rstrip("\r\n") for line in islice(text, HEAD)])


def summary(line: str) -> str:
    """Whose summary begins with this line; "" for none."""
    return next((whose for words, whose in SUMMARIES.items() if words in line.casefold()), "")


def fields(line: str, delimiter: str) -> list[str]:
    """As RFC 4180; without quotes a plain split, which is ten times faster."""
    return next(csv.reader([line], delimiter=delimiter)) if '"' in line else line.split(delimiter)


def read(head: SheetHead, wanted: dict[str, int], grouped: dict[str, tuple[int, ...]]) -> Sheet:
    """`wanted`: place of each column of numbers; `grouped`: of columns of text, rows that have the same are of one group.

    Raises InputError, with the line, for a row of another length and for what is no number.
    """
    sheet = Sheet(head)
    known: dict[str, dict[tuple[str, ...], int]] = {name: {} for name in grouped}
    parts: dict[str, list[Floats]] = {name: [] for name in wanted}
    codes: dict[str, list[Ints]] = {name: [] for name in grouped}
    row = 0
    with opened(head.path) as text:
        for _ in islice(text, head.place + 1):
            pass
        while lines := list(islice(text, CHUNK)):
            cells, count = _cells(sheet, lines, row)
            size = len(head.names)
            for name, place in wanted.items() if count else ():
                parts[name].append(_numbers(sheet, cells[place::size], name, row))
            for name, places in grouped.items() if count else ():
                codes[name].append(_codes([cells[place::size] for place in places], known[name]))
            row += count
            if row > MOST_ROWS:
                raise InputError(f"{head.path} has more than {MOST_ROWS:,} rows; give it in parts")
    none = np.zeros(0)
    sheet.numbers = {name: np.concatenate(some) if some else none for name, some in parts.items()}
    sheet.codes = {name: np.concatenate(some) if some else none.astype(np.int64) for name, some in codes.items()}
    sheet.texts = {name: list(some) for name, some in known.items()}
    return sheet


def _cells(sheet: Sheet, lines: list[str], row: int) -> tuple[list[str], int]:
    """The fields of lines one after another, and how many rows they are; blank lines at the end are none, and a last line that was cut is
    left out. One list for all is three times as fast as one for each row."""
    delimiter, size = sheet.head.delimiter, len(sheet.head.names)
    whole = lines[-1].endswith("\n")
    lines = [line.rstrip("\r\n") for line in lines]
    while lines and not lines[-1].strip():
        lines.pop()
    if any('"' in line for line in lines):
        rows = [fields(line, delimiter) for line in lines]
        counts = list(map(len, rows))
    else:
        counts = [line.count(delimiter) + 1 for line in lines]
    for place, count in enumerate(counts) if counts.count(size) < len(counts) else ():
        if count == size:
            continue
        if place == len(lines) - 1 and not whole and count < size:
            sheet.torn = True
            lines.pop()
            break
        if whose := summary(lines[place]):
            raise InputError(f"{sheet.line(row + place)}: {whose} begins here, which holds no frames: give the part before it")
        commas = "; decimal commas need ';' between columns" if delimiter == "," and count > size else ""
        raise InputError(f"{sheet.line(row + place)}: {count} columns where the heading has {size}{commas}")
    if any('"' in line for line in lines):
        return [cell for cells in rows[: len(lines)] for cell in cells], len(lines)
    return delimiter.join(lines).split(delimiter) if lines else [], len(lines)


def _numbers(sheet: Sheet, cells: Sequence[str], name: str, row: int) -> Floats:
    try:
        return np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        return np.fromiter((_number(sheet, cell, name, row + place) for place, cell in enumerate(cells)), np.float64, len(cells))


def _number(sheet: Sheet, cell: str, name: str, row: int) -> float:
    text = cell.strip()
    if text.upper() in ABSENT:
        return np.nan
    try:
        return float(text)
    except ValueError:
        pass
    if text.count(",") == 1 and "." not in text:  # of a quoted cell, or between other delimiters
        try:
            return float(text.replace(",", "."))
        except ValueError:
            pass
    raise InputError(f"{sheet.line(row)}: '{text[:40]}' is no number ({name}); valid: a number with a decimal point, or NA")


def _codes(columns: Sequence[list[str]], known: dict[tuple[str, ...], int]) -> Ints:
    size = len(columns[0])
    if all(column.count(column[0]) == size for column in columns):
        return np.full(size, known.setdefault(tuple(column[0] for column in columns), len(known)), np.int64)
    return np.fromiter((known.setdefault(key, len(known)) for key in zip(*columns, strict=True)), np.int64, size)

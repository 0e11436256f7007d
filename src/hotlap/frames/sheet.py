"""A table of numbers as text, read in pieces: its memory is that of the columns that are wanted, not that of the text."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import TextIO

import numpy as np

from hotlap.core.errors import InputError
from hotlap.frames.record import Floats, Ints

CHUNK = 20_000  # lines
GZIP = b"\x1f\x8b"
ABSENT = frozenset(("NA", "N/A", "NAN", "", "-NAN", "-NAN(IND)"))
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
            packed = file.read(len(GZIP)) == GZIP
        with gzip.open(path, "rt", encoding="utf-8-sig", newline="") if packed else path.open(encoding="utf-8-sig", newline="") as text:
            yield text
    except FileNotFoundError:
        raise InputError(f"there is no file '{path}'") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"'{path}' cannot be read: {getattr(error, 'strerror', None) or error}") from None


def head(path: Path) -> SheetHead:
    with opened(path) as text:
        return SheetHead(path, [line.rstrip("\r\n") for line in islice(text, HEAD)])


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
            rows = _rows(sheet, lines, row)
            if rows:
                columns = _columns(rows, len(head.names))
                for name, place in wanted.items():
                    parts[name].append(_numbers(sheet, columns[place], name, row))
                for name, places in grouped.items():
                    codes[name].append(_codes([columns[place] for place in places], known[name]))
            row += len(rows)
            if row > MOST_ROWS:
                raise InputError(f"{head.path} has more than {MOST_ROWS:,} rows; give it in parts")
    none = np.zeros(0)
    sheet.numbers = {name: np.concatenate(some) if some else none for name, some in parts.items()}
    sheet.codes = {name: np.concatenate(some) if some else none.astype(np.int64) for name, some in codes.items()}
    sheet.texts = {name: list(some) for name, some in known.items()}
    return sheet


def _rows(sheet: Sheet, lines: list[str], row: int) -> list[list[str]]:
    """Fields of each line; blank lines at the end are none, and a last line that was cut is left out."""
    delimiter, size = sheet.head.delimiter, len(sheet.head.names)
    whole = lines[-1].endswith("\n")
    lines = [line.rstrip("\r\n") for line in lines]
    while lines and not lines[-1].strip():
        lines.pop()
    rows = [line.split(delimiter) for line in lines] if not any('"' in line for line in lines) else [fields(x, delimiter) for x in lines]
    for place, cells in enumerate(rows):
        if len(cells) != size:
            if place == len(rows) - 1 and not whole and len(cells) < size:
                sheet.torn = True
                return rows[:-1]
            commas = "; decimal commas need ';' between columns" if delimiter == "," and len(cells) > size else ""
            raise InputError(f"{sheet.line(row + place)}: {len(cells)} columns where the heading has {size}{commas}")
    return rows


def _columns(rows: Sequence[Sequence[str]], size: int) -> list[Sequence[str]]:
    return [list(map(itemgetter(place), rows)) for place in range(size)]


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
    if "," in text and (sheet.head.delimiter != "," or '"' in sheet.head.lines[-1]) and text.count(",") == 1 and "." not in text:
        try:
            return float(text.replace(",", "."))
        except ValueError:
            pass
    raise InputError(f"{sheet.line(row)}: '{text[:40]}' is no number ({name}); valid: a number with a decimal point, or NA")


def _codes(columns: Sequence[Sequence[str]], known: dict[tuple[str, ...], int]) -> Ints:
    size = len(columns[0])
    return np.fromiter((known.setdefault(key, len(known)) for key in zip(*columns, strict=True)), np.int64, size)

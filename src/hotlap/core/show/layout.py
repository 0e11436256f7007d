"""Columns of text that fit a terminal: decimals under decimals, bars, wrapping, and colour that adds nothing but ease."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from hotlap.core.show.table import Cell, Column, Table, harmless
from hotlap.core.show.table import aligned as aligned

GAP = 2  # spaces between columns
READABLE = 24  # width to which columns that wrap are narrowed first, one by one
NARROWEST = 12  # of a column that wraps
INDENT = 4  # of its further lines
UNBROKEN = 14  # letters of a word, up to which it is not broken
FEW_LINES = 6
STYLES = {"bold": "1", "dim": "2", "good": "32", "warn": "33", "bad": "31", "accent": "36"}
BARS = {"bound": "█", "expected": "▓"}  # distinguishable without colour: only a bound is solid; a run's own best is no limit
EIGHTHS = " ▏▎▍▌▋▊▉█"
_BREAKS = re.compile(r"(?<=::)|(?<=[_<,(/])(?=\w)|(?=<)")  # where a name may go on in the next line
_WORD = re.compile(r"\S+")
_QUANTITY = re.compile(r"(\d) ([kKMGT]?i?B\b|[kMGTP]?(?:FLOP/s|B/s|Hz|W)\b|[mµn]?s\b|%|×)")


def painted(text: str, style: str, color: bool) -> str:
    text = harmless(text)
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if color and style and text.strip() else text


def shortened(text: str, most: int) -> str:
    """At most `most` characters, the last an ellipsis where some are left out."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def bar(share: float | None, kind: str, width: int) -> str:
    """`share` of `width` cells, at most full; empty when unknown."""
    if share is None or kind not in BARS or width <= 0:
        return " " * width
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    if kind != "bound":
        full, rest = round(eighths / 8), 0
    text = BARS[kind] * full + (EIGHTHS[rest] if rest else "")
    return text + "·" * (width - len(text))


def _narrowest(column: Column) -> int:
    """Where it wraps, as wide as its longest word on a further line."""
    if not column.wrap:
        return column.natural
    words = [len(word) for shown in column.texts for word in _WORD.findall(shown)]
    return min(column.natural, max([NARROWEST, *(INDENT + size for size in words if size <= UNBROKEN)]))


def _at(column: Column, place: int) -> Cell:
    return replace(column.cells[place], text=column.texts[place]) if column.point else column.cells[place]


def _paint(cell: Cell, width: int, color: bool, right: bool) -> str:
    blank = " " * (width - len(cell.text))
    text = painted(cell.text, cell.style, color)
    return blank + text if right else text + blank


def total(columns: Sequence[Column], gap: int = GAP) -> int:
    return sum(column.natural for column in columns) + gap * (len(columns) - 1)


@dataclass(frozen=True)
class Grid:
    """Columns side by side in `width`. Where they do not fit, those that wrap are made narrower."""

    columns: Sequence[Column]
    width: int
    gap: int = GAP

    @cached_property
    def sizes(self) -> list[int]:
        sizes = [column.natural for column in self.columns]
        over = total(self.columns, self.gap) - self.width
        for least in (READABLE, 0):  # no column becomes hard to read while another has room; below that names come last
            for place, column in sorted(enumerate(self.columns), key=lambda pair: not least and pair[1].names):
                if column.wrap and over > 0:
                    narrowed = max(sizes[place] - over, min(sizes[place], least or _narrowest(column)))
                    over -= sizes[place] - narrowed
                    sizes[place] = narrowed
        return sizes

    @property
    def narrowest(self) -> int:
        """The width that it cannot go below."""
        return sum(map(_narrowest, self.columns)) + self.gap * (len(self.columns) - 1)

    def lines(self, color: bool, groups: Sequence[tuple[str, int]] = ()) -> list[str]:
        """The heading and every row, those of a group under its name."""
        lines = [self.header(color)]
        for name, places in Table(self.columns, groups).parts():
            lines += [painted(name, "bold", color)] if name else []
            lines += [text for place in places for text in self.line(place, color)]
        return lines

    def header(self, color: bool) -> str:
        heads = [c.head.rjust(w) if c.right else c.head.ljust(w) for c, w in zip(self.columns, self.sizes, strict=True)]
        return painted((" " * self.gap).join(heads).rstrip(), "dim", color)

    def line(self, place: int, color: bool) -> list[str]:
        """The row at `place`, on as many lines as its wrapped cells need (6 at most)."""
        pairs = zip(self.columns, self.sizes, strict=True)
        pieces = [_wrapped(_at(column, place), size) if column.wrap else [_at(column, place)] for column, size in pairs]
        return [self._one([p[n] if n < len(p) else Cell() for p in pieces], color) for n in range(max(map(len, pieces)))]

    def _one(self, cells: Sequence[Cell], color: bool) -> str:
        pairs = zip(self.columns, cells, self.sizes, strict=True)
        return (" " * self.gap).join(_paint(cell, width, color, column.right) for column, cell, width in pairs).rstrip()


def fitted(columns: Sequence[Column], width: int, spare: Sequence[str] = (), rather: str = "") -> Grid:
    """A grid no wider than `width` as far as that can be: closer columns, then without those whose heads are in `spare`, one by one.
    `rather`: the head of a column that is left out before a name wraps; what still wraps has closer columns."""
    kept = list(columns) if total(columns, GAP) <= width else [column for column in columns if not rather or column.head != rather]
    gaps = (1,) if rather and total(kept, GAP) > width else (GAP, 1)
    for head in ("", *spare):
        kept = [column for column in kept if not head or column.head != head]
        for gap in gaps:
            if (grid := Grid(kept, width, gap)).narrowest <= width:
                return grid
    return Grid(kept, width, 1)


class _Names(textwrap.TextWrapper):
    """Breaks what is longer than a line where a name has a joint, before it breaks it anywhere."""

    def _split(self, text: str) -> list[str]:
        chunks = super()._split(text)
        return [piece for chunk in chunks for piece in (_BREAKS.split(chunk) if len(chunk) > self.width - 4 else [chunk]) if piece]


def _wrapped(cell: Cell, width: int) -> list[Cell]:
    if len(cell.text) <= width:
        return [cell]
    wrapper = _Names(width, subsequent_indent=" " * INDENT, max_lines=FEW_LINES, placeholder=" …", break_on_hyphens=False)
    lines = wrapper.wrap(_bound(cell.text))
    return [Cell(text.replace("\u00a0", " "), cell.style) for text in lines]


def paragraph(first: str, text: str, width: int, most: int | None = 4) -> list[str]:
    """`text` behind `first`, wrapped with a hanging indent as wide as `first`; cut after `most` lines; None: never."""
    room = max(width - len(first), 24)
    lines = textwrap.wrap(_bound(harmless(text)), room, max_lines=most, placeholder=" …", break_on_hyphens=False) or [""]
    return [(first if number == 0 else " " * len(first)) + piece.replace("\u00a0", " ") for number, piece in enumerate(lines)]


def _bound(text: str) -> str:
    """A number stays on one line with its unit, a sign with its number."""
    return _QUANTITY.sub("\\1\u00a0\\2", text).replace("± ", "±\u00a0")

"""The one model of a table, and what it becomes on a page, in Markdown, in CSV and in JSON; `layout` sets it on a terminal."""

from __future__ import annotations

import csv as csv_module
import html as html_module
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hotlap.core.show import words

SHOUTED = ("good", "warn", "bad")  # styles of cells that a page shows too
_UNSEEN = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in (0x09, 0x0A, 0x0D)}
_NUMBER = re.compile(r"([±≤≥]\s*)?(-?\d+)(\.\d+)?( (?!round).*)?$")


def harmless(text: str) -> str:
    """A name from a file as it can be printed: what would steer a terminal is made visible."""
    return text if text.isprintable() else text.translate(_UNSEEN)


@dataclass(frozen=True)
class Cell:
    """A value as it is printed, and its style.

    `value`: what it is, in base units, for CSV, JSON and for sorting; the text where None. `drawn`: HTML that a page shows in place of the
    text. `kind`: class on a page, beside that of the column. `title`: what a page says when it is pointed at. `code`: stands as code
    in Markdown.
    """

    text: str = ""
    style: str = ""
    value: Any = None
    drawn: str = ""
    kind: str = ""
    title: str = ""
    code: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", harmless(self.text))


@dataclass(frozen=True)
class Column:
    """A heading and its cells.

    `right`: numbers stand at the right; `point`: their decimal points stand under each other. `wrap`: gives way on a terminal when there is
    not enough room. `key`: name in CSV and JSON, the heading where "". `title`: heading on a page, `head` where None. `kind`: class of its
    cells on a page; `scale`: HTML behind the heading. `names`: says what a row is of.
    """

    head: str
    cells: Sequence[Cell]
    right: bool = False
    wrap: bool = False
    point: bool = False
    key: str = ""
    title: str | None = None
    kind: str = ""
    scale: str = ""
    names: bool = False

    @cached_property
    def texts(self) -> list[str]:
        """What is printed of each cell."""
        texts = [cell.text for cell in self.cells]
        return aligned(texts) if self.point else texts

    @property
    def natural(self) -> int:
        return max([len(self.head), *map(len, self.texts)])


@dataclass(frozen=True)
class Table:
    """Columns of one length. `groups`: headings within, each with its number of rows; `kinds`: a class per row on a page."""

    columns: Sequence[Column]
    groups: Sequence[tuple[str, int]] = ()
    kinds: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.columns[0].cells) if self.columns else 0

    def parts(self) -> Iterator[tuple[str, range]]:
        """Heading and rows of each group; all rows under none where there are no groups."""
        place = 0
        for name, count in self.groups or (("", len(self)),):
            yield name, range(place, place + count)
            place += count


def aligned(texts: Sequence[str]) -> list[str]:
    """Texts that begin with a number, padded so that decimal points and units stand under each other; a dash stands where
    the number would. Texts of words only are left as they are."""
    parts = [_NUMBER.match(text) for text in texts]
    before = max((len((part[1] or "") + part[2]) for part in parts if part), default=1)
    after = max((len(part[3] or "") for part in parts if part), default=0)
    padded = []
    for text, part in zip(texts, parts, strict=True):
        if part:
            sign = part[1] or ""
            padded.append(f"{sign}{part[2]:>{before - len(sign)}}{part[3] or '':<{after}}{part[4] or ''}".rstrip())
        else:
            padded.append(text.rjust(before) if len(text) <= 1 else text)
    return padded


# ---------------------------------------------------------------- on a page


def text(value: object) -> str:
    """What came from outside as HTML, in one printable line."""
    return html_module.escape(words.clean(str(value)))


def spaced(padded: str) -> str:
    """Blanks that pad a number made as wide as what they stand for: a digit (U+2007), or the point before the first (U+2008). A phone's
    stack has no columns, and leaves them out (`pad`)."""
    match = re.match(r"((?:[±≤≥]\s)?)(\s*)(\S+?)(\s*)(\s\S.*)?$", padded)
    if match is None:
        return text(padded)
    sign, before, number, after, unit = (part or "" for part in match.groups())
    point = "\u2008" if after and "." not in number else ""
    rest = "\u2007" * (len(after) - len(point))
    parts = (html_module.escape(sign), _pad("\u2007" * len(before)), html_module.escape(number), _pad(point + rest))
    return "".join(parts) + html_module.escape(words.clean(unit))


def _pad(blanks: str) -> str:
    return f'<i class="pad">{blanks}</i>' if blanks else ""


def html(table: Table, kind: str = "", box: str = "scroll", sort: str = "", anchor: str = "") -> str:
    """The table as HTML, in a box that scrolls. `sort`: head of the column by which its rows stand, where a script is to sort them by
    `value`; `anchor`: its id. Of the kind `labelled`, each cell of a phone's stack says what it is."""
    named = f' id="{anchor}"' if anchor else ""
    heads = "".join(_head(column, sort) for column in table.columns)
    lines = [f'<table{_class(kind)}{named}><thead><tr>{heads}</tr></thead><tbody>']
    for name, places in table.parts():
        if name:
            lines.append(f'<tr class="family"><th colspan="{len(table.columns)}">{name.capitalize()}</th></tr>')
        for place in places:
            cells = "".join(_cell(column, place, bool(sort), "labelled" in kind) for column in table.columns)
            lines.append(f"<tr{_class(table.kinds[place] if table.kinds else '')}>{cells}</tr>")
    drawn = "".join([*lines, "</tbody></table>"])
    return f'<div class="{box}">{drawn}</div>' if box else drawn


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _head(column: Column, sort: str) -> str:
    order = f' aria-sort="{"descending" if column.head == sort else "none"}"' if sort else ""
    name = text(column.head if column.title is None else column.title)
    kinds = " ".join(kind for kind in _kinds(column) if kind in ("n", "spare"))
    return f"<th{_class(kinds)}{order}>{name}{column.scale}</th>"


def _kinds(column: Column) -> list[str]:
    """Classes of its cells on a page: `n` stands at the right."""
    return column.kind.split() or ["n"] * column.right


def _cell(column: Column, place: int, sorts: bool, labelled: bool) -> str:
    cell = column.cells[place]
    style = cell.style if cell.style in SHOUTED and not cell.drawn and not column.names else ""
    kind = " ".join(filter(None, (*_kinds(column), cell.kind, style)))
    title = f' title="{text(cell.title)}"' if cell.title else ""
    title += f' data-h="{text(column.title)}"' if labelled and column.title else ""
    value = f' data-v="{cell.value or 0:.9g}"' if sorts and column.right else ""
    inner = cell.drawn or (spaced(column.texts[place]) if column.point and "n" not in _kinds(column) else text(cell.text))
    tag = "th" if column.names else "td"
    return f"<{tag}{_class(kind)}{value}{title}>{inner}</{tag}>"


# ---------------------------------------------------------------- Markdown, CSV, JSON


def markdown(table: Table) -> list[str]:
    """Lines of a table of Markdown per group, under its name."""
    heads, lines = [column.head.strip() for column in table.columns], []
    rules = ["---:" if column.right or column.point else "---" for column in table.columns]
    for name, places in table.parts():
        lines += [f"**{name}**", ""] if name else []
        lines += [f"| {' | '.join(heads)} |", f"|{'|'.join(rules)}|"]
        lines += [f"| {' | '.join(_marked(column.cells[place]) for column in table.columns)} |" for place in places]
        lines.append("")
    return lines[:-1]


def _marked(cell: Cell) -> str:
    return code(cell.text) if cell.code else plain(cell.text)


def code(name: str) -> str:
    """A name of a program as code of Markdown."""
    return f"`{words.clean(name).replace('`', chr(39)).replace('|', '/')}`" if name else words.DASH


def plain(name: str) -> str:
    """Text that a reader of Markdown shows as it is."""
    name = words.clean(name).replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;")
    for mark in "|*_`[]":
        name = name.replace(mark, f"\\{mark}")
    return name


def csv(table: Table) -> str:
    """A line per row under the keys, in base units; unknown is an empty field. RFC 4180 with plain line ends.

    A cell that has a text stands as it: that of a list, which fits no field.
    """
    out = io.StringIO()
    writer = csv_module.writer(out, lineterminator="\n")
    writer.writerow([column.key or column.head for column in table.columns])
    for place in range(len(table)):
        writer.writerow([_field(column.cells[place]) for column in table.columns])
    return out.getvalue()


def _field(cell: Cell) -> Any:
    return cell.text or ("" if cell.value is None or isinstance(cell.value, (list, dict)) else cell.value)


def records(table: Table) -> list[dict[str, Any]]:
    """What JSON has of each row: its values by key."""
    return [{column.key or column.head: column.cells[place].value for column in table.columns} for place in range(len(table))]

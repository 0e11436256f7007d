"""The one page: a title and sections, in a file that needs no network."""

from __future__ import annotations

import functools
import importlib.resources
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import msgspec

import hotlap
from hotlap.core.show.table import text

HOME = "hotlap.core.show"


class Section(NamedTuple):
    """A part of a page. `name`: in the bar on top; `title`: its heading; `html`: what it shows, nothing for no section. `new_page`: when
    it is printed."""

    name: str
    title: str
    html: str
    new_page: bool = False


class Asset(NamedTuple):
    """A style sheet or a script of a page, from the folder `assets` beside a module of `package`."""

    package: str
    file: str

    def read(self) -> str:
        return _file(self.package, self.file)


class Drawing(NamedTuple):
    """Style sheets and scripts beside those of every page, and what the scripts draw from."""

    assets: Sequence[Asset]
    data: Mapping[str, Any]


def page(
    title: str, sections: Sequence[Section], data: Mapping[str, Any], top: str = "", heading: str = "", drawing: Drawing | None = None
) -> str:
    """A page of sections that show something, under a heading (else the title) and what stands at the top, as HTML.

    `data`: what can be taken from it, as JSON.
    """
    shown = [section for section in sections if section.html]
    assets = drawing.assets if drawing else ()
    head = f'<section id="top"><h1>{text(heading or title)}</h1>{top}</section>'
    more = f'<script type="application/json" id="drawn">{embedded(drawing.data)}</script>' if drawing else ""
    places = {
        "title": text(title), "version": text(hotlap.__version__), "style": _style(assets),
        "nav": "".join(f'<a href="#{anchor(section.name)}">{text(section.name)}</a>' for section in shown),
        "body": head + "".join(map(_section, shown)) + more, "data": embedded(data),
        "script": "\n".join([_file(HOME, "page.js"), *(asset.read() for asset in assets if asset.file.endswith(".js"))]),
    }
    # One pass, so that nothing that came from outside is taken for a place to fill.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: places[match[1]], _file(HOME, "page.html"))


def _section(section: Section) -> str:
    printed = " class=newpage" if section.new_page else ""
    return f'<section id="{anchor(section.name)}"{printed}><h2>{text(section.title)}</h2>{section.html}</section>'


def anchor(name: str) -> str:
    """The id of a section."""
    return escape(name.lower().replace(" ", "-"))


def folded(parts: Sequence[str], shown: int, more: str, kind: str = "") -> str:
    """The first `shown` parts in the open, the rest to unfold under `more`. `kind`: class of what holds them."""
    first, rest = (_held(some, kind) for some in (parts[:shown], parts[shown:]))
    return first + (f"<details><summary>{text(more)}</summary>{rest}</details>" if rest else "")


def _held(parts: Sequence[str], kind: str) -> str:
    inner = "".join(parts)
    return f'<div class="{kind}">{inner}</div>' if kind and inner else inner


def notes(lines: Sequence[str], kind: str = "") -> str:
    """Lines of text as paragraphs; blank ones are left out."""
    tag = f'<p class="{kind}">' if kind else "<p>"
    return "".join(f"{tag}{text(' '.join(line.split()))}</p>" for line in lines if line.strip())


@functools.cache
def _file(package: str, name: str) -> str:
    return (importlib.resources.files(package) / "assets" / name).read_text(encoding="utf-8")


def _style(assets: Sequence[Asset]) -> str:
    """Style sheets without their line breaks."""
    sheets = [_file(HOME, "style.css"), *(asset.read() for asset in assets if asset.file.endswith(".css"))]
    return re.sub(r"\s*\n\s*", " ", "\n".join(sheets)).strip()


def embedded(document: Mapping[str, Any]) -> str:
    """JSON that stands safely inside a script element."""
    encoded = msgspec.json.encode({"generator": f"Hotlap {hotlap.__version__}", **document}).decode()
    return encoded.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")

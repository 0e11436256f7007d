"""One page that needs no network: conclusions first, then how, on what, results, charts, causes, doubts, and the data itself."""

from __future__ import annotations

import functools
import importlib.resources
import re
from collections.abc import Sequence
from typing import Any

import msgspec

import hotlap
from hotlap.errors import InputError
from hotlap.report import export, listing, plots, sections, tables, timeline, words
from hotlap.report.conclusions import conclude
from hotlap.report.sections import Side, Sources, text
from hotlap.store.bundle import Bundle

EMBEDDED_BYTES = 250_000  # of raw samples and readings, at most; beyond it the page says where they are
SHOWN = 24  # cases whose samples are drawn in the open; the rest unfold


def page(bundles: Sequence[Bundle]) -> str:
    """The report of one or several runs as one HTML file. Raises InputError when there is no run."""
    if not bundles:
        raise InputError("a report needs at least one run; hotlap ls shows those that are kept")
    return render([(bundle, tables.rows(bundle)) for bundle in bundles])


def render(found: Sequence[tuple[Bundle, Sequence[tables.Row]]]) -> str:
    """The page from runs whose rows are known."""
    sides = [side for bundle, rows in found for side in _sides(bundle, rows, len(found) > 1)]
    parts = [("", _head(found, sides)), *_sections(found, sides)]
    body = "".join(part for _, part in parts)
    nav = "".join(f'<a href="#{_anchor(name)}">{text(name)}</a>' for name, _ in parts if name)
    filled = {
        "title": text(_title(found)), "version": text(hotlap.__version__), "style": _style(), "nav": nav, "body": body, "data": _data(found),
        "script": _file("page.js"),
    }
    # One pass, so that nothing that came from outside is taken for a place to fill.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: filled[match[1]], _file("page.html"))


@functools.cache
def _file(name: str) -> str:
    return (importlib.resources.files("hotlap.report") / "page" / name).read_text(encoding="utf-8")


def _style() -> str:
    """The style sheet without its line breaks."""
    return re.sub(r"\s*\n\s*", " ", _file("style.css")).strip()


def _sides(bundle: Bundle, rows: Sequence[tables.Row], several: bool) -> list[Side]:
    run = bundle.run
    labels = " ".join(f"{k}={v}" for k, v in run.labels.items())
    devices = listing.measured(run)
    found = []
    for device in devices:
        parts = [labels or run.id] if several else []
        parts += [device.selector] if len(devices) > 1 or not several else []
        found.append(Side(bundle, device, tuple(row for row in rows if row.device == device.key), " · ".join(parts)))
    names = [side.name for side in found]
    return found if len(set(names)) == len(names) else [Side(s.bundle, s.device, s.rows, f"{s.name} {s.device.key}") for s in found]


# ---------------------------------------------------------------- head and conclusions


def _title(found: Sequence[tuple[Bundle, Sequence[tables.Row]]]) -> str:
    runs = [bundle.run for bundle, _ in found]
    if len(runs) == 1:
        names = ", ".join(dict.fromkeys(d.name for d in listing.measured(runs[0])))
        return f"{names} on {runs[0].machine.host}"
    return f"{len(runs)} runs: {words.some([' '.join(f'{k}={v}' for k, v in r.labels.items()) or r.id for r in runs], 4)}"


def _head(found: Sequence[tuple[Bundle, Sequence[tables.Row]]], sides: Sequence[Side]) -> str:
    lines = [f"<h1>{text(_title(found))}</h1>"]
    for bundle, _ in found:
        heading = listing.heading(bundle).splitlines()[0]
        lines.append(f'<p class="sub">{text(heading)}</p>')
    several = len(sides) > 1
    for side in sides:
        title = f"<h2>{text(side.name)}: {text(side.device.name)}</h2>" if several else ""
        lines.append(title + sections.conclusions(conclude(side.bundle, side.rows)))
    return f'<section id="top">{"".join(lines)}</section>'


# ---------------------------------------------------------------- sections


def _sections(found: Sequence[tuple[Bundle, Sequence[tables.Row]]], sides: Sequence[Side]) -> list[tuple[str, str]]:
    """Name and HTML of each, in the order of the page."""
    sources = Sources()
    causes = _each(sides, lambda side: sections.gaps(side.rows, sources)) + sources.listed()
    every = [row for side in sides for row in side.rows]
    named = [
        ("Set-up", _setup(found)),
        ("Results", sections.results(sides) if sides else ""),
        ("Charts", _each(sides, _plots)),
        ("Causes", causes),
        ("Samples", _each(sides, lambda side: _timelines(side, len(every)))),
        ("Doubts", _each(sides, lambda side: sections.warnings(side.bundle, side.rows))),
        ("Method", sections.method_words(every) + _each(sides, lambda side: sections.method(side.rows))),
    ]
    titles = {
        "Set-up": "Set-up, machine and devices", "Results": "Results", "Charts": "What the machine looks like", "Causes": "Gaps and their causes",
        "Samples": "Samples over time", "Doubts": "Warnings and doubts", "Method": "How each number was obtained",
    }
    new = {"Set-up", "Results", "Charts", "Samples"}
    return [
        (name, f'<section id="{_anchor(name)}"{" class=newpage" if name in new else ""}><h2>{titles[name]}</h2>{inner}</section>')
        for name, inner in named if inner
    ]


def _anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


def _each(sides: Sequence[Side], part: Any) -> str:
    """A part per side, under its name where there are several."""
    parts = [(side, part(side)) for side in sides]
    if len(sides) == 1:
        return str(parts[0][1])
    return "".join(f"<h3>{text(side.name)}</h3>{inner}" for side, inner in parts if inner)


def _setup(found: Sequence[tuple[Bundle, Sequence[tables.Row]]]) -> str:
    parts = []
    for bundle, _ in found:
        devices = "".join(sections.device(d) for d in listing.measured(bundle.run))
        parts.append(f'<div class="pair"><div>{sections.setup(bundle)}</div><div>{devices}{sections.machine(bundle)}</div></div>')
    return "".join(parts)


def _plots(side: Side) -> str:
    figures = "".join(
        f"<figure><figcaption><b>{text(plot.title)}</b>{text(plot.about)}</figcaption>{plot.svg}</figure>" for plot in plots.all_of(side.rows)
    )
    return f'<div class="plots">{figures}</div>' if figures else ""


def _timelines(side: Side, rows: int) -> str:
    """A small drawing per case; those in doubt first, and what is beyond the first two dozen folded."""
    drawn = [(row, svg) for row in side.rows if (svg := timeline.chart(row, side.bundle.readings, rows))]
    if not drawn:
        return ""
    ordered = sorted(drawn, key=lambda pair: not (pair[0].result.flags or pair[0].verdict.state != "measured"))
    figures = [_timeline(row, svg) for row, svg in ordered]
    about = (
        '<p class="note">Each dot is a sample, each column a round (a fresh process), the short line its median, the dashed line the median of '
        "all rounds. Beneath, what was read of the device meanwhile. Cases in doubt stand first.</p>"
    )
    rest = figures[SHOWN:]
    folded = f'<details><summary>{words.counted(len(rest), "further case")}</summary><div class="timelines">{"".join(rest)}</div></details>' if rest else ""
    return f'{about}<div class="timelines">{"".join(figures[:SHOWN])}</div>{folded}'


def _timeline(row: tables.Row, svg: str) -> str:
    said = words.value(row) if words.stands(row) else words.state(row)
    doubt = " · ".join(words.flags(row))
    flagged = f' <span class="flag">{text(doubt)}</span>' if doubt else ""
    return f"<figure><figcaption><b>{text(row.label)}</b>{flagged}<span>{text(said)}</span></figcaption>{svg}</figure>"


# ---------------------------------------------------------------- data


def _data(found: Sequence[tuple[Bundle, Sequence[tables.Row]]]) -> str:
    """Results, and raw samples and readings as far as there is room, as JSON that stands safely inside a script element."""
    raw = [{"run": bundle.run, "samples": bundle.samples, "readings": bundle.readings} for bundle, _ in found]
    note = ""
    if len(msgspec.json.encode(raw)) > EMBEDDED_BYTES:
        raw = [{"run": bundle.run} for bundle, _ in found]
        note = f"samples and readings are not in this page, being larger than {EMBEDDED_BYTES // 1000} kB; they are in each run's folder, see path"
    runs = [one | {"results": export.to_json(bundle, rows)} for one, (bundle, rows) in zip(raw, found, strict=True)]
    document = {"generator": f"Hotlap {hotlap.__version__}", "note": note, "runs": runs}
    encoded = msgspec.json.encode(document).decode()
    return encoded.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")

"""One page that needs no network: conclusions first, then results, charts, causes, notices, how and on what, and the data itself."""

from __future__ import annotations

import functools
import importlib.resources
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

import hotlap
from hotlap.core.analysis import rows as tables
from hotlap.core.errors import InputError
from hotlap.core.record import Device, Row
from hotlap.core.show import counters, export, kinds, listing, method, plots, sections, timeline, words
from hotlap.core.show import notices as noticing
from hotlap.core.show.conclusions import conclude
from hotlap.core.show.sections import Side, Sources, text
from hotlap.core.store.bundle import Bundle

Runs = Sequence[tuple[Bundle, Sequence[Row]]]
Known = Mapping[str, tuple[kinds.Kind, Any]]  # run id → its kind, and what that shows of it
EMBEDDED_BYTES = 300_000  # of raw samples and readings, at most; beyond it the page says where they are
SHOWN = 24  # cases whose samples are drawn in the open; the rest unfold


def page(bundles: Sequence[Bundle]) -> str:
    """The report of one or several runs as one HTML file. Raises InputError when there is no run."""
    if not bundles:
        raise InputError("a report needs at least one run; hotlap list shows those that are kept")
    return render([(bundle, tables.rows(bundle)) for bundle in bundles])


def render(found: Runs, shown: Mapping[str, Any] = {}) -> str:
    """The page from runs whose rows are known. `shown`: by id, what the kind of a run shows, where it is known already."""
    sides = _sides(found)
    known = {bundle.run.id: (kind, what) for bundle, _ in found if (what := _of_kind(bundle, shown)) and (kind := kinds.of(bundle))}
    parts = [("", _head(found, sides, known)), *_of_kinds(known), *_sections(found, _measuring(sides, known), known)]
    return filled(_title(found, sides), parts, _data(found))


def _of_kind(bundle: Bundle, shown: Mapping[str, Any]) -> Any | None:
    if bundle.run.id in shown:
        return shown[bundle.run.id]
    kind = kinds.of(bundle)
    return kind.read(bundle) if kind else None


def _measuring(sides: Sequence[Side], known: Known) -> list[Side]:
    """Those of runs that have cases and rounds."""
    return [side for side in sides if side.bundle.run.id not in known or known[side.bundle.run.id][0].CASES]


def _of_kinds(known: Known) -> list[tuple[str, str]]:
    """The sections of each kind of run on the page, in the order of the runs."""
    parts = []
    for kind in {id(kind): kind for kind, _ in known.values()}.values():
        for name, title, inner in kind.sections([what for own, what in known.values() if own is kind]):
            parts.append((name, f'<section id="{anchor(name)}"><h2>{text(title)}</h2>{inner}</section>'))
    return parts


def filled(title: str, parts: Sequence[tuple[str, str]], data: str, styles: Sequence[str] = (), scripts: Sequence[str] = ()) -> str:
    """A page of sections (name and HTML; those without a name stand above the rest) and the data that can be taken from it, as JSON.

    `styles` and `scripts` are files beside the page's own that it needs too.
    """
    body = "".join(part for _, part in parts)
    nav = "".join(f'<a href="#{anchor(name)}">{text(name)}</a>' for name, _ in parts if name)
    places = {
        "title": text(title), "version": text(hotlap.__version__), "style": _style("style.css", *styles), "nav": nav, "body": body,
        "data": data, "script": "\n".join(_file(name) for name in ("page.js", *scripts)),
    }
    # One pass, so that nothing that came from outside is taken for a place to fill.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: places[match[1]], _file("page.html"))


@functools.cache
def _file(name: str) -> str:
    return (importlib.resources.files("hotlap.core.show") / "page" / name).read_text(encoding="utf-8")


def _style(*names: str) -> str:
    """Style sheets without their line breaks."""
    return re.sub(r"\s*\n\s*", " ", "\n".join(map(_file, names))).strip()


def _sides(found: Runs) -> list[Side]:
    """Each device of each run, named as shortly as tells them apart."""
    pairs = [
        (bundle, device, tuple(row for row in rows if row.device == device.key))
        for bundle, rows in found for device in listing.measured(bundle.run)
    ]
    ways: tuple[Callable[[Bundle, Device], str], ...] = (
        lambda b, d: _labels(b) if len(found) > 1 else d.selector, lambda _, d: d.name, lambda b, _: b.run.id,
        lambda b, d: f"{_labels(b)} {d.name}".strip(), lambda b, d: f"{b.run.id} {d.selector}",
    )
    named = ([way(bundle, device) for bundle, device, _ in pairs] for way in ways)
    names = next((n for n in named if len(set(n)) == len(n) and all(n)), [f"{b.run.id} {d.key}" for b, d, _ in pairs])
    return [Side(bundle, device, rows, name) for (bundle, device, rows), name in zip(pairs, names, strict=True)]


def _labels(bundle: Bundle) -> str:
    return " ".join(f"{k}={v}" for k, v in bundle.run.labels.items())


# ---------------------------------------------------------------- head and conclusions


def _title(found: Runs, sides: Sequence[Side]) -> str:
    runs = [bundle.run for bundle, _ in found]
    if len(runs) == 1:
        names = ", ".join(dict.fromkeys(d.name for d in listing.measured(runs[0])))
        return f"{names} on {runs[0].machine.host}"
    return f"{len(runs)} runs: {words.some([side.name for side in sides], 4)}"


def _head(found: Runs, sides: Sequence[Side], known: Known) -> str:
    lines = [f"<h1>{text(_title(found, sides))}</h1>"]
    for bundle, _ in found:
        heading = listing.heading(bundle).splitlines()[0]
        lines.append(f'<p class="sub">{text(heading)}</p>')
    lines += [kind.lead(what) for kind, what in known.values()]
    several = len(sides) > 1
    for side in _measuring(sides, known):
        named = side.name if side.device.name in side.name else f"{side.name}: {side.device.name}"
        title = f"<h2>{text(named)}</h2>" if several else ""
        lines.append(title + sections.conclusions(conclude(side.bundle, side.rows)))
    return f'<section id="top">{"".join(lines)}</section>'


# ---------------------------------------------------------------- sections


def _sections(found: Runs, sides: Sequence[Side], known: Known) -> list[tuple[str, str]]:
    """Name and HTML of each, in the order of the page; `sides` of runs with cases."""
    sources = Sources()
    causes = _each(sides, lambda side: sections.gaps(side.rows, sources)) + sources.listed()
    every = [row for side in sides for row in side.rows]
    doubted = "".join(kind.notices(what) for kind, what in known.values())
    methods = dict.fromkeys(kind.METHOD for kind, _ in known.values() if kind.METHOD)
    named = [
        ("Results", sections.results(sides) if sides else ""),
        ("Charts", _each(sides, _plots)),
        ("Causes", causes),
        ("Counters", _each(sides, lambda side: counters.section(side.rows))),
        ("Samples", _each(sides, lambda side: _timelines(side, len(every)))),
        ("Notices", doubted + _each(sides, lambda side: sections.notices(side.bundle, side.rows))),
        ("Set-up", _setup(found)),
        ("Method", "".join(f"<p>{one}</p>" for one in methods) + _method(sides, every)),
    ]
    new = {"Set-up", "Charts", "Samples"}
    return [
        (name, f'<section id="{anchor(name)}"{" class=newpage" if name in new else ""}><h2>{TITLES[name]}</h2>{inner}</section>')
        for name, inner in named if inner
    ]


def _method(sides: Sequence[Side], rows: Sequence[Row]) -> str:
    return method.said(rows) + _each(sides, lambda side: method.table(side.rows)) if sides else ""


TITLES = {
    "Set-up": "Set-up, machine and devices",
    "Results": "Results",
    "Charts": "What the machine looks like",
    "Causes": "Gaps and their causes",
    "Counters": "What the device counted",
    "Samples": "Samples over time",
    "Notices": "Notices: what to doubt",
    "Method": "How each number was obtained",
}


def anchor(name: str) -> str:
    return name.lower().replace(" ", "-")


def _each(sides: Sequence[Side], part: Any) -> str:
    """A part per side, under its name where there are several."""
    parts = [(side, part(side)) for side in sides]
    if len(sides) == 1:
        return str(parts[0][1])
    return "".join(f"<h3>{text(side.name)}</h3>{inner}" for side, inner in parts if inner)


def _setup(found: Runs) -> str:
    parts = []
    for bundle, _ in found:
        devices = "".join(sections.device(d) for d in listing.measured(bundle.run))
        left, right = sections.setup(bundle) + sections.sensors(bundle), devices + sections.machine(bundle)
        parts.append(f'<div class="pair"><div>{left}</div><div>{right}</div></div>')
    return "".join(parts)


def _plots(side: Side) -> str:
    figures = "".join(
        f'<figure{" class=whole" * plot.wide}><figcaption><b>{text(plot.title)}</b>{text(plot.about)}</figcaption>{plot.svg}</figure>'
        for plot in plots.all_of(side.rows)
    )
    return f'<div class="plots">{figures}</div>' if figures else ""


def _timelines(side: Side, rows: int) -> str:
    """A small drawing per case; those in doubt first, and what is beyond the first two dozen folded."""
    drawn = [(row, svg) for row in side.rows if (svg := timeline.chart(row, side.bundle.readings, rows))]
    if not drawn:
        return ""
    ordered = sorted(drawn, key=lambda pair: not (pair[0].result.notices or pair[0].verdict.state != "measured"))
    figures = [_timeline(row, svg) for row, svg in ordered]
    rest = "".join(figures[SHOWN:])
    more = f"<summary>{words.counted(len(figures) - SHOWN, 'further case')}</summary>"
    folded = f'<details>{more}<div class="timelines">{rest}</div></details>' if rest else ""
    return f'<p class="note">{TIMELINES}</p><div class="timelines">{"".join(figures[:SHOWN])}</div>{folded}'


TIMELINES = (
    "Each dot is a sample, each column a round (a fresh process), the short line its median, the dashed line the median of all rounds. "
    "Beneath, what was read of the device meanwhile. Cases with a notice stand first."
)


def _timeline(row: Row, svg: str) -> str:
    said = words.value(row) if words.numbered(row) else words.state(row)
    notices = " · ".join(dict.fromkeys(name for name in (noticing.beside(row), *(name for name, _ in noticing.notes(row))) if name))
    flagged = f'<span class="notice">{text(notices)}</span>' if notices else ""
    return f"<figure><figcaption><b>{text(row.label)}</b><span>{text(said)}</span>{flagged}</figcaption>{svg}</figure>"


# ---------------------------------------------------------------- data


def _data(found: Runs) -> str:
    """Results, and raw samples and readings as far as there is room."""
    raw = [{"run": bundle.run, "samples": bundle.samples, "readings": bundle.readings} for bundle, _ in found]
    note = ""
    if len(msgspec.json.encode(raw)) > EMBEDDED_BYTES:
        raw = [{"run": bundle.run} for bundle, _ in found]
        note = f"samples and readings are larger than {EMBEDDED_BYTES // 1000} kB and not in this page, but in each run's folder: see path"
    runs = [one | {"results": export.to_json(bundle, rows)} for one, (bundle, rows) in zip(raw, found, strict=True)]
    return embedded({"note": note, "runs": runs})


def embedded(document: dict[str, Any]) -> str:
    """JSON that stands safely inside a script element."""
    encoded = msgspec.json.encode({"generator": f"Hotlap {hotlap.__version__}", **document}).decode()
    return encoded.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")

"""The report of runs: conclusions first, then results, charts, causes, notices, how and on what, and the data itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from hotlap.core import stand_in
from hotlap.core.analysis import fleets
from hotlap.core.analysis import rows as tables
from hotlap.core.errors import InputError
from hotlap.core.record import CONFIGURATION, Device
from hotlap.core.show import export, fleet_page, kinds, listing, sections, words
from hotlap.core.show import page as pages
from hotlap.core.show.sections.base import Report, Runs, Side
from hotlap.core.show.sections.top import top
from hotlap.core.store.bundle import Bundle

EMBEDDED_BYTES = 300_000  # of raw samples and readings, at most; beyond it the page says where they are


def page(bundles: Sequence[Bundle]) -> str:
    """The report of one or several runs as one HTML file. Raises InputError when there is no run."""
    if not bundles:
        raise InputError("a report needs at least one run; hotlap list shows those that are kept")
    return render([(bundle, tables.rows(bundle)) for bundle in bundles])


def render(runs: Runs, shown: Mapping[str, tuple[kinds.Kind, Any]] | None = None) -> str:
    """The page from runs whose rows are known. `shown`: by id, the kind of a run and what it shows, where it was read already."""
    given = shown or {}
    known = {bundle.run.id: pair for bundle, _ in runs if (pair := given.get(bundle.run.id) or kinds.read(bundle))}
    report = Report(runs, _sides(runs), known)
    stands_in = any(stand_in.of_run(bundle.run) for bundle, _ in runs)
    if len(report.sides) > fleets.MANY and all(kind.CASES for kind, _ in known.values()) and not stands_in:
        lead = "".join(kind.lead(content) for kind, content in known.values())
        judged = fleets.judge([bundle for bundle, _ in runs])
        return fleet_page.page_of(judged, _title(report) if len(runs) == 1 else "", lead, sections.of_features(report) if known else ())
    return pages.page(_title(report), sections.of(report), _data(runs), top(report))


def _sides(runs: Runs) -> list[Side]:
    """Each device of each run, named as shortly as tells them apart."""
    pairs = [
        (bundle, device, tuple(row for row in rows if row.device == device.key))
        for bundle, rows in runs for device in listing.measured(bundle.run)
    ]
    ways: tuple[Callable[[Bundle, Device], str], ...] = (
        lambda b, d: _labels(b) if len(runs) > 1 else d.selector, lambda _, d: d.name, lambda b, _: b.run.id,
        lambda b, d: f"{_labels(b)} {d.name}".strip(), lambda b, d: f"{b.run.id} {d.selector}",
    )
    named = ([way(bundle, device) for bundle, device, _ in pairs] for way in ways)
    names = next((n for n in named if len(set(n)) == len(n) and all(n)), [f"{b.run.id} {d.key}" for b, d, _ in pairs])
    return [Side(bundle, device, rows, name) for (bundle, device, rows), name in zip(pairs, names, strict=True)]


def _labels(bundle: Bundle) -> str:
    return " ".join(f"{k}={v}" for k, v in bundle.run.labels.items())


def _title(report: Report) -> str:
    runs = [bundle.run for bundle, _ in report.runs]
    if len(runs) == 1 or report.sum:
        first = report.sum.run if report.sum else runs[0]
        what = _subject(report)
        names = ", ".join(dict.fromkeys(d.name for d in listing.measured(first))) or first.plan.name
        where = names if first.machine.host == "unknown" else f"{names} on {first.machine.host}"
        return f"{what}, measured from {where}" if what else where
    return f"{len(runs)} runs: {words.some([side.name for side in report.sides], 4)}"


def _subject(report: Report) -> str:
    """What was measured, where that is not the machine that measured it."""
    bundle, rows = report.runs[0]
    for run, (kind, content) in report.known.items():
        if hasattr(kind, "title") and (report.sum is None or run == report.sum.run.id):
            return str(kind.title(content))
    return bundle.run.labels.get(CONFIGURATION, "") if words.of_blocks(rows) else ""


def _data(runs: Runs) -> dict[str, Any]:
    """Results, and raw samples and readings as far as there is room."""
    raw = [{"run": bundle.run, "samples": bundle.samples, "readings": bundle.readings} for bundle, _ in runs]
    note = ""
    if len(msgspec.json.encode(raw)) > EMBEDDED_BYTES:
        raw = [{"run": bundle.run} for bundle, _ in runs]
        note = f"samples and readings are larger than {EMBEDDED_BYTES // 1000} kB and not in this page, but in each run's folder: see path"
    kept = [run | {"results": export.to_json(bundle, rows)} for run, (bundle, rows) in zip(raw, runs, strict=True)]
    return {"note": note, "runs": kept}

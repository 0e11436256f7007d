"""The table of results as Markdown, CSV and JSON. Unknown is a dash, an empty field, or null; never zero."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

import msgspec

from hotlap.record import Row
from hotlap.report import counters, doubts, listing, words
from hotlap.store.bundle import Bundle

FACTS = ("id", "began", "ended", "stopped", "hotlap", "target", "order", "labels", "seed")


def to_json(bundle: Bundle, rows: Sequence[Row]) -> dict[str, Any]:
    """The run's facts and a result per row, in base units, ready for a JSON encoder. Samples stay in the bundle at `path`."""
    run = bundle.run
    facts: dict[str, Any] = {name: getattr(run, name) for name in FACTS}
    return {
        **facts, "plan": run.plan.name, "host": run.machine.host, "path": str(bundle.path), "warnings": bundle.warnings,
        "devices": [msgspec.to_builtins(d) | {"key": d.key} for d in listing.measured(run)], "results": [result(row) for row in rows],
    }


def result(row: Row) -> dict[str, Any]:
    """One row without its samples. `value` is null unless the number stands; what was seen of an invalid one is in `rounds`."""
    summary, gap, stands = row.summary, row.gap, words.stands(row)
    return {
        "case": row.case.id, "label": row.label, "workload": row.case.workload, "params": row.case.params,
        "implementation": row.case.implementation, "device": row.device, "metric": row.result.metric, "unit": row.result.unit,
        "better": row.result.better, "value": summary.median if stands else None, "low": summary.low if stands else None,
        "high": summary.high if stands else None, "half_width": summary.half_width if stands else None,
        "rounds": list(row.result.values), "seconds": list(row.result.seconds), "summary": msgspec.to_builtins(summary),
        "share": gap.share if stands else None, "against": gap.against, "limit_value": gap.limit_value, "cause": gap.cause,
        "detail": gap.detail,
        "limit": msgspec.to_builtins(gap.limit) if gap.limit else None,
        "counters": counters.of(row),
        "flags": [{"name": flag.name, "detail": flag.detail} for flag in row.result.flags],
        "state": row.verdict.state, "reason": row.verdict.reason,
    }


CSV_COLUMNS = (
    "case", "label", "workload", "implementation", "device", "metric", "unit", "better", "value", "low", "high", "half_width", "rounds",
    "share", "against", "limit_value", "cause", "flags", "state", "reason", "params",
)


def to_csv(bundle: Bundle, rows: Sequence[Row]) -> str:
    """A line per row, in base units, headed; the run's id stands first. RFC 4180 with plain line ends."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["run", *CSV_COLUMNS])
    for row in rows:
        flat = result(row) | {
            "rounds": len(row.result.values), "flags": " ".join(words.flags(row)), "params": json.dumps(row.case.params, sort_keys=True),
        }
        writer.writerow([bundle.run.id, *("" if flat[name] is None else flat[name] for name in CSV_COLUMNS)])
    return out.getvalue()


def to_markdown(bundle: Bundle, rows: Sequence[Row]) -> str:
    """The table for an issue or a wiki: a table per family, then the doubts."""
    lines = [_md(line) + "  " for line in listing.heading(bundle).strip().splitlines()]
    for name, members in words.families(rows):
        lines += ["", f"**{name}**", "", "| case | value | ± 95 % | of its limit | flags | state |", "|---|---:|---:|---:|---|---|"]
        lines += [_md_row(row) for row in members]
    found = doubts.find(rows)
    if found:
        lines += ["", "**doubts**", ""]
        ends = [f" → {_md(d.action)}" if d.action else "" for d in found]
        lines += [f"- **{_md(d.name)}** {_md(words.some(d.labels))}: {_md(d.seen)}{end}" for d, end in zip(found, ends, strict=True)]
    return "\n".join(lines) + "\n"


def _md_row(row: Row) -> str:
    stands = words.stands(row)
    cells = (
        row.label, words.value(row), words.interval(row.summary) if stands else words.DASH,
        f"{words.share(row.gap)} {words.against(row.gap)}" if stands else words.DASH, ", ".join(words.flags(row)), words.state(row),
    )
    return "| " + " | ".join(_md(cell) for cell in cells) + " |"


def _md(text: str) -> str:
    """Text that a Markdown reader shows as it is."""
    text = words.clean(text).replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;")
    for mark in "|*_`[]":
        text = text.replace(mark, f"\\{mark}")
    return text

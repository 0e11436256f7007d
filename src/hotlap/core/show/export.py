"""The table of results as Markdown, CSV and JSON. Unknown is a dash, an empty field, or null; never zero."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

import msgspec

from hotlap.core.record import Row
from hotlap.core.show import counters, gaps, listing, words
from hotlap.core.show import notices as noticing
from hotlap.core.store.bundle import Bundle

FACTS = ("id", "began", "ended", "stops", "hotlap", "target", "order", "labels", "seed")


def to_json(bundle: Bundle, rows: Sequence[Row]) -> dict[str, Any]:
    """The run's facts and a result per row, in base units, ready for a JSON encoder. Samples stay in the bundle at `path`."""
    run = bundle.run
    facts: dict[str, Any] = {name: getattr(run, name) for name in FACTS}
    return {
        **facts, "plan": run.plan.name, "host": run.machine.host, "path": str(bundle.path), "notices": bundle.notices,
        "devices": [msgspec.to_builtins(d) | {"key": d.key} for d in listing.measured(run)], "results": [result(row) for row in rows],
    }


def result(row: Row) -> dict[str, Any]:
    """One row without its samples. `value` is the number whenever there is one: `state` says whether it may be used, `notice` is the
    code of what to know first, "" for nothing. Of a call too short to time it is a limit (`too_short`)."""
    summary, gap, found = row.summary, row.gap, row.result
    has = words.numbered(row)
    return {
        "case": row.case.id, "label": row.label, "workload": row.case.workload, "params": row.case.params,
        "implementation": row.case.implementation, "device": row.device, "metric": found.metric, "unit": found.unit,
        "better": found.better, "value": summary.median if has else None, "low": summary.low if has else None,
        "high": summary.high if has else None, "half_width": summary.half_width if has else None, "confidence": summary.confidence,
        "best": summary.best, "too_short": found.too_short,
        "rounds": list(found.values), "rounds_used": summary.rounds, "rounds_left_out": list(found.left_out),
        "replaced": sum(len(one.replaced) for one in found.rounds), "seconds": list(found.seconds), "cycles": list(found.cycles),
        "summary": msgspec.to_builtins(summary),
        "share": gap.share if has else None, "against": gap.against, "limit_value": gap.limit_value, "cause": gap.cause,
        "basis": gap.basis, "numbers": gap.numbers, "names": gap.names, "detail": gaps.detail(row), "set_by": gaps.set_by(gap),
        "why": gaps.why(row.case, gap),
        "limit": msgspec.to_builtins(gap.limit) if gap.limit else None,
        "counters": counters.of(row),
        "notices": [msgspec.to_builtins(noticing.whole(notice)) for notice in found.notices],
        "state": row.verdict.state, "notice": noticing.code(row), "codes": noticing.codes(row), "reason": row.verdict.reason,
        "action": row.verdict.action,
    }


CSV_COLUMNS = (
    "case", "label", "workload", "implementation", "device", "metric", "unit", "better", "value", "low", "high", "half_width", "rounds",
    "share", "against", "limit_value", "cause", "notices", "state", "reason", "params", "notice", "best", "confidence", "rounds_left_out",
    "replaced", "too_short", "action",
)


def to_csv(bundle: Bundle, rows: Sequence[Row]) -> str:
    """A line per row, in base units, headed; the run's id stands first. RFC 4180 with plain line ends."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["run", *CSV_COLUMNS])
    for row in rows:
        flat = result(row) | {
            "rounds": len(row.result.values), "notices": " ".join(noticing.raised(row)),
            "params": json.dumps(row.case.params, sort_keys=True),
            "rounds_left_out": len(row.result.left_out), "too_short": str(row.result.too_short).lower(),
        }
        writer.writerow([bundle.run.id, *("" if flat[name] is None else flat[name] for name in CSV_COLUMNS)])
    return out.getvalue()


def to_markdown(bundle: Bundle, rows: Sequence[Row]) -> str:
    """The table for an issue or a wiki: a table per family, then the notices, then what was not run."""
    lines = [_md(line) + "  " for line in listing.heading(bundle).strip().splitlines()]
    shown = [row for row in rows if row.verdict.state != "not_run"]
    if busy := noticing.busy(shown):
        lines += ["", _md(busy)]
    best = any(map(words.best, shown))
    heads = ("case", "value", "± 95 %", *(["best"] * best), "of limit", "state")
    marks = ("---", *(["---:"] * (len(heads) - 2)), "---")
    for name, members in words.families(shown):
        lines += ["", f"**{name}**", "", f"| {' | '.join(heads)} |", f"|{'|'.join(marks)}|"]
        lines += [_md_row(row, best) for row in members]
    found = [notice for notice in noticing.find(rows) if notice.code != "busy" or not busy]
    without = [row for row in rows if row.verdict.state == "not_run"]
    if found or without:
        lines += ["", "**notices**", ""]
        lines += [f"- **{_md(d.word)}** {_md(noticing.which(d, rows))}{_md(_said(d))}" for d in found]
        lines += [
            f"- **not run** {_md(words.some([row.label for row in group], 6))}: {_md(why)}"
            for group, why in words.alike(without, lambda row: row.verdict.reason)
        ]
    return "\n".join(lines) + "\n"


def _said(notice: noticing.TableNotice) -> str:
    return (f": {notice.seen}" if notice.seen else "") + (f" → {notice.action}" if notice.action else "")


def _md_row(row: Row, best: bool) -> str:
    state = ", ".join(filter(None, (words.state(row), noticing.beside(row))))
    cells = (row.label, words.value(row), words.interval(row), *([words.best(row)] * best), words.of_limit(row.gap), state)
    return "| " + " | ".join(_md(cell) for cell in cells) + " |"


def _md(text: str) -> str:
    """Text that a Markdown reader shows as it is."""
    text = words.clean(text).replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;")
    for mark in "|*_`[]":
        text = text.replace(mark, f"\\{mark}")
    return text

"""The table of results as Markdown, CSV and JSON. Unknown is a dash, an empty field, or null; never zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hotlap.core.record import Row
from hotlap.core.show import listing, results, table, words
from hotlap.core.show import notices as noticing
from hotlap.core.store.bundle import Bundle

FACTS = ("id", "began", "ended", "stops", "hotlap", "target", "order", "labels", "seed")


def to_json(bundle: Bundle, rows: Sequence[Row]) -> dict[str, Any]:
    """The run's facts and a result per row, in base units, ready for a JSON encoder. Samples stay in the bundle at `path`."""
    run = bundle.run
    facts: dict[str, Any] = {name: getattr(run, name) for name in FACTS}
    return {
        **facts, "plan": run.plan.name, "host": run.machine.host, "path": str(bundle.path), "notices": bundle.notices,
        "devices": [msgspec.to_builtins(d) | {"key": d.key} for d in listing.measured(run)], "results": table.records(results.data(rows)),
    }


def to_csv(bundle: Bundle, rows: Sequence[Row]) -> str:
    """A line per row, in base units, headed; the run's id stands first."""
    return table.csv(results.fields(bundle.run.id, rows))


def to_markdown(bundle: Bundle, rows: Sequence[Row]) -> str:
    """The table for an issue or a wiki: a table per family, then the notices, then what was not run."""
    lines = [table.plain(line) + "  " for line in listing.heading(bundle, rows).strip().splitlines()]
    shown = [row for row in rows if row.verdict.state != "not_run"]
    if banner := noticing.banner(shown):
        lines += ["", table.plain(banner)]
    lines += ["", *table.markdown(results.table(shown))] if shown else []
    busy = noticing.busy(shown)
    found = [notice for notice in noticing.find(rows) if notice.code != "busy" or not busy]
    without = [row for row in rows if row.verdict.state == "not_run"]
    if found or without:
        lines += ["", "**notices**", ""]
        lines += [f"- **{table.plain(d.word)}** {table.plain(noticing.which(d, rows))}{table.plain(_said(d))}" for d in found]
        lines += [
            f"- **not run** {table.plain(words.some([row.label for row in group], 6))}: {table.plain(why)}"
            for group, why in words.alike(without, lambda row: row.verdict.reason)
        ]
    return "\n".join(lines) + "\n"


def _said(notice: noticing.TableNotice) -> str:
    return (f": {notice.seen}" if notice.seen else "") + (f" → {notice.action}" if notice.action else "")

"""What to doubt."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core.record import Row
from hotlap.core.show import notices as noticing
from hotlap.core.show import words
from hotlap.core.show.sections.base import Report, ReportSection
from hotlap.core.show.table import text
from hotlap.core.store.bundle import Bundle


def _html(report: Report) -> str:
    of_kinds = "".join(kind.notices(shown) for kind, shown in report.known.values())
    return of_kinds + report.each(lambda side: notices(side.bundle, side.rows))


SECTION = ReportSection("Notices", "Notices: what to doubt", _html)


def notices(bundle: Bundle, rows: Sequence[Row]) -> str:
    """Every doubt with the cases it concerns, and what to do."""
    record = "".join(f'<li class="warning"><b>The record</b><span>{text(notice.text)}</span></li>' for notice in bundle.notices)
    items = "".join(
        f'<li class="{one.severity}"><b>{text(one.word)}: {text(words.some(one.labels, 6))}</b>'
        f"<span>{text(one.seen)}{f'. What to do: {text(one.action)}' if one.action else ''}</span></li>"
        for one in noticing.find(rows)
    )
    return f'<ul class="findings">{record}{items}</ul>' if record or items else "<p>None.</p>"

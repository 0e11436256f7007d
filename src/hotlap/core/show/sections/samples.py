"""Samples over time: a small drawing per case."""

from __future__ import annotations

from hotlap.core.record import Row
from hotlap.core.show import notices as noticing
from hotlap.core.show import timeline, words
from hotlap.core.show.sections.base import Report, ReportSection, Side
from hotlap.core.show.table import text

SHOWN = 24  # cases whose samples are drawn in the open; the rest unfold


def _html(report: Report) -> str:
    return report.each(lambda side: _timelines(side, len(report.rows)))


SECTION = ReportSection("Samples", "Samples over time", _html, new_page=True)


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
    about = TIMELINES.replace("a fresh process", "a block of requests") if words.of_blocks(side.rows) else TIMELINES
    return f'<p class="note">{about}</p><div class="timelines">{"".join(figures[:SHOWN])}</div>{folded}'


TIMELINES = (
    "Each dot is a sample, each column a round (a fresh process), the short line its median, the dashed line the median of all rounds. "
    "Beneath, what was read of the device meanwhile. Cases with a notice stand first."
)


def _timeline(row: Row, svg: str) -> str:
    said = words.value(row) if words.numbered(row) else words.state(row)
    notices = " · ".join(dict.fromkeys(name for name in (noticing.beside(row), *(name for name, _ in noticing.notes(row))) if name))
    flagged = f'<span class="notice">{text(notices)}</span>' if notices else ""
    return f"<figure><figcaption><b>{text(row.label)}</b><span>{text(said)}</span>{flagged}</figcaption>{svg}</figure>"

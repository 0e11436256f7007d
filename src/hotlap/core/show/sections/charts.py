"""What the machine looks like: the charts of its results."""

from __future__ import annotations

from hotlap.core.show import plots
from hotlap.core.show.sections.base import Report, ReportSection, Side
from hotlap.core.show.table import text


def _html(report: Report) -> str:
    return report.each(_plots)


SECTION = ReportSection("Charts", "What the machine looks like", _html, new_page=True)


def _plots(side: Side) -> str:
    figures = "".join(
        f'<figure{" class=whole" * plot.wide}><figcaption><b>{text(plot.title)}</b>{text(plot.about)}</figcaption>{plot.svg}</figure>'
        for plot in plots.all_of(side.rows)
    )
    return f'<div class="plots">{figures}</div>' if figures else ""

"""The top of a report: what its runs come to, in figures, findings and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core.record import Row
from hotlap.core.show import listing, results, words
from hotlap.core.show.conclusions import Conclusions, conclude
from hotlap.core.show.sections.base import Report, Side
from hotlap.core.show.table import text

NOTHING = "Nothing: the numbers can be used as they are."
MORE = "Nothing here: what is inconclusive was measured too few times, or beside too much noise, to tell."


def top(report: Report) -> str:
    """Which runs, what their kinds say first, and conclusions per side."""
    headed = [(bundle, rows) for bundle, rows in report.runs if report.sum in (None, bundle)]
    rest = f'<p class="sub">with {words.counted(len(report.runs) - 1, "run")} of it</p>' if report.sum and len(report.runs) > 1 else ""
    lines = []
    for bundle, rows in headed:
        kind, shown = report.known.get(bundle.run.id, (None, None))
        lines.append(f'<p class="sub">{text(listing.heading(bundle, rows).splitlines()[0])}</p>{rest}{kind.lead(shown) if kind else ""}')
    several = len(report.sides) > 1
    measured = [
        _heading(side) * several + conclusions(conclude(side.bundle, side.rows), _own(report, side)) for side in report.measured
    ]
    return "".join([*lines, *measured])


def _heading(side: Side) -> str:
    named = side.name if side.device.name in side.name else f"{side.name}: {side.device.name}"
    return f"<h2>{text(named)}</h2>"


def _own(report: Report, side: Side) -> list[str]:
    """What the kind of a run says is to be done."""
    kind, shown = report.known.get(side.bundle.run.id, (None, None))
    found: list[str] = kind.todo(shown) if kind and hasattr(kind, "todo") else []
    return found


def conclusions(concluded: Conclusions, own: Sequence[str] = ()) -> str:
    """Figures, findings, and what to do: first what the `own` kind of the run says."""
    cards = "".join(_card(figure.title, figure.row) for figure in concluded.figures)
    findings = "".join(
        f'<li class="{finding.severity}"><b>{text(finding.title)}</b><span>{text(finding.detail)}</span></li>'
        for finding in concluded.findings
    )
    actions = "".join(f"<li>{text(action)}</li>" for action in (*own, *concluded.actions))
    banner = f'<p class="banner">{text(concluded.banner)}</p>' if concluded.banner else ""
    todo = f'<ol class="actions">{actions}</ol>' if actions else f"<p>{NOTHING if concluded.usable else MORE}</p>"
    found = f'<div><h3>What was found</h3><ul class="findings">{findings}</ul></div>' if findings else ""
    return (
        f'<p class="lead">{text(concluded.verdict)}</p>{banner}<ul class="figures">{cards}</ul><div class="columns">'
        f"{found}<div><h3>What to do</h3>{todo}</div></div>"
    )


def _card(title: str, row: Row) -> str:
    number, _, unit = words.value(row).partition(" ")
    doubtful = ' class="doubtful"' if row.verdict.state != "measured" else ""
    share = words.of_limit(row) if row.gap.share is not None else "no limit is known"
    doubt = "" if row.verdict.state == "measured" else f'<div class="doubt">{text(results.state(row))}</div>'
    case = f'<div class="case">{text(row.label)}</div>' if row.label != title else ""
    return (
        f'<li{doubtful}><div class="name">{text(title)}</div><div class="value">{text(number)} <small>{text(unit)}</small></div>'
        f'<div class="share">{text(words.interval(row))}; {text(share)}</div>{case}{doubt}</li>'
    )

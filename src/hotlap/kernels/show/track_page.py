"""The lives of kernels as one HTML page: a table, then a chart per kernel with what brought each change."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core.show import history_page, html, words
from hotlap.core.show.history import places, when
from hotlap.core.show.sections import text
from hotlap.core.units import show
from hotlap.kernels.show import track as said
from hotlap.kernels.track import Life, Total, Tracked

SHOWN = 60  # charts in the open


def page(found: Tracked) -> str:
    """Kernels that got slower or wrong first."""
    ordered = sorted(found.lives, key=said.worst_first)
    where = places([one.series for one in ordered])
    turns = sum(len(one.turns) for one in ordered)
    title = f"{words.counted(len(ordered), 'kernel')}, {words.counted(found.runs, 'run')}, {words.counted(turns, 'change')}"
    head = f'<section id="top"><h1>The life of {text(title)}</h1>{_table(ordered, where)}{_totals(found.totals)}</section>'
    changes = f'<section id="changes"><h2>What brought each change</h2>{_turns(ordered, where)}</section>'
    figures = [history_page.figure(one.series, place) for one, place in zip(ordered, where, strict=True)]
    rest = "".join(figures[SHOWN:])
    folded = f'<details><summary>{len(figures) - SHOWN} more</summary><div class="plots">{rest}</div></details>' if rest else ""
    charts = f'<section id="charts"><h2>Charts</h2><div class="plots">{"".join(figures[:SHOWN])}</div>{folded}</section>'
    parts = [("", head), ("Changes", changes), ("Charts", charts)]
    return html.filled(f"Kernels: {title}", parts, html.embedded({"tracked": found}))


def _table(ordered: Sequence[Life], where: Sequence[str]) -> str:
    heads = ("kernel", "device", "runs", "first", "best", "now", "since first", "since best", "results")
    head = "".join(f"<th{' class=n' if name not in ('kernel', 'device', 'results') else ''}>{name}</th>" for name in heads)
    rows = "".join(_row(one, place) for one, place in zip(ordered, where, strict=True))
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _row(one: Life, place: str) -> str:
    levels = [words.quantity(level.value, one.series.unit) for level in (one.first, one.best, one.now)]
    moves = [said.moved(ratio) if one.turns and abs(ratio - 1) >= said.SAME else "same" for ratio in (one.since_first, one.since_best)]
    numbers = "".join(f'<td class="n">{text(cell)}</td>' for cell in (str(len(one.series.points)), *levels, *moves))
    state = said.right(one.checks)
    style = "" if state == "right" else ' style="color:var(--bad)"'
    return f"<tr><td>{text(one.series.label)}</td><td>{text(place)}</td>{numbers}<td{style}>{text(state)}</td></tr>"


def _totals(found: Sequence[Total]) -> str:
    if not found:
        return ""
    heads = ("step of a network", "device", "kernels", "first", "best", "now", "since best")
    head = "".join(f"<th{' class=n' if n > 1 else ''}>{name}</th>" for n, name in enumerate(heads))
    rows = "".join(
        f'<tr><td>{text(one.step)}</td><td>{text(one.device)}</td><td class="n">{one.kernels} of {one.of}</td>'
        + "".join(f'<td class="n">{text(show(s, "s"))}</td>' for s in (one.first_s, one.best_s, one.now_s))
        + f'<td class="n">{text(said.moved(one.now_s / one.best_s) if abs(one.now_s / one.best_s - 1) >= said.SAME else "same")}</td></tr>'
        for one in found
    )
    return f'<h3>Steps of networks</h3><div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _turns(ordered: Sequence[Life], where: Sequence[str]) -> str:
    rows = [
        (when(turn.time_s), one.series.label, place, said.said(one, turn))
        for one, place in zip(ordered, where, strict=True) for turn in one.turns
    ]
    rows += [("", one.series.label, place, found) for one, place in zip(ordered, where, strict=True) if (found := said.wrong(one.checks))]
    if not rows:
        return "<p>No level changed, and no result was wrong.</p>"
    head = "<tr><th>when (UTC)</th><th>kernel</th><th>device</th><th>what changed</th></tr>"
    body = "".join(f"<tr>{''.join(f'<td>{text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{body}</tbody></table></div>'

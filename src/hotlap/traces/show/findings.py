"""Findings on the page: gain with its interval, evidence, remedy, and the places that the timeline marks."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from hotlap.core.show import words
from hotlap.core.show.table import text
from hotlap.core.units import show
from hotlap.traces.show import trace
from hotlap.traces.show.answer import Advised, Answer, FindingPlace
from hotlap.traces.show.tables import percent


def section(answer: Answer) -> str:
    """All findings, most gain first."""
    if not answer.findings:
        more = f" {words.counted(answer.hidden, 'finding').capitalize()} below that: hotlap trace --all." if answer.hidden else ""
        return f"<p>Nothing found that would gain 2 % or more of the window.{more}</p>"
    most = max([one.finding.gain_high or 0.0 for one in answer.findings] + [answer.together or 0.0, 0.05])
    items = "".join(_finding(number, one, most) for number, one in enumerate(answer.findings))
    together = ""
    if answer.together is not None and len(answer.findings) > 1:
        said = trace.together(answer.together, [one.finding for one in answer.findings])
        together = f'<p class="note">{escape(said)}</p>'
    hidden = f"{words.counted(answer.hidden, 'finding').capitalize()} below 2 %: <code>hotlap trace --all</code>." if answer.hidden else ""
    hidden = f'<p class="note">{hidden}</p>' if hidden else ""
    return f'<ol class="advice">{items}</ol>{together}{hidden}'


def _finding(number: int, advised: Advised, most: float) -> str:
    finding = advised.finding
    low, high = finding.gain_low or 0.0, finding.gain_high or 0.0
    bar = (
        f'<span class="gain" title="share of the window that mending it would save"><i style="left:{100 * low / most:.2f}%;'
        f'width:{max(100 * (high - low) / most, 0.8):.2f}%"></i></span>'
    )
    where = f"<dt>where</dt><dd>{text(finding.where)}</dd>" if finding.where else ""
    prove = f"<dt>prove</dt><dd><code>{text(finding.experiment)}</code></dd>" if finding.experiment else ""
    source = f' · <a href="https://{escape(advised.source)}" rel="noreferrer">source of the rule</a>' if "/" in advised.source else ""
    button = f'<button type="button" class="jump" data-finding="{number}" hidden>Show in the timeline</button>' if advised.places else ""
    return (
        f'<li><div class="gains"><b>{escape(trace.gain(finding))}</b>{bar}<span class="of">confidence {escape(finding.confidence)}</span>'
        "</div>"
        f"<div><h3>{text(finding.title)}</h3><p>{text(finding.detail[:1].upper() + finding.detail[1:])}.</p>"
        f"<dl>{where}<dt>do</dt><dd>{text(finding.action)}</dd>{prove}</dl>"
        f'<p class="note tail">{button}<span>explained in <code>{escape(advised.manual)}</code>{source}</span></p>'
        f"{_evidence(advised)}</div></li>"
    )


def _evidence(advised: Advised) -> str:
    numbers = ((_named_as(name), _said(name, value)) for name, value in advised.finding.evidence.items())
    rows = "".join(f"<dt>{text(name)}</dt><dd>{text(said)}</dd>" for name, said in numbers if said)
    places = "".join(f"<li>{text(_place(place))}</li>" for place in advised.longest)
    several = advised.places > len(advised.longest)
    head = f"{words.counted(advised.places, 'place')} in the trace, the longest:" if several else "Places:"
    listed = f"<p>{head}</p><ol>{places}</ol>" if places else ""
    return f"<details><summary>Evidence</summary><dl>{rows}</dl>{listed}</details>" if rows or listed else ""


def _named_as(name: str) -> str:
    """The name of a number without its unit, which stands behind the number."""
    return re.sub(r"_(?:s|Bps)$", "", name).replace("_", " ")


def _said(name: str, value: Any) -> str:
    """A value of evidence, with the unit that its name ends in."""
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_said(name, one)}" for key, one in value.items())
    if isinstance(value, list):
        return ", ".join(str(one) for one in value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else str(value)
    if name.endswith("_s"):
        return show(float(value), "s")
    if name.endswith(("_share", "overlap", "_part")):
        return percent(float(value))
    if name.endswith("_Bps"):
        return show(float(value), "B/s")
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


def _place(place: FindingPlace) -> str:
    device = f"device {place.device}" if place.device is not None else ""
    stream = f"stream {place.stream}" if place.stream is not None else ""
    step = f"step {place.step}" if place.step is not None else ""
    where = ", ".join(one for one in (device, stream, place.thread if not device else "", step) if one)
    said = f"{show(place.duration_s, 's')} at {show(place.start_s, 's', 6)}"
    return f"{said}: {place.what[:160]}{f' ({where})' if place.what and where else where}"

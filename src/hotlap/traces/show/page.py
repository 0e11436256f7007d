"""A trace as one page that needs no network: where the time went, what to do, the worst step to look into, who asked for the time."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

import msgspec

from hotlap.core.show import charts, words
from hotlap.core.show import page as pages
from hotlap.core.show.page import Asset, Drawing, Section
from hotlap.core.show.table import Table, html, text
from hotlap.core.units import show, size
from hotlap.traces.advice.trace import Advice
from hotlap.traces.breakdown import Breakdown
from hotlap.traces.idle import CAUSES
from hotlap.traces.show import answer as trace_answer
from hotlap.traces.show import findings as trace_findings
from hotlap.traces.show import flame as trace_flame
from hotlap.traces.show import scene as trace_scene
from hotlap.traces.show import trace
from hotlap.traces.show.answer import Answer
from hotlap.traces.show.tables import kernel_columns, limit_columns, operator_columns, percent
from hotlap.traces.study import Study

KERNELS, KEPT = 300, 1000  # rows of the table, and kernels in the page's data, at most
LIMITS = 100
ASSETS = tuple(Asset("hotlap.traces.show", file) for file in ("trace.css", "trace.js", "trace_timeline.js", "trace_flame.js"))
BARS = 600  # steps drawn as bars; more become dots
PARTS = (("compute", "compute"), ("exposed_communication", "exposed communication"), ("exposed_copy", "exposed copies"), ("idle", "idle"))


class RankBar(NamedTuple):
    """Where the time of one rank went: shares of its window, and seconds it waited for others."""

    rank: int
    shares: dict[str, float | None]  # compute, exposed_communication, exposed_copy, idle
    waited_s: float | None = None
    label: str = ""


def page(study: Study, advice: Advice, ranks: Sequence[RankBar] = ()) -> str:
    """The page of one trace; with `ranks` also how it stands among the others of its run."""
    answer = trace_answer.answer(study, advice)
    title = f"{Path(answer.file).name}: where the time went"
    sections = [
        Section("Findings", "What to do, by what it would save", trace_findings.section(answer)),
        Section("Timeline", "The worst step" if len(answer.steps) > 1 else "Timeline", _timeline()),
        Section("Operators", "Who asked for the time", _flame(bool(answer.breakdown))),
        Section("Ranks", "Ranks", _ranks(ranks)),
        Section("Steps", "Steps", _steps(answer)),
        Section("Kernels", "Kernels", _kernels(answer)),
        Section("Host", "Operators of the host", _operators(answer)),
        Section("Limits", "Operators against their limits", _limits(answer)),
        Section("Memory", "Memory", _memory(answer)),
    ]
    drawn = {"scene": trace_scene.scene(study, list(advice.marks)), "flame": trace_flame.flame(study)}
    data = {"traces": [msgspec.structs.replace(answer, kernels=answer.kernels[:KEPT], operators=answer.operators[:KEPT])]}
    return pages.page(title, sections, data, _head(answer), Path(answer.file).name, Drawing(ASSETS, drawn))


# ---------------------------------------------------------------- head


def _head(answer: Answer) -> str:
    notices = "".join(f'<li class="warning"><b>{text(one.text)}</b>{_times(one.count or 0)}</li>' for one in answer.notices)
    return (
        f'<p class="sub">{text(" · ".join(trace_answer.about(answer)))}</p>'
        f'<p class="sub">Window: {text(show(answer.window_s, "s"))}, {text(answer.window)}.</p><p class="lead">{text(_lead(answer))}</p>'
        + (f'<ul class="findings notices">{notices}</ul>' if notices else "")
        + _where(answer)
    )  # fmt: skip


def _times(events: int) -> str:
    return f"<span>{events:,} events</span>" if events > 1 else ""


def _lead(answer: Answer) -> str:
    if answer.total is None:
        sentence = "Nothing ran on a device in this trace: shares of a device are not applicable."
    else:
        whose = "The device" if len(answer.breakdown) == 1 else f"The {len(answer.breakdown)} devices together"
        computed, idle = percent(answer.total.compute_share), percent(answer.total.idle_share)
        sentence = f"{whose} computed for {computed} of the window and {'was' if len(answer.breakdown) == 1 else 'were'} idle for {idle}."
    if answer.findings:
        first = answer.findings[0].finding
        if not first.gain:
            return f"{sentence} What could be gained has no estimate; first: {first.title[0].lower()}{first.title[1:]}."
        return f"{sentence} Most to gain: {trace.gain(first)} of the window, {first.title[0].lower()}{first.title[1:]}."
    return f"{sentence} Nothing found that would gain 2 % or more."


def _where(answer: Answer) -> str:
    """A bar per device, and the idle time by cause."""
    if not answer.breakdown:
        return ""
    rows = [*answer.breakdown, *([answer.total] if answer.total and len(answer.breakdown) > 1 else [])]
    bars = "".join(_bar(f"device {row.device}" if row.device is not None else "all", _shares(row), show(row.window_s, "s")) for row in rows)
    keys = "".join(f'<span class="swatch p-{name}">{said}</span>' for name, said in PARTS)
    hidden = ""
    if answer.total and answer.total.communication_share:
        hidden = (
            f'<p class="note">Communication takes {percent(answer.total.communication_share)} in all; '
            f"{100 * (answer.total.overlap or 0):.0f} % of it is hidden behind compute.</p>"
        )
    causes = sorted(((share, cause) for cause, share in answer.idle.items() if share >= 0.0005), reverse=True)
    most = max((share for share, _ in causes), default=1.0)
    idle = "".join(
        f'<tr><th><span class="swatch c-{cause}">{escape(cause.replace("_", " "))}</span></th><td class="n">{percent(share)}</td>'
        f'<td class="long"><span class="meter"><i style="width:{100 * share / most:.1f}%" class="c-{cause}"></i></span> '
        f"{escape(CAUSES[cause])}</td></tr>"
        for share, cause in causes
    )
    table = f'<table class="idle stack"><tbody>{idle}</tbody></table>' if idle else "<p>Never idle.</p>"
    gaps = [f'<p class="note">One gap: {text(trace.long_gap(gap, len(rows) > 1))}.</p>' for gap in answer.long_gaps]
    return (
        f'<h3>Where the time of the device went</h3><div class="bars">{bars}</div><p class="keys2">{keys}</p>'
        f'<p class="note">Shares of each device’s window, {escape((answer.total or rows[0]).window)}.</p>{hidden}'
        f"<h3>Idle, by cause</h3>{table}{''.join(gaps)}"
    )


def _shares(row: Breakdown) -> dict[str, float | None]:
    return {name: getattr(row, f"{name}_share") for name, _ in PARTS}


def _bar(name: str, shares: dict[str, float | None], label: str) -> str:
    pieces = "".join(
        f'<i class="p-{part}" style="width:{100 * share:.3f}%" title="{words_} {percent(share)}">'
        f"{f'<b>{100 * share:.0f} %</b>' if share >= 0.06 else ''}</i>"
        for part, words_ in PARTS if (share := shares.get(part) or 0.0) > 0
    )
    return f'<span class="whose">{escape(name)}</span><span class="stacked">{pieces}</span><span class="window">{escape(label)}</span>'


# ---------------------------------------------------------------- what is drawn


def _timeline() -> str:
    return (
        '<p class="note" id="shown"></p><p id="found" class="marked" hidden></p>'
        '<div class="stage"><canvas id="lanes" tabindex="0" role="application" aria-label="timeline of the worst step"></canvas>'
        '</div><div class="tip" id="tip" hidden></div>'
        '<div class="controls"><span><button type="button" data-do="in" title="zoom in (w or +)">+</button>'
        '<button type="button" data-do="out" title="zoom out (s or −)">−</button>'
        '<button type="button" data-do="all" title="all of it (0)">All</button></span>'
        '<span id="hint"></span>'
        '</div><div class="controls legend" id="legend"></div><p class="note">Wheel or <kbd>w</kbd> <kbd>s</kbd> to zoom, '
        "drag or <kbd>a</kbd> <kbd>d</kbd> to move, Shift and wheel to go up and down, double click an event to fill the view with it, "
        "<kbd>0</kbd> for all, <kbd>Esc</kbd> to leave. Point at an event for what it is.</p>"
        "<noscript><p>The timeline is drawn by a script, which is switched off here.</p></noscript>"
    )


def _flame(device: bool) -> str:
    choose = (
        '<span role="group"><button type="button" data-flame="time" aria-pressed="true">Device time</button>'
        '<button type="button" data-flame="idle" aria-pressed="false">Idle caused</button></span>' if device
        else "<span>Time of the operators themselves, on the host</span>"
    )  # fmt: skip
    what = (
        "Over the whole trace: modules and operators from the outside in, kernels at the ends; as wide as the time that their work "
        "took on the device, or as the idle time that ended with it. " if device
        else "Over the whole trace: modules and operators from the outside in, as wide as the time they took. "
    )  # fmt: skip
    return (
        f'<p class="note">{what}Click to look into one; click the top to leave.</p>'
        f'<div class="controls">{choose}<span class="of" id="flame-said"></span></div>'
        '<div class="flame" id="flame"></div>'
    )


def _ranks(ranks: Sequence[RankBar]) -> str:
    if not ranks:
        return ""
    bars = "".join(_bar(f"rank {one.rank}", one.shares, one.label or (show(one.waited_s, "s") if one.waited_s else "")) for one in ranks)
    keys = "".join(f'<span class="swatch p-{name}">{said}</span>' for name, said in PARTS)
    return f'<div class="bars">{bars}</div><p class="keys2">{keys}</p>'


def _steps(answer: Answer) -> str:
    if len(answer.steps) < 2:
        return ""
    lengths = [one.length_s for one in answer.steps]
    middle = statistics.median(lengths)
    y = charts.linear_axis(0.0, max(lengths) * 1.02, lambda v: show(v, "s") if v else "0", most=4)
    count = len(lengths)
    step = max(1, count // 10)
    x = charts.Axis(
        -0.5, count - 0.5, lambda v: str(answer.steps[int(v)].number), "step", False, tuple(float(n) for n in range(0, count, step))
    )
    chart = charts.Chart(x, y, "length of each step", width=1000.0, height=240.0)
    if count <= BARS:
        for place, one in enumerate(answer.steps):
            (left, bottom), (right, top) = chart.at((place - 0.4, 0.0)), chart.at((place + 0.4, one.length_s))
            chart.parts.append(
                f'<rect class="step{" slow" if one.slow else ""}" x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" '
                f'height="{max(bottom - top, 0.5):.1f}"><title>step {one.number}: {escape(show(one.length_s, "s"))}</title></rect>'
            )
    else:
        chart.dots([(float(i), one.length_s) for i, one in enumerate(answer.steps) if not one.slow], "s0")
        chart.dots([(float(i), one.length_s) for i, one in enumerate(answer.steps) if one.slow], "slow")
    chart.line([(-0.5, middle), (count - 0.5, middle)], "bound")
    slow = [one.number for one in answer.steps if one.slow]
    said = f"begin to begin; the dashed line is the median, {show(middle, 's')}"
    marked = f". Slow: {words.some([str(one) for one in slow], 12)}" if slow else ". None is far above it"
    return f'<div class="plots"><figure class="whole"><figcaption>{escape(said + marked)}.</figcaption>{chart.svg()}</figure></div>'


def _kernels(answer: Answer) -> str:
    if not answer.kernels:
        return ""
    table = html(Table(kernel_columns(answer.kernels[:KERNELS])), "kernels", "scroll tall", "total", "kernel-table")
    rest = answer.kernels[KERNELS:]
    taken = f"{len(rest):,} more take {percent(sum(row.share for row in rest))}: hotlap trace --json lists all."
    more = f'<p class="note">{taken}</p>' if rest else ""
    return f'<p class="note">By kernel and the operator that launched it; shares are of the busy time of kernels.</p>{table}{more}'


def _operators(answer: Answer) -> str:
    """What the host did, where nothing ran on a device."""
    if not answer.operators:
        return ""
    table = html(Table(operator_columns(answer.operators[:KERNELS])), "kernels", "scroll tall", "own time")
    return f'<p class="note">On all threads; own time is without the operators inside, and shares are of it.</p>{table}'


def _limits(answer: Answer) -> str:
    """Operators with recorded shapes against the bounds of their machine."""
    if not answer.limits:
        return ""
    saved = sum(row.headroom_s for row in answer.limits)
    note = f"On {answer.machine}: {words.counted(len(answer.limits), 'shape')}; at the expected times they would save "
    note += f"{show(saved, 's')} of device time."
    table = html(Table(limit_columns("operator", answer.limits[:LIMITS])), "kernels", "scroll tall")
    return pages.notes([note], "note") + table


def _memory(answer: Answer) -> str:
    rows = ""
    for usage in answer.memory:
        since = "" if usage.whole else ", counted from the trace’s beginning"
        growth = usage.growth_per_step_bytes or 0.0
        grows = f"; grows by {size(growth)} a step" if growth > 0 else ""
        unused = f"; {100 * usage.unused_share:.0f} % of what the allocator held at most was not in use" if usage.unused_share else ""
        holders = "; ".join(f"{held.operator or 'outside of operators'} {size(held.bytes)}" for held in usage.holders[:4])
        said = f"peak {size(usage.peak_bytes)}{since}{unused}{grows}" + (f". Held at the peak by {holders}" if holders else "")
        rows += f"<dt>{'the host' if usage.device < 0 else f'device {usage.device}'}</dt><dd>{text(said)}.</dd>"
    return f"<dl>{rows}</dl>" if rows else ""

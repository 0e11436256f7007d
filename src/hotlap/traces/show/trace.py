"""A trace as text: where the time went, the kernels that took it, and findings by what mending them would gain."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hotlap.core import units
from hotlap.core.record import Finding
from hotlap.core.show import layout, words
from hotlap.core.show.table import Cell, Column
from hotlap.traces import mainthread, memory, naming, operators
from hotlap.traces.advice.trace import Advice
from hotlap.traces.idle import CAUSES, LongGap
from hotlap.traces.show import answer, tables
from hotlap.traces.show import limits as trace_limits
from hotlap.traces.study import Study

KERNELS = 8
UNTOLD = 0.2  # of the devices' windows, idle for no known cause
PAGES = "docs/findings.md"  # a section for each rule


def trace(study: Study, advice: Advice, width: int, color: bool = False, kernels: int = KERNELS) -> str:
    """The whole answer for one trace."""
    lines = heading(study, width, color)
    if study.devices:
        lines += ["", *_devices(study, width, color), "", *_idle(study, width, color)]
    else:
        lines += ["", "Nothing ran on a device in this trace: shares of a device are not applicable."]
    lines += _main_thread(study, width, color)
    if len(study.steps) > 1:
        lines += ["", *_steps(study, width)]
    lines += _memory(study, width)
    lines += _kernels(study, width, color, kernels) if study.devices else _operators(study, width, color, kernels)
    against = trace_limits.limits(study, width, color)
    lines += ["", *against] if against else []
    return "\n".join([*lines, "", *findings(advice, width, color), *_untold(study, width)])


def heading(study: Study, width: int, color: bool) -> list[str]:
    """What the file is, the window that all shares are of, and what could not be read."""
    head, events = study.events.head, study.events
    names = [str(one.get("name", "")) for one in head.devices if one.get("name")]
    which = f"{len(names)} × {names[0]}" if len(set(names)) == 1 and len(names) > 1 else ", ".join(dict.fromkeys(names))
    about = [f"{len(events):,} events by {head.reader}", which, f"rank {head.rank}" + (f" of {head.ranks}" if head.ranks else "")]
    about = about if head.rank is not None else about[:2]
    lines = [layout.painted(Path(events.path).name, "bold", color) + " · " + " · ".join(words.clean(one) for one in about if one)]
    lines += layout.paragraph("window  ", f"{units.show(study.window_s, 's')}: {study.window_words}", width)
    lines += _replay(study, width)
    for notice in study.notices:
        many = f" ({notice.count:,})" if (notice.count or 0) > 1 else ""
        lines += layout.paragraph("notice  ", f"{notice.text}{many}", width)
    return lines


def _replay(study: Study, width: int) -> list[str]:
    """Whether gains can be trusted."""
    check = study.check
    if not study.devices:
        return []
    if check is None:
        alone = "of the device alone: the trace has no calls of its work, so gains take every pause of a stream to stay as long"
        return layout.paragraph("replay  ", alone if len(study.tasks.start) else "none: no work can be timed anew", width)
    left, host = units.show(check.left_s, "s"), units.show(check.host_s, "s")
    trusted = "gains can be trusted" if check.holds else "gains cannot be trusted"
    return layout.paragraph("replay  ", f"{left} without the device's work, the host alone {host}: {trusted}", width)


def _devices(study: Study, width: int, color: bool) -> list[str]:
    rows = [study.breakdown(device) for device in study.devices]
    total = study.breakdown() if len(rows) > 1 else None
    every = rows + ([total] if total else [])

    def column(head: str, values: Sequence[float | None]) -> Column:
        return Column(head, [Cell(text) for text in layout.aligned([f"{100 * (v or 0):.1f} %" for v in values])], right=True)

    names = [str(row.device) for row in rows] + (["all"] if total else [])
    columns = [
        Column("device", [Cell(name) for name in names]),
        Column("window", [Cell(text) for text in layout.aligned([units.show(row.window_s, "s") for row in every])], right=True),
        column("compute", [row.compute_share for row in every]),
        column("exposed communication", [row.exposed_communication_share for row in every]),
        column("exposed copies", [row.exposed_copy_share for row in every]),
        column("idle", [row.idle_share for row in every]),
    ]
    lines = layout.fitted(columns, width).lines(color)
    whole = total or rows[0]
    if whole.communication_share:
        lines += layout.paragraph(
            "",
            f"communication takes {100 * whole.communication_share:.1f} % in all; "
            f"{100 * (whole.overlap or 0):.0f} % of it is hidden behind compute",
            width,
        )
    lines.append(layout.painted(f"of each device's window, {whole.window}", "dim", color))
    if whole.window_s < 0.5 * study.window_s:
        part, all_of_it = units.show(whole.window_s, "s"), units.show(study.window_s, "s")
        said = f"{part} of the {all_of_it} above: before and after, the device had nothing to do"
        lines += layout.paragraph("", said, width)
    return lines


def _main_thread(study: Study, width: int, color: bool) -> list[str]:
    """Where the host's time went, where no device's tells."""
    found = mainthread.shares(study) if mainthread.blocked(study) else {}
    if not found:
        return []
    names = mainthread.outside_by_name(study)
    rows = [(name.replace("_", " "), share, mainthread.PARTS[name]) for name, share in found.items() if share >= 0.0005]
    rows += [(f"  {layout.shortened(words.clean(name), 60)}", share, "") for name, share in names.items() if share >= 0.01]
    columns = [
        Column("main thread", [Cell(name) for name, _, _ in rows]),
        Column("", [Cell(text) for text in layout.aligned([f"{100 * share:.1f} %" for _, share, _ in rows])], right=True),
        Column("", [Cell(said, "dim") for _, _, said in rows], wrap=True),
    ]
    return ["", *layout.fitted(columns, width).lines(color), layout.painted("of the window", "dim", color)]


def _untold(study: Study, width: int) -> list[str]:
    """What the trace cannot tell."""
    unknown = study.idle_shares["unknown"] if study.devices else 0.0
    if study.devices and mainthread.blocked(study) and not mainthread.shares(study):
        sentence = "Cannot tell what went on before and after the device's work: the trace has no operators or calls of the main thread."
        return ["", *layout.paragraph("", sentence, width)]
    if unknown < UNTOLD:
        return []
    sentence = (
        f"Cannot tell why the devices were idle for {units.percent(unknown)} of their window: the trace has no calls of the host for "
        "the work after these gaps. Record the calls as well (hotlap trace capture; nsys profile --trace=cuda,nvtx)."
    )
    return ["", *layout.paragraph("", sentence, width)]


def _idle(study: Study, width: int, color: bool) -> list[str]:
    lines = _caused(study, width, color)
    for gap in study.long_gaps:
        lines += layout.paragraph("one gap  ", long_gap(gap, len(study.devices) > 1), width)
    return lines


def long_gap(gap: LongGap, several: bool) -> str:
    """A gap with its neighbours. `several`: there are more devices."""
    names = naming.labels((gap.before, gap.after), 80)
    where = f" on device {gap.device}" if several else ""
    return (
        f"{units.show(gap.length_s, 's')}{where}, {100 * gap.share:.0f} % of the idle time ({gap.cause.replace('_', ' ')}): after "
        f"{words.clean(names[gap.before])}, before {words.clean(names[gap.after])}"
    )


def _caused(study: Study, width: int, color: bool) -> list[str]:
    shown = sorted(((share, cause) for cause, share in study.idle_shares.items() if share >= 0.0005), reverse=True)
    if not shown:
        return ["never idle within that window"]
    columns = [
        Column("idle because", [Cell(cause.replace("_", " ")) for _, cause in shown]),
        Column("", [Cell(text) for text in layout.aligned([f"{100 * share:.1f} %" for share, _ in shown])], right=True),
        Column("", [Cell(CAUSES[cause], "dim") for _, cause in shown], wrap=True),
    ]
    return layout.fitted(columns, width).lines(color)


def _steps(study: Study, width: int) -> list[str]:
    begins = np.append(study.steps.start, study.steps.end[-1])
    length = np.diff(begins) / 1e9
    low, median, high = np.quantile(length, [0, 0.5, 1])
    text = (
        f"{len(length)} steps, begin to begin: median {units.show(float(median), 's')}, shortest {units.show(float(low), 's')}, "
        f"longest {units.show(float(high), 's')} (step {int(study.steps.number[int(np.argmax(length))])})"
    )
    return layout.paragraph("steps   ", text, width)


def _memory(study: Study, width: int) -> list[str]:
    lines = []
    for one in memory.of(study.events):
        since = "" if one.whole else ", counted from the trace's beginning"
        unused = f"; of what the allocator held at most {100 * one.unused:.0f} % was not in use" if one.unused is not None else ""
        grows = f"; grows by {units.size(one.growth_per_step)} a step" if one.growth_per_step and one.growth_per_step > 0 else ""
        text = f"peak {units.size(one.peak)} on {f'device {one.device}' if one.device >= 0 else 'the host'}{since}{unused}{grows}"
        lines += layout.paragraph("memory  ", text, width)
    return lines


def _kernels(study: Study, width: int, color: bool, most: int) -> list[str]:
    rows = answer.kernels(study)
    if not rows:
        return []
    shown = rows[:most]
    columns = tables.on_terminal(tables.kernel_columns(shown, (64, 40)))
    lines = ["", *layout.fitted(columns, width, spare=["median"]).lines(color)]
    rest = sum(row.share for row in rows[most:])
    return (
        [*lines, layout.painted(f"{len(rows) - len(shown)} more take {100 * rest:.1f} % of the busy time of kernels", "dim", color)]
        if rest
        else lines
    )


def _operators(study: Study, width: int, color: bool, most: int) -> list[str]:
    """What the host did, where nothing else did."""
    rows = operators.operators(study)
    if not rows or not most:
        return []
    columns = tables.on_terminal(tables.operator_columns(rows[:most], 64))
    lines = ["", *layout.fitted(columns, width, spare=["median"]).lines(color)]
    rest = f"{len(rows) - most} more take {100 * sum(row.share for row in rows[most:]):.1f} % of the operators' own time"
    return [*lines, layout.painted(rest, "dim", color)] if len(rows) > most else lines


def together(share: float, findings: Sequence[Finding]) -> str:
    """What all fixes save at most, and where that is less than their sum, why."""
    overlap = share < sum(one.gain_high or 0.0 for one in findings) - 0.005
    more = ": fixes overlap, so their gains do not add up" if overlap else ""
    return f"All of them together would save at most {units.percent(share)} of the window{more}."


def findings(advice: Advice, width: int, color: bool) -> list[str]:
    """What is worth doing, by gain."""
    if not advice.findings:
        hidden = f"; {words.counted(advice.hidden, 'finding')} below 2 % (--all)" if advice.hidden else ""
        return [f"Nothing found that would gain 2 % or more{hidden}."]
    lines = [layout.painted("What to do, by what it would save of the window", "bold", color)]
    for number, one in enumerate(advice.findings, 1):
        lines += ["", *finding(number, one, width, color)]
    if advice.together is not None and len(advice.findings) > 1:
        lines += [
            "",
            *layout.paragraph(
                "",
                together(advice.together, advice.findings),
                width,
            ),
        ]
    lines += ["", layout.painted(f"each rule is explained at {PAGES}#RULE", "dim", color)]
    if advice.hidden:
        lines.append(layout.painted(f"{words.counted(advice.hidden, 'finding')} below 2 %: --all", "dim", color))
    return lines


def gain(finding: Finding) -> str:
    """The interval of a gain in words."""
    low, high = 100 * (finding.gain_low or 0.0), 100 * (finding.gain_high or 0.0)
    if finding.gain is None:
        return f"no estimate, at most {high:.0f} %"
    if not high:
        return "no estimate"
    return f"{high:.0f} %" if round(low) == round(high) else f"{low:.0f} to {high:.0f} %"


def finding(number: int, finding: Finding, width: int, color: bool) -> list[str]:
    """One finding: gain, title, evidence, place, remedy."""
    head = f"{number}. {gain(finding)}  "
    lines = [
        layout.painted(head, "accent", color)
        + layout.painted(finding.title, "bold", color)
        + layout.painted(f"  {finding.rule}, confidence {finding.confidence}", "dim", color)
    ]
    lines += layout.paragraph("   ", words.clean(finding.detail), width, most=6)
    if finding.where:
        lines += layout.paragraph("   where  ", words.clean(finding.where), width)
    lines += layout.paragraph("   do     ", finding.action, width, most=8)
    if finding.experiment:
        lines += layout.paragraph("   prove  ", finding.experiment, width)
    return lines

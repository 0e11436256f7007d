"""Kernels with their counters, for the terminal: a table, and under it what was found in the kernels that took the most time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hotlap.core.show import layout, words
from hotlap.core.show.table import Cell, Column
from hotlap.core.units import percent, size
from hotlap.traces.counters import metrics, rules
from hotlap.traces.counters.analysis import Analysis, Bound
from hotlap.traces.counters.kernel import CountedKernel, KernelProfile
from hotlap.traces.counters.rules import CounterRule, Hint

LEAST = 0.02  # of a kernel's time: findings that can gain less are counted only
ROWS, DETAILED = 20, 5  # kernels in the table, and those with their findings
SHORT, LONG = 28, 100  # characters of a kernel's name in the table with its arguments, and without
FOOT = (
    "Gains are of the kernel's own time and at most; findings overlap, so they are not to be added. 'Of its part' is a gain of the "
    "unit that the rule looks at: what the kernel would gain is not known."
)


def text(profile: KernelProfile, analyses: Sequence[Analysis], width: int = 100, color: bool = False, least: float = LEAST) -> str:
    """All of it; `least`: share of a kernel's time under which a finding is hidden."""
    groups = _groups(analyses)
    lines = _heading(profile)
    for notice in profile.notices:
        many = f" ({notice.count:,})" if notice.count else ""
        lines += layout.paragraph("notice ", words.clean(f"{notice.text}{many}"), width)
    lines += ["", *_table(groups[:ROWS], width, color)]
    if len(groups) > ROWS:
        lines.append(f"… and {words.counted(len(groups) - ROWS, 'kernel')} that took less")
    for group in groups[:DETAILED]:
        lines += ["", *_kernel(group, width, color, least)]
    if len(groups) > DETAILED:
        lines += ["", *layout.paragraph("", f"Findings are shown for the {DETAILED} kernels that took the most time.", width)]
    lines += ["", *layout.paragraph("", FOOT, width)]
    return "\n".join(lines)


class Group(NamedTuple):
    """Launches of one kernel with the same grid and block."""

    longest: Analysis
    launches: int
    took_s: float


def _groups(analyses: Sequence[Analysis]) -> list[Group]:
    """By time in all, the most first."""
    alike: dict[tuple[object, ...], list[Analysis]] = {}
    for one in analyses:
        alike.setdefault((one.kernel.name, one.kernel.grid, one.kernel.block), []).append(one)
    groups = [
        Group(max(many, key=lambda one: one.kernel.duration_s or 0.0), len(many), math.fsum(one.kernel.duration_s or 0.0 for one in many))
        for many in alike.values()
    ]
    return sorted(groups, key=lambda group: -group.took_s)


def _heading(profile: KernelProfile) -> list[str]:
    kernels = profile.kernels
    devices = list(dict.fromkeys(f"{one.device} ({one.capability})" if one.capability else one.device for one in kernels))
    took = math.fsum(one.duration_s or 0.0 for one in kernels)
    parts = [
        Path(profile.path).name, profile.reader, f"{len(kernels):,} launch{'es' * (len(kernels) != 1)}", ", ".join(devices[:3]),
        f"{words.quantity(took, 's')} in kernels" if took else "",
    ]  # fmt: skip
    return [words.clean(" · ".join(part for part in parts if part))]


def _table(groups: Sequence[Group], width: int, color: bool) -> list[str]:
    took = math.fsum(group.took_s for group in groups)
    shown = [group.longest for group in groups]
    columns = [
        Column("kernel", [Cell(_name(one.kernel, SHORT), "bold") for one in shown], wrap=True),
        Column("launches", [Cell(f"{group.launches:,}") for group in groups], right=True),
        Column("duration", [Cell(words.quantity(group.took_s or None, "s")) for group in groups], right=True),
        Column("of all", [Cell(_percent(group.took_s / took if took else None)) for group in groups], right=True),
        Column("bound by", [Cell(_bound(one.bound)) for one in shown]),
        Column("compute", [Cell(_percent(one.bound.compute)) for one in shown], right=True),
        Column("memory", [Cell(_percent(one.bound.memory)) for one in shown], right=True),
        Column("headroom", [Cell(_percent(one.bound.headroom)) for one in shown], right=True),
        Column("occupancy", [Cell(_occupancy(one)) for one in shown], right=True),
    ]
    if all(group.launches == 1 for group in groups):
        columns.pop(1)
    return layout.fitted(columns, width, ("of all", "occupancy", "compute", "memory")).lines(color)


def _name(kernel: CountedKernel, most: int) -> str:
    """Without its arguments where there is not room for them."""
    name = words.clean(kernel.name)
    return name if len(name) <= most else layout.shortened(_bare(name), LONG)


def _bare(name: str) -> str:
    """A function without its arguments: what stands in the last pair of parentheses, and behind it, is left out."""
    depth = 0
    for place in range(len(name) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(name[place], 0)
        if name[place] == "(" and depth == 0:
            return f"{name[:place]}(…)" if place else name
    return name


def _percent(share: float | None) -> str:
    return words.DASH if share is None else percent(share)


def _bound(bound: Bound) -> str:
    if bound.kind == "unknown":
        return words.DASH
    return f"{bound.kind} ({bound.level})" if bound.level else bound.kind


def _occupancy(analysis: Analysis) -> str:
    """Achieved of possible."""
    achieved = analysis.kernel.metrics.get("occupancy_achieved")
    possible = analysis.kernel.metrics.get("occupancy_theoretical", analysis.occupancy.share if analysis.occupancy else None)
    return _percent(possible) if achieved is None else f"{_percent(achieved)} of {_percent(possible)}"


def _kernel(group: Group, width: int, color: bool, least: float) -> list[str]:
    longest, kernel = group.longest, group.longest.kernel
    sizes = [
        f"grid {_size(kernel.grid)}" if kernel.grid else "", f"block {_size(kernel.block)}" if kernel.block else "",
        f"{kernel.registers} registers" if kernel.registers is not None else "",
        f"{size(kernel.shared_bytes)} shared" if kernel.shared_bytes else "",
    ]  # fmt: skip
    limited = longest.occupancy.limited_by if longest.occupancy else []
    if limited:
        sizes.append(f"occupancy limited by {' and '.join(limited)}")
    if group.launches > 1:
        sizes.insert(0, f"launch {kernel.place + 1}, the longest of {group.launches:,}: {words.quantity(kernel.duration_s, 's')}")
    lines = [layout.painted(_name(kernel, width), "bold", color)]
    lines += layout.paragraph("   ", " · ".join(part for part in sizes if part), width)
    said = rules.says(longest.bound.kind).replace("{level}", longest.bound.level or "Memory")
    share = max(longest.bound.compute or 0.0, longest.bound.memory or 0.0)
    lines += layout.paragraph("   ", said.replace("{share}", _percent(share)), width)
    for error in longest.errors:
        lines += layout.paragraph("   ! ", words.clean(error), width)
    shown = [hint for hint in longest.hints if not _hidden(hint, least)]
    for hint in _nested(shown):
        lines += _hint(hint, kernel, width, hint.parent in {other.rule for other in shown})
    if not shown:
        lines.append("   nothing found that would gain anything to speak of" if longest.hints or kernel.metrics else "   no metrics")
    if hidden := len(longest.hints) - len(shown):
        lines.append(f"   {words.counted(hidden, 'finding')} under {percent(least, 1)} not shown")
    own = [f"{said.rule} {percent(said.gain)} ({said.scope or 'scope not given'})" for said in kernel.remarks if said.gain is not None]
    if own:
        lines += layout.paragraph("   ", f"the profiler's own estimates: {', '.join(map(words.clean, own))}", width)
    return lines


def _hidden(hint: Hint, least: float) -> bool:
    return hint.gain_global is not None and hint.gain_global < least


def _nested(hints: Sequence[Hint]) -> list[Hint]:
    """Each behind its parent, else in the order given."""
    rules = {hint.rule for hint in hints}
    ordered = []
    for hint in hints:
        if hint.parent not in rules:
            ordered += [hint, *(child for child in hints if child.parent == hint.rule)]
    return ordered


def _hint(hint: Hint, kernel: CountedKernel, width: int, child: bool) -> list[str]:
    room = " " * (6 if child else 3)
    evidence = "; ".join(metrics.worded(name, value) for name, value in hint.evidence.items())
    lines = layout.paragraph(room, f"{hint.title}: {_gain(hint, kernel)}{', part of the above' if child else ''}", width)
    lines += layout.paragraph(f"{room}  ", evidence, width) if evidence else []
    return lines + layout.paragraph(f"{room}  → ", hint.remedy, width)


def _gain(hint: Hint, kernel: CountedKernel) -> str:
    if hint.gain_global is not None:
        least = f"{percent(hint.gain_low)} to " if hint.gain_low is not None else "up to "
        most = "at most " if hint.gain_low is not None else ""
        seconds = f" ({most}{words.quantity(hint.gain_global * kernel.duration_s, 's')})" if kernel.duration_s else ""
        return f"{least}{percent(hint.gain_global)}{seconds}"
    return f"{percent(hint.gain_local)} of its part" if hint.gain_local is not None else "gain not known"


def _size(three: tuple[int, int, int]) -> str:
    return "×".join(str(one) for one in three if one != 1) or "1"


def listed(known: Sequence[CounterRule], width: int = 100, color: bool = False) -> str:
    """Every rule: what it finds → what to do, and when it fires."""
    room = max(len(rule.name) for rule in known)
    lines = []
    for rule in known:
        lines += layout.paragraph(
            f"{layout.painted(rule.name.ljust(room), 'bold', color)}  ", f"{rule.title} → {rule.remedy} [{rule.when}]", width, 20
        )
    return "\n".join(lines)

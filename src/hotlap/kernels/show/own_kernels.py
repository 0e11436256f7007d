"""Users' kernels as a list, one of them in full, and what their check found."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core.record import Case, Samples
from hotlap.core.show import layout, words
from hotlap.core.show.table import Cell, Column
from hotlap.core.work import label
from hotlap.kernels.kept import KeptKernel

NEXT = "next    hotlap kernel add FILE (.py, .cl, .cu, .so); docs/own-kernels.md"


def listed(found: Sequence[KeptKernel], width: int, color: bool) -> str:
    """A line per kernel."""
    if not found:
        return f"no kernel is kept\n{NEXT}"
    columns = [
        Column("kernel", [Cell(one.name, "bold") for one in found]),
        Column("what", [Cell(f"implements {one.workload}" if one.workload else "a workload of its own") for one in found]),
        Column("file", [Cell(one.file) for one in found]),
        Column("revision", [Cell(one.revision) for one in found]),
        Column("added", [Cell(one.revisions[-1].added[:16].replace("T", " ") if one.revisions else "") for one in found]),
        Column("about", [Cell(layout.shortened(words.clean(one.about), 40), "dim") for one in found]),
    ]
    return "\n".join(layout.fitted(columns, width, ("about", "added")).lines(color))


def shown(one: KeptKernel, width: int) -> str:
    """All that is known of one."""
    only = "; ".join(f"{name} = {', '.join(map(str, values))}" for name, values in one.only.items())
    facts = [
        ("about", one.about), ("file", one.file), ("implements", f"{one.workload}{f' ({only})' if only else ''}" if one.workload else ""),
        ("parameters", ", ".join(f"{p.name}={p.default}" for p in one.settings)),
        ("reads", f"{one.read_bytes} B" if one.read_bytes else ""), ("writes", f"{one.written_bytes} B" if one.written_bytes else ""),
        ("operations", f"{one.operations} of {one.unit_of_arithmetic}" if one.operations else ""),
        ("cases", "; ".join(" ".join(f"{k}={v}" for k, v in case.items()) for case in one.cases)),
        ("revisions", ", ".join(f"{r.hash} ({r.added[:16].replace('T', ' ')})" for r in reversed(one.revisions))),
    ]
    lines = [one.name]
    for name, text in facts:
        lines += layout.paragraph(f"  {name:<11} ", words.clean(text), width) if text else []
    return "\n".join(lines)


def checked(pairs: Sequence[tuple[Case, Samples]], width: int, color: bool) -> str:
    """A line per case: right or not, and how far off."""
    lines = []
    for case, samples in pairs:
        mark, style = {"measured": ("✓", "good"), "not_run": ("-", "dim")}.get(samples.status, ("✗", "bad"))
        lines += layout.paragraph(f"{layout.painted(mark, style, color)} ", f"{label(case)}: {_said(samples)}", width)
    right = sum(samples.status == "measured" for _, samples in pairs)
    return "\n".join([*lines, f"{right} of {words.counted(len(pairs), 'case')} right"])


def _said(samples: Samples) -> str:
    if samples.status == "not_run":
        return f"not run, because {samples.reason}"
    if samples.status != "measured" or samples.check is None or samples.check.error is None or samples.check.tolerance is None:
        return words.clean(samples.reason)
    alike = {1.0: ", the same bits each time", 0.0: ", other bits each time"}.get(samples.metrics.get("deterministic", -1.0), "")
    leak = next((f"; {notice.seen}" for notice in samples.notices if notice.code == "leak"), "")
    return f"right: error {samples.check.error:.2g} of {samples.check.tolerance:.2g} allowed{alike}{leak}"

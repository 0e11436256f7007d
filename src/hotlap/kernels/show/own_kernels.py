"""Users' kernels as a list, one of them in full, and what their check found."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core.record import Case, Samples
from hotlap.core.show import layout, words
from hotlap.core.show.table import Cell, Column
from hotlap.core.work import label
from hotlap.kernels.kept import KeptKernel

NEXT = "next    hotlap kernel add FILE (.py, .cl, .cu, .so); docs/own-kernels.md"


def listed(kernels: Sequence[KeptKernel], width: int, color: bool) -> str:
    """A line per kernel."""
    if not kernels:
        return f"no kernel is kept\n{NEXT}"
    columns = [
        Column("kernel", [Cell(one.name, "bold") for one in kernels]),
        Column("what", [Cell(f"implements {one.workload}" if one.workload else "a workload of its own") for one in kernels]),
        Column("file", [Cell(one.file) for one in kernels]),
        Column("revision", [Cell(one.revision) for one in kernels]),
        Column("added", [Cell(one.revisions[-1].added[:16].replace("T", " ") if one.revisions else "") for one in kernels]),
        Column("about", [Cell(layout.shortened(words.clean(one.about), 40), "dim") for one in kernels]),
    ]
    return "\n".join(layout.fitted(columns, width, ("about", "added")).lines(color))


def shown(kernel: KeptKernel, width: int) -> str:
    """All that is known of one."""
    only = "; ".join(f"{name} = {', '.join(map(str, values))}" for name, values in kernel.only.items())
    facts = [
        ("about", kernel.about), ("file", kernel.file),
        ("implements", f"{kernel.workload}{f' ({only})' if only else ''}" if kernel.workload else ""),
        ("parameters", ", ".join(f"{p.name}={p.default}" for p in kernel.settings)),
        ("reads", f"{kernel.read_bytes} B" if kernel.read_bytes else ""),
        ("writes", f"{kernel.written_bytes} B" if kernel.written_bytes else ""),
        ("operations", f"{kernel.operations} of {kernel.unit_of_arithmetic}" if kernel.operations else ""),
        ("options", _options(kernel)),
        ("cases", "; ".join(" ".join(f"{k}={v}" for k, v in case.items()) for case in kernel.cases)),
        ("revisions", ", ".join(f"{r.hash} ({r.added[:16].replace('T', ' ')})" for r in reversed(kernel.revisions))),
    ]
    lines = [kernel.name]
    for name, text in facts:
        lines += layout.paragraph(f"  {name:<11} ", words.clean(text), width) if text else []
    return "\n".join(lines)


def _options(kernel: KeptKernel) -> str:
    """Of the compiler, where one of Hotlap's targets compiles it."""
    given = kernel.table.get("options", [])
    if kernel.kind not in ("opencl", "cuda"):
        return ""
    return " ".join(map(str, given)) if isinstance(given, list) and given else "of the compiler: none"


def checked(pairs: Sequence[tuple[Case, Samples]], width: int, color: bool) -> str:
    """A line per case: right or not, and how far off."""
    lines = []
    for case, samples in pairs:
        mark, style = {"measured": ("✓", "good"), "not_run": ("-", "dim")}.get(samples.status, ("✗", "bad"))
        lines += layout.paragraph(f"{layout.painted(mark, style, color)} ", f"{label(case)}: {_said(samples)}", width)
    right, left_out = (sum(samples.status == status for _, samples in pairs) for status in ("measured", "not_run"))
    whole = f"{right} of {words.counted(len(pairs), 'case')} right"
    return "\n".join([*lines, whole if not left_out else f"{whole}, {left_out} not run"])


def _said(samples: Samples) -> str:
    if samples.status == "not_run":
        return f"not run, because {samples.reason}"
    if samples.status != "measured" or samples.check is None or samples.check.error is None or samples.check.tolerance is None:
        return words.clean(samples.reason)
    alike = {1.0: ", the same bits each time", 0.0: ", other bits each time"}.get(samples.metrics.get("deterministic", -1.0), "")
    leak = next((f"; {notice.seen}" for notice in samples.notices if notice.code == "leak"), "")
    return f"right: error {samples.check.error:.2g} of {samples.check.tolerance:.2g} allowed{alike}{leak}"

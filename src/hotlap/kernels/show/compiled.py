"""What `compiled` prints: a row for each kernel, or variants side by side; instructions by class; findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hotlap.core.record import Finding
from hotlap.core.show import layout, words
from hotlap.core.show.table import Cell, Column
from hotlap.core.stats import order
from hotlap.kernels.advice import Studied
from hotlap.kernels.binaries.classes import CLASSES

BOUND = {"threads per block": "block size", "registers per thread": "registers", "shared memory per block": "shared", "blocks": "blocks"}


def compiled(studied: Sequence[Studied], findings: Sequence[Finding], width: int = 100, color: bool = False) -> str:
    """Kernels in one table; those with several variants (architectures, flags) side by side."""
    groups: dict[tuple[str, str], list[Studied]] = {}
    for one in studied:
        groups.setdefault((one.compiled.source, one.compiled.kernel), []).append(one)
    alone = [some[0] for some in groups.values() if len(some) == 1]
    lines: list[str] = []
    if alone:
        lines += layout.fitted(_columns(alone), width, ("code", "threads")).lines(color)
        lines += ["", *_mixes(alone, width, color)]
    for (source, kernel), some in groups.items():
        if len(some) > 1:
            lines += [""] * bool(lines) + [layout.painted(words.clean(kernel), "bold", color) + f"  {words.clean(source)}"]
            lines += _beside(some, width, color)
    lines += _notes(studied, width)
    lines += _findings(findings, width, color)
    return "\n".join(lines)


# ---------------------------------------------------------------- cells


def _spilled(kernel: Studied) -> str:
    stored, loaded = kernel.compiled.spill_store_bytes, kernel.compiled.spill_load_bytes
    if stored is None:
        return "–"
    return f"{stored} B" if loaded is None or stored == loaded else f"{stored} + {loaded} B"


def _shared(kernel: Studied) -> str:
    if kernel.compiled.shared_bytes is None and kernel.compiled.shared_dynamic_bytes is None:
        return "–"
    return _size(kernel.compiled.shared_all_bytes)


def _size(value: int | None) -> str:
    return "–" if value is None else f"{value} B" if value < 10240 else f"{value / 1024:.0f} KiB"


def _threads(kernel: Studied) -> str:
    return f"{kernel.threads}{'?' if kernel.assumed else ''}"


def _occupancy(kernel: Studied) -> str:
    held = kernel.occupancy
    return "–" if held is None else f"{held.warps}/{held.most} {100 * held.share:.0f} %"


def _bound(kernel: Studied) -> str:
    held = kernel.occupancy
    return "" if held is None else ", ".join(BOUND[name] for name in held.limited_by) or "all warps fit"


def _matrix(kernel: Studied) -> str:
    return ", ".join(f"{many} {name}" for name, many in list(kernel.compiled.matrix.items())[:2]) or ("none" if kernel.compiled.of else "–")


def _time(kernel: Studied) -> str:
    taken = kernel.compiled.compile_s
    if not taken:
        return "–"
    shown = words.quantity(float(np.median(taken)), "s")
    between = order.interval(taken)
    return f"{shown} [{words.quantity(between[0], 's')} – {words.quantity(between[1], 's')}]" if between else shown


def _count(value: int | None) -> str:
    return "–" if value is None else str(value)


FIGURES = (
    ("registers", lambda one: _count(one.compiled.registers)),
    ("spilled", _spilled),
    ("stack", lambda one: _size(one.compiled.stack_bytes)),
    ("shared", _shared),
    ("threads", _threads),
    ("warps", _occupancy),
    ("bound by", _bound),
    ("code", lambda one: _size(one.compiled.code_bytes)),
    ("matrix", _matrix),
    ("compile", _time),
)


def _columns(some: Sequence[Studied]) -> list[Column]:
    kept = [
        Column("kernel", [Cell(words.clean(one.compiled.kernel), "bold") for one in some], wrap=True),
        Column("for", [Cell(one.variant) for one in some], wrap=True),
    ]
    for head, cell in FIGURES:
        cells = [cell(one) for one in some]
        if head == "stack" and all(one.compiled.spill_store_bytes is not None and not one.compiled.stack_bytes for one in some):
            continue
        if set(cells) <= {"–", ""}:
            continue
        text = head in ("bound by", "matrix", "compile")
        kept.append(Column(head, [Cell(cell) for cell in cells], right=not text, wrap=text))
    return kept


# ---------------------------------------------------------------- instructions


def _shares(kernel: Studied) -> dict[str, str]:
    total = sum(kernel.compiled.instructions.values())
    return {name: f"{100 * many / total:.0f} %" for name, many in kernel.compiled.instructions.items()} if total else {}


def _mixes(some: Sequence[Studied], width: int, color: bool) -> list[str]:
    counted = [one for one in some if one.compiled.instructions]
    if not counted:
        return []
    shares = [_shares(one) for one in counted]
    used = [name for name in CLASSES if any(name in one for one in shares)]
    columns = [
        Column("instructions of", [Cell(words.clean(one.compiled.kernel)) for one in counted], wrap=True),
        Column("", [Cell(f"{sum(one.compiled.instructions.values())} {one.compiled.of}") for one in counted], right=True),
        *(Column(name, [Cell(one.get(name, "·")) for one in shares], right=True) for name in used),
    ]
    return layout.fitted(columns, width, ("constant", "convert", "other")).lines(color)


def _beside(some: Sequence[Studied], width: int, color: bool) -> list[str]:
    """Variants as columns; a figure that differs from the first one's stands in bold."""
    heads, rows = [], []
    for head, cell in FIGURES:
        heads.append(head)
        rows.append([cell(one) for one in some])
    for name in CLASSES:
        if any(name in one.compiled.instructions for one in some):
            heads.append(f"  {name}")
            rows.append([str(one.compiled.instructions.get(name, 0)) if one.compiled.of else "–" for one in some])
    kept = [n for n, row in enumerate(rows) if not set(row) <= {"–", ""}]
    columns = [Column("", [Cell(heads[n]) for n in kept])]
    for place, one in enumerate(some):
        cells = [Cell(rows[n][place], "bold" if rows[n][place] != rows[n][0] else "") for n in kept]
        columns.append(Column(one.variant, cells, right=True, wrap=True))
    return layout.Grid(columns, width).lines(color)


# ---------------------------------------------------------------- what is said below


def _notes(studied: Sequence[Studied], width: int) -> list[str]:
    said: dict[str, list[str]] = {}
    for one in studied:
        for note in [*(notice.text for notice in one.compiled.notices), *([f"no occupancy: {one.reason}"] if one.reason else [])]:
            said.setdefault(note, []).append(one.compiled.kernel)
    lines = [line for note, names in said.items() for line in layout.paragraph(f"{words.some(_once(names))}: ", note, width)]
    legend = []
    if any(one.assumed for one in studied):
        legend.append("threads with ? are assumed; --threads N says how many a block has")
    if any(one.compiled.instructions for one in studied):
        legend.append("instructions are counted as they stand in the code: a loop's body once")
    return [""] * bool(lines) + lines + [""] * bool(legend) + [piece for one in legend for piece in layout.paragraph("", one, width)]


def _once(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _findings(findings: Sequence[Finding], width: int, color: bool) -> list[str]:
    lines = []
    for number, one in enumerate(findings, 1):
        style = {"error": "bad", "warning": "warn", "info": ""}[one.severity]
        head = layout.painted(f"{number:2d} ", style, color)
        pieces = layout.paragraph("   ", f"{one.where}: {one.title}. {one.detail} → {one.action}", width)
        lines += [head + pieces[0][3:], *pieces[1:]]
    return ["", *lines] if lines else []

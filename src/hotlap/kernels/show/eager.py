"""What `compiled --against eager` prints."""

from __future__ import annotations

import math

from hotlap.core.show import layout, words
from hotlap.core.show.table import Cell, Column
from hotlap.kernels.binaries.graphs import Against, Spread

WORSE = 4.0  # times eager's own rounding from which a difference of outputs is worth a word


def against(found: Against, width: int = 100, color: bool = False) -> str:
    """Times side by side, what they mean, graphs and their breaks, outputs, memory."""
    version = ", ".join(f"{name} {value}" for name, value in found.versions.items())
    lines = layout.paragraph("", f"{found.factory} on {found.device or found.target}, {version}, backend {found.backend}", width)
    if found.reason:
        lines += layout.paragraph("times: ", f"not run, because {found.reason}", width)
    if found.speedup is not None and found.break_even is not None:
        lines += ["", *layout.Grid(_columns(found), width).lines(color)]
        lines += ["", *layout.paragraph("", _verdict(found.speedup, found.break_even), width)]
    lines += ["", *_graphs(found, width)]
    if found.difference is not None:
        lines += layout.paragraph("outputs: ", _outputs(found.difference, found.rounding), width)
    if found.memory:
        told = "; ".join(f"{name} {words.quantity(value, 'B')}" for name, value in found.memory.items())
        lines += layout.paragraph("memory: ", f"peak, {told}", width)
    return "\n".join(lines)


def _columns(found: Against) -> list[Column]:
    asked = (
        ("eager step", found.eager_s, "s"),
        ("compiled step", found.compiled_s, "s"),
        ("eager ÷ compiled", found.speedup, "×"),
        ("compiling, the first step", found.compile_s, "s"),
        ("steps until it has paid", found.break_even, ""),
    )
    rows = [(name, one, unit) for name, one, unit in asked if one is not None]
    return [
        Column("", [Cell(name) for name, _, _ in rows]),
        Column("median", [Cell(_number(one.median, unit), "bold") for _, one, unit in rows], right=True),
        Column(
            f"95 % over {found.rounds} {'process' if found.rounds == 1 else 'processes'}",
            [Cell(_between(one, unit)) for _, one, unit in rows],
        ),
    ]


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    if math.isinf(value):
        return "never"
    if unit == "s":
        return words.quantity(value, "s")
    return f"{value:.3g} ×" if unit else f"{value:,.0f}"


def _between(one: Spread, unit: str) -> str:
    return "–" if one.low is None else f"{_number(one.low, unit)} – {_number(one.high, unit)}"


def _verdict(ratio: Spread, even: Spread) -> str:
    if ratio.low is None or ratio.high is None:
        return "6 rounds are needed for an interval: --rounds 6"
    if ratio.low > 1:
        return "compiled is faster" if not math.isinf(even.high or math.inf) else "compiled is faster, but not in every round"
    return "compiled is slower" if ratio.high < 1 else "no difference that these rounds can tell"


def _graphs(found: Against, width: int) -> list[str]:
    many = len(found.breaks)
    text = f"{words.counted(found.graphs or 0, 'graph')}, {words.counted(many, 'break')}"
    text += f", {words.counted(found.guards, 'guard')}" if found.guards is not None else ""
    if found.eager_s is not None:
        text += f", {found.recompiled or 'none'} compiled again by later steps"
    lines = layout.paragraph("graphs: ", text, width)
    for number, one in enumerate(found.breaks, 1):
        lines += layout.paragraph(f"{number:4d}  ", f"{one.where or 'place not known'}: {one.reason}", width)
    return lines


def _outputs(apart: float, rounding: float | None) -> str:
    text = f"the largest difference is {apart:.2g} of the largest output"
    if rounding is None:
        return text
    text += f"; eager's own from fp64 is {rounding:.2g}"
    return text + (": more than rounding explains" if apart > WORSE * max(rounding, 1e-16) else "")

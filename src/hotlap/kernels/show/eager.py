"""What `compiled --against eager` prints."""

from __future__ import annotations

import math

from hotlap.core.show import layout, words
from hotlap.core.show.table import Cell, Column
from hotlap.kernels.binaries.graphs import EagerComparison, Spread

WORSE = 4.0  # times eager's own rounding from which a difference of outputs is worth mentioning


def against(eager: EagerComparison, width: int = 100, color: bool = False) -> str:
    """Times side by side, what they mean, graphs and their breaks, outputs, memory."""
    version = ", ".join(f"{name} {value}" for name, value in eager.versions.items())
    lines = layout.paragraph("", f"{eager.factory} on {eager.device or eager.target}, {version}, backend {eager.backend}", width)
    if eager.reason:
        lines += layout.paragraph("times: ", f"not run, because {eager.reason}", width)
    if eager.speedup is not None and eager.break_even is not None:
        lines += ["", *layout.Grid(_columns(eager), width).lines(color)]
        lines += ["", *layout.paragraph("", _verdict(eager.speedup, eager.break_even), width)]
    lines += ["", *_graphs(eager, width)]
    if eager.difference is not None:
        lines += layout.paragraph("outputs: ", _outputs(eager.difference, eager.rounding), width)
    if eager.memory:
        told = "; ".join(f"{name} {words.quantity(value, 'B')}" for name, value in eager.memory.items())
        lines += layout.paragraph("memory: ", f"peak, {told}", width)
    return "\n".join(lines)


def _columns(eager: EagerComparison) -> list[Column]:
    asked = (
        ("eager step", eager.eager_s, "s"),
        ("compiled step", eager.compiled_s, "s"),
        ("eager ÷ compiled", eager.speedup, "×"),
        ("compiling, the first step", eager.compile_s, "s"),
        ("steps until it has paid", eager.break_even, ""),
    )
    rows = [(name, one, unit) for name, one, unit in asked if one is not None]
    return [
        Column("", [Cell(name) for name, _, _ in rows]),
        Column("median", [Cell(_number(one.median, unit), "bold") for _, one, unit in rows], right=True),
        Column(
            f"95 % over {eager.rounds} {'process' if eager.rounds == 1 else 'processes'}",
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


def _between(spread: Spread, unit: str) -> str:
    return "–" if spread.low is None else f"{_number(spread.low, unit)} – {_number(spread.high, unit)}"


def _verdict(ratio: Spread, even: Spread) -> str:
    if ratio.low is None or ratio.high is None:
        return "6 rounds are needed for an interval: --rounds 6"
    if ratio.low > 1:
        return "compiled is faster" if not math.isinf(even.high or math.inf) else "compiled is faster, but not in every round"
    return "compiled is slower" if ratio.high < 1 else "no difference that these rounds can tell"


def _graphs(eager: EagerComparison, width: int) -> list[str]:
    many = len(eager.breaks)
    text = f"{words.counted(eager.graphs or 0, 'graph')}, {words.counted(many, 'break')}"
    text += f", {words.counted(eager.guards, 'guard')}" if eager.guards is not None else ""
    if eager.eager_s is not None:
        text += f", {eager.recompiled or 'none'} compiled again by later steps"
    lines = layout.paragraph("graphs: ", text, width)
    for number, one in enumerate(eager.breaks, 1):
        lines += layout.paragraph(f"{number:4d}  ", f"{one.where or 'place not known'}: {one.reason}", width)
    return lines


def _outputs(apart: float, rounding: float | None) -> str:
    text = f"the largest difference is {apart:.2g} of the largest output"
    if rounding is None:
        return text
    text += f"; eager's own from fp64 is {rounding:.2g}"
    return text + (": more than rounding explains" if apart > WORSE * max(rounding, 1e-16) else "")

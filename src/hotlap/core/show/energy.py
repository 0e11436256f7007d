"""What `energy` prints: energy of a call with its bounds, what a joule buys, power against idle and against the model."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core.analysis.energy import COARSE, EnergyUse
from hotlap.core.show import layout, words
from hotlap.core.show.table import Cell, Column


def energies(uses: Sequence[EnergyUse], width: int = 100, color: bool = False) -> str:
    known = [one for one in uses if one.joules is not None]
    lines = layout.fitted(_columns(known), width, ("bytes/J", "clock", "idle")).lines(color) if known else []
    remarks: dict[str, list[str]] = {}
    for use in uses:
        if use.joules is None:
            remarks.setdefault(f"unknown, because {use.reason}", []).append(use.label)
        for notice in use.notices:
            remarks.setdefault(notice.text, []).append(use.label)
        if use.joules and use.low_j is not None and use.high_j is not None and (use.high_j - use.low_j) / 2 > COARSE * use.joules:
            remarks.setdefault("bounds are wide: --round-time longer gives the sensor more to see", []).append(use.label)
    lines += [""] * bool(lines) * bool(remarks)
    for text, labels in remarks.items():
        lines += layout.paragraph("", f"{words.some(labels)}: {text}", width)
    if known:
        sources = ", ".join(sorted({one.source for one in known}))
        legend = f"energy by {sources}; bounds hold whatever the sensor missed and whatever ran between calls; expected: by the model"
        lines += ["", *layout.paragraph("", legend, width)]
    return "\n".join(lines)


def _columns(known: Sequence[EnergyUse]) -> list[Column]:
    columns = [
        Column("case", [Cell(words.clean(one.label)) for one in known], wrap=True),
        Column("energy", [Cell(words.quantity(one.joules, "J"), "bold") for one in known], right=True),
        Column("bounds", [Cell(_bounds(one)) for one in known]),
        Column("FLOP/s per W", [Cell(_per(one.operations_per_j, "FLOP")) for one in known], right=True),
        Column("bytes/J", [Cell(_per(one.bytes_per_j, "B")) for one in known], right=True),
        Column("power", [Cell(words.quantity(one.power_w, "W")) for one in known], right=True),
        Column("idle", [Cell(words.quantity(one.idle_w, "W") if one.idle_w is not None else "–") for one in known], right=True),
        Column("clock", [Cell(words.quantity(one.clock_hz, "Hz") if one.clock_hz else "–") for one in known], right=True),
        Column("expected", [Cell(_expected(one)) for one in known], right=True),
    ]
    return [column for column in columns if column.head == "case" or {cell.text for cell in column.cells} != {"–"}]


def _bounds(use: EnergyUse) -> str:
    """As shares, which are read more easily than two energies."""
    if use.low_j is None or use.high_j is None or not use.joules:
        return "–"
    return f"{(use.low_j / use.joules - 1) * 100:+.1f} {(use.high_j / use.joules - 1) * 100:+.1f} %"


def _per(value: float | None, unit: str) -> str:
    return "–" if not value else f"{words.quantity(value, unit)}/J"


def _expected(use: EnergyUse) -> str:
    if use.expected_j is None or not use.joules:
        return "–"
    return f"{words.quantity(use.expected_j, 'J')} {(use.joules / use.expected_j - 1) * 100:+.0f} %"

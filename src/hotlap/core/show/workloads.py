"""Workloads and their parameters, as a list, one in full, and as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hotlap.core.show import layout
from hotlap.core.show.table import Cell, Column
from hotlap.core.units import exact
from hotlap.core.work.base import Param, Workload


def facts(workload: Workload) -> dict[str, Any]:
    """All that a plan needs to know of it, as JSON."""
    return {
        "name": workload.name, "about": workload.about, "heading": workload.heading,
        "metric": workload.metric, "unit": workload.unit, "better": workload.better,
        "implementations": workload.implementations, "needs": workload.needs,
        "parameters": [
            {
                "name": p.name, "about": p.about, "type": p.kind, "required": p.default is None, "default": p.default, "unit": p.unit,
                "choices": p.choices, "low": p.low, "high": p.high,
            }
            for p in workload.params
        ],
    }  # fmt: skip


def listed(workloads: Sequence[Workload], width: int = 100, color: bool = False) -> str:
    """A line per workload, by heading."""
    names = list(dict.fromkeys(one.heading for one in workloads))
    rows = [one for name in names for one in workloads if one.heading == name]
    columns = [
        Column("workload", [Cell(one.name, "bold") for one in rows]),
        Column("metric", [Cell(one.metric) for one in rows]),
        Column("what it does", [Cell(one.about) for one in rows], wrap=True),
    ]
    groups = [(name, sum(one.heading == name for one in rows)) for name in names]
    return "\n".join([*layout.Grid(columns, width).lines(color, groups), "", "hotlap schema workloads NAME: its parameters"])


def described(workload: Workload, width: int = 100, color: bool = False) -> str:
    """What it does, what it gives, and every parameter with its default and its values."""
    columns = [
        Column("parameter", [Cell(p.name, "bold") for p in workload.params]),
        Column("default", [Cell(default(p)) for p in workload.params]),
        Column("what it is", [Cell(meaning(p)) for p in workload.params], wrap=True),
    ]
    gives = f"{workload.metric} in {workload.unit}, {workload.better} is better"
    lines = layout.paragraph(layout.painted(workload.name, "bold", color) + ": ", f"{workload.about} ({gives})", width)
    if workload.implementations:
        lines += layout.paragraph("implementations: ", ", ".join(workload.implementations) + "; without one, the target chooses", width)
    if workload.needs:
        lines += layout.paragraph("needs: ", workload.needs, width)
    return "\n".join([*lines, *layout.Grid(columns, width).lines(color)])


def default(param: Param) -> str:
    """Its default as a plan writes it; 'needed' where it has none."""
    if param.default is None:
        return "needed"
    if isinstance(param.default, bool):
        return str(param.default).lower()
    if isinstance(param.default, (int, float)):
        return exact(param.default, param.unit) if param.unit else str(param.default).removesuffix(".0")
    return str(param.default or "''" if isinstance(param.default, str) else "[]")


def meaning(param: Param) -> str:
    """What it is, and the values it may have: those of its choices that the text does not name, or its range."""
    missing = any(choice not in param.about for choice in param.choices)
    if param.choices:
        return f"{param.about}: {', '.join(param.choices)}" if missing else param.about
    low, high = (None if limit is None else exact(limit, param.unit) for limit in (param.low, param.high))
    between = f"{low} to {high}" if low and high else f"from {low}" if low else f"up to {high}" if high else ""
    return f"{param.about} ({between})" if between else param.about

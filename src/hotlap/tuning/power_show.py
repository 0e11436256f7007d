"""What `tuning power` prints: settings by time, what each costs and saves, and the best by several measures."""

from __future__ import annotations

from collections.abc import Sequence

from hotlap.core.analysis.frontier import Frontier, FrontierPoint
from hotlap.core.show import layout, words
from hotlap.core.show.table import Cell, Column


def frontier(frontier: Frontier, width: int = 100, color: bool = False) -> str:
    lines = layout.fitted(_columns(frontier.points), width, ("ED²P", "EDP")).lines(color)
    sure = " by more than their bounds" if any(point.low_j is not None for point in frontier.points) else ""
    lines += ["", *layout.paragraph("", f"◆ on the frontier: no other setting is as fast and takes less energy{sure}", width)]
    if len(frontier.points) == 1:
        alone = f"{frontier.points[0].name} alone: nothing is compared; give the runs of other settings too, free among them"
        return "\n".join([*lines, *layout.paragraph("", alone, width)])
    lines += layout.paragraph("best: ", " · ".join(f"{measure}: {name}" for measure, name in frontier.best.items()), width)
    if any(point.keeps for point in frontier.points) and not any(point.keeps == "kept" for point in frontier.points):
        lines += layout.paragraph("", "no setting surely keeps the limit: a longer one, or more calls (--round-time of the plan)", width)
    for label, reason in frontier.unknown.items():
        lines += layout.paragraph(f"left out: {words.clean(label)}: ", reason, width)
    return "\n".join(lines)


def _columns(points: Sequence[FrontierPoint]) -> list[Column]:
    """Of one setting alone nothing is compared: a dash."""
    alone = len(points) == 1
    free = next((one for one in points if one.name == "free"), points[0])
    edp = [one.joules * one.seconds / (free.joules * free.seconds) for one in points]
    limit = [Column("99 %", [Cell(one.keeps, {"kept": "good", "missed": "bad"}.get(one.keeps, "")) for one in points])]
    return [
        Column("", [Cell("◆" if one.front else "") for one in points]),
        Column("setting", [Cell(one.name, "bold") for one in points]),
        Column("time", [Cell(words.quantity(one.seconds, "s")) for one in points], right=True),
        *(limit if any(one.keeps for one in points) else []),
        Column("slower", [Cell(words.DASH if alone else f"{one.slower * 100:.1f} %") for one in points], right=True),
        Column("energy", [Cell(words.quantity(one.joules, "J"), "bold") for one in points], right=True),
        Column("bounds", [Cell(_bounds(one)) for one in points]),
        *([] if alone else [
            Column(f"against {free.name}", [Cell(f"{(one.joules / free.joules - 1) * 100:+.1f} %") for one in points], right=True)
        ]),
        Column("power", [Cell(words.quantity(one.power_w, "W")) for one in points], right=True),
        Column("clock", [Cell(words.quantity(one.clock_hz, "Hz") if one.clock_hz else "–") for one in points], right=True),
        *([] if alone else [
            Column("EDP", [Cell(f"{one:.3f}") for one in edp], right=True),
            Column("ED²P", [Cell(f"{one * point.seconds / free.seconds:.3f}") for one, point in zip(edp, points, strict=True)], right=True),
        ]),
    ]  # fmt: skip


def _bounds(point: FrontierPoint) -> str:
    if point.low_j is None or point.high_j is None:
        return "model"
    return f"{(point.low_j / point.joules - 1) * 100:+.1f} {(point.high_j / point.joules - 1) * 100:+.1f} %"

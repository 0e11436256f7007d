"""Operators of a trace against what their machine allows, as text."""

from __future__ import annotations

from hotlap.core import units
from hotlap.core.show import layout, words
from hotlap.traces import roofline
from hotlap.traces.show import answer, tables
from hotlap.traces.study import Study

SHOWN = 8


def limits(study: Study, width: int, color: bool) -> list[str]:
    """The operators with recorded shapes that take most time; all reasons in a line where there are none."""
    slug = roofline.machine(study)
    if not study.devices:
        return []
    missing = []
    if not slug:
        names = {words.clean(str(one.get("name"))) for one in study.events.head.devices if one.get("name")}
        what = f"{', '.join(sorted(names))} is not in the machine table" if names else "the trace does not name its device"
        missing.append(f"{what} (--machine NAME gives one of those that hotlap model machines lists)")
    rows = answer.limits(study)
    if not study.events.shapes:
        missing.append("no shapes were recorded (record_shapes=True of torch.profiler)")
    elif slug and not rows:
        missing.append("no operator with a shape that the model knows has work on the device")
    if missing:
        return layout.paragraph("limits  ", f"not known: {', and '.join(missing)}", width)
    columns = tables.on_terminal(tables.limit_columns(f"on {slug}", rows[:SHOWN]))
    lines = layout.fitted(columns, width, spare=["bound"]).lines(color)
    saved = sum(row.headroom_s for row in rows)
    note = f"{len(rows)} shapes in all; at the expected times they would save {units.show(saved, 's')} of device time" if saved else ""
    return [*lines, layout.painted(note, "dim", color)] if note else lines

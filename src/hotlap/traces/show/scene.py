"""What the timeline of the page draws: the worst step in rows of threads and streams, as typed columns in base64.

Where there are more events than can be drawn, those shorter than a pixel of the widest screen are merged with their neighbours.
"""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.show import layout
from hotlap.core.units import show
from hotlap.traces import intervals, naming, sources
from hotlap.traces.advice.marks import AdviceMarks
from hotlap.traces.calls import HOST
from hotlap.traces.events import SET
from hotlap.traces.idle import CAUSES
from hotlap.traces.show.rows import Rows, rows
from hotlap.traces.study import Study

MOST = 60_000  # events drawn
CELLS = 2**18  # stretches that the window is divided into at first, to merge what is shorter
NAME, NAMES = 300, 800_000  # characters of a name at most, and of all names together
MARKS = 2_000  # stretches of one finding at most


class DrawnWindow(NamedTuple):
    """What is drawn, ns since the origin, and why it."""

    low: int
    high: int
    words: str


def worst(study: Study) -> DrawnWindow:
    """The longest step, to the end of the work that it launched; the whole window where nothing marks steps."""
    steps = study.steps
    if not len(steps):
        return DrawnWindow(*study.window, f"the whole window, {show(study.window_s, 's')}: {study.window_words}")
    step = int(np.argmax(steps.lengths))
    work = study.events.work[study.step_of_work == step]
    last = int((study.events.start[work] + study.events.duration[work]).max(initial=0))
    low, high = int(steps.start[step]), max(int(steps.end[step]), int(steps.start[step] + steps.lengths[step]), last)
    which = f"step {int(steps.number[step])}"
    said = f"{which}, the longest of {len(steps)}" if len(steps) > 1 else f"{which}, the only one"
    return DrawnWindow(low, high, f"{said}: {show((high - low) / 1e9, 's')}, until the next begins and the device work it launched ends")


class Drawn(NamedTuple):
    """Columns of what is drawn, by row and start. Times in ns since the window's begin."""

    row: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    name: NDArray[np.int64]  # place in the names of the trace; of gaps −1 − cause
    paint: NDArray[np.int64]
    place: NDArray[np.int64]  # in the trace; −1 a gap
    merged: NDArray[np.int64]  # how many events it stands for

    def take(self, which: NDArray[Any]) -> Drawn:
        return Drawn(*(column[which] for column in self))


def scene(study: Study, marks: list[AdviceMarks], most: int = MOST) -> dict[str, Any]:
    """All that the page's script needs to draw, and to answer what is pointed at."""
    window = worst(study)
    rows_drawn = rows(study, window.low, window.high)
    drawn = _reduced(_drawn(study, rows_drawn, window), window.high - window.low, most)
    span = max(window.high - window.low, 1)
    unit = max(1, -(-3 * span // 2**31))  # ns of one tick: times fit 32 bits with a margin on either side
    names, name = np.unique(drawn.name, return_inverse=True)
    texts = [_gap(study, int(n)) if n < 0 else study.events.names[int(n)] for n in names]
    work = np.isin(np.arange(len(study.events.names)), study.events.name[study.events.work])
    short = [naming.short(text) if n >= 0 and work[n] else text for n, text in zip(names.tolist(), texts, strict=True)]
    return {
        "words": window.words,
        "unit_ns": unit,
        "low_ns": window.low,
        "span": span // unit,
        "rows": [{"group": one.group, "title": one.title, "levels": one.levels, "device": one.device} for one in rows_drawn.lanes],
        "causes": [f"idle: {cause.replace('_', ' ')}" for cause in CAUSES],
        "left_out": rows_drawn.left_out,
        "names": [layout.shortened(text, min(NAME, max(NAMES // len(texts), 24))) for text in texts],
        "short": [layout.shortened(one, 80) if one != text else "" for one, text in zip(short, texts, strict=True)],
        "first": _packed(np.searchsorted(drawn.row, np.arange(rows_drawn.count + 1)), np.uint32),
        "start": _packed(np.clip(drawn.start, -span, 2 * span) // unit, np.int32),
        "end": _packed(-(-np.clip(drawn.end, -span, 2 * span) // unit), np.int32),
        "length_us": _packed((drawn.end - drawn.start) / 1e3, np.float32),
        "name": _packed(name, np.uint16 if len(names) < 65536 else np.uint32),
        "paint": _packed(drawn.paint, np.uint8),
        "merged": _packed(np.minimum(drawn.merged, 65535), np.uint16),
        **_behind(study, drawn),
        "marks": [_marked(one, rows_drawn, window, unit) for one in marks],
        "index": "uint16" if len(names) < 65536 else "uint32",
    }


def _gap(study: Study, name: int) -> str:
    return f"idle: {list(CAUSES)[-1 - name].replace('_', ' ')}"


def _packed(values: NDArray[Any], dtype: Any) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype=np.dtype(dtype).newbyteorder("<")).tobytes()).decode()


def _drawn(study: Study, rows: Rows, window: DrawnWindow) -> Drawn:
    events, low = study.events, window.low
    place = rows.place
    parts = [
        Drawn(
            rows.row, events.start[place] - low, events.start[place] + events.duration[place] - low, events.name[place].astype(np.int64),
            rows.paint, place, np.ones(len(place), np.int64),
        )
    ]
    for device, row in rows.gaps.items():
        idle = study.idles[device]
        inside = (idle.gaps.start < window.high) & (idle.gaps.end > low)
        cause = np.argmax(idle.by[inside], axis=1).astype(np.int64)
        count = len(cause)
        parts.append(
            Drawn(
                np.full(count, row), idle.gaps.start[inside] - low, idle.gaps.end[inside] - low, -1 - cause, 16 + cause,
                np.full(count, -1), np.ones(count, np.int64),
            )
        )
    whole = Drawn(*(np.concatenate(columns).astype(np.int64) for columns in zip(*parts, strict=True)))
    return whole.take(np.lexsort((whole.start, whole.row)))


def _reduced(drawn: Drawn, span: int, most: int) -> Drawn:
    """At most about so many events: short neighbours of one row become one, ever coarser."""
    cell = max(span // CELLS, 1)
    found = drawn
    while len(found.row) > most and cell < span:
        found = _merged(drawn, cell)
        cell *= 2
    return found


def _merged(drawn: Drawn, cell: int) -> Drawn:
    """Neighbours that are shorter than a cell and begin in the same one become one, named after the longest."""
    short = drawn.end - drawn.start < cell
    bucket = drawn.start // cell
    joins = short[1:] & short[:-1] & (drawn.row[1:] == drawn.row[:-1]) & (bucket[1:] == bucket[:-1])
    first = np.flatnonzero(np.concatenate([[True], ~joins]))
    group = np.cumsum(np.concatenate([[True], ~joins])) - 1
    by_length = np.lexsort((drawn.end - drawn.start, group))
    longest = by_length[np.append(first[1:], len(group)) - 1]
    kept = drawn.take(longest)
    return kept._replace(
        start=drawn.start[first], end=np.maximum.reduceat(drawn.end, first), merged=np.add.reduceat(drawn.merged, first)
    )  # fmt: skip


def _behind(study: Study, drawn: Drawn) -> dict[str, Any]:
    """What stands behind each event: of device work its call (place among the drawn) and operator, of host events the line."""
    events, count = study.events, len(drawn.place)
    place = np.maximum(drawn.place, 0)
    kind = np.where(drawn.place >= 0, events.kind[place], 255)
    on_device = kind <= SET
    work_at = np.full(len(events), -1, np.int64)
    work_at[events.work] = np.arange(len(events.work))
    at = np.maximum(work_at[place], 0)
    call = np.where(on_device, study.links.call[at], -1) if len(events.work) else np.full(count, -1)
    operator = np.where(on_device, study.links.operator[at], -1) if len(events.work) else np.full(count, -1)
    drawn_at = np.full(len(events) + 1, -1, np.int64)
    drawn_at[place[drawn.place >= 0]] = np.flatnonzero(drawn.place >= 0)
    asked = np.where(on_device, np.where(call >= 0, call, operator), np.where(np.isin(kind, HOST), place, -1))
    names, name = np.unique(np.where(operator >= 0, events.name[np.maximum(operator, 0)], -1), return_inverse=True)
    line, texts = sources.lines(events, asked, study.parent)
    return {
        "call": _packed(np.where(call >= 0, drawn_at[np.maximum(call, 0)], -1), np.int32),
        "operators": [layout.shortened(events.names[int(n)], NAME) if n >= 0 else "" for n in names],
        "operator": _packed(name, np.uint16),
        "lines": [layout.shortened(text, NAME) for text in texts],
        "line": _packed(np.where(line < 0, 65535, np.minimum(line, 65534)), np.uint16),
    }


def _marked(marks: AdviceMarks, rows: Rows, window: DrawnWindow, unit: int) -> dict[str, Any]:
    """The stretches of a finding within what is drawn, and how many there are in all."""
    inside = np.flatnonzero((marks.start < window.high) & (marks.end > window.low))
    first, last = rows.rows_of(AdviceMarks(*(column[inside] for column in marks)))
    shown = first >= 0
    inside, first, last = inside[shown], first[shown], last[shown]
    parts = []
    for a, b in sorted(set(zip(first.tolist(), last.tolist(), strict=True))):
        here = inside[(first == a) & (last == b)]
        whole = intervals.union(marks.start[here] - window.low, marks.end[here] - window.low)
        while len(whole.start) > MARKS:  # what lies closest together becomes one
            apart = whole.start[1:] - whole.end[:-1]
            wide = np.flatnonzero(apart > np.quantile(apart, 0.5))
            whole = intervals.Intervals(whole.start[np.append(0, wide + 1)], whole.end[np.append(wide, len(whole.end) - 1)])
        parts.append({"rows": [a, b], "start": (whole.start // unit).tolist(), "end": (-(-whole.end // unit)).tolist()})
    return {"places": len(marks), "here": len(inside), "parts": parts}

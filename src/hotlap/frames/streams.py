"""A capture cut into streams, one per swap chain: its frames, what was displayed, dropped and generated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hotlap.frames import building
from hotlap.frames.record import STREAM, Floats, FrameCapture, FramesAsked, Stream, StreamName

SECONDS = {"ms": 1e-3, "us": 1e-6, "s": 1.0, "ns": 1e-9}
FORWARDS = ("frametime", "msbetweenappstart")  # columns of frame times that count from a frame's start on
BESIDE = (
    "in_present", "cpu_busy", "gpu_busy", "compile_time", "compile_count", "gpu_clock", "vram", "rss",
    "gpu_power", "cpu_power",
)  # fmt: skip
STAMPED_S = (1.0, 1e-3, 1e-6, 1e-7, 1e-9)  # steps of clocks that files have: s, ms, µs, those of Windows' counter, ns
CLOSE = 0.02  # by which a clock's step may miss one of these
ENDS = ("timeinseconds", "timeinqpc", "qpctime", "elapsed")  # clocks read at a frame's end; the others at its start
USED = (
    "start", "elapsed",
    "frame", "skipped", "generated", "dropped", "display", "displayed", "until_displayed", "animation_time", "animation_error", "click",
    *BESIDE,
)  # fmt: skip
Mask = NDArray[np.bool_]


def of(captures: Sequence[FrameCapture], asked: FramesAsked) -> list[Stream]:
    """Those with at least two frames of every capture, the longest of each first. A chain has the number of its rank by frames where a
    process has several: its address is another in every run."""
    kept = []
    for number, capture in enumerate(captures):
        names = capture.kept.streams
        size = np.bincount(capture.ticks[STREAM], minlength=len(names))
        order = sorted(range(len(names)), key=lambda place: -size[place])
        ranks: dict[str, int] = {}
        for place in order:
            name = names[place]
            ranks[name.process] = ranks.get(name.process, 0) + 1
            key = f"{name.process} #{ranks[name.process]}" if ranks[name.process] > 1 else name.process
            if asked.process.casefold() not in name.process.casefold():
                continue
            stream = _stream(capture, number, place, (name, key), asked)
            if stream is not None:
                kept.append(stream)
    return kept


def _stream(capture: FrameCapture, number: int, place: int, named: tuple[StreamName, str], asked: FramesAsked) -> Stream | None:
    rows = capture.ticks[STREAM] == place
    columns = {name: values for name in USED if (values := capture.values(name, rows)) is not None}
    unit = SECONDS[capture.kept.columns["frame"].unit]
    frames = columns["frame"] * unit
    whole = frames[np.isfinite(frames) & (frames > 0)]
    unknown = int(np.isnan(frames[1:-1]).sum())
    keep = np.isfinite(frames) & ~(columns.get("skipped", np.zeros(len(frames))) > 0)
    keep &= _since_start(frames, keep) >= asked.skip_s
    columns, frames = {name: values[keep] for name, values in columns.items()}, frames[keep]
    begins, lost_s = _clock(capture, columns, frames)
    between = columns["generated"] > 0 if "generated" in columns else None
    lost = building.dropped(columns)
    if lost is not None and len(lost) and lost.all():
        return None
    backwards = building.plain(capture.kept.columns["frame"].theirs) not in FORWARDS
    untimed = 0 if between is None else int((between & (frames == 0)).sum())
    own = np.ones(len(frames), bool) if between is None or asked.generated == "include" else ~between
    times = _merged(frames, own, backwards)
    own &= frames > 0 if asked.generated == "include" else True
    if len(times) < building.LEAST:
        return None
    beside = {name: columns[name][own] * _scale(capture, name) for name in BESIDE if name in columns and np.isfinite(columns[name]).any()}
    name, key = named
    began = begins[own] - begins[own][0] if begins is not None and int(own.sum()) == len(times) else np.cumsum(times) - times
    clicks = columns["click"][np.isfinite(columns["click"])] * 1e-3 if "click" in columns else np.zeros(0)
    return Stream(
        round=number, name=name, key=key, times_s=times, backwards=backwards, columns=beside, steps_s=steps(columns) * 1e-3,
        errors_s=errors(columns) * 1e-3, clicks_s=clicks,
        dropped=None if lost is None else int(lost.sum()), generated=None if between is None else int(between.sum()),
        whole_s=whole, begins_s=began, untimed=untimed, unknown=unknown, lost_s=lost_s,
    )


def _clock(capture: FrameCapture, columns: Mapping[str, Floats], frames: Floats) -> tuple[Floats | None, float]:
    """When each frame begins by the file's clock, in s, and how much of it no frame fills; (None, 0) where no clock is known."""
    which = next((name for name in ("start", "elapsed") if name in columns), None)
    if which is None or len(frames) < building.LEAST:
        return None, 0.0
    stamps, at_end = columns[which], building.plain(capture.kept.columns[which].theirs) in ENDS
    steps, taken = np.diff(stamps), frames[1:] if at_end else frames[:-1]
    known = np.isfinite(steps) & (steps > 0) & (taken > 0)
    if not known.any() or not np.isfinite(stamps).all():
        return None, 0.0
    ratio = float(np.median(taken[known] / steps[known]))
    step_s = next((step for step in STAMPED_S if abs(ratio / step - 1) < CLOSE), None)
    if step_s is None:
        return None, 0.0
    return stamps * step_s - (frames if at_end else 0.0), float(steps.sum()) * step_s - float(taken.sum())


def _since_start(frames: Floats, keep: Mask) -> Floats:
    """When each frame begins, since the stream's first."""
    ends = np.cumsum(np.where(keep, frames, 0.0))
    return ends - np.where(keep, frames, 0.0)


def _scale(capture: FrameCapture, name: str) -> float:
    return SECONDS.get(capture.kept.columns[name].unit, 1.0)


def _merged(frames: Floats, own: Mask, backwards: bool) -> Floats:
    """Frame times of the application: the time of a generated frame belongs to the application's frame that it lies in."""
    if own.all():
        return frames[frames > 0]
    places = np.flatnonzero(own)
    if not len(places):
        return np.zeros(0)
    if backwards:
        ends = np.cumsum(frames)[places]
        return np.diff(ends, prepend=0.0)
    return np.add.reduceat(frames, places)


def steps(columns: Mapping[str, Floats]) -> Floats:
    """Times between two displays, in ms: of the rows that were displayed, NaN at the first and where the file has none."""
    if "display" in columns:
        lost = building.dropped(columns)
        shown = columns["display"] if lost is None else columns["display"][~lost]
        return np.where(shown > 0, shown, np.nan)
    if "displayed" in columns:  # looks forward: that of the frame before
        shown = columns["displayed"][np.isfinite(columns["displayed"])]
        return np.concatenate([[np.nan], np.where(shown > 0, shown, np.nan)[:-1]]) if len(shown) else shown
    return np.zeros(0)


def errors(columns: Mapping[str, Floats]) -> Floats:
    """Animation error in ms of every row, NaN where there is none: (animation time − that of the displayed frame before) − (display step).

    GameTechDev/PresentMon@18f60475 AnimationErrorTracker.cpp, of what its files hold. NaN at the first displayed frame, at frames that were
    dropped, and where a step is 0. A file that has the error alone gives its own.
    """
    size = len(next(iter(columns.values()), ()))
    if "animation_time" not in columns:
        return columns.get("animation_error", np.full(size, np.nan))
    lost = building.dropped(columns)
    shown = np.flatnonzero(~lost) if lost is not None else np.arange(size)
    moved = np.diff(columns["animation_time"][shown], prepend=np.nan)
    found = np.full(size, np.nan)
    between = steps(columns)
    if len(between) == len(shown):
        found[shown] = np.where(moved > 0, np.round(moved - between, 9), np.nan)
    return found

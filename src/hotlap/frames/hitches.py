"""Hitches: frames far longer than those around them, each with its length and what fell on it.

A frame is slow where its time exceeds 2.5 × the local median, and that by 8 ms too. The local median is the higher of two, of the
frames before and of those after it: where a new scene runs slower, nothing hitches, nor at a cap of 30 frames per second.
Slow frames under 100 ms apart are one hitch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from hotlap.frames.record import Cause, Floats, Hitch, Stream

TIMES, MORE_S, APART_S = 2.5, 0.008, 0.1
BLOCK = 32  # frames; a median is of two blocks
HALF = 0.5  # of a hitch's excess, which a part of the frame must have grown by to be its cause
COMPILE = 0.25  # the same of compiling, which may run on other threads
CLOCK = 0.8  # of the clock around, below which the clock fell
MEMORY, MEMORY_GB = 0.02, 0.03  # by which memory in use must have grown, as a share and in GB


def of(stream: Stream) -> list[Hitch]:
    """In the order of time."""
    times = stream.times_s
    local = local_median(times)
    slow = np.flatnonzero(times > np.maximum(TIMES * local, local + MORE_S))
    if not len(slow):
        return []
    begins = stream.begins_s
    ends = begins + times
    cut = np.flatnonzero(begins[slow[1:]] - ends[slow[:-1]] >= APART_S) + 1
    return [_hitch(stream, local, begins, frames) for frames in np.split(slow, cut)]


def local_median(times: Floats) -> Floats:
    """Of each frame: the higher of the medians of its block with the one before, and with the one after."""
    blocks = -(-len(times) // BLOCK)
    padded = np.full(blocks * BLOCK, np.nan)
    padded[: len(times)] = times
    rows = padded.reshape(blocks, BLOCK)
    if blocks == 1:
        return np.full(len(times), float(np.median(times)))
    pairs = np.nanmedian(np.concatenate([rows[:-1], rows[1:]], axis=1), axis=1)
    before, after = np.concatenate([pairs[:1], pairs]), np.concatenate([pairs, pairs[-1:]])
    return np.repeat(np.maximum(before, after), BLOCK)[: len(times)]


class Slow(NamedTuple):
    """The slow frames of one hitch, and what is usual around it. `excess_s`: beyond the local median, all together."""

    stream: Stream
    frames: np.ndarray[tuple[int], np.dtype[np.int64]]
    around: np.ndarray[tuple[int], np.dtype[np.int64]]
    excess_s: float

    def grew(self, name: str, later: int = 0) -> float | None:
        """By how much a part of the frame was longer than usual, in s. `later`: rows by which the column lies before the frame's time."""
        column = self.stream.columns.get(name)
        if column is None:
            return None
        here = column[np.maximum(self.frames - later, 0)]
        usual = np.nanmedian(column[self.around]) if np.isfinite(column[self.around]).any() else np.nan
        grown = np.nansum(here - usual)
        return None if np.isnan(usual) else float(grown)


def _hitch(stream: Stream, local: Floats, begins: Floats, frames: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Hitch:
    first, last = int(frames[0]), int(frames[-1])
    near = np.arange(max(first - BLOCK, 0), min(last + BLOCK + 1, len(local)))
    around = near[~np.isin(near, frames)]
    usual = float(local[first])
    seconds = float(stream.times_s[frames].sum())
    slow = Slow(stream, frames, around, seconds - float(local[frames].sum()))
    cause: Cause = "unknown"
    evidence: dict[str, float] = {}
    for name, explain in _CAUSES.items():
        if len(around) and (evidence := explain(slow)):
            cause = name
            break
    return Hitch(
        time_s=float(begins[first]), until_s=float(begins[last] + stream.times_s[last]), seconds=seconds, frames=len(frames), local_s=usual,
        cause=cause, evidence=evidence,
    )


def _compile(slow: Slow) -> dict[str, float]:
    """Pipelines that the frame compiled: PresentMon 2.5."""
    grown = slow.grew("compile_time")
    if grown is None or grown < COMPILE * slow.excess_s:
        return {}
    counts = slow.stream.columns.get("compile_count")
    return {"compile_s": grown, **({"pipelines": float(np.nansum(counts[slow.frames]))} if counts is not None else {})}


def _clock(slow: Slow) -> dict[str, float]:
    """The GPU's clock fell."""
    clock = slow.stream.columns.get("gpu_clock")
    if clock is None:
        return {}
    usual, here = float(np.nanmedian(clock[slow.around])), float(np.nanmin(clock[slow.frames]))
    return {"clock_mhz": here, "usual_clock_mhz": usual} if 0 < here < CLOCK * usual else {}


def _memory(slow: Slow) -> dict[str, float]:
    """Memory in use grew, of the GPU or the process: something was allocated or brought in. That of the whole machine says nothing."""
    for name in ("vram", "rss"):
        used = slow.stream.columns.get(name)
        if used is None:
            continue
        before, after = float(used[max(int(slow.frames[0]) - 1, 0)]), float(used[min(int(slow.frames[-1]) + 1, len(used) - 1)])
        if after - before >= max(MEMORY * before, MEMORY_GB):
            return {f"{name}_grew_gb": after - before}
    return {}


def _grown(name: str) -> Callable[[Slow], dict[str, float]]:
    def explain(slow: Slow) -> dict[str, float]:
        grown = slow.grew(name, later=int(name == "in_present" and slow.stream.backwards))
        return {f"{name}_s": grown} if grown is not None and grown >= HALF * slow.excess_s else {}

    return explain


def _host(slow: Slow) -> dict[str, float]:
    """The CPU's part of the frame grew; where a file has no such time, what lies outside of Present."""
    if "cpu_busy" in slow.stream.columns:
        return _grown("cpu_busy")(slow)
    present = slow.grew("in_present", later=int(slow.stream.backwards))
    rest = slow.excess_s - (present or 0.0)
    return {"outside_present_s": rest} if present is not None and "gpu_busy" in slow.stream.columns and rest >= HALF * slow.excess_s else {}


_CAUSES: Mapping[Cause, Callable[[Slow], dict[str, float]]] = {
    "compile": _compile, "clock": _clock, "memory": _memory, "gpu": _grown("gpu_busy"), "present": _grown("in_present"), "host": _host,
}

"""A run of captures as it is shown: its streams, by name over captures, each number with its interval over captures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from hotlap.core import units
from hotlap.core.record import Notice, Summary
from hotlap.core.stats.summary import summarize
from hotlap.core.store.bundle import Bundle
from hotlap.frames import keeping, metrics, streams
from hotlap.frames.record import Captures, FrameCapture, Stream, StreamFigures

LOST, LOST_S = 0.01, 0.1  # of the time of a capture, and s: what frames may leave open by the file's own clock
FOR_INTERVAL = 6  # captures from which the interval is one of 95 %
Pick = Callable[[StreamFigures], float | None]


@dataclass(frozen=True)
class JudgedFrames:
    bundle: Bundle
    whole: Captures
    captures: list[FrameCapture]

    @cached_property
    def streams(self) -> list[Stream]:
        return streams.of(self.captures, self.whole.asked)

    @cached_property
    def figures(self) -> list[StreamFigures]:
        return [metrics.judge(stream, self.whole.asked) for stream in self.streams]

    @cached_property
    def keys(self) -> list[str]:
        """Streams by name, the one with most frames first."""
        frames: dict[str, int] = {}
        for figures in self.figures:
            frames[figures.key] = frames.get(figures.key, 0) + figures.frames
        return sorted(frames, key=lambda key: -frames[key])

    def of(self, key: str) -> list[StreamFigures]:
        """One for each capture that has it."""
        return [figures for figures in self.figures if figures.key == key]

    def over(self, key: str, pick: Pick) -> Summary | None:
        """A number over the captures that know it: its median, and the interval where there are several."""
        values = [value for figures in self.of(key) if (value := pick(figures)) is not None]
        return summarize(values) if values else None

    @cached_property
    def notices(self) -> list[Notice]:
        """Of the files, of too few frames, and of too few captures."""
        notices = keeping.torn(self.whole)
        if not self.figures:
            return notices
        main = self.of(self.keys[0])
        few = min(figures.frames for figures in main)
        if few < 1000:
            seen = f"{few} frames: no 1 % low, which needs 1000, and 10,000 for 0.1 %"
            notices.append(Notice("few_frames", seen, "record for longer"))
        if len(main) < FOR_INTERVAL:
            seen = f"{len(main)} capture{'s' if len(main) > 1 else ''} of this: {'a wide' if len(main) > 1 else 'no'} interval"
            notices.append(Notice("few_captures", seen, f"record the scene {FOR_INTERVAL} times, and give all files at once"))
        streams = [stream for stream in self.streams if stream.key == self.keys[0]]
        notices += _incomplete(streams)
        untimed = sum(stream.untimed for stream in streams)
        if untimed and self.whole.asked.generated == "include":
            seen = f"{untimed} generated frames have the time 0 in the file, and are not counted"
            notices.append(Notice("generated_untimed", seen, "record with --track_frame_type to have their times"))
        if any(figures.generated for figures in main) and any(figures.bound for figures in main):
            notices.append(Notice("generated_busy", "with frame generation the GPU's busy time is too low (PresentMon#178)"))
        return notices


def _incomplete(streams: Sequence[Stream]) -> list[Notice]:
    """Rows that are there without a time, and rows that are not."""
    notices, unknown = list[Notice](), sum(stream.unknown for stream in streams)
    if unknown:
        rows = f"{unknown} row{'s have' if unknown > 1 else ' has'}"
        notices.append(Notice("no_frame_time", f"{rows} no frame time, and {'are' if unknown > 1 else 'is'} left out"))
    for stream in streams:
        whole = float(stream.times_s.sum()) + stream.lost_s
        if stream.lost_s > max(LOST * whole, LOST_S):
            taken = f"{units.show(whole - stream.lost_s, 's')} of {units.show(whole, 's')}"
            seen = f"the frames of capture {stream.round + 1} take {taken} by the file's clock: rows are missing"
            notices.append(Notice("rows_missing", seen, "record again, or give the part before or after the gap"))
    return notices


def read(bundle: Bundle) -> JudgedFrames | None:
    """Raises as `keeping.read`."""
    content = keeping.read(bundle)
    return None if content is None else JudgedFrames(bundle, *content)

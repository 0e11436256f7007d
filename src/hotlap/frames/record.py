"""What is kept of captures of frames, and what is said of them.

    file → FrameCapture (columns of ticks) → Stream (one swap chain) → StreamFigures (with Hitches)

A capture is a round of its run. Its columns are whole ticks of the file's own resolution: nothing that the tool wrote is lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hotlap.core.record import Notice, Record

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FILE = "frames.json"  # of a bundle: one Captures
PACKED, ZIPPED = "frames-{:03}.parquet", "frames-{:03}.npz"  # of a bundle: the columns of a capture; the second without pyarrow
MISSING = int(np.iinfo(np.int64).min)  # a tick that the file does not have: NA
STREAM = "stream"  # the column that says which of the capture's streams a row is of
RAW = -1  # digits of a column whose numbers have more places than ticks hold: the ticks are the bits of its doubles
Cause = Literal["compile", "clock", "memory", "gpu", "present", "host", "unknown"]


class ColumnKind(Record, frozen=True, kw_only=True):
    """A tick is 10^−digits of the unit."""

    digits: int
    unit: str  # ms, s, ns, ticks (of a clock whose rate the file does not say), %, MHz, W, GB, °C, ""
    theirs: str  # its name in the file


class DerivedColumn(Record, frozen=True, kw_only=True):
    """`rule`: difference of two columns; shifted: another one and a constant; summed: the sums of another within each stream, from
    `numbers` on. `like`: the column that is missing where this one is."""

    rule: str
    of: list[str]
    numbers: list[int] = []
    like: str = ""


class StreamName(Record, frozen=True, kw_only=True):
    """One swap chain of one process. "": the file does not say."""

    process: str = ""
    pid: str = ""
    chain: str = ""


class CaptureKept(Record, frozen=True, kw_only=True):
    """A capture beside its columns."""

    file: str
    tool: str  # PresentMon 1, PresentMon 2, PresentMon, MangoHud, CapFrameX, FrameView, OCAT
    layout: str  # which of the tool's layouts, in words
    time_s: float  # UNIX: when it was taken, or its file was written
    timed_by: Literal["file", "name", "contents"]
    columns: dict[str, ColumnKind]
    derived: dict[str, DerivedColumn] = {}  # columns that are not kept, since they follow from others; in the order of leaving out
    streams: list[StreamName]
    ignored: list[str] = []  # columns of the file that are not kept
    facts: dict[str, str] = {}  # gpu, cpu, resolution, driver … as the file says
    notices: list[Notice] = []


class FramesAsked(Record, frozen=True, kw_only=True):
    """How captures are to be judged."""

    process: str = ""  # only streams whose process has this in its name
    skip_s: float = 0.0  # from the beginning of each stream
    generated: Literal["exclude", "include"] = "exclude"  # frames that the driver or a library made between the application's
    refresh_hz: float | None = None  # of the display; None: unknown


class Captures(Record, frozen=True, kw_only=True):
    """All that a run of kind `frames` holds beside its columns and its cases."""

    asked: FramesAsked
    captures: list[CaptureKept]


@dataclass(frozen=True)
class FrameCapture:
    """A capture as it was read. `ticks`: by column name, one for each row of the file, MISSING where there is none."""

    kept: CaptureKept
    ticks: dict[str, Ints]

    def values(self, name: str, rows: NDArray[np.bool_] | None = None) -> Floats | None:
        """A column in the file's unit, NaN where it is missing; None where the file does not have it."""
        if name not in self.ticks:
            return None
        ticks = self.ticks[name] if rows is None else self.ticks[name][rows]
        digits = self.kept.columns[name].digits
        if digits == RAW:
            return ticks.view(np.float64)
        values = ticks / 10.0**digits
        values[ticks == MISSING] = np.nan
        return values


class Hitch(Record, frozen=True, kw_only=True):
    """Frames that took far longer than those around them. Times since the stream's first frame."""

    time_s: float
    until_s: float  # the end of its last slow frame
    seconds: float  # of its slow frames together
    frames: int
    local_s: float  # median frame time around it
    cause: Cause
    evidence: dict[str, float] = {}  # what of it fell on the cause, with units in the names


class LowRate(Record, frozen=True, kw_only=True):
    """A "1 % low" with its definition, in frames per second. None: too few frames for it to mean anything."""

    definition: str  # a key of `lows.DEFINITIONS`
    share: float
    rate: float | None


class AnimationFigures(Record, frozen=True, kw_only=True):
    """Animation error: how much further the picture moved than the time between two displays."""

    frames: int
    mean_s: float  # of |error|
    p99_s: float | None
    share: float | None  # sum of |error| ÷ sum of display steps


class BoundFigures(Record, frozen=True, kw_only=True):
    """What frames waited for: shares of frames; `busy`: GPU busy time ÷ frame time, all together."""

    busy: float
    gpu: float
    cpu: float | None  # None: the file has no time of the CPU
    waiting: float | None


class ClickFigures(Record, frozen=True, kw_only=True):
    """Click to photon, over clicks."""

    clicks: int
    median_s: float
    p95_s: float | None


class FrameEnergy(Record, frozen=True, kw_only=True):
    """Of one rail that the file has the power of, by the sums over frames of power × time."""

    rail: str  # gpu_power, cpu_power
    watts: float
    joules: float  # of a frame
    frames_per_j: float


class StreamFigures(Record, frozen=True, kw_only=True):
    """One stream of one capture, judged. None: the file does not say, or there are too few frames."""

    round: int
    name: StreamName
    key: str  # what it is called over captures: process, and chain by its number of frames where it has several
    frames: int  # of the application, judged
    seconds: float
    dropped: int | None
    generated: int | None
    average_fps: float  # frames ÷ time
    displayed_fps: float | None  # displays ÷ time, generated frames among them
    percentiles_s: dict[str, float | None]  # p50 p95 p99 p99.9 of frame times
    lows: list[LowRate]
    stutter_share: float
    low_fps_share: float
    adaptive_sd_s: float
    jitter_s: float  # mean |t_i − t_(i−1)|
    uneven_share: float | None  # display steps that are no whole number of refreshes
    hitches: list[Hitch]
    animation: AnimationFigures | None = None
    bound: BoundFigures | None = None
    click: ClickFigures | None = None
    energy: list[FrameEnergy] = []


@dataclass(frozen=True)
class Stream:
    """The judged frames of one swap chain. Times in s; a column that the file lacks is not in `columns`."""

    round: int
    name: StreamName
    key: str
    times_s: Floats  # of each frame of the application
    backwards: bool  # a frame's time is that before its present, not after its start
    columns: dict[str, Floats]  # of the same frames: in_present, cpu_busy, gpu_busy, compile_time in s; gpu_clock, vram, rss as in the file
    steps_s: Floats  # between displays, all of the stream
    errors_s: Floats  # animation error, NaN where there is none, of every row
    clicks_s: Floats
    dropped: int | None
    generated: int | None
    begins_s: Floats  # of the same frames, since the first: by the file's clock, else by the sum of times
    untimed: int = 0  # rows of generated frames whose frame time is 0
    unknown: int = 0  # rows between others that have no frame time
    lost_s: float = 0.0  # that passed by the file's clock, and no frame took
    whole_s: Floats = field(default_factory=lambda: np.zeros(0))  # every frame time of the stream in the file, none left out

"""What stands in a bundle beside a recorded trace: which program, which steps, and what recording cost it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from hotlap.core.errors import SchemaError
from hotlap.core.measure.foreign import CROWD
from hotlap.core.record import Record
from hotlap.core.store import files

FILE = "capture.json"
UNEVEN, BESIDE = 0.5, 0.1  # steps that vary so much without the profiler, while others use so much of all processors, were disturbed
WITHIN = 2  # steps that the profiler warms up for, between those before the window and those that are recorded


class CaptureWindow(Record, frozen=True, kw_only=True):
    """Steps that were recorded. Times are of the clock that the readings have too."""

    first: int  # number of its first step, from 0; of a window by the clock how many had been before
    began_s: float
    ended_s: float
    steps_s: list[float] = []  # durations with the profiler on, its own warm-up included
    within: int = WITHIN  # how many of these are that warm-up, which the trace leaves out; 0: a window by the clock
    complete: bool = True  # all the steps that were asked for
    start_s: float = 0.0  # the program stood still for it: to begin
    stop_s: float = 0.0  # to end
    write_s: float = 0.0  # to write the trace
    import_s: float = 0.0  # of start_s: to import PyTorch, which the program had not done

    @property
    def recorded_s(self) -> list[float]:
        """Durations of the steps of the trace; of all where it has none, as of a window that was cut short in its warm-up."""
        return self.steps_s[self.within :] or self.steps_s


def fitting(count: int, steps: int) -> str:
    """The options that record whole steps, at most `steps`, of a program that makes `count`; what else helps where it makes too few."""
    warmup = count // 5
    room = count - warmup - WITHIN
    if room < 1:
        return f"{WITHIN + 1} steps are needed at least: let the program make more, or give --seconds for a window by the clock"
    return f"give --warmup {warmup} --steps {min(steps, room)} to record whole ones"


class CapturedProcess(Record, frozen=True, kw_only=True):
    """One process of the program."""

    place: str  # rank0, or its number
    pid: int
    armed: bool = True  # it has imported PyTorch's optimisers
    steps: int  # in all
    source: str = ""  # who said that steps ended
    trace: str = ""  # file in the bundle, "" none
    trouble: str = ""
    windows: list[CaptureWindow] = []
    usual_s: list[list[float]] = []  # durations without the profiler: before the first window, after each
    loop_s: float = 0.0  # from the end of the first step to the end of the last
    began_s: float = 0.0
    ended_s: float = 0.0
    own_s: float = 0.0  # in the recorder between steps, outside of windows
    calls: int = 0  # such steps


class CaptureOverhead(Record, frozen=True, kw_only=True):
    """What recording cost the program."""

    inside: float | None = None  # how many times longer a step took with the profiler on: 1.1
    low: float | None = None  # 95 % interval
    high: float | None = None
    spread: float | None = None  # by what share of the median steps without the profiler vary: half of the range of nine in ten
    outside_s: float = 0.0  # per step outside of the window
    still_s: float = 0.0  # the program stood still: start, stop, write
    import_s: float = 0.0  # of that: to import PyTorch, which the program had not done
    whole: float | None = None  # of the whole run, as a share of what it would have taken without; slower steps count where they surely are


class CaptureHost(Record, frozen=True, kw_only=True):
    """How busy the processors were while the program ran; on average, in processors."""

    cores: int  # physical ones
    used: float  # by the program and its children
    others: float  # by other programs


class Captured(Record, frozen=True, kw_only=True):
    """All of it."""

    argv: list[str]
    tool: str  # pytorch, nsys, ncu, rocprofv3
    exit_code: int
    processes: list[CapturedProcess] = []
    traces: list[str] = []  # files in the bundle, by process
    overhead: CaptureOverhead | None = None  # of the process that made most steps
    host: CaptureHost | None = None  # None: nothing here counts it

    @property
    def crowded(self) -> bool:
        """Whether others used what the program needs, so that its steps took longer than on a quiet machine."""
        host, uneven = self.host, self.overhead.spread if self.overhead else None
        if host is None:
            return False
        if uneven is not None and uneven >= UNEVEN and host.others >= BESIDE * host.cores:  # a short part of each step may need them all
            return True
        return host.others > host.cores - min(max(round(host.used), 1), host.cores) + CROWD

    @property
    def ranks(self) -> list[str]:
        """The traces of one program's ranks, to be read together; none where there are fewer than two."""
        found = [one.trace for one in self.processes if one.trace and one.place.startswith("rank")]
        return found if len(found) > 1 else []


def write(path: Path, record: Captured) -> None:
    """Into a bundle's folder. Raises OSError."""
    files.write_whole(path / FILE, msgspec.json.encode(record) + b"\n")


def read(path: Path) -> Captured | None:
    """Of a bundle's folder; None where nothing was captured. Raises SchemaError for a file that is none of these."""
    try:
        return msgspec.json.decode((path / FILE).read_bytes(), type=Captured)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except msgspec.DecodeError as error:
        raise SchemaError(f"'{path / FILE}' cannot be read: {error}; restore it from a copy") from None

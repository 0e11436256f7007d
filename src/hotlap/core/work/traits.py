"""What others ask of a workload, so that none of them tests its name. A trait that is left out is one that it does not have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from hotlap.core.work.counted import Work
from hotlap.core.work.variety import Variety

Params = Mapping[str, Any]
Heading = Literal["memory", "compute", "graphics", "latency", "model kernels", "science", "transfers", "user"]
HEADINGS: tuple[Heading, ...] = get_args(Heading)
"""Of tables, in their order."""
Shows = Literal["", "memory", "vector", "matrix", "roofline", "load", "launch", "wait", "atomics", "barriers", "host link"]
"""The one figure of a machine that a workload is there to show: charts, ceilings and key figures are made of it."""
Source = Literal["loop", "program", "user kernel", "python", "file"]
"""Where its numbers come from: the measuring loop, a program's time or output, a user's kernel, a Python callable, results of others."""
Model = Literal[
    "", "product", "convolution", "groups", "recurrence", "attention", "experts", "communication", "copy", "streaming", "passes"
]  # fmt: skip
"""The family of kernels by which its time is expected."""
Traffic = Literal["", "contiguous", "gathered", "elements", "rows", "table", "turned"]
"""How its bytes lie in memory, where they alone set its time: a matrix is turned, rows come from a table."""
L2_HOLDS = 0.6  # of L2 that a vector which is read at random may fill: as the model's l2_kept of streams
SECTOR = 32.0  # bytes of the least fetch; CUDA C++ Best Practices Guide, coalesced access
Ceiling = Literal["compute", "bandwidth"]


@dataclass(frozen=True)
class Link:
    """That its bytes cross a link. `least`: bytes that must cross it one way, of the parameters and the counted work."""

    between: Literal["host", "peers"]
    least: Callable[[Params, Work], Any]
    copied: bool = True  # by a copy engine, one command after another


@dataclass(frozen=True, kw_only=True)
class RasterWork:
    """What a call draws, in steps of the graphics units. `lacks`: what sets its pace that no table of machines has; "" for none."""

    pixels: float = 0.0  # covered by all that is drawn
    least_pixels: float = 0.0  # of those, that are written whatever a driver leaves out as hidden
    texels: float = 0.0
    sampled: bool = False  # texels are points: some units take more of those in a clock than filtered ones
    triangles: float = 0.0  # rasterised
    looked_at: float = 0.0  # triangles, those that face away among them
    lacks: str = ""


@dataclass(frozen=True, kw_only=True)
class Passes:
    """Passes over memory beside the counted bytes, and what else a pass costs. Each takes the parameters as arrays."""

    read: Callable[[Params, Any, float], Any] = lambda p, read, l2_bytes: read
    written: Callable[[Params, Any], Any] = lambda p, written: written
    special: Callable[[Params], Any] = lambda p: 0.0
    launches: Callable[[Params], Any] = lambda p: 1.0
    row: Callable[[Params], tuple[Any, Any] | None] = lambda p: None  # bytes of a row that a block keeps to itself, and rows
    again: float = 0.0  # times that a row is read again
    shared_adds: Callable[[Params], Any] | None = None  # elements added up in shared memory


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What a workload has in common with others, and how others treat it."""

    heading: Heading = "user"
    shows: Shows = ""
    source: Source = "loop"
    preparer: str = ""  # module of measure.workloads that prepares it; "": see `operator` and `unprepared`
    operator: str = ""  # module of measure.workloads.operators with its inputs, call and reference
    unprepared: str = "is not run from a plan"  # why nothing prepares it
    on_host: bool = False  # it is run on the target host, by the wall clock: of its disk, its network
    unplanned: str = ""  # why no plan can hold it; "" where one can
    step: str = "call"  # what one of its steps is called
    label: Callable[[Params], str] | None = None  # a case in words, where name and parameters do not say it best
    arrays: bool = False  # its counts take arrays of parameters
    ceilings: tuple[Ceiling, ...] = ()  # what its best rate is a ceiling of
    shares_launch: bool = False  # over small working sets many calls share a launch
    cause: Callable[[Params], tuple[str, str] | None] = lambda _: None  # cause of a gap that lies in what it measures, and why
    likely: Callable[[Params], tuple[str, str] | None] = lambda _: None  # the same, where no number of the run gives a cause
    least_bytes: Callable[[Params, Work], Any] | None = None  # that must be read, where fewer than are counted may be
    model: Model = ""
    traffic: Traffic = ""
    passes: Passes | None = None  # of the model `passes`
    link: Link | None = None
    drawn: Callable[[Params], RasterWork] | None = None  # of what draws
    counts: Literal["", "pixel", "texel", "tri", "draw"] = ""  # of what its rate is, for people
    like: Callable[[Params], tuple[str, float]] | None = None  # a case of ours that means the same, and the number's factor to it; or ""
    variety: Variety | None = None  # how its cases differ for a kernel: what a covering plan varies; None: nothing

    @property
    def counted(self) -> bool:
        """Whether what a call does on a device is counted. Of what runs or measures itself, or is of the host, it is not, and nothing can
        be predicted."""
        return self.source == "loop" and not self.on_host

    @property
    def of_host(self) -> bool:
        """Whether the host runs it, where no target is named."""
        return self.source == "program" or self.on_host

    @property
    def contended(self) -> bool:
        """Whether its cores wait for one another, so that other programs, which leave it fewer of them, may also make its number better."""
        return self.shows == "atomics"

    @property
    def memory_alone(self) -> bool:
        """Whether it measures memory and nothing else: its arithmetic is not looked at."""
        return self.ceilings == ("bandwidth",)

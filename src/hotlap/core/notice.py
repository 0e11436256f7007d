"""What to know beside a number, why a run ended, what the cause of a gap rests on: codes of the glossary; part of `hotlap.core.record`."""

from __future__ import annotations

from typing import Literal

from hotlap.core.where import Record


class Notice(Record, frozen=True):
    """One thing to know about a number, a run or a file. Whoever decides by it looks at `code`, never into its texts."""

    code: str  # from the glossary: drift, bimodal, throttled, few_samples, torn_line, …
    seen: str = ""  # what was seen, for people to read
    action: str = ""  # what to do; "": what the glossary says of the code
    shares: dict[str, float] = {}  # of throttled: reason → share of the readings in which it held; {}: not counted, as in 0.1
    count: int | None = None  # how many it concerns, where they were counted: events of a trace
    index: int | None = None  # of the metric that it is about, where statistics saw several

    @property
    def text(self) -> str:
        """Both texts in one line."""
        return "; ".join(part for part in (self.seen, self.action) if part)


StopKind = Literal[
    "precision", "rounds_max", "budget", "no_number", "planned_pairs", "interrupted", "error", "over", "by_hand", "program_ended",
    "imported", "unknown",
]


class Stop(Record, frozen=True):
    """Why a run ended."""

    kind: StopKind
    detail: str = ""  # of error: the message; of program_ended: its exit status, "" for 0; of unknown: the words of an earlier version
    state: Literal["", "pass", "fail", "inconclusive"] = ""  # of over: the verdict that the run was given


GapBasis = Literal[
    "", "beyond_expected", "no_limit", "unexplained", "throttled", "power_limit", "shared", "slowed", "nature",
    "launch_measured", "launch_assumed", "tiles", "clock", "between_levels", "in_level", "resource", "nearest", "no_overlap", "access",
    "traffic", "units", "cache_level", "drawing", "memory_left_out",
]
GAP_NUMBERS = {
    "power_w": "median while it ran", "power_limit_w": "that the device may take", "clock_share": "of its highest clock",
    "clock_max_hz": "highest clock", "at_clock_share": "of the limit that it would reach at its own clock", "call_s": "time of a call",
    "best_s": "time of a call in the fastest round", "launch_s": "least cost of a launch", "tiles": "tiles of the product",
    "units": "units of the device", "tile": "rows and columns of a tile", "moved_b_s": "memory traffic",
    "footprint_bytes": "working set", "cache_bytes": "of the cache level", "rate": "best rate of the resource, in its own unit",
    "time_share": "of the time, that the resource takes at that rate", "memory_bytes": "that a call moves", "memory_rate": "best of memory",
    "memory_s": "that memory takes at that rate", "arithmetic_s": "that the arithmetic takes at its best rate",
    "limit_cached_share": "of the bytes, that a bound takes to come from a cache, where it is most of them",
    "best_rate": "of this run, that a ceiling is made with, in the resource's own unit",
    "limit_memory_b_s": "memory bandwidth of the limit", "limit_spared_bytes": "that the limit takes to have stayed in cache",
}

"""What there is to know beside a number, and why a run ended: codes of the glossary with their numbers; part of `hotlap.core.record`."""

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

"""What a round's process and the session say to each other: one JSON object a line."""

from __future__ import annotations

import msgspec

from hotlap.core import extend
from hotlap.core.record import Case, MeasureOptions, Notice, Readings, Samples

SHORTEST_SLOT_S = 0.1
"""The least time that a case gets in a round, whatever the plan asks."""


class CaseChoice(msgspec.Struct, frozen=True):
    """What a run's first round chose for a case, which all later ones keep to; "" where nothing was."""

    variant: str = ""
    method: str = ""  # as in Samples


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One round of one device: the first line of the worker's standard input. After each `Took`, the session answers
    with an empty line once the samples are kept, or with `enough` when no further case is to be measured."""

    spec: str
    device: int  # place in the target's order
    device_key: str
    round: int
    cases: list[Case]
    options: MeasureOptions
    seed: int
    start_s: float = 0.0  # where a simulated clock begins
    patience_s: float = 0.0  # beyond the round's time, for others to end and for samples in place of disturbed ones
    choices: dict[str, CaseChoice] = {}  # Case.id → of earlier rounds on this device
    left_s: float | None = None  # of the run's time for all of its rounds, where that is limited
    features: dict[str, dict[str, str]] = msgspec.field(default_factory=extend.table)  # what the worker resolves (`core.extend`)
    more: bool = False  # another job follows on the same standard input once this one has ended


class CaseStarted(msgspec.Struct, frozen=True, kw_only=True, tag="began"):
    """A case is about to be measured."""

    case: str


class Sampling(msgspec.Struct, frozen=True, kw_only=True, tag="sampling"):
    """Samples are about to be taken (zeros), or were: where their time went by the worker's clock. The session has one of its own."""

    timed_s: float = 0.0  # all samples together
    between_s: float = 0.0  # all that was not timed
    sent_s: float  # by the system's monotonic clock, which is one for all processes


class CaseDone(msgspec.Struct, frozen=True, kw_only=True, tag="took"):
    """A case was measured; with what the sensors read since the last one."""

    samples: Samples
    readings: list[Readings] = []
    spent: bool = False  # the case left its process such that nothing more can be measured in it: it ends here


class RoundDone(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """The round is over."""

    seconds: float  # by the target's clock
    sampler_share: float | None = None  # of one core, spent reading sensors
    missing: dict[str, str] = {}  # sensor sources that are not there, and why
    notices: list[Notice] = []  # of the sampler


class RoundFailed(msgspec.Struct, frozen=True, kw_only=True, tag="fault"):
    """The round cannot go on."""

    message: str
    exit_code: int = 3


Message = CaseStarted | Sampling | CaseDone | RoundDone | RoundFailed

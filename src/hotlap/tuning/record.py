"""What is kept of a search for better settings.

    TuningAsked → TuningTrial, one a run → TuningOutcome (+ Contribution, DroppedSetting) → TuningKept
"""

from __future__ import annotations

from typing import Literal

from hotlap.core.record import Device, Notice, Record

SESSION = "tuning.json"  # of a bundle: one TuningKept
TRIALS = "tuning-trials.jsonl"  # of a bundle: a TuningTrial a line, in the order in which they ran
Answer = Literal["gain", "nothing", "cannot_tell", "budget"]
Phase = Literal["as_found", "alone", "together", "rung", "leave_one_out", "confirmation"]
DropCode = Literal[
    "failed", "not_better", "no_own_contribution", "over_limit", "results_changed", "not_applicable", "needs_root", "no_time", "unchecked",
    "not_named", "timed_out",
]


class TuningSetting(Record, frozen=True):
    """One value of one switch."""

    switch: str
    value: str


class TuningAsked(Record, frozen=True, kw_only=True):
    """What `tuning run` was asked."""

    subject: str  # as the user wrote it: a command line, a plan or a server's file
    kind: Literal["program", "plan", "server"]
    goal: str  # the metric
    unit: str = "s"
    better: Literal["lower", "higher"] = "lower"
    under: list[str] = []  # limits, as in p99<=50ms
    budget_s: float = 1800.0
    resolve: float = 0.02  # smallest gain to be found with 80 % power
    min_effect: float = 0.005  # smallest gain that is reported
    seed: int = 0
    values: dict[str, list[str]] = {}  # of each switch, the one that stands first
    result: str = ""  # where a program's own result is: a JSON pointer or a pattern
    tolerance: float | None = None  # relative, of the result; None: what the catalogue says of the switch
    propose: Literal["model", "optuna"] = "model"  # who proposes combinations
    how: dict[str, str] = {}  # of a program: metric, timeout; of a plan: target, device


class TuningTrial(Record, frozen=True, kw_only=True):
    """One run of one configuration, in a fresh process."""

    number: int
    phase: Phase
    settings: list[TuningSetting] = []  # [] is as found
    value: float | None = None  # in the goal's unit; None: it failed
    result: float | None = None
    metrics: dict[str, float] = {}  # that limits are on
    seconds: float = 0.0  # that it took, with what starts and ends it
    code: DropCode | None = None
    reason: str = ""


class DroppedSetting(Record, frozen=True, kw_only=True):
    """What is no longer tried, and why."""

    settings: list[TuningSetting]
    code: DropCode
    reason: str = ""
    runs: int = 0
    gain: float | None = None  # as a share, that was seen when it was dropped


class Contribution(Record, frozen=True, kw_only=True):
    """Of one setting to the winner: its cost without the setting ÷ its cost with it."""

    settings: list[TuningSetting]
    ratio: float | None
    low: float | None
    high: float | None
    pairs: int
    kept: bool


class TuningOutcome(Record, frozen=True, kw_only=True):
    """What came of it. Ratios are of costs, tuned ÷ as found: below 1 is better."""

    answer: Answer
    winner: list[TuningSetting] = []  # that was confirmed, or that confirmation did not confirm
    ratio: float | None = None  # of the confirmation alone
    low: float | None = None
    high: float | None = None
    pairs: int = 0  # of the confirmation
    seen: float | None = None  # the ratio that the search had seen of the same
    mde: float | None = None  # smallest gain, as a share of the cost, that the confirmation would have found
    noise: float | None = None  # relative, of one run
    runs: dict[str, int] = {}  # by phase
    contributions: list[Contribution] = []
    dropped: list[DroppedSetting] = []
    tried: int = 0  # configurations
    needs_runs: int | None = None  # of an answer "budget": as many as let every setting be looked at
    needs_s: float | None = None  # a budget for those
    notices: list[Notice] = []


class TuningKept(Record, frozen=True, kw_only=True):
    """A bundle of a search."""

    asked: TuningAsked
    device: Device | None = None
    versions: dict[str, str] = {}
    outcome: TuningOutcome | None = None  # None: interrupted or killed
    guess: list[TuningSetting] = []  # first guess, of an earlier search
    guessed: str = ""  # when that was
    refused: list[DroppedSetting] = []  # before anything ran

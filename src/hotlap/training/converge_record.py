"""What is kept of time to quality.

    QualityPoint → ConvergeRun → ConvergeSide × 2 (+ ReferenceCheck) → Converged
"""

from __future__ import annotations

from typing import Literal

from hotlap.core.record import Notice, Record

SESSION = "converge.json"  # of a bundle: one ConvergeKept
LOGS = "log-*.txt"  # of a bundle: the lines of MLLOG of each run


class QualityPoint(Record, frozen=True, kw_only=True):
    """An evaluation."""

    time_s: float  # since run_start
    progress: float  # in the run's unit
    value: float


class ConvergeRun(Record, frozen=True, kw_only=True):
    """One training, to its target or not."""

    source: str  # file, or the number of a process
    benchmark: str = ""
    batch: int | None = None  # global
    seed: str = ""
    unit: str = ""  # samples, epochs, steps
    better: Literal["higher", "lower"] = "higher"
    target: float | None = None  # None: run_stop decides
    points: list[QualityPoint] = []
    reached: bool = False
    progress: float | None = None  # at the target
    seconds: float | None = None  # to the target
    why: str = ""  # it was not reached


class ConvergeEstimate(Record, frozen=True, kw_only=True):
    """Of one side: MLPerf's mean without the fastest and the slowest, and the median with its interval. None: not to be had."""

    olympic: float | None = None
    median: float | None = None
    low: float | None = None
    high: float | None = None


class ConvergeSide(Record, frozen=True, kw_only=True):
    """All runs of A or B."""

    name: str
    runs: list[ConvergeRun]
    seconds: ConvergeEstimate = ConvergeEstimate()
    progress: ConvergeEstimate = ConvergeEstimate()

    @property
    def reached(self) -> list[ConvergeRun]:
        return [run for run in self.runs if run.reached]


class ReferenceCheck(Record, frozen=True, kw_only=True):
    """B's convergence against A's runs as reference (MLPerf's RCP). Numbers are of progress."""

    state: Literal["passes", "too fast", "unknown"]
    why: str = ""
    mean: float | None = None  # of the reference, trimmed
    sd: float | None = None  # of the trimmed reference, population
    least: float | None = None  # the smallest mean of B that chance allows
    speedup: float | None = None  # mean ÷ least
    measured: float | None = None  # B's olympic mean
    scale: float = 1.0  # of B's score, where it converged in fewer samples than the reference
    interpolated: list[int] = []  # batches of the reference that B's lies between


class Converged(Record, frozen=True, kw_only=True):
    """The answer."""

    a: ConvergeSide
    b: ConvergeSide
    check: ReferenceCheck
    answer: Literal["faster", "slower", "same", "inconclusive"]
    reason: str = ""
    ratio: float | None = None  # of time to quality, B ÷ A
    low: float | None = None
    high: float | None = None
    notices: list[Notice] = []


class ConvergeAsked(Record, frozen=True, kw_only=True):
    """What `training converge` was asked."""

    a: str
    b: str
    runs: int = 0  # of programs, a side; 0: logs are read
    target: float | None = None
    better: Literal["", "higher", "lower"] = ""
    metric: str = ""
    interpolate: bool = False
    min_effect: float = 0.02
    limit_s: float = 3600.0


class ConvergeKept(Record, frozen=True, kw_only=True):
    """A bundle of time to quality."""

    asked: ConvergeAsked
    a: list[ConvergeRun] = []
    b: list[ConvergeRun] = []
    failed: str = ""  # why a program ended it

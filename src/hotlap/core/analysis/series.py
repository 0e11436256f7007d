"""A case over time: its points, what changed, and how it moves since then."""

from __future__ import annotations

from typing import Literal

from hotlap.core.record import Case, Change, Difference, Excursion, Record


class Trend(Record, frozen=True, kw_only=True):
    """How a series moves since its last change, as a share per month; negative is worse, whichever way the metric points."""

    state: Literal["degrading", "steady", "improving", "cannot tell"]
    slope: float  # against the peers where there are any, else its own
    low: float  # 95 % interval
    high: float
    p: float
    q: float  # p adjusted for all series that were looked at together
    mde: float  # smallest trend that would have been found with 80 % power
    own: float  # slope with what the peers share still in it
    peers: int = 0  # devices of this model whose shared course was taken out
    since: int = 0  # index of the first point that counts

    @property
    def moves(self) -> bool:
        return self.state in ("degrading", "improving")


class Point(Record, frozen=True, kw_only=True):
    """One run's value in a series."""

    time_s: float  # since 1970, UTC
    value: float  # median of the run's rounds
    run: str  # its id


class Series(Record, frozen=True, kw_only=True):
    """A case on one device over time."""

    case: Case
    label: str
    device: str  # Device.key of the last point
    host: str
    target: str
    index: int = 0  # place in the target's order at the last point
    model: str = ""  # slug of the machine table, else the device's name
    metric: str = ""
    unit: str = ""
    better: Literal["higher", "lower"] = "higher"
    points: list[Point] = []
    changes: list[Change] = []
    excursions: list[Excursion] = []
    trend: Trend | None = None  # None with too few points since the last change
    boundaries: dict[int, str] = {}  # index of the first point after → why no change is sought across: another device, another schema
    differences: dict[int, list[Difference]] = {}  # index of a change → what changed in the environment there

    @property
    def selector(self) -> str:
        """What a user types to get the device: `target:index`."""
        return f"{self.target}:{self.index}"

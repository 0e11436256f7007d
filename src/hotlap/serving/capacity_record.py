"""What is kept of a search for the capacity of a server."""

from __future__ import annotations

from typing import NamedTuple

from hotlap.core.record import Record
from hotlap.serving.capacity import Capacity, CapacityOptions
from hotlap.serving.record import ServingAsked

KIND, FILE, LABEL = "serving-capacity", "capacity.json", "search"  # of the bundle; label of its rates


class RateVisited(Record, frozen=True, kw_only=True):
    """One rate, as it was measured."""

    rate: float  # asked, 1/s
    run: str  # id of its bundle
    requests: int  # due
    met: int
    decided: int  # those of which it is known whether they met their objectives: the run's end cut the others
    low: float | None = None  # of attainment, by this run alone
    high: float | None = None
    goodput: float | None = None  # requests/s
    failed: int = 0  # errors, refusals, time-outs: they are missed
    outrun: bool = False  # more came than was served: all count as missed
    late: bool = False  # the client was, which only makes times longer: the rate was met all the same, and counts
    flaws: list[str] = []  # of the client: then nothing is known of the server at this rate


class ServerCapacity(Record, frozen=True, kw_only=True):
    """A search, as it is kept."""

    asked: ServingAsked  # of each rate, without its arrivals
    arrivals: str  # poisson, constant, or gamma:SHAPE
    options: CapacityOptions
    label: str  # value of the label `search` of its rates
    rates: list[RateVisited]  # as visited
    capacity: Capacity
    ended: str  # over, budget (of time), interrupted, error
    detail: str = ""
    seconds: float = 0.0
    expected: Capacity | None = None  # by the model
    expected_of: str = ""  # GPU and network
    unknown: str = ""  # why the objectives cannot be judged, which ended the search


class ArrivalsAsked(NamedTuple):
    """A process without its rate."""

    kind: str
    shape: float = 1.0

    @property
    def text(self) -> str:
        return f"gamma:{self.shape:g}" if self.kind == "gamma" else self.kind

    @property
    def form(self) -> str:
        """With {} in place of the rate."""
        return f"gamma:{{}},{self.shape:g}" if self.kind == "gamma" else f"{self.kind}:{{}}"

    def at(self, rate: float) -> str:
        return self.form.format(f"{rate:.6g}")

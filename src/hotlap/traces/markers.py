"""What lint of markers works with: its rules, the markers of a trace, and flaws."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hotlap.core.record import Notice, Record
from hotlap.traces import calls, steps
from hotlap.traces.calls import Nesting, Places
from hotlap.traces.events import MARKER, Events
from hotlap.traces.marker_names import template

MOST_PLACES, MOST_NAMES = 5, 20  # of a flaw that are listed; `count` counts all
Severity = Literal["info", "warning", "error"]
SEVERITIES = ("info", "warning", "error")


class MarkerRule(Record, frozen=True, kw_only=True):
    """One rule of practice."""

    name: str
    title: str
    severity: Severity
    because: str
    source: str
    remedy: str
    threshold: float = 0.0
    counts: str = ""  # what the threshold is of


class Spot(Record, frozen=True, kw_only=True):
    """Where in a trace."""

    file: str
    time_s: float  # since the trace's first event
    thread: str


class Flaw(Record, frozen=True, kw_only=True):
    """What one rule found. `count` is how often; `names` and `places` are the first of them."""

    rule: str
    severity: Severity
    title: str
    detail: str
    names: list[str] = []
    places: list[Spot] = []
    count: int = 1
    because: str = ""
    remedy: str = ""
    source: str = ""


class Linted(Record, frozen=True, kw_only=True):
    """The lint of one or several traces, the worst first."""

    files: list[str]
    markers: list[int]  # ranges of the host in each file
    names: list[int]  # different ones
    compared: str  # how several traces were taken: as ranks, as runs, "" one trace
    flaws: list[Flaw]
    not_told: dict[str, str] = {}  # rule → why it could not be asked
    notices: dict[str, list[Notice]] = {}  # file → what of it could not be read as it stands


def rules() -> tuple[dict[str, MarkerRule], re.Pattern[str], re.Pattern[str]]:
    """The rules by name; which names PyTorch and its libraries mark by themselves; before which numbers a word names a part."""
    document = tomllib.loads(resources.files("hotlap.traces").joinpath("rules", "markers.toml").read_text(encoding="utf-8"))
    found = {name: MarkerRule(name=name, **table) for name, table in document["rule"].items()}
    return found, re.compile("|".join(document["framework"])), re.compile(document["parts"])


class Marks:
    """The markers of one trace, as rules ask for them."""

    def __init__(self, events: Events, framework: re.Pattern[str]) -> None:
        self.events = events
        self.file = Path(events.path).name
        self.places = events.of_kind(MARKER)
        self.counts = np.bincount(events.name[self.places], minlength=len(events.names))
        self.ids = np.flatnonzero(self.counts).tolist()
        self.own = [i for i in self.ids if not framework.search(events.names[i]) and not is_step(events.names[i])]
        self.is_own = np.zeros(len(events.names), bool)
        self.is_own[self.own] = True

    @cached_property
    def nesting(self) -> Nesting:
        """Of markers in markers."""
        return calls.nesting(self.events, MARKER)

    @cached_property
    def templates(self) -> dict[int, str]:
        """Of the program's own names."""
        return {i: template(self.events.names[i]).text for i in self.own}

    def usage(self) -> dict[str, int]:
        """How often each of the program's own names, ids taken out, is used."""
        found: dict[str, int] = {}
        for i, text in self.templates.items():
            found[text] = found.get(text, 0) + int(self.counts[i])
        return found

    def thread(self, place: int) -> str:
        number = int(self.events.thread[place])
        if number < 0:
            return ""
        one = self.events.threads[number]
        return f"{one.process}/{one.thread}" + (f" {one.name}" if one.name else "")

    def spots(self, places: NDArray[np.int64]) -> list[Spot]:
        """The first of these events."""
        first = places[np.argsort(self.events.start[places], kind="stable")][:MOST_PLACES]
        return [Spot(file=self.file, time_s=int(self.events.start[p]) / 1e9, thread=self.thread(int(p))) for p in first]

    def of_names(self, ids: Sequence[int]) -> Places:
        """Events that bear one of these names."""
        return self.places[np.isin(self.events.name[self.places], ids)]


def is_step(name: str) -> bool:
    """Whether a name is that of a step's range."""
    return bool(steps.PROFILER.match(name) or steps.NAMED.match(name))


def flaw(rule: MarkerRule, detail: str, severity: Severity | None = None, **more: Any) -> Flaw:
    """A flaw by a rule."""
    more["names"] = list(more.get("names", ()))[:MOST_NAMES]
    return Flaw(
        rule=rule.name, severity=severity or rule.severity, title=rule.title, detail=detail, because=rule.because, remedy=rule.remedy,
        source=rule.source, **more,
    )  # fmt: skip

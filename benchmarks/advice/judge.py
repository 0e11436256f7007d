"""What Hotlap says of a trace, beside what is true."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hotlap.core.record import Finding
from hotlap.traces import window
from hotlap.traces.advice import trace as advising
from hotlap.traces.cli import ranked
from hotlap.traces.study import Study
from hotlap.traces.timeline import Timeline

WITHIN = 0.005  # of the window: a gain so near to the interval is held


class Verdict(NamedTuple):
    first: str  # rule of the first finding, "" where there is none
    first_is_true: bool
    gain: tuple[float, float, float]  # the true one: in the middle, lowest, highest
    interval: str  # of the true finding
    held: bool


def findings(paths: Sequence[Path]) -> list[Finding]:
    """As `hotlap trace` prints them: of several ranks those about all, then those of the trace that is looked into."""
    shared: list[Finding] = []
    path = paths[0]
    if len(paths) > 1:
        together = ranked.read([str(path) for path in paths])
        shared, path = together.findings, Path(together.file)
    timeline, _ = window.bounded(Timeline.open(path, cache=False))
    return [*shared, *advising.advise(Study(timeline)).findings]


def judged(paths: Sequence[Path], truth: str, gain: tuple[float, float, float], no_gain: bool = False) -> Verdict:
    listed = findings(paths)
    first = listed[0].rule if listed else ""
    match = next((finding for finding in listed if finding.rule == truth), None)
    if match is None:
        return Verdict(first, first == truth, gain, "–", not truth and not listed)
    low, high = match.gain_low or 0.0, match.gain_high or 0.0
    if no_gain:
        return Verdict(first, first == truth, gain, "no gain" if not high else f"{100 * low:.1f} – {100 * high:.1f} %", not high)
    held = gain[1] <= high + WITHIN and gain[2] >= low - WITHIN
    if match.gain is None:  # an interval that says nothing holds nothing
        return Verdict(first, first == truth, gain, f"≤ {100 * high:.1f} %", False)
    return Verdict(first, first == truth, gain, f"{100 * low:.1f} – {100 * high:.1f} %", held)

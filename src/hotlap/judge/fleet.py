"""The devices of one model against each other: which are off in which case, and whether the fleet can be its own reference."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np

from hotlap import work
from hotlap.record import Baseline, Finding, Reference
from hotlap.stats import fleet
from hotlap.units import percent

ENOUGH_RUNS = 10  # of a device, for runs to be its samples


def findings(known: Baseline) -> list[Finding]:
    """A finding per device and case that is off, and one per case that cannot be judged; per model and target of devices.

    Medians of runs are a device's samples, or rounds where devices have fewer than 10 runs. Fleets of fewer than 5 devices give none.
    """
    groups: dict[tuple[str, str], list[Reference]] = {}
    for one in known.references:
        if one.better in ("higher", "lower") and all(v > 0 for values in one.runs.values() for v in values):
            groups.setdefault((one.model, one.target), []).append(one)
    return [found for members in groups.values() for found in _fleet(members)]


def _fleet(members: Sequence[Reference]) -> list[Finding]:
    devices = list(dict.fromkeys(one.identity for one in members))
    cases = list({one.case.id: one for one in members}.values())
    if len(devices) < fleet.FEWEST_NODES:
        return []
    samples = _samples(members)
    values = np.full((len(devices), len(cases), max(map(len, samples))), np.nan)
    rows = {name: n for n, name in enumerate(devices)}
    columns = {one.case.id: n for n, one in enumerate(cases)}
    for one, own in zip(members, samples, strict=True):
        values[rows[one.identity], columns[one.case.id], : len(own)] = own
    found = fleet.odd(values, [one.better for one in cases])
    labels = [work.label(one.case) for one in cases]
    off = [
        Finding(
            title=f"{devices[one.node]} is off in {labels[one.metric]}", cases=[cases[one.metric].case.id],
            severity="error" if one.size < 0 or one.kind == "tail" else "info", detail=_said(one, len(devices)),
            action="measure it again; look at its clocks, power, temperature and link beside a healthy one",
        )
        for one in found.odd
    ]
    return off + [Finding(title="cannot be judged", detail=_named(text, labels)) for text in found.warnings]


def _samples(members: Sequence[Reference]) -> list[list[float]]:
    """Of each reference. Rounds of one run are alike: taken for samples of their own, a slow run or two make a slow tail."""
    if statistics.median(len(one.runs) for one in members) >= ENOUGH_RUNS:
        return [[statistics.median(values) for values in one.runs.values()] for one in members]
    return [[v for values in one.runs.values() for v in values] for one in members]


def _said(one: fleet.Odd, devices: int) -> str:
    if one.kind == "tail":
        return f"{one.tail:.0%} of its samples lie in the slowest hundredth of {devices} devices, though its level is usual"
    span = f"[{percent(one.low)}, {percent(one.high)}]"
    return f"{percent(abs(one.size))} {'worse' if one.size < 0 else 'better'} than {devices} devices of its model {span}"


def _named(warning: str, labels: Sequence[str]) -> str:
    """With the case's name instead of its number."""
    head, _, rest = warning.partition(": ")
    number = head.removeprefix("metric ")
    return f"{labels[int(number)]}: {rest}" if number.isdigit() and int(number) < len(labels) else warning

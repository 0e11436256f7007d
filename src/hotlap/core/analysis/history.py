"""Runs over time as series, with the places where a level changed and what changed in the environment there."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from hotlap.core import work
from hotlap.core.analysis import degradation, environment, revisions
from hotlap.core.analysis.series import Point, Series
from hotlap.core.record import CONFIGURATION, IMPORTED, Case, Change, Device, Difference, Result, RunRecord
from hotlap.core.stats.changes import changes
from hotlap.core.stats.excursions import excursions
from hotlap.core.store import select, when
from hotlap.core.store.bundle import Bundle

SIMULATED = "simulated"
NEAR = 5  # points that a reported change may be off
Key = tuple[str, str, str, str]
"""Case, host, target, and the device's place in the host: its PCI address, else its index. A device in its place is another one
after a swap, and the series says where. What was imported tells no places: there a series is of the device with its name,
and a simulated one is of its machine."""
Seen = Callable[[Key, RunRecord, Result], None]


@dataclass
class _Line:
    """A series while it is gathered."""

    results: list[Result] = field(default_factory=list)
    runs: list[RunRecord] = field(default_factory=list)
    devices: list[Device] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)


def history(
    bundles: Iterable[Bundle], where: Mapping[str, str] | None = None, min_effect: float = 0.0, provisional: bool = True
) -> list[Series]:
    """A series per case, host, target and place of device, in order of time; runs without a readable time are left out.

    `min_effect`: the smallest change to report, as a share. Where the device, the schema or the meaning of the case changes,
    the series is cut, and no change is sought across.
    """
    return degradation.with_trends([_series(line, min_effect, provisional) for line in _lines(bundles, where or {}, None).values()])


def by_place(bundles: Iterable[Bundle], where: Mapping[str, str], min_effect: float, seen: Seen) -> dict[Key, Series]:
    """The same by key, with the steps between revisions where a series is too short to be tested point by point. `seen` is told of
    every result, measured or not, in order of time."""
    lines = _lines(bundles, where, seen)
    found = degradation.with_trends([_series(line, min_effect, True, between=True) for line in lines.values()])
    return dict(zip(lines, found, strict=True))


def _lines(bundles: Iterable[Bundle], where: Mapping[str, str], seen: Seen | None) -> dict[Key, _Line]:
    lines: dict[Key, _Line] = {}
    # The samples of a bundle go as soon as its results are known: years of them do not fit in memory.
    kept = [
        (began_s, one.run, [replace(r, rounds=[]) for r in select.results(one, where)])
        for one in bundles if (began_s := when.seconds(one.run.began)) is not None
    ]
    for began_s, run, results in sorted(kept, key=lambda one: (one[0], one[1].id)):
        devices = {d.key: d for d in run.machine.devices}
        for result in results:
            device = devices.get(result.device) or Device(target=result.target, index=0, name=result.device, kind="other")
            key = _key(run, result, device)
            if seen:
                seen(key, run, result)
            if result.status == "measured" and result.values:
                _add(lines.setdefault(key, _Line()), run, result, device, began_s)
    return lines


def _key(run: RunRecord, result: Result, device: Device) -> Key:
    place = device.key if device.target == IMPORTED else device.pci_address or device.selector
    if device.target == SIMULATED:
        place += f" {device.model}"
    if configuration := run.labels.get(CONFIGURATION):
        place += f" {configuration}"
    return result.case.id, run.machine.host, result.target, place


def _add(line: _Line, run: RunRecord, result: Result, device: Device, began_s: float) -> None:
    line.results.append(result)
    line.runs.append(run)
    line.devices.append(device)
    line.points.append(Point(time_s=began_s, value=statistics.median(result.values), run=run.id))


def _series(line: _Line, min_effect: float, provisional: bool, between: bool = False) -> Series:
    cuts = _boundaries(line)
    values, times = [p.value for p in line.points], [p.time_s for p in line.points]
    steps = changes(values, times, min_effect=min_effect, provisional=provisional, boundaries=sorted(cuts))
    if between:
        steps = revisions.with_steps(steps, line.results, line.runs, times, [*cuts], min_effect)
    last, run = line.results[-1], line.runs[-1]
    return Series(
        case=last.case, label=_label(last.case, run), device=line.devices[-1].key, host=run.machine.host, target=last.target,
        index=line.devices[-1].index, model=line.devices[-1].model, metric=last.metric, unit=last.unit,
        better=last.better, points=line.points, changes=steps,
        excursions=excursions(values, [*cuts, *(one.index for one in steps)], min_effect=min_effect),
        boundaries=cuts, differences={one.index: _around(line, one, steps, cuts) for one in steps},
    )


def _label(case: Case, run: RunRecord) -> str:
    configuration = run.labels.get(CONFIGURATION)
    return f"{work.label(case)} of {configuration}" if configuration else work.label(case)


def _boundaries(line: _Line) -> dict[int, str]:
    """Where what is measured is no longer the same thing."""
    cuts: dict[int, str] = {}
    for place in range(1, len(line.runs)):
        before, after = line.devices[place - 1], line.devices[place]
        result, two = line.results[place - 1], line.results[place]
        if before.key != after.key or (before.serial and after.serial and before.serial != after.serial):
            cuts[place] = f"another device: {before.serial or before.key} → {after.serial or after.key}"
        elif line.runs[place - 1].schema != line.runs[place].schema:
            cuts[place] = f"another schema: {line.runs[place - 1].schema} → {line.runs[place].schema}"
        elif result.timing != two.timing:
            cuts[place] = environment.method_changed(result.timing, two.timing, "before", "from here on")
        elif (result.metric, result.unit, result.better) != (two.metric, two.unit, two.better):
            cuts[place] = f"another meaning: {result.metric} in {result.unit} → {two.metric} in {two.unit}"
    return cuts


def _around(line: _Line, change: Change, steps: Sequence[Change], cuts: Mapping[int, str]) -> list[Difference]:
    """What differs between the few runs before a step and the few after, as far as it can matter. A drift has no such moment."""
    if change.kind == "drift":
        return []
    edges = {0, len(line.runs), *cuts, *(one.index for one in steps)}
    start = max((e for e in edges if e < change.index), default=0)
    end = min((e for e in edges if e > change.index), default=len(line.runs))
    start, end = max(start, change.index - NEAR), min(end, change.index + NEAR)
    ahead, behind = line.runs[start : change.index], line.runs[change.index : end]
    differs = [_there(one, ahead[-1], behind[0]) for one in environment.differences(ahead, behind)]
    before, after = line.runs[change.index - 1].labels, line.runs[change.index].labels
    marks = [
        Difference(name=f"label {name}", a=before.get(name, ""), b=after.get(name, ""), matters="unknown")
        for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)
    ]
    return [one for one in differs if one.matters != "no"] + marks


def _there(difference: Difference, before: RunRecord, after: RunRecord) -> Difference:
    """What differs between groups, as it was right before and after; where it changed a few runs beside, as the groups have it."""
    return next((one for one in environment.differences([before], [after]) if one.name == difference.name), difference)

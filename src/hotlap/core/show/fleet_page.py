"""The page of many devices: verdict and bad ones first, spread of devices, ranking, a block per device only where it differs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from hotlap.core.analysis import absent
from hotlap.core.analysis.fleet_groups import groups
from hotlap.core.analysis.fleets import FleetCase, FleetDevice, FleetVerdict
from hotlap.core.show import fleet, page, table, words
from hotlap.core.show.table import Cell, Column, Table
from hotlap.core.units import percent

STACKED = "results stack labelled"  # on a phone, where a row has no room for its columns
WORST = 25  # devices in the first table
RANKED = 60  # devices of which each has a line in the ranking; of more the ends
ENDS = 10
BLOCKS = 12  # devices with a block of their own
EMBEDDED_BYTES = 300_000
INLINE = 'style="display: inline; vertical-align: middle; margin: 0"'
WIDTH, HEIGHT, BINS = 190, 26, 38  # of the drawing of a case, in pixels


def page_of(judged: FleetVerdict, title: str = "", lead: str = "", more: Sequence[page.Section] = ()) -> str:
    """One HTML file. `lead` and `more`: what the kind of its runs says first, and its own sections."""
    sections = [
        page.Section("Worst", "What stands out", _worst(judged)),
        page.Section("Cases", "Cases over all devices", _cases(judged)),
        page.Section("Ranking", "Ranking over all cases", _ranking(judged)),
        page.Section("Devices", "Devices that differ", _blocks(judged)),
        *more,
        page.Section("Method", "How sure", page.notes([*fleet.sure(judged), *_method(judged)])),
    ]
    models = ", ".join(fleet.model_name(judged, model) for model in judged.reach)
    heading = title or f"{words.counted(len(judged.devices), 'device')}: {models}"
    return page.page(heading, sections, _data(judged), lead + _top(judged))


def _data(judged: FleetVerdict) -> dict[str, Any]:
    facts = msgspec.to_builtins(judged)
    if len(msgspec.json.encode(facts)) > EMBEDDED_BYTES:
        facts["cases"] = [{name: value for name, value in case.items() if name != "values"} for case in facts["cases"]]
    return {"verdict": judged.state, "fleet": facts}


def _top(judged: FleetVerdict) -> str:
    named, names = judged.named, fleet.names(judged)
    bad = [device for device in named if device.state == "fail"]
    other = [device for device in named if device.state != "fail" and device.code != "fast"]
    lines = [f"{words.counted(len(bad), 'device')} slower than the others by more than {percent(judged.min_effect)}"] if bad else []
    lines += [f"{words.counted(len(other), 'device')} to look at"] if other else []
    rest = len(judged.devices) - len(bad) - len(other)
    comparable = any(reach is not None for reach in judged.reach.values())
    lines.append(f"{rest} of {len(judged.devices)} like the others" if comparable else "they cannot be compared")
    lines += [absent.text(judged.absent)] if judged.missing else []
    color = {"pass": "good", "fail": "bad"}.get(judged.state, "warn")
    state = f'<span class="state" style="color: var(--{color})">{words.STATES[judged.state].upper()}</span>'
    spoken = list(dict.fromkeys(names[device.host, device.device] for device in bad + other))
    listed = f"<p>{table.text(words.some(spoken, 8))}</p>" if spoken else ""
    runs, ids = fleet.counted_runs(judged), len({case.case for case in judged.cases})
    size = f"{runs}, {words.counted(ids, 'case')}, {fleet.rounds(judged)}"
    above = f'<p class="sub">{size}</p><p class="sub">{table.text(_measured(judged))}</p>'
    return f'{above}<p class="lead">{state} {table.text("; ".join(lines))}.</p>{listed}'


def _measured(judged: FleetVerdict) -> str:
    """When, with which driver and which version, as far as it is known."""
    facts = [device.facts for device in judged.devices]
    times = sorted({one.began[:16].replace("T", " ") for one in facts if one.began})
    parts = [f"measured {' to '.join(dict.fromkeys((times[0], times[-1])))} UTC"] if times else []
    for name, texts in (("driver", [one.driver for one in facts]), ("Hotlap", [one.hotlap for one in facts])):
        if known := sorted({text for text in texts if text}):
            parts.append(f"{name} {words.some(known, 4)}")
    return "; ".join(parts)


def _worst(judged: FleetVerdict) -> str:
    named = groups(judged)
    if not named:
        return "<p>Nothing: no device differs from the others by more than chance.</p>"
    left = len(judged.named) - sum(len(group.devices) for group in named[:WORST])
    more = page.notes([f"{left} more stand in the data of this page."]) if left else ""
    return table.html(fleet.devices(judged, named[:WORST], numbers=True), STACKED) + more


def _cases(judged: FleetVerdict) -> str:
    """The folded table, with the spread of devices drawn in each row."""
    ordered = sorted(judged.cases, key=lambda case: -(case.spread or 0.0))
    columns = list(fleet.cases(judged, ordered).columns)
    off: dict[tuple[str, str], set[str]] = {}
    for device in judged.devices:
        for case in device.off:
            off.setdefault((case.case, device.model), set()).add(f"{device.host} {device.device}")
    drawn = [Cell(drawn=_strip(case, off.get((case.case, case.model), set()))) for case in ordered]
    columns.insert(len(columns) - 1, Column("distribution", drawn, title="Distribution", kind="spare"))
    note = "Distribution: devices by their difference to the median (the line), worse to the left; red is a device that stands out."
    return table.html(Table(columns), STACKED) + page.notes([note], "note spare")


def _strip(case: FleetCase, off: set[str]) -> str:
    """A small histogram of differences to the median, on one scale to either side."""
    middle = case.ends[1]
    if middle <= 0 or min(case.values.values()) <= 0:
        return ""
    sign = 1 if case.better == "higher" else -1
    shifts = {key: sign * math.log(value / middle) for key, value in case.values.items()}
    reach = max([abs(shift) for shift in shifts.values()] + [1e-4])
    bins = [0] * BINS
    for shift in shifts.values():
        bins[min(int((shift + reach) / (2 * reach) * BINS), BINS - 1)] += 1
    top, step = max(bins), WIDTH / BINS
    heights = [(HEIGHT - 6) * count / top for count in bins]
    bars = "".join(
        f'<rect x="{place * step:.1f}" y="{HEIGHT - 4 - height:.1f}" width="{step - 1:.1f}" height="{height:.1f}"/>'
        for place, height in enumerate(heights) if height
    )
    places = [2 + (shifts[key] + reach) / (2 * reach) * (WIDTH - 4) for key in sorted(off & shifts.keys())]
    marks = "".join(f'<circle cx="{place:.1f}" cy="{HEIGHT - 2}" r="2" fill="var(--bad)"/>' for place in places)
    label = f"{table.text(case.label)}: from {percent(min(shifts.values()), 2)} to {percent(max(shifts.values()), 2)} of the median"
    line = f'<line x1="{WIDTH / 2}" x2="{WIDTH / 2}" y1="0" y2="{HEIGHT - 3}" stroke="var(--faint)"/>'
    return (
        f'<svg role="img" aria-label="{label}" {INLINE} width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">'
        f'<g fill="var(--accent)">{bars}</g>{line}{marks}</svg>'
    )


def _ranking(judged: FleetVerdict) -> str:
    """Every device of few, else both ends and the middle."""
    ranked = sorted((device for device in judged.devices if device.level is not None), key=lambda device: device.level or 0.0)
    if not ranked:
        return ""
    names = fleet.called(judged)
    shown = ranked if len(ranked) <= RANKED else [*ranked[:ENDS], ranked[len(ranked) // 2], *ranked[-ENDS:]]
    place = {id(device): number for number, device in enumerate(ranked, 1)}
    reach = max(abs(device.level or 0.0) for device in ranked) or 1e-6
    chosen = Table([
        Column("rank", [Cell(str(place[id(device)])) for device in shown], right=True, title="Rank"),
        Column("device", [Cell(names[device.host, device.device]) for device in shown], names=True, title="Device"),
        Column("all cases", [Cell(words.signed(device.level or 0.0, 2)) for device in shown], right=True, title="All cases"),
        Column("", [Cell(drawn=_bar((device.level or 0.0) / reach, bool(device.code))) for device in shown], kind="spare"),
    ])  # fmt: skip
    left = len(ranked) - len(shown)
    note = [f"The {left} devices between are left out: they stand in the data of this page."] if left else []
    return table.html(chosen, "results") + page.notes(note, "note")


def _bar(share: float, named: bool) -> str:
    half = 90
    start, size = (half + min(share, 0.0) * half, abs(share) * half)
    color = "var(--bad)" if named and share < 0 else "var(--accent)"
    drawn = f'<rect x="{start:.1f}" y="2" width="{max(size, 0.5):.1f}" height="8" fill="{color}"/>'
    return f'<svg aria-hidden="true" {INLINE} width="{2 * half}" height="12">{drawn}</svg>'


def _blocks(judged: FleetVerdict) -> str:
    """A block for each device that stands out in single cases, or lacks some; those that are slower as a whole have a line above."""
    names, first = fleet.names(judged), [group.first for group in groups(judged)]
    chosen = [device for device in first if device.off or device.missing or device.broken]
    blocks = [f"<h3>{table.text(names[device.host, device.device])}</h3>{_block(device)}" for device in chosen[:BLOCKS]]
    more = [f"{len(chosen) - BLOCKS} more devices differ in single cases: they stand in the table above and in the data of this page."]
    return "".join(blocks) + page.notes(more if len(chosen) > BLOCKS else [], "note")


def _block(device: FleetDevice) -> str:
    facts = [f"run {device.run}", *(f"{name} {value}" for name, value in device.labels.items())]
    off = sorted(device.off, key=lambda case: case.size)[:5]
    rows = [f"{case.label}: {words.signed(case.size)} [{words.signed(case.low)}, {words.signed(case.high)}]" for case in off]
    rows += [f"and {len(device.off) - 5} more cases"] if len(device.off) > 5 else []
    return page.notes([", ".join(facts)], "sub") + page.notes([*rows, *device.broken[:3], *device.missing[:3]])


def _method(judged: FleetVerdict) -> Sequence[str]:
    return (
        (
            "A device's level is the mean of its differences to the median device over all cases, each weighted by how well the case tells "
            "devices apart. How much healthy devices differ is learnt from the fleet, robustly: up to a fifth of the devices may be bad."
        ),
        f"A verdict fails where the 95 % interval of a loss lies wholly beyond the threshold of {percent(judged.min_effect)}.",
        "All cases of a run that a device measured twice or more are judged by its last run." if judged.runs > len(judged.devices) else "",
    )

"""What a device counted while a case ran, beside its time: a line per case, a table, a part of the page."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace

from hotlap.core.record import Row
from hotlap.core.show import layout, words
from hotlap.core.show.table import Cell, Column
from hotlap.core.store.readers import counted
from hotlap.core.units import percent

LEAST = 0.005  # of the time: smaller causes are added up
SPARE = ("energy", "pipe", "waves", "clock", "power")  # columns to leave out where there is no room, first those that say least
SHOWN = 4  # causes in a line


def _share(value: float) -> str:
    return percent(value)


COUNTERS: tuple[tuple[str, str, str, Callable[[float], str]], ...] = (  # key, head of its column, in a sentence, how it is written
    ("sm_busy", "SMs busy", "SMs busy {}", _share),
    ("pipe_busy", "pipe", "their arithmetic {}", _share),
    ("dram_bytes", "DRAM", "{} to and from memory", lambda v: words.quantity(v, "B")),
    ("l2_hit", "L2 hits", "{} of reads hit L2", _share),
    ("waves", "waves", "{} waves", lambda v: f"{v:.2f}" if v < 99.5 else f"{v:.0f}"),
    ("clock_hz", "clock", "{}", lambda v: words.quantity(v, "Hz")),
    ("power_w", "power", "{}", lambda v: words.quantity(v, "W")),
    ("energy_j", "energy", "{}", lambda v: words.quantity(v, "J")),
)  # fmt: skip


def of(row: Row) -> dict[str, float]:
    return counted.counters(row.result)


def line(row: Row) -> str:
    """All counters of a case in one sentence; why there are none where the device says so."""
    seen = of(row)
    if not seen:
        reason = plain(row)
        return f"plain time: {reason}" if reason else ""
    return ", ".join(said.format(write(seen[key])) for key, _, said, write in COUNTERS if key in seen)


def plain(row: Row) -> str:
    """Why a simulated case has no counters; "" for any other."""
    return next((one.no_counters for one in row.result.rounds if one.no_counters), "")


def stalls(row: Row) -> list[tuple[str, float]]:
    """Causes that took the time, the largest first, as shares that add up to 1; small ones together."""
    seen = counted.stalls(row.result)
    whole = sum(seen.values())
    if whole <= 0:
        return []
    large = sorted(((name, value / whole) for name, value in seen.items() if abs(value) >= LEAST * whole), key=lambda one: -one[1])[:SHOWN]
    rest = 1.0 - sum(value for _, value in large)
    return [*large, *([("the rest", rest)] if abs(rest) > 0.1 * LEAST else [])]


def waited(row: Row) -> str:
    """Where the time went, in one sentence."""
    return ", ".join(f"{name} {percent(value)}" for name, value in stalls(row))


def table(rows: Sequence[Row], width: int = 100, color: bool = False) -> str:
    """Counters of every case that has some, over several devices from the least to the most, and why the others have none; "" where no
    case has any."""
    having = [row for row in rows if words.numbered(row) and of(row)]
    without: dict[str, list[str]] = {}
    for row in rows:
        if words.numbered(row) and (reason := plain(row)):
            without.setdefault(reason, []).append(row.case.workload)
    devices = words.devices(having)
    on = f" on {words.counted(len(devices), 'device')}" if len(devices) > 1 else ""
    lines = [layout.painted(f"counters of one call{on}", "bold", color)]
    if having:
        lines += _grid(_folded(having) if len(devices) > 1 else _each(having), width).lines(color)
    if len(devices) > 1:
        lines += ["", f"of one device: hotlap explain RUN --device {shlex.quote(devices[0])}"]
    said = "; ".join(f"{', '.join(dict.fromkeys(names))}: {words.clean(reason)}" for reason, names in without.items())
    if said:
        lines += ["", *layout.paragraph("plain times, no counters: ", said, width, most=12)]
    return "\n".join(lines) if len(lines) > 1 else ""


def _each(rows: Sequence[Row]) -> list[Column]:
    """A line for each, with what took most of its time."""
    most = [stalls(row)[0] if stalls(row) else ("", 0.0) for row in rows]
    cells = [Cell(f"{percent(value)} {name}" if name else words.DASH) for name, value in most]
    cases = Column("  case", [Cell("  " + words.clean(row.label)) for row in rows])
    return [cases, *columns(rows)[1:], Column("most time", cells)]


def _folded(rows: Sequence[Row]) -> list[Column]:
    """A line for each case, of all its devices."""
    cases: dict[str, list[Row]] = {}
    for row in rows:
        cases.setdefault(row.case.id, []).append(row)
    columns = [Column("  case", [Cell("  " + words.clean(own[0].label)) for own in cases.values()])]
    for key, head, _, write in COUNTERS:
        each = [[seen[key] for row in own if key in (seen := of(row))] for own in cases.values()]
        columns.append(Column(head, [Cell(_span(values, write)) for values in each], point=True, key=key, kind="n"))
    return [*columns, Column("most time", [Cell(_causes(own)) for own in cases.values()])]


def _causes(rows: Sequence[Row]) -> str:
    """What took most of the time on each device: the least and the most share of each cause."""
    shares: dict[str, list[float]] = {}
    for row in rows:
        for name, share in stalls(row)[:1]:
            shares.setdefault(name, []).append(share)
    return ", ".join(f"{_span(own, percent)} {name}" for name, own in shares.items()) or words.DASH


def _span(values: Sequence[float], write: Callable[[float], str]) -> str:
    """The least to the most, the unit once where both have the same."""
    if not values:
        return words.DASH
    first, last = write(min(values)), write(max(values))
    number, _, unit = first.partition(" ")
    return first if first == last else f"{number if unit == last.partition(' ')[2] else first} – {last}"


def columns(rows: Sequence[Row]) -> list[Column]:
    """Each case and its counters."""
    found = [Column("Case", [Cell(words.clean(row.label)) for row in rows], names=True)]
    counts = [of(row) for row in rows]
    for key, head, _, write in COUNTERS:
        cells = [Cell(write(seen[key]) if key in seen else words.DASH, value=seen.get(key)) for seen in counts]
        found.append(Column(head, cells, point=True, key=key, kind="n"))
    return found


def _grid(columns: Sequence[Column], width: int) -> layout.Grid:
    """Without what says least where there is no room, and at last with names of cases that wrap."""
    grid = layout.fitted(columns, width, SPARE)
    return grid if grid.narrowest <= width else layout.fitted([replace(columns[0], wrap=True), *columns[1:]], width, SPARE)

"""What `history` prints: a line per series with a sparkline, and under it each change with what changed in the environment there."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple

from hotlap.core import units
from hotlap.core.analysis.history import SIMULATED
from hotlap.core.analysis.series import Series
from hotlap.core.record import IMPORTED, Change, Excursion
from hotlap.core.show import layout, words
from hotlap.core.show.table import Cell, Column
from hotlap.core.stats.changes import SHORTEST
from hotlap.core.units import percent

TICKS = "▁▂▃▄▅▆▇█"
SPARK = 32  # cells
NOTHING = "no series: no run that was asked for has a measured case"
SHOWN = 4  # differences named at a change
NAMED = 3  # series that are too short
WITHOUT = (
    "history says that a level changed, whatever the cause. Without --assume-stable compare also allows for what unchanged code does from "
    "day to day, and may call the same change inconclusive: then the level did change, but the code need not be the cause"
)
BESIDE = 8  # runs to a side of a change that are compared
MANY, QUIET = 24, 8  # series that are listed; where there are more, at most so many of those without a change


class HistoryAsked(NamedTuple):
    """The smallest change that was sought, as a share; which cases, by name and value; all series that were judged, where more than are
    shown."""

    min_effect: float = 0.0
    where: Mapping[str, str] = {}
    judged: Sequence[Series] = ()


PLAIN = HistoryAsked()


def history(series: Sequence[Series], width: int = 100, color: bool = False, most: int = MANY, asked: HistoryAsked = PLAIN) -> str:
    """Series with changes first, `most` at most; the others are counted. In the sparkline higher is the larger value, and │ stands before a
    change."""
    if not series:
        return NOTHING
    ordered = sorted(series, key=telling)
    if len(ordered) > most:
        ordered = ordered[: min(max(sum(map(_tells, ordered)), QUIET), most)]
    columns = [
        Column("case", [Cell(words.clean(one.label)) for one in ordered], wrap=True),
        Column("device", [Cell(place, "dim") for place in places(ordered)], wrap=True),
        Column("points", [Cell(str(len(one.points))) for one in ordered], right=True),
        Column("", [Cell(sparkline([p.value for p in one.points], [c.index for c in one.changes]), "accent") for one in ordered]),
        Column("now", [Cell(text, "bold") for text in layout.aligned([words.quantity(one.points[-1].value, one.unit) for one in ordered])]),
        Column("changes", [Cell(str(len(one.changes) or ""), "warn") for one in ordered], right=True),
    ]
    grid = layout.Grid(columns, width)
    lines = [grid.header(color)]
    for place, one in enumerate(ordered):
        lines += grid.line(place, color)
        lines += trend(one, width, color)
        lines += [text for change in one.changes for text in _change(one, change, width, color)]
        lines += [text for away in one.excursions for text in _excursion(one, away, width, color)]
        cuts = {when(one.points[at].time_s): words.clean(why) for at, why in one.boundaries.items()}
        lines += [f"    {at} UTC  {why}: no change is sought across" for at, why in cuts.items()]
    changes = sum(len(one.changes) for one in series)
    changed = sum(bool(one.changes) for one in series)
    apart = sum(len(one.excursions) for one in series)
    judged = asked.judged or series
    tally = f"{len(judged)} series: {words.counted(changes, 'change')}" + (f" in {changed} of them" if changes else "")
    tally += f", {words.counted(apart, 'group')} of points apart" if apart else ""
    folded = [f"… and {_folded(series, ordered)}: --all lists them"] if len(ordered) < len(series) else []
    return "\n".join([*lines, *folded, "", tally + _short(judged), *_next(ordered[0], width, asked, judged)])


def _folded(series: Sequence[Series], shown: Sequence[Series]) -> str:
    """How many series are not listed."""
    left = len(series) - len(shown)
    telling = sum(map(_tells, series)) - sum(map(_tells, shown))
    quiet = f"{left - telling:,} series without a change" if left > telling else ""
    return " and ".join(filter(None, (f"{telling:,} that changed or have points apart" if telling else "", quiet)))


def _tells(series: Series) -> bool:
    return telling(series) != (True, True, True)


def _short(series: Sequence[Series]) -> str:
    """Which series are too short for a change to be found in them: a few by name."""
    short = [
        f"{words.clean(one.label)} on {place}" for one, place in zip(series, places(series), strict=True) if len(one.points) < SHORTEST
    ]
    who = "it has" if len(series) == 1 else "all have" if len(short) == len(series) else f"{len(short)} have" if len(short) > 1 else "1 has"
    which = f": {words.some(short, NAMED)}" if len(short) < len(series) else ""
    return f"; {who} fewer than {SHORTEST} points, too few to find a change{which}" if short else ""


def telling(series: Series) -> tuple[bool, bool, bool]:
    """Sorts series with changes to the front, then those with points that lie apart, then those with a trend."""
    return not series.changes, not series.excursions, series.trend is None or not series.trend.moves


def unchanged(runs: int, series: Sequence[Series], min_effect: float) -> str:
    """What to say where only series with a change were asked for, and there is none."""
    if not series:
        return NOTHING
    above = f" above {percent(min_effect)}" if min_effect else ""
    apart = sum(bool(one.excursions) for one in series)
    but = f"; {apart} with points that lie apart, too few to test: leave out --changed to see them" if apart else ""
    return f"{words.counted(runs, 'run')}, {len(series)} series: none with a change{above}{but}{_short(series)}"


def _next(series: Series, width: int, asked: HistoryAsked, judged: Sequence[Series]) -> list[str]:
    """The runs to both sides of the latest change of a series, by their times: one a side has no interval. With the rule of `history`:
    no allowance for drift, and the same smallest change; of the case, host and device that it is of, where there are others."""
    changed = [change.index for change in series.changes if change.index]
    if not changed:
        return []
    at, cuts = changed[-1], [0, *changed, *series.boundaries, len(series.points)]
    first, last = max(max(cut for cut in cuts if cut < at), at - BESIDE), min(min(cut for cut in cuts if cut > at), at + BESIDE) - 1
    rule = f"--assume-stable --min-effect {units.exact(asked.min_effect, '%').replace(' ', '')}"
    facts = {"case": "label", "host": "host", "device": "device"}
    several = [name for name, field in facts.items() if len({getattr(one, field) for one in judged}) > 1]
    wanted = {**asked.where, **{name: getattr(series, facts[name]) for name in several}}
    where = [f" --where {shlex.quote(f'{name}={value}')}" for name, value in wanted.items()]
    sides = f"{_between(series, first, at - 1)} {_between(series, at, last)}"
    lines = [f"next    hotlap compare {sides}{''.join(where)} {rule}"]
    return lines + layout.paragraph("        ", WITHOUT, width)


def _between(series: Series, first: int, last: int) -> str:
    """A selector of the runs from one point to another."""
    ends = (datetime.fromtimestamp(series.points[place].time_s, UTC) for place in (first, last))
    return "..".join(f"{end:%Y-%m-%dT%H:%M:%S}" for end in ends)


def places(series: Sequence[Series]) -> list[str]:
    """Where each series is of: host and target, and the device where the host has several or only its name is known. Simulated devices
    have no place of their own: those of several machines say which."""
    devices: dict[tuple[str, str], set[str]] = {}
    models: dict[tuple[str, str], set[str]] = {}
    for one in series:
        devices.setdefault((one.host, one.target), set()).add(one.device if one.target == IMPORTED else one.selector)
        models.setdefault((one.host, one.selector), set()).add(one.model)
    named = Counter((one.host, words.imported_name(one.device)) for one in {(one.host, one.device): one for one in series}.values())
    several = [len(models[one.host, one.selector]) > 1 and one.target == SIMULATED for one in series]
    alike = [named[one.host, words.imported_name(one.device)] > 1 and one.target == IMPORTED for one in series]
    return [
        _place(one, same if one.target == IMPORTED else len(devices[one.host, one.target]) > 1 or model)
        + (f" {words.clean(one.model)}" if model else "")
        for one, model, same in zip(series, several, alike, strict=True)
    ]


def _place(series: Series, several: bool) -> str:
    if series.target == IMPORTED:
        name = words.imported_name(series.device)
        return words.clean(f"{series.host} {series.selector} {name}" if several else f"{series.host} {name or series.target}")
    return words.clean(f"{series.host} {series.selector if several else series.target}")


def _change(series: Series, change: Change, width: int, color: bool) -> list[str]:
    first = f"    {when(series.points[change.index].time_s)} UTC  "
    pieces = layout.paragraph(first, change_text(series, change), width, most=8)
    style = {True: "good", False: "bad", None: ""}[_better(series, change)]
    return [layout.painted(first, style, color) + pieces[0][len(first) :], *pieces[1:]]


def _excursion(series: Series, away: Excursion, width: int, color: bool) -> list[str]:
    first = f"    {when(series.points[away.index].time_s)} UTC  "
    pieces = layout.paragraph(first, lies_apart(series, away), width, most=8)
    return [layout.painted(first, "warn", color) + pieces[0][len(first) :], *pieces[1:]]


def lies_apart(series: Series, away: Excursion) -> str:
    """A group of points in words: where, how far off, and that no change was tested."""
    which = f"the last {away.end - away.index} points" if away.last else f"points {away.index + 1}–{away.end}"
    size = f" by {_share(away.ratio)}" if math.isfinite(away.ratio) else ""
    levels = f"{words.quantity(away.rest, series.unit)} → {words.quantity(away.level, series.unit)}"
    said = f"{which} lie apart{size}, {levels}, from run {series.points[away.index].run} on"
    advice = "" if series.target == IMPORTED else "; measure again" if away.last else "; measure more often to see such"
    return f"{said}: too few to test as a change{advice}"


def trend(series: Series, width: int, color: bool) -> list[str]:
    """A device that gets worse, or better, since its last change or from its first run on."""
    slope_test = series.trend
    if slope_test is None or not slope_test.moves:
        return []
    slope, own = _moves(series, slope_test.slope), _moves(series, slope_test.own)
    low, high = sorted((_moves(series, slope_test.low), _moves(series, slope_test.high)))
    against = f" against its {slope_test.peers} peers ({per_month(own)} with what they share)" if slope_test.peers else ""
    since = f"since {when(series.points[slope_test.since].time_s)} UTC" if slope_test.since else f"over all {len(series.points)} runs"
    text = f"{slope_test.state}: {per_month(slope)} [{_share(1 + low, 2)}, {_share(1 + high, 2)}]{against} {since}, p {slope_test.q:.1g}"
    style = "bad" if slope_test.state == "degrading" else "good"
    return [layout.painted(piece, style, color) for piece in layout.paragraph("    ", text, width)]


def _moves(series: Series, slope: float) -> float:
    """A slope of which negative is worse, as the metric itself moves: a latency that gets worse rises."""
    return slope if series.better == "higher" else 1 / (1 + slope) - 1 if slope > -1 else math.inf


def per_month(slope: float) -> str:
    """A slope for people: `-0.42 % a month`."""
    return f"{_share(1 + slope, 2)} a month"


def _better(series: Series, change: Change) -> bool | None:
    return (change.ratio > 1) == (series.better == "higher") if math.isfinite(change.ratio) else None


def change_text(series: Series, change: Change) -> str:
    """A change in words: which way, how large, how sure, and what changed in the environment there."""
    parts: str = change.kind
    if math.isfinite(change.ratio):
        word = "better" if _better(series, change) else "worse"
        parts = f"{word}: {change.kind} of {_share(change.ratio)}"
    if math.isfinite(change.low) and math.isfinite(change.high):
        parts += f" [{_share(change.low)}, {_share(change.high)}]"
    sure = f"provisional{': measure again' * (series.target != IMPORTED)}" if change.provisional else f"p {change.p:.1g}"
    levels = f"{words.quantity(change.before, series.unit)} → {words.quantity(change.after, series.unit)}"
    return f"{parts}, {levels}, {sure}; from run {series.points[change.index].run} on{_environment(series, change)}"


def _environment(series: Series, change: Change) -> str:
    if change.kind == "drift":  # it has no moment at which something could have changed
        return ""
    found = series.differences.get(change.index, [])
    if not found:
        return "; nothing known changed in the environment there"
    names = [f"{d.name} {' → '.join(words.differing(d.a, d.b))}" for d in found[:SHOWN]]
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return f"; changed there: {', '.join(names)}{more}"


def _share(ratio: float, digits: int = 1) -> str:
    return words.signed(ratio - 1, digits)


def when(time_s: float) -> str:
    """A moment as tables show it: UTC, to the minute."""
    return f"{datetime.fromtimestamp(time_s, UTC):%Y-%m-%d %H:%M}"


def sparkline(values: Sequence[float], changes: Sequence[int] = (), cells: int = SPARK) -> str:
    """Medians of stretches as bars, scaled between the smallest and the largest; a flat series stays in the middle."""
    if not values:
        return ""
    count = min(cells, len(values))
    edges = [round(n * len(values) / count) for n in range(count + 1)]
    levels = [_middle(values[a:b]) for a, b in pairwise(edges)]
    low, high = min(levels), max(levels)
    flat = high - low <= 1e-3 * max(abs(high), abs(low))
    marks = ["▄" if flat else TICKS[round((v - low) / (high - low) * (len(TICKS) - 1))] for v in levels]
    for index in sorted(changes, reverse=True):
        at = next((n for n, edge in enumerate(edges) if edge >= index), count)
        marks.insert(min(at, len(marks)), "│")
    return "".join(marks)


def _middle(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]

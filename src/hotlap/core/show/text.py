"""What a terminal shows: the table of results and what stands beside it. Plain text first; colour only when asked for."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

from hotlap.core.analysis import fleets
from hotlap.core.analysis.fleet_groups import groups
from hotlap.core.analysis.rates import is_aggregate
from hotlap.core.analysis.state import BEYOND
from hotlap.core.record import Row
from hotlap.core.show import explain as explaining
from hotlap.core.show import fleet, layout, results, words
from hotlap.core.show import notices as noticing
from hotlap.core.show.explain import explain
from hotlap.core.show.listing import devices, heading, machine, machines, prediction, runs
from hotlap.core.show.results import FAST, Form, is_slow
from hotlap.core.stats.fleet import FEWEST_NODES
from hotlap.core.stats.stopping import FEWEST
from hotlap.core.store.bundle import Bundle
from hotlap.core.units import percent

__all__ = ["devices", "explain", "fleet_of_runs", "heading", "machine", "machines", "prediction", "runs", "table"]

AGAINST = {  # by what a share is of: how to read it
    "bound": "bound: the roofline (speed-of-light) limit", "expected": "expected: what the model expects of a good implementation",
    "ceiling": "of best: ÷ the best median rate of a case of this run (the best: that case), which is nearer than any limit that is known",
    "unknown": "– of limit: none is known",
}
LIMITS = {"bound": "the bound", "expected": "the expected value"}
NOTICES = 3  # below a table, at most
WORST = 3  # numbers that are explained among many devices
SHORT = "too small, a call is short beside a launch"  # why a share of a limit is low that is no fault
OVER = 1.005  # share of a bound that is shown as more than 100 %
ABOVE = 1.1  # share of what the model expects, beyond which a number is not near it
NAMED = 3  # cases of what is fast, and of what is slow


FORMS = (
    Form(True, 10, True), Form(False, 10, True), Form(False, 6, True), Form(False, 10, False), Form(False, 6, False), Form(False, 4, False),
    Form(False, 0, False, 1),
)
"""The most telling first."""


def table(rows: Sequence[Row], width: int = 100, color: bool = False, run: str = "", precision: float | None = None) -> str:
    """The table of results, what is fast, slow and in notice, and how to read it. `run` is named where more can be asked for.
    `precision`: what was asked of the intervals, as a share.

    Fits `width` columns from 80; where a case's name has no room it wraps.
    """
    if not rows:
        return "no results: no case was measured"
    shown = [row for row in rows if row.verdict.state != "not_run"]
    keys = words.devices(shown)
    lines = [*_banner(shown, width, color)]
    judged = fleets.of_rows(shown) if len(keys) > fleets.MANY else None
    if judged:
        lines += [f"{words.counted(len(keys), 'device')}", *fleet.folded(judged, width, color, len(shown)), ""]
    for key in keys if len(keys) <= fleets.MANY else ():
        if len(keys) > 1:
            lines += [layout.painted(words.clean(key), "accent", color)]
        lines += [*_table([row for row in shown if row.device == key], width, color), ""]
    below = [*_tally(rows, color), *_extremes(shown, width, color), *_doubts(shown, run, width, color), *_not_run(rows, run, width, color)]
    reading = _reading_folded(shown, judged, width, color) if judged else _reading(shown, width, color, precision)
    return "\n".join([*lines, *below, *reading])


def fleet_of_runs(runs: Sequence[tuple[Bundle, Sequence[Row]]], width: int = 100, color: bool = False, asked: str = "") -> str:
    """Runs of more devices than a table each, on one screen: what stands out, cases over all of them, and notices. `asked`: the selectors
    that name the runs, as typed."""
    return _fleet_of_runs(runs, fleets.of_runs(runs), (width, color), asked)


def _fleet_of_runs(
    runs: Sequence[tuple[Bundle, Sequence[Row]]], judged: fleets.FleetVerdict, screen: tuple[int, bool], asked: str, most: int = NOTICES
) -> str:
    width, color = screen
    rows = [row for _, own in runs for row in own]
    shown = [row for row in rows if row.verdict.state != "not_run"]
    head = layout.painted(f"{fleet.summary(judged)}; {fleet.counted_runs(judged)}", "bold", color)
    places = [f"{bundle.run.machine.host} {row.device}" for bundle, own in runs for row in own]
    below = [*_tally(rows, color, len(set(places))), *_doubts(shown, asked, width, color, most)]
    below += _not_run(rows, asked, width, color, places)
    return "\n".join([*_banner(shown, width, color), head, *fleet.folded(judged, width, color), "", *below])


def explained_fleet(runs: Sequence[tuple[Bundle, Sequence[Row]]], width: int = 100, color: bool = False, asked: str = "") -> str:
    """Numbers of more devices than can be explained one by one, on one screen: all of them folded with every notice, and of the slow
    ones, or of the slowest alone where none stands out, the case furthest behind explained. `asked`: the selectors, as typed."""
    judged = fleets.of_runs(runs)
    slow = sum(one.level is not None for one in judged.named)
    worst = fleets.furthest_behind(runs, judged)[: min(max(slow, 1), WORST)]
    lines = [_fleet_of_runs(runs, judged, (width, color), asked, most=sys.maxsize)]
    for bundle, row, behind in worst:
        who = f"{bundle.run.machine.host} {row.device}: {percent(behind)} slower than the median device in its worst case"
        lines += ["", *explaining.briefly(row, who, width, color, fleet.others(judged, bundle.run.machine.host, row))]
    left = sum(words.numbered(row) for _, own in runs for row in own) - len(worst)
    command = f"hotlap explain {asked or 'RUN'}"
    example = f"{command} --device {shlex.quote(worst[0][1].device) if worst else 'INDEX'}"
    return "\n".join([*lines, "", f"{left} more numbers: {example}", f"each of them: {command} --all"])


def explained_devices(bundle: Bundle, rows: Sequence[Row], width: int = 100, color: bool = False) -> str:
    """Numbers of a run of a few devices: the devices that differ from the others, a block per case over all of them, and every notice.
    Devices of several models, or too few to be compared with each other, are explained one by one."""
    judged, run = fleets.of_runs([(bundle, rows)]), bundle.run.id
    if len(judged.reach) != 1 or len(judged.devices) < FEWEST_NODES:
        return explain(rows, width, color)
    shown = [row for row in rows if row.verdict.state != "not_run"]
    lines = [*_banner(shown, width, color), layout.painted(fleet.summary(judged), "bold", color), ""]
    lines += _differing(bundle, rows, judged, (width, color)) or ["no device differs from the others by more than chance"]
    for name, members in words.families(shown):
        cases: dict[str, list[Row]] = {}
        for row in members:
            cases.setdefault(row.case.id, []).append(row)
        lines += ["", layout.painted(name, "bold", color)]
        lines += [line for own in cases.values() for line in explaining.over_devices(own, width, color)]
    lines += ["", *_tally(rows, color), *_doubts(shown, run, width, color, sys.maxsize), *_not_run(rows, run, width, color), ""]
    lines += [piece for said in fleet.sure(judged) for piece in layout.paragraph("", said, width)]
    one = f"hotlap explain {run} --device {shlex.quote(judged.devices[0].device)}"
    return "\n".join([*lines, "", f"limits, rounds and sources of one device: {one}", f"of each device: hotlap explain {run} --all"])


def _differing(bundle: Bundle, rows: Sequence[Row], judged: fleets.FleetVerdict, screen: tuple[int, bool]) -> list[str]:
    """Devices that stand out, and of each the cases in which it does; of one that is slower in all, the case furthest behind."""
    if not judged.named:
        return []
    width, color = screen
    lines = layout.fitted(fleet.devices(judged, groups(judged)).columns, width, ("why",), rather="95 %").lines(color)
    behind = {row.device: row for _, row, _ in fleets.furthest_behind([(bundle, rows)], judged)}
    for device in judged.named:
        ids = [case.case for case in device.off][:WORST]
        own = [row for row in rows if row.device == device.device and row.case.id in ids]
        own = own or [row for key, row in behind.items() if key == device.device]
        for row in own:
            lines += ["", *explaining.briefly(row, device.device, width, color, fleet.others(judged, bundle.run.machine.host, row))]
    return lines


def _banner(rows: Sequence[Row], width: int, color: bool) -> list[str]:
    said = noticing.banner(rows)
    return [*(layout.painted(piece, "warn", color) for piece in layout.paragraph("", said, width)), ""] if said else []


def _table(rows: Sequence[Row], width: int, color: bool) -> list[str]:
    form = _form(rows, width)
    found = results.table(rows, form)
    return layout.Grid(found.columns, width, form.gap).lines(color, found.groups)


def _form(rows: Sequence[Row], width: int) -> Form:
    """The most telling form that fits; where none does, names of cases wrap."""
    return next((form for form in FORMS if layout.total(results.table(rows, form).columns, form.gap) <= width), FORMS[-1])


def _tally(rows: Sequence[Row], color: bool, devices: int = 0) -> list[str]:
    """States of all numbers; of many devices, which are compared above, each number by itself. `devices`: how many, of several hosts."""
    counts = {state: sum(r.verdict.state == state for r in rows) for state in words.STATES}
    parts = [f"{n} {words.STATES[state]}" for state, n in counts.items() if n]
    head, devices = words.counted(len(rows), "case"), devices or len(words.devices(rows))
    if devices > fleets.MANY:
        head = f"{words.counted(len({row.case.id for row in rows}), 'case')} on {devices} devices, each number by itself"
    return [layout.painted(f"{head}: ", "bold", color) + ", ".join(parts)]


def _extremes(rows: Sequence[Row], width: int, color: bool) -> list[str]:
    """What is fast and what is slow, of numbers that have a limit; not what others slowed down."""
    having = [row for row in rows if words.stands(row) and row.gap.reference_kind in layout.BARS and row.gap.share]
    limited = sorted(having, key=lambda row: -(row.gap.share or 0))
    above = [row for row in limited if row.gap.reference_kind == "expected" and (row.gap.share or 0) > ABOVE]
    fast = [row for row in limited if (row.gap.share or 0) >= FAST and row not in above]
    slow = [row for row in reversed(limited) if row not in fast and row not in above and is_slow(row) and "busy" not in noticing.codes(row)]
    lines: list[str] = []
    for name, these in (("above model", above), ("near limit", fast), ("slow", slow)):
        if these:
            by_case: dict[tuple[str, str], list[Row]] = {}
            for row in these:
                by_case.setdefault((row.label, row.gap.reference_kind), []).append(row)
            said = [_extreme(own, len(words.devices(rows))) for own in list(by_case.values())[:NAMED]]
            more = f" and {len(by_case) - NAMED} more" if len(by_case) > NAMED else ""
            if these is above and all(row.result.target == "simulated" for row in these):
                more += "; a simulated device does not test the model"
            lines += _named(name, ", ".join(said) + more, "warn" if these is slow else "good", width, color)
    return lines


def _extreme(rows: Sequence[Row], devices: int) -> str:
    """One case with its share of a limit; of several devices the range of shares, and on how many of them it is so."""
    shares = noticing.span([row.gap.share or 0.0 for row in rows], lambda share: f"{share * 100:.0f} %")
    own = len(words.devices(rows))
    where = "" if devices < 2 else f" on all {devices} devices" if own == devices else f" on {own} of {devices} devices"
    short = f": {SHORT}" if all(row.gap.cause in ("launch", "too_small") for row in rows) else ""
    of = LIMITS[rows[0].gap.reference_kind]
    return f"{words.clean(rows[0].label)} ({shares if where else words.share(rows[0].gap)} of {of}{where}{short})"


def _doubts(rows: Sequence[Row], run: str, width: int, color: bool, most: int = NOTICES) -> list[str]:
    """The most important, each with what to do; of a busy machine the banner speaks."""
    busy = noticing.busy(rows)
    notices = [notice for notice in noticing.find(rows) if notice.code != "busy" or not busy]
    lines: list[str] = []
    styles = {"error": "bad", "warning": "warn", "info": "dim"}
    for notice in notices[:most]:
        action = f" → {notice.action}" if notice.action else ""
        seen = f": {notice.seen}" if notice.seen else ""
        lines += _named(notice.word, f"{noticing.which(notice, rows)}{seen}{action}", styles[notice.severity], width, color)
    if len(notices) > most:
        lines.append(layout.painted(f"{words.counted(len(notices) - most, 'more notice')}: hotlap explain {run or 'RUN'}", "dim", color))
    return lines


def _named(name: str, sentence: str, style: str, width: int, color: bool) -> list[str]:
    first = f"{name:<12}  "
    pieces = layout.paragraph(first, sentence, width)
    return [layout.painted(first, style, color) + pieces[0][len(first) :], *pieces[1:]]


def _not_run(rows: Sequence[Row], run: str, width: int, color: bool, places: Sequence[str] = ()) -> list[str]:
    """What was not measured, in one line: each case once, of several devices with how many. `places`: of each row, where its key is not
    the whole name of a device."""
    on = places or [row.device for row in rows]
    without = [(row, place) for row, place in zip(rows, on, strict=True) if row.verdict.state == "not_run"]
    if not without:
        return []
    reasons = list(dict.fromkeys(row.verdict.reason for row, _ in without))
    why = words.clean(reasons[0]) if len(reasons) == 1 else f"for {len(reasons)} reasons: hotlap explain {run}".rstrip()
    by: dict[str, set[str]] = {}
    for row, place in without:
        by.setdefault(row.label, set()).add(place)
    counts = [f" on {words.counted(len(own), 'device')}" if len(set(on)) > 1 else "" for own in by.values()]
    alike = len(set(counts)) == 1
    names = words.some([label if alike else label + count for label, count in zip(by, counts, strict=True)])
    return _named("not run", f"{names}{counts[0] if alike else ''}: {why}", "dim", width, color)


def _reading_folded(rows: Sequence[Row], judged: fleets.FleetVerdict, width: int, color: bool) -> list[str]:
    """The same of a table over devices, which has neither intervals nor limits of its own: below it stand shares of them."""
    seen = {row.gap.reference_kind for row in rows if words.numbered(row) and row.gap.share is not None}
    parts = ["– of outliers: no device stands out"] * fleet.has_steady_cases(judged) + [AGAINST[kind] for kind in LIMITS if kind in seen]
    if not parts:
        return []
    return ["", *(layout.painted(piece, "dim", color) for piece in layout.paragraph("", f"{'; '.join(parts)}.", width, most=12))]


def _reading(rows: Sequence[Row], width: int, color: bool, precision: float | None) -> list[str]:
    """How to read the columns, of what is in them."""
    having = [row for row in rows if words.numbered(row)]
    if not having:
        return []
    seen = {row.gap.reference_kind if row.gap.share is not None else "unknown" for row in having}
    parts = ["±: 95 % interval of the median over rounds"]
    parts += [f"{sure}: its confidence, with fewer than 6 rounds" for sure in filter(None, [words.confidences(having)])]
    best = f"best: the fastest round alone, where it is over {percent(words.BEST_APART)} from the value, the median of the rounds"
    parts += [best] * any(map(words.best, having))
    parts += ["– of ±: one value that stands for many samples, without rounds"] * any(is_aggregate(row.result) for row in having)
    parts += [about for kind, about in AGAINST.items() if kind in seen]
    parts += [words.cached(having)] * bool(words.cached(having))
    beyond = any(words.stands(row) and row.gap.reference_kind == "bound" and (row.gap.share or 0.0) >= OVER for row in having)
    parts += [f"over 100 %: its interval begins at most {percent(BEYOND)} beyond the bound, else it were invalid"] * beyond
    states = {row.verdict.state for row in having}
    asked = any(row.summary.reached is not None for row in having)
    unsure = "too few rounds, or too noisy ones, for the precision asked" if asked else "too few rounds for a 95 % interval"
    parts += [f"? inconclusive: {unsure}{_by_noise(having, precision)}"] * ("inconclusive" in states)
    parts += ["x invalid: shown, not to be used"] * ("invalid" in states)
    return ["", *(layout.painted(piece, "dim", color) for piece in layout.paragraph("", f"{'; '.join(parts)}.", width, most=12))]


def _by_noise(rows: Sequence[Row], precision: float | None) -> str:
    """Where state and interval seem to contradict each other: the noise between rounds decides, by the interval that it makes likely."""
    if precision is None:
        return ""
    judged = [row.summary for row in rows if row.summary.rounds >= FEWEST and row.summary.half_width is not None]
    apart = any(one.reached is not None and ((one.half_width or 0.0) > precision) is one.reached for one in judged)
    return "; ? goes by how much rounds differ: it may stand beside a ± that is narrow by chance, or not by a wide one" if apart else ""

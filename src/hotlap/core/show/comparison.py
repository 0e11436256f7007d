"""What `compare` prints: a line per case, what differs between the environments, and how to read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from hotlap.core.record import Allowance, Comparison, Difference, OnDevice, RunRecord
from hotlap.core.show import kinds, layout, sides, words
from hotlap.core.show import notices as noticing
from hotlap.core.show.listing import measured
from hotlap.core.show.table import Cell, Column
from hotlap.core.stats import busy
from hotlap.core.stats.drift import FEWEST_DAYS, FEWEST_RUNS
from hotlap.core.store import select
from hotlap.core.store.bundle import Bundle
from hotlap.core.units import percent
from hotlap.core.work import label, traits

ANSWER_STYLES = {"slower": "bad", "faster": "good", "inconclusive": "warn", "same": "", "not comparable": "dim"}  # in the order shown
MATTERS = {"yes": "matters", "unknown": "may matter", "no": "does not matter"}
REPEAT = {
    "between_runs": "more runs make it smaller, more rounds do not", "between_rounds": "more rounds make it smaller, longer ones do not",
    "within_rounds": "longer rounds make it smaller",
}
FORCED = "forced: "  # sides that were compared with --force although they are not of one kind
APART = 4  # devices that differ from the others and are named
SHOWN = 12  # differences that do not matter are cut to so many


def comparison(
    comparisons: Sequence[Comparison], groups: Sequence[Sequence[Bundle]] = (), differences: Sequence[Difference] = (), width: int = 100,
    color: bool = False,
) -> str:
    """A line per case: both sides, the change of the metric with its interval, and the answer; then what differs between the
    environments and could explain it."""
    if not comparisons:
        return "nothing to compare: neither side has cases with values; hotlap show RUN says what a run holds"
    ordered = sorted(comparisons, key=lambda c: list(ANSWER_STYLES).index(c.answer))
    lines = [*of_sides(dict(zip("AB", groups, strict=False)), width), *_forced(ordered, width)]
    bundles = [one for group in groups for one in group]
    lines += allowances(ordered, width, turns=kinds.turns(bundles))
    beside = layout.total(columns(ordered)) <= width  # else what medians say stands below the table
    lines += [*layout.fitted(columns(ordered, medians=beside), width).lines(color), "", tally(ordered), *reasons(ordered, width)]
    lines += [] if beside else _medians(ordered, width)
    lines += _differences(differences, ordered, ("A", "B"), width, color)
    return "\n".join([*lines, "", *reading(ordered, width, color, kinds.rounds(bundles))])


def in_turns(comparisons: Sequence[Comparison], texts: tuple[str, str], difference: float, width: int = 100, color: bool = False) -> str:
    """What `ab` found: the two sides, a line per case, and what would not have been seen."""
    ordered = list(comparisons)
    lines = [f"{name}  {words.clean(text)}" for name, text in zip("AB", texts, strict=True)]
    commands = len(ordered) == 1 and traits(ordered[0].case.workload).source == "program"  # its label would be A's command
    shown = columns(ordered)[commands:]
    shown.insert(-1, Column("pairs", [Cell(str(one.n_a)) for one in ordered], right=True))
    lines += ["", *layout.Grid(shown, width).lines(color), ""]
    for group, why in words.alike((one for one in ordered if one.reason), lambda one: one.reason, answer):
        names = "" if commands else f"{words.some([label(one.case) for one in group])}: "
        who = {"inconclusive": "inconclusive", "same": "B is the same"}.get(group[0].answer, f"B is {answer(group[0])}")
        lines += layout.paragraph(f"  {who:<14}  ", f"{names}{words.clean(why)}", width)
    lines += _notices(ordered, width)
    min_effect = ordered[0].min_effect if ordered else None
    parts = ["interleaved A/B test (A B B A) with early stopping", deciding(difference, min_effect or 0.0), estimated(ordered)]
    reading = ". ".join([*filter(None, parts), "The interval is valid although the test may stop early."])
    return "\n".join([*lines, "", *(layout.painted(piece, "dim", color) for piece in layout.paragraph("", reading, width, most=None))])


def deciding(difference: float, min_effect: float, planned: bool = True) -> str:
    """Which of the two sizes of a test of pairs decides what. `planned`: how many pairs there are follows from `difference`."""
    option = " (--min-effect)" if planned else ""
    threshold = f"the threshold of {percent(min_effect)}{option}" if min_effect else "no change"
    why = ", the change that the pairs are planned to find with 80 % power" if planned else ""
    return f"faster or slower: the whole interval is beyond {threshold}; same: the 90 % interval is within ± {percent(difference)}{why}"


@dataclass(frozen=True)
class Other:
    """A side that is compared with the first: what was found, its runs, and what differs between the environments."""

    comparisons: Sequence[Comparison]
    runs: Sequence[Bundle] = ()
    differences: Sequence[Difference] = ()


ESTIMATED = {
    "pairs": "the pairs, by Huber's M-estimator", "devices": "devices as pairs, by Huber's M-estimator (below 6 the mean of logarithms)",
    "members": "a level of each member, by Huber's M-estimator (below 6 the mean of logarithms)",
    "runs": "all runs, by Huber's M-estimator", "devices of runs": "each device of each run, by Huber's M-estimator",
    "rounds": "all rounds, by Huber's M-estimator",
}


def estimated(compared: Sequence[Comparison]) -> str:
    """How the change is made, and that it is not the ratio of the medians; "" where there is none."""
    kinds = dict.fromkeys(ESTIMATED[one.replicates] for one in compared if one.low is not None and one.replicates in ESTIMATED)
    shown = " of the medians, which is shown where it is far from the change" if any(map(sides.of_medians, compared)) else ""
    how = next(iter(kinds)) if len(kinds) == 1 else "all values, by Huber's M-estimator"
    over = " over rounds of the geometric mean of all devices" if all(one.replicates == "devices" for one in compared) else ""
    return f"A and B are medians{over}; the change is estimated from {how}, so it can differ from B ÷ A − 1{shown}" if kinds else ""


def matrix(others: Mapping[str, Other], first: str, runs: Sequence[Bundle] = (), width: int = 100, color: bool = False) -> str:
    """More than two sides: a line per case, a column per side with its speedup over the first and the interval."""
    cases = {one.case.id: label(one.case) for other in others.values() for one in other.comparisons}
    groups = {first: runs, **{name: other.runs for name, other in others.items()}}
    lines = of_sides({words.clean(name): side for name, side in groups.items()}, width) if runs else []
    for name, other in others.items():
        lines += _forced(other.comparisons, width, f"{words.clean(name)}, ")
        lines += allowances(other.comparisons, width, f"{words.clean(name)}: ")
    grids = [layout.Grid(_matrixcolumns(cases, others, spans), width, gap) for spans in (True, False) for gap in (layout.GAP, 1)]
    grid = next((one for one in grids if one.narrowest <= width), grids[-1])
    lines += [*grid.lines(color), ""]
    for name, other in others.items():
        lines += [f"{words.clean(name)}: {_counts(other.comparisons)}", *reasons(other.comparisons, width)]
        lines += [*_differences(other.differences, other.comparisons, (first, name), width, color), ""]
    reading = f"speedup over {first} (> 1: faster, whichever way the metric points) with its 95 % interval; ? inconclusive, = the same, "
    reading += "– not comparable"
    spans = "" if grid in grids[:2] else "; there is no room for the intervals here: --json has them"
    return "\n".join([*lines, *layout.paragraph("", reading + spans, width)])


def _matrixcolumns(cases: Mapping[str, str], others: Mapping[str, Other], spans: bool) -> list[Column]:
    columns = [Column("case", [Cell(words.clean(name)) for name in cases.values()], wrap=True)]
    for name, other in others.items():
        by_case = {one.case.id: one for one in other.comparisons}
        columns.append(Column(words.clean(name), [_entry(by_case.get(key), spans) for key in cases]))
    return columns


def _entry(comparison: Comparison | None, spans: bool) -> Cell:
    if comparison is None or comparison.ratio is None or comparison.answer == "not comparable":
        return Cell(words.DASH, "dim")
    sign = {"inconclusive": " ?", "same": " ="}.get(comparison.answer, "")
    span = f" {interval(comparison.low, comparison.high)}" if spans and comparison.low is not None else ""
    return Cell(f"{comparison.ratio:.3f}{sign or '  '}{span}".rstrip(), ANSWER_STYLES[comparison.answer])


def _forced(comparisons: Sequence[Comparison], width: int, who: str = "") -> list[str]:
    """That the sides are not of one kind stands above all answers."""
    kinds = dict.fromkeys(one.forced for one in comparisons if one.forced)
    lines = [line for one in kinds for line in layout.paragraph(f"{who}{FORCED}", words.clean(one), width)]
    return [*lines, ""] if lines else []


def of_sides(groups: Mapping[str, Sequence[Bundle]], width: int) -> list[str]:
    """Which runs a side is, and where others ran beside it."""
    lines: list[str] = []
    room = max(map(len, groups), default=0)
    for name, side in groups.items():
        runs = [one.run for one in side]
        devices = dict.fromkeys(f"{d.selector} {d.machine or d.name}" for run in runs for d in measured(run))
        labels = _labels(runs)
        who = runs[0].id if len(runs) == 1 else f"{len(runs)} runs, {runs[0].id} to {runs[-1].id}"
        parts = [who, words.some(list(devices)), *labels[:3], *([f"{len(labels) - 3} more labels"] if len(labels) > 3 else [])]
        lines += layout.paragraph(f"{name:<{room}}  ", words.clean(" · ".join(p for p in parts if p)), width)
        results = [result for bundle in side for result in select.results(bundle) if result.values]
        if seen := noticing.beside_all(results):
            but = noticing.but_atomics(case.workload for bundle in side for case in bundle.run.plan.cases)
            text = f"the machine was busy: {seen}; numbers are lower limits of the speed{but}"
            lines += layout.paragraph(" " * (room + 2), text, width)
    both = sorted(set.intersection(*({one.run.id for one in side} for side in groups.values()))) if groups else []
    where = "both" if len(groups) == 2 else "all"
    lines += [f"on {where} sides: {words.some(both)}, so that they look more alike than they are"] if both else []
    return [*lines, ""] if lines else []


def _labels(runs: Sequence[RunRecord]) -> list[str]:
    """Each name once, with its value in the first and in the last run where they differ."""
    values: dict[str, list[str]] = {}
    for run in runs:
        for name, value in run.labels.items():
            values.setdefault(name, []).append(value)
    return [f"{name}={own[0]}" if len(set(own)) == 1 else f"{name}={own[0]} … {own[-1]}" for name, own in values.items()]


def allowances(
    comparisons: Sequence[Comparison], width: int, who: str = "", sides: str = "A and B", turns: str = kinds.IN_TURNS
) -> list[str]:
    """That the `sides` were measured one after the other stands above all answers, with what the intervals allow for."""
    groups: dict[tuple[str, str], list[Allowance]] = {}
    for one in comparisons:
        if one.allowance is not None:
            groups.setdefault((one.allowance.basis, one.allowance.machine), []).append(one.allowance)
    lines = [line for group in groups.values() for line in layout.paragraph(who, _allowed(group, sides, turns), width, most=6)]
    return [*lines, ""] if lines else []


def _allowed(group: Sequence[Allowance], sides: str, turns: str) -> str:
    allowance = group[0]
    first = f"{sides} were measured one after the other, so a change of the machine in between looks like a change of the code"
    if allowance.basis == "stable":
        return f"{first}. --assume-stable: the intervals allow for none."
    size = " to ".join(dict.fromkeys(f"± {percent(size)}" for size in (min(a.drift for a in group), max(a.drift for a in group))))
    if allowance.basis == "history":
        runs, days = (_span([getattr(a, name) for a in group]) for name in ("runs", "days"))
        return f"{first}. The intervals allow for drift of {size}, by {runs} earlier runs of the same cases on {days} days."
    if not allowance.drift:
        return f"{first}. The intervals allow for no drift: {allowance.source}."
    seen = _span([a.runs for a in group])
    rest = f"to learn it from earlier runs of the same cases {FEWEST_RUNS} on {FEWEST_DAYS} days are needed, there are {seen}"
    if min(a.runs for a in group) >= FEWEST_RUNS:
        rest = "the earlier runs do not show what happens within a day: too few days have two runs"
    usual = f"usual for a {allowance.machine} machine"
    if allowance.machine == "unknown":
        usual = "usual for a dedicated machine: the files do not say on which kind they were measured, and a virtual one drifts by more"
    return (
        f"{first}. The intervals allow for drift of {size}, {usual} (docs/statistics.md); {rest}. "
        f"{turns} needs no allowance; --assume-stable drops it."
    )


def _span(numbers: Sequence[int]) -> str:
    return " to ".join(dict.fromkeys((str(min(numbers)), str(max(numbers)))))


def columns(ordered: Sequence[Comparison], short: bool = True, medians: bool = True) -> list[Column]:
    """Case, both sides, the change with its interval, and the answer. `short`: what changes stands in the heading where it is one thing;
    `medians`: what they say stands beside the answer."""
    shown = [sides.sides(one) for one in ordered]
    subjects = {sides.subject(one) for one in ordered if one.ratio is not None}
    of_all = subjects.pop() if short and len(subjects) == 1 else ""
    kinds = ["" if of_all or one.ratio is None else f"{sides.subject(one)} " for one in ordered]
    changes = [f"{kind}{one.change}" for kind, one in zip(kinds, shown, strict=True)]
    return [
        Column("case", [Cell(words.clean(label(c.case))) for c in ordered], wrap=True, names=True),
        Column("A", [Cell(one.a) for one in shown], point=True, kind="number"),
        Column("B", [Cell(one.b) for one in shown], point=True, kind="number"),
        Column(f"{of_all}, B vs A" if of_all else "B vs A", [Cell(text, "bold") for text in changes], right=True),
        Column("95 % interval", [Cell(one.interval, "dim") for one in shown], right=True),
        Column("B is", [Cell(_answer_and_size(c, medians), ANSWER_STYLES[c.answer]) for c in ordered], wrap=True),
    ]


def answer(comparison: Comparison) -> str:
    """In words that fit the metric: what is neither a time nor a rate gets better or worse, not faster or slower."""
    if comparison.answer in ("faster", "slower") and sides.subject(comparison) not in ("time", "rate"):
        return "better" if comparison.answer == "faster" else "worse"
    return comparison.answer


def _answer_and_size(comparison: Comparison, medians: bool = True) -> str:
    """With the size of change that could not have been seen, and what the medians in the row say where that is another change."""
    size = comparison.mde_of_answer if _unseen(comparison) else None
    beside = "; ".join(filter(None, ("" if size is None else f"MDE {percent(size)}", sides.of_medians(comparison) if medians else "")))
    return f"{answer(comparison)} ({beside})" if beside else answer(comparison)


def _told_by_table(comparison: Comparison) -> bool:
    """Whether the smallest change that would have been seen is all there is to say."""
    return _unseen(comparison) and comparison.replicates != "pairs" and not busy.beside(comparison.notices)


def _unseen(comparison: Comparison) -> bool:
    """Whether no difference was seen, though one may be there."""
    low, high = comparison.low, comparison.high
    return comparison.answer == "inconclusive" and low is not None and high is not None and low <= 1 <= high


def interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"[{low:.3f} – {high:.3f}]"


def times(ratio: float | None) -> str:
    return words.DASH if ratio is None else f"{ratio:.3f} ×"


def _counts(comparisons: Iterable[Comparison]) -> str:
    counts = dict.fromkeys(ANSWER_STYLES, 0)
    for one in comparisons:
        counts[one.answer] += 1
    return ", ".join(f"{n} {answer}" for answer, n in counts.items() if n)


def tally(ordered: Sequence[Comparison]) -> str:
    return f"{words.counted(len(ordered), 'case')}: {_counts(ordered)}"


def reasons(comparisons: Sequence[Comparison], width: int) -> list[str]:
    """Why, each reason once; a number that differs between its cases is said as its range."""
    told = [one for one in comparisons if one.reason and one.answer != "same" and not _told_by_table(one)]
    lines: list[str] = []
    for group, said in words.alike(told, lambda one: one.reason, lambda one: one.answer):
        names = words.some([label(c.case) for c in group])
        lines += layout.paragraph(f"  {answer(group[0]):<14}  ", f"{names}: {words.clean(said)}", width)
    parts = (_apart, _split, _notices, _noise, _tails)
    return lines + [line for part in parts for line in part(comparisons, width)]


def _notices(comparisons: Sequence[Comparison], width: int) -> list[str]:
    """Notices about ratios, each once with its cases."""
    each = [(one, notice.text) for one in comparisons for notice in one.notices]
    lines: list[str] = []
    for group, said in words.alike(each, lambda pair: pair[1]):
        names = f"{words.some([label(one.case) for one, _ in group])}: " if len(comparisons) > 1 else ""
        lines += layout.paragraph(f"  {'notice':<14}  ", f"{names}{words.clean(said)}", width)
    return lines


def _apart(comparisons: Sequence[Comparison], width: int) -> list[str]:
    """Devices that differ from the others, each once with its worst case."""
    off: dict[str, list[tuple[Comparison, OnDevice]]] = {}
    for comparison in comparisons:
        for device in comparison.devices:
            if device.answer in ("better", "worse"):
                off.setdefault(device.device, []).append((comparison, device))
    ordered = sorted(off.items(), key=lambda item: min(device.vs_peers or 1.0 for _, device in item[1]))
    lines: list[str] = []
    for who, members in ordered[:APART]:
        comparison, device = min(members, key=lambda pair: pair[1].vs_peers or 1.0)
        more = f" and {len(members) - 1} more" if len(members) > 1 else ""
        others = sum(one.answer not in ("better", "worse") for one in comparison.devices)
        said = f"{words.clean(who)} differs from the other {others} in {label(comparison.case)}{more}: "
        apart = percent(abs((device.vs_peers or 1.0) - 1))
        said += f"speedup {times(device.ratio)} {interval(device.low, device.high)}, {apart} {device.answer} than they"
        lines += layout.paragraph(f"  {'device':<14}  ", said, width)
    rest = len(ordered) - APART
    return lines + ([f"  {'device':<14}  {rest} more {'differs' if rest == 1 else 'differ'} from the others: --json"] if rest > 0 else [])


def _split(comparisons: Sequence[Comparison], width: int) -> list[str]:
    """Cases whose devices differ while no majority of them agrees, the farthest apart in full."""
    split = [one for one in comparisons if any(device.answer == "split" for device in one.devices)]
    if not split:
        return []
    worst = max(split, key=_span_of_devices)
    low, *_, high = sorted(worst.devices, key=lambda device: device.ratio or 1.0)
    more = f" and {len(split) - 1} more" if len(split) > 1 else ""
    who, why = f"the {len(worst.devices)} devices", "no majority of them agrees, so none is named"
    if len(worst.devices) == 2:
        who = f"{words.clean(low.device)} and {words.clean(high.device)}"
        why = "of two devices nobody can say which is off: measure a third one beside them"
    said = f"{who} differ in {label(worst.case)}{more}: speedups {times(low.ratio)} and {times(high.ratio)}; {why}"
    return layout.paragraph(f"  {'device':<14}  ", said, width)


def _span_of_devices(comparison: Comparison) -> float:
    ratios = [device.ratio for device in comparison.devices if device.ratio]
    return max(ratios) / min(ratios) if ratios else 1.0


def _medians(comparisons: Sequence[Comparison], width: int) -> list[str]:
    """Cases whose medians say another change than the estimate."""
    apart = [f"{label(one.case)} {said.removeprefix(sides.MEDIANS)}" for one in comparisons if (said := sides.of_medians(one))]
    return layout.paragraph(f"  {'medians':<14}  ", f"they say another change: {words.some(apart, 8)} (B ÷ A − 1)", width) if apart else []


def _noise(comparisons: Sequence[Comparison], width: int) -> list[str]:
    """What to repeat where the noise hides a change."""
    hidden = Counter(one.noise for one in comparisons if one.answer == "inconclusive" and one.noise in REPEAT)
    lines: list[str] = []
    for name, count in hidden.most_common():
        said = f"in {words.counted(count, 'inconclusive case')} most noise lies {name.replace('_', ' ')}: {REPEAT[name]}"
        lines += layout.paragraph(f"  {'noise':<14}  ", said, width)
    return lines


def _tails(comparisons: Sequence[Comparison], width: int) -> list[str]:
    """Slow tails that moved where the median did not."""
    lines: list[str] = []
    for comparison in comparisons:
        if comparison.tail is None or comparison.tail_low is None or comparison.tail_high is None:
            continue
        if comparison.answer in ("faster", "slower"):
            continue
        min_effect = comparison.min_effect or 0.0
        if comparison.tail_high < 1 - min_effect or comparison.tail_low > 1 + min_effect:
            tail = replace(comparison, ratio=comparison.tail, low=comparison.tail_low, high=comparison.tail_high)
            change, low, high = (sides.percent(end) for end in tail.change if end is not None)
            way = "better" if comparison.tail > 1 else "worse"
            said = f"the slowest 5 % of calls are {way} in B: {sides.subject(comparison)} {change} [{low}, {high}]"
            said += (", though the median is not" if comparison.answer == "same" else "")
            lines += layout.paragraph(f"  {'tail':<14}  ", f"{label(comparison.case)}: {said}", width)
    return lines


def _differences(
    differences: Sequence[Difference], answers: Sequence[Comparison], names: tuple[str, str], width: int, color: bool
) -> list[str]:
    if not differences:
        return []
    changed = [one for one in answers if one.answer in ("faster", "slower")]
    could = list(dict.fromkeys(name for one in changed for name in one.environment_suspects))
    telling = [d for d in differences if d.matters != "no"]
    harmless = [d.name for d in differences if d.matters == "no"]
    lines = ["", layout.painted(f"what differs between {words.clean(names[0])} and {words.clean(names[1])}", "bold", color)]
    room = max((len(d.name) for d in telling), default=0)
    for one in telling:
        first = f"  {MATTERS[one.matters]:<10}  {one.name:<{room}}  "
        lines += layout.paragraph(first, " → ".join(words.differing(one.a, one.b, 80)), width, most=3)
    if harmless:
        shown = ", ".join(harmless[:SHOWN]) + (f" and {len(harmless) - SHOWN} more" if len(harmless) > SHOWN else "")
        lines += layout.paragraph("  does not matter: ", shown, width)
    if changed and could:
        lines += layout.paragraph("  could explain the changed cases: ", ", ".join(could), width)
    elif changed:
        lines += ["  nothing known that differs could explain the changed cases: look at what was run"]
    return lines


def reading(ordered: Sequence[Comparison], width: int, color: bool, rounds: str = kinds.OF_ROUNDS) -> list[str]:
    """One paragraph, of what is in the table. `rounds`: what intervals over them cover."""
    gates = {one.min_effect for one in ordered if one.min_effect is not None}
    min_effect = percent(max(gates)) if gates else ""
    parts = list(filter(None, [estimated(ordered)]))
    kinds = {one.replicates for one in ordered if one.replicates}
    if kinds == {"pairs"}:
        parts.append("the two runs of hotlap ab, pair by pair: its interleaved A/B test with early stopping, and the same answer")
    elif min_effect:
        parts.append(
            f"faster and slower: the whole interval is beyond the threshold of {min_effect}, and not by chance (false discovery rate 5 % "
            f"over all cases); same: the 90 % interval is within ± {min_effect}"
        )
    if any(_unseen(one) for one in ordered):
        parts.append("MDE: minimum detectable effect, with 80 % power")
    if kinds == {"rounds"}:
        parts.append(rounds)
    elif kinds == {"runs"}:
        parts.append("replicates are whole runs")
    elif kinds == {"devices of runs"}:
        parts.append("replicates are the devices of each run: what a run does to all of them alike is not in the intervals")
    elif kinds == {"members"}:
        parts.append("replicates are the members; rounds and devices of a member are condensed first")
    elif kinds == {"devices"}:
        parts.append("replicates are the devices, each on both sides: what a run does to all of them alike is not in the intervals")
    if any(one.devices for one in ordered):
        parts.append(
            "each device is compared with itself; one whose change differs from the others' by more than the noise of both is named, "
            "the worst first (in at most 5 % of comparisons a healthy one is, over all devices and cases)"
        )
    return [layout.painted(piece, "dim", color) for piece in layout.paragraph("", ". ".join(parts) + ".", width, most=None)]

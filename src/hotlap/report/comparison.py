"""What `compare` prints: a line per case, what differs between the environments, and how to read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from hotlap.record import Comparison, Difference
from hotlap.report import layout, words
from hotlap.report.layout import Cell, Column
from hotlap.report.listing import measured
from hotlap.store.bundle import Bundle
from hotlap.units import percent
from hotlap.work import label

ANSWER_STYLES = {"slower": "bad", "faster": "good", "cannot tell": "warn", "same": "", "not comparable": "dim"}  # in the order shown
MATTERS = {"yes": "matters", "unknown": "may matter", "no": "does not matter"}
REPEAT = {
    "between_runs": "more runs make it smaller, more rounds do not", "between_rounds": "more rounds make it smaller, longer ones do not",
    "within_rounds": "longer rounds make it smaller",
}
SHOWN = 12  # differences that do not matter are cut to so many


def comparison(
    found: Sequence[Comparison], sides: Sequence[Sequence[Bundle]] = (), differences: Sequence[Difference] = (), width: int = 100,
    color: bool = False,
) -> str:
    """A line per case: both sides, the ratio with its interval (above 1: B is better), and the answer; then what differs between
    the environments and could explain it."""
    if not found:
        return "nothing to compare: neither side has results"
    ordered = sorted(found, key=lambda c: list(ANSWER_STYLES).index(c.answer))
    lines = [*_sides(sides, width), *layout.Grid(_columns(ordered), width).lines(color), "", _tally(ordered), *_reasons(ordered, width)]
    lines += _differences(differences, ordered, width, color)
    return "\n".join([*lines, "", *_reading(ordered, width, color)])


def in_turns(found: Sequence[Comparison], texts: tuple[str, str], difference: float, width: int = 100, color: bool = False) -> str:
    """What `ab` found: the two sides, a line per case, and what would not have been seen."""
    ordered = list(found)
    lines = [f"{name}  {words.clean(text)}" for name, text in zip("AB", texts, strict=True)]
    commands = len(ordered) == 1 and ordered[0].case.workload == "command"  # its label would be A's command
    columns = _columns(ordered)[commands:]
    columns.insert(-1, Column("pairs", [Cell(str(one.n_a)) for one in ordered], right=True))
    lines += ["", *layout.Grid(columns, width).lines(color), ""]
    groups: dict[str, list[Comparison]] = {}
    for one in ordered:
        if one.reason:
            groups.setdefault(one.answer + words.shape(one.reason), []).append(one)
    for group in groups.values():
        names = "" if commands else f"{words.some([label(one.case) for one in group])}: "
        who = {"cannot tell": "cannot tell", "same": "B is the same"}.get(group[0].answer, f"B is {group[0].answer}")
        lines += layout.paragraph(f"  {who:<14}  ", f"{names}{words.clean(group[0].reason)}", width)
    reading = (
        f"measured in turns, A B B A; planned to find a change of {percent(difference)} with 80 % power. A ratio above 1 means that B is "
        "better. The interval is right although the test may stop early."
    )
    return "\n".join([*lines, "", *(layout.painted(piece, "dim", color) for piece in layout.paragraph("", reading, width))])


def matrix(found: Mapping[str, Sequence[Comparison]], first: str, width: int = 100, color: bool = False) -> str:
    """More than two sides: a line per case, a column per side with its ratio to the first; above 1 it is better."""
    cases = {one.case.id: label(one.case) for side in found.values() for one in side}
    columns = [Column("case", [Cell(words.clean(name)) for name in cases.values()], wrap=True)]
    columns.append(Column(first, [Cell("1", "dim") for _ in cases]))
    for name, side in found.items():
        by_case = {one.case.id: one for one in side}
        columns.append(Column(name, [_entry(by_case.get(key)) for key in cases]))
    tally = [f"  {name}: {_counts(side)}" for name, side in found.items()]
    reading = f"ratio to {first}, above 1 is better, whichever way the case counts; ? cannot tell, = the same, – not comparable"
    return "\n".join([*layout.Grid(columns, width).lines(color), "", *tally, "", *layout.paragraph("", reading, width)])


def _entry(one: Comparison | None) -> Cell:
    if one is None or one.ratio is None or one.answer == "not comparable":
        return Cell(words.DASH, "dim")
    sign = {"cannot tell": " ?", "same": " ="}.get(one.answer, "")
    return Cell(f"{one.ratio:.3f}{sign}", ANSWER_STYLES[one.answer])


def _sides(sides: Sequence[Sequence[Bundle]], width: int) -> list[str]:
    lines: list[str] = []
    for name, side in zip("AB", sides, strict=False):
        runs = [one.run for one in side]
        devices = dict.fromkeys(f"{d.selector} {d.machine or d.name}" for run in runs for d in measured(run))
        labels = dict.fromkeys(f"{k}={v}" for run in runs for k, v in run.labels.items())
        who = runs[0].id if len(runs) == 1 else f"{len(runs)} runs, {runs[0].id} to {runs[-1].id}"
        parts = [who, words.some(list(devices)), *list(labels)[:3]]
        lines += layout.paragraph(f"{name}  ", words.clean(" · ".join(p for p in parts if p)), width)
    both = sorted(set.intersection(*({one.run.id for one in side} for side in sides))) if sides else []
    lines += [f"on both sides: {words.some(both)}: the two are more alike than they should be"] if both else []
    return [*lines, ""] if lines else []


def _columns(ordered: Sequence[Comparison]) -> list[Column]:
    sides = [[c.a for c in ordered], [c.b for c in ordered]]
    a, b = (layout.aligned([words.quantity(s.median, c.unit) for c, s in zip(ordered, side, strict=True)]) for side in sides)
    return [
        Column("case", [Cell(words.clean(label(c.case))) for c in ordered], wrap=True),
        Column("A", [Cell(text) for text in a]),
        Column("B", [Cell(text) for text in b]),
        Column("B ÷ A", [Cell(text, "bold") for text in layout.aligned([_ratio(c.ratio) for c in ordered])]),
        Column("95 % interval", [Cell(_interval(c.low, c.high), "dim") for c in ordered]),
        Column("B is", [Cell(_answer(c), ANSWER_STYLES[c.answer]) for c in ordered]),
    ]


def _answer(one: Comparison) -> str:
    """The answer, with the size that could not be seen, or the size of the change."""
    if one.answer in ("faster", "slower") and one.ratio:
        return f"{one.answer} by {percent(abs(one.ratio - 1))}"
    if one.answer == "cannot tell" and one.reason.startswith("below "):
        return f"cannot tell {one.reason.partition(';')[0]}"
    return one.answer


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"[{low:.3f} – {high:.3f}]"


def _ratio(ratio: float | None) -> str:
    return words.DASH if ratio is None else f"{ratio:.3f} ×"


def _counts(found: Iterable[Comparison]) -> str:
    counts = dict.fromkeys(ANSWER_STYLES, 0)
    for one in found:
        counts[one.answer] += 1
    return ", ".join(f"{n} {answer}" for answer, n in counts.items() if n)


def _tally(ordered: Sequence[Comparison]) -> str:
    return f"{words.counted(len(ordered), 'case')}: {_counts(ordered)}"


def _reasons(found: Sequence[Comparison], width: int) -> list[str]:
    """Why, each reason once; numbers in it are those of its first case."""
    groups: dict[str, list[Comparison]] = {}
    for one in found:
        if one.reason and not (one.answer == "cannot tell" and one.reason.startswith("below ")) and one.answer != "same":
            groups.setdefault(one.answer + words.shape(one.reason), []).append(one)
    lines: list[str] = []
    for group in groups.values():
        names = words.some([label(c.case) for c in group])
        lines += layout.paragraph(f"  {group[0].answer:<14}  ", f"{names}: {words.clean(group[0].reason)}", width)
    return lines + _noise(found, width) + _tails(found, width)


def _noise(found: Sequence[Comparison], width: int) -> list[str]:
    """What to repeat where the noise hides a change."""
    hidden = Counter(one.noise for one in found if one.answer == "cannot tell" and one.noise in REPEAT)
    lines: list[str] = []
    for name, count in hidden.most_common():
        said = f"of {words.counted(count, 'case')} that cannot be told, most noise lies {name.replace('_', ' ')}: {REPEAT[name]}"
        lines += layout.paragraph(f"  {'noise':<14}  ", said, width)
    return lines


def _tails(found: Sequence[Comparison], width: int) -> list[str]:
    """Slow tails that moved where the median did not."""
    lines: list[str] = []
    for one in found:
        if one.tail is None or one.tail_low is None or one.tail_high is None or one.answer in ("faster", "slower"):
            continue
        gate = one.gate or 0.0
        if one.tail_high < 1 - gate or one.tail_low > 1 + gate:
            said = f"the slow 95 % tail is {'better' if one.tail > 1 else 'worse'} by {percent(abs(one.tail - 1))} in B, "
            said += f"{_interval(one.tail_low, one.tail_high)}, though the median is not"
            lines += layout.paragraph(f"  {'tail':<14}  ", f"{label(one.case)}: {said}", width)
    return lines


def _differences(found: Sequence[Difference], answers: Sequence[Comparison], width: int, color: bool) -> list[str]:
    if not found:
        return []
    changed = [one for one in answers if one.answer in ("faster", "slower")]
    could = list(dict.fromkeys(name for one in changed for name in one.could))
    telling = [d for d in found if d.matters != "no"]
    harmless = [d.name for d in found if d.matters == "no"]
    lines = ["", layout.painted("what differs between A and B", "bold", color)]
    room = max((len(d.name) for d in telling), default=0)
    for one in telling:
        first = f"  {MATTERS[one.matters]:<10}  {one.name:<{room}}  "
        lines += layout.paragraph(first, f"{words.clean(one.a)} → {words.clean(one.b)}", width, most=2)
    if harmless:
        shown = ", ".join(harmless[:SHOWN]) + (f" and {len(harmless) - SHOWN} more" if len(harmless) > SHOWN else "")
        lines += layout.paragraph("  does not matter: ", shown, width)
    if changed and could:
        lines += layout.paragraph("  could explain the changed cases: ", ", ".join(could), width)
    elif changed:
        lines += ["  nothing known that differs could explain the changed cases: look at what was run"]
    return lines


def _reading(ordered: Sequence[Comparison], width: int, color: bool) -> list[str]:
    """One paragraph, of what is in the table."""
    gates = {one.gate for one in ordered if one.gate is not None}
    gate = percent(max(gates)) if gates else ""
    parts = ["a ratio above 1 means that B is better, whichever way the case counts"]
    if gate:
        parts.append(f"faster and slower: by more than {gate} and not by chance (5 % over all cases); same: surely within ± {gate}")
    if any(one.answer == "cannot tell" for one in ordered):
        parts.append("cannot tell below x %: a change of x % or less may hide in the noise; more rounds or runs make x smaller")
    kinds = {one.replicates for one in ordered if one.replicates}
    if kinds == {"rounds"}:
        parts.append(
            "replicates are the rounds of these runs: what differs from run to run is not in the intervals, 4 runs a side would show it"
        )
    elif kinds == {"runs"}:
        parts.append("replicates are whole runs")
    return [layout.painted(piece, "dim", color) for piece in layout.paragraph("", ". ".join(parts) + ".", width, most=8)]

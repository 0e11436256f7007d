"""What `compare` prints: a line per case, what differs between the environments, and how to read it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hotlap.record import Comparison, Difference, OnDevice
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
FORCED = "forced: "  # how the reason of an answer begins that was asked for with --force
APART = 4  # devices that differ from the others and are named
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
    lines = [*of_sides(dict(zip("AB", sides, strict=False)), width), *_forced(ordered, width)]
    lines += [*layout.fitted(_columns(ordered), width).lines(color), "", tally(ordered), *doubts(ordered, width)]
    lines += _differences(differences, ordered, ("A", "B"), width, color)
    return "\n".join([*lines, "", *reading(ordered, width, color)])


def in_turns(found: Sequence[Comparison], texts: tuple[str, str], difference: float, width: int = 100, color: bool = False) -> str:
    """What `ab` found: the two sides, a line per case, and what would not have been seen."""
    ordered = list(found)
    lines = [f"{name}  {words.clean(text)}" for name, text in zip("AB", texts, strict=True)]
    commands = len(ordered) == 1 and ordered[0].case.workload == "command"  # its label would be A's command
    columns = _columns(ordered)[commands:]
    columns.insert(-1, Column("pairs", [Cell(str(one.n_a)) for one in ordered], right=True))
    lines += ["", *layout.Grid(columns, width).lines(color), ""]
    for group, why in words.alike((one for one in ordered if one.reason), lambda one: one.reason, lambda one: one.answer):
        names = "" if commands else f"{words.some([label(one.case) for one in group])}: "
        who = {"cannot tell": "cannot tell", "same": "B is the same"}.get(group[0].answer, f"B is {group[0].answer}")
        lines += layout.paragraph(f"  {who:<14}  ", f"{names}{words.clean(why)}", width)
    reading = (
        f"measured in turns, A B B A; planned to find a change of {percent(difference)} with 80 % power. A ratio above 1 means that B is "
        "better. The interval is right although the test may stop early."
    )
    return "\n".join([*lines, "", *(layout.painted(piece, "dim", color) for piece in layout.paragraph("", reading, width))])


@dataclass(frozen=True)
class Other:
    """A side that is held against the first: what was found, its runs, and what differs between the environments."""

    found: Sequence[Comparison]
    runs: Sequence[Bundle] = ()
    differences: Sequence[Difference] = ()


def matrix(others: Mapping[str, Other], first: str, runs: Sequence[Bundle] = (), width: int = 100, color: bool = False) -> str:
    """More than two sides: a line per case, a column per side with its ratio to the first and the interval; above 1 it is better."""
    cases = {one.case.id: label(one.case) for other in others.values() for one in other.found}
    sides = {first: runs, **{name: other.runs for name, other in others.items()}}
    lines = of_sides({words.clean(name): side for name, side in sides.items()}, width) if runs else []
    for name, other in others.items():
        lines += _forced(other.found, width, f"{words.clean(name)}, ")
    grids = [layout.Grid(_matrix_columns(cases, others, spans), width, gap) for spans in (True, False) for gap in (layout.GAP, 1)]
    grid = next((one for one in grids if one.narrowest <= width), grids[-1])
    lines += [*grid.lines(color), ""]
    for name, other in others.items():
        lines += [f"{words.clean(name)}: {_counts(other.found)}", *doubts(other.found, width)]
        lines += [*_differences(other.differences, other.found, (first, name), width, color), ""]
    reading = f"ratio to {first} with its 95 % interval, above 1 is better, whichever way the case counts; ? cannot tell, = the same, "
    reading += "– not comparable"
    spans = "" if grid in grids[:2] else "; there is no room for the intervals here: --json has them"
    return "\n".join([*lines, *layout.paragraph("", reading + spans, width)])


def _matrix_columns(cases: Mapping[str, str], others: Mapping[str, Other], spans: bool) -> list[Column]:
    columns = [Column("case", [Cell(words.clean(name)) for name in cases.values()], wrap=True)]
    for name, other in others.items():
        by_case = {one.case.id: one for one in other.found}
        columns.append(Column(words.clean(name), [_entry(by_case.get(key), spans) for key in cases]))
    return columns


def _entry(one: Comparison | None, spans: bool) -> Cell:
    if one is None or one.ratio is None or one.answer == "not comparable":
        return Cell(words.DASH, "dim")
    sign = {"cannot tell": " ?", "same": " ="}.get(one.answer, "")
    span = f" {interval(one.low, one.high)}" if spans and one.low is not None else ""
    return Cell(f"{one.ratio:.3f}{sign or '  '}{span}".rstrip(), ANSWER_STYLES[one.answer])


def _forced(found: Sequence[Comparison], width: int, who: str = "") -> list[str]:
    """That the sides are not of one kind stands above all answers."""
    said = dict.fromkeys(one.reason.partition(";")[0] for one in found if one.reason.startswith(FORCED))
    lines = [line for one in said for line in layout.paragraph(f"{who}{FORCED}", words.clean(one.removeprefix(FORCED)), width)]
    return [*lines, ""] if lines else []


def _why(one: Comparison) -> str:
    """The reason without what stands above all answers."""
    return one.reason.partition(";")[2].strip() if one.reason.startswith(FORCED) else one.reason


def of_sides(sides: Mapping[str, Sequence[Bundle]], width: int) -> list[str]:
    lines: list[str] = []
    room = max(map(len, sides), default=0)
    for name, side in sides.items():
        runs = [one.run for one in side]
        devices = dict.fromkeys(f"{d.selector} {d.machine or d.name}" for run in runs for d in measured(run))
        labels = dict.fromkeys(f"{k}={v}" for run in runs for k, v in run.labels.items())
        who = runs[0].id if len(runs) == 1 else f"{len(runs)} runs, {runs[0].id} to {runs[-1].id}"
        parts = [who, words.some(list(devices)), *list(labels)[:3]]
        lines += layout.paragraph(f"{name:<{room}}  ", words.clean(" · ".join(p for p in parts if p)), width)
    both = sorted(set.intersection(*({one.run.id for one in side} for side in sides.values()))) if sides else []
    where = "both" if len(sides) == 2 else "all"
    lines += [f"on {where} sides: {words.some(both)}: they are more alike than they should be"] if both else []
    return [*lines, ""] if lines else []


def _columns(ordered: Sequence[Comparison]) -> list[Column]:
    sides = [[c.a for c in ordered], [c.b for c in ordered]]
    a, b = (layout.aligned([words.quantity(s.median, c.unit) for c, s in zip(ordered, side, strict=True)]) for side in sides)
    return [
        Column("case", [Cell(words.clean(label(c.case))) for c in ordered], wrap=True),
        Column("A", [Cell(text) for text in a]),
        Column("B", [Cell(text) for text in b]),
        Column("B ÷ A", [Cell(text, "bold") for text in layout.aligned([times(c.ratio) for c in ordered])]),
        Column("95 % interval", [Cell(interval(c.low, c.high), "dim") for c in ordered]),
        Column("B is", [Cell(answer(c), ANSWER_STYLES[c.answer]) for c in ordered], wrap=True),
    ]


def answer(one: Comparison) -> str:
    """The answer, with the size that could not be seen, or the size of the change."""
    if one.answer in ("faster", "slower") and one.ratio:
        return f"{one.answer} by {percent(abs(one.ratio - 1))}"
    if one.answer == "cannot tell" and _why(one).startswith("below "):
        return f"cannot tell {_why(one).partition(';')[0]}"
    return one.answer


def interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"[{low:.3f} – {high:.3f}]"


def times(ratio: float | None) -> str:
    return words.DASH if ratio is None else f"{ratio:.3f} ×"


def _counts(found: Iterable[Comparison]) -> str:
    counts = dict.fromkeys(ANSWER_STYLES, 0)
    for one in found:
        counts[one.answer] += 1
    return ", ".join(f"{n} {answer}" for answer, n in counts.items() if n)


def tally(ordered: Sequence[Comparison]) -> str:
    return f"{words.counted(len(ordered), 'case')}: {_counts(ordered)}"


def doubts(found: Sequence[Comparison], width: int) -> list[str]:
    """Why, each reason once; a number that differs between its cases is said as its range."""
    told = [
        one for one in found
        if (why := _why(one)) and not (one.answer == "cannot tell" and why.startswith("below ")) and one.answer != "same"
    ]
    lines: list[str] = []
    for group, said in words.alike(told, _why, lambda one: one.answer):
        names = words.some([label(c.case) for c in group])
        lines += layout.paragraph(f"  {group[0].answer:<14}  ", f"{names}: {words.clean(said)}", width)
    return lines + _apart(found, width) + _noise(found, width) + _tails(found, width)


def _apart(found: Sequence[Comparison], width: int) -> list[str]:
    """Devices that differ from the others, each once with its worst case."""
    off: dict[str, list[tuple[Comparison, OnDevice]]] = {}
    for one in found:
        for device in one.devices:
            if device.answer in ("better", "worse"):
                off.setdefault(device.device, []).append((one, device))
    ordered = sorted(off.items(), key=lambda item: min(device.beside or 1.0 for _, device in item[1]))
    lines: list[str] = []
    for who, members in ordered[:APART]:
        one, device = min(members, key=lambda pair: pair[1].beside or 1.0)
        more = f" and {len(members) - 1} more" if len(members) > 1 else ""
        said = f"{words.clean(who)} differs from the other {len(one.devices) - 1} in {label(one.case)}{more}: {times(device.ratio)} "
        said += f"{interval(device.low, device.high)}, {percent(abs((device.beside or 1.0) - 1))} {device.answer} than they"
        lines += layout.paragraph(f"  {'device':<14}  ", said, width)
    rest = len(ordered) - APART
    return lines + ([f"  {'device':<14}  {rest} more {'differs' if rest == 1 else 'differ'} from the others: --json"] if rest > 0 else [])


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
            said += interval(one.tail_low, one.tail_high) + (", though the median is not" if one.answer == "same" else "")
            lines += layout.paragraph(f"  {'tail':<14}  ", f"{label(one.case)}: {said}", width)
    return lines


def _differences(
    found: Sequence[Difference], answers: Sequence[Comparison], names: tuple[str, str], width: int, color: bool
) -> list[str]:
    if not found:
        return []
    changed = [one for one in answers if one.answer in ("faster", "slower")]
    could = list(dict.fromkeys(name for one in changed for name in one.could))
    telling = [d for d in found if d.matters != "no"]
    harmless = [d.name for d in found if d.matters == "no"]
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


def reading(ordered: Sequence[Comparison], width: int, color: bool) -> list[str]:
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
    elif kinds == {"devices"}:
        parts.append("replicates are the devices, each on both sides: what a run does to all of them alike is not in the intervals")
    if any(one.devices for one in ordered):
        parts.append("each device is held against itself, and one that differs from the others is named (5 % over all devices and cases)")
    return [layout.painted(piece, "dim", color) for piece in layout.paragraph("", ". ".join(parts) + ".", width, most=8)]

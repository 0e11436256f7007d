"""What `opportunities` prints: steps with what is to be won, then each kernel that pays with its cause and what would have to change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hotlap.core.show import gaps, layout, words
from hotlap.core.show.table import Cell, Column
from hotlap.core.stats.stopping import FEWEST
from hotlap.core.units import percent, show
from hotlap.kernels.opportunities import Missing, Opportunities, Opportunity, StepOpportunities
from hotlap.kernels.show.coverage import left_out
from hotlap.kernels.similar import Peer

PERHAPS = 0.9  # share of the expected time below which a case that is not sure is worth a word
SHOWN, FEW = 12, 3  # opportunities in full; cases and kernels named where the rest is only counted
GOALS = {"expected": "expected", "bound": "bound", "ceiling": "best of the run"}
OF = {"expected": "expected time"}
READING = (
    "to win: measured − expected, × calls in one step; [ ] from the intervals of both (the run's 95 %, the model's 90 %). A case whose "
    "measured interval is not wholly above that of the expected time is no opportunity. ≤: nothing is expected of the kernel, and what "
    "it is held against is the bound or the run's best, so this is the most that could be won. A step is the kernels "
    "that the plan has of it: what --top left out is not in its time"
)


def opportunities(found: Opportunities, width: int = 100, color: bool = False) -> str:
    """Steps, opportunities, what is as expected, and what was not measured."""
    lines = [f"{words.clean(found.device)}  {words.clean(found.name)}", "", *_steps(found.steps, width, color)]
    lines += [*left_out(found.left_out, width), ""]
    if found.found:
        lines += ["where work pays", *_table(found.found[:SHOWN], width, color)]
    else:
        lines += layout.paragraph("", nothing(found), width)
    if len(found.found) > SHOWN:
        lines += [f"and {len(found.found) - SHOWN} more: --out writes a page with all, --json has their numbers"]
    lines += within(found, width) + missing(found.missing, found.steps, width)
    lines += ["", *(layout.painted(line, "dim", color) for line in layout.paragraph("", f"{READING}.", width, most=8))]
    if found.found:
        lines += ["", f"next    hotlap explain {found.run} --where case={found.found[0].case.id}"]
    return "\n".join(lines)


def nothing(found: Opportunities) -> str:
    """Why there is no opportunity, in a sentence."""
    if found.within and all(one.measured.low_s is None for one in found.within):
        return f"Whether a kernel is slower than expected is open: the run has no intervals, which take {FEWEST} rounds."
    return "No kernel of these steps is slower than expected by more than the intervals leave open."


def _steps(steps: Sequence[StepOpportunities], width: int, color: bool) -> list[str]:
    return layout.fitted(step_columns(steps), width, ("weight",)).lines(color)


def step_columns(steps: Sequence[StepOpportunities]) -> list[Column]:
    """Each step, how much of it was measured, and what is to be won."""
    return [
        Column("step", [Cell(words.clean(one.name)) for one in steps], wrap=True),
        Column("weight", [Cell(percent(one.weight)) for one in steps], right=True),
        Column("time", [Cell(show(one.seconds, "s")) for one in steps], right=True),
        Column("measured", [Cell(covered(one), "" if one.measured_s >= 0.95 * one.seconds else "warn") for one in steps], right=True),
        Column("to win", [Cell(won(one), "bold" if one.win_s else "dim") for one in steps]),
    ]


def covered(one: StepOpportunities) -> str:
    """The share of a step's time that was measured; of the rest only what is expected is known."""
    return f"{percent(one.measured_s / one.seconds)}{' of what is known' if one.without else ''}" if one.seconds else words.DASH


def won(one: StepOpportunities) -> str:
    """What is to be won in a step, with its interval and share."""
    if not one.win_s:
        return words.DASH
    least = "≤ " if one.most else ""
    return f"{least}{show(one.win_s, 's')} {between(one.win_low_s, one.win_high_s)}, {percent(one.win_s / one.seconds)}"


def between(low_s: float, high_s: float) -> str:
    """Both ends in seconds."""
    return f"[{show(max(low_s, 0.0), 's', 2)} – {show(high_s, 's', 2)}]"


def _table(found: Sequence[Opportunity], width: int, color: bool) -> list[str]:
    columns = [
        Column("", [Cell(str(n)) for n in range(1, len(found) + 1)], right=True),
        Column("case", [Cell(words.clean(one.label), "bold") for one in found], wrap=True),
        Column("measured", [Cell(show(one.measured.s, "s")) for one in found], right=True),
        Column("goal", [Cell(show(one.goal_s, "s")) for one in found], right=True),
        Column("reaches", [Cell(percent(one.share)) for one in found], right=True),
        Column("to win in a step", [Cell(win(one), "accent") for one in found]),
        Column("of it", [Cell(percent(one.places[0].share)) for one in found], right=True),
    ]
    grid = layout.fitted(columns, width, ("goal",))
    lines = [grid.header(color)]
    for place, one in enumerate(found):
        lines += grid.line(place, color)
        for head, said in details(one):
            lines += layout.paragraph(f"      {head:<8} ", said, width, most=6)
    return lines


def win(one: Opportunity) -> str:
    """In the step where it weighs most; ≤ where it is only the most that could be won."""
    first = one.places[0]
    most = "" if one.against == "expected" else "≤ "
    return f"{most}{show(first.win_s, 's')} {between(first.calls * one.win.lower_s, first.calls * one.win.upper_s)}"


def details(one: Opportunity) -> list[tuple[str, str]]:
    """Name and sentence of what stands under a kernel's line."""
    rows = [("where", _where(one)), ("goal", goal(one)), ("cause", _cause(one)), ("change", one.change)]
    if one.similar:
        rows.append(("similar", "; ".join(peer(two) for two in one.similar)))
    if one.step_energy_j and one.power_w:
        rows.append(("energy", f"{show(one.step_energy_j, 'J')} a step, at the {show(one.power_w, 'W')} that it draws"))
    if one.implementation not in ("", one.case.workload):
        rows.append(("kernel", words.clean(one.implementation)))
    return [(head, said) for head, said in rows if said]


def _where(one: Opportunity) -> str:
    shown = [f"{_kernels(place.kernels)} in {words.clean(place.step)}" for place in one.places[:FEW]]
    more = f"; and {words.counted(len(one.places) - FEW, 'more step')}" if len(one.places) > FEW else ""
    return "; ".join(shown) + more


def _kernels(calls: Mapping[str, float]) -> str:
    """With how often they call; the sum where there are several."""
    each = [f"{kernel} × {times:g}" for kernel, times in sorted(calls.items(), key=lambda one: -one[1])]
    return words.some(each, FEW) + (f" (× {sum(calls.values()):g} together)" if len(each) > 1 else "")


def goal(one: Opportunity) -> str:
    """What it is held against, and how far the bound is."""
    said = f"{GOALS[one.against]} {show(one.goal_s, 's')}"
    if one.expected is not None and one.expected.low_s is not None:
        said += f" {between(one.expected.lower_s, one.expected.upper_s)}"
    elif one.against != "expected":
        said = f"no expected time is known; {said}"
    if one.bound_s and one.against == "expected":
        said += f"; the bound is {show(one.bound_s, 's')}, at most {show(one.most_s or 0.0, 's')} a call can be won"
    return said


def _cause(one: Opportunity) -> str:
    found = words.clean(gaps.why(one.case, one.gap) or gaps.brief(one.case, one.gap))
    cause = "" if one.cause == "unknown" and found else one.cause.replace("_", " ")
    said = f"{cause}: {found}" if cause and found else cause or found
    signs = "; ".join(one.signs.values())
    by = "by the model" if one.expected else "as the run measured"
    model = f"{by} most of the time above the bound is {one.part}" if one.part and one.part != "unexplained" else ""
    if one.part == "unexplained" and one.expected:
        model = "the model does not explain most of the time above the bound: it is the kernel's own"
    return "; ".join(part for part in (said, signs, model) if part)


def peer(one: Peer) -> str:
    """A similar case that does better, in words."""
    if one.kind == "implementation":
        return f"{words.clean(one.label)} does the same work {one.ratio:.2f} × as fast"
    shares = f"{percent(one.share or 0.0)} of its {OF.get(one.of, one.of)}, this one {percent(one.own or 0.0)}"
    return f"{words.clean(one.label)} reaches {shares}"


def within(found: Opportunities, width: int) -> list[str]:
    """Cases as fast as expected, or not to be told from it, and how far their bounds are; and those that nothing is known of."""
    unheld = f"{words.some(found.unheld, FEW)}: nothing is known to hold {'it' if len(found.unheld) == 1 else 'them'} against."
    rest = layout.paragraph("", unheld, width) if found.unheld else []
    if not found.within:
        return ["", *rest] if rest else []
    far = [one for one in found.within if one.to_bound_s > 0][:FEW]
    count = words.counted(len(found.within), "other case" if found.found else "case")
    said = f"{count} {'is' if len(found.within) == 1 else 'are'} as fast as expected, or cannot be told from it"
    if far:
        ceilings = [f"{words.clean(one.label)} {show(one.to_bound_s, 's')}{_by(one)}" for one in far]
        said += ". Beyond what is expected, up to the bound, the most in a step: " + "; ".join(ceilings)
    return ["", *layout.paragraph("", f"{said}.", width, most=8), *_perhaps(found.within, width), *rest]


def _perhaps(found: Sequence[Opportunity], width: int) -> list[str]:
    """Cases that are slower than expected, though by less than the intervals leave open or without one."""
    slower = sorted((one for one in found if one.share < PERHAPS and one.places), key=lambda one: -one.score)
    if not slower:
        return []
    lines = []
    for known, why in ((True, "within its interval"), (False, "measured in too few rounds for an interval")):
        some = [one for one in slower if (one.measured.low_s is not None) == known]
        named = [f"{words.clean(one.label)} {one.measured.s / one.goal_s:.2g} × the expected time, {_share(one)}" for one in some[:FEW]]
        more = f"; and {len(some) - FEW} more" if len(some) > FEW else ""
        said = f"Perhaps, for they are slower than expected but {why}: {'; '.join(named)}{more}."
        lines += layout.paragraph("", said, width, most=8) if some else []
    return lines


def _share(one: Opportunity) -> str:
    return f"{show(one.places[0].win_s, 's')} and {percent(one.places[0].share)} of a step"


def _by(one: Opportunity) -> str:
    return f" (mostly {one.part})" if one.part and one.part != "unexplained" else ""


def missing(found: Sequence[Missing], steps: Sequence[StepOpportunities], width: int) -> list[str]:
    """Kernels without a number, by step, with their share of it."""
    if not found:
        return []
    lines = ["", "not measured"]
    for step in steps:
        own = [one for one in found if one.step == step.name]
        if not own:
            continue
        known = sum(one.seconds or 0.0 for one in own)
        share = f"{percent(known / step.seconds)} of the step's time" if known and step.seconds else "their time is not known"
        named = "; ".join(f"{words.clean(one.kernel)} ({words.clean(one.reason)})" for one in own[:FEW])
        more = f"; and {len(own) - FEW} more" if len(own) > FEW else ""
        first = f"  {words.clean(step.name)}: "
        lines += layout.paragraph("  ", f"{first.strip()} {words.counted(len(own), 'kernel')}, {share}: {named}{more}", width)
    return lines

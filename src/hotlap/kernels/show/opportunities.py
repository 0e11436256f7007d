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

PERHAPS = 0.9  # share of the expected time below which a case that is not sure is worth mentioning
SHOWN, FEW = 12, 3  # opportunities in full; cases and kernels named where the rest is only counted
GOALS = {"expected": "expected", "bound": "bound", "ceiling": "best of the run"}
OF = {"expected": "expected time"}
READING = (
    "to win: measured − expected, × calls in one step; [ ] from the intervals of both (the run's 95 %, the model's 90 %). A case whose "
    "measured interval is not wholly above that of the expected time is no opportunity. ≤: nothing is expected of the kernel, and what "
    "it is compared with is the bound or the run's best, so this is the most that could be won. A step is the kernels "
    "that the plan has of it: what --top left out is not in its time"
)


def opportunities(on_device: Opportunities, width: int = 100, color: bool = False) -> str:
    """Steps, opportunities, what is as expected, and what was not measured."""
    lines = [f"{words.clean(on_device.device)}  {words.clean(on_device.name)}", "", *_steps(on_device.steps, width, color)]
    lines += [*left_out(on_device.left_out, width), ""]
    if on_device.ranked:
        lines += ["where work pays", *_table(on_device.ranked[:SHOWN], width, color)]
    else:
        lines += layout.paragraph("", nothing(on_device), width)
    if len(on_device.ranked) > SHOWN:
        lines += [f"and {len(on_device.ranked) - SHOWN} more: --out writes a page with all, --json has their numbers"]
    lines += within(on_device, width) + missing(on_device.missing, on_device.steps, width)
    lines += ["", *(layout.painted(line, "dim", color) for line in layout.paragraph("", f"{READING}.", width, most=8))]
    if on_device.ranked:
        lines += ["", f"next    hotlap explain {on_device.run} --where case={on_device.ranked[0].case.id}"]
    return "\n".join(lines)


def nothing(on_device: Opportunities) -> str:
    """Why there is no opportunity, in a sentence."""
    if on_device.within and all(one.measured.low_s is None for one in on_device.within):
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


def covered(step: StepOpportunities) -> str:
    """The share of a step's time that was measured; of the rest only what is expected is known."""
    return f"{percent(step.measured_s / step.seconds)}{' of what is known' if step.without else ''}" if step.seconds else words.DASH


def won(step: StepOpportunities) -> str:
    """What is to be won in a step, with its interval and share."""
    if not step.win_s:
        return words.DASH
    least = "≤ " if step.most else ""
    return f"{least}{show(step.win_s, 's')} {between(step.win_low_s, step.win_high_s)}, {percent(step.win_s / step.seconds)}"


def between(low_s: float, high_s: float) -> str:
    """Both ends in seconds."""
    return f"[{show(max(low_s, 0.0), 's', 2)} – {show(high_s, 's', 2)}]"


def _table(ranked: Sequence[Opportunity], width: int, color: bool) -> list[str]:
    columns = [
        Column("", [Cell(str(n)) for n in range(1, len(ranked) + 1)], right=True),
        Column("case", [Cell(words.clean(one.label), "bold") for one in ranked], wrap=True),
        Column("measured", [Cell(show(one.measured.s, "s")) for one in ranked], right=True),
        Column("goal", [Cell(show(one.goal_s, "s")) for one in ranked], right=True),
        Column("reaches", [Cell(percent(one.share)) for one in ranked], right=True),
        Column("saving per step", [Cell(win(one), "accent") for one in ranked]),
        Column("of it", [Cell(percent(one.places[0].share)) for one in ranked], right=True),
    ]
    grid = layout.fitted(columns, width, ("goal",))
    lines = [grid.header(color)]
    for place, one in enumerate(ranked):
        lines += grid.line(place, color)
        for head, said in details(one):
            lines += layout.paragraph(f"      {head:<8} ", said, width, most=6)
    return lines


def win(opportunity: Opportunity) -> str:
    """In the step where it weighs most; ≤ where it is only the most that could be won."""
    first = opportunity.places[0]
    most = "" if opportunity.against == "expected" else "≤ "
    return f"{most}{show(first.win_s, 's')} {between(first.calls * opportunity.win.lower_s, first.calls * opportunity.win.upper_s)}"


def details(opportunity: Opportunity) -> list[tuple[str, str]]:
    """Name and sentence of what stands under a kernel's line."""
    rows = [("where", _where(opportunity)), ("goal", goal(opportunity)), ("cause", _cause(opportunity)), ("change", opportunity.change)]
    if opportunity.similar:
        rows.append(("similar", "; ".join(peer(two) for two in opportunity.similar)))
    if opportunity.step_energy_j and opportunity.power_w:
        rows.append(("energy", f"{show(opportunity.step_energy_j, 'J')} a step, at the {show(opportunity.power_w, 'W')} that it draws"))
    if opportunity.implementation not in ("", opportunity.case.workload):
        rows.append(("kernel", words.clean(opportunity.implementation)))
    return [(head, said) for head, said in rows if said]


def _where(opportunity: Opportunity) -> str:
    shown = [f"{_kernels(place.kernels)} in {words.clean(place.step)}" for place in opportunity.places[:FEW]]
    more = f"; and {words.counted(len(opportunity.places) - FEW, 'more step')}" if len(opportunity.places) > FEW else ""
    return "; ".join(shown) + more


def _kernels(calls: Mapping[str, float]) -> str:
    """With how often they call; the sum where there are several."""
    each = [f"{kernel} × {times:g}" for kernel, times in sorted(calls.items(), key=lambda one: -one[1])]
    return words.some(each, FEW) + (f" (× {sum(calls.values()):g} together)" if len(each) > 1 else "")


def goal(opportunity: Opportunity) -> str:
    """What it is compared with, and how far the bound is."""
    text = f"{GOALS[opportunity.against]} {show(opportunity.goal_s, 's')}"
    if opportunity.expected is not None and opportunity.expected.low_s is not None:
        text += f" {between(opportunity.expected.lower_s, opportunity.expected.upper_s)}"
    elif opportunity.against != "expected":
        text = f"no expected time is known; {text}"
    if opportunity.bound_s and opportunity.cached_share:
        text += (
            f"; the bound of {show(opportunity.bound_s, 's')} takes {percent(opportunity.cached_share)} of the bytes to come from the "
            "cache, whose rate is not published: how much can be won is open"
        )
    elif opportunity.bound_s and opportunity.against == "expected":
        text += f"; the bound is {show(opportunity.bound_s, 's')}, at most {show(opportunity.most_s or 0.0, 's')} a call can be won"
    return text


def _cause(opportunity: Opportunity) -> str:
    found = words.clean(gaps.why(opportunity.case, opportunity.gap) or gaps.brief(opportunity.case, opportunity.gap))
    cause = "" if opportunity.cause == "unknown" and found else opportunity.cause.replace("_", " ")
    text = f"{cause}: {found}" if cause and found else cause or found
    signs = "; ".join(opportunity.signs.values())
    by = "by the model" if opportunity.expected else "as the run measured"
    model = f"{by} most of the time above the bound is {opportunity.part}" if opportunity.part and opportunity.part != "unexplained" else ""
    if opportunity.part == "unexplained" and opportunity.expected:
        model = "most of the time above the bound is beyond what the model expects" + ("" if cause else ": it is the kernel's own")
    return "; ".join(part for part in (text, signs, model) if part)


def peer(peer: Peer) -> str:
    """A similar case that does better, in words."""
    if peer.kind == "implementation":
        return f"{words.clean(peer.label)} does the same work {peer.ratio:.2f} × as fast"
    shares = f"{percent(peer.share or 0.0)} of its {OF.get(peer.of, peer.of)}, this one {percent(peer.own or 0.0)}"
    return f"{words.clean(peer.label)} reaches {shares}"


def within(on_device: Opportunities, width: int) -> list[str]:
    """Cases as fast as expected, or not distinguishable from it, and how far their bounds are; and those that nothing is known of."""
    unheld = f"{words.some(on_device.unheld, FEW)}: nothing is known to compare {'it' if len(on_device.unheld) == 1 else 'them'} with."
    rest = layout.paragraph("", unheld, width) if on_device.unheld else []
    if not on_device.within:
        return ["", *rest] if rest else []
    far = [one for one in on_device.within if one.to_bound_s > 0][:FEW]
    count = words.counted(len(on_device.within), "other case" if on_device.ranked else "case")
    said = f"{count} {'is' if len(on_device.within) == 1 else 'are'} as fast as expected, or not distinguishable from it"
    if far:
        ceilings = [f"{words.clean(one.label)} {show(one.to_bound_s, 's')}{_by(one)}" for one in far]
        said += ". Beyond what is expected, up to the bound, the most in a step: " + "; ".join(ceilings)
    return ["", *layout.paragraph("", f"{said}.", width, most=8), *_perhaps(on_device.within, width), *rest]


def _perhaps(ranked: Sequence[Opportunity], width: int) -> list[str]:
    """Cases that are slower than expected, though by less than the intervals leave open or without one."""
    slower = sorted((one for one in ranked if one.share < PERHAPS and one.places), key=lambda one: -one.score)
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


def _share(opportunity: Opportunity) -> str:
    return f"{show(opportunity.places[0].win_s, 's')} and {percent(opportunity.places[0].share)} of a step"


def _by(opportunity: Opportunity) -> str:
    return f" (mostly {opportunity.part})" if opportunity.part and opportunity.part != "unexplained" else ""


def missing(missing: Sequence[Missing], steps: Sequence[StepOpportunities], width: int) -> list[str]:
    """Kernels without a number, by step, with their share of it."""
    if not missing:
        return []
    lines = ["", "not measured"]
    for step in steps:
        own = [one for one in missing if one.step == step.name]
        if not own:
            continue
        known = sum(one.seconds or 0.0 for one in own)
        share = f"{percent(known / step.seconds)} of the step's time" if known and step.seconds else "their time is not known"
        named = "; ".join(f"{words.clean(one.kernel)} ({words.clean(one.reason)})" for one in own[:FEW])
        more = f"; and {len(own) - FEW} more" if len(own) > FEW else ""
        first = f"  {words.clean(step.name)}: "
        lines += layout.paragraph("  ", f"{first.strip()} {words.counted(len(own), 'kernel')}, {share}: {named}{more}", width)
    return lines

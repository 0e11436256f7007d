"""What `selftest` prints: the noise of each case, what it hides, and whether the error rate holds here."""

from __future__ import annotations

from hotlap.core.analysis.selftest import NOMINAL, SIZES, Selftest, binomial_interval
from hotlap.core.show import layout, words
from hotlap.core.show.table import Cell, Column
from hotlap.core.units import percent

STATE_STYLES = {"pass": "good", "fail": "bad", "inconclusive": "warn"}


def selftest(outcome: Selftest, width: int = 100, color: bool = False) -> str:
    """A line per case, then the error rate and how it compares with measuring one side after the other."""
    if not outcome.cases:
        return "\n".join(["nothing was measured, so nothing can be said", *_left_out(outcome, width)])
    columns = [
        Column("case", [Cell(words.clean(one.label)) for one in outcome.cases], wrap=True),
        Column("between rounds", [Cell(_share(one.between)) for one in outcome.cases], right=True),
        Column("within", [Cell(_share(one.within)) for one in outcome.cases], right=True),
        Column("drift", [Cell(_share(one.drift), "warn") for one in outcome.cases], right=True),
        *(Column(f"seen by {n}", [Cell(_share(one.mde.get(n)), "bold") for one in outcome.cases], right=True) for n in SIZES),
    ]
    lines = layout.Grid(columns, width).lines(color)
    reading = (
        "between rounds, within: standard deviation as a share of the value. "
        f"drift: the change from the first round to the last along a line, {words.DASH} where none shows (Mann–Kendall test at 1 %). "
        f"seen by n: the smallest difference that n rounds a side, measured in turns, find with 80 % power at {percent(NOMINAL)}."
    )
    lines += [*_left_out(outcome, width), "", *layout.paragraph("", reading, width, most=8)]
    if outcome.comparisons:
        rate, low, high = outcome.rate or 0.0, outcome.low or 0.0, outcome.high or 0.0
        said = f"{outcome.called} of {outcome.comparisons} A/A comparisons were called different: {percent(rate)}, "
        said += f"95 % interval {percent(low)} to {percent(high)}; {percent(NOMINAL)} is what chance gives."
        lines += ["", *layout.paragraph("", said, width)]
        blocked = f"The same rounds with all of A before all of B: {outcome.blocked} of {outcome.comparisons}, "
        blocked += f"{percent(outcome.blocked / outcome.comparisons)}. {_order(outcome)}"
        lines += layout.paragraph("", blocked, width)
    answer = {
        "pass": "the error rate holds on this machine",
        "fail": "this machine cries wolf: its noise is not what the tests assume; use more runs",
        "inconclusive": "too few comparisons to tell: more rounds (--rounds 40) or cases",
    }[outcome.state]
    return "\n".join([*lines, "", f"{layout.painted(outcome.state.upper(), STATE_STYLES[outcome.state], color)}  {answer}"])


def _order(outcome: Selftest) -> str:
    """What the order did here."""
    drifts = any(one.drift is not None for one in outcome.cases)
    if drifts and outcome.blocked > outcome.called and binomial_interval(outcome.blocked, outcome.comparisons)[0] > NOMINAL:
        return "That is what drift does, and why 'hotlap ab' measures in turns."
    return "No drift that would fool this order shows in this run; 'hotlap ab' measures in turns because it cannot be counted on."


def _left_out(outcome: Selftest, width: int) -> list[str]:
    lines = [""] if outcome.left_out else []
    groups: dict[str, list[str]] = {}
    for name, why in outcome.left_out.items():
        groups.setdefault(why, []).append(name)
    for why, names in groups.items():
        lines += layout.paragraph("", words.clean(f"{words.some(names)}: {why}"), width)
    return lines


def _share(share: float | None) -> str:
    return words.DASH if share is None else percent(share)

"""The state of one case: invalid, not_run, error, inconclusive or measured."""

from __future__ import annotations

from hotlap.record import Gap, Result, Summary, Verdict
from hotlap.units import round_to

BEYOND = 0.01  # the fast end of the interval may beat a provable bound by this share before the number is not believed


def state(result: Result, summary: Summary, gap: Gap, precision: float | None) -> Verdict:
    """`precision` is the half-width the plan asks for, as a share of the median; None where none was asked for.

    A number faster than what the hardware can do is not a good number but a wrong one: it is `invalid`.
    """
    if result.status != "measured":
        return Verdict(state=result.status, reason=result.reason)
    beaten = _beats_bound(result, summary, gap)
    if beaten:
        return Verdict(state="invalid", reason=beaten)
    if summary.half_width is None:
        return Verdict(state="inconclusive", reason=f"{summary.rounds} of 6 rounds needed for a 95 % interval: run more rounds")
    if precision is not None and summary.half_width > precision:
        asked = f"the plan asks ± {_percent(precision)}: run more rounds or quiet the machine"
        return Verdict(state="inconclusive", reason=f"interval is ± {_percent(summary.half_width)}, {asked}")
    return Verdict(state="measured")


def _percent(share: float) -> str:
    return f"{round_to(share * 100, 2)} %"


def _beats_bound(result: Result, summary: Summary, gap: Gap) -> str:
    if gap.against != "bound" or gap.limit_value is None or summary.median is None:
        return ""
    if result.better == "higher":
        fast = summary.high if summary.high is not None else summary.median
        ratio = fast / gap.limit_value
    else:
        fast = summary.low if summary.low is not None else summary.median
        ratio = gap.limit_value / fast if fast > 0 else float("inf")
    if ratio <= 1 + BEYOND:
        return ""
    return f"{ratio - 1:.1%} faster than its provable bound: the timer, the work or the bound is wrong"

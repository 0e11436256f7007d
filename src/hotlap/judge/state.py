"""The state of one case: invalid, not_run, error, inconclusive or measured."""

from __future__ import annotations

from hotlap.record import Gap, Result, Summary, Verdict
from hotlap.stats.stopping import FEWEST
from hotlap.units import percent, round_to

BEYOND = 0.01  # by which even the slow end of the interval must beat a provable bound before the number is not believed


def state(result: Result, summary: Summary, gap: Gap) -> Verdict:
    """Whether the precision was reached stands in the summary: stopping and state share `stats.stopping`.

    A number faster than what the hardware can do is not a good number but a wrong one, where even the slow end of its interval is
    faster: it is `invalid`. A wide interval is uncertain, not wrong.
    """
    if result.status != "measured":
        return Verdict(state=result.status, reason=result.reason)
    if summary.median is None:
        return Verdict(state="error", reason=result.reason or "no round gave a number")
    if beaten := _beats_bound(result, summary, gap):
        return Verdict(state="invalid", reason=beaten)
    if result.too_short:
        return Verdict(state="inconclusive", reason="a call is too short to time: give it more work, or measure a batch of calls")
    if summary.rounds < FEWEST:
        return Verdict(state="inconclusive", reason=f"{summary.rounds} of {FEWEST} rounds{_confidence(summary)}: run more rounds")
    if summary.reached is False:
        return Verdict(state="inconclusive", reason=f"interval {_width(summary)}: {_more(summary)}")
    return Verdict(state="measured")


def _width(summary: Summary) -> str:
    return f"± {percent(summary.half_width, 2)}" if summary.half_width is not None else "of unknown width"


def _confidence(summary: Summary) -> str:
    return f", an interval of {round_to(summary.confidence * 100, 4)} %" if summary.confidence else ""


def _more(summary: Summary) -> str:
    return f"about {summary.needed} rounds reach the precision" if summary.needed else "more rounds would not reach the precision"


def _beats_bound(result: Result, summary: Summary, gap: Gap) -> str:
    if gap.against != "bound" or gap.limit_value is None or summary.median is None or result.too_short:
        return ""
    slow = summary.low if result.better == "higher" else summary.high
    slow = summary.median if slow is None else slow
    ratio = (slow / gap.limit_value) if result.better == "higher" else (gap.limit_value / slow if slow > 0 else float("inf"))
    if ratio <= 1 + BEYOND:
        return ""
    return f"even the slow end of its interval is {ratio - 1:.1%} faster than its provable bound: the timer, the work or the bound is wrong"

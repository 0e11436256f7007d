"""The state of one case: invalid, not_run, error, inconclusive or measured."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, isfinite

from hotlap.core.analysis import power_limit
from hotlap.core.record import Gap, Result, Summary, Verdict
from hotlap.core.stats.stopping import FEWEST
from hotlap.core.units import percent, round_to

QUIET = "stop other programs, or wait until they end: hotlap run --wait-quiet '5 min'"
MOST_ROUNDS = 100  # above which a quieter machine is the better advice
SPARE, SPARE_S = 1.2, 5.0  # of a budget that is advised: rounds that are longer, and what comes before the first
BEYOND = 0.01  # by which even the slow end of the interval must beat a provable bound before the number is not believed


def state(result: Result, summary: Summary, gap: Gap) -> Verdict:
    """Whether the precision was reached stands in the summary: stopping and state share `stats.stopping`.

    A number faster than what the hardware can do is not a good number but a wrong one, where even the slow end of its interval is
    faster: it is `invalid`. A wide interval is uncertain, not wrong.
    """
    if result.status != "measured":
        return Verdict(state=result.status, reason=result.reason, action="do not use the number" if result.status == "invalid" else "")
    if summary.median is None:
        return Verdict(state="error", reason=result.reason or "no round gave a number")
    if beaten := _beats_bound(result, summary, gap):
        return Verdict(state="invalid", reason=beaten, action="do not use the number: the timer, the counted work or the bound is wrong")
    if result.too_short:
        action = "give a call more work (a larger size), or time a batch of calls"
        return Verdict(state="inconclusive", reason="a call takes less time than timing it: the number is only a limit", action=action)
    if summary.rounds < FEWEST:
        gone = f" ({len(result.left_out)} more are left out)" if result.left_out else ""
        reason = f"{_rounds(summary.rounds)} of the {FEWEST} that a 95 % interval needs{gone}{_confidence(summary)}"
        action = QUIET if result.left_out else f"run at least {FEWEST} rounds (--rounds, --budget)"
        return Verdict(state="inconclusive", reason=reason, action=action)
    if summary.reached is False:
        return Verdict(state="inconclusive", reason=_too_wide(summary), action=_more(summary, result))
    return Verdict(state="measured")


def advised(reason: str, advice: str, result: Result) -> str:
    """A reason, and what to do about it where Hotlap measured the result."""
    return reason if result.imported else f"{reason}{advice}"


def _rounds(rounds: int) -> str:
    return "1 round" if rounds == 1 else f"{rounds} rounds"


def _too_wide(summary: Summary) -> str:
    """By the noise between rounds: the interval itself may be narrower by luck."""
    if summary.expected is None or not isfinite(summary.expected):
        return "the noise between rounds is not known"
    return f"by how much its rounds differ, ± {percent(summary.expected, 2)} is usual; the precision asked needs less"


def _confidence(summary: Summary) -> str:
    return f": their whole range holds the median with {round_to(summary.confidence * 100, 3)} %" if summary.confidence else ""


def _more(summary: Summary, result: Result) -> str:
    """Rounds alone narrow an interval; where not even a thousand would, or the clock is held back in some, something else has to change."""
    if power_limit.uneven(result):
        return power_limit.LASTING
    if summary.needed and summary.needed > MOST_ROUNDS:
        wanted = f"as noisy as it is, about {summary.needed} rounds would be needed ({asking_for(summary.needed, [result])})"
        return f"measure on a quieter machine, or ask for less (--precision): {wanted}"
    if summary.needed:
        return f"about {summary.needed} rounds should reach the precision asked: {asking_for(summary.needed, [result])}"
    return "more rounds will not reach the precision asked: reduce the noise, or ask for less (--precision)"


def asking_for(rounds: int, results: Sequence[Result]) -> str:
    """The options for so many rounds: with the budget that they take, by the time from round to round so far and
    how many of these were good."""
    starts = [sorted(one.began_s for one in result.rounds if one.began_s > 0) for result in results]
    each_s = max(((own[-1] - own[0]) / (len(own) - 1) for own in starts if len(own) > 1), default=0.0)
    if not each_s:
        return f"--rounds {rounds}"
    bad = max((len(result.rounds) / max(len(result.used), 1) for result in results), default=1.0)  # they are measured again
    needed_s = SPARE * rounds * each_s * bad + SPARE_S
    if needed_s <= 90:
        return f"--rounds {rounds} --budget '{5 * ceil(needed_s / 5)} s'"
    budget = f"{ceil(needed_s / 60)} min" if needed_s <= 5400 else f"{ceil(needed_s / 3600)} h"
    return f"--rounds {rounds} --budget '{budget}'"


def _beats_bound(result: Result, summary: Summary, gap: Gap) -> str:
    if gap.reference_kind != "bound" or gap.limit_value is None or summary.median is None or result.too_short:
        return ""
    slow = summary.low if result.better == "higher" else summary.high
    slow = summary.median if slow is None else slow
    ratio = (slow / gap.limit_value) if result.better == "higher" else (gap.limit_value / slow if slow > 0 else float("inf"))
    if ratio <= 1 + BEYOND:
        return ""
    return f"even the slow end of its interval is {percent(ratio - 1)} faster than the provable bound"

"""What many ranks lose by waiting for each other, as findings."""

from __future__ import annotations

from typing import Any

from hotlap.core.record import Finding
from hotlap.core.units import show
from hotlap.traces.advice.base import percent, rules
from hotlap.traces.arrivals import Arrivals, Late
from hotlap.traces.ranks import AllRanks, spans

LEAST_GAIN = 0.02  # of the window
NAMED = 3  # ranks with a finding each
ALONE = 0.5  # of all waiting: what one rank causes to be named first
SURE_TIMES = 8  # collectives for a confident word
RULE = "waiting-for-ranks"


def advise(whole: AllRanks, least: float = LEAST_GAIN) -> list[Finding]:
    """Findings about all ranks together, by gain. None where the order of arrivals cannot be determined."""
    known = whole.arrivals
    if known is None or not known.late:
        return []
    worth = [one for one in known.late if one.share >= max(least, min(rules()[RULE].least, least))]
    caused = sum(one.caused_s for one in known.late)
    if worth and (worth[0].caused_s >= ALONE * caused or len(worth) <= NAMED):
        return [_named(whole, known, one) for one in worth[:NAMED]]
    if known.lost_share >= max(least, LEAST_GAIN if least else 0.0):
        return [_in_turn(whole, known)]
    return []


def _named(whole: AllRanks, known: Arrivals, late: Late) -> Finding:
    rule = rules()[RULE]
    evidence: dict[str, Any] = {
        "rank": late.rank, "last_at": late.times, "collectives": late.of, "caused_s": late.caused_s, "after_the_median_s": late.median_s,
        "more_before_s": late.more, "more_in_kernels_s": late.kernels, "ends_within_s": whole.clocks.residual_ns / 1e9,
        "lost_share_of_all": known.lost_share,
    }  # fmt: skip
    why = ""
    if late.more:
        why = "; before those it spends longer in " + ", ".join(
            f"{cause.replace('_', ' ')} ({show(seconds / max(late.times, 1), 's')} each time)" for cause, seconds in late.more.items()
        )
    return Finding(
        title=rule.title,
        detail=(
            f"rank {late.rank} comes last to {late.times:,} of {late.of:,} collectives, {show(late.median_s, 's')} after the median other "
            f"rank; the others wait for it for {percent(late.share)} of the window with nothing to compute{why}"
        ),
        severity="warning", action=_remedy(late, rule.remedy), rule=RULE, where=f"rank {late.rank}", evidence=evidence,
        gain=(late.saved_share + late.share) / 2, gain_low=late.saved_share, gain_high=late.share,
        confidence=_confidence(whole, late),
    )  # fmt: skip


def _confidence(whole: AllRanks, late: Late) -> Any:
    """By how often it was late, and how well clocks are known against how late it was."""
    if late.times < SURE_TIMES:
        return "low"
    return "high" if whole.clocks.residual_ns / 1e9 <= 0.1 * late.median_s else "medium"


def _remedy(late: Late, default: str) -> str:
    """What to do by what the late rank does more of."""
    cause = next(iter(late.more), "")
    if cause == "data_loader":
        return "Its data comes late: look at that rank's storage and workers, and at how samples are shared out by length."
    if cause == "compute":
        kernels = ", ".join(name[:60] for name in late.kernels)
        return (
            (f"It computes longer, most in {kernels}. " if kernels else "It computes longer. ")
            + "Share the work out evenly (sequence lengths, experts, layers of a stage); where the work is the same the device is slower: "
            + "hotlap gate --against fleet."
        )
    return default


def _in_turn(whole: AllRanks, known: Arrivals) -> Finding:
    rule = rules()[RULE]
    most = known.late[: max(NAMED, 1)]
    return Finding(
        title=rule.title,
        detail=(
            f"waiting takes {percent(known.lost_share)} of the window, mean over ranks, and no rank causes half of it: {len(known.late)} "
            f"of {len(known.ranks)} ranks come last at times, most often rank {spans([one.rank for one in most])}"
        ),
        severity="warning",
        action="Ranks take turns at being late: work that varies from step to step (lengths, routing to experts), or jitter of hosts "
        "(garbage collection, other processes). Balance each step, pin processes, collect garbage on all ranks at the same step.",
        rule=RULE, where="all ranks in turn",
        evidence={
            "lost_share": known.lost_share, "late_ranks": len(known.late), "ends_within_s": whole.clocks.residual_ns / 1e9,
            "last_at": {str(one.rank): one.times for one in most},
        },
        gain=known.lost_share / 2, gain_low=0.0, gain_high=known.lost_share, confidence="medium",
    )  # fmt: skip

"""What would answer where a comparison of two servers did not: pairs, requests and time, by the spread of the pairs that there are."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hotlap.core.record import Record
from hotlap.core.show import layout, words
from hotlap.core.stats import sequential
from hotlap.core.stats.sequential import PILOT, SequentialOptions
from hotlap.core.stats.turns import aligned
from hotlap.core.trials.ab import SPARE, AbOptions, AbOutcome

ENDS = ("budget", "rounds_max", "planned_pairs")


class AbFurther(Record, frozen=True, kw_only=True):
    """Of one metric without an answer. `at_least`: pairs of a new comparison that counts none of these; None where no number of them is
    expected to answer. `change`: the one seen, a share of either sign; None with fewer than 6 pairs."""

    metric: str
    pairs: int  # that there are
    change: float | None
    at_least: int | None
    requests: int | None  # of each side, without those that warm up
    seconds: float | None  # for --budget, at the pace of these
    allowed: int  # --pairs
    planned: bool  # all pairs that were planned were measured, so more time alone changes nothing


def of(done: AbOutcome, options: AbOptions, metrics: Sequence[str], requests: int, elapsed_s: float, lost: int = 0) -> list[AbFurther]:
    """`requests`: of a block; `elapsed_s`: of the whole comparison; `lost`: pairs that the client spoilt."""
    if done.stop.kind not in ENDS:
        return []
    asked = SequentialOptions(options.difference, options.min_effect, level=options.level)
    every = []
    for metric, pair in zip(metrics, done.pairs, strict=True):
        if pair.decision and pair.decision.answer not in ("continue", "inconclusive"):
            continue
        x, y = aligned(pair.a, pair.b)
        if lost and not x:
            every.append(_unsound(metric, options))
            continue
        known = len(x) >= sequential.FEWEST
        least = sequential.wanted(x, y, asked) if known else PILOT
        least = max(least, len(x) + 1) if least else None
        per_s = elapsed_s / max(len(x), 1) / SPARE
        every.append(AbFurther(
            metric=metric, pairs=len(x), change=sequential.change(x, y) if known else None, at_least=least,
            requests=least * requests if least else None, seconds=least * per_s if least else None, allowed=options.most,
            planned=done.stop.kind == "planned_pairs",
        ))  # fmt: skip
    return every


def _unsound(metric: str, options: AbOptions) -> AbFurther:
    """Where the client spoilt every pair: nothing is known of the spread."""
    return AbFurther(
        metric=metric, pairs=0, change=None, at_least=None, requests=None, seconds=None, allowed=options.most, planned=False
    )


def lines(further: AbFurther, width: int) -> list[str]:
    """What to ask for, and what it rests on."""
    change = "" if further.change is None else f", {100 * further.change:+.1f} %"
    if not further.pairs and further.at_least is None:
        what = f"{further.metric}: no pair counts, so nothing says how many it takes: see to the client first"
        return layout.paragraph("more    ", what, width)
    seen = f"{words.counted(further.pairs, 'pair')}{change}"
    if further.at_least is None:
        what = f"{further.metric}: no larger --budget is expected to answer: with the change and the spread seen ({seen}) it takes over "
        return layout.paragraph("more    ", f"{what}{sequential.MOST} pairs; ask for a larger --resolve", width)
    asked = [f"--budget '{_time(further.seconds)}'"] if further.seconds else []
    asked += [f"--pairs {further.at_least}"] if further.at_least > further.allowed else []
    asked += ["a smaller --resolve, for all pairs that were planned were measured"] if further.planned else []
    basis = f"if the change and the spread are those seen ({seen})" if further.change is not None else "from which the rest is planned"
    what = f"{further.metric}: an answer needs at least {further.at_least} pairs, {further.requests} requests a side, {basis}"
    return layout.paragraph("more    ", f"{what}: {' and '.join(asked)}" if asked else what, width)


def _time(seconds: float | None) -> str:
    """Rounded up, as --budget takes it."""
    whole = seconds or 0.0
    return f"{math.ceil(whole)} s" if whole < 120 else f"{math.ceil(whole / 60)} min"

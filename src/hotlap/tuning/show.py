"""A search for people: its answer, what remains, what was dropped and why."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hotlap.core import units
from hotlap.core.show import layout, words
from hotlap.core.show.table import Cell, Column, Table, harmless
from hotlap.tuning.record import DropCode, DroppedSetting, TuningAsked, TuningOutcome, TuningSetting
from hotlap.tuning.session import TuningRead

WHY: dict[DropCode, str] = {
    "failed": "failed", "not_better": "not better", "no_own_contribution": "no contribution of its own", "over_limit": "over a limit",
    "results_changed": "changes results", "not_applicable": "does not apply here", "needs_root": "needs root", "no_time": "no time",
    "unchecked": "unchecked results", "not_named": "not named", "timed_out": "too slow",
}  # fmt: skip
MOST_DROPPED = 20
PHASES = {
    "as_found": "as found", "alone": "each alone", "together": "together", "rung": "halving", "leave_one_out": "leaving one out",
    "confirmation": "confirmation",
}  # fmt: skip


def text(shown: TuningRead, width: int, color: bool) -> str:
    lines = layout.paragraph("", asked(shown), width)
    done = shown.kept.outcome
    if done and done.contributions:
        lines += ["", *layout.fitted(contributions(done).columns, width).lines(color)]
    if every := dropped(shown):
        lines += ["", *layout.fitted(dropped_table(every[:MOST_DROPPED]).columns, width).lines(color)]
        if len(every) > MOST_DROPPED:
            lines.append(f"… and {len(every) - MOST_DROPPED} more: hotlap show {shown.run.id} --json")
    lines.append("")
    for label, what in facts(shown):
        lines += layout.paragraph(f"{label:<10}", what, width)
    return "\n".join(lines)


def named(settings: Sequence[TuningSetting]) -> str:
    each = (f"{setting.switch}={setting.value}" if setting.value else setting.switch for setting in settings)
    return harmless(" ".join(each)) or "as found"


def asked(shown: TuningRead) -> str:
    """What was searched, in a sentence."""
    ask = shown.kept.asked
    limits = f" under {', '.join(ask.under)}" if ask.under else ""
    switches = ", ".join(f"{name} ({', '.join(values)})" for name, values in ask.values.items())
    return harmless(f"{ask.kind} {ask.subject}: {ask.goal}, {ask.better} is better{limits}; switches: {switches}")


def facts(shown: TuningRead) -> list[tuple[str, str]]:
    """The answer last."""
    done, ask = shown.kept.outcome, shown.kept.asked
    pairs = []
    if shown.kept.guess:
        pairs.append(("guess", f"of {shown.kept.guessed[:10]}, tried like all others: {named(shown.kept.guess)}"))
    if done is None:
        return [*pairs, ("runs", f"{len(shown.trials)} so far"), ("answer", f"none yet: hotlap tuning run --resume {shown.run.id} goes on")]
    counts = ", ".join(f"{PHASES[phase]} {count}" for phase, count in done.runs.items())
    noise = f"; noise of one run {units.percent(done.noise)}" if done.noise is not None and math.isfinite(done.noise) else ""
    pairs.append(("runs", f"{sum(done.runs.values())} in fresh processes of {words.counted(done.tried, 'configuration')}: {counts}{noise}"))
    pairs += [("notice", harmless(notice.text)) for notice in done.notices]
    if (seen := seen_and_confirmed(ask, done)) is not None:
        pairs.append(("search", seen))
    return [*pairs, ("answer", answer(ask, done))]


def change(ask: TuningAsked, ratio: float) -> str:
    """Of the goal itself."""
    return words.signed((1 / ratio if ask.better == "higher" else ratio) - 1)


def seen_and_confirmed(ask: TuningAsked, done: TuningOutcome) -> str | None:
    """What the search had seen of the winner, beside what was confirmed."""
    if done.seen is None or done.ratio is None:
        return None
    return f"saw {ask.goal} {change(ask, done.seen)} with the winner, too good as the best of many: the confirmation alone is reported"


def answer(ask: TuningAsked, done: TuningOutcome) -> str:
    """In a sentence."""
    if done.answer == "budget":
        return _too_small(ask, done)
    if done.answer == "cannot_tell" and done.ratio is None:
        return "cannot tell: the time ended before the confirmation could be looked at; nothing was changed; give more by --budget"
    if done.ratio is None or done.low is None or done.high is None:
        return "nothing worth it: no setting was left that a confirmation could show; nothing was changed"
    ends = sorted((done.low, done.high), key=lambda ratio: 1 / ratio if ask.better == "higher" else ratio)
    fresh = f"{done.pairs} pairs of fresh runs that the search had not seen"
    interval = f"{ask.goal} {change(ask, done.ratio)} [{change(ask, ends[0])}, {change(ask, ends[1])}], {fresh}"
    if done.answer == "gain":
        return harmless(f"{named(done.winner)}: {interval}")
    best = f"the best candidate, {named(done.winner)}, gives {interval}"
    if done.answer == "nothing":
        return harmless(f"nothing worth it: {best}; nothing was changed")
    below = f" below {units.percent(done.mde)}" if done.mde is not None else ""
    return harmless(f"cannot tell{below}: {best}; nothing was changed; a quieter machine or a larger --budget sees smaller gains")


def _too_small(ask: TuningAsked, done: TuningOutcome) -> str:
    tells = f"--budget '{units.exact(done.needs_s, 's')}'" if done.needs_s and done.needs_s > ask.budget_s else "give more by --budget"
    every = f"all settings need about {done.needs_runs} runs: " if done.needs_runs else ""
    return f"cannot tell: the budget is too small to compare a setting with as found; {every}{tells}, or name fewer --switches"


def contributions(done: TuningOutcome) -> Table:
    """Of each setting of the winner."""
    rows = done.contributions
    return Table([
        Column("setting", [Cell(named(row.settings), "bold" if row.kept else "") for row in rows], names=True, wrap=True),
        Column("without it", [Cell(_ratio(row.ratio, row.low, row.high)) for row in rows], right=True, title="without it"),
        Column("pairs", [Cell(str(row.pairs)) for row in rows], right=True, title="pairs"),
        Column("", [Cell("stays" if row.kept else "dropped: no contribution of its own") for row in rows], wrap=True),
    ])  # fmt: skip


def _ratio(ratio: float | None, low: float | None, high: float | None) -> str:
    if ratio is None or low is None or high is None:
        return words.DASH
    return f"cost {words.signed(ratio - 1)} [{words.signed(low - 1)}, {words.signed(high - 1)}]"


def dropped(shown: TuningRead) -> list[DroppedSetting]:
    """What failed or may not be first, what was only not better last."""
    done = shown.kept.outcome
    every = [*(done.dropped if done else []), *shown.kept.refused]
    return sorted(every, key=lambda row: row.code in ("not_better", "not_applicable", "not_named"))


def _share(gain: float | None) -> str:
    return words.DASH if gain is None else words.signed(-gain)


def dropped_table(rows: Sequence[DroppedSetting]) -> Table:
    return Table([
        Column("dropped", [Cell(named(row.settings)) for row in rows], names=True, wrap=True),
        Column("runs", [Cell(str(row.runs) if row.runs else words.DASH) for row in rows], right=True, title="runs"),
        Column("cost seen", [Cell(_share(row.gain)) for row in rows], right=True, title="cost seen"),
        Column("why", [Cell(harmless(f"{WHY[row.code]}: {row.reason}" if row.reason else WHY[row.code])) for row in rows], wrap=True),
    ])  # fmt: skip

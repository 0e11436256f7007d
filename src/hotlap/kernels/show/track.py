"""What `track` prints: a line per kernel with its life as a sparkline, what brought each change and what it costs, and correctness."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hotlap.core.show import layout, words
from hotlap.core.show.history import places, sparkline, trend, when
from hotlap.core.show.table import Cell, Column
from hotlap.core.units import percent, show
from hotlap.kernels.track import Checks, Cost, KernelHistory, LevelChange, Total, Tracked

SPARK = 20  # cells
SAME = 0.005  # of the time: what is called the same
UNTOLD = 0.05  # of the time: so large a difference without a change found is not called the same
FAR = 1.95  # times, from which a ratio is said as one and not as a percentage
FEW, STEPS = 3, 2  # suspects and steps named at a change
READING = (
    "first, best, now: medians of stretches between changes. Percentages are of time, whichever way the case counts: + is slower. "
    "Short series are tested at each border between revisions, against what neighbouring runs differ by elsewhere, or with too few "
    "runs by their rounds, and then provisionally; long ones point by point. ?: no change was found, for the noise or for too few runs"
)


def track(tracked: Tracked, width: int = 100, color: bool = False) -> str:
    """Kernels that got slower first, then those with other changes, then the rest."""
    if not tracked.lives and not tracked.never:
        return "no kernel: no run that was asked for has a measured case"
    ordered = sorted(tracked.lives, key=worst_first)
    lines = _table(ordered, width, color) if ordered else []
    lines += ["", *_totals(tracked.totals, width, color)] if tracked.totals else []
    lines += _never(tracked, width)
    turns = sum(len(one.turns) for one in tracked.lives)
    slower = sum(one.since_best > 1 + SAME for one in tracked.lives if one.turns)
    tally = f"{words.counted(tracked.runs, 'run')}, {words.counted(tracked.kernels, 'kernel')}: {words.counted(turns, 'change')}"
    wrong_now = sum(one.checks.last_wrong for one in tracked.lives)
    told = f"{slower} slower now than at {'its' if slower == 1 else 'their'} best" + (f", {wrong_now} wrong now" if wrong_now else "")
    lines += ["", f"{tally}; {told}"]
    lines += [layout.painted(line, "dim", color) for line in layout.paragraph("", f"{READING}.", width)]
    return "\n".join([*lines, *_next(ordered)])


def worst_first(kernel: KernelHistory) -> tuple[bool, bool, float]:
    """Sorts wrong results to the front, then what lost most against its best by a change."""
    lost = kernel.since_best if kernel.turns and math.isfinite(kernel.since_best) else 1.0
    return not (kernel.checks.last_wrong or kernel.checks.grown), not kernel.turns, -lost


def _table(ordered: Sequence[KernelHistory], width: int, color: bool) -> list[str]:
    where = places([one.series for one in ordered])
    single = len(set(where)) == 1
    without = ("first", "best", "device") if single else ("first", "best")
    shown = [column for column in columns(ordered, where) if column.head not in without]
    grid = layout.fitted(shown, width, ("since first",))
    lines = [*([where[0], ""] if single else []), grid.header(color)]
    for place, kernel in enumerate(ordered):
        lines += grid.line(place, color)
        for turn in kernel.turns:
            lines += _turn(kernel, turn, width, color)
        lines += trend(kernel.series, width, color)
        if kernel.absent:
            gone = f"the last {words.counted(kernel.absent, 'run')} of its plan did not measure it"
            lines += layout.paragraph("    gone     ", gone, width)
        if said := wrong(kernel.checks):
            lines += layout.paragraph("    results  ", said, width)
    return lines


def columns(ordered: Sequence[KernelHistory], where: Sequence[str]) -> list[Column]:
    """Each kernel: its levels, what it lost or gained, and whether its results are right; on a terminal its life as blocks."""
    levels = {"first": [life.first for life in ordered], "best": [life.best for life in ordered], "now": [life.now for life in ordered]}
    printed = {
        head: [Cell(words.quantity(level.value, life.series.unit)) for life, level in zip(ordered, some, strict=True)]
        for head, some in levels.items()
    }
    return [
        Column("kernel", [Cell(words.clean(life.series.label), "bold") for life in ordered], wrap=True),
        Column("device", [Cell(place, "dim") for place in where], wrap=True),
        Column("runs", [Cell(str(len(life.series.points))) for life in ordered], right=True),
        Column("", [Cell(_spark(life), "accent") for life in ordered]),
        *(Column(head, cells, point=True, kind="n") for head, cells in printed.items()),
        Column("since first", [_moved(life.since_first, _changed(life)) for life in ordered], right=True),
        Column("since best", [_moved(life.since_best, _changed(life)) for life in ordered], right=True),
        Column("results", [Cell(right(life.checks), "" if right(life.checks) == "right" else "bad") for life in ordered]),
    ]


def _spark(kernel: KernelHistory) -> str:
    return sparkline([point.value for point in kernel.series.points], [turn.change.index for turn in kernel.turns], SPARK)


def _changed(kernel: KernelHistory) -> bool:
    return bool(kernel.turns) or (kernel.series.trend is not None and kernel.series.trend.moves)


def _moved(ratio: float, changed: bool) -> Cell:
    """A time ratio in words; without a change found a small difference is noise, and of a large one nothing is known."""
    if not math.isfinite(ratio) or abs(ratio - 1) < (SAME if changed else UNTOLD):
        return Cell("same" if math.isfinite(ratio) else words.DASH, "dim")
    if not changed:
        return Cell(f"{times(ratio)} ?", "dim")
    return Cell(times(ratio), "bad" if ratio > 1 else "good")


def times(ratio: float) -> str:
    """A ratio of times for a narrow column: `+12 %`, `3.1 ×`."""
    return f"{_factor(ratio)} ×" if _far(ratio) else words.signed(ratio - 1)


def _far(ratio: float) -> bool:
    return ratio >= FAR or ratio <= 1 / FAR


def _factor(ratio: float, digits: int = 2) -> str:
    return f"{ratio:.0f}" if ratio >= 99 else f"{ratio:#.{digits}g}".rstrip(".")


def moved(ratio: float) -> str:
    """`12 % slower`, `2.5 × the time`."""
    if not math.isfinite(ratio):
        return words.DASH
    if _far(ratio):
        return f"{_factor(ratio)} × the time"
    return f"{percent(abs(ratio - 1))} {'slower' if ratio > 1 else 'faster'}"


def right(checks: Checks) -> str:
    """Correctness in a word or two."""
    if checks.last_wrong:
        return "WRONG now"
    if checks.wrong:
        return f"{len(checks.wrong)} wrong"
    return "error grows" if checks.grown else "right"


def wrong(checks: Checks) -> str:
    """What is to be said of wrong results and growing errors; "" where nothing is."""
    parts = []
    if checks.wrong:
        runs = f"{len(checks.wrong)} of {checks.runs} runs gave no valid result"
        parts.append(f"{runs}, the last {checks.wrong[-1]}: {words.clean(checks.reason)}")
    if checks.grown and checks.first_error is not None and checks.now_error is not None:
        parts.append(f"the error grew from {percent(checks.first_error)} to {percent(checks.now_error)} of its tolerance")
    return "; ".join(parts)


def _turn(life: KernelHistory, turn: LevelChange, width: int, color: bool) -> list[str]:
    first = f"    {when(turn.time_s)} UTC  "
    pieces = layout.paragraph(first, change_text(life, turn), width, most=8)
    style = "bad" if turn.time_ratio > 1 else "good" if turn.time_ratio < 1 else ""
    return [layout.painted(first, style, color) + pieces[0][len(first) :], *pieces[1:]]


def change_text(life: KernelHistory, turn: LevelChange) -> str:
    """A change in words: how much, how sure, what brought it, what it costs."""
    unit = life.series.unit
    levels = f"{words.quantity(turn.change.before, unit)} → {words.quantity(turn.change.after, unit)}"
    kind = "drifted: " if turn.change.kind == "drift" else ""
    sure = "provisional: measure again" if turn.change.provisional else f"p {turn.change.p:.1g}"
    parts = [f"{kind}{moved(turn.time_ratio)} {_ends(life, turn)}, {levels}, {sure}".replace("  ", " "), brought(turn)]
    if turn.costs:
        parts.append("; ".join(cost(one) for one in turn.costs[:STEPS]))
    return "; ".join(part for part in parts if part)


def _ends(life: KernelHistory, turn: LevelChange) -> str:
    """The 95 % interval, of time."""
    change = turn.change
    if not (math.isfinite(change.low) and math.isfinite(change.high)) or change.low <= 0:
        return ""
    ends = (1 / change.high, 1 / change.low) if life.series.better == "higher" else (change.low, change.high)
    return interval(turn.time_ratio, *ends)


def interval(ratio: float, low: float, high: float) -> str:
    """About a ratio of times, as `moved` says it: `[+9.8 % to +14.1 %]`, `[2.4 to 2.6 ×]`."""
    if _far(ratio):
        return f"[{_factor(low, 3)} to {_factor(high, 3)} ×]"
    return f"[{words.signed(low - 1)} to {words.signed(high - 1)}]"


def brought(turn: LevelChange) -> str:
    """Which change brought it, as far as the runs can tell."""
    if turn.change.kind == "drift":
        return "bit by bit: no single change brought it"
    if not turn.suspects:
        return "nothing that the runs know of changed there: label them with --label revision=…"
    first, *rest = [f"{one.name.removeprefix('label ')} {' → '.join(words.differing(one.a or '–', one.b or '–'))}" for one in turn.suspects]
    if not rest:
        return f"brought by {first}"
    more = f" and {len(rest) - FEW + 1} more" if len(rest) >= FEW else ""
    return f"brought by {first}, or by what changed with it: {', '.join(rest[: FEW - 1])}{more}"


def cost(cost: Cost) -> str:
    """What one network pays, or gains."""
    word = "costs" if cost.seconds > 0 else "saves"
    return f"{word} {show(abs(cost.seconds), 's')} in a step of {words.clean(cost.step)} ({words.clean(cost.kernel)} × {cost.calls:g})"


def _totals(totals: Sequence[Total], width: int, color: bool) -> list[str]:
    kept = [column for column in total_columns(totals) if column.head != "device" or len({one.device for one in totals}) > 1]
    return layout.fitted(kept, width, ("first",)).lines(color)


def total_columns(totals: Sequence[Total]) -> list[Column]:
    """Steps of networks: the sums of their kernels."""
    return [
        Column("step of a network", [Cell(words.clean(total.step)) for total in totals], wrap=True),
        Column("device", [Cell(words.clean(total.device), "dim") for total in totals], wrap=True),
        Column("kernels", [Cell(f"{total.kernels} of {total.of}") for total in totals], right=True),
        Column("first", [Cell(show(total.first_s, "s")) for total in totals], right=True),
        Column("best", [Cell(show(total.best_s, "s")) for total in totals], right=True),
        Column("now", [Cell(show(total.now_s, "s"), "bold") for total in totals], right=True),
        Column("since best", [_moved(total.now_s / total.best_s, True) for total in totals], right=True),
    ]


def _never(tracked: Tracked, width: int) -> list[str]:
    if not tracked.never:
        return []
    groups: dict[str, list[str]] = {}
    for one in tracked.never:
        groups.setdefault(one.reason, []).append(one.label)
    lines = ["", "never measured"]
    for reason, labels in groups.items():
        lines += layout.paragraph("  ", f"{words.some(labels)}: {words.clean(reason)}", width)
    return lines


def _next(ordered: Sequence[KernelHistory]) -> list[str]:
    """What would find the commit, or tell the two sides apart."""
    for one in ordered:
        for turn in reversed(one.turns):
            if turn.time_ratio > 1 and turn.change.index:
                if turn.before and turn.after and turn.before != turn.after:
                    return ["", f"next    hotlap kernel track report --from {turn.before} --to {turn.after}"]
                return ["", f"next    hotlap compare {one.series.points[turn.change.index - 1].run} {turn.run}"]
    return []

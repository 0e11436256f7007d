"""Which steps of a process are steady, and how long they take.

A process warms up until steps go by in which nothing is compiled, captured or tried again by the allocator, and until its level no longer
changes early on; what comes before is kept as `warm`. What befalls it later is in the window: the figure then stands with its doubt.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from hotlap.core.stats.changes import changes
from hotlap.training.record import PARTS, Floats, TrainingEvent, TrainingProcess, column, unexplained

QUIET, QUIET_SHARE = 5, 0.1  # steps without an event that end the warm-up, at least, and as a share of all
BLOCKS = 8  # means of stretches that are kept of a process, so that its spread is known
FEW = 5  # steady steps below which a process says little
DELAYED, DELAY_S = 0.02, 5e-5  # of a step: a thread that waited for a processor for longer was disturbed
FEWEST_QUIET, QUIET_STEPS = 10, 0.1  # undisturbed steps, at least and as a share, that speak for all
MOST = 0.5  # of the time that threads waited for a processor: where other programs used less, and their own threads more, it was for those
LEVEL = 0.05  # smallest change of level within a process that is told
BOUND = ("compile", "recompile", "capture", "allocator")


class Level(NamedTuple):
    """The time of a step changed for good."""

    step: int
    before_s: float
    after_s: float


class SteadySteps(NamedTuple):
    """Of one process. `step_s` is the mean wait for data, without what of it was for a processor, and the median of the rest, over its
    `used` steps: those in which the thread did not wait for a processor (`quiet`), or all. A loader with processes of its own contends for
    processors itself: then all, waits `undisturbed`. Where the thread waited `behind_own` threads, that is a cost of the program: then
    all, as they are. So foreign interruptions are not in it, and late batches are. `mean_s` has all."""

    first: int = 1  # steady from this step on
    steps: int = 0
    step_s: float | None = None
    mean_s: float | None = None
    parts_s: dict[str, float] = {}  # of the steps that `step_s` is of: they sum to it, `unexplained` among them
    wait_s: float | None = None  # for data, mean
    tokens: float | None = None  # of a step, mean
    samples: float | None = None
    blocks_s: list[float] = []
    inside: list[TrainingEvent] = []  # events within the window
    levels: list[Level] = []
    compile_s: float = 0.0  # spent compiling before it
    began_s: float = 0.0
    ended_s: float = 0.0
    quiet: int = 0  # steady steps in which the thread did not wait for a processor
    used: int = 0  # steady steps that `step_s` is of


def enough(process: TrainingProcess, quiet: int, steps: int) -> bool:
    """Whether its undisturbed steps may speak for all."""
    return not process.workers and quiet >= max(FEWEST_QUIET, QUIET_STEPS * steps)


def behind_own(processes: Sequence[TrainingProcess]) -> bool:
    """Whether their threads waited for a processor behind threads of the same program: others used too little to be the reason, and they
    themselves enough."""
    known = [(one.run_delay_s, one.foreign_s, one.helpers_s) for one in processes]
    if not known or any(None in one for one in known):
        return False
    waited_s, foreign_s, helpers_s = (sum(part or 0.0 for part in parts) for parts in zip(*known, strict=True))
    return max(foreign_s, 0.0) < MOST * waited_s < helpers_s


def of_process(process: TrainingProcess, table: Floats, quiet_only: bool | None = None, own: bool | None = None) -> SteadySteps:
    """`table`: its steps, as `record.rows` reads them. `quiet_only`: over undisturbed steps alone; None: where there are enough. `own`:
    its thread waited behind threads of its own; None: by what is known of this process."""
    if not len(table):
        return SteadySteps()
    count = len(table)
    first = _first(process.events, count)
    time = column(table, "time")
    first, levels = _settled(time, first)
    window = table[first - 1 :]
    window = window[~np.isin(column(window, "number"), process.resumed)]  # the first after a wait finds cold caches
    inside = [one for one in process.events if one.kind in BOUND and one.step >= first]
    compile_s = sum(one.seconds for one in process.events if one.kind in ("compile", "capture"))
    if not len(window):
        return SteadySteps(first=first, compile_s=compile_s, inside=inside)
    wait = np.nan_to_num(column(window, "data_wait"))
    rest = column(window, "time") - wait
    foreign = 0.0 if (behind_own([process]) if own is None else own) else 1.0
    delay = foreign * np.nan_to_num(column(window, "run_delay"))
    alone = np.maximum(wait - foreign * np.nan_to_num(column(window, "wait_delay")), 0.0)
    wait = undisturbed(wait, delay) if process.workers else alone  # workers contend with the step for processors: that is the loader's cost
    quiet = np.flatnonzero(delay <= np.maximum(DELAYED * (wait + rest), DELAY_S))
    if enough(process, len(quiet), len(window)) if quiet_only is None else quiet_only and len(quiet):
        used = quiet
    else:
        used = np.arange(len(window))
    wait, rest = wait[used], rest[used]
    step_s = float(wait.mean() + np.median(rest))
    return SteadySteps(
        first, len(window), step_s, float(column(window, "time").mean()), _parts(window[used], float(wait.mean()), rest),
        _mean(window, "data_wait"), _mean(window, "tokens"), _mean(window, "samples"), _blocks(wait, rest), inside, levels, compile_s,
        float(window[0, 1] - window[0, 2]), float(window[-1, 1]), len(quiet), len(used),
    )  # fmt: skip


def _parts(window: Floats, wait_s: float, rest: Floats) -> dict[str, float]:
    """The mean wait, and the parts of the median rest: as they share the steps of the middle half. None is below zero."""
    low, high = np.sort(rest)[[len(rest) // 4, len(rest) - 1 - len(rest) // 4]]
    middle = window[(rest >= low) & (rest <= high)]
    seen = [name for name in PARTS if not np.isnan(column(window, name)).all()]
    parts = {name: float(np.nan_to_num(column(middle, name)).mean()) for name in seen if name != "data_wait"}
    parts["unexplained"] = max(float(unexplained(middle).mean()), 0.0)
    total = sum(parts.values())
    scale = float(np.median(rest)) / total if total > 0 else 0.0
    waited = {"data_wait": wait_s} if "data_wait" in seen else {}
    return {**waited, **{name: seconds * scale for name, seconds in parts.items()}}


def undisturbed(wait: Floats, delay: Floats) -> Floats:
    """Waits, without what a step waited for a processor beyond the usual wait: then other programs ran, not the loader."""
    usual = float(np.median(wait))
    return np.where(wait > usual, np.maximum(wait - delay, usual), wait)


def _first(events: list[TrainingEvent], count: int) -> int:
    """The first step after the first long enough stretch without events begins; never the very first step."""
    quiet = max(QUIET, round(QUIET_SHARE * count))
    bad = sorted({min(one.step, count) for one in events if one.kind in BOUND} | {1})
    for step, after in zip(bad, [*bad[1:], count + 1], strict=True):
        if after - step > quiet:
            return step + 1
    return min(bad[-1] + 1, count + 1)


def _settled(time: Floats, first: int) -> tuple[int, list[Level]]:
    """Changes of level: one in the first half of the window ends the warm-up, a later one is told."""
    window = time[first - 1 :]
    levels: list[Level] = []
    moved = first
    for one in changes(window, min_effect=LEVEL) if len(window) and window.min() > 0 else []:
        if one.index <= len(window) // 2 and one.ratio < 1:
            moved, levels = first + one.index, []
        else:
            levels.append(Level(first + one.index, float(one.before), float(one.after)))
    return moved, levels


def _mean(window: Floats, name: str) -> float | None:
    values = column(window, name)
    return None if np.isnan(values).all() else float(np.nansum(values) / len(values))


def _blocks(wait: Floats, rest: Floats) -> list[float]:
    """Of stretches of steps the same as `step_s`; of few steps each by itself."""
    if len(wait) < 2 * BLOCKS:
        return [float(value) for value in wait + rest]
    cut = np.linspace(0, len(wait), BLOCKS + 1).round().astype(int).tolist()
    return [float(wait[a:b].mean() + np.median(rest[a:b])) for a, b in pairwise(cut)]

"""Commands that were measured together: the statistics of each that people know from other tools, how they compare, what to know first."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hotlap.core.analysis import turns
from hotlap.core.record import Comparison, Notice, Record, Result, RunRecord, Stop, Summary, Turns
from hotlap.core.stats import sequential
from hotlap.core.stats.summary import outliers, summarize
from hotlap.core.store import select
from hotlap.core.store.bundle import Bundle
from hotlap.core.units import percent

BUSY = 0.25  # processors that others used, from which numbers may be too large
DIFFERENCE, MIN_EFFECT = 0.02, 0.005  # of commands that were run a fixed number of times: the margin of *same*, the change that is reported
MOST_SURE = 60  # runs of each command where they go on until the answer is sure, unless more are allowed


class CommandRow(Record, frozen=True, kw_only=True):
    """One command. Times in seconds, over its runs."""

    name: str
    command: str
    parameters: dict[str, str] = {}
    case: str  # Case.id
    summary: Summary
    mean_s: float
    stddev_s: float | None = None  # None of a single run
    least_s: float
    most_s: float
    user_s: float | None = None  # mean; None where the system does not count it
    system_s: float | None = None
    times_s: list[float] = []
    exit_codes: list[int] = []
    notices: list[Notice] = []


class MeasuredCommands(NamedTuple):
    """All of it. `comparisons`: of each row but the first, with the first; none of a run that has not ended."""

    run: RunRecord
    rows: Sequence[CommandRow]
    comparisons: Sequence[Comparison]
    others: float | None = None  # processors that other programs used meanwhile
    in_turns: bool = True


def of(bundle: Bundle) -> MeasuredCommands | None:
    """What `bench` measured, as it was printed then; None for a run of anything else."""
    run, benched = bundle.run, bundle.run.bench
    if benched is None:
        return None
    by_case = {result.case.id: result for result in select.results(bundle)}
    each = [(one, by_case[one.case]) for one in benched.commands]
    rows = [row(one.name, one.command, result, one.parameters, benched.warmup) for one, result in each]
    comparisons = compared([result for _, result in each], benched.planned, run.stops[0]) if run.ended and run.stops else []
    return MeasuredCommands(run, [one for one in rows if one], comparisons, benched.others, benched.in_turns)


def row(name: str, command: str, result: Result, parameters: Mapping[str, str] | None = None, warmup: int = 0) -> CommandRow | None:
    """None without a run. `warmup`: executions before it that were not counted."""
    if not result.values:
        return None
    values, rounds = result.values, result.used
    codes = [next((n.count or 0 for n in one.notices if n.code == "exit_status"), 0) for one in rounds]
    return CommandRow(
        name=name, command=command, parameters=dict(parameters or {}), case=result.case.id, summary=summarize(values, better=result.better),
        mean_s=statistics.fmean(values), stddev_s=statistics.stdev(values) if len(values) > 1 else None, least_s=min(values),
        most_s=max(values), user_s=_mean(result, "user_s"), system_s=_mean(result, "system_s"), times_s=list(values), exit_codes=codes,
        notices=_notices(values, codes, warmup),
    )


def compared(results: Sequence[Result], planned: Turns | None, stop: Stop) -> list[Comparison]:
    """Every command that ran against the first. `planned`: what the test was planned for where it decided how many runs there are."""
    first, *others = [result for result in results if result.values] or results
    if planned is not None:
        option = f"--max-runs; {MOST_SURE} is its default" if planned.most == MOST_SURE else "--max-runs"
        return [turns.comparison(first, other, planned, stop, option=option) for other in others]
    return [turns.fixed(first, other, DIFFERENCE, MIN_EFFECT) for other in others]


def runs_wanted(measured: MeasuredCommands) -> int | None:
    """Runs of each command with which a test until the answer is sure would likely have one, by the noise of the pairs so far: a quarter
    more than are wanted, and no fewer than there are pairs. None where over 100,000 are needed."""
    first, asked, most = measured.rows[0].times_s, sequential.SequentialOptions(DIFFERENCE, MIN_EFFECT), MOST_SURE
    for other, one in zip(measured.rows[1:], measured.comparisons, strict=False):
        if one.answer == "inconclusive":
            pairs = min(one.n_a, len(first), len(other.times_s))
            wanted = sequential.wanted(first[:pairs], other.times_s[:pairs], asked) if pairs >= sequential.FEWEST else MOST_SURE
            if wanted is None:
                return None
            most = max(most, 10 * math.ceil(wanted / 8), pairs)
    return most


def _mean(result: Result, metric: str) -> float | None:
    known = [one.metrics[metric] for one in result.used if metric in one.metrics]
    return statistics.fmean(known) if known and len(known) == len(result.used) else None


def _notices(values: Sequence[float], codes: Sequence[int], warmup: int) -> list[Notice]:
    """As hyperfine: a first run that is slower than the others, else outliers; and statuses that were ignored."""
    notices = []
    if failed := sum(map(bool, codes)):
        notices.append(Notice("exit_status", f"{failed} of {len(codes)} runs ended with another status than 0", count=failed))
    far = [bool(one) for one in outliers(values)]
    middle = statistics.median(values)
    if far[0] and values[0] > middle and not warmup:
        took = f"{values[0] / middle:.2g} ×" if values[0] >= 1.95 * middle else f"{percent(values[0] / middle - 1)} longer than"
        notices.append(Notice("slow_first_run", f"the first run took {took} the median", "--warmup 1"))
    elif count := sum(far):
        notices.append(Notice("outliers", f"{count} of {len(values)} runs far from the others", count=count))
    return notices

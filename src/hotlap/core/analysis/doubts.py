"""What to doubt of a comparison: other programs beside one side, and medians that tell another change than the estimate."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from hotlap.core import work
from hotlap.core.record import Case, Comparison, Notice, Result
from hotlap.core.stats import busy
from hotlap.core.store.fold import bad, disturbed
from hotlap.core.units import signed_percent

OPEN: Mapping[str, Sequence[str]] = {"A": ("faster", "same"), "B": ("slower", "same")}
"""Answers that a quiet machine may not confirm, by the side that was busy: others make its number worse, but see `open_to`."""


def open_to(compared: Comparison, side: str) -> bool:
    """Whether a quiet machine may give another answer, where others ran beside this side."""
    either = work.traits(compared.case.workload).contended and compared.answer in ("faster", "slower", "same")
    return either or compared.answer in OPEN[side]


def busy_run(results: Collection[Result]) -> bool:
    """Whether so many of a run's numbers are of disturbed rounds that the machine was busy for all of them."""
    return sum(any(map(disturbed, one.used)) for one in results) > busy.MANY * len(results)


def replaced(results: Iterable[Result]) -> bool:
    """Whether samples of a number had to be replaced: all that others left of it in a run that was busy."""
    return any(one.replaced for result in results for one in result.used)


def doubted(compared: Comparison, a: Sequence[Result], b: Sequence[Result], busy_runs: Collection[str] = ()) -> Comparison:
    """With a notice of what ran beside a side, and of medians apart. Where others ran during the rounds that make a side's number, what
    they alone may have made is inconclusive; sides in turns share what runs beside them, and keep their answer. `busy_runs`: sides
    that are so by `busy_run`; there a case is disturbed by samples, too, that had to be replaced."""
    sides = {"A": a, "B": b}
    slowed = {name for name in busy_runs if replaced(sides[name])}
    busy_sides = [
        name for name, results in sides.items()
        if name in slowed or any(busy.beside(result.notices) or _beside(result) for result in results)
    ]  # fmt: skip
    beside = [_busy(busy_sides, compared.case)] if busy_sides and compared.ratio is not None else []
    compared = replace(compared, notices=[*compared.notices, *medians_apart(compared), *beside])
    if compared.replicates == "pairs":
        return compared
    open_for = [name for name in busy_sides if open_to(compared, name) and (name in slowed or any(map(_disturbed, sides[name])))]
    if not open_for:
        return compared
    what = "the machine hides a difference" if compared.answer == "same" else "the machine makes the difference"
    reason = f"{compared.answer} by these numbers, but it may be that {what}: it was busy during {' and '.join(open_for)}"
    return replace(compared, answer="inconclusive", reason=reason, environment_suspects=[])


def medians_apart(compared: Comparison) -> list[Notice]:
    """A notice where B ÷ A − 1 of the medians lies outside of the interval of the change; none where it lies within."""
    _, low, high = compared.change
    a, b = compared.a.median, compared.b.median
    if not a or b is None or low is None or high is None or low <= b / a - 1 <= high:
        return []
    in_turns = compared.replicates == "pairs"
    why = "the level moved meanwhile, which cancels in pairs" if in_turns else "values of a side are skewed or in groups"
    seen = f"B ÷ A − 1 of the medians is {signed_percent(b / a - 1)}, outside of the interval of the change: {why}"
    return [Notice("medians_apart", seen)]


def _busy(sides: Sequence[str], case: Case) -> Notice:
    which, each = (sides[0], "its number is a lower limit") if len(sides) == 1 else ("both sides", "their numbers are lower limits")
    what = f"{each} of the speed"
    if work.traits(case.workload).contended:
        what = "fewer cores contended, which may make atomics faster or slower"
    return Notice("busy", f"other programs ran beside {which}: {what}", "measure on a quiet machine")


def _beside(result: Result) -> bool:
    """Whether others ran during its rounds, of which a program's own numbers carry no notice."""
    return any(map(disturbed, result.used))


def _disturbed(result: Result) -> bool:
    """Whether its number is of disturbed rounds: too few others were left."""
    return any(bad(one) for one in result.used)

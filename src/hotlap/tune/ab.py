"""Two sides measured in turns, A B B A, until a group-sequential test may stop: how many pairs it takes is planned from a pilot."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

import hotlap
from hotlap.errors import HotlapError, InputError
from hotlap.inspect.machine import fingerprint
from hotlap.record import Comparison, Result, Run, Samples, Summary
from hotlap.stats import sequential
from hotlap.stats.sequential import Decision, Design
from hotlap.stats.summary import outliers, summarize
from hotlap.store import bundle as bundles
from hotlap.store import labels
from hotlap.targets.base import SystemClock
from hotlap.tune.arms import Arm
from hotlap.units import percent
from hotlap.workloads.command import NoNumber

PILOT = 10  # pairs from which the noise is taken; with fewer the power falls under the 80 % promised (benchmarks/ab.py)
QUIETEST = 1e-5  # relative noise below which no design is needed


@dataclass(frozen=True)
class Options:
    """How sure, and how long."""

    difference: float = 0.02  # smallest change to be found with 80 % power
    gate: float = 0.01  # smallest change worth a word
    budget_s: float = math.inf
    most: int = 1000  # pairs
    labels: dict[str, object] = field(default_factory=dict)


@dataclass
class Pair:
    """One case on both sides, while it is measured."""

    a: Result
    b: Result
    design: Design | None = None
    decision: Decision | None = None

    @property
    def open(self) -> bool:
        return self.decision is None or self.decision.answer == "continue"


@dataclass(frozen=True)
class Outcome:
    """What came of it."""

    pairs: list[Pair]
    runs: tuple[Path, Path]  # the bundles of both sides
    stopped: str


Listener = Callable[[int, Sequence[Pair]], None]
"""Told after each pair: how many there are, and what is known."""


def ab(a: Arm, b: Arm, options: Options, home: Path, listen: Listener = lambda *_: None) -> Outcome:
    """Measures both sides in turns and keeps every number as two runs. The first execution of each side is a warm-up and not counted.

    A failure after the first pair ends it with what is known; `stopped` says which. Raises InputError when the sides do not have the
    same number of cases, and what a side raises before there is a pair.
    """
    if len(a.plan.cases) != len(b.plan.cases):
        raise InputError(f"A has {len(a.plan.cases)} cases and B {len(b.plan.cases)}; the sides must be case by case")
    clock = SystemClock()
    began, sides = clock.now(), (("A", a), ("B", b))
    for name, arm in sides:
        _first(name, arm)
    writers = [_writer(arm, name, options, home) for name, arm in sides]
    kept: tuple[list[Samples], list[Samples]] = ([], [])
    stopped, number = "interrupted", 0
    try:
        for number in range(options.most):
            order = (0, 1) if number % 2 == 0 else (1, 0)
            for side in order:
                for samples in _turn(*sides[side], number):
                    writers[side][0].append(samples)
                    kept[side].append(samples)
            pairs = _pairs(a, b, kept, options)
            listen(number + 1, pairs)
            stopped = _enough(pairs, number + 1, clock.now() - began, options)
            if stopped:
                break
    except KeyboardInterrupt:
        stopped = "interrupted"
    except HotlapError as error:
        stopped = f"error: {error}"
        if not number:
            raise
    except BaseException as error:
        stopped = f"error: {type(error).__name__}"
        raise
    finally:
        for writer, run in writers:
            writer.finish(replace(run, ended=datetime.now(UTC).isoformat(timespec="milliseconds"), stopped=stopped or "rounds_max"))
    return Outcome(_pairs(a, b, kept, options), (writers[0][0].path, writers[1][0].path), stopped or "rounds_max")


def _turn(name: str, arm: Arm, number: int) -> list[Samples]:
    try:
        return arm.once(number)
    except HotlapError as error:
        said = f"side {name} ('{arm.text}'): {error}"
        raise type(error)(said) if isinstance(error, NoNumber) else HotlapError(said) from error


def _first(name: str, arm: Arm) -> None:
    """The warm-up. What --metric asks for must be in the first output, else it was asked wrongly."""
    try:
        _turn(name, arm, 0)
    except NoNumber as error:
        raise InputError(str(error)) from error


def _writer(arm: Arm, side: str, options: Options, home: Path) -> tuple[bundles.Writer, Run]:
    began = datetime.now(UTC)
    run = Run(
        id=bundles.new_id(began), began=began.isoformat(timespec="milliseconds"), hotlap=hotlap.__version__, plan=arm.plan,
        machine=fingerprint([arm.device]), target=arm.target, devices=[arm.device.key],
        labels=labels.check({**options.labels, "side": side}),
    )
    return bundles.Writer.create(run, home), run


def _pairs(a: Arm, b: Arm, kept: tuple[list[Samples], list[Samples]], options: Options) -> list[Pair]:
    return [_decided(x, y, options) for x, y in zip(a.results(kept[0]), b.results(kept[1]), strict=True)]


def _decided(a: Result, b: Result, options: Options) -> Pair:
    """The design comes from the pilot and the decision from all pairs, so both follow from what is kept."""
    x, y = _aligned(a, b)
    if len(x) < PILOT or min(*x, *y) <= 0:
        return Pair(a, b)
    sd = max(sequential.noise(x[:PILOT], y[:PILOT]), QUIETEST)
    try:
        design = sequential.design(sd, options.difference, gate=options.gate, pilot=PILOT)
    except ValueError:  # more pairs than anyone would run
        design = None
    return Pair(a, b, design, sequential.decide(design, x, y) if design else None)


def _aligned(a: Result, b: Result) -> tuple[list[float], list[float]]:
    """Values of the rounds that both sides measured."""
    ours, theirs = _by_round(a), _by_round(b)
    both = sorted(ours.keys() & theirs.keys())
    return [ours[n] for n in both], [theirs[n] for n in both]


def _by_round(side: Result) -> dict[int, float]:
    rounds = [one for one in side.rounds if one.status == "measured" and one.seconds]
    return {one.round: value for one, value in zip(rounds, side.values, strict=False)}


def _enough(pairs: Sequence[Pair], count: int, elapsed_s: float, options: Options) -> str:
    if count >= PILOT and not any(pair.open and pair.design for pair in pairs):
        told = all(pair.decision and pair.decision.answer in ("larger", "smaller", "same") for pair in pairs)
        return "precision reached" if told else "no answer within the planned pairs"
    if elapsed_s + elapsed_s / count > options.budget_s:
        return "budget"
    return "rounds_max" if count >= options.most else ""


def comparison(pair: Pair, options: Options, stopped: str = "") -> Comparison:
    """One case as `compare` would say it; a ratio above 1 means that B is better. `stopped`: of the outcome."""
    x, y = _aligned(pair.a, pair.b)
    lower, found = pair.a.better == "lower", pair.decision
    base = Comparison(
        case=pair.a.case, a=_summary(x, pair.a), b=_summary(y, pair.b), answer="cannot tell", unit=pair.a.unit, gate=options.gate,
        replicates="pairs", n_a=len(x), n_b=len(y),
    )
    if found is None:
        why = next((r.reason for r in (pair.a, pair.b) if r.reason and not r.values), "")
        return replace(base, reason=why or _undecided(x, y, stopped))
    ratio, low, high = found.ratio, found.low, found.high
    if lower:
        ratio, low, high = (1 / v if v else None for v in (ratio, high, low))
    better = {"larger": "slower" if lower else "faster", "smaller": "faster" if lower else "slower"}
    answer = better.get(found.answer, "same" if found.answer == "same" else "cannot tell")
    return replace(
        base, ratio=ratio, low=low, high=high, p=found.p, resolvable=found.resolvable, answer=answer, reason=_reason(pair, len(x), stopped),
    )


def _undecided(x: Sequence[float], y: Sequence[float], stopped: str) -> str:
    """Why a test could not even be planned."""
    lost = sum(value <= 0 for value in (*x, *y))
    if lost:
        return f"{lost} of {2 * len(x)} values are zero or negative: there is no ratio of them"
    if len(x) < PILOT:
        return f"{PILOT} pairs needed, there are {len(x)}{_ended(stopped)}"
    return f"noise needs more than {sequential.MOST} pairs: ask for a larger change with --resolve, or quiet the machine"


def _reason(pair: Pair, count: int, stopped: str) -> str:
    """What the decision rests on; where there is none, the smallest change that could have been seen, why, and what helps."""
    found, design = pair.decision, pair.design
    assert found is not None
    assert design is not None
    if found.answer not in ("continue", "cannot tell"):
        if found.pairs == count:
            return found.reason
        return f"{found.reason.partition(' after ')[0]} at the look after {found.pairs} of the {count} pairs measured"
    unseen = found.resolvable if found.answer == "cannot tell" else _reach(found)
    size = f"below {percent(unseen)}; " if unseen else ""
    if found.answer == "cannot tell":
        wanted = max(found.resolvable or 0.0, design.difference) * 1.25
        return f"{size}{found.reason}: quiet the machine, or look for a larger change, as with --resolve '{wanted * 100:.2g} %'"
    return f"{size}no answer after {count} of at most {design.pairs} pairs{_ended(stopped)}"


def _reach(found: sequential.Decision) -> float | None:
    """Half of the interval at the last look: less than that cannot be seen yet."""
    return math.sqrt(found.high / found.low) - 1 if found.low and found.high else None


_ENDED = {
    "budget": "; the budget was used up: give it more with --budget", "interrupted": "; interrupted",
    "rounds_max": "; no more were allowed: give it more with --pairs",
}


def _ended(stopped: str) -> str:
    return "; it ended with a failure" if stopped.startswith("error") else _ENDED.get(stopped, "")



def _summary(values: Sequence[float], result: Result) -> Summary:
    """With the samples behind the values, and the outliers among those of each round."""
    rounds = [one.seconds for one in result.rounds if one.status == "measured" and one.seconds]
    return replace(summarize(values), samples=sum(map(len, rounds)), outliers=sum(int(outliers(one).sum()) for one in rounds))

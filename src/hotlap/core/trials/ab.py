"""Two sides measured in turns, A B B A, until a group-sequential test may stop: how many pairs it takes is planned from a pilot.

A turn may give no value (a side that was disturbed, and says so): its pair is kept, and does not count.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

import hotlap
from hotlap.core.errors import HotlapError, InputError
from hotlap.core.measure import signals
from hotlap.core.measure.machine.machine import fingerprint
from hotlap.core.measure.targets.base import SystemClock
from hotlap.core.measure.workloads.command import NoNumber, ProgramFailed
from hotlap.core.record import METHOD, Result, RunRecord, Samples, Stop, Turns
from hotlap.core.stats import sequential
from hotlap.core.stats.sequential import ALPHA, PILOT, Decision, SequentialDesign, SequentialOptions
from hotlap.core.stats.turns import aligned
from hotlap.core.store import bundle as bundles
from hotlap.core.store import labels, locks
from hotlap.core.trials.arms import Arm, BothSides

AGAIN = "the same command"  # what begins turns anew: a side cannot go on alone
SPARE = 0.95  # of the time left after the pilot that pairs are planned for: the next ones may be slower


@dataclass(frozen=True)
class AbOptions:
    """How sure, and how long."""

    difference: float = 0.02  # smallest change to be found with 80 % power
    min_effect: float = 0.005  # smallest change that is reported
    budget_s: float = math.inf
    most: int = 1000  # pairs
    labels: dict[str, object] = field(default_factory=dict)
    level: float = ALPHA  # chance that a case without a change is called one, over all looks
    wait_s: float = 0.0  # for a device that another run holds
    tell: Callable[[str], None] = lambda _: None  # is told before anything is measured that one holds the device of programs
    order_seed: int | None = None  # None: A B, B A, A B …; else each two pairs are A B, B A or B A, A B at random: drift cancels too


@dataclass
class AbPair:
    """One case on both sides, while it is measured."""

    a: Result
    b: Result
    design: SequentialDesign | None = None
    decision: Decision | None = None

    @property
    def open(self) -> bool:
        return self.decision is None or self.decision.answer == "continue"


@dataclass(frozen=True)
class AbOutcome:
    """What came of it."""

    pairs: list[AbPair]
    runs: tuple[Path, Path]  # the bundles of both sides
    turns: Turns  # of side A: what the test was planned for
    stop: Stop


Listener = Callable[[int, Sequence[AbPair]], None]
"""Called after each pair: how many there are, and what is known."""


def ab(a: Arm, b: Arm, options: AbOptions, home: Path, listen: Listener = lambda *_: None) -> AbOutcome:
    """Measures both sides in turns and keeps every number as two runs. The first execution of each side is a warm-up and not counted.

    A failure after the first pair ends it with what is known; `stop` says which. Raises InputError when the sides do not have the
    same number of cases, Busy when another run has a plan's device, and what a side raises before there is a pair.
    """
    if len(a.plan.cases) != len(b.plan.cases):
        raise InputError(f"A has {len(a.plan.cases)} cases and B {len(b.plan.cases)}; the sides must be case by case")
    if others := locks.beside([arm.device for arm in (a, b) if arm.target == "host"], options.wait_s):
        options.tell(others)
    with locks.hold([arm.device for arm in (a, b) if arm.target != "host"], options.wait_s), signals.as_interrupted():
        return _in_turns(a, b, options, home, listen)


def _in_turns(a: Arm, b: Arm, options: AbOptions, home: Path, listen: Listener) -> AbOutcome:
    clock = SystemClock()
    began, sides = clock.now(), (("A", a), ("B", b))
    for name, arm in sides:
        _first(name, arm)
    writers = [_writer(arm, name, options, home) for name, arm in sides]
    kept: tuple[list[Samples], list[Samples]] = ([], [])
    stop, number, most = Stop("interrupted"), 0, options.most
    try:
        for number in range(options.most):
            for side in order(number, options.order_seed):
                for samples in _turn(*sides[side], number):
                    writers[side][0].append(samples)
                    kept[side].append(samples)
            elapsed_s = clock.now() - began
            if number + 1 == PILOT:
                most = fitting(elapsed_s, options)
            pairs = _pairs(a, b, kept, _asked(options, most))
            listen(number + 1, pairs)
            if over := enough(pairs, number + 1, elapsed_s, (most, options), whole(kept)):
                stop = over
                break
        else:
            stop = Stop("rounds_max")
    except KeyboardInterrupt:
        stop = Stop("interrupted")
    except HotlapError as error:
        stop = Stop("error", str(error))
        if not number:
            raise
    except BaseException as error:
        stop = Stop("error", type(error).__name__)
        raise
    finally:
        turns = Turns(
            id=writers[0][1].id, side="A", difference=options.difference, min_effect=options.min_effect, most=most,
            level=options.level,
        )
        for (writer, run), one in zip(writers, (turns, replace(turns, side="B")), strict=True):
            ended = datetime.now(UTC).isoformat(timespec="milliseconds")
            writer.finish(replace(run, ended=ended, stops=[stop], turns=one))
    found = _pairs(a, b, kept, _asked(options, most), ended=True)
    return AbOutcome(found, (writers[0][0].path, writers[1][0].path), turns, stop)


def order(number: int, seed: int | None) -> tuple[int, int]:
    """Which side a pair begins with: the same number and seed give the same."""
    turned = number % 2 == 1
    if seed is not None and random.Random(f"{seed}/{number // 2}").random() < 0.5:
        turned = not turned
    return (1, 0) if turned else (0, 1)


def whole(kept: tuple[list[Samples], list[Samples]]) -> int:
    """Pairs of which both sides have a value in every case."""
    lost = {samples.round for side in kept for samples in side if not samples.values}
    return len({samples.round for samples in kept[0]} - lost)


def _asked(options: AbOptions, most: int) -> SequentialOptions:
    return SequentialOptions(options.difference, options.min_effect, most, options.level)


def fitting(elapsed_s: float, options: AbOptions) -> int:
    """Pairs that the budget has room for, by what those of the pilot and the warm-up took."""
    if not math.isfinite(options.budget_s) or elapsed_s <= 0:
        return options.most
    left = max(options.budget_s - elapsed_s, 0.0) * SPARE
    return min(options.most, PILOT + int(left / (elapsed_s / (PILOT + 1))))


def _turn(name: str, arm: Arm, number: int) -> list[Samples]:
    try:
        return arm.once(number)
    except BothSides:
        raise
    except HotlapError as error:
        said = f"side {name} ('{arm.text}'): {error}"
        if isinstance(error, ProgramFailed):  # it is the user's, as for bench
            raise InputError(said) from error
        raise type(error)(said) if isinstance(error, NoNumber) else HotlapError(said) from error


def _first(name: str, arm: Arm) -> None:
    """The warm-up. What --metric asks for must be in the first output, else it is a usage error."""
    try:
        _turn(name, arm, 0)
    except NoNumber as error:
        raise InputError(str(error)) from error


def _writer(arm: Arm, side: str, options: AbOptions, home: Path) -> tuple[bundles.Writer, RunRecord]:
    began = datetime.now(UTC)
    run = RunRecord(
        id=bundles.new_id(began), began=began.isoformat(timespec="milliseconds"), hotlap=hotlap.__version__, method=METHOD, plan=arm.plan,
        machine=fingerprint([arm.device]), target=arm.target, devices=[arm.device.key], seed=options.order_seed or 0,
        labels=labels.check({**options.labels, **arm.labels, "side": side}), part_of=AGAIN,
    )
    return bundles.Writer.create(run, home), run


def _pairs(a: Arm, b: Arm, kept: tuple[list[Samples], list[Samples]], asked: SequentialOptions, ended: bool = False) -> list[AbPair]:
    """The plan comes from the pilot and the decision from all pairs, so both follow from what is kept."""
    return [pair(x, y, asked, ended) for x, y in zip(a.results(kept[0]), b.results(kept[1]), strict=True)]


def pair(a: Result, b: Result, asked: SequentialOptions, ended: bool = False) -> AbPair:
    """One case on both sides, with what its pairs say so far."""
    return AbPair(a, b, *sequential.trial(*aligned(a, b), asked, ended))


def enough(
    pairs: Sequence[AbPair], count: int, elapsed_s: float, allowed: tuple[int, AbOptions], counted: int | None = None
) -> Stop | None:
    """Why no more pairs are measured; None while they are. `allowed`: the most pairs that there is time for, and what was asked.
    `counted`: those of the pairs that have values; None: all."""
    most, options = allowed
    if (count if counted is None else counted) >= PILOT and not any(pair.open and pair.design for pair in pairs):
        if all(pair.decision and pair.decision.answer in ("larger", "smaller", "same") for pair in pairs):
            return Stop("precision")
        short = any(pair.design and not pair.design.enough and pair.design.pairs >= most for pair in pairs)
        return Stop(("budget" if most < options.most else "rounds_max") if short else "planned_pairs")
    if elapsed_s + elapsed_s / count > options.budget_s:
        return Stop("budget")
    return Stop("rounds_max") if count >= options.most else None

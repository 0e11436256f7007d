"""The `[measure]` table of a plan: keys for people, checked, into `MeasureOptions`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from hotlap.core import units
from hotlap.core.errors import InputError, nearest
from hotlap.core.record import Case, MeasureOptions, Plan
from hotlap.core.work import traits


@dataclass(frozen=True)
class Option:
    """One key of `[measure]`: the field it fills, its base unit and the values it may have."""

    field: str
    unit: str  # "" is a whole number
    low: float
    high: float
    valid: str  # in words, for messages
    above: bool = False  # `low` itself is not valid


SUSTAIN_ROUNDS, SUSTAIN_SAMPLES = 40, 100  # of the time that a rate is sustained, and of one of its rounds
PROGRAM_S = 0.1  # of executions of one program in a round, by default; one execution at least

OPTIONS: dict[str, Option] = {
    "rounds": Option("rounds", "", 1, 10_000, "a whole number from 1 to 10000 (6 is the fewest that give a 95 % interval)"),
    "rounds_max": Option("rounds_max", "", 1, 10_000, "a whole number from 1 to 10000, not below rounds"),
    "round_time": Option("round_s", "s", 0, 86_400, "a time above zero and up to a day, as in '8 s'", above=True),
    "budget": Option("budget_s", "s", 0, 31 * 86_400, "a time above zero and up to 31 days, as in '60 s' or '10 min'", above=True),
    "precision": Option("precision", "%", 0, 1, "a share above 0 and up to 100 %, as in '5 %' or 0.05", above=True),
    "sample_time": Option("sample_s", "s", 0, 3600, "a time up to an hour, as in '10 ms'; 0 leaves it to the timer"),
    "readings": Option("readings_hz", "Hz", 0, 1000, "a rate up to 1000 Hz, as in '10 Hz'; 0 switches sensors off"),
    "sustain": Option("sustain_s", "s", 0, 31 * 86_400, "a time up to 31 days, as in '30 min'; 0: rounds end when they are enough"),
    "deadline": Option("deadline_s", "s", 0, 3600, "a time up to an hour, as in '33.3 ms'; 0: none"),
    "seed": Option("seed", "", 0, 2**53, "a whole number from 0 to 2^53; 0 draws a new one for every run"),
}


def options(
    given: Mapping[str, object], base: MeasureOptions | None = None, fail: Callable[[str, str], InputError] | None = None,
) -> MeasureOptions:
    """`base` (the defaults where there is none) with the keys of `given` set.

    Raises what `fail(key, message)` returns, InputError by default.
    """
    base, fail = base or MeasureOptions(), fail or (lambda key, message: InputError(message))
    fields: dict[str, float | int] = {}
    for key, value in given.items():
        if key not in OPTIONS:
            raise fail(key, f"[measure] has no key '{key}'; {nearest(key, OPTIONS)}")
        try:
            fields[OPTIONS[key].field] = _number(key, value)
        except InputError as error:
            raise fail(key, str(error)) from None
    new = _sustained(msgspec.structs.replace(base, **fields), given)
    if "rounds_max" not in given and new.rounds > new.rounds_max:
        new = msgspec.structs.replace(new, rounds_max=new.rounds)
    if "rounds" not in given and new.rounds > new.rounds_max:
        new = msgspec.structs.replace(new, rounds=new.rounds_max)
    if new.rounds > new.rounds_max:
        raise fail("rounds_max", f"rounds_max ({new.rounds_max}) is below rounds ({new.rounds}); make it at least {new.rounds}")
    return new


def _sustained(options: MeasureOptions, given: Mapping[str, object]) -> MeasureOptions:
    """With `sustain`, the time says how many rounds there are; no round is longer than a fortieth of it, and without a deadline a
    sample is as long as keeps their number small. What is given of these two stays."""
    if "sustain" not in given or not options.sustain_s:
        return options
    each_s = options.round_s if "round_time" in given else min(options.round_s, options.sustain_s / SUSTAIN_ROUNDS)
    sample_s = options.sample_s if "sample_time" in given or options.deadline_s else each_s / SUSTAIN_SAMPLES
    rounds = min(max(math.ceil(options.sustain_s / each_s), 1), int(OPTIONS["rounds_max"].high))
    each_s = max(each_s, options.sustain_s / rounds)
    return msgspec.structs.replace(
        options, round_s=each_s, sample_s=sample_s, rounds=rounds, rounds_max=rounds, budget_s=options.sustain_s, precision=1.0,
    )


def usual(cases: Sequence[Case]) -> MeasureOptions:
    """The defaults for a plan of these cases."""
    programs = bool(cases) and all(traits(case.workload).source == "program" for case in cases)
    return of_programs(len(cases)) if programs else MeasureOptions()


def of_programs(count: int) -> MeasureOptions:
    """The defaults for a plan of `count` programs and nothing else: a round is one execution of each (of a short one, executions for
    0.1 s), as many as fit into the budget, exact to what a virtual machine can reach."""
    return MeasureOptions(rounds_max=100, round_s=PROGRAM_S * count, budget_s=60.0, precision=0.05)


def override(plan: Plan, given: Mapping[str, object]) -> Plan:
    """The plan with keys of its `[measure]` table replaced, as by ``--rounds 6``. Raises InputError."""
    return msgspec.structs.replace(plan, measure=options(given, plan.measure))


def within(plan: Plan, budget: object) -> Plan:
    """The plan with a budget for all of it: its rounds are shortened so that the fewest it wants fit. Raises InputError."""
    cut = override(plan, {"budget": budget})
    return override(cut, {"round_time": min(cut.measure.round_s, share_s(cut.measure))})


def share_s(asked: MeasureOptions) -> float:
    """What a budget leaves each of the fewest rounds, in seconds; a round's start takes time too."""
    return asked.budget_s / (asked.rounds + 1)


def of_cases(plan: Plan, cases: list[Case]) -> Plan:
    """The plan with some of its cases: a round is as much shorter, so that each case has the time it had."""
    share = len(cases) / len(plan.cases)
    return override(msgspec.structs.replace(plan, cases=cases), {"round_time": plan.measure.round_s * share})


def _number(key: str, value: object) -> float | int:
    option = OPTIONS[key]
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise InputError(f"'{key}' is {option.valid}, not {value!r}")
    try:
        number = units.parse(value, option.unit)
    except InputError:
        hint = units.meant(value, option.unit) if isinstance(value, str) else ""
        raise InputError(f"'{key}' is {option.valid}, not {str(value)[:40]!r}" + (f"; {hint}" if hint else "")) from None
    inside = option.low < number if option.above else option.low <= number
    if not (inside and number <= option.high):
        raise InputError(f"'{key}' is {option.valid}, not {value!r}")
    if option.unit:
        return number
    if number != int(number):
        raise InputError(f"'{key}' is {option.valid}, not {value!r}")
    return int(number)

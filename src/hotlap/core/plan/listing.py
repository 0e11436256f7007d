"""A plan for people: what it measures, how many cases, how long it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hotlap.core import units, work
from hotlap.core.record import Case, MeasureOptions, Plan, Value
from hotlap.core.work.base import number

LISTED = 200
"""The most cases listed one by one; the axes above the list are complete."""


def show(plan: Plan) -> str:
    """The plan as text of several lines, without a newline at the end: its axes by workload, then case by case."""
    lines = [f"{plan.name}: {plan.about}" if plan.about else plan.name, _head(plan), _measure(plan.measure), ""]
    groups = _groups(plan.cases)
    width = max((len(name) for name, _ in groups), default=0)
    lines += [f"  {name:{width}}  {len(cases):>6}  {_spread(cases)}" for name, cases in groups]
    lines += ["", *(f"  {case.id}  {work.label(case)}" for case in plan.cases[:LISTED])]
    if len(plan.cases) > LISTED:
        lines.append(f"  … and {len(plan.cases) - LISTED} more")
    return "\n".join(lines)


def seconds(plan: Plan) -> tuple[float, float]:
    """The shortest and the longest time the rounds of a plan take, in seconds; start-up of each round comes on top."""
    options = plan.measure
    least = options.rounds * options.round_s
    return least, max(least, min(options.rounds_max * options.round_s, options.budget_s))


def _head(plan: Plan) -> str:
    least, most = seconds(plan)
    time = _duration(least) if most == least else f"{_duration(least)} to {_duration(most)}"
    count = len(plan.cases)
    return f"{plan.source or 'not from a file'} · {count} case{'' if count == 1 else 's'} · about {time}, and the start of each round"


def _measure(options: MeasureOptions) -> str:
    rounds = str(options.rounds) if options.rounds == options.rounds_max else f"{options.rounds} to {options.rounds_max}"
    if options.sustain_s:
        rounds = f"about {rounds}"
    until = f"until the 95 % interval is within ± {options.precision * 100:g} % or {_duration(options.budget_s)} have passed"
    parts = [
        f"{rounds} round{'' if rounds == '1' else 's'} of {_duration(options.round_s)}",
        f"until {_duration(options.sustain_s)} have passed" if options.sustain_s else until,
        f"calls one by one against a deadline of {units.show(options.deadline_s, 's')}" if options.deadline_s else "",
        f"samples of at least {_duration(options.sample_s)}" if options.sample_s else "",
        f"sensors read at {options.readings_hz:g} Hz" if options.readings_hz else "no sensors",
        f"seed {options.seed}" if options.seed else "",
    ]
    return " · ".join(part for part in parts if part)


def _duration(seconds: float) -> str:
    if seconds >= 7200:
        return f"{seconds / 3600:.3g} h"
    if seconds >= 120:
        return f"{seconds / 60:.3g} min"
    return f"{seconds:.3g} s" if seconds >= 1 else units.show(seconds, "s")


def _groups(cases: Sequence[Case]) -> list[tuple[str, list[Case]]]:
    """Cases by workload and implementation, in order of first appearance."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        name = f"{case.workload} ({case.implementation})" if case.implementation else case.workload
        groups.setdefault(name, []).append(case)
    return list(groups.items())


def _spread(cases: Sequence[Case]) -> str:
    """The values of each parameter that the cases set: ``op copy, triad · size 16 KiB … 1 GiB (17)``."""
    spec = work.find(cases[0].workload)
    full = [spec.full(case.params) for case in cases]
    parts = []
    for param in spec.params:
        found = list(dict.fromkeys(_word(params.get(param.name, ""), param.unit) for params in _sorted(full, param.name)))
        if len(found) > 1 or found != [_word(param.default if param.default is not None else "", param.unit)]:
            parts.append(f"{param.name} {_values(found)}")
    return " · ".join(parts) or "all defaults"


def _sorted(params: Sequence[Mapping[str, Value]], name: str) -> Sequence[Mapping[str, Value]]:
    """By value for numbers, as they come for words."""
    if any(not isinstance(one.get(name), (int, float)) for one in params):
        return params
    return sorted(params, key=lambda one: number(one, name))


def _word(value: Value, unit: str) -> str:
    if isinstance(value, list):
        return " ".join(value)
    if unit == "B" and not isinstance(value, (str, bool)):
        return units.size(value)
    return units.exact(value, unit) if isinstance(value, float) else str(value)


def _values(words: Sequence[str]) -> str:
    if len(words) <= 6:
        return ", ".join(words)
    return f"{words[0]} … {words[-1]} ({len(words)} values)"

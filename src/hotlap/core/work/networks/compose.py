"""A plan of networks: every kernel of their steps once as a case, with where it is called, how often, and what that weighs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace as changed

from hotlap.core import work
from hotlap.core.errors import InputError
from hotlap.core.record import Case, Plan, Use
from hotlap.core.work.networks import steps
from hotlap.core.work.networks.calls import Call, Setting
from hotlap.core.work.networks.steps import Choice, Source

Price = Callable[[Sequence[Case]], Mapping[str, float]]
"""Cases → expected seconds of one call by Case.id; without those of which nothing is expected."""


@dataclass(frozen=True)
class Choices:
    """How networks are run: every combination of these. `phases` empty: all that a network has; a context of 0 is its usual one."""

    phases: tuple[str, ...] = ()
    batch: tuple[int, ...] = (1,)
    context: tuple[int, ...] = (0,)
    tp: tuple[int, ...] = (1,)
    pp: tuple[int, ...] = (1,)
    dp: tuple[int, ...] = (1,)
    ep: tuple[int, ...] = (1,)
    dtype: tuple[str, ...] = ("bf16",)
    micro_batch: int = 0


class ComposedStep(NamedTuple):
    """One step and what one GPU runs in it."""

    name: str
    calls: list[Call]
    asked: tuple[Source, Setting | Choice] | None = None  # what its memory follows from, where that is known


def every_step(networks: Sequence[Source], choices: Choices) -> tuple[list[ComposedStep], dict[str, list[str]]]:
    """All combinations that can be, and those that cannot by why: reason → steps. Raises InputError where none can, with the reasons."""
    by_name: dict[str, ComposedStep] = {}
    left_out, errors, tried = dict[str, list[str]](), list[str](), set[str]()
    for network in networks:
        for choice in _combinations(network, choices):
            name = steps.label(network, choice)
            if name in tried:
                continue
            tried.add(name)
            try:
                by_name[name] = ComposedStep(name, steps.step(network, choice), steps.asked(network, choice))
            except InputError as error:
                errors.append(str(error))
                # Without the network's name and advice, so that one reason is said once for all that it holds for.
                left_out.setdefault(error.reason, []).append(name)
    if not by_name:
        raise InputError(f"none of these steps can be: {'; '.join(dict.fromkeys(errors[:3]))}")
    return list(by_name.values()), left_out


def _combinations(network: Source, choices: Choices) -> list[Choice]:
    axes = (choices.phases or steps.phases(network), choices.batch, choices.context, choices.tp, choices.pp, choices.dp, choices.ep)
    return [Choice(*one, micro_batch=choices.micro_batch) for one in itertools.product(*axes, choices.dtype)]


def plan(composed: Sequence[ComposedStep], price: Price, name: str, about: str, weighed_on: str) -> Plan:
    """Each kernel once, the heaviest first: by the largest share that it has of any step's expected time. Raises InputError for a kernel
    that is no valid case: which, and of what step."""
    cases: dict[str, Case] = {}
    calls: dict[tuple[str, str, str], float] = {}
    seen: dict[tuple[object, ...], Case] = {}
    for step in composed:
        for call in step.calls:
            case = _case(call, step.name, seen)
            cases[case.id] = case
            key = (case.id, step.name, call.name)
            calls[key] = calls.get(key, 0.0) + call.times
    seconds = price(list(cases.values()))
    uses = [Use(case=key[0], step=key[1], kernel=key[2], calls=times, expected_s=seconds.get(key[0])) for key, times in calls.items()]
    heaviest = largest_shares(uses)
    ordered = sorted(cases.values(), key=lambda case: -heaviest[case.id])
    return Plan(name=name, about=about, cases=ordered, uses=uses, weighed_on=weighed_on)


def _case(call: Call, step: str, seen: dict[tuple[object, ...], Case]) -> Case:
    key = (call.workload, *call.params.items())
    if key not in seen:
        try:
            seen[key] = Case(workload=call.workload, params=work.find(call.workload).parse(call.params))
        except InputError as error:
            raise InputError(f"{step}: the kernel '{call.name}' cannot be a case: {error}") from None
    return seen[key]


def weight_s(use: Use) -> float:
    """Expected seconds of all its calls in a step; nothing where nothing is expected."""
    return use.calls * (use.expected_s or 0.0)


def totals(uses: Sequence[Use]) -> dict[str, float]:
    """Expected seconds of each step's kernels together, as far as they are known."""
    found: dict[str, float] = {}
    for use in uses:
        found[use.step] = found.get(use.step, 0.0) + weight_s(use)
    return found


def largest_shares(uses: Sequence[Use]) -> dict[str, float]:
    """Of each case the largest share that it has of any step."""
    whole, by_step = totals(uses), dict[tuple[str, str], float]()
    for use in uses:
        key = (use.case, use.step)
        by_step[key] = by_step.get(key, 0.0) + weight_s(use) / (whole[use.step] or 1.0)
    found: dict[str, float] = {}
    for (case, _), share in by_step.items():
        found[case] = max(found.get(case, 0.0), share)
    return found


def top(given: Plan, share: float) -> Plan:
    """The cases that make that share of every step's expected time, heaviest first; those of which nothing is expected stay."""
    whole = totals(given.uses)
    kept = {use.case for use in given.uses if use.expected_s is None}
    by_step: dict[str, dict[str, float]] = {}
    for use in given.uses:
        weights = by_step.setdefault(use.step, {})
        weights[use.case] = weights.get(use.case, 0.0) + weight_s(use)
    for step, weights in by_step.items():
        reached = 0.0
        for case, weight in sorted(weights.items(), key=lambda item: -item[1]):
            if reached >= share * whole[step]:
                break
            kept.add(case)
            reached += weight
    cases, uses = [case for case in given.cases if case.id in kept], [use for use in given.uses if use.case in kept]
    return changed(given, cases=cases, uses=uses)

"""What the steps of networks call: the uses that a plan keeps, or a network of the table with its settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from hotlap import work
from hotlap.coverage.networks import compose, steps
from hotlap.coverage.networks.compose import Choices
from hotlap.errors import InputError, nearest
from hotlap.record import Case, Plan


@dataclass(frozen=True)
class Needed:
    """One kernel of a step."""

    step: str
    kernel: str
    calls: float  # in one step, on one GPU
    case: Case
    expected_s: float | None = None  # of one call, as the plan says

    @property
    def network(self) -> str:
        return network_of(self.step)


@dataclass(frozen=True)
class Ways:
    """How a network of the table is run; empty: as it is served, one prompt or image forward and 8 sequences in decode, of its usual
    context."""

    phases: Sequence[str] = ()
    batches: Sequence[int] = ()
    contexts: Sequence[int] = ()
    tps: Sequence[int] = (1,)
    dtype: str = "bf16"


def network_of(step: str) -> str:
    """The first word of a step's name: the network, trace or module it is of."""
    return step.partition(" ")[0]


def work_of(case: Case) -> str:
    """What a case does, whichever implementation does it: a network's call concerns them all."""
    return replace(case, implementation="").id


def of_plan(plan: Plan) -> list[Needed]:
    """The plan's uses with their cases."""
    cases = {one.id: one for one in plan.cases}
    return [Needed(u.step, u.kernel, u.calls, cases[u.case], u.expected_s) for u in plan.uses if u.case in cases]


def of_plans(plans: Iterable[Plan], network: str = "") -> list[Needed]:
    """The uses of several plans, oldest first: the newest plan of a name counts, and what several plans say is taken once. `network`:
    of it alone."""
    found: dict[tuple[str, str, str], Needed] = {}
    for plan in {plan.name: plan for plan in plans}.values():
        for one in of_plan(plan):
            if not network or one.network == network:
                found[one.step, one.kernel, one.case.id] = one
    return list(found.values())


def of_networks(names: Sequence[str], ways: Ways) -> list[Needed]:
    """Steps of networks of the table. What cannot be run in one way is left out. Raises InputError where that leaves nothing."""
    found: list[Needed] = []
    refused = ""
    for name in names:
        network = steps.find(name)
        for phase in ways.phases or [one for one in steps.phases(network) if one != "train"]:
            batches = tuple(ways.batches) or (8 if phase == "decode" else 1,)
            choices = Choices((phase,), batches, tuple(ways.contexts) or (0,), tuple(ways.tps), dtype=(ways.dtype,))
            try:
                found += _needed(compose.every_step([network], choices)[0])
            except InputError as error:
                refused = str(error)
    if not found:
        raise InputError(refused or f"no network is named; {nearest('', steps.names())}")
    return found


def _needed(found: Sequence[compose.Step]) -> Iterator[Needed]:
    for step in found:
        for call in step.calls:
            case = Case(workload=call.workload, params=work.find(call.workload).parse(call.params))
            yield Needed(step.name, call.name, call.times, case)


def known(name: str) -> bool:
    """Whether the table of networks has it, by name or alias."""
    try:
        steps.find(name)
    except InputError:
        return False
    return True


def chosen(plan: Plan, names: Sequence[str], ways: Ways) -> list[Needed]:
    """Of the networks asked for, as the plan weighs them, else as the table of networks has them; none asked for: all of the plan's.

    Raises InputError where the plan has no uses and no network is named, or one is not known.
    """
    own = of_plan(plan)
    if not names:
        if not own:
            raise InputError(
                f"the plan '{plan.name}' of this run says nothing of networks, so its cases have no weight; name networks, as in "
                f"--networks llama-3-8b, or measure a plan with uses (hotlap plan from llama-3-8b); {nearest('', steps.names())}"
            )
        return own
    has = {one.network for one in own}
    if list(names) == ["all"]:
        return own or of_networks(steps.names(), ways)
    for name in names:
        if name not in has and not known(name):
            raise InputError(f"there is no network '{name}'; {nearest(name, {*has, *steps.names()})}")
    rest = [name for name in names if name not in has]
    return [one for one in own if one.network in names] + (of_networks(rest, ways) if rest else [])

"""What the steps of networks call: the uses that a plan keeps, or a network of the table with its settings."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from hotlap import work
from hotlap.coverage.networks import calls, shape
from hotlap.coverage.networks.calls import Phase, Setting
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
    """How a network of the table is run; empty: prefill of one prompt and decode of 8, of 2048 tokens each."""

    phases: Sequence[Phase] = ()
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
        network = shape.load(name)
        for setting in _settings(ways, network.causal):
            try:
                calls.check(network, setting)
            except InputError as error:
                refused = str(error)
                continue
            found += _step(network, setting)
    if not found:
        raise InputError(refused or f"no network is named; {nearest('', shape.names())}")
    return found


def chosen(plan: Plan, names: Sequence[str], ways: Ways) -> list[Needed]:
    """Of the networks asked for, as the plan weighs them, else as the table of networks has them; none asked for: all of the plan's.

    Raises InputError where the plan has no uses and no network is named, or one is not known.
    """
    own = of_plan(plan)
    if not names:
        if not own:
            raise InputError(
                f"the plan '{plan.name}' of this run says nothing of networks, so its cases have no weight; name networks, as in "
                f"--networks llama-3-8b, or measure a plan with uses (hotlap plan from llama-3-8b); valid: {', '.join(shape.names())}"
            )
        return own
    has = {one.network for one in own}
    if list(names) == ["all"]:
        return own or of_networks(shape.names(), ways)
    known = {*has, *shape.names(), *(alias for name in shape.names() for alias in shape.load(name).aliases)}
    for name in names:
        if name not in known:
            raise InputError(f"there is no network '{name}'; {nearest(name, known)}")
    rest = [name for name in names if name not in has]
    return [one for one in own if one.network in names] + (of_networks(rest, ways) if rest else [])


def _settings(ways: Ways, causal: bool) -> Iterator[Setting]:
    phases: Sequence[Phase] = ways.phases or (("prefill", "decode") if causal else ("prefill",))
    for phase, tp in itertools.product(phases, ways.tps):
        for batch, context in itertools.product(ways.batches or (8 if phase == "decode" else 1,), ways.contexts or (2048,)):
            yield Setting(phase, batch=batch, context=context, tp=tp, dtype=ways.dtype)


def _step(network: shape.Network, setting: Setting) -> Iterator[Needed]:
    step = f"{network.name} {setting.phase} batch={setting.batch} context={setting.context} tp={setting.tp}"
    for call in calls.stage(network, setting):
        case = Case(workload=call.workload, params=work.find(call.workload).parse(call.params))
        yield Needed(step, call.name, call.times, case)

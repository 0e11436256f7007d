"""Where networks call which cases: what weighs coverage, opportunities and changes. One place, so that every source of uses meets here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec.structs import replace as changed

from hotlap.core.errors import InputError, nearest
from hotlap.core.record import Case, Plan, Use
from hotlap.core.work.networks import compose, shape
from hotlap.core.work.networks import steps as networks

Settings = Mapping[str, tuple[object, ...]]
"""How networks are run: fields of `compose.Choices`."""
BATCHES = (1, 32)
SAID = 4  # steps named where the rest is only counted
TP = ((60e9, 1), (float("inf"), 8))
"""GPUs that share a network, by its parameters: those of 16 bits that one GPU's memory can hold, and a node."""


@dataclass(frozen=True)
class Needed:
    """One use with its case."""

    step: str
    kernel: str
    calls: float  # in one step, on one GPU
    case: Case
    expected_s: float | None = None  # of one call, as the plan says

    @property
    def network(self) -> str:
        return network_of(self.step)


@dataclass(frozen=True)
class Used:
    """Cases by id, and where they are used. `left_out`: what could not be, in words."""

    cases: Mapping[str, Case]
    uses: Sequence[Use]
    left_out: Sequence[str] = ()
    of_plans: bool = False  # what a plan itself knows: its --top may have left kernels out

    @property
    def steps(self) -> list[str]:
        return list(dict.fromkeys(use.step for use in self.uses))

    @property
    def needed(self) -> list[Needed]:
        return [Needed(use.step, use.kernel, use.calls, self.cases[use.case], use.expected_s) for use in self.uses]


def network_of(step: str) -> str:
    """The first word of a step's name: the network, trace or module it is of."""
    return step.partition(" ")[0]


def work_of(case: Case) -> str:
    """What a case does, whichever implementation does it: a network's call concerns them all."""
    return changed(case, implementation="").id


def by_work(calls: Iterable[Needed]) -> dict[str, list[Needed]]:
    """Calls by what their cases do."""
    found: dict[str, list[Needed]] = {}
    for one in calls:
        found.setdefault(work_of(one.case), []).append(one)
    return found


def of_plan(plan: Plan) -> Used:
    """What a plan itself knows of uses."""
    there = {case.id: case for case in plan.cases}
    uses = [use for use in plan.uses if use.case in there]
    return Used({use.case: there[use.case] for use in uses}, uses, of_plans=True)


def of_plans(plans: Iterable[Plan], network: str = "") -> list[Needed]:
    """The uses of several plans, oldest first: the newest plan of a name counts, and what several plans say is taken once. `network`:
    of it alone."""
    found: dict[tuple[str, str, str], Needed] = {}
    for plan in {plan.name: plan for plan in plans}.values():
        for one in of_plan(plan).needed:
            if not network or one.network == network:
                found[one.step, one.kernel, one.case.id] = one
    return list(found.values())


def of_table(network: str) -> list[Needed]:
    """What a network of the table calls as it is usually run; nothing where the table has none of that name."""
    return steps([network]).needed if network and known(network) else []


def known(name: str) -> bool:
    """Whether the table of networks has it, by name or alias."""
    try:
        networks.find(name)
    except InputError:
        return False
    return True


def chosen(plan: Plan, names: Sequence[str], settings: Settings | None = None) -> Used:
    """Of the networks asked for, as the plan weighs them, else as the table of networks has them; none asked for: all of the plan's.
    `settings`: only steps that are run so; a network of which the plan does not have them all is taken from the table.

    Raises InputError where the plan has no uses and no network is named, where one is not known, and where no step is run so.
    """
    own, settings = of_plan(plan), settings or {}
    if not names and not own.uses:
        raise InputError(
            f"the plan '{plan.name}' of this run says nothing of networks, so its cases have no weight; name networks, as in "
            f"--networks llama-3-8b, or measure a plan with uses (hotlap plan from llama-3-8b); {nearest('', networks.names())}"
        )
    if own.uses and (not names or list(names) == ["all"]):
        kept, lacking = _run_so(own, settings)
        if lacking:
            raise _no_step(plan, lacking, own.steps)
        return kept
    has = {network_of(step) for step in own.steps}
    usages, rest = list[Used](), list[str]()
    for name in dict.fromkeys(names):
        if name not in {*has, "all"} and not known(name):
            raise InputError(f"there is no network '{name}'; {nearest(name, {*has, *networks.names()})}")
        mine = replace(own, uses=[use for use in own.uses if network_of(use.step) == name])
        kept, lacking = _run_so(mine, settings)
        if kept.uses and not lacking:
            usages.append(kept)
        elif name in has and not known(name):
            raise _no_step(plan, lacking, mine.steps)
        else:
            rest.append(name)
    return merged([*usages, *([steps(rest, settings)] if rest else [])])


def _run_so(own: Used, settings: Settings) -> tuple[Used, list[str]]:
    """Its steps that are run as `settings` say, and which values none of them has."""
    fields = {"phase" if name == "phases" else name: values for name, values in settings.items()}
    choices = {step: choice for step in own.steps if (choice := networks.choice_of(step))}
    kept = {step: one for step, one in choices.items() if all(getattr(one, name) in (*values, 0) for name, values in fields.items())}
    seen = {name: {getattr(one, name) for one in kept.values()} for name in fields}
    lacking = [f"{name} {value}" for name, values in fields.items() for value in values if value not in seen[name]]
    return replace(own, uses=[use for use in own.uses if not fields or use.step in kept]), lacking


def _no_step(plan: Plan, lacking: Sequence[str], there: Sequence[str]) -> InputError:
    more = f" and {len(there) - SAID} more" if len(there) > SAID else ""
    return InputError(f"the plan '{plan.name}' has no such step with {', '.join(lacking)}; its steps: {', '.join(there[:SAID])}{more}")


def merged(several: Sequence[Used]) -> Used:
    """All of them as one."""
    cases = {key: case for one in several for key, case in one.cases.items()}
    uses = list(dict.fromkeys(use for one in several for use in one.uses))
    return Used(cases, uses, [text for one in several for text in one.left_out], any(one.of_plans for one in several))


def steps(names: Sequence[str], settings: Settings | None = None) -> Used:
    """The cases of networks by name ("all": every one), run as `compose.Choices` says, else serving with a few batches. Raises
    InputError for a name that is none, and where no step can be."""
    wanted = networks.names() if list(names) == ["all"] else list(dict.fromkeys(names))
    sources = [networks.find(name) for name in wanted]
    composed: list[compose.ComposedStep] = []
    left_out: list[str] = []
    for source in sources:
        choices = compose.Choices(**{**_usual(source), **(settings or {})})  # type: ignore[arg-type]
        try:
            some, not_these = compose.every_step([source], choices)
        except InputError as error:
            left_out.append(str(error))
            continue
        composed += some
        left_out += [f"{', '.join(where)}: {reason}" for reason, where in not_these.items()]
    if not composed:
        raise InputError("; ".join(left_out[:3]))
    plan = compose.plan(composed, lambda _: {}, "networks", "", "")
    return Used({case.id: case for case in plan.cases}, plan.uses, left_out)


def _usual(source: networks.Source) -> dict[str, tuple[object, ...]]:
    """All but training; on as many GPUs as the weights need."""
    phases = tuple(phase for phase in networks.phases(source) if phase != "train")
    return {"phases": phases, "batch": BATCHES, "tp": (_ways(source) if isinstance(source, shape.Network) else 1,)}


def _ways(network: shape.Network) -> int:
    wanted = next(ways for most, ways in TP if network.parameters <= most)
    return next(ways for ways in (wanted, 4, 2, 1) if not network.heads % ways and not network.inter % ways)


def weighed(used: Used, seconds: Callable[[Sequence[Case]], Sequence[float | None]]) -> Used:
    """The same with the expected time of every case where none is known yet."""
    without = {use.case for use in used.uses if use.expected_s is None}
    needed = [case for case in used.cases.values() if case.id in without]
    told = dict(zip((case.id for case in needed), seconds(needed), strict=True))
    return replace(
        used,
        uses=[use if use.expected_s is not None else changed(use, expected_s=told.get(use.case)) for use in used.uses],
    )

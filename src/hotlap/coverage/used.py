"""Where networks call which cases: the weights that coverage is measured by. One place, so that every source of uses meets here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from hotlap.coverage.networks import compose, shape
from hotlap.coverage.networks import steps as networks
from hotlap.errors import InputError
from hotlap.record import Case, Plan, Use

BATCHES = (1, 32)
TP = ((60e9, 1), (float("inf"), 8))
"""GPUs that share a network, by its parameters: those of 16 bits that one GPU's memory can hold, and a node."""


@dataclass(frozen=True)
class Used:
    """Cases by id, and where they are used. `left_out`: what could not be, in words."""

    cases: Mapping[str, Case]
    uses: Sequence[Use]
    left_out: Sequence[str] = ()

    @property
    def steps(self) -> list[str]:
        return list(dict.fromkeys(use.step for use in self.uses))


def of_plan(plan: Plan) -> Used:
    """What a plan itself knows of uses."""
    there = {case.id: case for case in plan.cases}
    return Used({use.case: there[use.case] for use in plan.uses}, plan.uses)


def merged(several: Sequence[Used]) -> Used:
    """All of them as one."""
    cases = {key: case for one in several for key, case in one.cases.items()}
    uses = list(dict.fromkeys(use for one in several for use in one.uses))
    return Used(cases, uses, [text for one in several for text in one.left_out])


def steps(names: Sequence[str], settings: Mapping[str, tuple[object, ...]] | None = None) -> Used:
    """The cases of networks by name ("all": every one), run as `compose.Choices` says, else serving with a few batches. Raises
    InputError for a name that is none, and where no step can be."""
    wanted = networks.names() if list(names) == ["all"] else list(dict.fromkeys(names))
    sources = [networks.find(name) for name in wanted]
    found: list[compose.Step] = []
    left_out: list[str] = []
    for source in sources:
        choices = compose.Choices(**{**_usual(source), **(settings or {})})  # type: ignore[arg-type]
        try:
            some, not_these = compose.every_step([source], choices)
        except InputError as error:
            left_out.append(str(error))
            continue
        found += some
        left_out += [f"{', '.join(where)}: {reason}" for reason, where in not_these.steps.items()]
    if not found:
        raise InputError("; ".join(left_out[:3]))
    plan = compose.plan(found, lambda _: {}, "networks", "", "")
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
        uses=[use if use.expected_s is not None else _with(use, told.get(use.case)) for use in used.uses],
    )


def _with(use: Use, expected_s: float | None) -> Use:
    return Use(case=use.case, step=use.step, kernel=use.kernel, calls=use.calls, expected_s=expected_s)

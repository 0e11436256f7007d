"""Where networks call which cases: the weights that coverage is measured by. One place, so that every source of uses meets here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from hotlap import work
from hotlap.coverage.networks import calls, shape
from hotlap.errors import InputError
from hotlap.record import Case, Plan, Use

SETTINGS: Mapping[str, tuple[Mapping[str, object], ...]] = {
    "causal": (
        {"phase": "prefill", "batch": 1, "context": 2048},
        {"phase": "decode", "batch": 1, "context": 2048},
        {"phase": "decode", "batch": 32, "context": 2048},
    ),
    "encoder": ({"phase": "prefill", "batch": 1, "context": 512}, {"phase": "prefill", "batch": 32, "context": 512}),
}
"""How a network is run unless the user says: serving, on one GPU, or on eight where its weights do not fit on one."""
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


def steps(names: Sequence[str], settings: Sequence[Mapping[str, object]] = ()) -> Used:
    """The cases of networks by name ("all": every one) with the settings given, else a sensible set for each. Raises InputError."""
    wanted = shape.names() if list(names) == ["all"] else list(dict.fromkeys(names))
    cases: dict[str, Case] = {}
    uses: list[Use] = []
    left_out = []
    for name in wanted:
        network = shape.load(name)
        for chosen in settings or _usual(network):
            setting = calls.Setting(**{"tp": _ways(network), **chosen})  # type: ignore[arg-type]
            try:
                calls.check(network, setting)
            except InputError as error:
                left_out.append(str(error))
                continue
            for case, use in _uses(network, setting):
                cases.setdefault(case.id, case)
                uses.append(use)
    if not uses:
        raise InputError(f"no setting can be run: {'; '.join(left_out)}")
    return Used(cases, uses, left_out)


def _usual(network: shape.Network) -> tuple[Mapping[str, object], ...]:
    return SETTINGS["causal" if network.causal else "encoder"]


def _ways(network: shape.Network) -> int:
    wanted = next(ways for most, ways in TP if network.parameters <= most)
    return next(ways for ways in (wanted, 4, 2, 1) if not network.heads % ways and not network.inter % ways)


def _uses(network: shape.Network, setting: calls.Setting) -> list[tuple[Case, Use]]:
    found = []
    step = f"{network.name} {setting.phase} batch={setting.batch} context={setting.context} tp={setting.tp}"
    for call in calls.stage(network, setting):
        case = Case(workload=call.workload, params=work.find(call.workload).parse(call.params))
        found.append((case, Use(case=case.id, step=step, kernel=call.name, calls=call.times)))
    return found


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

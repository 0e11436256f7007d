"""Two campaigns case by case: which configuration is faster, by how much, how sure that is, and what else differs.

A member is the unit: its rounds and devices are condensed to one level of a case, so that neither counts as a repeat. Members that are the
same machines in both campaigns (serial number, GPUs or machine-id; slots of one machine by their number) are pairs; where fewer than four
are, all members of each side are taken as independent. Devices of different models are groups of their own. The interval, the answer and
the error rate over all cases are core's (`hotlap.core.analysis.compare.weigh`).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from hotlap.cluster import differing
from hotlap.cluster.folder import CampaignFolder
from hotlap.cluster.record import Member
from hotlap.core import stand_in, work
from hotlap.core.analysis import compare, drift
from hotlap.core.analysis.compare import ComparedSide, InBetween
from hotlap.core.analysis.doubts import doubted
from hotlap.core.analysis.matching import FEWEST_RUNS
from hotlap.core.errors import InputError
from hotlap.core.record import Allowance, Case, Comparison, Difference, Result
from hotlap.core.stats.summary import summarize
from hotlap.core.store import select
from hotlap.core.store.bundle import Bundle

MEMBERS = "members"
Rounds = Mapping[str, tuple[float, ...]]
"""A value per round by member: over its devices their geometric mean."""


@dataclass(frozen=True)
class CampaignSide:
    """One campaign, with its run."""

    kept: CampaignFolder
    bundle: Bundle

    @property
    def who(self) -> dict[str, str]:
        """Which machine each member is, by its name."""
        return {member.name: identity(member, self.bundle.run.machine.host) for member in self.kept.members()}


@dataclass(frozen=True)
class ComparedGroup:
    """Members with devices of one model. `pairs`: members that are in both; 0 where the sides are taken as independent."""

    model: str
    comparisons: list[Comparison]
    members_a: list[str]
    members_b: list[str]
    pairs: int


@dataclass(frozen=True)
class ComparedCampaigns:
    """What was found. `alone`: members of one side only, and those without a result, by what is said of them."""

    groups: list[ComparedGroup]
    differences: list[Difference]
    alone: dict[str, list[str]] = field(default_factory=dict)

    @property
    def comparisons(self) -> list[Comparison]:
        return [one for group in self.groups for one in group.comparisons]


def identity(member: Member, host: str) -> str:
    """Which machine a member is: never its name, but where nothing else is known."""
    if member.slot:
        return f"slot {member.name} of {host}"
    return (member.identity.key if member.identity else "") or f"named {member.name}"


def compared(a: CampaignSide, b: CampaignSide, min_effect: float, home: Path, stable: bool = False) -> ComparedCampaigns:
    """Groups in the order of A. `home`: where earlier runs are, by which drift between the two is learnt; `stable` allows for none.

    Raises InputError where no model of device is on both sides.
    """
    runs = [a.bundle.run], [b.bundle.run]
    stand_in.refuse_mixed([*runs[0], *runs[1]])
    left, right = _by_model(a), _by_model(b)
    models = [model for model in left if model in right]
    if not models:
        raise InputError(f"{_models('A', left)}, {_models('B', right)}: no case of a model is on both sides")
    between: InBetween | None = None
    if drift.one_after_the_other(*runs):
        past = {} if stable else drift.kept(*runs, home)
        between = (lambda *_: (None, Allowance(basis="stable"))) if stable else (lambda side, _: drift.between(*runs, side.case, past))
    differences = differing.differences(a.kept, b.kept, runs)
    groups = [_group(model, (left[model], right[model]), (a, b), min_effect, between, differences) for model in models]
    return ComparedCampaigns(groups, differences, _alone(a, b, left, right, models))


def _models(name: str, by_model: Mapping[str, object]) -> str:
    return f"{name} measured {', '.join(by_model) or 'nothing'}"


def _by_model(side: CampaignSide) -> dict[str, dict[str, list[tuple[str, Result]]]]:
    """Results by model and case, each with its member."""
    devices = {device.key: device for device in side.bundle.run.machine.devices}
    by_model: dict[str, dict[str, list[tuple[str, Result]]]] = {}
    for result in select.results(side.bundle):
        device = devices[result.device]
        member = device.uuid.partition("/")[0]
        if result.values and result.status == "measured":
            by_model.setdefault(device.model or device.name, {}).setdefault(result.case.id, []).append((member, result))
    return by_model


def _group(
    model: str, results: tuple[dict[str, list[tuple[str, Result]]], dict[str, list[tuple[str, Result]]]],
    campaigns: tuple[CampaignSide, CampaignSide], min_effect: float, between: InBetween | None, differences: Sequence[Difference],
) -> ComparedGroup:  # fmt: skip
    names = [list(dict.fromkeys(member for kept in side.values() for member, _ in kept)) for side in results]
    common = _common(names, campaigns)
    pairs = [
        (_side(results[0].get(one), common), _side(results[1].get(two), dict.fromkeys(common.values())))
        for one, two in _cases(results, campaigns)
    ]
    weighed = compare.weigh(_renamed(pairs, common), min_effect, "", differences, between)
    weighed = [_of_members(each, x, y) for each, (x, y) in zip(weighed, pairs, strict=True)]
    return ComparedGroup(model, weighed, names[0], names[1], len(common))


def _common(names: Sequence[Sequence[str]], campaigns: tuple[CampaignSide, CampaignSide]) -> dict[str, str]:
    """Members of A that are in B, by their names; empty below four, as those are no pairs to count on."""
    who = {identity: name for name, identity in campaigns[1].who.items() if name in names[1]}
    both = {name: who[own] for name, own in campaigns[0].who.items() if name in names[0] and own in who}
    return both if len(both) >= FEWEST_RUNS else {}


def _cases(
    results: tuple[Mapping[str, Sequence[tuple[str, Result]]], Mapping[str, Sequence[tuple[str, Result]]]],
    campaigns: tuple[CampaignSide, CampaignSide],
) -> list[tuple[str, str]]:  # fmt: skip
    """Ids of what is compared with what: the same case, and commands of the same place, as those of two configurations differ."""
    both = zip(campaigns, results, strict=True)
    plans = [[case for case in campaign.bundle.run.plan.cases if case.id in side] for campaign, side in both]
    ours, theirs = ({case.id for case in plan} for plan in plans)
    sides = zip(plans, (theirs, ours), strict=True)
    only = [[case.id for case in plan if case.id not in other and _command(case)] for plan, other in sides]
    instead = dict(zip(*only, strict=True)) if len(only[0]) == len(only[1]) else {}
    pairs = [(case.id, instead.get(case.id, case.id)) for case in plans[0]]
    return pairs + [(case.id, case.id) for case in plans[1] if case.id not in ours and case.id not in instead.values()]


def _command(case: Case) -> bool:
    return work.traits(case.workload).source == "program"


def _side(kept: Sequence[tuple[str, Result]] | None, common: Mapping[str, object]) -> ComparedSide | None:
    """One case of one side; with `common` of these members only."""
    chosen = [(member, result) for member, result in kept or () if not common or member in common]
    if not chosen:
        return None
    values: dict[str, list[list[float]]] = {}
    for member, result in chosen:
        values.setdefault(member, []).append(list(result.values))
    units = {("", member): _over_devices(devices) for member, devices in values.items()}
    return ComparedSide(chosen[0][1].case, tuple(result for _, result in chosen), units, {}, {})


def _over_devices(devices: Sequence[Sequence[float]]) -> tuple[float, ...]:
    if len(devices) == 1 or min(map(min, devices)) <= 0:
        return tuple(devices[0])
    return tuple(statistics.geometric_mean(values) for values in zip(*devices, strict=False))


def _renamed(
    pairs: Sequence[tuple[ComparedSide | None, ComparedSide | None]], common: Mapping[str, str]
) -> list[tuple[ComparedSide | None, ComparedSide | None]]:
    """For `weigh`: members that are pairs have one name on both sides, all others one level each, and a name of their own."""
    back = {theirs: ours for ours, theirs in common.items()}

    def units(side: ComparedSide | None, name: str) -> ComparedSide | None:
        if side is None:
            return None
        if common:
            both = {(name, back.get(member, member) if name == "B" else member): values for (_, member), values in side.units.items()}
        else:
            both = {(f"{name} {member}", f"{name} {member}"): (statistics.median(v),) for (_, member), v in side.units.items()}
        return ComparedSide(side.case, side.results, both, {}, {})

    return [(units(a, "A"), units(b, "B")) for a, b in pairs]


def _of_members(compared: Comparison, a: ComparedSide | None, b: ComparedSide | None) -> Comparison:
    """In terms of members: their levels are what is shown of a side, and what is counted."""
    if a is None or b is None or compared.answer == "not comparable":
        return compared
    levels = [[statistics.median(values) for values in side.units.values()] for side in (a, b)]
    fields = {"a": summarize(levels[0]), "b": summarize(levels[1]), "replicates": MEMBERS, "noise": ""}
    few = min(compared.n_a, compared.n_b) < FEWEST_RUNS
    if few and compared.ratio is None and all(level > 0 for level in (*levels[0], *levels[1])):
        centre = [math.exp(statistics.fmean(map(math.log, side))) for side in levels]
        fields["ratio"] = centre[1] / centre[0] if compared.better == "higher" else centre[0] / centre[1]
    if few:
        there = f"{compared.n_a} and {compared.n_b}"
        fields["reason"] = f"{FEWEST_RUNS} {MEMBERS} a side are needed for an interval, there are {there}"
    return doubted(replace(compared, **fields), a.results, b.results)


def _alone(
    a: CampaignSide, b: CampaignSide, left: Mapping[str, object], right: Mapping[str, object], models: Sequence[str]
) -> dict[str, list[str]]:
    """Who is on one side only, and who has no result."""
    alone: dict[str, list[str]] = {}
    others = (b.who.values(), a.who.values())
    for name, side, other, there in zip("AB", (a, b), others, (left, right), strict=True):
        lost = {state.member for state in side.kept.states(0.0) if state.state != "measured"}
        alone[f"in {name} alone"] = [member for member, own in side.who.items() if own not in other]
        alone[f"without a result in {name}"] = sorted(lost)
        alone[f"models of {name} alone"] = [model for model in there if model not in models]
    return {what: who for what, who in alone.items() if who}

"""What else differs between two campaigns: what was asked, by which way, of which machines, and the environments that members kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Literal

import msgspec

from hotlap.cluster import fanin
from hotlap.cluster.folder import CampaignFolder
from hotlap.cluster.record import StepRecord
from hotlap.core.analysis import environment
from hotlap.core.record import Difference, RunRecord

MOST = 3  # values, or lines of a plan, that are named
OWN = re.compile(r"host|device\.(uuid|serial|pci_address|index|name)")  # of each member: members are compared by themselves
FACTS = {"python": "no", "kernel": "yes", "product": "yes", "cpu": "yes", "cores": "yes"}  # of members, and whether each matters
ENVIRONMENT = "run/run.json"


def differences(a: CampaignFolder, b: CampaignFolder, runs: tuple[Sequence[RunRecord], Sequence[RunRecord]]) -> list[Difference]:
    """Those that matter first. `runs`: the campaigns' own, for devices where members kept no run."""
    theirs = [list(_runs(side)) for side in (a, b)]
    of_runs = environment.differences(theirs[0], theirs[1]) if all(theirs) else environment.differences(*runs)
    kept = [replaced for one in of_runs if not OWN.fullmatch(one.name) for replaced in [_short(one)]]
    found = {one.name: one for one in [*_asked(a, b), *_members(a, b), *kept]}
    order = {"yes": 0, "unknown": 1, "no": 2}
    return sorted(found.values(), key=lambda one: order[one.matters])


def _runs(kept: CampaignFolder) -> Iterable[RunRecord]:
    """Of members that ran a plan, as they kept them: with their software and settings."""
    seen = set[str]()
    for state in kept.states(0.0):
        if state.state != "measured" or state.member in seen or kept.step(state.step).gather != "run":
            continue
        with suppress(fanin.Unreadable, msgspec.MsgspecError):
            path = kept.result(state.step, state.member, state.attempt)
            content = fanin.contained(path, {ENVIRONMENT: fanin.LIMITS[ENVIRONMENT]}) if path else {}
            if ENVIRONMENT in content:
                seen.add(state.member)
                yield msgspec.json.decode(content[ENVIRONMENT], type=RunRecord)


def _asked(a: CampaignFolder, b: CampaignFolder) -> Iterable[Difference]:
    """Launcher, version, steps."""
    one, two = a.campaign, b.campaign
    pairs = [("launcher", one.launcher, two.launcher), ("hotlap", one.hotlap, two.hotlap)]
    pairs += [("GPUs a member", str(one.gpus or "any"), str(two.gpus or "any"))]
    pairs += [("steps", str(len(one.steps)), str(len(two.steps)))]
    for x, y in zip(one.steps, two.steps, strict=False):
        pairs += [(f"step {x.number} {name}", *each) for name, each in _of_step(x, y).items()]
    return [_difference(name, ours, theirs, "yes") for name, ours, theirs in pairs if ours != theirs]


def _of_step(x: StepRecord, y: StepRecord) -> dict[str, tuple[str, str]]:
    return {
        "command": (" ".join(x.argv), " ".join(y.argv)), "prefix": (" ".join(x.wrap) or "none", " ".join(y.wrap) or "none"),
        "rounds": (str(x.rounds), str(y.rounds)), "time-out": (f"{x.timeout_s:g} s", f"{y.timeout_s:g} s"),
        "gang": (str(x.gang or "none"), str(y.gang or "none")), "plan": _lines(x, y),
    }  # fmt: skip


def _lines(x: StepRecord, y: StepRecord) -> tuple[str, str]:
    """Of their plans, those that only one has."""
    ours, theirs = ([line.strip() for text in step.files.values() for line in text.splitlines()] for step in (x, y))
    only = [[line for line in side if line and line not in other] for side, other in ((ours, theirs), (theirs, ours))]
    return _some(only[0], "; ") or "the rest", _some(only[1], "; ") or "the rest"


def _members(a: CampaignFolder, b: CampaignFolder) -> Iterable[Difference]:
    """What their agents said of them."""
    sides = [_facts(kept) for kept in (a, b)]
    for name, matters in FACTS.items():
        ours, theirs = (side.get(name, set()) for side in sides)
        if ours and theirs and ours != theirs:
            yield _difference(f"members' {name}", _some(sorted(ours)), _some(sorted(theirs)), matters)  # type: ignore[arg-type]


def _facts(kept: CampaignFolder) -> Mapping[str, set[str]]:
    found: dict[str, set[str]] = {}
    for member in kept.members():
        for name, value in member.facts.items():
            found.setdefault(name, set()).add(f"{value:g}" if isinstance(value, float) else str(value))
    return found


def _difference(name: str, a: str, b: str, matters: Literal["yes", "no", "unknown"]) -> Difference:
    return Difference(name=name, a=a, b=b, matters=matters, moves=[])


def _short(difference: Difference) -> Difference:
    ours, theirs = (_some(side.split(", ")) for side in (difference.a, difference.b))
    return msgspec.structs.replace(difference, a=ours, b=theirs)


def _some(values: Sequence[str], joint: str = ", ") -> str:
    left = len(values) - MOST
    return joint.join(values[:MOST]) + (f" and {left} more" if left > 0 else "")

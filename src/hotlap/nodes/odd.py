"""The odd ones out of many nodes, without rules: for each fact the majority, its share, and the nodes that differ."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from hotlap.core.errors import InputError
from hotlap.core.record import Record
from hotlap.nodes.facts import Facts

FEWEST = 3
MAJORITY = 0.5  # a value that over half of the nodes have
FAR = 6.0  # times the spread (1.4826 MAD): beyond this a quantity that differs everywhere is odd; under 1e-6 for normal values
APART = 0.02  # and by at least this share of the median
VERSIONS = ("version", "firmware", "vbios", "driver", "bios", "release", "toolkit", "package", "inforom", "gsp", "library", "microcode")
MISSING = "(not there)"
OWN = ("kernel.boot_id",)  # of every node its own


class OddNode(Record, frozen=True, kw_only=True):
    """One fact in which some nodes differ from the majority."""

    fact: str
    kind: str  # version, setting, or quantity
    majority: Any  # the value, for a quantity the median
    share: float  # of the nodes that have it
    nodes: dict[str, Any]  # those that differ, and what they have
    unit: str = ""


class NodeFleet(Record, frozen=True, kw_only=True):
    """What came of a comparison of nodes."""

    nodes: list[str]
    facts: int
    odd: list[OddNode]
    left_out: list[str]  # facts that differ on nearly every node, and so by nature
    divided: list[str]  # facts without a majority


class NodesApart(Record, frozen=True, kw_only=True):
    """One fact in which two groups of nodes differ: the values of each, the most frequent first, with the nodes that have them."""

    fact: str
    kind: str  # version, setting, or quantity
    first: list[tuple[Any, int]]
    second: list[tuple[Any, int]]
    unit: str = ""


class NodeGroups(Record, frozen=True, kw_only=True):
    """What came of a comparison of two groups."""

    first: list[str]
    second: list[str]
    facts: int
    apart: list[NodesApart]
    divided: list[str]  # facts without a majority in a group: by nature, or because a group is not of one kind


def against(first: Mapping[str, Facts], second: Mapping[str, Facts]) -> NodeGroups:
    """Facts whose majority in one group is not that in the other; quantities without one by their medians.

    Raises InputError for an empty group.
    """
    if not first or not second:
        raise InputError("two groups of at least one node each are needed: hotlap node audit --fleet NODE… --against NODE…")
    names = dict.fromkeys(name for facts in (*first.values(), *second.values()) for name in facts.facts)
    apart, divided = list[NodesApart](), list[str]()
    for name in names:
        sides = [{node: _value(facts, name) for node, facts in group.items()} for group in (first, second)]
        usual = [_usual(values) for values in sides]
        if name in OWN or (usual[0] == usual[1] and usual[0] is not None):
            continue
        if None not in usual or _shifted(sides):
            kind = _kind(name) if None not in usual else "quantity"
            tables = [_table(values) for values in sides]
            apart.append(NodesApart(fact=name, kind=kind, first=tables[0], second=tables[1], unit=_unit(name, {**first, **second})))
        else:
            divided.append(name)
    apart.sort(key=lambda one: ("version", "setting", "quantity").index(one.kind))
    return NodeGroups(first=list(first), second=list(second), facts=len(names), apart=apart, divided=divided)


def _usual(values: Mapping[str, Any]) -> Any:
    """The key of the value that over half of the nodes have; None where there is none."""
    counts = Counter(map(_key, values.values()))
    return next((key for key, times in counts.items() if times > MAJORITY * len(values)), None)


def _table(values: Mapping[str, Any]) -> list[tuple[Any, int]]:
    by = {_key(value): value for value in values.values()}
    return [(by[key], times) for key, times in Counter(map(_key, values.values())).most_common()]


def _shifted(sides: list[dict[str, Any]]) -> bool:
    """Whether a quantity that differs from node to node has another level in each group."""
    numbers = [[value for value in side.values() if isinstance(value, (int, float)) and not isinstance(value, bool)] for side in sides]
    if any(len(known) < max(FEWEST, len(side)) for known, side in zip(numbers, sides, strict=True)):
        return False
    middles = [statistics.median(known) for known in numbers]
    spread = max(1.4826 * statistics.median(abs(value - middle) for value in known) for known, middle in zip(numbers, middles, strict=True))
    return abs(middles[0] - middles[1]) > max(FAR * spread, APART * max(map(abs, middles)))


def compare(nodes: Mapping[str, Facts]) -> NodeFleet:
    """The odd ones out of three nodes or more. Raises InputError for fewer."""
    if len(nodes) < FEWEST:
        raise InputError(f"a majority needs at least {FEWEST} nodes, not {len(nodes)}; give more snapshots")
    names = dict.fromkeys(name for facts in nodes.values() for name in facts.facts)
    odd, left_out, divided = list[OddNode](), list[str](), list[str]()
    for name in names:
        if name in OWN:
            continue
        values = {node: _value(facts, name) for node, facts in nodes.items()}
        counts = Counter(map(_key, values.values()))
        if len(counts) == 1:
            continue
        usual, times = counts.most_common(1)[0]
        if times > MAJORITY * len(nodes):
            majority = next(value for value in values.values() if _key(value) == usual)
            others = {node: value for node, value in values.items() if _key(value) != usual}
            odd.append(
                OddNode(fact=name, kind=_kind(name), majority=majority, share=times / len(nodes), nodes=others, unit=_unit(name, nodes))
            )
        elif far := _far(values):
            odd.append(msgspec.structs.replace(far[1](name, 1 - len(far[0]) / len(nodes)), unit=_unit(name, nodes)))
        else:
            (left_out if len(counts) > MAJORITY * len(nodes) else divided).append(name)
    odd.sort(key=lambda one: (one.kind != "version", len(one.nodes), one.fact))
    return NodeFleet(nodes=list(nodes), facts=len(names), odd=odd, left_out=left_out, divided=divided)


def _unit(name: str, nodes: Mapping[str, Facts]) -> str:
    return next((fact.unit for facts in nodes.values() if (fact := facts.facts.get(name)) and fact.unit), "")


def _value(facts: Facts, name: str) -> Any:
    fact = facts.facts.get(name)
    return fact.value if fact and fact.status == "ok" else MISSING


def _key(value: Any) -> Any:
    return (type(value).__name__, tuple(value)) if isinstance(value, list) else (type(value).__name__, value)


def _kind(name: str) -> str:
    return "version" if any(word in name for word in VERSIONS) else "setting"


def _far(values: Mapping[str, Any]) -> Any:
    """Nodes far from all others in what differs everywhere: a DIMM that is missing, among totals that are never equal."""
    numbers = {node: value for node, value in values.items() if isinstance(value, (int, float)) and not isinstance(value, bool)}
    if len(numbers) < max(FEWEST, MAJORITY * len(values)):
        return None
    middle = statistics.median(numbers.values())
    spread = 1.4826 * statistics.median(abs(value - middle) for value in numbers.values())
    least = max(FAR * spread, APART * abs(middle))
    far = {node: value for node, value in numbers.items() if abs(value - middle) > least}
    far |= {node: value for node, value in values.items() if node not in numbers}
    if not far or len(far) > 0.2 * len(values):
        return None
    return far, lambda name, share: OddNode(fact=name, kind="quantity", majority=middle, share=share, nodes=far)

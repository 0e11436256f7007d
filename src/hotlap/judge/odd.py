"""The odd ones out of many nodes, without rules: for each fact the majority, its share, and the nodes that differ."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping
from typing import Any

from hotlap.errors import InputError
from hotlap.facts import Facts
from hotlap.record import Record

FEWEST = 3
MAJORITY = 0.5  # a value that over half of the nodes have
FAR = 6.0  # times the spread (1.4826 MAD): beyond this a quantity that differs everywhere is odd; under 1e-6 for normal values
APART = 0.02  # and by at least this share of the median
VERSIONS = ("version", "firmware", "vbios", "driver", "bios", "release", "toolkit", "package", "inforom", "gsp", "library", "microcode")
MISSING = "(not there)"


class Odd(Record, frozen=True, kw_only=True):
    """One fact in which some nodes differ from the majority."""

    fact: str
    kind: str  # version, setting, or quantity
    majority: Any  # the value, for a quantity the median
    share: float  # of the nodes that have it
    nodes: dict[str, Any]  # those that differ, and what they have


class Fleet(Record, frozen=True, kw_only=True):
    """What came of a comparison of nodes."""

    nodes: list[str]
    facts: int
    odd: list[Odd]
    left_out: list[str]  # facts that differ on nearly every node, and so by nature
    divided: list[str]  # facts without a majority


def compare(nodes: Mapping[str, Facts]) -> Fleet:
    """The odd ones out of three nodes or more. Raises InputError for fewer."""
    if len(nodes) < FEWEST:
        raise InputError(f"a majority needs at least {FEWEST} nodes, not {len(nodes)}; give more snapshots")
    names = dict.fromkeys(name for facts in nodes.values() for name in facts.facts)
    odd, left_out, divided = list[Odd](), list[str](), list[str]()
    for name in names:
        values = {node: _value(facts, name) for node, facts in nodes.items()}
        counts = Counter(map(_key, values.values()))
        if len(counts) == 1:
            continue
        usual, times = counts.most_common(1)[0]
        if times > MAJORITY * len(nodes):
            majority = next(value for value in values.values() if _key(value) == usual)
            others = {node: value for node, value in values.items() if _key(value) != usual}
            odd.append(Odd(fact=name, kind=_kind(name), majority=majority, share=times / len(nodes), nodes=others))
        elif far := _far(values):
            odd.append(far[1](name, 1 - len(far[0]) / len(nodes)))
        else:
            (left_out if len(counts) > MAJORITY * len(nodes) else divided).append(name)
    odd.sort(key=lambda one: (one.kind != "version", len(one.nodes), one.fact))
    return Fleet(nodes=list(nodes), facts=len(names), odd=odd, left_out=left_out, divided=divided)


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
    return far, lambda name, share: Odd(fact=name, kind="quantity", majority=middle, share=share, nodes=far)

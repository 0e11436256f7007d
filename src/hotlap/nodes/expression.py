"""What a rule may say of facts: comparisons, and, or, not, in, arithmetic and a few functions. Nothing else can be reached from it.

    gpu.pcie.width_now == gpu.pcie.width_possible        gpu stands for the one a rule is at
    cpu.governor in ["performance", "schedutil"] and not (exists(cmdline[nosmt]) or cpu.smt_active)
    same(gpu[*].vbios) and version(nvidia.driver) >= version("550.54")
    limits.locked_memory >= 64 GiB                       "unlimited" is more than any number

What is not known stays not known, unless the rest decides: `false and unknown` is false.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hotlap.nodes.facts import Fact, members
from hotlap.nodes.grammar import GROWTH, SIGNS, Node
from hotlap.nodes.growth import Earlier


@dataclass(frozen=True)
class Unknown:
    """Not to be told, and why."""

    why: str


@dataclass(frozen=True)
class Scope:
    """The facts, and which member of a family a rule is at."""

    facts: Mapping[str, Fact]
    family: str = ""
    key: str = ""
    used: dict[str, Fact | None] = field(default_factory=dict)  # what was looked up, for the report
    earlier: Earlier | None = None

    def names(self, path: str) -> list[str]:
        """A path's facts: the member's own, or with [*] those of all members."""
        if self.family and re.match(rf"{self.family}\.", path):
            return [f"{self.family}[{self.key}]{path[len(self.family) :]}"]
        match = re.match(r"(\w+)\[\*\](.*)", path)
        return [f"{match[1]}[{key}]{match[2]}" for key in members(self.facts, match[1])] if match else [path]

    def value(self, name: str) -> Any:
        fact = self.facts.get(name)
        self.used[name] = fact
        if fact is None or fact.status != "ok":
            return Unknown(f"{name}: {fact.reason or fact.status}" if fact else f"{name} was not read")
        return math.inf if fact.value == "unlimited" else fact.value




def evaluate(node: Node, scope: Scope) -> Any:
    """True, False, a value, or Unknown with its reason; never raises for facts, whatever they hold."""
    kind = node[0]
    if kind == "value":
        return node[1]
    if kind == "path":
        found = [scope.value(name) for name in scope.names(node[1])]
        return found if "[*]" in node[1] else found[0]
    if kind == "list":
        return [evaluate(part, scope) for part in node[1:]]
    if kind in ("and", "or"):
        return _joined(kind, [evaluate(part, scope) for part in node[1:]])
    if kind == "not":
        found = evaluate(node[1], scope)
        return found if isinstance(found, Unknown) else not found
    if kind == "call":
        return _called(node[1], node[2:], scope)
    sign, left, right = ("in", *node[1:]) if kind == "in" else node[1:]
    a, b = evaluate(left, scope), evaluate(right, scope)
    if isinstance(a, list) and left[0] == "path":  # with [*]: it holds for all of them
        return _joined("and", [_pair(sign, one, b) for one in a])
    return _pair(sign, a, b)


def _joined(kind: str, parts: list[Any]) -> Any:
    decides = kind == "or"
    if any(not isinstance(part, Unknown) and bool(part) == decides for part in parts):
        return decides
    return next((part for part in parts if isinstance(part, Unknown)), not decides)


def _pair(sign: str, a: Any, b: Any) -> Any:
    for one in (a, b, *(b if isinstance(b, list) else ())):
        if isinstance(one, Unknown):
            return one
    try:
        if sign == "in":
            return a in b
        if sign in SIGNS:
            return SIGNS[sign](a, b)
        return {"+": a + b, "-": a - b, "*": a * b}[sign] if sign != "/" else a / b if b else Unknown("a division by zero")
    except TypeError:
        return Unknown(f"'{a}' {sign} '{b}' cannot be worked out: the two are of different kinds")


def _members(part: Node, scope: Scope) -> Any:
    """A comparison over [*] as one answer for each member: none for none."""
    if part[0] in ("compare", "in") and (left := part[-2])[0] == "path" and "[*]" in left[1]:
        right = evaluate(part[-1], scope)
        return [_pair(part[1] if part[0] == "compare" else "in", one, right) for one in evaluate(left, scope)]
    return evaluate(part, scope)


def _growth(name: str, path: str, scope: Scope) -> Any:
    """How much a counter grew, or the fewest in an hour that would explain it; the report shows both, with the time."""
    (fact,) = scope.names(path)
    if scope.earlier is None:
        return Unknown(f"{fact}: its growth needs an earlier reading (--since)")
    now = scope.value(fact)
    if isinstance(now, Unknown):
        return now
    count, why = scope.earlier.growth(fact, now)
    if count is None:
        return Unknown(why)
    scope.used[f"{fact}, growth"] = Fact(value=scope.earlier.told(count))
    if name == "growth":
        return count
    rate = scope.earlier.per_hour(count)
    return Unknown(f"{fact}: it is not known when it was read, and so not how fast it grew") if rate is None else rate


def _called(name: str, given: tuple[Node, ...], scope: Scope) -> Any:
    if name in GROWTH:
        return _growth(name, given[0][1], scope)
    values = [_members(part, scope) if name in ("any", "all") else evaluate(part, scope) for part in given]
    flat = [one for value in values for one in (value if isinstance(value, list) else [value])]
    if name == "exists":
        facts = [scope.facts.get(used) for path in given for used in scope.names(path[1])]
        denied = [one for one in facts if one and one.status in ("denied", "error")]
        there = any(one and one.status == "ok" for one in facts)  # an empty list is there, too
        return Unknown(f"{given[0][1]}: {denied[0].reason}") if denied and not there else there
    if name == "count":
        return sum(1 for one in flat if not isinstance(one, Unknown))
    if name in ("all", "any"):
        return _joined("and" if name == "all" else "or", flat)
    if unknown := next((one for one in flat if isinstance(one, Unknown)), None):
        return unknown
    if name == "same":
        return len({repr(one) for one in flat}) <= 1
    if name == "version":
        return [int(part) for part in re.findall(r"\d+", str(flat[0]))] if flat else Unknown("version() of nothing")
    if name == "contains":
        return (
            len(values) == 2 and values[1] in values[0]
            if isinstance(values[0], (str, list))
            else Unknown("contains() needs text or a list")
        )
    numbers = [one for one in flat if isinstance(one, (int, float))]
    fold: Callable[[list[float]], float] = {"min": min, "max": max, "sum": sum}[name]  # type: ignore[assignment]
    return fold(numbers) if numbers else Unknown(f"{name}() of nothing")

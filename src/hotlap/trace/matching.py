"""Which work of one trace is which of another: by place in the operator tree, by order, and by how much names are alike."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Literal, NamedTuple

from hotlap.trace import naming
from hotlap.trace.spending import Group

How = Literal["same", "replaced", "moved", "renamed", "appeared", "vanished"]
MEANING = {
    "same": "the same name in the same place of the operator tree",
    "replaced": "another name in the same place of the operator tree",
    "moved": "the same name below other operators",
    "renamed": "a like name at the same place in the order, or the most alike of those left over",
    "appeared": "in the second trace only",
    "vanished": "in the first trace only",
}
BETWEEN, ANYWHERE = 0.3, 0.6  # least similarity of names for work between the same neighbours, and for work anywhere
MOST = 150  # groups on a side that are compared each with each


class Pair(NamedTuple):
    """Places in the groups of both traces; −1 where there is none."""

    a: int
    b: int
    how: How


def pairs(ours: Sequence[Group], theirs: Sequence[Group]) -> list[Pair]:
    """Each group of either trace once. Both are given in the order in which they first ran."""
    found: list[Pair] = []
    a_left, b_left = dict(enumerate(ours)), dict(enumerate(theirs))

    def take(how: How, key: Callable[[Group], Hashable], score: Callable[[Group, Group], float], least: float) -> None:
        buckets: dict[Hashable, list[int]] = {}
        for j, group in b_left.items():
            if (k := key(group)) is not None:
                buckets.setdefault(k, []).append(j)
        wanted: dict[Hashable, list[int]] = {}
        for i, group in a_left.items():
            if (k := key(group)) in buckets:
                wanted.setdefault(k, []).append(i)
        for k, mine in wanted.items():
            for i, j in _best(mine, buckets[k], lambda i, j: score(ours[i], theirs[j]), least):
                found.append(Pair(i, j, how))
                del a_left[i], b_left[j]

    take("same", lambda g: g, lambda x, y: 1.0, 0.0)
    take("replaced", lambda g: (g.kind, g.path) if g.path else None, _alike, 0.0)
    take("moved", lambda g: (g.kind, g.name), _along, 0.0)
    for i, j in _between(ours, theirs, a_left, b_left, found):
        found.append(Pair(i, j, "renamed"))
        del a_left[i], b_left[j]
    take("renamed", lambda g: g.kind, _alike, ANYWHERE)
    return found + [Pair(i, -1, "vanished") for i in a_left] + [Pair(-1, j, "appeared") for j in b_left]


def _best(mine: list[int], theirs: list[int], score: Callable[[int, int], float], least: float) -> list[tuple[int, int]]:
    """The pairs that are most alike, each side once; at equal likeness those nearest in order."""
    if len(mine) == len(theirs) == 1 and least == 0:
        return [(mine[0], theirs[0])]
    scored = [(-score(i, j), abs(p - q), i, j) for p, i in enumerate(mine[:MOST]) for q, j in enumerate(theirs[:MOST])]
    chosen: list[tuple[int, int]] = []
    ours, others = set[int](), set[int]()
    for minus, _, i, j in sorted(scored):
        if -minus >= least and i not in ours and j not in others:
            chosen.append((i, j))
            ours.add(i)
            others.add(j)
    return chosen


def _between(
    ours: Sequence[Group], theirs: Sequence[Group], a_left: dict[int, Group], b_left: dict[int, Group], found: list[Pair]
) -> list[tuple[int, int]]:
    """Groups left over that follow the same matched group."""
    after_a, after_b = dict[tuple[int, int], list[int]](), dict[tuple[int, int], list[int]]()
    tokens_a, tokens_b = {pair.a: n for n, pair in enumerate(found)}, {pair.b: n for n, pair in enumerate(found)}
    for groups, left, tokens, after in ((ours, a_left, tokens_a, after_a), (theirs, b_left, tokens_b, after_b)):
        last = -1
        for i in range(len(groups)):
            last = tokens.get(i, last)
            if i in left:
                after.setdefault((last, groups[i].kind), []).append(i)
    made: list[tuple[int, int]] = []
    for key in after_a.keys() & after_b.keys():
        made += _best(after_a[key], after_b[key], lambda i, j: _alike(ours[i], theirs[j]), BETWEEN)
    return made


def _alike(x: Group, y: Group) -> float:
    return _similar(x.name, y.name)


@lru_cache(maxsize=1 << 16)
def _similar(x: str, y: str) -> float:
    return SequenceMatcher(None, naming.short(x)[:120], naming.short(y)[:120], autojunk=False).ratio()


def _along(x: Group, y: Group) -> float:
    """Share of the longer path that both have, from the inside out."""
    same = 0
    for a, b in zip(reversed(x.path), reversed(y.path), strict=False):
        if a != b:
            break
        same += 1
    return same / max(len(x.path), len(y.path), 1)

"""Which work of one trace is which of another: by place in the operator tree, by order, and by how much names are alike."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from hotlap.traces import naming
from hotlap.traces.spending import SpendingGroup

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
BUDGET = 200_000  # comparisons of two names, about a second; what is beyond is paired by order, or not at all


class GroupPair(NamedTuple):
    """Places in the groups of both traces; −1 where there is none."""

    a: int
    b: int
    how: How


def pairs(ours: Sequence[SpendingGroup], theirs: Sequence[SpendingGroup]) -> list[GroupPair]:
    """Each group of either trace once. Both are given in the order in which they first ran."""
    matched: list[GroupPair] = []
    a_left, b_left = dict(enumerate(ours)), dict(enumerate(theirs))
    budget = [BUDGET]

    def take(
        how: How, key: Callable[[SpendingGroup], Hashable], score: Callable[[SpendingGroup, SpendingGroup], float], least: float
    ) -> None:
        buckets: dict[Hashable, list[int]] = {}
        for j, group in b_left.items():
            if (k := key(group)) is not None:
                buckets.setdefault(k, []).append(j)
        wanted: dict[Hashable, list[int]] = {}
        for i, group in a_left.items():
            if (k := key(group)) in buckets:
                wanted.setdefault(k, []).append(i)
        for k, mine in wanted.items():
            for i, j in _best(mine, buckets[k], lambda i, j: score(ours[i], theirs[j]), least, budget):
                matched.append(GroupPair(i, j, how))
                del a_left[i], b_left[j]

    take("same", lambda g: g, lambda x, y: 1.0, 0.0)
    take("replaced", lambda g: (g.kind, g.path) if g.path else None, _alike, 0.0)
    take("moved", lambda g: (g.kind, g.name), _along, 0.0)
    after_a, after_b = _following(ours, a_left, [pair.a for pair in matched]), _following(theirs, b_left, [pair.b for pair in matched])
    for key in [key for key in after_a if key in after_b]:
        for i, j in _best(after_a[key], after_b[key], lambda i, j: _alike(ours[i], theirs[j]), BETWEEN, budget):
            matched.append(GroupPair(i, j, "renamed"))
            del a_left[i], b_left[j]
    take("renamed", lambda g: g.kind, _alike, ANYWHERE)
    return matched + [GroupPair(i, -1, "vanished") for i in a_left] + [GroupPair(-1, j, "appeared") for j in b_left]


def _best(
    mine: list[int], theirs: list[int], score: Callable[[int, int], float], least: float, budget: list[int]
) -> list[tuple[int, int]]:
    """The pairs that are most alike, each side once; at equal likeness those nearest in order."""
    if len(mine) == len(theirs) == 1 and least == 0:
        return [(mine[0], theirs[0])]
    if len(mine) * len(theirs) > budget[0]:
        return list(zip(mine, theirs, strict=False)) if least == 0 else []
    budget[0] -= len(mine) * len(theirs)
    scored = [(-score(i, j), abs(p - q), i, j) for p, i in enumerate(mine) for q, j in enumerate(theirs)]
    chosen: list[tuple[int, int]] = []
    ours, others = set[int](), set[int]()
    for minus, _, i, j in sorted(scored):
        if -minus >= least and i not in ours and j not in others:
            chosen.append((i, j))
            ours.add(i)
            others.add(j)
    return chosen


def _following(groups: Sequence[SpendingGroup], left: dict[int, SpendingGroup], matched: list[int]) -> dict[tuple[int, int], list[int]]:
    """Groups left over by the matched one that they follow in order, and their class."""
    number = {place: n for n, place in enumerate(matched)}
    places: dict[tuple[int, int], list[int]] = {}
    last = -1
    for i, group in enumerate(groups):
        last = number.get(i, last)
        if i in left:
            places.setdefault((last, group.kind), []).append(i)
    return places


def _alike(x: SpendingGroup, y: SpendingGroup) -> float:
    return _similar(x.name, y.name)


def _similar(x: str, y: str) -> float:
    """Dice's coefficient of pairs of letters: 1 where all are common."""
    a, b = _letter_pairs(x), _letter_pairs(y)
    return 2 * len(a & b) / max(len(a) + len(b), 1)


@lru_cache(maxsize=1 << 16)
def _letter_pairs(name: str) -> frozenset[str]:
    text = naming.short(name)[:120]
    return frozenset(text[i : i + 2] for i in range(len(text) - 1))


def _along(x: SpendingGroup, y: SpendingGroup) -> float:
    """Share of the longer path that both have, from the inside out."""
    same = 0
    for a, b in zip(reversed(x.path), reversed(y.path), strict=False):
        if a != b:
            break
        same += 1
    return same / max(len(x.path), len(y.path), 1)

"""Which pairs transfer at once. A round is a matching: each node is in at most one pair of it.

Pairs between two leaves are oriented alike, so that all nodes of a leaf send over its uplink at once: an uplink that has lost a part of its
rate shows only under its full load. Hwang's matchings of a tournament are the circle method (Kirkman 1847).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from hotlap.bringup.record import FabricLayout, Ints

SMALL = 16  # nodes up to which every pair is tested
FEW, REPEATS = 6, 12  # of fewer nodes their few pairs say little of the noise: they are repeated up to so many rounds
EVERY = 256  # nodes up to which that can be asked for
FEW_LEAVES = 8  # up to so many leaves a bad uplink would be most of what rounds between leaves see: every third round is within leaves


def circle(nodes: Sequence[int] | Ints) -> list[Ints]:
    """A tournament by the circle method: each pair once, in n - 1 rounds, or n where n is odd and each rests once."""
    ring = [int(node) for node in nodes]
    if len(ring) < 2:
        return []
    if len(ring) % 2:
        ring.append(-1)
    half, rounds = len(ring) // 2, []
    for _ in range(len(ring) - 1):
        pairs = [(a, b) for a, b in zip(ring[:half], reversed(ring[half:]), strict=True) if a >= 0 and b >= 0]
        rounds.append(np.array(pairs, dtype=np.int64).reshape(-1, 2))
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return rounds


def screening(nodes: int) -> int:
    """Rounds of random matchings that tell bad nodes: half of log2 N, at least 3 (clusters study, stage 2)."""
    return max(3, -(-max(nodes - 1, 1).bit_length() // 2))


def tournament(where: FabricLayout, random: np.random.Generator) -> list[Ints]:
    """Every pair once. Where leaves are alike, leaves meet as a whole, and rounds between and within them take turns; else by the circle
    method of all; with as many pairs over an uplink as it carries."""
    if where.known and where.limit:
        return _limited(where, circle(random.permutation(where.nodes)))
    sizes = np.bincount(where.leaf) if where.known else np.empty(0, np.int64)
    if not where.known or len(set(sizes)) != 1 or sizes[0] % 2:
        return circle(random.permutation(where.nodes))
    size = int(sizes[0])
    groups = [random.permutation(where.members(int(leaf))) for leaf in random.permutation(len(sizes))]
    within = [circle(group) for group in groups]
    between = list[Ints]()
    for shift in range(size):
        for meeting in circle(range(len(groups))):
            parts = [np.column_stack([groups[a], np.roll(groups[b], shift)]) for a, b in meeting]
            resting = set(range(len(groups))) - set(meeting.ravel().tolist())  # of an odd number of leaves
            parts += [within[leaf][shift] for leaf in resting if shift < size - 1]
            between.append(np.concatenate(parts))
    alone = [np.concatenate(rounds) for rounds in zip(*within, strict=True)] if len(groups) % 2 == 0 else []
    order = list[Ints]()
    while between or alone:
        rest = between if between and (len(order) % 3 != 1 or not alone) else alone
        order.append(rest.pop(0))
    return order


def _limited(where: FabricLayout, rounds: Iterable[Ints]) -> list[Ints]:
    """The pairs of these rounds in as many as it takes, each with what uplinks carry and as many more as there are nodes for."""
    pairs = np.concatenate(list(rounds))
    turned = where.leaf[pairs[:, 0]] > where.leaf[pairs[:, 1]]
    left: list[tuple[int, int]] = [(a, b) for a, b in np.where(turned[:, None], pairs[:, ::-1], pairs).tolist()]
    packed = list[Ints]()
    while left:
        chosen, rest, busy, load = list[tuple[int, int]](), list[tuple[int, int]](), set[int](), Counter[int]()
        if len(packed) % 3 != 1:  # uplinks as full as they may be
            left.sort(key=lambda pair: int(where.leaf[pair[0]] == where.leaf[pair[1]]))
        for place, (a, b) in enumerate(left):
            if len(busy) >= where.nodes - 1:
                rest += left[place:]
                break
            if {a, b} & busy or not _carried(where, a, b, load):
                rest.append((a, b))
                continue
            chosen.append((a, b))
            busy |= {a, b}
        packed.append(np.array(chosen, dtype=np.int64))
        left = rest
    return packed


def _carried(where: FabricLayout, first: int, second: int, load: Counter[int]) -> bool:
    """Whether uplinks have room for a pair, which is then in `load`, pairs by leaf."""
    leaves = {int(where.leaf[first]), int(where.leaf[second])}
    if not where.known or not where.limit or len(leaves) == 1:
        return True
    if any(load[leaf] >= where.limit for leaf in leaves):
        return False
    load.update(leaves)
    return True


def carried(where: FabricLayout, pairs: Ints) -> Ints:
    """Those of the pairs that uplinks carry at once. [P, 2]"""
    load = Counter[int]()
    kept = [pair for pair in pairs.tolist() if _carried(where, pair[0], pair[1], load)]
    return np.array(kept, dtype=np.int64).reshape(-1, 2)


def matchings(where: FabricLayout, rounds: int, random: np.random.Generator) -> list[Ints]:
    """Random matchings. Leaves meet in pairs, with no more pairs over an uplink than it carries; the other nodes stay in their leaf."""
    if not where.known:
        return [_within(random.permutation(where.nodes)) for _ in range(rounds)]
    leaves = int(where.leaf.max()) + 1
    meetings, made_up = list[Ints](), list[Ints]()
    for number in range(rounds):
        if leaves <= FEW_LEAVES and number % 3 == 1:
            made_up.append(_gather([random.permutation(where.members(leaf)) for leaf in range(leaves)]))
            continue
        if not meetings:
            meetings = circle(random.permutation(leaves))
        made_up.append(_between(where, meetings.pop(0), random))
    return made_up


def _within(nodes: Ints) -> Ints:
    return nodes[: len(nodes) // 2 * 2].reshape(-1, 2)


def _gather(groups: Iterable[Ints]) -> Ints:
    return np.concatenate([_within(group) for group in groups] or [np.empty((0, 2), np.int64)])


def _between(where: FabricLayout, meeting: Ints, random: np.random.Generator) -> Ints:
    left = {leaf: random.permutation(where.members(leaf)) for leaf in range(int(where.leaf.max()) + 1)}
    parts = []
    for first, second in meeting:
        a, b = int(first), int(second)
        count = min(len(left[a]), len(left[b]), where.limit or where.nodes)
        parts.append(np.column_stack([left[a][:count], left[b][:count]]))
        left[a], left[b] = left[a][count:], left[b][count:]
    return np.concatenate([*parts, _gather(left.values())])


def confirmation(
    where: FabricLayout, wanted: Mapping[int, set[int]], suspects: set[int], links: Iterable[tuple[int, int]], random: np.random.Generator
) -> Ints:
    """A round in which each suspect meets a good partner that it has not met, in its own leaf where there is such. [P, 2]

    `wanted`: a suspect's former partners. `links`: pairs that are tested again as they are.
    """
    used, pairs, load = set[int](), list[tuple[int, int]](), Counter[int]()
    for a, b in links:
        if not {a, b} & used and _carried(where, a, b, load):
            pairs.append((a, b))
            used |= {a, b}
    good = [int(node) for node in random.permutation(where.nodes) if int(node) not in suspects]
    by_leaf: dict[int, list[int]] = {}
    for node in good:
        by_leaf.setdefault(int(where.leaf[node]), []).append(node)
    for suspect in wanted:
        if suspect in used:
            continue
        near = by_leaf.get(int(where.leaf[suspect]), [])
        partner = next((node for node in near if node not in used and node not in wanted[suspect]), None)
        if partner is None:
            fresh = (node for node in good if node not in used and node not in wanted[suspect])
            partner = next((node for node in fresh if _carried(where, suspect, node, load)), None)
        if partner is not None:
            pairs.append((suspect, partner))
            used |= {suspect, partner}
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def inside(where: FabricLayout, leaves: Iterable[int], random: np.random.Generator, busy: set[int]) -> Ints:
    """Pairs within leaves, of nodes that are not busy."""
    free = (np.setdiff1d(where.members(leaf), np.array(sorted(busy), dtype=np.int64)) for leaf in leaves)
    return _gather(random.permutation(nodes) for nodes in free)

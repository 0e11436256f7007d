"""Two other ways to find bad nodes, on the same simulated faults: adaptive group testing, and a ring grown from a reference node.

Written from the descriptions in NVIDIA's cluster-readiness-engine ADR-055 and -056 (screen, bisect, confirm; a limit of 90 %) and in
ROCm/cvs#280 (a ring grown by a node at a time), not from their code. A ring or a group gives what its slowest transfer gives.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hotlap.bringup.fabrics import Fabric
from hotlap.bringup.record import Ints

LIMIT = 0.9  # of the fleet's rate; the median of the first groups is the reference
SAMPLES = 3  # of each test, of which the peak counts (cluster-readiness-engine#6)
SCREEN = 8  # nodes of a first group


@dataclass
class Spent:
    """`named`: nodes; `tests`: groups that ran; `rounds`: those that could run at once count as a single round."""

    named: set[int] = field(default_factory=set)
    tests: int = 0
    rounds: int = 0


def _rings(fabric: Fabric, groups: list[Ints]) -> list[float]:
    """The slowest transfer of each ring, all rings at once."""
    pairs = np.concatenate([np.column_stack([group, np.roll(group, -1)]) for group in groups])
    rates = np.max([fabric.transfer(pairs).min(axis=1) for _ in range(SAMPLES)], axis=0)
    return [float(part.min()) for part in np.split(rates, np.cumsum([len(group) for group in groups])[:-1])]


def group_testing(fabric: Fabric, random: np.random.Generator) -> Spent:
    """Groups of eight; those below the limit are halved until pairs are left; each node of a bad pair then beside a node that passed."""
    spent = Spent()
    count = fabric.where.nodes
    groups = [part for part in np.array_split(random.permutation(count), max(count // SCREEN, 1)) if len(part) > 1]
    rates = _rings(fabric, groups)
    reference = float(np.median(rates))
    passed, bad, singles = list[int](), list[Ints](), list[int]()
    while groups:
        spent.rounds += 1
        spent.tests += len(groups)
        bad = [group for group, rate in zip(groups, rates, strict=True) if rate < LIMIT * reference]
        passed += [int(node) for group, rate in zip(groups, rates, strict=True) if rate >= LIMIT * reference for node in group]
        singles += [int(node) for group in bad if len(group) <= 3 for node in group]
        groups = [half for group in bad if len(group) > 3 for half in np.array_split(group, 2)]
        rates = _rings(fabric, groups) if groups else []
    spent.named = _confirmed(fabric, singles, passed, reference, random, spent)
    return spent


def _confirmed(
    fabric: Fabric, singles: list[int], passed: list[int], reference: float, random: np.random.Generator, spent: Spent
) -> set[int]:
    if not singles or not passed:
        return set(singles)
    partners = random.permutation(passed)
    named = set[int]()
    for begin in range(0, len(singles), len(partners)):
        some = singles[begin : begin + len(partners)]
        pairs = [np.array([node, partner]) for node, partner in zip(some, partners, strict=False)]
        spent.rounds += 1
        spent.tests += len(pairs)
        named |= {node for node, rate in zip(some, _rings(fabric, pairs), strict=True) if rate < LIMIT * reference}
    return named


def grown_ring(fabric: Fabric, random: np.random.Generator) -> Spent:
    """A ring from a reference node, by a node at a time; a node that slows it is named and left out. Every step waits for the last."""
    spent = Spent()
    order = [int(node) for node in random.permutation(fabric.where.nodes)]
    ring, usual = order[:2], 0.0
    usual = _rings(fabric, [np.array(ring)])[0]
    spent.tests = spent.rounds = 1
    for node in order[2:]:
        # only the two transfers beside the new node are new; the rest of the ring passed
        pairs = np.array([[ring[-1], node], [node, ring[0]]])
        rate = max(float(fabric.transfer(pairs).min()) for _ in range(SAMPLES))
        spent.tests, spent.rounds = spent.tests + 1, spent.rounds + 1
        if rate < LIMIT * usual:
            spent.named.add(node)
        else:
            ring.append(node)
            usual = max(usual, rate)
    return spent

"""Whether a topology fits: slow transfers that another set of nodes explains better, as if it shared an uplink that the topology lacks.

log rate = fleet + the largest loss among the parts of nodes and, where a transfer leaves the set or enters it, that uplink's, by its load
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hotlap.bringup import explain, factors
from hotlap.bringup.explain import Model, PartFit
from hotlap.bringup.record import FabricLayout, Flags, Floats, Ints, Transfers
from hotlap.core.stats import student

TELLS = math.log(20)  # odds of 20 to 1 against the parts that the topology has
STARTS, SIZES, SMALL = 8, 24, 64  # nodes to start from, sets of each, and nodes up to which each is tried in and out of the set
UPLINKS, OF_NODES = ("uplink", "uplink-out", "uplink-in"), ("node", "send", "receive", "nic")
EXCHANGED = 8  # half of the nodes, up to which each two are exchanged
MOST = 512  # nodes among which sets are looked for
CHANCE = 0.05  # over all nodes, that one is slow so often by disturbances
TIMES = 3  # that transfers were measured at once, in which some were slow
WITHIN = 3  # transfers inside the set that have to be fast: else its nodes are slow themselves


class _Set(NamedTuple):
    """`net`: log-likelihood of all transfers less the penalties, against nothing slow."""

    inside: Flags
    net: float
    effect: float = 0.0


def sharing(tests: Transfers, where: FabricLayout, model: Model) -> tuple[list[int], float]:
    """Nodes of a set that explains the transfers better than what the topology has, and what it loses; none where it fits."""
    if not where.known or where.nodes < 6 or not _looked(model):
        return [], 0.0
    own = [fit for fit in model.fits if fit.factor.kind in OF_NODES]
    most = _net(model.fits, tests, where, model, explain.limiting(model.fits, tests, where)[0]) + TELLS
    way = ways(tests)
    best = max((_best(base, tests, where, model, way) for base in ([[], own] if own else [[]])), key=lambda each: each.net)
    slow = model.off - explain.limiting(own, tests, where)[0] < -4 * model.noise.sigma
    if best.net <= most or not _often(best.inside, tests, slow, way) or not _beyond(best.inside, tests, where, model):
        return [], 0.0
    return np.flatnonzero(best.inside).tolist(), 1.0 - math.exp(best.effect)


def _often(inside: Flags, tests: Transfers, slow: Flags, way: Ints) -> bool:
    """Whether slow transfers cross a set's border at several times, twice as many as it has nodes, and more often than by chance, as there
    are many sets."""
    crossing = inside[tests.sender] != inside[tests.receiver]
    size = int(inside.sum())
    if (slow & crossing).sum() < 2 * size or len(np.unique(way[slow & crossing])) < TIMES:
        return False
    sender, receiver, slow = explain.of_all_rails(tests, slow)
    crossing = inside[sender] != inside[receiver]
    count, times = int(crossing.sum()), int((slow & crossing).sum())
    usual = (float((slow & ~crossing).sum()) + 1) / (float((~crossing).sum()) + 2)
    chance = student.incomplete_beta(usual, times, count - times + 1)
    return chance <= 0 or math.log(chance) + _sets(len(inside), size) < math.log(CHANCE)


def _sets(count: int, size: int) -> float:
    """The logarithm of how many sets of nodes there are."""
    return math.lgamma(count + 1) - math.lgamma(size + 1) - math.lgamma(count - size + 1)


def _beyond(inside: Flags, tests: Transfers, where: FabricLayout, model: Model) -> bool:
    """Whether a set is more than nodes that are named, or of one leaf, or of such whose uplink is named and may be shared unfairly."""
    leaves = [int(np.bincount(where.leaf[inside]).argmax()), *(fit.factor.first for fit in model.fits if fit.factor.kind in UPLINKS)]
    named = {fit.factor.first for fit in model.fits if fit.factor.kind in OF_NODES}
    others = [int(node) for node in np.flatnonzero(inside & ~np.isin(where.leaf, leaves)) if int(node) not in named]
    if 2 * len(others) >= inside.sum():
        return True
    slow = model.off - model.current < -4 * model.noise.sigma
    apart = ~inside[tests.sender] & ~inside[tests.receiver]
    usual = (float(slow[apart].sum()) + 1) / (float(apart.sum()) + 2)
    for node in others:
        own = (tests.sender == node) | (tests.receiver == node)
        times, count = float((slow & own).sum()), float(own.sum())
        if times and student.incomplete_beta(usual, times, count - times + 1) < CHANCE / where.nodes:
            return True
    return False


def _looked(model: Model) -> bool:
    """Whether anything is slow that no part of a node explains."""
    unexplained = model.off - model.current < -4 * model.noise.sigma
    return int(unexplained.sum()) >= 4 or any(fit.factor.kind in ("link", *factors.COARSE) for fit in model.fits)


def _net(fits: list[PartFit], tests: Transfers, where: FabricLayout, model: Model, current: Floats) -> float:
    penalties = {some.kind: model.penalty(some) for some in model.groups}
    gained = model.noise.likelihood(model.off - current) - model.noise.likelihood(model.off)
    return float(gained.sum()) - sum(penalties[fit.factor.kind] for fit in fits)


def _best(base: list[PartFit], tests: Transfers, where: FabricLayout, model: Model, way: Ints) -> _Set:
    """Of sets around a node: those that send, or receive, slowly at once with it most often, beside these parts of nodes."""
    current = explain.limiting(base, tests, where)[0]
    slow = model.off - current < -3 * model.noise.sigma
    some = _slowest(slow, tests, where.nodes)
    together = _together(slow, tests, some, where.nodes, way)
    starts, most = (STARTS, SIZES) if where.nodes <= SMALL else (STARTS // 4, SIZES // 2)
    tried = _Search(tests, model, current, way, _net(base, tests, where, model, current)).tried
    sizes = np.unique(np.rint(np.geomspace(2, where.nodes // 2, most)).astype(int))
    sets = [_Set(np.zeros(where.nodes, bool), -math.inf)]
    for place in np.argsort(-together.sum(axis=0), kind="stable")[:starts]:
        order = some[np.argsort(-together[place], kind="stable")]
        sets += [tried(np.isin(np.arange(where.nodes), order[:size])) for size in sizes]
    best = max(sets, key=lambda each: each.net)
    if where.nodes > SMALL:
        return best
    leaves = [tried(where.leaf == leaf) for leaf in range(int(where.leaf.max()) + 1)]  # a topology that is nearly right
    both = (best, max(leaves, key=lambda each: each.net))
    return max((_refined(each, tried) for each in both), key=lambda each: each.net)


def _refined(best: _Set, tried: Callable[[Flags], _Set]) -> _Set:
    """With nodes put in, taken out and exchanged, while that explains more."""
    most = len(best.inside) // 2
    for _ in range(3):
        before, inside = best, best.inside
        changes = [[node] for node in range(len(inside))]
        if most <= EXCHANGED:
            members, others = (np.flatnonzero(each).tolist() for each in (inside, ~inside))
            changes += [[one, other] for one in members for other in others]
        for change in changes:
            other = before.inside.copy()
            other[change] = ~other[change]
            if 2 <= int(other.sum()) <= most:
                best = max(best, tried(other), key=lambda each: each.net)
        if best is before:
            break
    return best


def _slowest(slow: Flags, tests: Transfers, count: int) -> Ints:
    """Nodes with slow transfers, those with most first."""
    times = np.bincount(np.concatenate([tests.sender[slow], tests.receiver[slow]]), minlength=count)
    order: Ints = np.argsort(-times, kind="stable")
    return order[: min(max(int((times > 0).sum()), 2), MOST)]


def _together(slow: Flags, tests: Transfers, some: Ints, count: int, way: Ints) -> Floats:
    """How often two of some nodes send slowly at once, or receive so; a node with itself most. [some, some]"""
    place, often = np.full(count, -1), np.zeros((len(some), len(some)))
    place[some] = np.arange(len(some))
    for ends in (tests.sender, tests.receiver):
        for number in np.unique(way[slow]):
            own = place[ends[slow & (way == number)]]
            own = own[own >= 0]
            often[np.ix_(own, own)] += 1
    np.fill_diagonal(often, often.diagonal() + often.max() + 1)
    return often


@dataclass(frozen=True)
class _Search:
    """Among which transfers a set is looked for. `current` [T]: what is explained already; `net`: by that."""

    tests: Transfers
    model: Model
    current: Floats
    way: Ints
    net: float

    def tried(self, inside: Flags) -> _Set:
        """An uplink around these nodes, with the loss that explains most."""
        tests, model, current, size, count = self.tests, self.model, self.current, int(inside.sum()), len(inside)
        source, sink = inside[tests.sender], inside[tests.receiver]
        within = source & sink
        if within.sum() < WITHIN or np.median((model.off - current)[within]) < -2 * model.noise.sigma:
            return _Set(inside, -math.inf)
        place = np.flatnonzero(source != sink)
        if not len(place):
            return _Set(inside, -math.inf)
        side = self.way[place] * 2 + source[place]
        _, group, load = np.unique(side, return_inverse=True, return_counts=True)
        offset = np.log(np.maximum(size / load, 1.0))
        effect, gain = _loss(model.off[place], current[place], offset[group], model)
        means = [np.log(np.bincount(group, np.exp(each[place])) / load) for each in (model.off, current)]
        unfair, together = _loss(means[0], means[1], offset, model)  # TCP may share a full uplink unfairly: then only the sum tells
        effect, gain = (unfair, together) if together > gain else (effect, gain)
        return _Set(inside, self.net + gain - 0.5 * math.log(max(len(tests), 2)) - _sets(count, size), effect)


def _loss(off: Floats, current: Floats, offset: Floats, model: Model) -> tuple[float, float]:
    """The best loss of an uplink that few transfers may have filled, as a logarithm, and its gain in log-likelihood."""
    slow = off - current < -3 * model.noise.sigma
    if not slow.any():
        return 0.0, 0.0
    value, before = (off - offset)[slow], float(model.noise.likelihood(off - current).sum())

    def gain(effect: float) -> float:
        return float(model.noise.likelihood(off - np.minimum(np.minimum(effect + offset, 0.0), current)).sum()) - before

    tries = [float(each) for each in np.quantile(value, np.linspace(0, 1, factors.CANDIDATES))]
    best = max(tries, key=gain)
    near = value[np.abs(value - best) < 2.5 * model.noise.sigma]
    best = max(best, float(near.mean()) if len(near) else best, key=gain)
    return best, gain(best)


def ways(tests: Transfers) -> Ints:
    """A number for each round and direction: what is measured at once. [T]"""
    met, second = set[tuple[int, int]](), np.zeros(len(tests), np.int64)
    each = zip(tests.round.tolist(), tests.sender.tolist(), tests.receiver.tolist(), strict=True)
    for number, (round_, sender, receiver) in enumerate(each):
        second[number] = (round_, sender) in met
        met.add((round_, receiver))
    return tests.round * 2 + second

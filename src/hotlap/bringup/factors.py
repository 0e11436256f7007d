"""Parts of a fabric as groups of transfers, and how much better transfers are explained when one part is slow.

The slowest part of a way sets the rate, so effects do not add: what a transfer loses is the largest loss on its way. Noise is normal in
the logarithm; a share of transfers is disturbed and may have any rate, so that no single transfer names anybody.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hotlap.bringup.record import CauseKind, FabricLayout, Floats, Ints, SlowPart, Transfers

COARSE: tuple[CauseKind, ...] = ("rail", "uplink", "uplink-out", "uplink-in", "leaf pair")
ORDER: tuple[CauseKind, ...] = (*COARSE, "node", "send", "receive", "nic", "link")
DEEPEST = 3.0  # natural logarithm: a transfer that gives less than 5 % is as one that gives 5 %
CANDIDATES = 9  # losses tried for a part: quantiles of its transfers


@dataclass
class Groups:
    """Transfers by part, for one kind. `offset`: by how much less than full an uplink was loaded, as a logarithm."""

    kind: CauseKind
    test: Ints
    group: Ints
    offset: Floats
    factors: Ints  # [groups, 2]

    def factor(self, group: int) -> SlowPart:
        return SlowPart(self.kind, int(self.factors[group, 0]), int(self.factors[group, 1]))


@dataclass(frozen=True)
class TransferNoise:
    """Of a transfer. `sigma`: of its logarithm; `disturbed`, `faster`: the shares that are slow and fast for no reason of the fabric.

    Nothing makes a transfer faster than the slowest part of its way, so that a fast one nearly excludes a slow part.
    """

    sigma: float
    disturbed: float
    faster: float = 1e-6

    def likelihood(self, off: Floats) -> Floats:
        """The logarithm, of differences to what is expected."""
        z = off / self.sigma
        wide = math.log(self.sigma / DEEPEST) + np.where(z > 0, math.log(self.faster), math.log(self.disturbed))
        near: Floats = np.logaddexp(math.log1p(-self.disturbed) - 0.5 * math.log(2 * math.pi) - 0.5 * z * z, wide)
        return near


def groups(tests: Transfers, where: FabricLayout) -> list[Groups]:
    """Of every kind that this layout can have, from coarse to fine."""
    everyone, none = np.arange(len(tests)), np.zeros(len(tests))
    sender, receiver = tests.sender, tests.receiver
    kinds: dict[CauseKind, list[tuple[Ints, Ints, Ints, Floats]]] = {
        "node": [(everyone, sender, np.full_like(sender, -1), none), (everyone, receiver, np.full_like(sender, -1), none)],
        "send": [(everyone, sender, np.full_like(sender, -1), none)],
        "receive": [(everyone, receiver, np.full_like(sender, -1), none)],
        "link": [(everyone, sender, receiver, none)],
    }
    if where.rails > 1:
        kinds["rail"] = [(everyone, tests.rail, np.full_like(sender, -1), none)]
        kinds["nic"] = [(everyone, sender, tests.rail, none), (everyone, receiver, tests.rail, none)]
    if where.known:
        crossing = np.flatnonzero(tests.out > 0)
        source, sink = where.leaf[sender[crossing]], where.leaf[receiver[crossing]]
        full, single = where.full(), np.full(len(crossing), -1)
        out = (crossing, source, single, np.maximum(np.log(full[source] / tests.out[crossing]), 0.0))
        into = (crossing, sink, single, np.maximum(np.log(full[sink] / tests.into[crossing]), 0.0))
        kinds |= {"uplink": [out, into], "uplink-out": [out], "uplink-in": [into]}
        kinds["leaf pair"] = [(crossing, source, sink, np.zeros(len(crossing)))]
    return [_grouped(kind, kinds[kind]) for kind in ORDER if kind in kinds]


def _grouped(kind: CauseKind, parts: list[tuple[Ints, Ints, Ints, Floats]]) -> Groups:
    test, first, second, offset = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    base = int(second.max(initial=-1)) + 2
    keys, group = np.unique(first * base + second + 1, return_inverse=True)
    return Groups(kind, test, group, offset, np.column_stack([keys // base, keys % base - 1]))


@dataclass
class Bundles:
    """Transfers that share an uplink at once: by round, both leaves and rail.

    TCP may share a full uplink unfairly; their sum is what it lets through. `bundle` [T]: -1 within a leaf; `sizes` [bundles].
    """

    bundle: Ints
    sizes: Ints
    groups: list[Groups]  # of uplinks and pairs of leaves, with bundles as tests

    def mean(self, logs: Floats) -> Floats:
        """The logarithm of the mean of each bundle. [T] → [bundles]"""
        inside = self.bundle >= 0
        total = np.bincount(self.bundle[inside], np.exp(logs[inside]), len(self.sizes))
        return np.asarray(np.log(total / np.maximum(self.sizes, 1)), dtype=np.float64)


def bundles(tests: Transfers, where: FabricLayout) -> Bundles:
    """None where no leaf is known."""
    crossing = np.flatnonzero(tests.out > 0)
    columns = np.column_stack(
        [tests.round[crossing], where.leaf[tests.sender[crossing]], where.leaf[tests.receiver[crossing]], tests.rail[crossing]]
    )
    _, first, number = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    bundle: Ints = np.full(len(tests), -1)
    bundle[crossing] = number.ravel()
    sample = Transfers(*(getattr(tests, name)[crossing[first]] for name in ("sender", "receiver", "rail", "round", "out", "into", "rate")))
    some = [each for each in groups(sample, where) if each.kind in COARSE and each.kind != "rail"] if len(first) else []
    return Bundles(bundle, np.bincount(number.ravel(), minlength=len(first)), some)


def members(tests: Transfers, where: FabricLayout, factor: SlowPart) -> tuple[Ints, Floats]:
    """The transfers of a part, and their offsets."""
    sender, receiver, first, second = tests.sender, tests.receiver, factor.first, factor.second
    full = where.full()
    if factor.kind in ("uplink", "uplink-out", "uplink-in"):
        out = np.flatnonzero((tests.out > 0) & (where.leaf[sender] == first)) if factor.kind != "uplink-in" else np.empty(0, np.int64)
        into = np.flatnonzero((tests.into > 0) & (where.leaf[receiver] == first)) if factor.kind != "uplink-out" else np.empty(0, np.int64)
        flows = np.concatenate([tests.out[out], tests.into[into]])
        return np.concatenate([out, into]), np.maximum(np.log(full[first] / flows), 0.0)
    if factor.kind == "leaf pair":
        chosen = (tests.out > 0) & (where.leaf[sender] == first) & (where.leaf[receiver] == second)
    elif factor.kind == "link":
        chosen = (sender == first) & (receiver == second)
    elif factor.kind == "rail":
        chosen = tests.rail == first
    elif factor.kind == "send":
        chosen = sender == first
    elif factor.kind == "receive":
        chosen = receiver == first
    else:
        chosen = (sender == first) | (receiver == first)
        if factor.kind in ("nic", "gpu"):
            chosen &= tests.rail == second
    place = np.flatnonzero(chosen)
    return place, np.zeros(len(place))


def search(some: Groups, off: Floats, current: Floats, noise: TransferNoise) -> tuple[Floats, Floats]:
    """The best loss of each group as a logarithm (0: none), and by how much the log-likelihood gains. [groups], [groups]

    `off` [T]: logarithm of the rate over the fleet's; `current` [T]: what is explained already, 0 or less.
    """
    count = len(some.factors)
    effects, gains = np.zeros(count), np.zeros(count)
    slow = (off[some.test] - current[some.test] < -1.5 * noise.sigma).astype(float)
    open_ = (current[some.test] == 0.0).astype(float)
    share = np.bincount(some.group, slow, count) / np.maximum(np.bincount(some.group, open_, count), 1.0)
    chosen = np.flatnonzero(share > 0.4)
    if not len(chosen):
        return effects, gains
    slot: Ints = np.full(count, -1)
    slot[chosen] = np.arange(len(chosen))
    kept = np.flatnonzero(slot[some.group] >= 0)
    test, group, offset = some.test[kept], slot[some.group[kept]], some.offset[kept]
    value = off[test] - offset
    order = np.lexsort((value, group))
    sizes = np.bincount(group, minlength=len(chosen))
    starts = np.cumsum(sizes) - sizes
    before = noise.likelihood(off[test] - current[test])

    def gain(effect: Floats) -> Floats:
        expected = np.minimum(np.minimum(effect[group] + offset, 0.0), current[test])
        return np.asarray(np.bincount(group, noise.likelihood(off[test] - expected) - before, len(chosen)), dtype=np.float64)

    best, most = np.zeros(len(chosen)), np.zeros(len(chosen))
    tries = [value[order[starts + np.rint(part * (sizes - 1)).astype(np.int64)]] for part in np.linspace(0, 1, CANDIDATES)]
    for number in range(CANDIDATES + 2):
        effect = np.clip(tries[number] if number < CANDIDATES else _near(value, group, best, noise, len(chosen)), -DEEPEST, 0.0)
        now = gain(effect)
        better = now > most
        best, most = np.where(better, effect, best), np.where(better, now, most)
    effects[chosen], gains[chosen] = best, most
    return effects, gains


def _near(value: Floats, group: Ints, effect: Floats, noise: TransferNoise, count: int) -> Floats:
    """The mean of the values near each group's effect."""
    near = np.abs(value - effect[group]) < 2.5 * noise.sigma
    many = np.bincount(group[near], minlength=count)
    result: Floats = np.where(many > 0, np.bincount(group[near], value[near], count) / np.maximum(many, 1), effect)
    return result

"""A fabric with faults, simulated: for sizes and parts (GPU, NIC, rail) that we do not have.

The slowest part of a way sets a transfer's rate; transfers over one uplink share it. TransferNoise is normal in the logarithm; a share of
transfers loses a quarter of its rate for no reason of the fabric.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hotlap.bringup.record import FabricLayout, Flags, Floats, Ints, SlowPart, layout, loads
from hotlap.core.errors import InputError

PASSING = 0.25  # what a disturbed transfer loses
KINDS = {
    "node": "NODE:LOSS", "send": "NODE:LOSS", "receive": "NODE:LOSS",
    "uplink": "LEAF:LOSS", "uplink-out": "LEAF:LOSS", "uplink-in": "LEAF:LOSS",
    "link": "NODE>NODE:LOSS", "nic": "NODE/RAIL:LOSS", "gpu": "NODE/RAIL:LOSS", "rail": "RAIL:LOSS",
}  # fmt: skip
LARGEST = 100_000


@dataclass
class Fabric:
    """`faults`: the loss of each bad part. `rate`: B/s of a part without a fault."""

    where: FabricLayout
    faults: dict[SlowPart, float] = field(default_factory=dict)
    noise: float = 0.01
    disturbed: float = 0.05
    rate: float = 50e9
    seed: int = 0
    unfair: float = 0.0  # by how much the shares of transfers over a full uplink differ: standard deviation of their logarithm

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        count, rails = self.where.nodes, self.where.rails
        self.send, self.receive = np.ones((count, rails)), np.ones((count, rails))
        leaves = int(self.where.leaf.max()) + 1 if self.where.known else 1
        self.out, self.into, self.links = np.ones(leaves), np.ones(leaves), dict[tuple[int, int], float]()
        self.alone = np.ones((count, rails))
        for factor, loss in self.faults.items():
            self._hurt(factor, 1.0 - loss)

    def _hurt(self, factor: SlowPart, share: float) -> None:
        kind, first, rail = factor.kind, factor.first, slice(None) if factor.second < 0 else factor.second
        if kind in ("node", "send", "nic", "gpu"):
            self.send[first, rail] = np.minimum(self.send[first, rail], share)
        if kind in ("node", "receive", "nic", "gpu"):
            self.receive[first, rail] = np.minimum(self.receive[first, rail], share)
        if kind == "gpu":
            self.alone[first, rail] = share
        if kind == "rail":
            self.send[:, first] = np.minimum(self.send[:, first], share)
        if kind in ("uplink", "uplink-out"):
            self.out[first] = share
        if kind in ("uplink", "uplink-in"):
            self.into[first] = share
        if kind == "link":
            self.links[first, factor.second] = share

    def transfer(self, pairs: Ints) -> Floats:
        """B/s of one direction of a round, all pairs at once. [P, 2] → [P, rails]"""
        sender, receiver = pairs[:, 0], pairs[:, 1]
        share = np.minimum(self.send[sender], self.receive[receiver])
        out, into = loads(pairs, self.where)
        if self.where.known:
            full, source, sink = self.where.full(), self.where.leaf[sender], self.where.leaf[receiver]
            crossing = out > 0
            uplinks = np.minimum(
                self.out[source] * full[source] / np.maximum(out, 1), self.into[sink] * full[sink] / np.maximum(into, 1)
            )
            if self.unfair:
                uplinks = self._unfair(uplinks, source, crossing)
            share = np.where(crossing[:, None], np.minimum(share, uplinks[:, None]), share)
        for (first, second), most in self.links.items():
            at = (sender == first) & (receiver == second)
            share[at] = np.minimum(share[at], most)
        off = np.exp(self.random.normal(0.0, self.noise, share.shape))
        off *= np.where(self.random.random((len(pairs), 1)) < self.disturbed, 1.0 - PASSING, 1.0)
        result: Floats = self.rate * share * off
        return result

    def _unfair(self, fair: Floats, source: Ints, crossing: Flags) -> Floats:
        """The same sums over each sending leaf, in unequal shares of which none is above a full rate."""
        shares = fair.copy()
        for leaf in np.unique(source[crossing & (fair < 1)]):
            place = np.flatnonzero(crossing & (source == leaf))
            total, weights, open_ = fair[place].sum(), np.exp(self.random.normal(0, self.unfair, len(place))), np.ones(len(place), bool)
            rates = np.zeros(len(place))
            for _ in range(len(place)):
                rates[open_] = (total - (~open_).sum()) * weights[open_] / weights[open_].sum()
                if not (rates[open_] > 1).any():
                    break
                open_ &= rates <= 1
                rates[~open_] = 1.0
            shares[place] = rates
        return shares

    def by_itself(self) -> Floats:
        """Of every GPU alone, relative to what it should give. [N, rails]"""
        result: Floats = self.alone * np.exp(self.random.normal(0.0, self.noise, self.alone.shape))
        return result


def parse(text: str) -> Fabric:
    """`fabric?nodes=1024&leaf=32&rails=8&noise=1%&disturbed=5%&fault=node:n0007:20%&seed=1`. Raises InputError."""
    name, _, rest = text.partition("?")
    options = [part.partition("=")[::2] for part in rest.split("&") if part]
    valid = {"nodes", "leaf", "rails", "noise", "disturbed", "fault", "seed", "unfair"}
    wrong = next((key for key, _ in options if key not in valid), "")
    if name != "fabric" or wrong:
        known = ", ".join(sorted(valid))
        raise InputError(f"--simulate {text}: {f'there is no {wrong!r}' if wrong else 'it begins with fabric?'}; valid: {known}")
    given = dict(options)
    count, size = _whole(given, "nodes", 64), _whole(given, "leaf", 0)
    if count > LARGEST:
        raise InputError(f"--simulate {text}: at most {LARGEST} nodes are simulated")
    digits = len(str(count))
    names = [f"n{number:0{digits}}" for number in range(1, count + 1)]
    where = layout(names, np.arange(count) // size if size else None, _whole(given, "rails", 1))
    seed = _whole(given, "seed", 0, 0)
    faults = dict(fault(value, where) for key, value in options if key == "fault")
    noise, disturbed, unfair = (_share(given, name, default) for name, default in (("noise", 0.01), ("disturbed", 0.05), ("unfair", 0.0)))
    return Fabric(where, faults, noise, disturbed, seed=seed, unfair=unfair)


def fault(text: str, where: FabricLayout) -> tuple[SlowPart, float]:
    """KIND:PLACE:LOSS → the part and its loss. Raises InputError."""
    kind, _, rest = text.partition(":")
    place, _, loss = rest.rpartition(":")
    if kind not in KINDS or not place:
        raise InputError(f"fault={text}: a fault is {', '.join(f'{key}:{value}' for key, value in KINDS.items())}")
    share = _share({"fault": loss}, "fault", 0.0)
    if not 0 < share <= 1:
        raise InputError(f"fault={text}: a loss is above 0 and at most 100 %, not '{loss}'")
    leaves = int(where.leaf.max()) + 1

    def node(name: str) -> int:
        if name not in where.names:
            raise InputError(f"fault={text}: there is no node '{name}'; there are {where.names[0]} to {where.names[-1]}")
        return where.names.index(name)

    def number(name: str, count: int, what: str) -> int:
        if not count:
            raise InputError(f"fault={text}: no {what} is known; give leaf=N, nodes to a leaf")
        if not name.isdecimal() or int(name) >= count:
            raise InputError(f"fault={text}: a {what} is a number from 0 to {count - 1}, not '{name}'")
        return int(name)

    if kind in ("node", "send", "receive"):
        return SlowPart(kind, node(place)), share  # type: ignore[arg-type]
    if kind in ("nic", "gpu"):
        first, _, rail = place.partition("/")
        return SlowPart(kind, node(first), number(rail, where.rails, "rail")), share  # type: ignore[arg-type]
    if kind == "link":
        first, _, second = place.partition(">")
        return SlowPart("link", node(first), node(second)), share
    return SlowPart(kind, number(place, where.rails if kind == "rail" else leaves, "rail" if kind == "rail" else "leaf")), share  # type: ignore[arg-type]


def _whole(given: dict[str, str], name: str, default: int, least: int = 1) -> int:
    text = given.get(name, str(default))
    if not text.isdecimal() or (name in given and int(text) < least):
        raise InputError(f"{name} is a whole number from {least} on, not '{text}'")
    return int(text)


def _share(given: dict[str, str], name: str, default: float) -> float:
    if name not in given:
        return default
    text = given[name].strip()
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise InputError(f"{name} is a share as in 0.05 or 5%, not '{text}'") from None
    if not 0 <= value <= 1:
        raise InputError(f"{name} is a share from 0 to 1, not '{text}'")
    return value

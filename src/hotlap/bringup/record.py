"""What bring-up keeps: where nodes hang, what transfers between them gave, and the cause that explains them.

    FabricLayout + rounds of pairs → Transfers (arrays) → Cause, by name and loss → Isolation
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.errors import InputError
from hotlap.core.record import Record

Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
CauseKind = Literal["rail", "uplink", "uplink-out", "uplink-in", "leaf pair", "group", "node", "send", "receive", "nic", "gpu", "link"]


class SlowPart(NamedTuple):
    """One part that can be slow: node, leaf or rail numbers by kind. `second`: a link's receiver, a NIC's rail, a pair's leaf; -1: none."""

    kind: CauseKind
    first: int
    second: int = -1


@dataclass(frozen=True)
class FabricLayout:
    """The nodes and where they hang. `leaf` [N]: a number per node from 0 on, all -1 where nobody knows."""

    names: tuple[str, ...]
    leaf: Ints
    rails: int = 1
    limit: int = 0  # pairs that an uplink carries at full rate; 0: as many as its leaf has nodes
    leaves: tuple[str, ...] = ()  # their names, by number; (): the numbers

    @property
    def nodes(self) -> int:
        return len(self.names)

    @property
    def known(self) -> bool:
        """Whether leaves are known, and there is more than a single leaf."""
        return self.nodes > 0 and int(self.leaf.min()) >= 0 and int(self.leaf.max()) > 0

    def leaf_name(self, leaf: int) -> str:
        return self.leaves[leaf] if self.leaves else str(leaf)

    def members(self, leaf: int) -> Ints:
        return np.flatnonzero(self.leaf == leaf)

    def full(self) -> Ints:
        """Pairs that load each leaf's uplink fully. [leaves]"""
        sizes = np.bincount(np.maximum(self.leaf, 0))
        return np.minimum(sizes, self.limit) if self.limit else sizes


def layout(
    names: Sequence[str], leaf: Sequence[int] | Ints | None, rails: int = 1, limit: int = 0, leaves: Sequence[str] = ()
) -> FabricLayout:
    """Raises InputError for fewer than two nodes, a name that stands twice, and a topology of other nodes."""
    if len(names) < 2:
        raise InputError(f"a pair needs two nodes, and there is {len(names)}; give more members")
    if len(set(names)) != len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise InputError(f"'{twice}' stands twice among the nodes; give each name once")
    numbers = np.full(len(names), -1) if leaf is None else np.asarray(leaf, dtype=np.int64)
    if len(numbers) != len(names):
        raise InputError(f"the topology has {len(numbers)} nodes, and there are {len(names)}; give a leaf for each, or none at all")
    return FabricLayout(tuple(names), numbers, rails, limit, tuple(leaves))


class PairRecord(Record, frozen=True, kw_only=True):
    """A transfer, as a line of transfers.jsonl. `rate`: B/s; 0: nothing passed; None: it was not measured."""

    sender: str
    receiver: str
    rail: int
    round: int
    rate: float | None


@dataclass
class Transfers:
    """Transfers so far, a place per direction and rail.

    `out` and `into`: transfers at once on the sender's and the receiver's uplink; 0: it crosses none.
    """

    sender: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    receiver: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    rail: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    round: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    out: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    into: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    rate: Floats = field(default_factory=lambda: np.empty(0))  # B/s; 0: nothing passed

    def __len__(self) -> int:
        return len(self.rate)

    def add(self, pairs: Ints, rates: Floats, number: int, where: FabricLayout) -> None:
        """One direction of a round. `pairs` [P, 2] senders and receivers; `rates` [P, rails]; NaN: not measured."""
        out, into = loads(pairs, where)
        rails = rates.shape[1]
        kept = ~np.isnan(rates.ravel())
        for name, values in (
            ("sender", pairs[:, 0]), ("receiver", pairs[:, 1]), ("out", out), ("into", into), ("round", np.full(len(pairs), number)),
        ):  # fmt: skip
            setattr(self, name, np.concatenate([getattr(self, name), np.repeat(values, rails)[kept]]))
        self.rail = np.concatenate([self.rail, np.tile(np.arange(rails), len(pairs))[kept]])
        self.rate = np.concatenate([self.rate, rates.ravel()[kept]])


def loads(pairs: Ints, where: FabricLayout) -> tuple[Ints, Ints]:
    """Transfers at once on the sender's uplink outwards and on the receiver's inwards, for each pair; 0 within a leaf. [P], [P]"""
    if not where.known:
        nothing = np.zeros(len(pairs), np.int64)
        return nothing, nothing
    source, sink = where.leaf[pairs[:, 0]], where.leaf[pairs[:, 1]]
    crossing = source != sink
    leaves = int(where.leaf.max()) + 1
    out = np.bincount(source[crossing], minlength=leaves)[source]
    into = np.bincount(sink[crossing], minlength=leaves)[sink]
    return np.where(crossing, out, 0), np.where(crossing, into, 0)


@dataclass(frozen=True)
class Evidence:
    """What an isolation measured. `alone`: each GPU by itself, relative to what it should give [N, rails]; `expected`: B/s."""

    where: FabricLayout
    tests: Transfers
    screened: int = 0  # rounds
    confirmed: int = 0
    alone: Floats | None = None
    expected: float | None = None
    early: frozenset[int] = frozenset()  # nodes that screening alone named
    cut: bool = False  # for want of time
    repeated: int = 0  # transfers of a round that was repeated, beside `tests`
    again: frozenset[int] = frozenset()  # nodes of transfers that no part explains, slow again when their whole round was repeated


class NamedPart(Record, frozen=True, kw_only=True):
    """A part by name: of a link its sender and its receiver, of a NIC or GPU its node and its rail, of leaves their numbers."""

    kind: CauseKind
    members: list[str]


class Culprit(Record, frozen=True, kw_only=True):
    """The smallest part that explains slow transfers. Losses are shares of the fleet's rate, with a 95 % interval."""

    part: NamedPart
    loss: float
    low: float
    high: float
    tests: int  # transfers in which it is what limits
    runner_up: NamedPart | None = None  # the next best explanation
    odds: float = 0.0  # natural logarithm, of this against the runner-up
    telling: list[str] = []  # the transfer that would tell them apart, where the odds do not: from, to; [GPU's node] is a test of it alone


class LinkKnown(Record, frozen=True, kw_only=True):
    """What the slowest link of members can carry at most. `code`: who says it, the user or the kernel of a member, or why nobody does."""

    code: Literal["given", "link", "loopback", "virtual", "unknown"]
    rate: float | None = None  # B/s of TCP
    mbps: float = 0.0
    interface: str = ""


class FabricFinding(Record, frozen=True, kw_only=True):
    """What a fabric's own text says before anything is measured: a link, by its ends, with fewer or slower lanes than it could have; an
    adapter of a node on another switch than most."""

    code: Literal["narrow", "slow", "swapped"]
    members: list[str]
    seen: str
    usual: str


class Open(Record, frozen=True, kw_only=True):
    """Something that was not excluded."""

    code: Literal[
        "small", "links", "untested", "masked", "uplinks", "topology", "common", "gpu", "light", "vanished", "alike", "sharing", "rdma",
        "cut",
    ]  # fmt: skip
    members: list[str] = []
    count: int = 0
    of: int = 0
    loss: float = 0.0


# In a campaign's folder: an Isolation; what was asked for; lines of PairRecord as they were measured.
KEPT, ASKED, TRANSFERS = "isolation.json", "isolate.json", "transfers.jsonl"


class IsolationAsked(Record, frozen=True, kw_only=True):
    """What an isolation goes on with after an interruption."""

    leaves: dict[str, str] = {}  # by member; {}: unknown
    limit: int = 0
    rounds: int = 0
    whole: bool = False
    time_s: float = 1.0  # of a transfer
    expected: float | None = None  # B/s
    seed: int = 0
    before: list[FabricFinding] = []
    rdma: dict[str, float] = {}  # Gb/s that the fabric's text says of members' links
    step: int = 1  # of the campaign, by its number


class Isolation(Record, frozen=True, kw_only=True):
    """What was named, what it took, and what was not excluded."""

    culprits: list[Culprit]
    nodes: int
    screening: int  # rounds; each is both directions of a matching
    confirming: int
    transfers: int
    fleet: float  # the rate of parts without a fault, B/s
    noise: float  # relative standard deviation of a transfer
    disturbed: float  # share of transfers that nothing explains
    faster: float  # share of links that is clearly faster than the fleet
    open: list[Open]
    sure: bool = True  # whether there is a fleet to compare with
    below: float | None = None  # by how much the fleet is below what was expected; None: no expected rate
    link: LinkKnown | None = None  # what links carry at most; None: of a simulated fabric
    before: list[FabricFinding] = []  # by the fabric's own text
    rdma_gbps: float | None = None  # of the slowest member that did not use it; None: nobody knows
    rdma_most_gbps: float | None = None  # of the fastest

"""What an acceptance keeps: events of nodes, and the evidence of each step, to a line each.

    AcceptPlan → StepAsk → StepTaken (evidence of every node) → AcceptEvent (a transition) → NodeStanding (one of STATES)
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from hotlap.core.record import Record, encode

NodeStateName = Literal[
    "expected", "reachable", "inspected", "alone", "paired", "together", "soaked", "accepted", "suspect", "retest", "quarantined",
    "rejected", "spare", "lost",
]  # fmt: skip
StepName = Literal["reach", "inspect", "alone", "pairs", "together", "soak", "accept"]
FaultCode = Literal[
    "unreachable", "late", "vanished", "no-result", "clock", "bmc", "serial", "serial-twice", "product", "gpu-count", "gpu-missing",
    "nic-missing", "rail", "firmware", "setting", "unknown-fact", "slow-device", "below-model", "no-fleet", "throttling", "corruption",
    "slow-link", "slow-part", "no-pairs", "too-few", "no-turn", "wrong-together", "coarse", "doubtful", "verdict",
]  # fmt: skip
PATH: tuple[NodeStateName, ...] = ("expected", "reachable", "inspected", "alone", "paired", "together", "soaked", "accepted")
STATES: tuple[NodeStateName, ...] = (*PATH, "suspect", "retest", "quarantined", "rejected", "spare", "lost")
STEPS: Mapping[StepName, NodeStateName] = {
    "reach": "reachable", "inspect": "inspected", "alone": "alone", "pairs": "paired", "together": "together", "soak": "soaked",
    "accept": "accepted",
}  # fmt: skip
MEASURED: tuple[StepName, ...] = ("reach", "inspect", "alone", "pairs", "together", "soak")
OUT: tuple[NodeStateName, ...] = ("quarantined", "rejected")  # counted by --max-out
Outcome = Literal["pass", "fail", "open", "gone"]


class FaultSeen(Record, frozen=True, kw_only=True):
    """A cause by its code, and what it rests on. `values`: by name, in base units."""

    code: FaultCode
    values: dict[str, str | int | float | list[str]] = {}


class NodeEvidence(Record, frozen=True, kw_only=True):
    """What one node gave in one step, and what follows from it. Its digest is that of its line in the step's file."""

    node: str
    product: str
    step: StepName
    outcome: Outcome  # open: neither shown to be good nor bad; gone: it did not answer
    faults: list[FaultSeen] = []
    retest: bool = False
    facts: dict[str, Any] = {}  # of an inspection, and identity
    rates: dict[str, dict[str, list[float]]] = {}  # by metric and device; "": the node as a whole
    units: dict[str, str] = {}  # of metrics
    wrong: int = 0  # results that are not what they should be
    checked: int = 0  # results that were looked at
    throttled_s: float | None = None  # None: nobody counts it there
    seconds: float | None = None  # that it ran
    partners: list[str] = []  # good nodes beside which it was tried
    reference: dict[str, Any] = {}  # what it was compared with: the fleet's level, the model's, the smallest loss that would show
    head: str = ""  # SHA-256 of the file's first line; "": of a file from before that was kept


class StepHead(Record, frozen=True, kw_only=True):
    """The first line of a step's file: what was asked, of whom, and after how many events."""

    number: int
    step: StepName
    nodes: list[str]
    retest: bool = False
    wave: int = 0
    after: int  # events before it
    began_s: float
    ended_s: float
    max_out: float  # share of nodes that may be out
    campaigns: list[str] = []  # runs that hold what was measured
    notes: list[FaultSeen] = []  # what is slow of no node's own: uplinks, rails


class AcceptEvent(Record, frozen=True, kw_only=True):
    """A line of the ledger: a node from one state to another. `was` equal to `to`: a step that showed neither good nor bad."""

    number: int  # from 1 on
    time_s: float  # UNIX
    node: str
    was: NodeStateName
    to: NodeStateName
    step: StepName | None = None
    phase: int = 0  # number of the step's file; 0: none, a person did it
    faults: list[FaultSeen] = []
    evidence: str = ""  # SHA-256 of the node's line in that file
    by: str = "hotlap"
    override: bool = False  # a person's decision against or without evidence
    reason: str = ""  # of a person; an override needs one
    waits: Literal["", "room", "answer"] = ""  # a suspect that would be out but for --max-out, or whose retest showed neither


class NodeStanding(Record, frozen=True, kw_only=True):
    """Where a node is, by its events alone."""

    node: str
    state: NodeStateName = "expected"
    step: StepName | None = None  # in which it failed, was lost or stays open
    faults: list[FaultSeen] = []
    evidence: dict[str, str] = {}  # digest by step, since its path began
    proof: str = ""  # evidence of why it is off its path
    proof_in: int = 0  # the number of that step's file
    open: dict[str, list[FaultSeen]] = {}  # steps that showed neither good nor bad
    opened: dict[str, int] = {}  # how often
    overrides: list[str] = []  # reasons, oldest first
    overridden: bool = False  # its state is a person's decision
    before: list[FaultSeen] = []  # its faults when a person last decided about it
    repairs: list[str] = []
    quarantines: int = 0
    reaches: int = 0  # times that it was called
    waits: Literal["", "room", "answer"] = ""
    late: bool = False
    since_s: float = 0.0
    changed: int = 0  # number of its last event


def line(record: Record) -> bytes:
    return encode(record) + b"\n"


def digest(record: NodeEvidence | StepHead) -> str:
    """SHA-256 of its line, newline included."""
    return hashlib.sha256(line(record)).hexdigest()


class StepAsk(Record, frozen=True, kw_only=True):
    """What is to be measured next. `partners`: good nodes that take part and are not judged."""

    step: StepName
    nodes: list[str]
    retest: bool = False
    wave: int = 0
    partners: list[str] = []
    tries: int = 0  # before this one, which showed neither good nor bad


class StepTaken(Record, frozen=True, kw_only=True):
    """A step's file."""

    head: StepHead
    evidence: list[NodeEvidence]

    def digests(self) -> dict[str, str]:
        """By node."""
        return {each.node: digest(each) for each in self.evidence}


def parsed_step(data: bytes) -> StepTaken:
    """Raises msgspec.MsgspecError, ValueError."""
    first, *rest = data.splitlines()
    return StepTaken(
        head=msgspec.json.decode(first, type=StepHead), evidence=[msgspec.json.decode(text, type=NodeEvidence) for text in rest],
    )  # fmt: skip

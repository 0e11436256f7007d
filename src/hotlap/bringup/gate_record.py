"""What a gate knows of nodes and says of them.

    kept campaigns and ledgers → GateEvidence; its age and the rate of faults → stale or not; tests of that → RuleAnswer → NodeGate → Gate
"""

from __future__ import annotations

from typing import Literal

from hotlap.bringup.accept_record import FaultSeen, NodeStateName
from hotlap.bringup.record import NamedPart
from hotlap.core.record import Record

GATE = "gate.json"  # a Gate, in the folder of the campaign that tested
ACCEPTANCE = "acceptance"  # the rule of ledgers, beside those of a file
Holds = Literal["good", "bad", "unknown"]
GateCode = Literal[
    "", "slow", "shares", "exit", "gpus", "no result", "stale", "no evidence", "other machine", "few", "noisy", "no time",
    "acceptance", "ledger",
]  # fmt: skip


class GateRule(Record, frozen=True, kw_only=True):
    """One rule. `takes_s` is an estimate; `false_alarms`: the highest share of healthy nodes that it may name and act."""

    name: str
    about: str = ""
    kind: Literal["facts", "command", "pairs"] = "command"
    command: list[str] = []
    takes_s: float = 5.0
    acts: Literal["always", "known"] = "known"
    false_alarms: float = 0.01
    source: str = ""


class AcceptedSeen(Record, frozen=True, kw_only=True):
    """What an acceptance says of a node. `reasons`: of overrides; `lacks`: steps whose evidence is not there as it was written."""

    acceptance: str
    name: str
    state: NodeStateName
    override: bool = False  # the state is a person's decision
    reasons: list[str] = []
    faults: list[FaultSeen] = []
    lacks: list[str] = []


class GateEvidence(Record, frozen=True, kw_only=True):
    """One rule on one node at one time. `machine`: its identity, "" where nobody knows."""

    rule: str
    node: str
    at_s: float
    holds: Holds
    run: str = ""
    machine: str = ""
    code: GateCode = ""
    part: NamedPart | None = None
    loss: float = 0.0  # of the part; of a good node the least that would have been seen
    status: int | None = None  # of a command
    count: int = 0
    of: int = 0
    text: str = ""  # what the launcher or the program said
    accepted: AcceptedSeen | None = None
    ledger: bool = False  # of an acceptance, whose id is `run`


class RuleAnswer(Record, frozen=True, kw_only=True):
    """Of one rule and node. `age_s`, `chance` of a fault since: of the evidence; `tested`: now."""

    seen: GateEvidence
    acts: bool
    tested: bool = False
    age_s: float | None = None
    chance: float | None = None


class NodeGate(Record, frozen=True, kw_only=True):
    """The verdict by the rules that act."""

    node: str
    verdict: Literal["pass", "fail", "inconclusive"]
    answers: list[RuleAnswer]


class RuleKnown(Record, frozen=True, kw_only=True):
    """What is known of a rule: faults in its history, and its false alarms where a later campaign found the node healthy."""

    rule: str
    faults: int
    node_days: float  # of history
    per_day: float  # faults of a node, with what is published before any history
    healthy: int  # verdicts on nodes that were healthy
    alarms: int  # of those
    high: float | None  # of their share, 95 % one-sided; None: none is known
    acts: bool


class Gate(Record, frozen=True, kw_only=True):
    """The answer. `left_out`: rules for which the budget had no time; `applied`: commands that took nodes out."""

    nodes: list[NodeGate]
    rules: list[RuleKnown]
    risk: float
    budget_s: float
    at_s: float
    left_out: list[str] = []
    run: str = ""
    applied: list[list[str]] = []
    unread: dict[str, str] = {}  # acceptances that could not be read, and why

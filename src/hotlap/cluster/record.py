"""What a campaign keeps, and what is known of a member.

    members + events + attempts → MemberState (one of STATES) → the table
"""

from __future__ import annotations

from typing import Any, Literal

from hotlap.core.record import Record

KIND = "campaign"
State = Literal["never started", "running", "silent", "died", "timed out", "truncated", "refused", "measured"]
STATES: tuple[State, ...] = ("measured", "running", "silent", "died", "timed out", "truncated", "refused", "never started")
WITHOUT_RESULT = STATES[1:]
Gather = Literal["command", "run", "facts"]


class Identity(Record, frozen=True, kw_only=True):
    """Which machine a member is: never its name."""

    serial: str = ""
    machine_id: str = ""
    macs: list[str] = []
    gpus: list[str] = []  # UUIDs

    @property
    def key(self) -> str:
        """By serial number, else GPUs, else machine-id with the first MAC; "" where nothing of it is known."""
        if self.serial:
            return f"serial {self.serial}"
        if self.gpus:
            return f"GPUs {' '.join(self.gpus)}"
        return f"machine-id {self.machine_id} {self.macs[0] if self.macs else ''}".rstrip() if self.machine_id else ""


class Member(Record, frozen=True, kw_only=True):
    """A line of members.jsonl. The last line of a name counts: identity and facts come with the agent's hello."""

    name: str
    index: int
    address: str = ""  # as the launcher was given it
    slot: str = ""  # of one machine, where members are no machines of their own: says so
    identity: Identity | None = None  # None: its agent never answered
    facts: dict[str, Any] = {}  # host, cpu, product, python, kernel; clock_off_s is the agent's clock less the controller's


class StepRecord(Record, frozen=True, kw_only=True):
    """What is asked of every member, once. `argv`: {index}, {member} and {members} stand for the member's own."""

    number: int
    name: str
    gather: Gather
    argv: list[str]  # the first word `hotlap` stands for the member's Python with that package
    label: str  # as the user wrote it
    files: dict[str, str] = {}  # content by name, in the step's working folder
    rounds: int = 1
    gang: int = 0  # members that need one another and run at once; 0: each by itself
    timeout_s: float = 0.0  # 0: none
    wrap: list[str] = []
    timed: bool = True  # whether the time of a command is a number of it; not where it waits to be told what to do

    @property
    def judges(self) -> bool:
        """Whether exit status 1 is the verdict of a step of Hotlap, and 0 a pass."""
        return self.argv[:2] in (["hotlap", "stress"], ["hotlap", "gate"]) or self.argv[:3] == ["hotlap", "node", "audit"]


class Campaign(Record, frozen=True, kw_only=True):
    """campaign.toml: what, frozen when it begins."""

    id: str
    hotlap: str
    began: str  # UTC, ISO 8601
    launcher: str  # local, ssh
    options: dict[str, Any] = {}  # of the launcher
    python: str
    beat_s: float = 2.0
    silent_s: float = 20.0
    wheels: str = ""  # a folder of them, for members without Hotlap; beside those that are made here
    gpus: int = 0  # that each member must have; 0: as many as it has
    steps: list[StepRecord] = []  # none: its agents only said who they are


class MemberEvent(Record, frozen=True, kw_only=True):
    """A line of events.jsonl: append-only."""

    time_s: float  # the controller's clock, UNIX
    member: str
    step: int
    attempt: int = 0
    was: State = "never started"
    to: State
    by: str = "controller"
    why: str = ""
    evidence: str = ""  # SHA-256 of bundle.zip
    code: int | None = None  # exit status of the program
    seconds: float | None = None
    because_of: str = ""  # of a gang: the member that ended first, or was not there; "": it is that itself


class AttemptDone(Record, frozen=True, kw_only=True):
    """done.json: written last, by rename. A result exists only with it."""

    digest: str
    size: int
    code: int
    seconds: float
    by: str = "pipe"  # the way on which it came; folder: the member wrote it here itself; earlier: of an agent before


class MemberState(Record, frozen=True, kw_only=True):
    """Where a member is in one step."""

    member: str
    step: int
    state: State
    attempt: int = 0
    why: str = ""
    code: int | None = None
    seconds: float | None = None
    evidence: str = ""

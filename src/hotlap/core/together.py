"""What was measured together: two runs by `ab`, commands by `bench`. With it the comparison can be made again from what is kept."""

from __future__ import annotations

from typing import Literal

from hotlap.core.where import Record


class Turns(Record, frozen=True, kw_only=True):
    """That a run is one side of two which `ab` measured in turns, and what its test was planned for: with the pilot's pairs all of the
    plan follows from it."""

    id: str  # of side A's run
    side: Literal["A", "B"]
    difference: float  # to be found, a share
    min_effect: float
    most: int  # pairs that time allowed for
    level: float = 0.05  # of the test of one case


class BenchedCommand(Record, frozen=True, kw_only=True):
    """One command of `bench`."""

    case: str  # Case.id
    name: str  # its letter in the table
    command: str  # as it was given, parameters filled in, or its name by --command-name
    parameters: dict[str, str] = {}


class Benched(Record, frozen=True, kw_only=True):
    """That a run is of commands that `bench` measured, and how."""

    commands: list[BenchedCommand]  # the others are compared with the first
    in_turns: bool = True  # else one after another, since their setups differ
    warmup: int = 0  # executions of each that were not counted
    planned: Turns | None = None  # what the test was planned for; None: the number of runs was fixed, or the run has not ended
    others: float | None = None  # processors that other programs used meanwhile; None where that is not counted

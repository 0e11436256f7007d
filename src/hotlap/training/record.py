"""What is kept of steps of training. All times are seconds.

    TrainingAsked → TrainingProcess (+ a row per step: StepSample) → Trained
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotlap.core.record import Notice, Record
from hotlap.training.expected_record import ExpectedStep

SESSION = "training.json"  # of a bundle: one Trained
STARTED = "process-*.json"  # of a bundle: what a process of the launch under way has written of itself
ROWS = "steps-*.bin"  # of a bundle: the steps of each process, appended as they end: COLUMNS as little-endian float64, NaN unknown
PARTS = ("data_wait", "transfer", "forward", "backward", "optimiser", "exposed_communication")
COLUMNS = ("number", "ended", "time", *PARTS, "tokens", "samples", "loss", "run_delay", "wait_delay")
Floats = NDArray[np.float64]
ProgramKind = Literal["script", "function", "network"]
DataMode = Literal["real", "frozen", "synthetic"]
EventKind = Literal["compile", "recompile", "capture", "allocator", "loss", "device"]


class StepSample(NamedTuple):
    """One step, from the end of the one before to its own; the parts with `unexplained_s` sum to `time_s`. None: not seen."""

    number: int  # from 1
    ended_s: float  # of the process's clock
    time_s: float
    data_wait_s: float | None = None  # blocked in iter() and next() of a loader
    transfer_s: float | None = None  # from the host to the device, on the program's own stream
    forward_s: float | None = None  # from the batch to the backward pass
    backward_s: float | None = None
    optimiser_s: float | None = None
    exposed_communication_s: float | None = None  # in collectives that the program waits for; of DDP, what its backward pass waits for
    unexplained_s: float = 0.0
    tokens: float | None = None
    samples: float | None = None
    loss: float | None = None
    run_delay_s: float | None = None  # its thread was ready and waited for a processor
    wait_delay_s: float | None = None  # the same within its wait for data


class TrainingEvent(Record, frozen=True, kw_only=True):
    """What befell a step: compilation, a graph's capture, a retry of the allocator, a loss that is not finite."""

    kind: EventKind
    step: int
    seconds: float = 0.0
    detail: str = ""


class ProgramError(Record, frozen=True, kw_only=True):
    """The exception that ended a program."""

    type: str = ""
    message: str = ""
    where: str = ""  # file:line


class TrainingProcess(Record, frozen=True, kw_only=True):
    """One process of the program that was measured."""

    number: int  # of the launch, from 0; the ranks of one launch share it
    arm: str = ""  # which of the things compared
    data: DataMode = "real"
    cache: Literal["", "cold", "warm"] = ""  # compiled code of earlier launches was there
    pid: int = 0
    rank: int = 0
    world: int = 1
    steps: int = 0
    resumed: list[int] = []  # steps before which it waited for its turn: the other of two that are compared ran
    armed: bool = False  # it imported PyTorch's optimisers
    source: str = ""  # what ended steps: program, optimiser
    torch: str = ""
    device: str = "cpu"
    loaders: list[str] = []
    workers: int = 0  # processes of loaders
    shapes: list[str] = []  # of batches, each once
    events: list[TrainingEvent] = []
    error: ProgramError = ProgramError()
    exit_code: int | None = None  # 128 + n: ended by signal n; None: not known
    ended: Literal["program", "asked", "time", "interrupted"] = "program"
    born_s: float = 0.0  # of the process's clock, when Python had started
    first_s: float = 0.0  # from then to the end of the first step
    ended_s: float = 0.0
    cpu_s: float = 0.0
    run_delay_s: float | None = None  # its thread was ready and waited for a processor, after the first step
    foreign_s: float | None = None  # that other programs used processors meanwhile; None: not known, or loaders or ranks beside it
    helpers_s: float | None = None  # that its own other threads used processors meanwhile
    rss_bytes: int | None = None
    allocated_bytes: int | None = None  # most, by the device's allocator
    reserved_bytes: int | None = None
    flop: dict[str, float] = {}  # of one step by type of result, counted in a launch of its own
    before_forward: float | None = None  # share of the time until backward() before the model is called, in a launch of its own
    parameters: dict[str, int] = {}  # that the optimiser moves, by type
    threads: int | None = None
    reduced_s: float | None = None  # that DistributedDataParallel's communication takes in a backward pass, median
    reduced_exposed_s: float | None = None  # of that: what the backward pass waits for when its own work is done

    @property
    def file(self) -> str:
        return f"steps-{self.number}-{self.pid}.bin"


class TrainingAsked(Record, frozen=True, kw_only=True):
    """What `training run` was asked to measure."""

    program: str  # script.py, module:function or a network
    kind: ProgramKind
    arguments: list[str] = []
    parameters: dict[str, str] = {}  # of a network
    steps: int = 100  # of each process after its first, which warms up; 0: until the program ends
    processes: int = 6  # of each arm
    ranks: int = 1
    data: list[DataMode] = []  # [real]; [real, frozen]: in turns; [synthetic]
    compile: list[str] = []  # modes in turns; []: as the program does
    against: str = ""  # another script, in turns with it
    one_by_one: bool = False  # a process ends before the next begins; else two that are compared take turns by stretches of steps
    min_effect: float = 0.01  # smallest difference of two things compared that is reported
    limit_s: float = 3600.0  # of one process
    vary: str = ""  # what each arm has its own value of: batch, of a network; NAME of the environment; --name of the program
    values: list[int] = []  # [] unless something is varied


class Trained(Record, frozen=True, kw_only=True):
    """A bundle of training beside its steps."""

    asked: TrainingAsked
    arms: list[str] = []  # in the order of their turns
    processes: list[TrainingProcess] = []
    begun: TrainingProcess | None = None  # of the launch under way: its number, arm, data and cache
    beside: TrainingProcess | None = None  # the same of the launch that takes turns with it
    notices: list[Notice] = []
    expected: list[ExpectedStep] = []  # of a network's step, by arm where they differ; []: nothing was asked of the model


def rows(data: bytes) -> Floats:
    """Steps as an array, shape (steps, columns); a torn last row is left out."""
    width = 8 * len(COLUMNS)
    return np.frombuffer(data[: len(data) // width * width], "<f8").reshape(-1, len(COLUMNS))


def column(table: Floats, name: str) -> Floats:
    return table[:, COLUMNS.index(name)]


def unexplained(table: Floats) -> Floats:
    """Of each step the time that no part has."""
    first = COLUMNS.index(PARTS[0])
    return np.asarray(column(table, "time") - np.nansum(table[:, first : first + len(PARTS)], axis=1))


def samples(table: Floats) -> list[StepSample]:
    """Steps one by one."""
    rest = unexplained(table)
    steps = []
    for row, unknown in zip(table, rest.tolist(), strict=True):
        known: list[Any] = [None if np.isnan(value) else float(value) for value in row]
        steps.append(StepSample(int(row[0]), float(row[1]), float(row[2]), *known[3:9], unknown, *known[9:14]))  # type: ignore[call-arg]
    return steps

"""What is known of the memory of a training step. All in bytes of tensors as an allocator was asked for them."""

from __future__ import annotations

from typing import Literal

from hotlap.core.record import Record

KINDS = ("parameters", "gradients", "moments", "activations", "temporaries", "inputs")  # inputs: buffers of modules
How = Literal["formula", "fake tensors", "allocator"]


class OwnedLine(Record, frozen=True, kw_only=True):
    """What one line of the program holds at the peak. `where`: file:line function; `op`: the operator that asked for most of it."""

    where: str
    op: str
    kind: str
    bytes: int
    tensors: int = 1


class MemoryAccount(Record, frozen=True, kw_only=True):
    """The peak of some training steps, and what it consists of. `parts`: kind → bytes at the peak; they sum to `peak_bytes` together with
    `unexplained`, which an allocator's own count has and a count of tensors has not."""

    how: How
    peak_bytes: int
    parts: dict[str, int] = {}
    unexplained: int = 0
    phase: str = ""  # in which the peak was: forward, backward, update
    steps: int = 0  # that were seen
    lines: list[OwnedLine] = []  # the largest first
    ended: str = ""  # why it was ended before all steps; "": it was not


class TrainingVariant(Record, frozen=True, kw_only=True):
    """How a network is trained."""

    optimizer: Literal["adamw", "sgd"] = "adamw"
    checkpointing: bool = False  # activations of a layer are computed again in the backward pass
    autocast: bool = False  # products in bf16
    batch: int = 1
    context: int = 128
    foreach: bool = False  # the optimizer updates all parameters at once, as it does on a GPU

    @property
    def name(self) -> str:
        parts = [self.optimizer, *(["checkpointing"] if self.checkpointing else []), *(["bf16 autocast"] if self.autocast else [])]
        return f"{', '.join(parts)}, batch {self.batch}"


class Fit(Record, frozen=True, kw_only=True):
    """Whether a peak fits on a GPU. `too close`: what is no tensor (context, workspaces, fragments) decides."""

    machine: str
    memory_bytes: float
    state: Literal["fits", "too close", "does not fit"]


class Switch(Record, frozen=True, kw_only=True):
    """Another way to train, and the peak it has by the same method."""

    what: str
    peak_bytes: int
    saved_bytes: int
    cost: str
    fits: str = ""


class MemoryReport(Record, frozen=True, kw_only=True):
    """The peak of a step, as far as it is known. `failed`: method → why it has none."""

    target: str
    variant: TrainingVariant | None = None  # None: a script, which has its own
    accounts: list[MemoryAccount] = []  # the most exact first: fake tensors, allocator, formula
    failed: dict[str, str] = {}
    fit: Fit | None = None
    switches: list[Switch] = []  # the one that saves most first

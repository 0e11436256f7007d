"""What is known of the memory of a training step. All in bytes of tensors as an allocator was asked for them."""

from __future__ import annotations

from typing import Literal

from hotlap.core.record import Record

KIND = "training-memory"
MEMORY = "memory.json"  # of a bundle: one MemoryReport
KINDS = ("parameters", "gradients", "moments", "activations", "temporaries", "inputs")  # inputs: buffers of modules
IN_SNAPSHOT = ("held", "gradients", "moments", "activations", "temporaries", "unknown")  # held: made elsewhere, there to the end
How = Literal["formula", "fake tensors", "allocator", "snapshot"]


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
    operator: str = ""  # of the allocator: the innermost one that ran at the peak
    inside_bytes: int = 0  # of the allocator: what it had freed when it returned, which no tensor shows
    reserved_bytes: int | None = None  # of a snapshot: the most that the allocator had from the driver
    device: int | None = None  # of a snapshot: the one with the highest peak
    refused_bytes: int | None = None  # of a snapshot: what was asked for last and not there
    free_bytes: int | None = None  # of a snapshot: what the device had then
    wanted_bytes: int | None = None  # of a snapshot: the most that tensors held when a request failed, with that request


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
    at_most: bool = False  # it saves that much at most


class SwitchSet(Record, frozen=True, kw_only=True):
    """Switches that are needed together, where none alone fits; or all that lower the peak, where these do not fit either."""

    switches: list[str]
    peak_bytes: int
    saved_bytes: int
    costs: list[str]
    fits: str


class MemoryReport(Record, frozen=True, kw_only=True):
    """The peak of a step, as far as it is known. `failed`: method → why it has none."""

    target: str
    arguments: list[str] = []  # of a script; of a network its changed sizes
    sha256: str = ""  # of a snapshot's file
    variant: TrainingVariant | None = None  # None: a script or a snapshot, which has its own
    accounts: list[MemoryAccount] = []  # the most exact first: fake tensors, allocator, formula; or a snapshot alone
    failed: dict[str, str] = {}
    fit: Fit | None = None
    switches: list[Switch] = []  # the one that saves most first
    together: SwitchSet | None = None  # None: one of them fits, or it is not known what they do together

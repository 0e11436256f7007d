"""What is expected of one step of a network: its whole and its parts."""

from __future__ import annotations

from typing import Any, Literal

from hotlap.core.record import Case, Notice, Record


class StepPart(Record, frozen=True, kw_only=True):
    """One kernel or exchange of a network's step on one GPU."""

    name: str
    group: str  # attention, feed-forward, experts, norms, head, communication, backward, optimizer, bubble
    case: Case | None = None
    times: float = 1.0
    each_s: float
    total_s: float
    share: float  # of the step
    limiter: str = ""


class StepEstimate(Record, frozen=True, kw_only=True):
    """What to expect of one step of a network: a prefill, a decoded token of every sequence, a forward pass, a training step."""

    network: str
    phase: Literal["prefill", "decode", "forward", "train"]
    machine: str
    setting: dict[str, Any]
    gpus: int
    seconds: float
    low_s: float  # interval: errors within a family of kernels add, those of different families are independent
    high_s: float
    tokens_s: float | None = None  # of all GPUs together; None where a sample is no sequence of tokens
    operations: float  # FLOP that the network's mathematics asks for, of all GPUs together
    share_of_peak: float | None = None
    energy_j: float | None = None  # of all GPUs together
    energy_per_token_j: float | None = None
    memory_bytes: dict[str, float] = {}  # on one GPU, by what it is for
    memory_total_bytes: float = 0.0
    machine_memory_bytes: float | None = None  # of one GPU
    fits: bool | None = None  # None: the machine's memory is not known, or not all that the step needs
    parts: list[StepPart] = []  # longest first
    notices: list[Notice] = []

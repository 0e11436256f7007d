"""What torch.compile makes of a module: its graphs, and what compiling costs and wins against eager."""

from __future__ import annotations

from hotlap.core.record import Record


class Break(Record, frozen=True, kw_only=True):
    """A place that no graph could hold."""

    reason: str
    where: str


class Spread(Record, frozen=True, kw_only=True):
    """The median over rounds and its 95 % interval; None where fewer than 6 rounds give none."""

    median: float
    low: float | None = None
    high: float | None = None


class EagerComparison(Record, frozen=True, kw_only=True):
    """A module compiled and not compiled, over all rounds."""

    factory: str
    target: str
    backend: str
    device: str = ""
    versions: dict[str, str] = {}
    rounds: int = 0
    eager_s: Spread | None = None  # of a step
    compiled_s: Spread | None = None
    speedup: Spread | None = None  # eager ÷ compiled, by round
    compile_s: Spread | None = None  # the first step, in a fresh process with empty caches
    break_even: Spread | None = None  # steps after which compiling has paid; infinite where it never does
    graphs: int | None = None
    breaks: list[Break] = []
    guards: int | None = None
    recompiled: int = 0
    difference: float | None = None  # of outputs, largest over rounds, as a share of the largest output
    rounding: float | None = None  # of eager's own outputs
    memory: dict[str, float] = {}
    reason: str = ""  # why times are missing

"""What is kept of inference engines. Times are in seconds.

    Inferred (what was asked, what each engine is) → InferRound (a line per engine, scenario, generator and process) + latencies

A process is the unit of replication: each engine is loaded anew in every round, in turns, and runs all its scenarios.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from hotlap.core.record import Notice, Record
from hotlap.training.loadgen_rules import RunValidity, Scenario

SESSION = "infer.json"  # of a bundle: one Inferred
ROUNDS = "infer.jsonl"  # of a bundle: one InferRound a line
LATENCIES = "latencies.bin"  # of a bundle: f32 seconds, those of a round behind one another
Generator = Literal["hotlap", "loadgen"]
GENERATORS: tuple[Generator, ...] = ("hotlap", "loadgen")


class ModelInput(NamedTuple):
    """An input of a model. `shape`: None where the model leaves a size open."""

    name: str
    dtype: str  # NumPy's name
    shape: tuple[int | None, ...]


class Budget(Record, frozen=True, kw_only=True):
    """What an engine may use. Engines with unlike ones are not compared."""

    threads: int
    spin: bool = False  # idle threads may keep a processor busy
    precision: str = "fp32"


class InferAsked(Record, frozen=True, kw_only=True):
    """What `training infer` was asked to do."""

    model: str
    files: dict[str, str]  # engine → the file it loads
    budgets: dict[str, Budget]  # engine → its own
    scenarios: tuple[Scenario, ...]
    generators: tuple[Generator, ...]
    seconds: float  # of each scenario, in each process
    rounds: int
    seed: int
    min_queries: int = 1
    rate: float | None = None  # of server, queries a second
    bound_s: float | None = None  # of server
    clients: int = 1  # of closed
    batch: int = 1  # the most samples that an engine gets at once
    shapes: dict[str, tuple[int, ...]] = {}  # input → its shape, where the model leaves it open
    values: dict[str, float] = {}  # input → the value it always has
    high: dict[str, int] = {}  # input of whole numbers → the number that it stays below


class EngineState(Record, frozen=True, kw_only=True):
    """An engine as it came up. `status` not_run: it is not here, or cannot load the model."""

    name: str
    status: Literal["measured", "not_run", "error"]
    version: str = ""
    reason: str = ""
    remedy: str = ""
    budget: Budget | None = None  # as the engine itself confirms it
    batch: int = 1  # samples at once; 1 where the model takes no more
    difference: float | None = None  # largest of its outputs from those of the first engine
    equal: bool | None = None  # within the tolerance; None: the first, or nothing to compare with


class InferRound(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A scenario by one generator, in one process."""

    engine: str
    scenario: Scenario
    generator: Generator
    round: int
    status: Literal["measured", "not_run", "error"] = "measured"
    reason: str = ""
    load_s: float = 0.0  # until the engine was ready
    first_s: float = 0.0  # its first answer
    place: int = 0  # of its first latency in LATENCIES, in values
    queries: int = 0
    samples: int = 0
    wall_s: float = 0.0  # from the first query to the last answer
    issued_s: float = 0.0  # to when the last query was issued, or due
    cpu_s: float = 0.0  # of the process meanwhile
    validity: RunValidity | None = None  # by our rules
    official: bool | None = None  # what LoadGen itself said: VALID or INVALID


class Inferred(Record, frozen=True, kw_only=True):
    """A bundle of inference beside its rounds."""

    asked: InferAsked
    sha256: str = ""  # of the model's file
    engines: tuple[EngineState, ...] = ()
    tolerance: tuple[float, float] = (0.0, 0.0)  # relative, absolute
    loadgen: str = ""  # its version; "" where it is not here
    notices: list[Notice] = []

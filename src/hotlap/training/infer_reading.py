"""A bundle of inference as it is read and summed up: a row per engine, scenario and generator, and engines against the first."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from hotlap.core.errors import SchemaError
from hotlap.core.record import Record, RunRecord
from hotlap.core.stats import order
from hotlap.core.stats.ratio import Ratio, ratio
from hotlap.core.store import files, lines
from hotlap.core.store.bundle import Bundle
from hotlap.training import loadgen_rules
from hotlap.training.infer_record import LATENCIES, ROUNDS, SESSION, EngineState, Generator, Inferred, InferRound
from hotlap.training.loadgen_rules import Scenario

BUSY = 0.5  # processors beyond its budget, from which an engine is named


class OverRounds(Record, frozen=True, kw_only=True):
    """The median over processes, and its 95 % interval; None with fewer than 6."""

    value: float
    low: float | None = None
    high: float | None = None


class InferRow(Record, frozen=True, kw_only=True):
    """An engine in a scenario by a generator, over all its processes."""

    engine: str
    scenario: Scenario
    generator: Generator
    status: str
    reason: str = ""
    rounds: int = 0
    p50_s: OverRounds | None = None
    tail_s: OverRounds | None = None  # of the percentile of the scenario
    percentile: float = 0.99
    samples_per_s: OverRounds | None = None
    processors: float | None = None  # that were busy meanwhile: CPU time ÷ time, median
    valid: int = 0  # processes whose run kept MLPerf's rules, by ours
    official: int | None = None  # the same by LoadGen's own word
    needed: int | None = None  # queries that early stopping asks for, most of all rounds
    queries: int = 0  # of a process, median
    failed: dict[str, int] = {}  # rule → processes that did not keep it


class Versus(Record, frozen=True, kw_only=True):
    """An engine against the first. `refused`: why they are not compared: budget, outputs, rounds."""

    scenario: Scenario
    generator: Generator
    engine: str
    against: str
    faster: Ratio | None = None  # above 1: `engine` is faster
    refused: str = ""


class InferRead(NamedTuple):
    """A run with all that is concluded from it."""

    run: RunRecord
    inferred: Inferred
    rounds: list[InferRound]
    latencies_s: NDArray[np.float32]
    rows: list[InferRow]
    versus: list[Versus]
    torn: list[str]

    @property
    def code(self) -> int:
        if self.run.stopped_by("interrupted"):
            return 130
        return 0 if any(row.status == "measured" for row in self.rows) else 3


def read(bundle: Bundle) -> InferRead | None:
    """None where the run was killed before it said what it is. Raises SchemaError."""
    contents = files.long(bundle.path, (SESSION, ROUNDS, LATENCIES))
    if SESSION not in contents:
        return None
    try:
        inferred = msgspec.json.decode(contents[SESSION], type=Inferred)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SchemaError(f"{bundle.path}/{SESSION}: {error}") from None
    kept = lines.read(contents.get(ROUNDS, b""), InferRound, f"{bundle.path}/{ROUNDS}")
    data = contents.get(LATENCIES, b"")
    latencies = np.frombuffer(data[: len(data) // 4 * 4], "<f4")
    rows = _rows(inferred, kept.records, latencies)
    versus = _versus(inferred, kept.records, latencies)
    return InferRead(bundle.run, inferred, kept.records, latencies, rows, versus, [notice.text for notice in kept.notices(ROUNDS)])


def of_round(done: InferRound, latencies: NDArray[np.float32]) -> NDArray[np.float64]:
    """Its latencies, in seconds; those of a file that was cut short are as many as there are."""
    return latencies[done.place : done.place + done.queries].astype(np.float64)


def _spread(values: list[float]) -> OverRounds | None:
    if not values:
        return None
    interval = order.interval(values)
    return OverRounds(value=float(np.median(values)), low=interval[0] if interval else None, high=interval[1] if interval else None)


def _rows(inferred: Inferred, rounds: list[InferRound], latencies: NDArray[np.float32]) -> list[InferRow]:
    rows = []
    for scenario in inferred.asked.scenarios:
        for generator in inferred.asked.generators:
            for state in inferred.engines:
                own = [r for r in rounds if (r.engine, r.scenario, r.generator) == (state.name, scenario, generator)]
                rows.append(_row(state, scenario, generator, own, latencies))
    return rows


def _row(
    state: EngineState, scenario: Scenario, generator: Generator, own: list[InferRound], latencies: NDArray[np.float32]
) -> InferRow:
    good = [done for done in own if done.status == "measured" and len(of_round(done, latencies)) == done.queries > 0]
    percentile = loadgen_rules.PERCENTILE.get(scenario, 0.99)
    if not good:
        last = own[-1] if own else None
        status, reason = (last.status, last.reason) if last and state.status == "measured" else (state.status, state.reason)
        status = "error" if status == "measured" else status
        reason = reason or "nothing was measured before the run ended"
        return InferRow(engine=state.name, scenario=scenario, generator=generator, status=status, reason=reason, percentile=percentile)
    of_scenario = [of_round(done, latencies) for done in good]
    kept = [done.validity for done in good if done.validity]
    rules = ("duration", "queries", "performance", "early_stopping")
    failed = {rule: count for rule in rules if (count := sum(getattr(one, rule) is False for one in kept))}
    said_by = [done.official for done in good if done.official is not None]
    whole = scenario == "offline"  # its one latency is the time of the whole
    return InferRow(
        engine=state.name, scenario=scenario, generator=generator, status="measured", rounds=len(good),
        p50_s=None if whole else _spread([loadgen_rules.at(values, 0.5) for values in of_scenario]),
        tail_s=None if whole else _spread([loadgen_rules.at(values, percentile) for values in of_scenario]), percentile=percentile,
        samples_per_s=_spread([done.samples / done.wall_s for done in good if done.wall_s > 0]),
        processors=float(np.median([done.cpu_s / done.wall_s for done in good if done.wall_s > 0])),
        valid=sum(one.valid for one in kept), official=sum(said_by) if said_by else None,
        needed=max((one.needed for one in kept if one.needed), default=None), queries=int(np.median([done.queries for done in good])),
        failed=failed,
    )  # fmt: skip


def headline(done: InferRound, latencies: NDArray[np.float32]) -> float:
    """The number that MLPerf ranks a scenario by, as a time: of offline and closed seconds a sample, else the percentile of the latency."""
    if done.scenario in ("offline", "closed"):
        return done.wall_s / done.samples
    return loadgen_rules.at(of_round(done, latencies), loadgen_rules.PERCENTILE[done.scenario])


def _versus(inferred: Inferred, rounds: list[InferRound], latencies: NDArray[np.float32]) -> list[Versus]:
    known = [state for state in inferred.engines if state.status == "measured"]
    if len(known) < 2:
        return []
    pairs = []
    for scenario in inferred.asked.scenarios:
        for generator in inferred.asked.generators:
            cells = {s.name: _values(rounds, s.name, scenario, generator, latencies) for s in known}
            first = next((state for state in known if cells[state.name]), None)
            for state in known:
                if first and state is not first and cells[state.name]:
                    faster, refused = _against(first, state, cells[first.name], cells[state.name])
                    pairs.append(Versus(
                        scenario=scenario, generator=generator, engine=state.name, against=first.name, faster=faster, refused=refused,
                    ))  # fmt: skip
    return pairs


def _values(
    rounds: list[InferRound], engine: str, scenario: str, generator: str, latencies: NDArray[np.float32]
) -> dict[int, float]:
    every = [r for r in rounds if (r.engine, r.scenario, r.generator, r.status) == (engine, scenario, generator, "measured")]
    return {done.round: headline(done, latencies) for done in every if len(of_round(done, latencies)) == done.queries > 0}


def _against(first: EngineState, state: EngineState, a: dict[int, float], b: dict[int, float]) -> tuple[Ratio | None, str]:
    if first.budget != state.budget:
        return None, "budget"
    if first.equal is False or state.equal is False:
        return None, "outputs"
    both = sorted(a.keys() & b.keys())
    if not both:
        return None, "rounds"
    return ratio([b[n] for n in both], [a[n] for n in both], paired=True), ""

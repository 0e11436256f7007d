"""One process of `training infer`: loads an engine, answers a few samples to warm up, and runs its scenarios in random order.

Reads an InferJob on standard input; writes an EngineState and then an InferRound per scenario on standard output, and latencies into the
file that the job names.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from typing import Any

import msgspec
import numpy as np

from hotlap.core.record import Record, encode
from hotlap.training import loadgen_rules, official, scenarios
from hotlap.training.engines import ENGINES, PACKAGES
from hotlap.training.engines.base import CannotLoad, InputSamples, LoadedModel
from hotlap.training.infer_record import EngineState, Generator, InferAsked, InferRound, ModelInput
from hotlap.training.loadgen_rules import RunRules, Scenario
from hotlap.training.scenarios import ScenarioLoad, ScenarioTimes

WARM_S, WARM_MOST = 0.2, 200
SPARE = 1.4  # samples of offline beyond those expected: a run that is too short is invalid
COMPARED = 4  # samples whose answers engines are compared by


class InferJob(Record, frozen=True, kw_only=True):
    """What one process does."""

    asked: InferAsked
    engine: str
    round: int
    latencies: str  # file to append to
    outputs: str = ""  # file for the answers to the first samples; "" for none
    runs: tuple[tuple[Scenario, Generator], ...] = ()


class Printed(Record, frozen=True, kw_only=True):
    """A line of its output."""

    state: EngineState | None = None
    done: InferRound | None = None


class AnsweringModel:
    """A loaded model and its samples: what both load generators call."""

    def __init__(self, model: LoadedModel, samples: InputSamples) -> None:
        self.model, self.samples = model, samples

    def __call__(self, first: int, count: int) -> None:
        for feed, _ in self.samples.feeds(first, count):
            self.model.run(feed)

    def first_s(self) -> float:
        """Seconds of the first answer. Raises what the engine raises for samples that it does not take."""
        began = time.perf_counter()
        self.model.run(self.samples.ones[0])
        return time.perf_counter() - began

    def rate(self, size: int) -> float:
        """Samples a second, so many at a time, after warming up."""
        calls, began = 0, time.perf_counter()
        now = began
        while calls < WARM_MOST and (now - began < WARM_S or not calls):
            self(calls * size, size)
            calls, now = calls + 1, time.perf_counter()
        return calls * size / (now - began)


def rules(asked: InferAsked, scenario: Scenario) -> RunRules:
    """Of one scenario, as it was asked for."""
    return RunRules(
        scenario=scenario, min_s=asked.seconds, min_queries=asked.min_queries, percentile=loadgen_rules.PERCENTILE.get(scenario, 0.99),
        bound_s=asked.bound_s if scenario == "server" else None,
    )  # fmt: skip


def main() -> int:
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=InferJob)
    stdout = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # engines print to standard output
    began = time.perf_counter()
    state, answering, first_s = _loaded(job)
    load_s = time.perf_counter() - began - first_s
    if answering is None:
        stdout.write(encode(Printed(state=state)) + b"\n")
        return 0
    rates = {scenario: answering.rate(_size(scenario, answering.samples.batch)) for scenario in dict.fromkeys(s for s, _ in job.runs)}
    if job.outputs:
        _keep_outputs(answering, job.outputs)
    stdout.write(encode(Printed(state=state)) + b"\n")
    order = np.random.default_rng([job.asked.seed, job.round]).permutation(len(job.runs))
    for at in order.tolist():
        scenario, generator = job.runs[at]
        done = _run(job, answering, scenario, generator, rates[scenario])
        stdout.write(encode(Printed(done=msgspec.structs.replace(done, load_s=load_s, first_s=first_s))) + b"\n")
    return 0


def _loaded(job: InferJob) -> tuple[EngineState, AnsweringModel | None, float]:
    asked, name = job.asked, job.engine
    try:
        model: LoadedModel = importlib.import_module(ENGINES[name]).load(asked.files[name], asked.budgets[name])
        samples = InputSamples(model.inputs or _given(asked), asked.seed, asked.batch, asked.shapes, asked.values, asked.high)
        answering = AnsweringModel(model, samples)
        first_s = answering.first_s()
    except ImportError as error:
        reason = f"its package is not installed ({error})"
        return EngineState(name=name, status="not_run", reason=reason, remedy=f"pip install {PACKAGES[name]}"), None, 0.0
    except CannotLoad as error:
        return EngineState(name=name, status="not_run", reason=error.reason, remedy=error.remedy), None, 0.0
    except Exception as error:  # an engine refuses shapes and values with exceptions of its own
        reason = f"it refuses the samples: {' '.join(str(error).split())[:300]}"
        return EngineState(name=name, status="not_run", reason=reason, remedy="give --shape INPUT=1,576 or --value INPUT=16000"), None, 0.0
    state = EngineState(name=name, status="measured", version=model.version, budget=model.budget, batch=samples.batch)
    return state, answering, first_s


def _given(asked: InferAsked) -> list[Any]:
    """Inputs of a file that names none: those of --shape, in order."""
    if not asked.shapes:
        raise CannotLoad("this file names no inputs", "give --shape x=1,3,224,224 for each, in order")
    return [ModelInput(name, "int64" if name in asked.high else "float32", tuple(shape)) for name, shape in asked.shapes.items()]


def _size(scenario: Scenario, batch: int) -> int:
    return {"multi": loadgen_rules.PER_QUERY, "offline": batch}.get(scenario, 1)


def _run(job: InferJob, answering: AnsweringModel, scenario: Scenario, generator: Generator, rate: float) -> InferRound:
    asked = job.asked
    kept = rules(asked, scenario)
    per_s = (asked.rate or 1.0) if scenario == "server" else rate * (SPARE if scenario == "offline" else 1.0)
    load = ScenarioLoad(rate=per_s, clients=asked.clients, seed=asked.seed + job.round)
    cpu_s = time.process_time()
    official_valid = None
    try:
        if generator == "hotlap":
            measured = scenarios.run(answering, kept, load)
        else:
            judged = official.run(answering, kept, load)
            measured, official_valid = judged.measured, judged.valid
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        return InferRound(engine=job.engine, scenario=scenario, generator=generator, round=job.round, status="error", reason=reason)
    cpu_s = time.process_time() - cpu_s
    place = _append(job.latencies, measured)
    return InferRound(
        engine=job.engine, scenario=scenario, generator=generator, round=job.round, place=place, queries=len(measured.latencies_s),
        samples=measured.samples, wall_s=measured.wall_s, issued_s=measured.issued_s, cpu_s=cpu_s,
        validity=loadgen_rules.judge(kept, measured.latencies_s, measured.issued_s), official=official_valid,
    )  # fmt: skip


def _append(path: str, measured: ScenarioTimes) -> int:
    with open(path, "ab") as file:
        place = file.tell() // 4
        file.write(np.asarray(measured.latencies_s, "<f4").tobytes())
    return place


def _keep_outputs(answering: AnsweringModel, path: str) -> None:
    arrays: dict[str, Any] = {}
    for k, feed in enumerate(answering.samples.ones[:COMPARED]):
        for at, value in enumerate(answering.model.run(feed)):
            if isinstance(value, np.ndarray):
                arrays[f"{k}-{at}"] = value
    np.savez(path, **arrays)


if __name__ == "__main__":
    sys.exit(main())

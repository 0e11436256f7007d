"""A run of `training infer`: engines in turns, a fresh process for each in every round, kept as a bundle whatever happens."""

from __future__ import annotations

import hashlib
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from hotlap.core.errors import InputError, MachineError
from hotlap.core.measure import runs, signals
from hotlap.core.measure.machine import busy
from hotlap.core.measure.machine.machine import fingerprint
from hotlap.core.measure.supervisor import Process
from hotlap.core.measure.targets import host
from hotlap.core.record import METHOD, MeasureOptions, Plan, Stop, encode
from hotlap.core.store import files, labels
from hotlap.core.store.log import Log
from hotlap.training import official
from hotlap.training.infer_record import LATENCIES, ROUNDS, SESSION, EngineState, Generator, InferAsked, Inferred, InferRound
from hotlap.training.infer_round import InferJob, Printed
from hotlap.training.loadgen_rules import Scenario

KIND = "infer"
TOLERANCE = (1e-3, 1e-4)  # relative, absolute: fp32 in another order of operations
LIMIT_S = 60.0  # of silence, beside three times what a scenario takes
Listener = Callable[[InferRound], None]


@dataclass(frozen=True)
class InferOptions:
    """How to keep it."""

    home: Path
    labels: Mapping[str, object] = field(default_factory=dict)
    wait_s: float = 0.0


def run(asked: InferAsked, options: InferOptions, listen: Listener = lambda _: None) -> Path:
    """Measures, and returns the bundle's folder. Raises InputError for files that are not there, Busy, MachineError."""
    for name, path in asked.files.items():
        if not Path(path).is_file():
            raise InputError(f"'{path}', which {name} shall load, is no file")
    device = host.describe()
    about = f"{Path(asked.model).name} by {', '.join(asked.files)}: {', '.join(asked.scenarios)}"
    plan = Plan(name="infer", about=about, source="hotlap training infer", measure=MeasureOptions(readings_hz=0, rounds=asked.rounds))
    record = runs.record(
        plan, "host", [device], fingerprint([device]), kind=KIND, method=METHOD, labels=labels.check(dict(options.labels)), seed=asked.seed,
        look=busy.look([device]),
    )
    inferred = Inferred(asked=asked, sha256=_sha256(asked.model), tolerance=TOLERANCE, loadgen=official.version())
    with runs.begin(record, [device], options.home, options.wait_s) as held:
        return _Engines(held, inferred, listen).measure()


def _sha256(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


class _Engines:
    """A run under way."""

    def __init__(self, held: runs.OpenRun, inferred: Inferred, listen: Listener) -> None:
        self.held, self.inferred, self.listen = held, inferred, listen
        self.folder, self.stop = held.writer.path, threading.Event()
        self.states: dict[str, EngineState] = {}
        self.log = Log(self.folder / ROUNDS)
        (self.folder / LATENCIES).touch()

    def measure(self) -> Path:
        stop = Stop("error", "it ended early")
        try:
            self._write()
            with signals.caught(lambda _: self.stop.set()), tempfile.TemporaryDirectory(prefix="hotlap-infer-") as work:
                for number in range(self.inferred.asked.rounds):
                    self._round(number, Path(work))
            measured = any(state.status == "measured" for state in self.states.values())
            stop = Stop("interrupted") if self.stop.is_set() else Stop("rounds_max" if measured else "no_number")
        except (MachineError, OSError) as error:
            stop = Stop("error", str(error))
        finally:
            self._write()
            self.held.finish([stop])
        return self.folder

    def _round(self, number: int, work: Path) -> None:
        """Each engine once, in an order of its own."""
        names = list(self.inferred.asked.files)
        for at in np.random.default_rng([self.inferred.asked.seed, number]).permutation(len(names)).tolist():
            if not self.stop.is_set() and self.states.get(names[at], EngineState(name="", status="measured")).status == "measured":
                self._process(names[at], number, work)
        if number == 0:
            self._compare(work)
        self._write()

    def _process(self, name: str, number: int, work: Path) -> None:
        asked = self.inferred.asked
        cells = self._cells(name, number)
        outputs = str(work / f"{name}.npz") if number == 0 else ""
        job = InferJob(asked=asked, engine=name, round=number, latencies=str(self.folder / LATENCIES), outputs=outputs, runs=cells)
        left = set(cells)
        with Process("hotlap.training.infer_round", job, LIMIT_S + 3 * asked.seconds, self.stop, as_programs=True) as process:
            for line in process.lines():
                printed = msgspec.json.decode(line, type=Printed)
                if printed.state and number == 0:
                    self.states[name] = printed.state
                if printed.done:
                    left.discard((printed.done.scenario, printed.done.generator))
                    self._keep(printed.done)
            process.process.wait() if not (process.hung or self.stop.is_set()) else None
            failed = process.hung or process.status not in (0, None)
            why = f"the process {process.ending()}: {process.last_words()}"
        if failed and not self.stop.is_set():
            self.states.setdefault(name, EngineState(name=name, status="error", reason=why, remedy="load the model in the engine alone"))
            for scenario, generator in sorted(left):
                self._keep(InferRound(engine=name, scenario=scenario, generator=generator, round=number, status="error", reason=why))

    def _cells(self, name: str, number: int) -> tuple[tuple[Scenario, Generator], ...]:
        """What a process runs; what no generator can do is kept as `not_run`, once."""
        cells = list[tuple[Scenario, Generator]]()
        for scenario in self.inferred.asked.scenarios:
            for generator in self.inferred.asked.generators:
                reason = ""
                if generator == "loadgen":
                    reason = "" if self.inferred.loadgen else "LoadGen is not installed: pip install mlcommons-loadgen"
                    reason = reason or ("" if scenario in official.SCENARIOS else f"LoadGen has no scenario {scenario}")
                if not reason:
                    cells.append((scenario, generator))
                elif number == 0:
                    self._keep(InferRound(engine=name, scenario=scenario, generator=generator, round=0, status="not_run", reason=reason))
        return tuple(cells)

    def _keep(self, done: InferRound) -> None:
        self.log.append(encode(done) + b"\n")
        self.listen(done)

    def _compare(self, work: Path) -> None:
        """Answers of each engine against those of the first that has any."""
        kept = {name: dict(np.load(work / f"{name}.npz")) for name in self.inferred.asked.files if (work / f"{name}.npz").is_file()}
        if len(kept) < 2:
            return
        first, *others = kept
        for name in others:
            equal, difference = _equal(kept[first], kept[name])
            self.states[name] = replace(self.states[name], equal=equal, difference=difference)

    def _write(self) -> None:
        names = self.inferred.asked.files
        self.inferred = replace(self.inferred, engines=tuple(self.states[name] for name in names if name in self.states))
        files.write_whole(self.folder / SESSION, msgspec.json.format(encode(self.inferred), indent=2) + b"\n")


def _equal(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[bool, float | None]:
    """Whether all answers agree within TOLERANCE, and the largest difference; None where they are not even of one shape."""
    if a.keys() != b.keys() or any(a[key].shape != b[key].shape for key in a):
        return False, None
    relative, absolute = TOLERANCE
    pairs = [(a[key].astype(np.float64), b[key].astype(np.float64)) for key in a]
    equal = all(np.allclose(x, y, rtol=relative, atol=absolute, equal_nan=True) for x, y in pairs)
    return equal, max((float(np.max(np.abs(x - y), initial=0.0)) for x, y in pairs), default=0.0)

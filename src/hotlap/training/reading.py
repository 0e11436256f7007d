"""A bundle of training as it is read: its processes with their steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from hotlap.core.errors import SchemaError
from hotlap.core.store import files
from hotlap.core.store.bundle import Bundle
from hotlap.training import launching
from hotlap.training.record import ROWS, SESSION, STARTED, Floats, Trained, TrainingProcess, rows
from hotlap.training.steady import SteadySteps, behind_own, enough, of_process


class MeasuredProcess(NamedTuple):
    """A process, its steps (shape (steps, columns)), and which of them are steady."""

    process: TrainingProcess
    table: Floats
    steady: SteadySteps


class TrainingRun(NamedTuple):
    """`launches`: the ranks of each launch together, the leading one first; those that counted operations left out."""

    bundle: Bundle
    trained: Trained
    launches: list[list[MeasuredProcess]]
    counted: TrainingProcess | None

    def before_forward(self, arm: str) -> float | None:
        """Of the time until `backward()` the share before the model is called; None: not known, as of a program that was not looked at."""
        asked = self.trained.asked
        if asked.kind == "network":
            return 0.0  # its program is ours, and has its batch before the first step
        if asked.compile or (asked.against and arm != self.trained.arms[0]):
            return None
        return next((one.before_forward for one in self.trained.processes if one.arm == "count" and one.before_forward is not None), None)


def read(bundle: Bundle) -> TrainingRun | None:
    """None where the run was killed before it said what it is. Raises SchemaError for files that are none of training."""
    contents = files.long(bundle.path, (SESSION, ROWS, STARTED))
    if SESSION not in contents:
        return None
    try:
        trained = msgspec.json.decode(contents[SESSION], type=Trained)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SchemaError(f"{bundle.path}/{SESSION}: {error}") from None
    trained = replace(trained, processes=[*trained.processes, *(
        process for begun in (trained.begun, trained.beside) for process in _under_way(begun, contents)
    )])
    launches: dict[int, list[MeasuredProcess]] = {}
    for process in trained.processes:
        if process.arm != "count":
            table = rows(contents.get(process.file, b""))
            launches.setdefault(process.number, []).append(MeasuredProcess(process, table, of_process(process, table)))
    counted = next((one for one in trained.processes if one.arm == "count" and one.flop), None)
    return TrainingRun(bundle, trained, alike(list(launches.values())), counted)


def _under_way(begun: TrainingProcess | None, contents: Mapping[str, bytes]) -> list[TrainingProcess]:
    """Those of the launch that goes on, or in which Hotlap was killed: their steps were appended as they ended."""
    processes = launching.stepped(begun, contents) if begun else []
    return [one if one.ended == "asked" else replace(one, ended="interrupted") for one in processes if one.steps]


def alike(launches: list[list[MeasuredProcess]]) -> list[list[MeasuredProcess]]:
    """All processes by one rule: over undisturbed steps alone where each has enough of them, else over all steps; whether threads waited
    behind others of their own program, too."""
    leads = [launch[0] for launch in launches if launch[0].steady.steps]
    own = behind_own([one.process for one in leads])
    steady = [of_process(one.process, one.table, own=own) for one in leads]
    quiet = bool(leads) and all(enough(one.process, steps.quiet, steps.steps) for one, steps in zip(leads, steady, strict=True))
    return [[one._replace(steady=of_process(one.process, one.table, quiet, own)) for one in launch] for launch in launches]

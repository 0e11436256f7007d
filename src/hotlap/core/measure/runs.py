"""A run as it is begun, gone on with and ended, whatever is done in it: its record, its devices, and its bundle, held by this process."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

import hotlap
from hotlap.core.errors import Unavailable
from hotlap.core.measure import targets
from hotlap.core.record import Device, Machine, Plan, RunRecord, Stop
from hotlap.core.store import bundle as bundles
from hotlap.core.store import locks


class OpenRun(NamedTuple):
    """A run that this process alone writes, on devices that no other run uses."""

    record: RunRecord
    devices: list[Device]
    writer: bundles.Writer

    def finish(self, stops: list[Stop], **changes: Any) -> None:
        """Ends it: why, and what else is known of it now. Raises MachineError."""
        ended = datetime.now(UTC).isoformat(timespec="seconds")
        self.writer.finish(replace(self.record, ended=ended, stops=stops, **changes))


def record(plan: Plan, target: str, devices: Sequence[Device], machine: Machine, **more: Any) -> RunRecord:
    """A run that begins now; `more`: further fields."""
    began = datetime.now(UTC)
    fields: dict[str, Any] = {"seed": secrets.randbits(31), "order": "together" if len(devices) > 1 else "single", **more}
    return RunRecord(
        id=bundles.new_id(began), began=began.isoformat(timespec="milliseconds"), hotlap=hotlap.__version__, plan=plan, target=target,
        machine=machine, devices=[d.key for d in devices], **fields,
    )


@contextmanager
def begin(run: RunRecord, devices: Sequence[Device], home: Path, wait_s: float = 0.0, held: bool = False) -> Iterator[OpenRun]:
    """A new bundle. Raises Busy where another run uses a device for longer than `wait_s`; `held`: the caller has them already."""
    with nullcontext() if held else locks.hold(devices, wait_s):
        yield OpenRun(run, list(devices), bundles.Writer.create(run, home))


@contextmanager
def resume(path: Path, wait_s: float = 0.0) -> Iterator[OpenRun]:
    """A run that was interrupted or killed, on the devices where it began; what is to be told of it are the writer's notices.

    Raises Unavailable where one of them is not here, Busy, InputError, SchemaError.
    """
    writer = bundles.Writer.resume(path)
    run = bundles.read_run(path)
    devices = _begun_on(run)
    with locks.hold(devices, wait_s):
        yield OpenRun(run, devices, writer)


def _begun_on(run: RunRecord) -> list[Device]:
    here = {d.key: d for d in targets.find(targets.parse(run.target))}
    gone = [key for key in run.devices if key not in here]
    if gone:
        raise Unavailable(f"the run's device {gone[0]} is not here", "resume it on the machine where it began")
    return [here[key] for key in run.devices]

"""The run bundle, which is the truth: a folder of run.json, samples.jsonl and readings.log, or a zip of it.

run.json is written whole beside itself, then renamed; the other two are appended, one write per line, so that a run that
is killed loses at most the line it was writing. Readings of long runs are compacted while they go on: see `compact`.
"""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import msgspec

from hotlap.core.errors import Busy, InputError, MachineError, SchemaError
from hotlap.core.record import SCHEMA, Notice, Readings, Record, RunRecord, Samples, Stop, encode
from hotlap.core.store import chunks, compact, files, lines, locks, paths, upgrade
from hotlap.core.store.files import FILES, READINGS, RUN, SAMPLES
from hotlap.core.store.log import Log

LOG_BYTES = 14 * 2**20  # of readings.log: then it is set aside to be compacted, and a new one begun
WAITING, PATIENCE_S = 2, 60.0  # logs set aside at which the writer waits for their compaction, and how long at most
Key = tuple[str, str, int]
"""Case.id, Device.key, round: what one line of samples.jsonl is of."""


@dataclass(frozen=True)
class Bundle:
    """A run as it was kept. `path` is the folder or zip it was read from."""

    run: RunRecord
    path: Path
    samples: list[Samples] = field(default_factory=list)
    readings: list[Readings] = field(default_factory=list)  # of a long run: means of stretches; `chunks` has every one
    notices: list[Notice] = field(default_factory=list)

    @property
    def is_being_measured(self) -> bool:
        """Whether a process that is alive writes it: then it is not ended, and nothing can go on with it."""
        return not self.run.ended and being_measured(self.path)

    @property
    def done(self) -> set[Key]:
        """Which case, device and round there are, whatever became of them."""
        return {key(s) for s in self.samples}

    @property
    def listed(self) -> RunHeader:
        return listed(self.run, len({s.round for s in self.samples}))


def being_measured(path: Path) -> bool:
    """Whether a process that is alive writes the bundle in this folder."""
    if not path.is_dir():
        return False
    try:
        with open(path / SAMPLES, "rb") as file:
            return not locks.take(file)
    except OSError:
        return False


class RunHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What a list of runs shows of one: no numbers, little enough for a catalog to hold."""

    id: str
    began: str
    plan: str
    devices: list[str]  # Device.shown of those measured
    models: list[str] = []  # of each of them Device.model; [] of a run of a later schema
    rounds: int | None  # None when the samples cannot be read
    cases: int
    ended: str
    stops: list[Stop]
    labels: dict[str, str]
    kind: str = "plan"
    host: str = ""
    written_by: str = ""  # the version of Hotlap that can read it; "": this one can


class _Round(Record, frozen=True, kw_only=True):
    """The little of a line of samples that counting rounds needs."""

    round: int


class _Head(msgspec.Struct):
    """The little of run.json that every schema will have."""

    schema: int
    hotlap: str = "unknown"


class _LaterMachine(msgspec.Struct):
    host: str = ""
    devices: list[dict[str, object]] = []


class _Later(msgspec.Struct):
    """What run.json of a later schema is listed by."""

    schema: int
    id: str
    began: str
    kind: str = ""
    hotlap: str = "unknown"
    machine: _LaterMachine = msgspec.field(default_factory=_LaterMachine)


def key(samples: Samples) -> Key:
    return samples.case, samples.device, samples.round


def new_id(began: datetime) -> str:
    """A name for a run that began then, sortable by time (UTC) and unique by its end: ``20261121T101500-4f2a9c``."""
    return f"{began.astimezone(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"


def target_name(specification: str) -> str:
    """`simulated` of `simulated:h200-sxm?noise=0.01`."""
    return specification.partition("?")[0].partition(":")[0]


def load(path: Path, readings: bool = True) -> Bundle:
    """A bundle from its folder or a zip of it; without its readings, often half of it, where nobody will look at them.

    Raises InputError when nothing is there, SchemaError when it is no bundle, is of a newer schema or cannot be read (with
    file and line), MachineError when the system refuses. What can be put right is in the bundle's `notices`.
    """
    wanted = FILES if readings else (RUN, SAMPLES)
    contents = files.read(path, wanted)
    run = _run(contents[RUN], f"{path}/{RUN}")
    samples = upgrade.samples(contents.get(SAMPLES, b""), f"{path}/{SAMPLES}")
    read = lines.read(contents.get(READINGS, b"") if readings else b"", Readings, f"{path}/{READINGS}")
    once, strange = _deduplicate(run, samples.records)
    compacted, not_read = _long(path) if readings else ([], [])
    missing = [Notice("missing_file", f"{name} is missing; nothing of it is known") for name in wanted if name not in contents]
    lost = _lost(run, len(samples.records) + bool(samples.torn)) if SAMPLES in contents else []
    torn = samples.notices(SAMPLES) + read.notices(READINGS)
    return Bundle(run, path, once, compacted + read.records, missing + torn + lost + strange + not_read)


def _long(path: Path) -> tuple[list[Readings], list[Notice]]:
    """Of a long run: the means of stretches from its levels, and what was set aside and not compacted yet; what could not be read."""
    logs = files.long(path, ("readings-*.log",))
    done = set(files.long(path, ("levels-*.parquet",))) if logs else set()
    left = {name: data for name, data in logs.items() if name.replace("readings", "levels").replace(".log", ".parquet") not in done}
    waiting = [one for name, data in left.items() for one in lines.read(data, Readings, f"{path}/{name}").records]
    if not chunks.stored(path, "levels"):
        return waiting, []
    try:
        return chunks.thinned(chunks.levels(path), chunks.windows(path)) + waiting, []
    except MachineError as error:
        return waiting, [Notice("no_readings", f"the readings that were compacted are not shown: {error}")]


def read_run(path: Path) -> RunRecord:
    """run.json alone. Raises as `load` does."""
    return _run(files.read(path, (RUN,))[RUN], f"{path}/{RUN}")


def read_listed(path: Path) -> tuple[RunRecord | None, RunHeader]:
    """run.json and what a list shows, of a bundle's folder; no run, but its id, kind, machine and time, of a later schema.

    Raises as `load` does for run.json.
    """
    found = files.from_folder(path, (RUN, SAMPLES))
    if (later := _later(found[RUN])) is not None:
        return None, later
    run = _run(found[RUN], f"{path}/{RUN}")
    try:
        rounds = len({one.round for one in lines.read(found.get(SAMPLES, b""), _Round, SAMPLES).records})
    except SchemaError:
        return run, listed(run, None)
    return run, listed(run, rounds)


def listed(run: RunRecord, rounds: int | None) -> RunHeader:
    selectors = {device.key: device.shown for device in run.machine.devices}
    models = {device.key: device.model for device in run.machine.devices}
    return RunHeader(
        id=run.id, began=run.began, plan=run.plan.name, devices=[selectors.get(key, f"{run.target}:0") for key in run.devices],
        models=[models.get(key, run.target) for key in run.devices],
        rounds=rounds, cases=len(run.plan.cases), ended=run.ended, stops=run.stops, labels=run.labels, kind=run.kind,
        host=run.machine.host,
    )


# ---------------------------------------------------------------- writing


class Writer:
    """The one writer of a bundle, from `create` or `resume` to `finish`. Not for several threads at once.

    Every method raises MachineError, saying what is kept, when the system refuses.
    """

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self.path, self.notices, self.kept = path, list[Notice](), 0
        self._compacting: subprocess.Popen[bytes] | None = None
        self._samples, self._readings = Log(path / SAMPLES, clock), Log(path / READINGS, clock)
        if not locks.take(self._samples.file):
            raise Busy(f"the run {path.name} is being written by another process; wait for it to end")

    @classmethod
    def create(cls, run: RunRecord, home: Path, clock: Callable[[], float] = time.monotonic, folder: Path | None = None) -> Writer:
        """A new bundle under `home`, or at `folder`, which appears with its three files in it, so that no moment leaves half of one.

        Until then it has a name that begins with a dot, which no list of runs has; a process killed there leaves that.
        """
        text = _text(run)
        if folder is None:
            folder = paths.create(paths.runs(home)) / run.id
        if folder.exists():
            named = f"there is a run {run.id} already; begin again for a new id"
            raise MachineError(named if folder.name == run.id else f"'{folder}' is there already; name a folder that is not")
        beside = folder.with_name(f".{run.id}")
        try:
            beside.mkdir()
            for name in (SAMPLES, READINGS):
                (beside / name).touch()
            files.write_whole(beside / RUN, text)
            beside.rename(folder)
            writer = cls(folder, clock)
        except OSError as error:
            shutil.rmtree(beside, ignore_errors=True)  # it holds nothing yet
            raise MachineError(_cannot_begin(folder, error)) from None
        files.sync_folder(folder.parent)
        return writer

    @classmethod
    def resume(cls, path: Path, clock: Callable[[], float] = time.monotonic) -> Writer:
        """The writer of a bundle that is there. A torn last line is cut off and shown in `notices`.

        Raises Busy when its run is still going, InputError for a zip, and what `load` raises.
        """
        if path.is_file():
            raise InputError(f"'{path}' is a zip; unpack it, and resume the folder")
        load(path)  # refuses what is no bundle before anything is opened for writing
        try:
            writer = cls(path, clock)
            samples, readings = writer._samples.mend(Samples), writer._readings.mend(Readings)
        except OSError as error:
            raise MachineError(f"the run '{path}' cannot be written: {error.strerror}; it is as it was") from None
        writer.kept = len(samples.records)
        writer.notices += [*samples.notices(SAMPLES), *readings.notices(READINGS)]
        return writer

    def append(self, samples: Samples) -> None:
        """Keeps one case of one round."""
        self._put(self._samples, lines.line(samples))
        self.kept += 1

    def replace(self, samples: Sequence[Samples]) -> None:
        """Keeps these in place of all samples so far: whoever reads sees the former or these."""
        try:
            files.write_whole(self._samples.path, b"".join(map(lines.line, samples)))
            log = Log(self._samples.path)
            locks.take(log.file)
        except OSError as error:
            self._refuse(SAMPLES, error)
        self._samples.close()
        self._samples, self.kept = log, len(samples)

    def readings(self, readings: Iterable[Readings]) -> None:
        """Keeps stretches of readings."""
        text = b"".join(lines.line(one) for one in readings)
        if text:
            self._put(self._readings, text)
            if self._readings.size >= LOG_BYTES:
                self._compact_in_background()

    def _compact_in_background(self) -> None:
        """Begins a new log; another process compacts the old one, which is whole."""
        if not chunks.available():
            seen = f"readings are kept as text, {LOG_BYTES / 1e6:.0f} MB and growing: {chunks.REMEDY} lets long runs compact them"
            if not any(notice.code == "not_compacted" for notice in self.notices):
                self.notices.append(Notice("not_compacted", seen))
            return
        try:
            self._readings.set_aside(compact.aside(self.path))
            if self._compacting is not None and len(compact.waiting(self.path)) > WAITING:
                with suppress(subprocess.TimeoutExpired):
                    self._compacting.wait(PATIENCE_S)
            if self._compacting is None or self._compacting.poll() is not None:
                command = [sys.executable, "-P", "-m", "hotlap.core.store.compact", str(self.path)]
                self._compacting = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except OSError as error:
            self._refuse(READINGS, error)

    def _compact_rest(self) -> None:
        """At the end of a long run: all of its readings in chunks."""
        if self._compacting is not None:
            self._compacting.wait()
        if self._readings.file.closed or not chunks.available() or not (compact.waiting(self.path) or chunks.stored(self.path)):
            return
        if self._readings.size:
            self._readings.set_aside(compact.aside(self.path))
        compact.compact(self.path)

    def finish(self, run: RunRecord) -> None:
        """Writes run.json anew and lets go of the bundle; after it nothing can be appended. May be called again."""
        at = READINGS
        try:
            self._compact_rest()
            for log in (self._samples, self._readings):
                at = log.path.name
                if not log.file.closed:
                    log.sync()
            at = RUN
            files.write_whole(self.path / RUN, _text(msgspec.structs.replace(run, kept=self.kept)))
        except OSError as error:
            self._refuse(at, error)
        finally:
            self._samples.close()
            self._readings.close()

    def _put(self, log: Log, text: bytes) -> None:
        try:
            log.append(text)
        except OSError as error:
            self._refuse(log.path.name, error)

    def _refuse(self, name: str, error: OSError) -> NoReturn:
        raise MachineError(
            f"the run's {name} cannot be written: {error.strerror or error}",
            f"{self.kept} lines of samples are kept in {self.path}: make room or mend that, then hotlap run --resume {self.path.name}",
        ) from None


def _cannot_begin(folder: Path, error: OSError) -> str:
    return f"the run's folder '{folder}' cannot be written: {error.strerror}; nothing was measured yet"


def _text(run: RunRecord) -> bytes:
    """run.json, indented for people."""
    try:
        return msgspec.json.format(encode(run), indent=2) + b"\n"
    except UnicodeEncodeError as error:
        raise InputError(f"a label, path or argument holds bytes that are no text: {ascii(error.object)[:100]}") from None


# ---------------------------------------------------------------- reading


def _run(data: bytes, name: str) -> RunRecord:
    try:
        head = msgspec.json.decode(data, type=_Head)
    except lines.UNREADABLE as error:
        raise SchemaError(f"{_position(data, name)}: not the {RUN} of a Hotlap bundle: {error}") from None
    if head.schema > SCHEMA:
        raise SchemaError(later_words(name, head.schema, head.hotlap))
    if head.schema < 1:
        raise SchemaError(f"{name} says schema {head.schema}; valid: 1 to {SCHEMA}")
    try:
        if head.schema < SCHEMA:
            return msgspec.convert(upgrade.run(msgspec.json.decode(data), head.schema), RunRecord)
        return msgspec.json.decode(data, type=RunRecord)
    except lines.UNREADABLE as error:
        raise SchemaError(f"{name}: {error}; restore it from a copy") from None


def later_words(name: str, schema: int, version: str) -> str:
    """Why a bundle of a later schema is not read, and what reads it."""
    return f"{name} is of schema {schema}, written by Hotlap {version}; this Hotlap reads up to {SCHEMA}: install that version"


def _later(data: bytes) -> RunHeader | None:
    """What is listed of a run of a later schema; None for one that this version reads, or that says too little."""
    try:
        if msgspec.json.decode(data, type=_Head).schema <= SCHEMA:
            return None
        later = msgspec.json.decode(data, type=_Later)
    except lines.UNREADABLE:
        return None
    names = [str(device["name"]) for device in later.machine.devices if device.get("name")]
    return RunHeader(
        id=later.id, began=later.began, plan="", devices=names, rounds=None, cases=0, ended="", stops=[],
        labels={}, kind=later.kind, written_by=later.hotlap, host=later.machine.host,
    )


def _position(data: bytes, name: str) -> str:
    """`name`, with the line where its JSON ends to be JSON."""
    try:
        json.loads(data)
    except json.JSONDecodeError as error:
        return f"{name}:{error.lineno}"
    except (UnicodeDecodeError, RecursionError):
        pass
    return name


def _lost(run: RunRecord, lines_here: int) -> list[Notice]:
    """Whether lines went after the run had ended."""
    if run.kept is None or lines_here >= run.kept:
        return []
    seen = f"{SAMPLES}: {run.kept - lines_here} of {run.kept} lines are lost since the run ended"
    return [Notice("lost_lines", seen, "restore the file from a copy")]


def _deduplicate(run: RunRecord, samples: list[Samples]) -> tuple[list[Samples], list[Notice]]:
    """Each case, device and round once: the first counts. Notices of what is left out or belongs nowhere."""
    seen: dict[Key, Samples] = {}
    for one in samples:
        seen.setdefault(key(one), one)
    twice = len(samples) - len(seen)
    strange = sorted({s.case for s in seen.values()} - {c.id for c in run.plan.cases})
    repeated = f"{SAMPLES}: {twice} lines repeat a case and round that were there before; the first counts"
    notices = [Notice("repeated_lines", repeated)] if twice else []
    if strange:
        left_out = f"{SAMPLES}: samples of cases that are not in the plan are left out of the results: {', '.join(strange)}"
        notices.append(Notice("unknown_cases", left_out))
    return list(seen.values()), notices

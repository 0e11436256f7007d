"""An acceptance's folder, under HOTLAP_HOME/acceptances:

    accept.toml, topology.txt    the plan as it was given
    plan.json                    the plan as it was read, frozen
    ledger.jsonl                 events of nodes, append-only: the truth
    steps/0003-alone.jsonl       what a step measured: a head, then a line for each node; the ledger has each line's SHA-256
    begun.json                   the runs of a step that has not ended
    lock                         who drives it now

A step's file is written whole before its first event, and its events follow from it and from the ledger before it. So whoever goes on after
a kill writes the same events.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from hotlap.bringup import accept_plan, accept_states
from hotlap.bringup.accept_plan import AcceptPlan
from hotlap.bringup.accept_record import AcceptEvent, NodeStanding, StepTaken, digest, line, parsed_step
from hotlap.core.errors import Busy, InputError, MachineError, SchemaError
from hotlap.core.store import bundle as bundles
from hotlap.core.store import files, lines, locks, paths
from hotlap.core.store.log import Log

FOLDER, PLAN, SOURCE, LEDGER, STEPS, BEGUN, LOCK = "acceptances", "plan.json", "accept.toml", "ledger.jsonl", "steps", "begun.json", "lock"


class BegunStep(msgspec.Struct, frozen=True):
    """A step that is being measured: its number, since when (UNIX), and its runs so far."""

    number: int
    began_s: float
    campaigns: list[str] = []


@dataclass
class AcceptFolder:
    """One acceptance. Reads are of the moment; `append` and `keep` need `held`."""

    path: Path
    plan: AcceptPlan
    sync: bool = True  # False: a power cut may lose what a kill does not
    _log: Log | None = field(default=None, repr=False)

    @property
    def id(self) -> str:
        return self.path.name

    def events(self) -> list[AcceptEvent]:
        """In their order; a torn last line is left out. Raises SchemaError, MachineError."""
        return lines.read(_bytes(self.path / LEDGER), AcceptEvent, str(self.path / LEDGER)).records

    def standings(self, events: Sequence[AcceptEvent] | None = None) -> dict[str, NodeStanding]:
        """By node. Raises SchemaError for a ledger whose events cannot be."""
        return accept_states.standings(self.plan.nodes, self.events() if events is None else events)

    def steps(self) -> list[StepTaken]:
        """Those that are kept, by number. Raises SchemaError for one that cannot be read."""
        return [self.step_at(path) for path in sorted((self.path / STEPS).glob("*.jsonl"))]

    def step_at(self, path: Path) -> StepTaken:
        try:
            return parsed_step(_bytes(path))
        except (msgspec.MsgspecError, ValueError) as error:
            raise SchemaError(f"'{path}' cannot be read: {str(error)[:200]}; restore it from a copy") from None

    def step_lines(self, number: int) -> dict[str, bytes]:
        """A step's lines of evidence by their SHA-256, newline included."""
        for path in (self.path / STEPS).glob(f"{number:04}-*.jsonl"):
            rows = _bytes(path).splitlines(keepends=True)[1:]
            return {hashlib.sha256(row).hexdigest(): row for row in rows}
        return {}

    def begun(self) -> BegunStep | None:
        with suppress(OSError, msgspec.MsgspecError):
            return msgspec.json.decode((self.path / BEGUN).read_bytes(), type=BegunStep)
        return None

    def checked(self) -> None:
        """Every event's evidence is a line of its step's file, unchanged, as is that file's first line. Raises SchemaError naming the first
        that is not."""
        for taken in self.steps():
            if {each.head for each in taken.evidence} - {"", digest(taken.head)}:
                raise SchemaError(f"{self.path}: the file of step {taken.head.number}: its first line was changed; restore it from a copy")
        known: dict[int, dict[str, bytes]] = {}
        for event in self.events():
            if event.phase and event.phase not in known:
                known[event.phase] = self.step_lines(event.phase)
            if event.phase and event.evidence not in known[event.phase]:
                raise SchemaError(
                    f"{self.path}: the evidence of event {event.number} ({event.node}) is not in the file of step {event.phase}: "
                    "that file was changed or is missing; restore it from a copy"
                )

    # ------------------------------------------------------------ writing

    @contextmanager
    def held(self) -> Iterator[None]:
        """By one at a time. Raises Busy."""
        try:
            file = open(self.path / LOCK, "a+b", buffering=0)  # noqa: SIM115 - closed at the end
        except OSError as error:
            raise MachineError(f"the acceptance '{self.path}' cannot be written: {error.strerror}") from None
        with file:
            if not locks.take(file):
                raise Busy(f"the acceptance {self.id} is driven by another process; hotlap cluster accept status {self.id} shows it")
            self._log = Log(self.path / LEDGER)
            try:
                self._log.mend(AcceptEvent)
                yield
            finally:
                self._log.close()
                self._log = None

    def allow(self, budget_s: float) -> None:
        """Another budget from now on; what was measured stays. 0: none. Raises InputError for one that is too small, MachineError."""
        plan = msgspec.structs.replace(self.plan, budget_s=budget_s)
        accept_plan.planned(plan)
        self._write(self.path / PLAN, _text(plan))
        self.plan = plan

    def append(self, event: AcceptEvent) -> None:
        """Raises MachineError where the system refuses."""
        assert self._log is not None
        try:
            self._log.append(line(event))
        except OSError as error:
            why = f"the ledger '{self._log.path}' cannot be written: {error.strerror}"
            raise MachineError(why, "make room, and run it again") from None

    def begin(self, begun: BegunStep) -> None:
        self._write(self.path / BEGUN, msgspec.json.encode(begun))

    def keep(self, taken: StepTaken) -> None:
        """A step's file, whole."""
        head = taken.head
        name = f"{head.number:04}-{head.step}{'-retest' if head.retest else ''}.jsonl"
        self._write(self.path / STEPS / name, b"".join(map(line, [head, *taken.evidence])))
        with suppress(OSError):
            (self.path / BEGUN).unlink()

    def _write(self, path: Path, data: bytes) -> None:
        try:
            files.write_whole(path, data, self.sync)
        except OSError as error:
            raise MachineError(f"'{path}' cannot be written: {error.strerror}", "make room, and run it again") from None


def create(home: Path, plan: AcceptPlan, source: bytes, named: str = "", sync: bool = True) -> AcceptFolder:
    """A new acceptance: its folder appears whole. Raises MachineError."""
    folder = paths.create(home / FOLDER) / (named or bundles.new_id(datetime.now(UTC)))
    beside = folder.with_name(f".{folder.name}")
    try:
        (beside / STEPS).mkdir(parents=True)
        (beside / SOURCE).write_bytes(source)
        (beside / PLAN).write_bytes(_text(plan))
        (beside / LEDGER).touch()
        beside.rename(folder)
    except OSError as error:
        raise MachineError(f"the acceptance's folder '{folder}' cannot be written: {error.strerror}; nothing was begun") from None
    return AcceptFolder(folder, plan, sync)


def _text(plan: AcceptPlan) -> bytes:
    return msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n"


def load(path: Path) -> AcceptFolder:
    """Raises InputError where there is none, SchemaError for one that cannot be read."""
    try:
        data = (path / PLAN).read_bytes()
    except OSError:
        raise InputError(f"'{path}' is no acceptance: it has no {PLAN}") from None
    try:
        return AcceptFolder(path, msgspec.json.decode(data, type=AcceptPlan))
    except msgspec.MsgspecError as error:
        raise SchemaError(f"'{path / PLAN}': {error}; restore it from a copy") from None


def kept(home: Path) -> list[Path]:
    """Folders of all acceptances, the oldest first."""
    return [path for path in sorted((home / FOLDER).glob("[!.]*")) if (path / PLAN).is_file()]


def every(home: Path) -> list[AcceptFolder]:
    """All that can be read, the oldest first."""
    readable = list[AcceptFolder]()
    for path in kept(home):
        with suppress(SchemaError):
            readable.append(load(path))
    return readable


def chosen(home: Path, selector: str) -> AcceptFolder:
    """By name of its plan or beginning of its id; "": the newest. Raises InputError, SchemaError where that cannot be read."""
    there, names = kept(home), {each.path: each.plan.name for each in every(home)}
    if not there:
        raise InputError("no acceptance is kept yet; hotlap cluster accept run FILE.toml begins one")
    fits = [path for path in there if names.get(path) == selector or path.name.startswith(selector)]
    if not fits:
        raise InputError(f"there is no acceptance '{selector}'; valid: {', '.join(dict.fromkeys(names.values()))}")
    return load(fits[-1])


def same(home: Path, plan: AcceptPlan) -> AcceptFolder | None:
    """The newest acceptance of the very same file."""
    return next((each for each in reversed(every(home)) if each.plan.digest == plan.digest), None)


def begin(home: Path, path: str) -> AcceptFolder:
    """A new acceptance of a plan's file. Raises InputError, MachineError."""
    data = _bytes(Path(path))
    return create(home, accept_plan.parse(data, path), data)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise MachineError(f"'{path}' cannot be read: {error.strerror}") from None

"""A search as it is kept: begun, gone on with, ended. A search that goes on replays what it kept: all that it decides follows from that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

import hotlap
from hotlap.core.errors import Busy, InputError, Interrupted, SchemaError, nearest
from hotlap.core.measure import signals, targets
from hotlap.core.measure.session import choose
from hotlap.core.measure.targets.base import SystemClock
from hotlap.core.record import encode
from hotlap.core.store import bundle as bundles
from hotlap.core.store import files, locks, paths
from hotlap.core.store.log import Log
from hotlap.core.trials.halving import BisectOptions, BisectOutcome, Listener, Search
from hotlap.core.trials.measured import MeasureSetting, Trees
from hotlap.core.trials.tape import Tape, TapeSample

SCHEMA, STATE, TOOK = 2, "state.json", "measurements.jsonl"



class BisectState(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked: `bisect/<name>/state.json`. What was measured since is beside it, a line each of `measurements.jsonl`."""

    schema: int = SCHEMA
    name: str
    hotlap: str = hotlap.__version__
    began: str  # UTC, ISO 8601
    setting: MeasureSetting
    asked: BisectOptions


def begin(setting: MeasureSetting, asked: BisectOptions, home: Path) -> BisectState:
    """A new search, kept. Raises InputError for a target that no program runs on."""
    if setting.target and targets.parse(setting.target).name == "simulated":
        raise InputError("a simulated GPU cannot run programs; leave out --target, or name one whose device is to be held")
    now = datetime.now(UTC)
    state = BisectState(name=bundles.new_id(now), began=now.isoformat(timespec="seconds"), setting=setting, asked=asked)
    paths.create(_folder(home) / state.name)
    files.write_whole(_folder(home) / state.name / STATE, msgspec.json.encode(state))
    return state


def load(name: str, home: Path) -> BisectState:
    """A search by its name or the unique beginning of one; `latest` is the newest. Raises InputError, SchemaError."""
    names = sorted(path.parent.name for path in _folder(home).glob(f"*/{STATE}"))
    found = names[-1:] if name == "latest" else [one for one in names if name and one.startswith(name)]
    if len(found) != 1:
        said = f"'{name}' names {len(found)} searches" if found else f"no search is called '{name}'"
        raise InputError(f"{said}; {nearest(name, [*names, 'latest'])}")
    path = _folder(home) / found[0] / STATE
    try:
        state = msgspec.json.decode(path.read_bytes(), type=BisectState)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SchemaError(f"'{path}' is no search that can be read: {error}") from None
    if state.schema != SCHEMA:
        raise SchemaError(f"'{path}' is of schema {state.schema}, not {SCHEMA}; go on with Hotlap {state.hotlap}, or begin a new search")
    return state


def search(state: BisectState, home: Path, budget_s: float, listen: Listener) -> BisectOutcome:
    """Goes on with a search to its end, the end of the budget, or Ctrl-C; its worktrees are removed in any case.

    Raises Interrupted (everything measured is kept), Busy when another process is at it, InputError and MachineError for good
    and bad that cannot be measured.
    """
    clock = SystemClock()
    until_s = clock.now() + budget_s
    folder = _folder(home) / state.name
    trees = Trees(state.setting, folder, lambda text: listen(text, True))
    with ExitStack() as held:
        held.enter_context(_alone(state, home))
        held.enter_context(signals.as_interrupted())
        held.callback(trees.close)
        log = Log(folder / TOOK)
        held.callback(log.close)
        kept = log.mend(TapeSample).records

        def keep(took: TapeSample) -> None:
            log.append(encode(took) + b"\n", sync=True)
            listen(f"{tape.read + 1} measurements, at {took.commit[:10]}", True)

        tape = Tape(trees, kept, keep, lambda: clock.now() > until_s)
        try:
            return Search(state.asked, tape, listen).run()
        except KeyboardInterrupt:
            raise Interrupted(f"interrupted; everything measured is kept: hotlap history bisect --resume {state.name}") from None


def _folder(home: Path) -> Path:
    return home / "bisect"


@contextmanager
def _alone(state: BisectState, home: Path) -> Iterator[None]:
    """Neither two processes at one search, nor a run at the device meanwhile."""
    with ExitStack() as held:
        file = held.enter_context(open(_folder(home) / state.name / "lock", "a+b"))
        if not locks.take(file):
            raise Busy(f"another process is at the search {state.name}; wait for it to end")
        if state.setting.target:
            held.enter_context(locks.hold(choose(targets.find(targets.parse(state.setting.target)), "")))
        yield



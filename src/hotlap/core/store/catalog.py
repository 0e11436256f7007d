"""An index over the runs of a home, in sqlite3. It holds nothing that is not in a bundle, so it may be lost at any time.

All SQL is here, and what others see is `Catalog`, `Entry` and `Filters`, so that a server's database can stand behind them.
Several processes may use one catalog at once. A file in its place that is none is moved aside and the catalog made anew.
Where it cannot be used (made by a newer version, a read-only or full disk, locked for too long) it is left alone and the runs
are indexed in memory, which is slower. Either way the log says why, and every run is found.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TypedDict, TypeVar, Unpack

import msgspec

from hotlap.core.errors import HotlapError, InputError, MachineError
from hotlap.core.record import RunRecord
from hotlap.core.store import locks, paths, when
from hotlap.core.store.bundle import Bundle, RunHeader, read_listed, target_name
from hotlap.core.store.files import RUN, SAMPLES

NAME = "catalog.sqlite"
VERSION = 6  # 2: what a list shows of a run; 3: its kind and stops, runs of later schemas; 4: tags; 5: models; 6: hosts
APPLICATION = 0x484C4150  # "HLAP": sqlite's application_id, by which a catalog is told from other people's databases
BUSY_S = 10.0

_TABLES = (
    "CREATE TABLE runs (folder TEXT PRIMARY KEY, id TEXT NOT NULL, began_s REAL, stamp TEXT NOT NULL, listed BLOB NOT NULL)",
    "CREATE TABLE tags (folder TEXT NOT NULL REFERENCES runs ON DELETE CASCADE, name TEXT NOT NULL, value TEXT NOT NULL)",
    "CREATE INDEX tags_value ON tags (name, value, folder)",
    "CREATE INDEX tags_folder ON tags (folder)",
)
_log = logging.getLogger(__name__)
T = TypeVar("T")


class Entry(NamedTuple):
    """A run, and where its bundle is. `began_s` counts from 1970 in UTC; None when the bundle says no time."""

    id: str
    path: Path
    began_s: float | None
    listed: RunHeader | None = None  # None for a path that a user gave


class Filters(TypedDict, total=False):
    """What a run must be; all that are given must hold."""

    prefix: str  # its id begins so
    tags: Mapping[str, str]  # a label, or one of workload, device, machine, model, host, target, plan
    since_s: float
    until_s: float  # not included
    newest: int  # of those that fit, so many at most


class Catalog:
    """The index of one home. Close it after use."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._db: sqlite3.Connection | None = None
        self._file = 0  # inode of the file that was opened
        self._unreadable: set[str] = set()

    def find(self, **filters: Unpack[Filters]) -> list[Entry]:
        """Runs in order of time, oldest first. What came to the home or left it is noticed here."""
        query, values = _query(filters)

        def rows(db: sqlite3.Connection) -> list[tuple[str, str, float | None, bytes]]:
            self._sync(db)
            return db.execute(query, values).fetchall()

        once: dict[str, Entry] = {}
        runs, decoder = paths.runs(self._home), msgspec.json.Decoder(RunHeader)
        for id_, folder, began_s, listed in self._do(rows):
            if id_ not in once:
                once[id_] = Entry(id_, runs / folder, began_s, decoder.decode(listed))
        return list(once.values())[-filters.get("newest", len(once)) :] if once else []

    def tags(self) -> dict[str, list[str]]:
        """Every label and fact there is, with its values."""
        found: dict[str, list[str]] = {}
        for name, value in self._do(lambda db: db.execute("SELECT DISTINCT name, value FROM tags ORDER BY name, value").fetchall()):
            found.setdefault(name, []).append(value)
        return found

    def add(self, bundle: Bundle) -> None:
        """Indexes a bundle of this home at once rather than at the next `find`. Raises InputError for one from elsewhere."""
        folder = bundle.path
        if folder.parent != paths.runs(self._home):
            raise InputError(f"'{folder}' is not under {paths.runs(self._home)}; copy it there to have it in the catalog")
        self._do(lambda db: _change(db, [], [(folder.name, _stamp(str(folder)), bundle.run, bundle.listed)]))

    def remove(self, run_id: str) -> None:
        """Takes a run out of the index; while its bundle is in the home the next `find` brings it back."""
        gone = [entry.path.name for entry in self.find(prefix=run_id) if entry.id == run_id]
        self._do(lambda db: _change(db, gone, []))

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    def _sync(self, db: sqlite3.Connection) -> None:
        # What is known is read before the folder is listed: a run that another process adds meanwhile is not taken for one gone.
        known = dict(db.execute("SELECT folder, stamp FROM runs").fetchall())
        here = _stamps(paths.runs(self._home))
        changed = [(name, stamp) for name, stamp in here.items() if known.get(name) != stamp]
        read = [(name, stamp, *seen) for name, stamp in changed if (seen := self._read(name)) is not None]
        good = here.keys() - ({name for name, _ in changed} - {one[0] for one in read})
        gone = sorted(known.keys() - good)
        if gone or read:
            _change(db, gone, read)

    def _read(self, name: str) -> tuple[RunRecord | None, RunHeader] | None:
        try:
            return read_listed(paths.runs(self._home) / name)
        except HotlapError as error:
            if name not in self._unreadable:
                self._unreadable.add(name)
                _log.warning("a run cannot be read and is passed over: %s", error)
            return None

    def _do(self, action: Callable[[sqlite3.Connection], T]) -> T:
        """Acts on the catalog; if that fails on a new one in place of what is none, else on an index in memory."""
        for attempt in (self._open, self._anew):
            try:
                return action(self._db or attempt())
            except (sqlite3.Error, MachineError, OSError) as error:
                self.close()
                failed = error
                if not _is_none(error):
                    break
        _log.warning("the catalog %s is left alone and runs are looked up without it: %s", self._home / NAME, failed)
        self._db = sqlite3.connect(":memory:", isolation_level=None)
        _make(self._db)
        self._sync(self._db)
        return action(self._db)

    def _open(self) -> sqlite3.Connection:
        path = self._home / NAME
        with suppress(FileNotFoundError):
            seen = path.stat()
            self._file = seen.st_ino
            if 0 < seen.st_size < 512 and path.is_file():  # less than a page: sqlite would write over it as if it were empty
                raise _NotOurs("it is too short for a database")
        db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
        try:
            if not _ready(db):
                with locks.within(self._home, "catalog", BUSY_S):  # sqlite's own waiting does not cover the change to WAL
                    if not _ready(db):
                        _make(db)
            db.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            db.close()
            raise
        self._db = db
        return db

    def _anew(self) -> sqlite3.Connection:
        path = self._home / NAME
        with locks.within(self._home, "catalog aside", BUSY_S):
            if path.exists() and path.stat().st_ino == self._file:  # else another process was here first
                aside = f".{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}.aside"
                for part in ("-wal", "-shm", ""):
                    with suppress(FileNotFoundError):
                        os.replace(f"{path}{part}", f"{path}{part}{aside}")
                _log.warning("%s is no catalog that can be read: moved to %s%s, and made anew from the runs", path, path.name, aside)
        return self._open()


class _NotOurs(sqlite3.DatabaseError):
    """A database, but no catalog."""


def _is_none(error: Exception) -> bool:
    """Whether the file is no catalog at all, or a damaged one, rather than one that cannot be used now."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return isinstance(error, _NotOurs) or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _ready(db: sqlite3.Connection) -> bool:
    """False when the tables of this version must still be made. Raises sqlite3.DatabaseError for what is not to be touched."""
    # Tables first: another process may make them between two of these questions, and tables without their name are not ours.
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (application,), (version,) = (db.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version"))
    if application == APPLICATION and version > VERSION:
        raise sqlite3.DatabaseError(f"it is of version {version}, made by a newer Hotlap; this one reads {VERSION}")
    if application != APPLICATION and tables:
        raise _NotOurs("it is a database of something else")
    return bool(application == APPLICATION and version == VERSION)


def _make(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA journal_mode = WAL")
    with _transaction(db):
        for table in ("marks", "tags", "runs"):
            db.execute(f"DROP TABLE IF EXISTS {table}")  # of an older version: made anew, since bundles are the truth
        for statement in (*_TABLES, f"PRAGMA application_id = {APPLICATION}", f"PRAGMA user_version = {VERSION}"):
            db.execute(statement)
    db.execute("PRAGMA foreign_keys = ON")


@contextmanager
def _transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise


def _change(db: sqlite3.Connection, gone: list[str], came: list[tuple[str, str, RunRecord | None, RunHeader]]) -> None:
    with _transaction(db):
        db.executemany("DELETE FROM runs WHERE folder = ?", [(name,) for name in gone])
        for name, stamp, run, listed in came:
            db.execute("DELETE FROM runs WHERE folder = ?", (name,))
            row = (name, listed.id, when.seconds(listed.began), stamp, msgspec.json.encode(listed))
            db.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?)", row)
            tags = _tags(run) if run else {("kind", listed.kind)}
            db.executemany("INSERT INTO tags VALUES (?, ?, ?)", [(name, *tag) for tag in sorted(tags)])


def _tags(run: RunRecord) -> set[tuple[str, str]]:
    """What a run can be found by, beside its id and time."""
    devices = [d for d in run.machine.devices if d.key in run.devices]
    found = {("host", run.machine.host), ("plan", run.plan.name), ("target", run.target), ("target", target_name(run.target))}
    found |= {("kind", run.kind)}
    found |= {("workload", case.workload) for case in run.plan.cases}
    found |= {("device", name) for d in devices for name in (d.key, d.name)} | {("device", key) for key in run.devices}
    found |= {(name, value) for d in devices for name, value in (("machine", d.machine), ("model", d.name))}
    return {tag for tag in found | set(run.labels.items()) if tag[1]}


def _query(filters: Filters) -> tuple[str, list[str | float]]:
    tests: list[tuple[str, list[str | float]]] = []
    if prefix := filters.get("prefix"):
        tests.append(("lower(substr(id, 1, length(?))) = lower(?)", [prefix, prefix]))
    for name, value in filters.get("tags", {}).items():
        tests.append(("folder IN (SELECT folder FROM tags WHERE name = ? AND value = ?)", [name, value]))
    if "since_s" in filters:
        tests.append(("began_s >= ?", [filters["since_s"]]))
    if "until_s" in filters:
        tests.append(("began_s < ?", [filters["until_s"]]))
    where = " AND ".join(["TRUE", *(text for text, _ in tests)])
    # Of copies that bear one id, the folder of that name comes first.
    order = "began_s, id, folder <> id, folder"
    return f"SELECT id, folder, began_s, listed FROM runs WHERE {where} ORDER BY {order}", [v for _, values in tests for v in values]


def _stamps(folder: Path) -> dict[str, str]:
    """The bundles in a folder, each with a stamp that changes when its run.json or the size of its samples does."""
    stamps: dict[str, str] = {}
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return stamps
    except OSError as error:
        raise MachineError(f"the runs in '{folder}' cannot be listed: {error.strerror}") from None
    for name in names:
        if name.startswith("."):
            continue  # a run that is being made, or whose process was killed while it made it
        with suppress(OSError, UnicodeEncodeError):  # no run.json yet, or a name that is no text
            name.encode()
            stamps[name] = _stamp(f"{folder}{os.sep}{name}")
    return stamps


def _stamp(folder: str) -> str:
    seen, samples = os.stat(f"{folder}{os.sep}{RUN}"), 0
    with suppress(FileNotFoundError):
        samples = os.stat(f"{folder}{os.sep}{SAMPLES}").st_size
    return f"{seen.st_mtime_ns}:{seen.st_size}:{seen.st_ino}:{samples}"

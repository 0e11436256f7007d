"""rocpd: the SQLite database that rocprofv3 writes by default from ROCm 7 on, schema 3 (times in the rows) and 4 (times in a table).

Format: ROCm/rocm-systems projects/rocprofiler-sdk/source/share/rocprofiler-sdk-rocpd (rocpd_tables.sql). Every table's name ends
in an id of the run and a view of the plain name stands before it; several runs in one file are several such sets.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from hotlap.core.errors import InputError
from hotlap.traces import events as ev
from hotlap.traces.building import Builder
from hotlap.traces.events import Head
from hotlap.traces.readers.database import MAGIC, Database
from hotlap.traces.readers.filling import Filling, Numbers, places
from hotlap.traces.readers.rocm import copied, launch

NAME = "rocpd"
ABOUT = "rocpd (SQLite of rocprofv3)"

KERNELS, COPIES, REGIONS = "rocpd_kernel_dispatch", "rocpd_memory_copy", "rocpd_region"
SIZES = ("grid_size_x", "grid_size_y", "grid_size_z", "workgroup_size_x", "workgroup_size_y", "workgroup_size_z")
_NAMED = re.compile(r"(rocpd_[a-z_]+?)(_[0-9a-f]{8}[0-9a-f_]*)?$")


def sniff(path: Path, head: bytes) -> bool:
    """A SQLite database with tables of that name; the statements that made them may stand beyond the beginning."""
    if not head.startswith(MAGIC):
        return False
    if b"rocpd_" in head:
        return True
    try:
        with Database(path) as database:
            return any(one.startswith("rocpd_") for one in database.tables)
    except InputError:
        return False


def read(path: Path, into: Builder) -> Head:
    """Adds the events of one database."""
    with Database(path) as database:
        runs: dict[str, dict[str, str]] = {}
        for table in database.tables:
            if found := _NAMED.match(table):
                runs.setdefault(found[2] or "", {})[found[1]] = table
        if len(runs) > 1:
            runs.pop("", None)  # views of the others
        work = [_Run(database, into, tables) for tables in runs.values() if {KERNELS, COPIES, REGIONS} & set(tables)]
        if not work:
            raise InputError(
                f"'{path}' is a rocpd database without any of the tables {KERNELS}, {COPIES}, {REGIONS}; record with rocprofv3 --sys-trace"
            )
        fill = Filling(into)
        for run in work:
            run.read(fill)
        said = [row for run in work for row in run.small("rocpd_metadata", "tag", "value") if row["tag"] == "schema_version"]
        facts = {"schema_version": str(said[0].get("value"))} if said else {}
        return fill.head(path, NAME, facts=facts, devices=[one for run in work for one in run.devices])


class _Run:
    """The tables of one run."""

    def __init__(self, database: Database, into: Builder, tables: dict[str, str]) -> None:
        self.database, self.into, self.tables = database, into, tables
        agents = self.small("rocpd_info_agent", "id", "type", "logical_index", "type_index", "absolute_index", "name", "product_name")
        self.agents = {a["id"]: _index(a) for a in agents if str(a.get("type")).upper() == "GPU"}
        self.devices = [{"id": _index(a), "name": str(a.get("product_name") or a.get("name"))} for a in agents if a["id"] in self.agents]
        self.kernels = {a["id"]: str(a.get("display_name") or a.get("kernel_name")) for a in
                        self.small("rocpd_info_kernel_symbol", "id", "display_name", "kernel_name")}  # fmt: skip
        self.processes = {a["id"]: a.get("pid") for a in self.small("rocpd_info_process", "id", "pid")}
        self.host_threads = {a["id"]: a for a in self.small("rocpd_info_thread", "id", "pid", "tid", "name")}
        self.tracks = {a["id"]: a for a in self.small("rocpd_track", "id", "pid", "tid", "agent_id", "queue_id", "stream_id")}
        self.strings: dict[int, str] = {}

    def small(self, table: str, *columns: str) -> list[dict[str, Any]]:
        """Rows of a small table, if there is one with an id or tag."""
        name = self.tables.get(table)
        return self.database.rows(name, columns, 1 << 20) if name and self.database.has(name, columns[0]) else []

    def read(self, fill: Filling) -> None:
        for table, add in ((REGIONS, self._regions), (KERNELS, self._kernels), (COPIES, self._copies)):
            if (name := self.tables.get(table)) is None:
                continue
            columns = ("start", "end", "start_id", "end_id", "track_id", "agent_id", "queue_id", "stream_id", "pid", "tid", "kernel_id",
                       "name_id", "size", "dst_agent_id", "src_agent_id", "group_segment_size", "event_id", *SIZES)  # fmt: skip
            for n, _ in self.database.blocks(name, columns):
                start, end = n["start"], n["end"]
                if not self.database.has(name, "start"):
                    start, end = self._times(n["start_id"]), self._times(n["end_id"])
                add(fill, start, end, n)

    def _times(self, ids: Numbers) -> Numbers:
        """Times of schema 4, by their ids; −1 where there is none."""
        table = self.tables.get("rocpd_timestamp")
        if table is None or not len(ids):
            return np.full(len(ids), -1)
        known = [np.empty((0, 2), np.int64)]
        for n, _ in self.database.blocks(table, ("id", "value")):
            keep = np.isin(n["id"], ids)
            known.append(np.stack([n["id"][keep], n["value"][keep]], 1))
        pairs = np.concatenate(known)
        pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
        if not len(pairs):
            return np.full(len(ids), -1)
        at = np.minimum(np.searchsorted(pairs[:, 0], ids), len(pairs) - 1)
        return np.where(pairs[at, 0] == ids, pairs[at, 1], -1)

    def _of_track(self, n: dict[str, Numbers], column: str) -> Numbers:
        """A column that schema 4 keeps in the row's track."""
        if not self.tracks or not (n["track_id"] >= 0).any():
            return n[column]
        tracked = np.fromiter((_int(self.tracks.get(t, {}).get(column)) for t in n["track_id"].tolist()), np.int64, len(n[column]))
        return np.where(n[column] >= 0, n[column], tracked)

    def _agent(self, ids: Numbers) -> Numbers:
        return np.fromiter((self.agents.get(one, -1) for one in ids.tolist()), np.int64, len(ids))

    def _correlation(self, n: dict[str, Numbers]) -> Numbers:
        """The stack id of the row's event: a call and what it started share it."""
        table = self.tables.get("rocpd_event")
        if table is None or not self.database.has(table, "stack_id") or "correlation" not in self.into.columns:
            return np.full(len(n["event_id"]), -1)
        if not hasattr(self, "stacks"):
            pairs = [(b["id"], b["stack_id"]) for b, _ in self.database.blocks(table, ("id", "stack_id"))]
            ids = np.concatenate([one for one, _ in pairs] or [np.empty(0, np.int64)])
            order = np.argsort(ids, kind="stable")
            self.stacks = ids[order], np.concatenate([one for _, one in pairs] or [np.empty(0, np.int64)])[order]
        ids, stacks = self.stacks
        if not len(ids):
            return np.full(len(n["event_id"]), -1)
        at = np.minimum(np.searchsorted(ids, n["event_id"]), len(ids) - 1)
        return np.where((ids[at] == n["event_id"]) & (stacks[at] > 0), stacks[at], -1)

    def _kernels(self, fill: Filling, start: Numbers, end: Numbers, n: dict[str, Numbers]) -> None:
        count, keys = len(start), zip(*(n[one].tolist() for one in SIZES), n["group_segment_size"].tolist(), strict=True)
        stream = self._of_track(n, "stream_id")
        fill.add(
            start, end, kind=ev.KERNEL,
            name=places(self.into.names, (self.kernels.get(k, f"kernel {k}") for k in n["kernel_id"].tolist()), count),
            device=self._agent(self._of_track(n, "agent_id")), stream=np.where(stream >= 0, stream, self._of_track(n, "queue_id")),
            correlation=self._correlation(n),
            launch=places(self.into.launches, (launch(row[:3], row[3:6], -1, row[6]) for row in keys), count),
        )  # fmt: skip

    def _copies(self, fill: Filling, start: Numbers, end: Numbers, n: dict[str, Numbers]) -> None:
        names = (copied(self._string(k)) for k in n["name_id"].tolist())
        fill.add(
            start, end, kind=ev.COPY, name=places(self.into.names, names, len(start)),
            device=np.maximum(self._agent(n["dst_agent_id"]), self._agent(n["src_agent_id"])),
            stream=np.maximum(self._of_track(n, "stream_id"), 0), bytes=n["size"], correlation=self._correlation(n),
        )  # fmt: skip

    def _regions(self, fill: Filling, start: Numbers, end: Numbers, n: dict[str, Numbers]) -> None:
        names = [self._string(k) for k in n["name_id"].tolist()]
        calls = np.array([one.startswith(("hip", "hsa_", "nccl", "rccl")) for one in names], bool)
        threads = zip(self._of_track(n, "pid").tolist(), self._of_track(n, "tid").tolist(), strict=True)
        keys = ((str(self.processes.get(p, p)), str(self.host_threads.get(t, {}).get("tid", t))) for p, t in threads)
        fill.add(
            start, end, kind=np.where(calls, ev.RUNTIME, ev.MARKER), name=places(self.into.names, names, len(names)),
            thread=places(self.into.threads, keys, len(names)), correlation=self._correlation(n),
        )  # fmt: skip

    def _string(self, number: int) -> str:
        if number not in self.strings:
            table = self.tables.get("rocpd_string")
            row = (
                self.database.row(f'SELECT string FROM "{table}" WHERE id = ?', number)
                if table and self.database.has(table, "id", "string")
                else None
            )
            self.strings[number] = str(row[0]) if row and row[0] is not None else f"unnamed {number}"
        return self.strings[number]


def _int(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def _index(agent: dict[str, Any]) -> int:
    """A GPU's number among GPUs where it is known."""
    return next((agent[key] for key in ("type_index", "logical_index", "absolute_index") if isinstance(agent.get(key), int)), 0)

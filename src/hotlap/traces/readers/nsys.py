"""Nsight Systems: the SQLite database of `nsys export --type sqlite`, of any version, by what tables and columns it has.

Format: docs.nvidia.com/nsight-systems/UserGuide, "SQLite Schema Reference". Tables are created when there is something to put in.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.core.errors import InputError
from hotlap.traces import events as ev
from hotlap.traces.building import Builder
from hotlap.traces.events import Half, Head
from hotlap.traces.readers.database import MAGIC, Database
from hotlap.traces.readers.filling import FAR, Filling, Numbers, places

NAME = "nsys"
ABOUT = "Nsight Systems (SQLite of 'nsys export')"

KERNELS = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL")
COPIES, SETS, SYNCS = "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
GRAPHS, MARKERS, MEMORY = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "NVTX_EVENTS", "CUDA_GPU_MEMORY_USAGE_EVENTS"
CALLS = {  # of a host thread, named by nameId or textId
    "CUPTI_ACTIVITY_KIND_RUNTIME": ev.RUNTIME, "CUPTI_ACTIVITY_KIND_DRIVER": ev.RUNTIME, "CUDNN_EVENTS": ev.OPERATOR,
    "CUBLAS_EVENTS": ev.OPERATOR, "PROFILER_OVERHEAD": ev.OVERHEAD, "OSRT_API": ev.OTHER, "MPI_COLLECTIVES_EVENTS": ev.OTHER,
    "MPI_P2P_EVENTS": ev.OTHER, "MPI_START_WAIT_EVENTS": ev.OTHER, "MPI_OTHER_EVENTS": ev.OTHER,
}  # fmt: skip
KNOWN = (*KERNELS, COPIES, SETS, SYNCS, GRAPHS, MARKERS, MEMORY, *CALLS)
DEVICE = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid", "bytes")
DIRECTIONS = dict(enumerate(["HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"], 1))
DIRECTIONS |= {11: "HtoD, managed", 12: "DtoH, managed", 13: "DtoD, managed"}
MEMORIES = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device", 6: "Managed"}
WAITS = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
MARK, PUSH_POP, START_END, DOMAIN = 34, 59, 60, 75
SHAPE = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread", "staticSharedMemory", "dynamicSharedMemory")
STRADDLING = 64  # rows remembered from one block of a table to the next
_VERSION = re.compile(r"_v\d{4,5}(_ptsz|_ptds)?$")


def sniff(path: Path, head: bytes) -> bool:
    """Any SQLite database that no other reader takes; `read` names the tables that it misses."""
    return head.startswith(MAGIC)


def read(path: Path, into: Builder) -> Head:
    """Adds the events of one database."""
    with Database(path) as database:
        there = [one for one in KNOWN if database.has(one, "start")]
        if not there:
            raise InputError(
                f"'{path}' is a SQLite database but no export of Nsight Systems: it has none of the tables {KERNELS[0]}, {COPIES}, "
                f"CUPTI_ACTIVITY_KIND_RUNTIME, {MARKERS}, OSRT_API and the like; make one with: nsys export --type sqlite REPORT.nsys-rep"
            )
        work = _Reading(database, into, _origin(database, there))
        work.all(there)
        return _head(path, database, work)


def _origin(database: Database, tables: list[str]) -> int | None:
    """The earliest start in ns of all that will be read."""
    near = f"typeof(start) = 'integer' AND start > {-FAR} AND start < {FAR}"
    timed = f"eventType IN ({MARK}, {PUSH_POP}, {START_END})" if database.has(MARKERS, "eventType") else "1"
    found = [database.row(f'SELECT MIN(start) FROM "{one}" WHERE {near} AND {timed if one == MARKERS else 1}') for one in tables]
    starts = [row[0] for row in found if row and isinstance(row[0], int)]
    return min(starts) if starts else None


class _Reading:
    def __init__(self, database: Database, into: Builder, origin_ns: int | None) -> None:
        self.database, self.into = database, into
        self.fill = Filling(into, origin_ns)
        self.halves: list[Half] = []
        self.strings: dict[int, str] = {}
        self.processes: dict[int, int] = {}
        self.in_graphs = 0

    def all(self, tables: list[str]) -> None:
        for table in tables:
            if table in KERNELS:
                self.kernels(table)
            elif table in CALLS:
                self.calls(table, CALLS[table])
        for table, read_it in ((COPIES, self.copies), (SETS, self.sets), (GRAPHS, self.graphs), (SYNCS, self.syncs),
                               (MARKERS, self.markers),
                               (MEMORY, self.memory)):  # fmt: skip
            if table in tables:
                read_it()
        self._thread_names()

    # ---- texts and places

    def string(self, number: int) -> str:
        """A text of StringIds."""
        if number not in self.strings:
            row = (
                self.database.row("SELECT value FROM StringIds WHERE id = ?", number)
                if self.database.has("StringIds", "id", "value")
                else None
            )
            self.strings[number] = str(row[0]) if row and row[0] is not None else f"unnamed {number}"
        return self.strings[number]

    def named(self, numbers: Numbers, texts: Any = None, prefix: Any = None) -> Numbers:
        """Places in `names` of texts that stand in the row or, by their number, in StringIds."""
        if texts is not None and any(one is not None for one in texts):
            keys = [one if one is not None else self.string(n) for one, n in zip(texts, numbers.tolist(), strict=True)]
            return places(self.into.names, map(_plain, keys), len(numbers))
        unique, back = np.unique(numbers, return_inverse=True)
        return places(self.into.names, (_plain(self.string(n)) for n in unique.tolist()), len(unique))[back]

    def labelled(self, codes: Numbers, label: Any) -> Numbers:
        """Places in `names` of what `label` makes of whole numbers."""
        unique, back = np.unique(codes, return_inverse=True)
        return places(self.into.names, map(label, unique.tolist()), len(unique))[back]

    def threads(self, globals_: Numbers) -> Numbers:
        """Places in `threads` of serialised global thread ids."""
        unique, back = np.unique(globals_, return_inverse=True)
        keys = [(str(one >> 24 & 0xFFFFFF), str(one & 0xFFFFFF)) if one >= 0 else ("", "") for one in unique.tolist()]
        found: Numbers = places(self.into.threads, keys, len(keys))[back]
        return found

    def correlations(self, numbers: Numbers, globals_: Numbers) -> Numbers:
        """Correlation ids made unique across processes: each process counts its own."""
        unique, back = np.unique(np.where(globals_ >= 0, globals_ >> 24 & 0xFFFFFF, -1), return_inverse=True)
        process = np.array([self.processes.setdefault(one, len(self.processes)) if one >= 0 else 0 for one in unique.tolist()], np.int64)[
            back
        ]
        return np.where((numbers < 0) | (numbers >= 1 << 32), -1, numbers + (process << 32))

    # ---- tables

    def _device(self, n: dict[str, Numbers]) -> dict[str, Numbers]:
        return {
            "device": n["deviceId"], "stream": n["streamId"], "correlation": self.correlations(n["correlationId"], n["globalPid"]),
            "bytes": n["bytes"],
        }  # fmt: skip

    def kernels(self, table: str) -> None:
        column = self.database.first(table, "demangledName", "shortName", "mangledName", "nameId", "name") or "name"
        graph = self.database.first(table, "graphNodeId", "graphId")
        numbers = (*DEVICE, *SHAPE, *((graph,) if graph else ()), *((column,) if column else ()))
        for n, t in self.database.blocks(table, numbers, (column,)):
            if graph:
                self.in_graphs += int((n[graph] > 0).sum())
            self.fill.add(
                n["start"], n["end"], kind=ev.KERNEL, name=self.named(n[column], t[column]), launch=self.launches(n), **self._device(n)
            )

    def launches(self, n: dict[str, Numbers]) -> Numbers | int:
        """Places in `launches`."""
        if "launch" not in self.into.columns:
            return -1
        unique, back = np.unique(np.stack([n[one] for one in SHAPE], 1), axis=0, return_inverse=True)
        keys = [
            (tuple(row[:3]), tuple(row[3:6]), row[6], max(row[7], 0) + max(row[8], 0) if max(row[7:9]) >= 0 else -1, -1.0)
            for row in unique.tolist()
        ]
        found = np.array([self.into.launches[one] if max(one[0]) > 0 else -1 for one in keys], np.int64)
        return found[back.reshape(-1)]

    def copies(self) -> None:
        for n, _ in self.database.blocks(COPIES, (*DEVICE, "copyKind", "srcKind", "dstKind")):
            code = np.clip(n["copyKind"], 0, 99) * 10_000 + np.clip(n["srcKind"], -1, 97) * 100 + 100 + np.clip(n["dstKind"], -1, 97) + 1
            self.fill.add(n["start"], n["end"], kind=ev.COPY, name=self.labelled(code, _copy), **self._device(n))

    def sets(self) -> None:
        for n, _ in self.database.blocks(SETS, (*DEVICE, "memKind")):
            name = self.labelled(n["memKind"], lambda kind: f"Memset ({MEMORIES.get(kind, 'Unknown')})")
            self.fill.add(n["start"], n["end"], kind=ev.SET, name=name, **self._device(n))

    def graphs(self) -> None:
        for n, _ in self.database.blocks(GRAPHS, (*DEVICE, "graphId")):
            name = self.labelled(n["graphId"], lambda graph: f"CUDA graph {graph}")
            self.fill.add(n["start"], n["end"], kind=ev.KERNEL, name=name, **self._device(n))
            self.into.notice("whole_graphs", "CUDA graphs were recorded as a whole: their kernels are not known", len(n["start"]))

    def syncs(self) -> None:
        for n, _ in self.database.blocks(SYNCS, (*DEVICE, "syncType")):
            name = self.labelled(n["syncType"], lambda kind: WAITS.get(kind, "Sync"))
            stream = np.where(n["streamId"] > 0x7FFFFFFF, -1, n["streamId"])  # of a whole context
            self.fill.add(n["start"], n["end"], kind=ev.SYNC, name=name, **self._device(n) | {"stream": stream})

    def calls(self, table: str, kind: int) -> None:
        column = self.database.first(table, "nameId", "textId", "name") or "nameId"
        tail: list[Numbers] = []
        for n, t in self.database.blocks(table, ("start", "end", "globalTid", "correlationId", column), (column,)):
            name = self.named(n[column], t[column])
            rows = [n["start"], n["end"], n["globalTid"], n["correlationId"], name]
            kept = np.ones(len(name), bool)
            if kind == ev.RUNTIME:
                joined = [np.concatenate(pair) for pair in zip(tail, rows, strict=True)] if tail else rows
                kept = once(*joined)[len(joined[0]) - len(name) :]
                tail = [one[-STRADDLING:] for one in joined]
            self.fill.add(
                n["start"][kept], n["end"][kept], kind=kind, name=name[kept], thread=self.threads(n["globalTid"])[kept],
                correlation=self.correlations(n["correlationId"], n["globalTid"])[kept],
            )  # fmt: skip

    def markers(self) -> None:
        domains = {row["domainId"]: row["text"] for row in self.domains()}
        numbers = ("start", "end", "eventType", "textId", "globalTid", "endGlobalTid", "domainId")
        for n, t in self.database.blocks(MARKERS, numbers, ("text",)):
            kind = n["eventType"]
            for wanted in (np.isin(kind, (PUSH_POP, START_END)), kind == MARK):
                at = np.flatnonzero(wanted)
                if not len(at):
                    continue
                mark = kind[at[0]] == MARK
                end = n["start"][at] if mark else n["end"][at]
                if (left := (end < 0) & (n["start"][at] >= 0)).any():
                    self.into.notice("half_range", "markers that were opened and not closed were skipped", int(left.sum()))
                    self._left_open(n, t, at[left], domains)
                    at, end = at[~left], end[~left]
                keys = []
                for i in at.tolist():
                    text, domain = t["text"][i], domains.get(int(n["domainId"][i]))
                    text = text if text is not None else self.string(int(n["textId"][i]))
                    keys.append(f"{domain}:{text}" if domain else text)
                self.fill.add(
                    n["start"][at], end, kind=ev.OTHER if mark else ev.MARKER, name=places(self.into.names, keys, len(keys)),
                    thread=self.threads(n["globalTid"][at]),
                )  # fmt: skip
                elsewhere = (n["endGlobalTid"][at] >= 0) & (n["endGlobalTid"][at] != n["globalTid"][at])
                self.into.notice("other_thread", "markers were closed by another thread than opened them", int(elsewhere.sum()))

    def _left_open(self, n: dict[str, Numbers], t: dict[str, list[str | None]], at: Numbers, domains: dict[int, str]) -> None:
        """Keeps where markers were opened that nothing closed."""
        at = at[: ev.MOST_HALVES - len(self.halves)]
        threads = list(self.into.threads)
        for i, thread in zip(at.tolist(), self.threads(n["globalTid"][at]).tolist(), strict=True):
            threads = threads if thread < len(threads) else list(self.into.threads)
            text = t["text"][i]
            name = text if text is not None else self.string(int(n["textId"][i]))
            since = int(n["start"][i]) - (self.fill.origin_ns or 0)
            place = "/".join(map(str, threads[thread]))
            self.halves.append(Half(what="begin", name=name, start_ns=since, thread=place, domain=domains.get(int(n["domainId"][i]), "")))

    def domains(self) -> list[dict[str, Any]]:
        """Names of NVTX domains."""
        found = []
        for n, t in self.database.blocks(MARKERS, ("eventType", "domainId", "textId"), ("text",)):
            for i in np.flatnonzero(n["eventType"] == DOMAIN).tolist():
                text = t["text"][i] if t["text"][i] is not None else self.string(int(n["textId"][i]))
                found.append({"domainId": int(n["domainId"][i]), "text": text})
        return found

    def memory(self) -> None:
        for n, _ in self.database.blocks(MEMORY, (*DEVICE, "memoryOperationType")):
            change = np.where(n["memoryOperationType"] == 1, -n["bytes"], n["bytes"])
            name = np.full(len(change), self.into.names["[memory]"])
            self.fill.add(n["start"], n["start"], kind=ev.MEMORY, name=name, **self._device(n) | {"bytes": change})

    def _thread_names(self) -> None:
        for row in self.database.rows("ThreadNames", ("nameId", "globalTid")):
            if isinstance(one := row.get("globalTid"), int) and isinstance(row.get("nameId"), int):
                self.into.thread_names[str(one >> 24 & 0xFFFFFF), str(one & 0xFFFFFF)] = self.string(row["nameId"])


def _copy(code: int) -> str:
    kind, source, target = code // 10_000, code // 100 % 100 - 1, code % 100 - 1
    where = f" ({MEMORIES.get(source, 'Unknown')} -> {MEMORIES.get(target, 'Unknown')})" if source >= 0 or target >= 0 else ""
    return f"Memcpy {DIRECTIONS.get(kind, 'of unknown direction')}{where}"


def _plain(name: str) -> str:
    """Calls of CUDA without the version that Nsight Systems adds: cudaLaunchKernel_v7000."""
    return _VERSION.sub("", name) if name.startswith("cu") else name


def once(start: Numbers, end: Numbers, thread: Numbers, correlation: Numbers, name: Numbers) -> NDArray[np.bool_]:
    """Which rows stay where one call stands twice, as cudaMemcpy and within it as cudaMemcpy_v3020 of the same thread and number.

    The outer of two stays. Names are places, without the version.
    """
    order = np.lexsort((-end, start, correlation, name, thread))
    same = np.ones(max(len(order) - 1, 0), bool)
    for column in (thread, name, correlation):
        same &= column[order[1:]] == column[order[:-1]]
    same &= (correlation[order[1:]] > 0) & (end[order[1:]] <= end[order[:-1]])
    kept = np.ones(len(order), bool)
    kept[order[1:][same]] = False
    return kept


def _head(path: Path, database: Database, work: _Reading) -> Head:
    head: dict[str, Any] = {}
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA", "META_DATA_CAPTURE"):
        for row in database.rows(table, ("name", "value"), 500):
            if row.get("name") in ("EXPORT_SCHEMA_VERSION", "EXPORT_PRODUCT_VERSION", "EXPORT_TIME_UTC"):
                head[str(row["name"]).lower()] = str(row.get("value"))
    if work.in_graphs:
        head["kernels_in_graphs"] = work.in_graphs
    if len(work.processes) > 1:
        head["processes"] = len(work.processes)
        seen = "several processes use the device: streams of equal number are of different processes"
        work.into.notice("several_processes", seen, len(work.processes))
    ranks = database.rows("MPI_RANKS", ("rank",), 2)
    began = database.rows("TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",), 1)
    epoch = began[0]["utcEpochNs"] if began else None
    return work.fill.head(
        path, NAME, facts=head, rank=ranks[0]["rank"] if len(ranks) == 1 and isinstance(ranks[0]["rank"], int) else None,
        halves=work.halves,
        unix_ns=epoch + (work.fill.origin_ns or 0) if isinstance(epoch, int) and epoch > 10**15 else None,
        devices=[{key: value for key, value in row.items() if value is not None} for row in database.rows(
            "TARGET_INFO_GPU", ("id", "name", "smCount", "totalMemory", "memoryBandwidth", "clockRate", "l2CacheSize", "computeMajor",
                                "computeMinor", "uuid", "busLocation"), 64)],
    )  # fmt: skip

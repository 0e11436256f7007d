"""rocprofv3: its JSON, and its CSV files by table; the file of kernels takes those beside it along.

Format: rocm.docs.amd.com/projects/rocprofiler-sdk, "Using rocprofv3", output file fields.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from hotlap.core.errors import InputError
from hotlap.traces import events as ev
from hotlap.traces.building import Builder
from hotlap.traces.events import Head
from hotlap.traces.readers import packed, rocprof_json
from hotlap.traces.readers.filling import Filling, lines, places, whole
from hotlap.traces.readers.rocm import copied, launch, small

NAME = "rocprof"
ABOUT = "rocprofv3 (JSON, or CSV with its kernel_trace.csv)"

ROWS = 1 << 16
KEY = b'"rocprofiler-sdk-tool"'
TABLES = (  # how a CSV file's name ends; calls first, because what they start comes after
    "marker_api_trace", "hip_api_trace", "hsa_api_trace", "rccl_api_trace", "kernel_trace", "memory_copy_trace",
)  # fmt: skip
_TABLE = re.compile(rf"({'|'.join(TABLES)})\.csv$")


def sniff(path: Path, head: bytes) -> bool:
    """JSON of the tool, or a CSV file with both times and a kind or domain."""
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") and KEY in head[:4096]:
        return True
    line = head.partition(b"\n")[0]
    return b"Start_Timestamp" in line and b"End_Timestamp" in line and (b"Kind" in line or b"Domain" in line)


def read(path: Path, into: Builder) -> Head:
    """Adds the events of one JSON file, or of one CSV file; of kernels: with the other tables of the same run."""
    if packed.head(path, 4096).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return rocprof_json.read(path, into, NAME)
    fill, took = Filling(into), []
    for one in _together(path):
        _Csv(one, fill).read()
        took.append(one.name)
    return fill.head(path, NAME, facts={"files": ", ".join(took)} if len(took) > 1 else {})


# ---- CSV


def _together(path: Path) -> list[Path]:
    """A file of kernels with the tables beside it whose names begin alike; any other file alone."""
    found = _TABLE.search(path.name)
    if found is None or found[1] != "kernel_trace":
        return [path]
    begin = path.name[: found.start()]
    beside = [path.with_name(f"{begin}{table}.csv") for table in TABLES]
    return [one for one in beside if one == path or (one.is_file() and one.stat().st_size)]


class _Csv:
    """One table; columns are found by their names, in any order."""

    def __init__(self, path: Path, fill: Filling) -> None:
        self.path, self.fill, self.into = path, fill, fill.into

    def read(self) -> None:
        rows = csv.reader(lines(self.path, packed.blocks(self.path)))
        try:
            header = next(rows, [])
            at = {name.strip(): place for place, name in enumerate(header)}
            if "Start_Timestamp" not in at or "End_Timestamp" not in at:
                raise InputError(
                    f"'{self.path}' has no columns Start_Timestamp and End_Timestamp in its first line; "
                    f"it has: {' '.join(', '.join(header).split())[:200]}"
                )
            while block := list(islice(rows, ROWS)):
                good = [row for row in block if len(row) == len(header)]
                self.into.notice("broken_lines", "lines with another number of values than the header were skipped", len(block) - len(good))
                if good:
                    self._block(dict(zip(at, zip(*good, strict=True), strict=False)) if len(at) == len(header) else _columns(good, at))
        except csv.Error as error:
            raise InputError(f"'{self.path}' cannot be read as CSV: {error}") from None

    def _block(self, given: dict[str, Any]) -> None:
        count = len(given["Start_Timestamp"])

        def numbers(name: str, read: Callable[[Any], int] = whole) -> Any:
            return np.fromiter(map(read, given[name]), np.int64, count) if name in given else np.full(count, -1)

        common = {"correlation": numbers("Correlation_Id")}
        start, end = numbers("Start_Timestamp"), numbers("End_Timestamp")
        if "Kernel_Name" in given:
            stream = "Stream_Id" if "Stream_Id" in given else "Queue_Id"
            self.fill.add(
                start, end, kind=ev.KERNEL, name=places(self.into.names, given["Kernel_Name"], count),
                device=numbers("Agent_Id", _agent), stream=small(numbers(stream)), launch=self._launches(given, count), **common,
            )  # fmt: skip
        elif "Direction" in given:
            device = np.maximum(numbers("Source_Agent_Id", _agent), numbers("Destination_Agent_Id", _agent))
            self.fill.add(
                start, end, kind=ev.COPY, name=places(self.into.names, map(copied, given["Direction"]), count), device=device,
                stream=small(numbers("Stream_Id")) if "Stream_Id" in given else 0, **common,
            )  # fmt: skip
        else:
            domain = str(given.get("Domain", given.get("Kind", [""]))[0])
            threads = zip(given.get("Process_Id", [""] * count), given.get("Thread_Id", [""] * count), strict=True)
            self.fill.add(
                start, end, kind=ev.MARKER if domain.startswith("MARKER") else ev.RUNTIME,
                name=places(self.into.names, given.get("Function", given.get("Name", ["unnamed"] * count)), count),
                thread=places(self.into.threads, threads, count), **common,
            )  # fmt: skip

    def _launches(self, given: dict[str, Any], count: int) -> Any:
        names = [f"{what}_{axis}" for what in ("Grid_Size", "Workgroup_Size") for axis in "XYZ"]
        if not all(name in given for name in names) or "launch" not in self.into.columns:
            return -1
        shared = given.get("LDS_Block_Size", given.get("Group_Segment_Size", ["-1"] * count))
        registers = given.get("VGPR_Count", ["-1"] * count)
        rows = zip(*(given[n] for n in names), registers, shared, strict=True)
        return places(self.into.launches, (launch(row[:3], row[3:6], *row[6:]) for row in rows), count)


def _columns(rows: list[list[str]], at: dict[str, int]) -> dict[str, Any]:
    return {name: [row[place] for row in rows] for name, place in at.items()}


def _agent(value: str) -> int:
    """1 and "Agent 1" are both number 1."""
    return whole(str(value).removeprefix("Agent").strip())

"""Nsight Compute's `ncu --csv`: the details page (a line per metric) and the raw page (a line per kernel, units in the second).

Format: docs.nvidia.com/nsight-compute/NsightComputeCli, "Command Line Options", --csv, --page; lines of the program that was
profiled and those that begin with ==PROF== may stand before, between and behind.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from hotlap.core.errors import InputError
from hotlap.core.record import Notice
from hotlap.traces.counters import metrics, numbers
from hotlap.traces.counters.kernel import CountedKernel, KernelProfile, Remark, Three, three, whole
from hotlap.traces.counters.loading import load
from hotlap.traces.counters.numbers import Style

NAME = "ncu-csv"
ABOUT = "Nsight Compute (ncu --csv, details or raw page)"
MOST_BYTES = 256 << 20  # of a file: it is read into memory
ABOUT_KERNEL = {
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size", "Device", "CC",
    "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg", "Kernel Time",
    "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",
}  # fmt: skip
_HEADER = re.compile(r'^\ufeff?"?ID"?[,;]"?Process ID"?[,;]')
Row = dict[str, str]


def sniff(path: Path, head: bytes) -> bool:
    """The heading of such a table somewhere in the beginning; other lines may stand before it."""
    return any(_HEADER.match(line) and "Kernel Name" in line for line in head.decode("utf-8-sig", "replace").splitlines())


def read(path: Path) -> KernelProfile:
    """The kernels of one file. Raises InputError where there are none."""
    rows, units, broken = _rows(path)
    notices = [Notice("broken_lines", "lines that have not the columns of the table were skipped", count=broken)] if broken else []
    details = bool(rows) and "Metric Name" in rows[0]
    how = numbers.style(_numbers(rows, details))
    if not how.certain:
        notices.append(Notice("two_notations", f"numbers are written in two ways; '{how.decimal}' was taken for the decimal sign"))
    kernels = _details(rows, how) if details else [_raw(place, row, units, how) for place, row in enumerate(rows)]
    if not kernels:
        raise InputError(f"'{path}' has the heading of ncu's table and no kernel under it; was a kernel profiled?")
    return KernelProfile(path=str(path), reader=NAME, kernels=kernels, notices=notices)


def _rows(path: Path) -> tuple[list[Row], Row, int]:
    """The lines of the table by column, the line of units of the raw page, and how many lines are broken."""
    lines = bytes(load(path, MOST_BYTES)).decode("utf-8-sig", "replace").splitlines(keepends=True)
    start = next((n for n, line in enumerate(lines) if _HEADER.match(line)), None)
    if start is None:
        raise InputError(f"'{path}' has no line that begins with \"ID\",\"Process ID\"; write it with ncu --csv")
    split = ";" if re.match(r'^\ufeff?"?ID"?;', lines[start]) else ","
    table = csv.reader((line.replace("\0", "") for line in lines[start:]), delimiter=split)
    head: list[str] = []
    rows: list[Row] = []
    units: Row = {}
    broken = 0
    for cells in _safe(table):
        if not head or cells[:2] == head[:2]:
            head = cells
        elif len(cells) <= 1 or cells[0].startswith("=="):
            continue
        elif len(cells) < len(head) - 4:  # ncu leaves out empty columns at the end of details
            broken += 1
        elif not cells[0].strip():
            units = dict(zip(head, cells, strict=False))
        elif cells[0].strip().isdigit():
            rows.append(dict(zip(head, cells, strict=False)))
        else:
            broken += 1
    return rows, units, broken


def _safe(table: Iterator[list[str]]) -> Iterator[list[str]]:
    """Rows, without those that are no CSV."""
    while True:
        try:
            yield next(table)
        except StopIteration:
            return
        except csv.Error:
            yield ["", *[""] * 2]


def _numbers(rows: list[Row], details: bool) -> Iterator[str]:
    for row in rows:
        if details:
            yield row.get("Metric Value", "")
        else:
            yield from (text for name, text in row.items() if name not in ABOUT_KERNEL)


def _three(text: str) -> Three | None:
    """(256, 1, 1) as ncu writes sizes."""
    return three([int(one) for one in re.findall(r"\d{1,18}", text)])


def _kernel(place: int, row: Row, known: dict[str, float], others: dict[str, tuple[float, str]], remarks: list[Remark]) -> CountedKernel:
    shared = [known[name] for name in ("shared_static_bytes", "shared_dynamic_bytes", "shared_driver_bytes") if name in known]
    major, minor = (others.get(f"device__attribute_compute_capability_{part}", (None, ""))[0] for part in ("major", "minor"))
    version = "" if major is None or minor is None else f"{major:.0f}.{minor:.0f}"
    return CountedKernel(
        place=place, name=row.get("Kernel Name", "") or "(no name)", capability=row.get("CC", "").strip() or version,
        device=row.get("device__attribute_display_name", "") or f"device {row.get('Device', '') or '?'}",
        grid=_three(row.get("Grid Size", "")), block=_three(row.get("Block Size", "")),
        registers=whole(known.get("registers")), shared_bytes=whole(sum(shared)) if shared else None,
        duration_s=known.get("duration_s"), metrics=known, others=others, remarks=remarks,
    )  # fmt: skip


def _details(rows: list[Row], how: Style) -> list[CountedKernel]:
    launches: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        launches.setdefault((row.get("Process ID", ""), row["ID"], row.get("Kernel Name", "")), []).append(row)
    return [_one(place, found, how) for place, found in enumerate(launches.values())]


def _one(place: int, rows: list[Row], how: Style) -> CountedKernel:
    known: dict[str, float] = {}
    others: dict[str, tuple[float, str]] = {}
    by_name: dict[str, tuple[float, str]] = {}
    remarks = []
    for row in rows:
        name, written = row.get("Metric Name", ""), row.get("Metric Unit", "")
        value = numbers.number(row.get("Metric Value", ""), how) if name else None
        if value is not None:
            if (found := metrics.by_label(name, value, written)) is not None:
                known.setdefault(*found)
            elif name in metrics.table().by_name:  # with --metrics the details page has the raw names
                by_name[name] = (value, written)
            else:
                others[name] = (value, written)
        if row.get("Rule Name"):
            remarks.append(_remark(row, how))
    return _kernel(place, rows[0], {**metrics.by_name(by_name)[0], **known}, others, remarks)


def _remark(row: Row, how: Style) -> Remark:
    gain = numbers.number(row.get("Estimated Speedup") or "", how)
    scope: Literal["", "local", "global"] = "local" if row.get("Estimated Speedup Type") == "local" else ""
    if row.get("Estimated Speedup Type") == "global":
        scope = "global"
    return Remark(
        rule=row["Rule Name"], text=row.get("Rule Description") or "", kind=row.get("Rule Type") or "", scope=scope,
        gain=None if gain is None else gain / 100,
    )  # fmt: skip


def _raw(place: int, row: Row, units: Row, how: Style) -> CountedKernel:
    found = {}
    for name, text in row.items():
        if name not in ABOUT_KERNEL and (value := numbers.number(text or "", how)) is not None:
            found[name] = (value, units.get(name) or "")
    known, used = metrics.by_name(found)
    return _kernel(place, row, known, {name: pair for name, pair in found.items() if name not in used}, [])

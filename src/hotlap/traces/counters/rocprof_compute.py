"""Counters of AMD's GPUs that ROCm Compute Profiler (rocprof-compute, once Omniperf) collects: pmc_perf.csv, and sysinfo.csv beside it.

Format: rocm.docs.amd.com/projects/rocprofiler-compute. A line per dispatch, a column per counter; columns that several runs have in
common stand again with _1, _2 … behind.
"""

from __future__ import annotations

import csv
import io
import math
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from hotlap.core.errors import InputError
from hotlap.core.record import Notice
from hotlap.traces.counters import formula
from hotlap.traces.counters.kernel import CountedKernel, KernelProfile, three, whole
from hotlap.traces.counters.loading import load

NAME = "rocprof-compute"
ABOUT = "ROCm Compute Profiler (pmc_perf.csv)"
MOST_BYTES = 256 << 20
NEEDED = ("Dispatch_ID", "Kernel_Name", "Grid_Size", "Workgroup_Size")


@cache
def table() -> dict[str, dict[str, Any]]:
    """amd.toml: architectures, and formulas of metrics."""
    return tomllib.loads(resources.files("hotlap.traces.counters").joinpath("amd.toml").read_text(encoding="utf-8"))


def sniff(path: Path, head: bytes) -> bool:
    first = head.split(b"\n", 1)[0].decode("utf-8-sig", "replace")
    return all(name in first for name in NEEDED)


def read(path: Path) -> KernelProfile:
    """The kernels of one file. Raises InputError where there are none."""
    facts = _facts(path.with_name("sysinfo.csv"))
    kernels: list[CountedKernel] = []
    broken = 0
    for row in _rows(path):
        numbers = {name: value for name, text in row.items() if (value := _number(text)) is not None}
        if not row.get("Kernel_Name") or "Dispatch_ID" not in numbers:
            broken += 1
            continue
        kernels.append(_kernel(len(kernels), row["Kernel_Name"], numbers, facts))
    if not kernels:
        raise InputError(f"'{path}' has the heading of ROCm Compute Profiler's counters and no kernel under it")
    notices = [Notice("broken_lines", "lines that have not the columns of the table were skipped", count=broken)] if broken else []
    if not facts:
        notices.append(Notice("missing_file", "no sysinfo.csv beside it: peaks, clock and number of compute units are not known"))
    return KernelProfile(path=str(path), reader=NAME, kernels=kernels, facts=facts, notices=notices)


def _rows(path: Path) -> Iterator[dict[str, str]]:
    text = bytes(load(path, MOST_BYTES)).decode("utf-8-sig", "replace").replace("\0", "")
    try:
        for row in csv.DictReader(io.StringIO(text)):
            yield {name: value for name, value in row.items() if name and isinstance(value, str)}
    except csv.Error as error:
        raise InputError(f"'{path}' is no CSV: {error}") from None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _facts(path: Path) -> dict[str, Any]:
    """The machine, as the file beside the counters tells; {} without one."""
    try:
        return dict(next(_rows(path), {})) if path.is_file() else {}
    except InputError:
        return {}


def _kernel(place: int, name: str, numbers: dict[str, float], facts: dict[str, Any]) -> CountedKernel:
    arch = str(facts.get("gpu_arch", ""))
    block, threads = whole(numbers.get("Workgroup_Size")) or 0, whole(numbers.get("Grid_Size")) or 0
    registers = whole(numbers.get("Arch_VGPR", 0) + numbers.get("Accum_VGPR", 0)) or None
    known = _machine(facts)
    duration = (numbers.get("End_Timestamp", 0.0) - numbers.get("Start_Timestamp", 0.0)) * 1e-9
    known |= {"duration_s": duration} if duration > 0 else {}
    known |= {"block_threads": float(block), "warp_threads": numbers.get("wave_size", numbers.get("Wave_Size", 64.0))}
    known |= {"blocks": float(math.ceil(threads / block))} if block and threads else {}
    known |= {"registers": float(registers)} if registers else {}
    names = numbers | known
    for metric, text in table()["formula"].items():
        value = formula.value(text, names)
        if value is not None:
            known[metric] = names[metric] = float(value)
    return CountedKernel(
        place=place, name=name, vendor="amd", device=str(facts.get("gpu_model", "")), capability=arch, duration_s=known.get("duration_s"),
        grid=three([int(known.get("blocks", 0)), 1, 1]), block=three([block, 1, 1]), registers=registers,
        shared_bytes=whole(numbers.get("LDS_Per_Workgroup")), metrics=known,
        others={counter: (value, "") for counter, value in numbers.items() if "[" not in counter},  # not per channel: sums are there
    )  # fmt: skip


def _machine(facts: dict[str, Any]) -> dict[str, float]:
    """Compute units, clock, and peak of memory, in base units."""
    found = {}
    for name, key, scale in (("multiprocessors", "cu_per_gpu", 1.0), ("clock_hz", "max_sclk", 1e6), ("dram_peak", "hbm_bw", 1e9)):
        value = _number(str(facts.get(key, "")))
        if value is not None and value > 0:
            found[name] = value * scale
    return found

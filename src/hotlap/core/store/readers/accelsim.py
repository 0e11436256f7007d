"""Statistics of Accel-Sim and GPGPU-Sim: what they print after every kernel, or the table that their get_stats.py makes of it.

Printed: `kernel_name = …`, then `name = value` lines until the next kernel; the core clock stands in the line -gpgpu_clock_domains
(core:interconnect:L2:DRAM, MHz). Counters that are never reset (accesses, hits, totals) are taken as differences between kernels. A kernel
that a limit on cycles or instructions broke off is left out.
"""

from __future__ import annotations

import csv
import gzip
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hotlap.core.errors import InputError

TOTALS = {  # printed name: ours; never reset
    "gpu_tot_sim_cycle": "tot_cycles", "gpu_tot_sim_insn": "tot_instructions", "L2_total_cache_accesses": "l2_accesses",
    "L2_total_cache_misses": "l2_misses", "total dram reads": "dram_reads", "total dram writes": "dram_writes",
    "L2_cache_stats_breakdown[GLOBAL_ACC_R][HIT]": "l2_read_hits",
    "L2_cache_stats_breakdown[GLOBAL_ACC_R][TOTAL_ACCESS]": "l2_read_accesses",
}  # fmt: skip
RESET = {"gpu_sim_cycle": "cycles", "gpu_sim_insn": "instructions", "gpu_ipc": "ipc", "gpu_occupancy": "occupancy"}
BROKEN = "break due to reaching the maximum"
_LINE = re.compile(r"^\s*([A-Za-z_][\w .\[\]]*?)\s*=\s*(\S+)")
_CLOCKS = re.compile(r"-gpgpu_clock_domains\s+([0-9.]+):")
_BUILD = re.compile(r"((?:Accel-Sim|GPGPU-Sim)[^\[]*?)\s*(?:\[build\s+([^\]\s]+))")
_SPACE = re.compile(r"\\s[*+]?")  # as written in the regular expression that is a statistic's name


@dataclass(frozen=True)
class SimulatedLaunch:
    """One kernel that was simulated. `counters`: of it alone."""

    kernel: str
    number: int  # as the simulator counts launches, from 1
    cycles: float
    counters: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class SimulatorRun:
    """What one file says of one configuration. `broken`: kernels left out, since they did not end."""

    launches: list[SimulatedLaunch]
    clock_hz: float | None = None
    simulator: str = ""
    config: str = ""
    broken: int = 0


def recognised(path: Path) -> bool:
    """Whether a file looks like such statistics; false for what cannot be read."""
    try:
        for number, line in enumerate(_lines(path)):
            if line.startswith(("kernel_name =", "APPS,")) or _CLOCKS.search(line) or "GPGPU-Sim" in line:
                return True
            if number > 200:
                return False
    except (InputError, UnicodeDecodeError):
        return False
    return False


def read(path: Path) -> list[SimulatorRun]:
    """One per configuration; a printed log has one. Raises InputError for a file that holds no kernel's cycles."""
    first = next(iter(_lines(path)), "")
    found = _table(path) if first.startswith("----") else [_printed(path)]
    if not any(one.launches for one in found):
        broken = sum(one.broken for one in found)
        said = f"; {broken} did not end" if broken else ""
        raise InputError(f"{path}: no kernel with its cycles is in it{said}; needed are lines 'kernel_name = …' and 'gpu_sim_cycle = …'")
    return [one for one in found if one.launches]


def _lines(path: Path) -> Iterator[str]:
    try:
        with gzip.open(path, "rt", errors="replace") if path.name.endswith(".gz") else path.open(errors="replace") as file:
            yield from file
    except FileNotFoundError:
        raise InputError(f"there is no file '{path}'") from None
    except (OSError, EOFError) as error:
        raise InputError(f"'{path}' cannot be read: {getattr(error, 'strerror', None) or error}") from None


# ---------------------------------------------------------------- printed


def _printed(path: Path) -> SimulatorRun:
    clock, simulator, broken = None, "", 0
    blocks: list[tuple[str, int, dict[str, float]]] = []
    for line in _lines(path):
        if "=" not in line:
            if clock is None and (match := _CLOCKS.search(line)):
                clock = float(match[1]) * 1e6
            elif not simulator and (match := _BUILD.search(line)):
                simulator = " ".join([*match[1].replace("*", "").split(), match[2] or ""]).strip()
            elif BROKEN in line and blocks:
                blocks.pop()
                broken += 1
            continue
        match = _LINE.match(line)
        if match is None:
            continue
        name = match[1]
        if name == "kernel_name":
            blocks.append((match[2], len(blocks) + broken + 1, {}))
        elif blocks and name == "kernel_launch_uid":
            kernel, _, values = blocks[-1]
            blocks[-1] = kernel, _whole(match[2], blocks[-1][1]), values
        elif blocks and (ours := RESET.get(name) or TOTALS.get(name)):
            blocks[-1][2][ours] = _number(match[2])
    return SimulatorRun(_launches(blocks), clock, simulator or "GPGPU-Sim", broken=broken + sum(not _ended(b[2]) for b in blocks))


def _whole(text: str, otherwise: int) -> int:
    return int(text) if text.isdigit() else otherwise


def _number(text: str) -> float:
    try:
        return float(text.rstrip("%,"))
    except ValueError:
        return math.nan


def _ended(values: Mapping[str, float]) -> bool:
    return values.get("cycles", values.get("tot_cycles", math.nan)) > 0


def _launches(blocks: Iterable[tuple[str, int, Mapping[str, float]]]) -> list[SimulatedLaunch]:
    """Each kernel's own numbers: totals less what they were after the one before."""
    launches, before = [], dict[str, float]()
    for kernel, number, values in blocks:
        if not _ended(values):
            continue
        own = {name: value for name, value in values.items() if name in RESET.values() and not math.isnan(value)}
        for name in TOTALS.values():
            if name in values:
                own[name] = values[name] - before.get(name, 0.0)
                before[name] = values[name]
        cycles = own.pop("cycles", own.get("tot_cycles", 0.0))
        launches.append(SimulatedLaunch(kernel, number, cycles, _named(own)))
    return launches


def _named(own: Mapping[str, float]) -> dict[str, float]:
    """Counters as Hotlap names them; L2's by reads where the simulator tells reads apart."""
    metrics = {name: own[name] for name in ("instructions", "ipc", "dram_reads", "dram_writes") if name in own}
    if "occupancy" in own:
        metrics["occupancy"] = own["occupancy"] / 100
    if own.get("l2_read_accesses"):
        metrics["l2_hit"] = own.get("l2_read_hits", 0.0) / own["l2_read_accesses"]
    elif own.get("l2_accesses"):
        metrics["l2_hit"] = 1 - own.get("l2_misses", 0.0) / own["l2_accesses"]
    return metrics


# ---------------------------------------------------------------- the table


def _table(path: Path) -> list[SimulatorRun]:
    """Blocks behind lines of dashes: a statistic's name (its regular expression), a header APPS with configurations, a row per kernel."""
    values: dict[str, dict[str, dict[str, float]]] = {}  # configuration: kernel: name: value
    stat, columns = "", list[str]()
    for row in csv.reader(_lines(path)):
        cells = [cell.strip() for cell in row]
        if not cells or not any(cells):
            continue
        if cells[0].startswith("----"):
            stat, columns = "", []
        elif not stat:
            stat = _stat(",".join(cells))
        elif not columns:
            columns = cells[1:]
        elif (ours := RESET.get(stat) or TOTALS.get(stat)) is not None:
            for config, cell in zip(columns, cells[1:], strict=False):
                if config and not math.isnan(number := _number(cell or "NA")):
                    values.setdefault(config, {}).setdefault(cells[0], {})[ours] = number
    rows = []
    for config, kernels in values.items():
        launches = [
            SimulatedLaunch(_plain(kernel), place, own.get("cycles", own.get("tot_cycles", 0.0)), _named(own))
            for place, (kernel, own) in enumerate(kernels.items(), 1) if _ended(own)
        ]  # fmt: skip
        rows.append(SimulatorRun(launches, None, "GPGPU-Sim", config))
    return rows


def _stat(expression: str) -> str:
    """The printed name that a regular expression finds."""
    plain = _SPACE.sub(" ", expression).replace("\\[", "[").replace("\\]", "]")
    return plain.partition("=")[0].partition("(")[0].strip()


def _plain(name: str) -> str:
    """The kernel of `application/arguments--kernel` or `…--kernel--3`."""
    parts = name.split("--")
    kept = [part for part in parts[1:] if not part.isdigit()] if len(parts) > 1 else parts
    return kept[-1] if kept else name

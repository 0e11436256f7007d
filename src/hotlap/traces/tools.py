"""The profilers that a captured program can be run under, and how each is told to keep to the window.

Nsight Systems and Nsight Compute record between `cudaProfilerStart` and `cudaProfilerStop`, which the recorder inside the program
calls; rocprofv3 has no such range for programs as they are and records all of it.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hotlap.core.errors import InputError, Unavailable, nearest

HOW = {"pytorch": "pytorch", "nsys": "range", "ncu": "range", "rocprofv3": "none"}  # what the recorder does
REMEDY = {
    "nsys": "install Nsight Systems (developer.nvidia.com/nsight-systems) and put nsys on PATH",
    "ncu": "install Nsight Compute (developer.nvidia.com/nsight-compute) and put ncu on PATH",
    "rocprofv3": "install rocprofiler-sdk of ROCm and put rocprofv3 on PATH",
}
REPLAYING = ("ncu",)  # these run each kernel several times
RANKS = "ncu runs each kernel several times, and ranks that exchange data would wait for each other for ever"
FOR_RANKS = "record one rank alone (a world of 1), or use --with nsys"
EXPORT_S = 600.0


@dataclass(frozen=True)
class Tool:
    """A program's arguments, made to run under the tool; and what is to be done when it has ended."""

    name: str
    argv: Callable[[Sequence[str], Path], list[str]]
    finish: Callable[[Path], None]


def find(name: str) -> Tool:
    """The tool, ready. Raises InputError for a name that is none, Unavailable where it is not installed."""
    if name not in HOW:
        raise InputError(f"there is no tool '{name}' (--with); {nearest(name, HOW)}")
    if name in REMEDY and shutil.which(name) is None:
        raise Unavailable(f"{name} is not installed here", REMEDY[name])
    return {
        "pytorch": Tool(name, lambda argv, _: list(argv), lambda _: None),
        "nsys": Tool(name, _nsys, _exported),
        "ncu": Tool(name, _ncu, lambda _: None),
        "rocprofv3": Tool(name, _rocprof, lambda _: None),
    }[name]


def refuse_ranks(name: str, argv: Sequence[str], environment: Mapping[str, str]) -> None:
    """Raises InputError for a tool that replays kernels and a program that is started as several ranks, as far as words show it."""
    if name not in REPLAYING:
        return
    world = environment.get("WORLD_SIZE", "1")
    started = re.search(r"--nproc[-_]per[-_]node[= ](\S+)", " ".join(argv))
    for seen, count in ((f"WORLD_SIZE={world}", world), (started[0] if started else "", started[1] if started else "1")):
        if count != "1":
            raise InputError(f"--with {name} and {seen}: {RANKS}; {FOR_RANKS}")


def traces(name: str, folder: Path) -> list[Path]:
    """What the tool has left in the folder."""
    patterns = {"nsys": "nsys.sqlite", "ncu": "ncu.csv", "rocprofv3": "rocprofv3*_results.json"}
    return sorted(folder.glob(patterns[name])) if name in patterns else []


def _nsys(argv: Sequence[str], folder: Path) -> list[str]:
    return [
        "nsys", "profile", f"--output={folder / 'nsys'}", "--force-overwrite=true", "--trace=cuda,nvtx,osrt", "--sample=none",
        "--cpuctxsw=none", "--cuda-graph-trace=node", "--capture-range=cudaProfilerApi", "--capture-range-end=stop", *argv,
    ]  # fmt: skip


def _exported(folder: Path) -> None:
    report = folder / "nsys.nsys-rep"
    if report.exists():
        command = ["nsys", "export", "--type=sqlite", "--force-overwrite=true", f"--output={folder / 'nsys.sqlite'}", str(report)]
        with contextlib.suppress(subprocess.TimeoutExpired):
            none = subprocess.DEVNULL
            subprocess.run(command, stdin=none, stdout=none, stderr=none, timeout=EXPORT_S, check=False)


def _ncu(argv: Sequence[str], folder: Path) -> list[str]:
    """Clocks stay as they are: ncu would lock them to the base clock, at which the program does not run."""
    log = f"--log-file={folder / 'ncu.csv'}"
    return ["ncu", "--profile-from-start=off", "--clock-control=none", "--target-processes=all", "--csv", log, *argv]


def _rocprof(argv: Sequence[str], folder: Path) -> list[str]:
    traced = ["--kernel-trace", "--hip-trace", "--memory-copy-trace", "--marker-trace"]
    return ["rocprofv3", *traced, "--output-format", "json", "-d", str(folder), "-o", "rocprofv3", "--", *argv]

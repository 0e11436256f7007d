"""Hitches injected into a program that draws, while MangoHud logs it: how many are found, and what else is.

    python benchmarks/frames_live.py [--hitches 49] [--length-ms 80] [--every-ms 400] [--json]

vkcube draws on an X server of its own (Xvfb) as fast as it can; it is stopped (SIGSTOP) for the length asked and goes on (SIGCONT). When it
was stopped is known on this clock, when frames were on that of the log: the shift between the two is the one that most injections fit.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from hotlap.frames import keeping, likes, reading, streams
from hotlap.frames.record import FrameCapture, FramesAsked, Hitch

NEEDED = ("Xvfb", "mangohud", "vkcube")
FIRST_S, CLOSE_S = 2.5, 0.03  # after the start, when the log has begun; by which an injection may miss a hitch


@contextmanager
def display() -> Iterator[str]:
    read, write = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", "400x300x24", "-nolisten", "tcp"], pass_fds=[write],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(write)
    try:
        with os.fdopen(read) as file:
            yield f":{file.readline().strip()}"
    finally:
        server.terminate()
        server.wait()


def record(folder: Path, count: int, length_s: float, every_s: float) -> tuple[Path, list[float]]:
    """The log, and when each injection began, in s since the first of them."""
    lasts = int(FIRST_S + count * every_s) + 2
    config = f"autostart_log=1,log_duration={lasts},log_interval=0,output_folder={folder},no_display"
    with display() as name:
        environment = {**os.environ, "DISPLAY": name, "XDG_RUNTIME_DIR": str(folder), "MANGOHUD": "1", "MANGOHUD_CONFIG": config}
        program = subprocess.Popen(
            ["vkcube", "--present_mode", "0", "--width", "64", "--height", "64"], env=environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            time.sleep(FIRST_S)
            began = []
            for _ in range(count):
                began.append(time.monotonic())
                os.kill(program.pid, signal.SIGSTOP)
                time.sleep(length_s)
                os.kill(program.pid, signal.SIGCONT)
                time.sleep(max(every_s - (time.monotonic() - began[-1]), 0.0))
            deadline = time.monotonic() + lasts + 20
            size, before = 0, -1  # the log is written beside the summary, by another thread
            while (size == 0 or size != before) and time.monotonic() < deadline:
                time.sleep(1.5)
                size, before = sum(file.stat().st_size for file in folder.glob("vkcube*.csv")), size
        finally:
            program.terminate()
            program.wait()
    logs = [file for file in folder.glob("vkcube*.csv") if not file.stem.endswith("_summary")]
    if not logs:
        raise SystemExit("MangoHud wrote no log")
    return logs[0], [at - began[0] for at in began]


def summary_equal(log: Path, capture: FrameCapture) -> tuple[int, int]:
    """Of the numbers of MangoHud's own summary beside the log, how many ours equal to the last digit; (0, 0) without one."""
    beside = log.with_name(f"{log.stem}_summary.csv")
    if not beside.exists():
        return 0, 0
    with beside.open() as file:
        theirs = next(csv.DictReader(file))
    (stream,) = streams.of([capture], FramesAsked())
    ours = likes.numbers("mangohud-0.6" if capture.kept.columns["frame"].unit == "us" else "mangohud", stream)
    return sum(theirs.get(name) == text for name, text in ours.items()), len(ours)


def matched(hitches: list[Hitch], injected: list[float], length_s: float) -> tuple[list[bool], list[bool]]:
    """Which injections lie in a hitch, and which hitches have one: by the shift that fits most."""
    begins, ends = (np.array([getattr(hitch, name) for hitch in hitches]) for name in ("time_s", "until_s"))
    starts = np.array(injected)
    best: tuple[int, float] = (-1, 0.0)
    for shift in (ends[:, None] - length_s - starts[None, :]).ravel():
        inside = (starts[:, None] + shift + CLOSE_S >= begins) & (starts[:, None] + shift + length_s - CLOSE_S <= ends + CLOSE_S)
        best = max(best, (int(inside.any(axis=1).sum()), float(shift)))
    inside = (starts[:, None] + best[1] + CLOSE_S >= begins) & (starts[:, None] + best[1] + length_s - CLOSE_S <= ends + CLOSE_S)
    return inside.any(axis=1).tolist(), inside.any(axis=0).tolist()


def main() -> int:
    parser = argparse.ArgumentParser(description="hitches that are injected live are found")
    parser.add_argument("--hitches", type=int, default=49)
    parser.add_argument("--length-ms", type=float, default=80.0)
    parser.add_argument("--every-ms", type=float, default=400.0)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    missing = [name for name in NEEDED if not shutil.which(name)]
    if missing:
        print(f"not run, because {', '.join(missing)} is not installed")
        return 3
    length_s = args.length_ms / 1e3
    with tempfile.TemporaryDirectory() as folder:
        log, injected = record(Path(folder), args.hitches, length_s, args.every_ms / 1e3)
        (capture,) = reading.read(log)
        (figures,) = keeping.judge([capture], FramesAsked())
        equal, printed = summary_equal(log, capture)
    which, real = matched(list(figures.hitches), injected, length_s)
    row = {
        "injected": len(injected), "found": sum(which), "other_hitches": len(real) - sum(real), "frames": figures.frames,
        "longest_other_s": max((one.seconds for one, known in zip(figures.hitches, real, strict=True) if not known), default=0.0),
        "summary_equal": equal, "summary_numbers": printed,
    }  # fmt: skip
    if args.json:
        print(json.dumps(row))
    else:
        others = f"{row['other_hitches']} others, the longest {row['longest_other_s']:.3f} s"
        print(f"{row['found']} of {row['injected']} injected hitches found; {others}, of {row['frames']} frames, of whatever else ran")
        print(f"MangoHud's own summary: {equal} of {printed} numbers are equal to the last digit")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""A thousand ranks of 10 MB on this machine: time, memory, and whether the rank that was slowed is the one that is named.

    python benchmarks/ranks.py TRACE.json.gz [--ranks 1000] [--megabytes 10] [--keep FOLDER] [--json]

Every rank is the same trace (its events again and again up to the size wanted, see replicate_trace.py), packed, with a clock
and a rank of its own: `ts` is shifted by a constant and each start of a collective by the rank's lateness, so that its end stays
where it is on every rank. One rank comes later than all others by --late. The time to make the files is not counted.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from replicate_trace import copies, parts, unpacked

COLLECTIVE = re.compile(rb'\{[^{}]*"cat"\s*:\s*"(?:kernel|Kernel)"[^{}]*"name"\s*:\s*"nccl[^{}]*"ts"\s*:\s*[\d.]+\s*,\s*"dur"\s*:\s*[\d.]+')
TIMES = re.compile(rb'("ts"\s*:\s*)([\d.]+)(\s*,\s*"dur"\s*:\s*)([\d.]+)')
RANK = re.compile(rb'("rank"\s*:\s*)\d+')
WORLD = re.compile(rb'("world_size"\s*:\s*)\d+')
GROUPS = re.compile(rb'"pg_config"\s*:\s*\[.*?\]\s*\}\s*\]', re.DOTALL)
CLOCK_US = 250.0  # between the clocks of neighbours


def later(event: re.Match[bytes], by: float) -> bytes:
    """A collective that begins later and ends when it did."""

    def moved(match: re.Match[bytes]) -> bytes:
        delay = min(by, 0.9 * float(match.group(4)))
        start, length = (f"{value:.3f}".encode() for value in (float(match.group(2)) + delay, float(match.group(4)) - delay))
        return match.group(1) + start + match.group(3) + length

    return TIMES.sub(moved, event.group(0), count=1)


def make(trace: Path, folder: Path, options: argparse.Namespace) -> tuple[int, int]:
    """The files; bytes packed and unpacked."""
    before, events, after = parts(unpacked(trace))
    count = max(1, round(options.megabytes * 1e6 / len(events)))
    body = b",\n".join(copies(events, count))
    pieces = COLLECTIVE.split(body)
    calls = list(COLLECTIVE.finditer(body))
    if not calls:
        raise SystemExit(f"{trace} holds no NCCL kernels")
    packed = plain = 0
    groups = {"ranks": list(range(options.ranks)), "pg_size": options.ranks, "pg_name": "0", "pg_desc": "default_pg"}
    for rank in range(options.ranks):
        by = options.late if rank == options.slow else 5.0 * ((rank * 7919) % 10)
        middle = b"".join(piece + (later(calls[i], by) if i < len(calls) else b"") for i, piece in enumerate(pieces))
        base = json.dumps({"baseTimeNanoseconds": 1_700_000_000_000_000_000 + int(1000 * CLOCK_US * rank)})[1:-1].encode()
        head = GROUPS.sub(b'"pg_config":[' + json.dumps(groups).encode() + b"]", before)
        head = WORLD.sub(rb"\g<1>" + str(options.ranks).encode(), RANK.sub(rb"\g<1>" + str(rank).encode(), head))
        text = re.sub(rb'"baseTimeNanoseconds"\s*:\s*\d+', base, head + b"\n" + middle + b"\n" + after)
        text = re.sub(rb'"Group size"\s*:\s*\d+', b'"Group size":' + str(options.ranks).encode(), text)
        data = gzip.compress(text, 1)
        (folder / f"rank{rank}.json.gz").write_bytes(data)
        packed, plain = packed + len(data), plain + len(text)
    return packed, plain


def tree_bytes(root: int) -> int:
    """Resident memory of a process and all below it, pages that they share counted once for each (an upper bound)."""
    below, total = {root}, 0
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                fields = Path(entry.path, "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    left = [root]
    while left:
        below.update(kids := children.get(left.pop(), []))
        left += kids
    for process in below:
        try:
            total += int(Path(f"/proc/{process}/statm").read_text().split()[1]) * resource.getpagesize()
        except OSError:
            continue
    return total


def measured(folder: Path) -> dict[str, object]:
    """One run of the verb in a fresh process, its memory looked at every 50 ms."""
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as home:
        run = subprocess.Popen(
            [sys.executable, "-m", "hotlap", "trace", "--json", str(folder)], stdout=subprocess.PIPE, env=os.environ | {"HOTLAP_HOME": home}
        )  # fmt: skip
        most = [0]
        done = threading.Event()

        def watch() -> None:
            while not done.wait(0.05):
                most[0] = max(most[0], tree_bytes(run.pid))

        looking = threading.Thread(target=watch)
        looking.start()
        out, _ = run.communicate()
        done.set()
        looking.join()
    seconds = time.perf_counter() - begin
    if run.returncode:
        raise SystemExit(f"hotlap trace ended with {run.returncode}")
    figures = json.loads(out)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    late = max(figures["late"], key=lambda one: one["caused_s"], default={})
    return {
        "seconds": seconds, "cpu_seconds": used.ru_utime + used.ru_stime, "peak_bytes": most[0],
        "ranks": len(figures["ranks"]), "unusable": len(figures["unusable"]),
        "named": late.get("rank"), "named_share": late.get("share"), "ends_within_s": figures["clocks"]["ends_within_s"],
        "clocks_set": figures["clocks"]["set"],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("trace", type=Path)
    parser.add_argument("--ranks", type=int, default=1000)
    parser.add_argument("--megabytes", type=float, default=10.0)
    parser.add_argument("--slow", type=int, default=-1, help="which rank is slowed (default: a third of the way)")
    parser.add_argument("--late", type=float, default=500.0, help="µs that it comes later")
    parser.add_argument("--keep", type=Path, help="make the files here and leave them; those that are here are used")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.slow = options.slow if options.slow >= 0 else options.ranks // 3
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        size = make(options.trace, folder, options) if not any(folder.iterdir()) else (0, 0)
        figures = measured(folder)
    figures |= {"slowed": options.slow, "packed_bytes": size[0], "plain_bytes": size[1]}
    if options.json:
        print(json.dumps(figures))
        return
    if size[0]:
        print(f"{options.ranks} ranks, {size[1] / options.ranks / 1e6:.1f} MB each as text, {size[0] / options.ranks / 1e6:.2f} MB packed")
    peak = float(str(figures["peak_bytes"])) / 1e6
    print(f"{figures['seconds']:.1f} s ({figures['cpu_seconds']:.1f} s of processors), {peak:.0f} MB at most in all processes together")
    share = figures["named_share"]
    print(f"slowed: rank {options.slow}; named: rank {figures['named']}" + (f", {share:.1%} of the window" if share else ""))


if __name__ == "__main__":
    main()

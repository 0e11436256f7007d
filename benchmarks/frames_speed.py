"""A million frames read, judged and kept, in a process of its own: CPU seconds, peak memory and bytes, with pyarrow and without.

    python benchmarks/frames_speed.py [--frames 1000000] [--json]

The file has PresentMon's 22 columns that are kept, one chain. `again`: the kept run read and judged, which is what `hotlap show` does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

HEAD = (
    "Application,ProcessID,SwapChainAddress,PresentRuntime,SyncInterval,PresentFlags,AllowsTearing,PresentMode,FrameType,MsBetweenPresents,"
    "MsBetweenDisplayChange,MsInPresentAPI,MsUntilDisplayed,CPUStartQPC,MsBetweenAppStart,MsCPUBusy,MsCPUWait,MsGPULatency,MsGPUTime,"
    "MsGPUBusy,MsGPUWait,AnimationTime"
)
FIXED = "game.exe,4242,0x1F00,DXGI,0,0,1,Hardware: Independent Flip,Application"
CODE = """
import json, resource, sys, time
from pathlib import Path
from hotlap.core.store import bundle, chunks
from hotlap.frames import judged, keeping, reading
from hotlap.frames.record import FramesAsked
if sys.argv[3] == "no":
    chunks.available = lambda: False
began = time.process_time()
if sys.argv[4] == "first":
    path = keeping.bring_in(reading.read(Path(sys.argv[1])), FramesAsked(), Path(sys.argv[2]), {"parquet": sys.argv[3]})
else:
    path = max(Path(sys.argv[2], "runs").iterdir(), key=lambda one: one.stat().st_mtime)
    content = judged.read(bundle.load(path))
    assert content is not None and content.figures[0].frames
size = sum(file.stat().st_size for file in path.glob("frames-*"))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"cpu_s": time.process_time() - began, "peak_mb": peak, "mb": size / 1e6}))
"""


def write(path: Path, count: int) -> None:
    """A capture with a hitch in 2000 frames."""
    random = np.random.default_rng(1)
    level = np.convolve(random.normal(0, 0.03, count + 50), 0.9 ** np.arange(50), "valid")[:count]
    times = np.round(4.0 * np.exp(level), 4)
    times[random.random(count) < 1 / 2000] += 60.0
    starts = np.concatenate([[0.0], np.cumsum(times)[:-1]])
    busy, cpu, whole = (np.round(times * random.uniform(low, low + 0.1, count), 4) for low in (0.85, 0.5, 0.95))
    shown = np.round(times + random.normal(0, 0.05, count), 4)
    latency, until = np.round(times * 0.1, 4), np.round(times * 1.5, 4)
    with path.open("w", encoding="utf-8-sig") as file:
        file.write(HEAD + "\n")
        columns = (times, shown, times - cpu, until, starts * 1e4, times, cpu, times - cpu, latency, whole, busy, whole - busy, starts)
        for a, b, c, d, e, *rest in zip(*columns, strict=True):
            file.write(f"{FIXED},{a:.4f},{b:.4f},{c:.4f},{d:.4f},{e:.0f},{','.join(f'{value:.4f}' for value in rest)}\n")


def measured(file: Path, home: Path, parquet: str, which: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-c", CODE, str(file), str(home), parquet, which], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-800:])
    return {"pyarrow": parquet == "yes", "which": which, **json.loads(done.stdout)}


def main() -> int:
    parser = argparse.ArgumentParser(description="what reading and judging captures costs")
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "game.csv"
        write(file, args.frames)
        rows = [measured(file, Path(folder) / parquet, parquet, which) for parquet in ("yes", "no") for which in ("first", "again")]
        size = file.stat().st_size / 1e6
    if args.json:
        print(json.dumps(rows, indent=2))
        return 0
    print(f"{args.frames} frames, {size:.0f} MB of text")
    for row in rows:
        how = f"{'with' if row['pyarrow'] else 'without'} pyarrow, {'read, judged and kept' if row['which'] == 'first' else 'judged again'}"
        print(f"{how:<40} {row['cpu_s']:6.2f} CPU s  peak {row['peak_mb']:5.0f} MB  kept {row['mb']:5.1f} MB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

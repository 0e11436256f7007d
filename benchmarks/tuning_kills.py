"""Searches that are killed at random moments: files are as found, no process is left, and the search goes on.

    python benchmarks/tuning_kills.py [--kills 100] [--seed 2026]

Each is `hotlap tuning run` with a switch that is a file of the program, one that is there and one that is not. SIGKILL comes after a random
time; looked at is, once what guards the files has ended: content and mode of the files, processes of the program, and at the end whether
the last search goes on with --resume to its answer. Asked: as found after all of 100.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = """
n=$(cat n 2>/dev/null || echo 7); n=$(( (n * 1103515245 + 12345) % 2147483648 )); echo $n > n; sleep 0.02
base=1000; [ "$(cat there.conf)" = quick ] && base=900
echo "cost $((base + n / 65536 % 20))"
"""
OWN = '[there]\npath = "there.conf"\nvalues = ["quick", "other"]\n[absent]\npath = "absent.conf"\nvalues = ["1"]\n'
WORDS = ["tuning", "run", "sh program.sh", "--switches", "own.toml", "--metric", "cost ([0-9]+)", "--better", "lower", "--budget", "20 s"]
GUARDED_S = 60.0


def hotlap(words: list[str], folder: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "HOTLAP_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT / "src")}
    argv = [sys.executable, "-m", "hotlap", *words]
    return subprocess.Popen(argv, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def state(folder: Path) -> tuple[bytes, int, bool]:
    file = folder / "there.conf"
    return file.read_bytes(), file.stat().st_mode, (folder / "absent.conf").exists()


def left(folder: Path) -> int:
    """Processes whose working folder it is, once those that end have had time to."""
    until, count = time.monotonic() + GUARDED_S, 1
    while count and time.monotonic() < until:
        count = 0
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                count += os.readlink(entry / "cwd") == str(folder)
            except OSError:
                continue
        time.sleep(0.05 if count else 0)
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=2026)
    asked = parser.parse_args()
    drawn, changed, stayed, inside = random.Random(asked.seed), 0, 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        (folder / "program.sh").write_text(PROGRAM)
        (folder / "own.toml").write_text(OWN)
        (folder / "there.conf").write_text("as it was\n")
        (folder / "there.conf").chmod(0o640)
        before = state(folder)
        for _ in range(asked.kills):
            process = hotlap([*WORDS, "--seed", str(drawn.randrange(1000))], folder)
            time.sleep(drawn.uniform(0.3, 3.0))
            inside += state(folder) != before
            process.send_signal(signal.SIGKILL)
            process.wait()
            stayed += left(folder) > 0
            changed += state(folder) != before
        done = hotlap(["tuning", "run", "--resume", "latest"], folder).wait()
    print(f"{asked.kills} kills at random moments, seed {asked.seed}; a file was switched just before {inside} of them")
    print(f"  files not as found afterwards: {changed}  {'kept' if not changed else 'MISSED'}")
    print(f"  processes left: {stayed}  {'kept' if not stayed else 'MISSED'}")
    print(f"  the last search goes on with --resume: {'yes' if done == 0 else f'no, exit code {done}'}")


if __name__ == "__main__":
    main()

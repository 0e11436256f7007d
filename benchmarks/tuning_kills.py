"""Searches that are killed at random moments: files are as found, no process is left, and the search goes on.

    python benchmarks/tuning_kills.py [--kills 100] [--seed 2026]

Each is `hotlap tuning run` with a switch that is a file of the program, one that is there and one that is not. SIGKILL comes after a random
time; looked at is, once what guards the files has ended: content and mode of the files, processes of the program, and at the end whether
the last search goes on with --resume to its answer. Asked: as found after all of 100.
Then the same of clock and power cap of a GPU, on the library that stands in for NVML in Hotlap's tests: a process that sets one after
another is killed; in one of ten what guards the settings is killed with it, and the next one puts them back. Variables are of started
processes alone: this program's own are compared as well.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import shutil
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
STAND_IN = ROOT / "tests" / "core" / "sensors" / "fake_nvml.c"
FOUND = ["0", "650000"]  # clock lock in MHz (0: none), cap in mW
SETS = """
import os, random
from pathlib import Path
from hotlap.core.record import Device
from hotlap.tuning import power_sweep
from hotlap.tuning.power_guard import Wish
uuid = "GPU-01234567-89ab-cdef-0123-456789abcdef"
device = Device(target="cuda", index=0, name="NVIDIA Test", kind="gpu", vendor="NVIDIA", uuid=uuid)
with power_sweep.guarded(device, Path(os.environ["HOTLAP_HOME"]), lambda text: None) as put:
    while True:
        put(Wish(clock_hz=random.choice([1.2e9, 1.98e9, None]), power_w=random.choice([300.0, 400.0, 500.0, None])))
"""


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


def stand_in(folder: Path) -> Path | None:
    """The library, built; None without a compiler or nvidia-ml-py."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or importlib.util.find_spec("pynvml") is None:
        return None
    argv = [compiler, "-O1", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", "-o", str(folder / "libnvidia-ml.so.1"), str(STAND_IN)]
    subprocess.run(argv, check=True)
    return folder


def settings_killed(kills: int, drawn: random.Random, folder: Path) -> tuple[int, int]:
    """Kills after which the settings were not as found, and those just before which something was set."""
    state_file, environment = folder / "state", {**os.environ, "HOTLAP_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT / "src")}
    environment |= {"LD_LIBRARY_PATH": str(folder), "FAKE_NVML_STATE": str(state_file), "HOTLAP_NVML": "stand-in"}
    state_file.write_text(" ".join(FOUND))
    changed = inside = 0
    for number in range(kills):
        process = subprocess.Popen([sys.executable, "-c", SETS], cwd=folder, env=environment, stderr=subprocess.DEVNULL)
        until = time.monotonic() + GUARDED_S
        while number % 4 and state_file.read_text().split() in (FOUND, []) and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(drawn.uniform(0.0, 0.5))  # one in four while it begins
        inside += state_file.read_text().split() != FOUND
        if number % 10 == 9:
            for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)
        process.send_signal(signal.SIGKILL)
        process.wait()
        left(folder)
        if number % 10 == 9:
            mending = SETS.partition("    while")[0] + "    pass\n"
            subprocess.run([sys.executable, "-c", mending], cwd=folder, env=environment, check=True)
        changed += state_file.read_text().split() != FOUND
    return changed, inside


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=2026)
    asked = parser.parse_args()
    drawn, changed, stayed, inside, variables = random.Random(asked.seed), 0, 0, 0, dict(os.environ)
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
        library = stand_in(folder)
        settings = settings_killed(asked.kills, drawn, library) if library else None
    print(f"{asked.kills} kills at random moments, seed {asked.seed}; a file was switched just before {inside} of them")
    print(f"  files not as found afterwards: {changed}  {'kept' if not changed else 'MISSED'}")
    print(f"  processes left: {stayed}  {'kept' if not stayed else 'MISSED'}")
    print(f"  variables of this process not as found: {'MISSED' if dict(os.environ) != variables else '0  kept'}")
    if settings:
        print(f"  {asked.kills} kills while clocks and caps of a stand-in for NVML were set; other ones stood just before {settings[1]}")
        print(f"  settings not as found afterwards: {settings[0]}  {'kept' if not settings[0] else 'MISSED'}")
    else:
        print("  settings of NVML not run: a C compiler and nvidia-ml-py are needed")
    print(f"  the last search goes on with --resume: {'yes' if done == 0 else f'no, exit code {done}'}")


if __name__ == "__main__":
    main()

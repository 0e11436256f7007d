#!/usr/bin/env python3
"""Whether a version became slower: everyday commands of an older Hotlap and of this one, in turns, by `hotlap ab`.

    python benchmarks/versions.py OLD            OLD: the bin folder of an environment that holds the older version

Ratios are this version ÷ the older one, of wall time. Each version has a home of its own with the same 1,000 runs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HERE = Path(sys.executable).parent
RUNS = 1000
MIN_EFFECT, BUDGET = "10 %", "90 s"


def homes(folder: Path) -> dict[str, Path]:
    """A home for each version, of runs that 0.1 made: both can read them."""
    folders = {}
    with zipfile.ZipFile(ROOT / "tests" / "before" / "bundles" / "0.1" / "plan.zip") as bundle:
        bundle.extractall(folder / "one")
    (run,) = (folder / "one").iterdir()
    for side in ("old", "new"):
        folders[side] = folder / side
        for number in range(RUNS):
            name = f"20261101T{number // 60:02d}{number % 60:02d}00-{number:06x}"
            copy = folders[side] / "runs" / name
            shutil.copytree(run, copy)
            text = (copy / "run.json").read_text(encoding="utf-8")
            (copy / "run.json").write_text(text.replace(run.name, name), encoding="utf-8")
    return folders


def commands(trace: Path) -> dict[str, tuple[list[str], list[str]]]:
    """Name → words of the older version and of this one."""
    same = {
        "help": ["--help"],
        "compare": ["compare", "20261101T000000-000000", "20261101T000100-000001"],
        "predict": ["predict", "gemm", "m=4096", "n=4096", "k=4096", "dtype=bf16", "--machine", "h200-sxm"],
        "trace": ["trace", str(trace)],
    }
    return {"list of 1,000 runs": (["ls"], ["list"]), **{name: (words, words) for name, words in same.items()}}


def line(binary: Path, home: Path, words: list[str], code: str = "") -> str:
    """A command line; what it prints is thrown away, and exit codes are those of verdicts, so none is a failure."""
    run = f"{binary / 'python'} -c '{code}'" if code else " ".join([str(binary / "hotlap"), *words])
    return f"sh -c \"HOTLAP_HOME={home} {run} > /dev/null 2>&1 || true\""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("--budget", default=BUDGET)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trace = folder / "trace.json"
        example = [sys.executable, str(ROOT / "examples" / "simulated_timeline.py"), "syncs", "--trace", str(trace)]
        subprocess.run(example, check=True, capture_output=True)
        home = homes(folder)
        pairs = {"import": (line(options.old, home["old"], [], "import hotlap"), line(HERE, home["new"], [], "import hotlap"))}
        for what, (old, new) in commands(trace).items():
            pairs[what] = (line(options.old, home["old"], old), line(HERE, home["new"], new))
        print(f"{'command':<20} {'old':>9} {'new':>9} {'new ÷ old':>10}  95 % interval    verdict at ± {MIN_EFFECT}", flush=True)
        for what, (a, b) in pairs.items():
            for warm in (a, b):
                subprocess.run(warm, shell=True, check=True)
            done = subprocess.run(
                [str(HERE / "hotlap"), "ab", a, b, "--resolve", "20 %", "--min-effect", MIN_EFFECT, "--budget", options.budget, "--json"],
                capture_output=True, text=True, env=os.environ | {"HOTLAP_HOME": str(folder / "ab")}, check=False,
            )  # fmt: skip
            print(shown(what, json.loads(done.stdout)), flush=True)
    return 0


def shown(what: str, answer: dict[str, object]) -> str:
    (one,) = answer["cases"]  # type: ignore[misc]
    if one["value"] is None:
        return f"{what:<20} no answer: {one['reason']}"
    old, new = 1e3 * one["a"]["value"], 1e3 * one["b"]["value"]
    ratio, low, high = (1 / one[name] for name in ("value", "high", "low"))  # of speed: above 1 where this version is faster
    return f"{what:<20} {old:>6.1f} ms {new:>6.1f} ms {ratio:>10.3f}  {low:.3f} – {high:.3f}    {one['state']}"


if __name__ == "__main__":
    sys.exit(main())

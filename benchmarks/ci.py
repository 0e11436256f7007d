"""What a CI gate says of a program in a scratch repository: unchanged (the base's content, committed again), and repository slower.

    python benchmarks/ci.py turns [--repetitions 20] [--seconds 0.9] [--slower '15 %'] [--json]
    python benchmarks/ci.py save FOLDER [--runs 4] [--seconds 0.9] [--load 1]
    python benchmarks/ci.py file FOLDER [--repetitions 20] [--early] [--json]

*turns*: `hotlap gate --measure bench.toml --base HEAD~1`. *save* makes a repository and its baseline file in FOLDER while `--load`
processes keep processors busy; *file*, at least an hour later and without that load, judges by it (`--early`: sooner, and the figure is
not held). The asked figures stand beside each line. Exit code 1 where one is missed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from command import SCRIPT, sized

from hotlap.core import units

PLAN = '[[case]]\nworkload = "command"\nargv = ["{python}", "work.py"]\n'
STATES = {0: "pass", 1: "fail", 2: "refused", 3: "inconclusive"}
HOUR_S = 3600.0


class Repository:
    """A program of so many turns of a loop, committed anew for each trial."""

    def __init__(self, folder: Path, seconds: float | None = None) -> None:
        self.folder, self.home, self.turns_file = folder / "repo", folder / "home", folder / "turns.json"
        if seconds is None:
            self.turns = json.loads(self.turns_file.read_text())
            return
        self.folder.mkdir(parents=True)
        script, _ = sized(folder, seconds)
        self.turns = int(script.read_text().split("range(")[1].split(")")[0])
        self.turns_file.write_text(json.dumps(self.turns))
        (self.folder / "bench.toml").write_text(PLAN.format(python=sys.executable))
        self.git("init", "-q")
        self.commit(1.0)

    def git(self, *words: str) -> None:
        who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", str(self.folder), *who, *words], check=True)

    def commit(self, times: float) -> None:
        (self.folder / "work.py").write_text(SCRIPT.format(turns=round(self.turns * times)))
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", f"times {times:g}")

    def hotlap(self, *words: str) -> tuple[int, str, float]:
        """Exit code, output, wall time in s."""
        began_s = time.monotonic()
        argv = [sys.executable, "-m", "hotlap", *words]
        environment = {**os.environ, "HOTLAP_HOME": str(self.home)}
        done = subprocess.run(argv, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode == 2:
            sys.exit(done.stderr)
        return done.returncode, done.stdout, time.monotonic() - began_s

    def gate(self, *words: str) -> dict[str, Any]:
        """One verdict."""
        code, out, wall_s = self.hotlap("gate", "--measure", "bench.toml", *words)
        kept = max(self.home.glob("runs/*/samples.jsonl"), key=lambda path: path.stat().st_mtime)
        runs = len(kept.read_text().splitlines())
        return {"state": STATES[code], "last": out.strip().splitlines()[-1] if out else "", "runs": runs, "wall_s": round(wall_s, 1)}


def in_turns(repetitions: int, seconds: float, slower: float) -> dict[str, list[dict[str, Any]]]:
    """Planted and no-op trials, one of each at a time."""
    trials: dict[str, list[dict[str, Any]]] = {"planted": [], "no-op": []}
    with tempfile.TemporaryDirectory() as scratch:
        repository = Repository(Path(scratch) / "repository", seconds)
        for _ in range(repetitions):
            for name, times in (("planted", 1 + slower), ("no-op", 1.0)):
                repository.commit(1.0)
                repository.commit(times)
                trials[name].append(repository.gate("--base", "HEAD~1"))
                _progress(name, trials[name][-1])
    return trials


def by_file(folder: Path, repetitions: int, slower: float) -> dict[str, list[dict[str, Any]]]:
    """The same by the baseline file that `save` made."""
    repository, trials = Repository(folder), dict[str, list[dict[str, Any]]]()
    for _ in range(repetitions):
        for name, times in (("planted", 1 + slower), ("no-op", 1.0)):
            repository.commit(times)
            trials.setdefault(name, []).append(repository.gate("--against", "baseline.json", "--match", "class", "--budget", "60 s"))
            _progress(name, trials[name][-1])
    return trials


def save(folder: Path, runs: int, seconds: float, load: int) -> None:
    """The repository and its baseline, under load."""
    repository = Repository(folder, seconds)
    with busy(load):
        for number in range(runs):
            repository.hotlap("run", "bench.toml", "--no-report", "--label", "for=baseline")
            print(f"run {number + 1} of {runs}", file=sys.stderr)
    repository.hotlap("baseline", "save", "for=baseline", "--to", "baseline.json")
    repository.git("add", "-A")
    repository.git("commit", "-q", "-m", "baseline")
    print(f"saved {repository.folder / 'baseline.json'}; python benchmarks/ci.py file {folder}, in an hour at the earliest")


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that do nothing but run."""
    processes = [multiprocessing.Process(target=_spin, daemon=True) for _ in range(count)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.terminate()


def _spin() -> None:
    while True:
        pass


def _progress(name: str, trial: dict[str, Any]) -> None:
    print(f"{name}: {trial}", file=sys.stderr, flush=True)


ASKED = {  # way, trial → the state that is counted, at least or at most, of 20
    ("turns", "planted"): ("fail", "at least", 19), ("turns", "no-op"): ("fail", "at most", 1),
    ("file", "planted"): ("pass", "at most", 1), ("file", "no-op"): ("fail", "at most", 1),
}


def report(way: str, trials: dict[str, list[dict[str, Any]]], held: bool) -> bool:
    """Prints each line with what is asked; whether all of it holds. Only 20 trials are compared with it."""
    well = True
    for name, tried in trials.items():
        counts = Counter(one["state"] for one in tried)
        state, sense, limit = ASKED[way, name]
        holds = counts[state] >= limit if sense == "at least" else counts[state] <= limit
        counted = ", ".join(f"{counts[one]} {one}" for one in ("pass", "fail", "inconclusive"))
        runs = sorted(one["runs"] for one in tried)[len(tried) // 2]
        counts_here = held and len(tried) == 20
        verdict = ("holds" if holds else "MISSED") if counts_here else "fewer or earlier trials than asked"
        print(f"{way:<6} {name:<8} {len(tried)} trials: {counted}; median {runs} runs a side")
        print(f"{'':<15} asked: {state} {sense} {limit} of 20: {verdict}")
        well &= holds or not counts_here
    return well


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way", choices=("turns", "save", "file"))
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.9)
    parser.add_argument("--slower", default="15 %")
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--load", type=int, default=1)
    parser.add_argument("--early", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if (args.way != "turns") != bool(args.folder):
        parser.error("save and file take a folder, turns takes none")
    if args.way == "save":
        save(args.folder.resolve(), args.runs, args.seconds, args.load)
        return 0
    slower, held = units.parse(args.slower, "%"), True
    if args.way == "turns":
        trials = in_turns(args.repetitions, args.seconds, slower)
    else:
        age_s = time.time() - (args.folder / "repo" / "baseline.json").stat().st_mtime
        if age_s < HOUR_S and not args.early:
            sys.exit(f"the baseline is {age_s / 60:.0f} min old; wait until it is an hour old, or give --early")
        held = age_s >= HOUR_S
        trials = by_file(args.folder.resolve(), args.repetitions, slower)
    if args.json:
        print(json.dumps({"way": args.way, "trials": trials}))
    return 0 if report(args.way, trials, held) else 1


if __name__ == "__main__":
    sys.exit(main())

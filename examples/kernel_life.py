"""The life of a kernel: a regression planted in one commit is seen by `hotlap kernel track` and found by `hotlap history bisect`.

    python examples/kernel_life.py [--commits 9] [--every 4] [--folder DIR]

Makes a git repository with a small kernel (a dot product that times itself), one commit of which adds in decimals and so takes some
thirty times as long. Every fourth commit is measured three times, as a nightly job would, and labelled with its revision. `track` then
names the range of revisions that brought the change, `track report` says what to run next, and that search names the commit. Prints the
planted commit and the one that was found. Needs git and a target that runs programs (OpenCL, CUDA or PyTorch).
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

QUICK = "return sum(map(operator.mul, x, y))"
DECIMAL = "return float(sum(map(operator.mul, map(Decimal, x), map(Decimal, y))))"
KERNEL = '''"""A dot product that times itself; revision {number}."""
import operator
import time
from decimal import Decimal

x = [i % 7 + 0.5 for i in range(5000)]
y = [i % 5 - 2.0 for i in range(5000)]


def dot(x, y):
    {body}


times = []
for _ in range(9):
    began = time.perf_counter()
    dot(x, y)
    times.append(time.perf_counter() - began)
print("dot:", min(times) * 1e6, "us")
'''
PLAN = """name = "dot"

[measure]
round_time = "20 ms"
rounds = 1
rounds_max = 1
readings = 0

[[case]]
workload = "command"
argv = [{python}, "-I", "-S", "kernel.py"]
folder = {folder}
read = "pattern"
expression = 'dot: ([0-9.e+-]+)'
scale = 1e-6
"""


def git(repo: Path, *words: str) -> str:
    who = ["-c", "user.name=Ann Example", "-c", "user.email=ann@example.org", "-c", "commit.gpgsign=false", "-c", "init.defaultBranch=main"]
    return subprocess.run(["git", "-C", str(repo), *who, *words], check=True, capture_output=True, text=True).stdout.strip()


def history(repo: Path, commits: int, planted: int) -> list[str]:
    """The repository; its commits, oldest first."""
    repo.mkdir()
    git(repo, "init", "-q")
    for number in range(commits):
        body = DECIMAL if number >= planted else QUICK
        (repo / "kernel.py").write_text(KERNEL.format(number=number, body=body), encoding="utf-8")
        git(repo, "add", ".")
        git(repo, "commit", "-q", "-m", "Add in decimals" if number == planted else f"Change {number}")
    return git(repo, "log", "--reverse", "--format=%h").splitlines()


def verb(*words: str) -> str:
    """A verb of Hotlap in this process, and what it prints, which is printed here too."""
    from hotlap.cli import main

    print(f"\n$ hotlap {' '.join(words)}", flush=True)
    kept = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with redirect_stdout(kept):
        main(words)
        kept.flush()
    said = kept.buffer.getvalue().decode("utf-8")
    print(said, flush=True)
    return said


def measure(repo: Path, plan: Path, revisions: Sequence[str], times: int) -> None:
    """Each revision, checked out, measured some times and labelled."""
    import hotlap

    for revision in revisions:
        git(repo, "checkout", "-q", revision)
        for _ in range(times):
            run = hotlap.run(plan, labels={"revision": revision})
            print(f"measured {revision}: {run.results[0].values[0] * 1e6:.0f} µs", flush=True)
    git(repo, "checkout", "-q", "main")


def main() -> int:
    parser = argparse.ArgumentParser(description="The life of a kernel: a planted regression is seen by track and found by bisect.")
    parser.add_argument("--commits", type=int, default=9, help="of the repository (default: 9)")
    parser.add_argument("--every", type=int, default=4, help="one commit in so many is measured (default: 4)")
    parser.add_argument("--folder", help="where repository and runs are made (default: a temporary folder, removed at the end)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        return journey(Path(args.folder or made).resolve(), args.commits, args.every)


def journey(folder: Path, commits: int, every: int) -> int:
    repo, plan, planted = folder / "repository", folder / "dot.toml", commits - every + every // 2 - 1
    os.environ["HOTLAP_HOME"] = str(folder / "home")
    revisions = history(repo, commits, planted)
    plan.write_text(PLAN.format(python=json.dumps(sys.executable), folder=json.dumps(str(repo))), encoding="utf-8")
    measure(repo, plan, revisions[::every], times=3)
    verb("kernel", "track", "--where", "workload=command")
    from hotlap.core.store import paths, select
    from hotlap.kernels import track

    (life,) = track.track(select.every(paths.home())).lives
    if not life.turns:
        print("track found no change: the machine was too noisy")
        return 1
    turn = life.turns[-1]
    verb("kernel", "track", "report", "--from", turn.before, "--to", turn.after)
    os.chdir(repo)
    answer = verb("history", "bisect", "--good", turn.before, "--bad", turn.after, "--plan", str(plan))
    found = [line.split()[3] for line in answer.splitlines() if line.startswith("first bad commit")]
    print(f"track:   after {turn.before}, by {turn.after}")
    print(f"planted: {revisions[planted]}")
    print(f"bisect:  {', '.join(found) or 'not found'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The tests that need a GPU: which were skipped before the stand-ins for CUDA and torch.cuda, and which of them run now; lines of the
CUDA target that the tests reach.

    python benchmarks/gpu_tests.py skipped [--before REF]
    python benchmarks/gpu_tests.py lines

`skipped` runs the rooms of the tests that measure, at REF (default: the last commit before the stand-ins) and as they are, lists the tests
that REF skipped for want of a GPU by reason, and says how many of them run now. Tests that a GPU skips too, since they are not for its
target or its types, do not count; a deselected test counts as skipped. Exit 1 below 85 %.
`lines` runs the same rooms under coverage.py, processes that tests start included, and lists the lines of `cuda*.py` that none reaches.
Exit 1 below 95 %. Both need the extras test and torch; `lines` also coverage (`pip install coverage`). Several minutes each.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BEFORE = "745f60cb"
CORE = ("targets", "workloads", "measure", "sensors", "trials")
ROOMS = (*(f"tests/core/{room}" for room in CORE), "tests/stress", "tests/kernels", "tests/nodes")
FOR_A_GPU = re.compile(r"\b(GPU|CUDA|cuda|ROCm|libcuda|NVRTC|NVML|[Tt]riton)\b")
NOT_FOR_A_GPU = re.compile(  # why a test is skipped whatever the device is: the target or the data type is not its own
    r"has no library of|measured through|is not claimed|no vector of four|no scalar type|takes no mask|no gradient kernel"
    r"|CUDA and ROCm (devices )?alone|computes nothing"
)
SHARE, LINES = 0.85, 0.95
TARGET = "src/hotlap/core/measure/targets"
COVERAGE = "[run]\nparallel = true\ndata_file = {folder}/data\nsource = {source}\npatch = subprocess, fork, _exit\ncore = ctrace\n"


def outcomes(root: Path, report: Path) -> dict[str, str]:
    """Test → "" where it ran, else why it was skipped; devices are left out of names, since stand-ins have others."""
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    rooms = [room for room in (*ROOMS, "tests/cuda_stand_in", "tests/torch_stand_in") if (root / room).exists()]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", f"--junitxml={report}", "-o", "junit_family=xunit1", *rooms]
    subprocess.run(command, cwd=root, env=environment, stdout=subprocess.DEVNULL, check=False)
    seen: dict[str, str] = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        skip = case.find("skipped")
        name = plain(f"{case.get('file')}::{case.get('name')}")
        if skip is None and case.find("failure") is None and case.find("error") is None:
            seen[name] = ""
        else:
            seen.setdefault(name, skip.get("message") or "" if skip is not None else "failed")
    return seen


def plain(name: str) -> str:
    """`[torch:cuda stand-in ROCm-…]`, `[torch:cuda-…]`, `[cuda:0-…]` and `[cuda-…]` are tests of one GPU."""
    return re.sub(r"\[(torch:)?cuda(:0| stand-in \w+| as \w+)?", r"[\1gpu", name)


def skipped(before: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        old = Path(folder) / "before"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(old), before], cwd=ROOT, check=True)
        try:
            then, now = outcomes(old, Path(folder) / "then.xml"), outcomes(ROOT, Path(folder) / "now.xml")
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(old)], cwd=ROOT, check=False)
    wanted = {
        name: reason for name, reason in then.items()
        if FOR_A_GPU.search(reason) and not NOT_FOR_A_GPU.search(reason) and not NOT_FOR_A_GPU.search(now.get(name, ""))
    }
    runs = [name for name in wanted if now.get(name) == ""]
    left = {name: now.get(name, "the test is gone") for name in wanted if now.get(name) != ""}
    print(f"skipped for want of a GPU at {before}: {len(wanted)}")
    for reason, count in Counter(wanted.values()).most_common():
        print(f"  {count:5}  {reason[:150]}")
    print(f"of these run now: {len(runs)}, {len(runs) / max(len(wanted), 1):.1%} (asked: {SHARE:.0%}); still skipped:")
    for reason, count in Counter(left.values()).most_common():
        print(f"  {count:5}  {reason[:150]}")
    return 0 if wanted and len(runs) >= SHARE * len(wanted) else 1


def lines() -> int:
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "coveragerc"
        settings.write_text(COVERAGE.format(folder=folder, source=ROOT / TARGET))
        environment = {**os.environ, "COVERAGE_RCFILE": str(settings)}
        coverage, tests = [sys.executable, "-m", "coverage"], ["-m", "pytest", "-q", "-n", "2", *ROOMS, "tests/cuda_stand_in"]
        subprocess.run([*coverage, "run", *tests], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=False)
        subprocess.run([*coverage, "combine", "--quiet"], cwd=ROOT, env=environment, check=True)
        out = Path(folder) / "out.json"
        only = f"--include={ROOT / TARGET}/cuda*.py"
        subprocess.run([*coverage, "json", "-q", "-o", str(out), only], cwd=ROOT, env=environment, check=True)
        report = json.loads(out.read_text(encoding="utf-8"))
    for file, seen in sorted(report["files"].items()):
        reached, lines_of_it = (seen["summary"][key] for key in ("covered_lines", "num_statements"))
        print(f"{Path(file).name:20} {reached:4} of {lines_of_it:4} lines  not reached: {seen['missing_lines'] or 'none'}")
    share = report["totals"]["covered_lines"] / report["totals"]["num_statements"]
    print(f"all                  {share:.1%} (asked: {LINES:.0%})")
    return 0 if share >= LINES else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["skipped", "lines"])
    parser.add_argument("--before", default=BEFORE, metavar="REF", help=f"the commit without stand-ins (default: {BEFORE})")
    asked = parser.parse_args()
    return skipped(asked.before) if asked.what == "skipped" else lines()


if __name__ == "__main__":
    sys.exit(main())

"""The tasks that five newcomers tried, each with its commands and what has to be true of the answers; from a bare clone.

    python benchmarks/review [NUMBER …] [--list] [--keep] [--typed]

Prints pass, fail or not run for each task, and exits with 1 if one fails. Times are those of the machine as it is now; nothing is compared with them.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.review.desk import Desk, NotRun
from benchmarks.review.tasks import TASKS, Task


def tried(task: Task, folder: Path) -> tuple[str, str, list[str]]:
    """Verdict, why, and what was typed."""
    desk = Desk(folder)
    try:
        task.do(desk)
    except NotRun as lack:
        return "not run", f"because {lack}", desk.typed
    except AssertionError as failure:
        return "FAIL", str(failure), desk.typed
    except Exception as error:  # an answer of another shape than the task reads
        line = traceback.extract_tb(error.__traceback__)[-1]
        return "FAIL", f"{type(error).__name__}: {error} ({line.name}, {line.line})", desk.typed
    return "pass", "", desk.typed


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("numbers", nargs="*", type=int, help="only these tasks")
    parser.add_argument("--list", action="store_true", help="print the tasks and run none")
    parser.add_argument("--keep", action="store_true", help="keep the folders that the tasks worked in")
    parser.add_argument("--typed", action="store_true", help="print each command with its exit code")
    asked = parser.parse_args()
    tasks = [task for task in TASKS if not asked.numbers or task.number in asked.numbers]
    root, failed = Path(tempfile.mkdtemp(prefix="hotlap-review-")), 0
    for task in tasks:
        began, folder = time.monotonic(), root / f"{task.number:02}"
        folder.mkdir()
        verdict, reason, typed = ("", "", []) if asked.list else tried(task, folder)
        failed += verdict == "FAIL"
        print(f"{task.number:2}  {verdict:8}{'' if asked.list else f'{time.monotonic() - began:6.1f} s  '}{task.persona}: {task.wanted}", flush=True)
        for line in [reason] * bool(reason) + typed * asked.typed:
            print(f"      {line}", flush=True)
    if asked.keep:
        print(f"kept in {root}")
    else:
        shutil.rmtree(root, ignore_errors=True)
    print(f"{len(tasks)} tasks, {failed} failed") if not asked.list else None
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

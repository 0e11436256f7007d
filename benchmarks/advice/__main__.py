"""Is the first finding the true one, and does its gain hold the true gain? Small programs with a known defect, and the table of all.

    python benchmarks/advice [NAME …] [--made] [--jax PYTHON] [--turns 5] [--keep FOLDER]

Made traces come from program.py, event by event; the true gain is what the same program saves with the defect mended. Real programs
(programs.py) are recorded here by the profilers of PyTorch and JAX (`python -m venv jax && jax/bin/pip install jax`); their true gain is
measured without a profiler, in turns. A gain is held where it lies in the interval of its finding, within half a percentage point; a measured
one where the range of its turns meets the interval. Truths were committed before the rules were tried on them.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.advice import measured
from benchmarks.advice.case import Case
from benchmarks.advice.cases import MADE
from benchmarks.advice.judge import Verdict, judged
from benchmarks.advice.measured import Measured, NotRun

LINE = "{:<27}{:<8}{:<22}{:<22}{:>8}  {:<17}{:<5}{}"


class Row(NamedTuple):
    case: Case | Measured
    verdict: Verdict | None
    lack: str = ""


def looked(case: Case | Measured, folder: Path, jax: str, turns: int) -> Row:
    """A case's traces written, read and judged."""
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(case, Case):
        gain = case.gain()
        return Row(case, judged(case.write(folder), case.truth, (gain, gain, gain), case.no_gain))
    try:
        python = measured.interpreter(case.plan, jax)
        return Row(case, judged(case.write(folder, python), case.truth, case.gain(python, turns), case.no_gain))
    except NotRun as lack:
        return Row(case, None, str(lack))


def line(row: Row) -> str:
    case, verdict = row.case, row.verdict
    kind = "run" if isinstance(case, Measured) else "fresh" if case.fresh else "made"
    if verdict is None:
        return f"{case.name:<27}{kind:<8}not run: {row.lack}"
    marks = [mark for mark, missed in (("not the first", not verdict.first_is_true), ("not held", not verdict.held)) if missed]
    gain = "–" if case.no_gain else f"{100 * verdict.gain[0]:.1f} %"
    return LINE.format(
        case.name,
        kind,
        case.truth or "nothing",
        verdict.first or "nothing",
        gain,
        verdict.interval,
        "" if marks else "yes",
        ", ".join(marks),
    ).rstrip()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these cases")
    parser.add_argument("--made", action="store_true", help="only the made traces: the same everywhere")
    parser.add_argument("--jax", default="", metavar="PYTHON", help="a Python that has JAX")
    parser.add_argument("--turns", type=int, default=5, help="pairs of runs for a measured gain")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the traces there")
    asked = parser.parse_args()
    known: Sequence[Case | Measured] = (*MADE, *(() if asked.made else measured.CASES))
    if unknown := {*asked.names} - {case.name for case in known}:
        parser.error(f"there is no case {min(unknown)}; valid: {', '.join(case.name for case in known)}")
    print(LINE.format("case", "trace", "true first finding", "first finding", "gain", "interval", "held", "").rstrip())
    rows = []
    with contextlib.ExitStack() as stack:
        folder = asked.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for case in known:
            if not asked.names or case.name in asked.names:
                rows.append(looked(case, folder / case.name, asked.jax, asked.turns))
                print(line(rows[-1]), flush=True)
    verdicts = [row.verdict for row in rows if row.verdict]
    first, held = (sum(getattr(verdict, name) for verdict in verdicts) for name in ("first_is_true", "held"))
    print(f"\n{len(verdicts)} cases: the first finding is the true one in {first}, the interval holds the gain in {held}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What `hotlap training converge` promises: the example of MLPerf's rules to its digits, logs that mlperf-logging accepts, and a real case.

    python benchmarks/training_converge.py [--runs 6] [--checker FOLDER] [--skip-checker]

`rules`: the two references of training_rules.adoc. `real`: `training_converge_text.py` with a batch of 256 against 1,024, and against
itself (a few minutes). `checker`: the compliance checker of mlperf-logging 4.1.68 on each log, and its `rcp_checker` beside our bound; it
is installed into an environment of its own (`--checker`: one that is there).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from hotlap.training import converge  # noqa: E402

VERSION = "4.1.68"
FIRST, SECOND = [16, 14, 16, 17, 16, 16, 15, 16, 15, 16], [19, 20, 20, 20, 21, 21, 21, 21, 22, 22]
PROGRAM = ROOT / "benchmarks" / "training_converge_text.py"
RCP = """
import json, sys
from mlperf_logging.rcp_checker.rcp_checker import RCP_Checker
checker = RCP_Checker.__new__(RCP_Checker)
checker.alpha, checker.tolerance, checker.submission_runs = 0.05, 1e-6, 5
print(json.dumps([float(checker._find_min_acceptable_mean(m, s, 8)) for m, s in json.loads(sys.argv[1])]))
"""


def rules() -> list[tuple[float, float]]:
    print("rules: mean, deviation, least mean of 5 runs, most speed-up")
    known = []
    for name, values in (("batch 1", FIRST), ("batch 2", SECOND)):
        reference = converge.reference(1, values)
        assert reference is not None
        least = converge.least(reference, 5)
        print(f"  {name}: {reference.mean:.2f}  {reference.sd:.3f}  {least:.2f}  {reference.mean / least - 1:.2%}")
        known.append((reference.mean, reference.sd))
    return known


def real(runs: int, folder: Path) -> list[Path]:
    """The verb on the real training; the logs that it kept."""
    larger = folder / "larger.py"
    larger.write_text(f"import os, runpy\nos.environ['BATCH'] = '1024'\nrunpy.run_path({str(PROGRAM)!r}, run_name='__main__')\n")
    own = {"HOTLAP_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
    environment = {**os.environ, **own}
    for name, b in (("256 against 1,024", larger), ("256 against itself", PROGRAM)):
        print(f"real: a batch of {name}, {runs} runs each", flush=True)
        command = [sys.executable, "-m", "hotlap", "training", "converge", str(PROGRAM), str(b), "--runs", str(runs)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        print("\n".join(f"  {line}" for line in done.stdout.splitlines()[2:]))
        print(f"  exit code {done.returncode}")
    return sorted((folder / "home" / "runs").glob("*/log-*.txt"))


def checker(place: Path) -> str:
    """A Python with mlperf-logging."""
    python = place / "bin" / "python"
    if not python.is_file():
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", f"mlperf-logging=={VERSION}"], check=True)
    return str(python)


def checked(python: str, logs: list[Path], known: list[tuple[float, float]], folder: Path) -> None:
    accepted = 0
    for log in logs:
        command = [python, "-m", "mlperf_logging.compliance_checker", "--usage", "training", "--ruleset", "5.1.0", str(log)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
        accepted += done.returncode == 0 and "SUCCESS" in done.stdout + done.stderr
    last = (done.stdout + done.stderr).strip().splitlines()[-1] if logs else "no logs"
    print(f"checker: mlperf-logging {VERSION} accepts {accepted} of {len(logs)} logs (open division, 5.1.0); the last: {last}")
    done = subprocess.run([python, "-c", RCP, json.dumps(known)], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"training_converge: rcp_checker: {done.stderr[-500:]}")
    ours = [converge.least(converge.BatchReference(1, mean, sd, 8), 5) for mean, sd in known]
    for (mean, _), theirs, own in zip(known, json.loads(done.stdout), ours, strict=True):
        print(f"  least mean for a reference of {mean:.2f}: rcp_checker's function {theirs:.4f}, ours {own:.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--checker", type=Path, help="an environment with mlperf-logging, or where to make it")
    parser.add_argument("--skip-checker", action="store_true")
    args = parser.parse_args()
    known = rules()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        logs = real(args.runs, folder)
        if not args.skip_checker:
            checked(checker(args.checker or folder / "checker"), logs, known, folder)


if __name__ == "__main__":
    main()

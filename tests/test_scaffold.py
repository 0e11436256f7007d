"""`scripts/new` in a scratch copy: each new thing is whole but for the test that says what to write."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TOUCHED = {"workload": 5, "target": 2, "sensor": 2, "reader": 2, "feature": 6}  # files, their test aside
STRUCTURE = (
    "tests/test_house.py", "tests/test_manual.py", "tests/test_words.py", "tests/test_sentences.py", "tests/core/work/test_workloads_whole.py",
    "tests/core/work/test_workload_names.py", "tests/core/plan/test_plan_ids.py", "tests/cli/test_cli.py",
)  # fmt: skip


def new(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([root / "scripts/new", *words], env=os.environ | {"PYTHON": sys.executable}, capture_output=True, text=True, check=False)


def run(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": str(root / "src"), "PYTHON": sys.executable, "HOTLAP_HOME": str(root / "home")}
    return subprocess.run([Path(sys.executable).parent / words[0], *words[1:]], cwd=root, env=env, capture_output=True, text=True, timeout=900, check=False)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("scratch")
    for name in ("src", "tests", "docs", "scripts", "research"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for path in (*ROOT.glob("*.md"), ROOT / "pyproject.toml"):
        shutil.copy(path, root)
    return root


@pytest.mark.slow("copies the repository and runs tests in the copy")
def test_each_kind_is_made_fails_as_it_should_and_breaks_nothing_else(scratch: Path) -> None:
    tests = []
    for kind, files in TOUCHED.items():
        made = new(scratch, kind, f"new_{kind}")
        assert made.returncode == 0, made.stderr
        assert f"{files} files touched, and their test" in made.stdout
        tests += re.findall(r"^test +(\S+)$", made.stdout, re.MULTILINE)
        again = new(scratch, kind, f"new_{kind}")
        assert (again.returncode, again.stdout, again.stderr.count("\n")) == (2, "", 1)
        assert f"'new_{kind}' exists" in again.stderr
    failing = run(scratch, "pytest", "-p", "no:cacheprovider", *tests)
    assert failing.returncode == 1
    assert f"{len(TOUCHED)} failed in" in failing.stdout, failing.stdout[-3000:]
    for kind in TOUCHED:
        assert re.search(rf"^E +AssertionError: write .*new_{kind}|^E +AssertionError: write .*New{kind.capitalize()}", failing.stdout, re.MULTILINE), kind
    structure = run(scratch, "pytest", "-p", "no:cacheprovider", "-m", "not slow", *STRUCTURE)
    assert structure.returncode == 0, structure.stdout[-3000:]
    for checks in (("ruff", "check", "src", "tests"), ("mypy",), ("lint-imports", "--no-logo")):
        if shutil.which(checks[0], path=str(Path(sys.executable).parent)):
            done = run(scratch, *checks)
            assert done.returncode == 0, done.stdout[-3000:] + done.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("target", "opencl"), "a target 'opencl' exists"),
        (("workload", "gemm"), "a workload 'gemm' exists"),
        (("feature", "stress"), "a feature 'stress' exists"),
        (("sensor", "Bad-Name"), "'Bad-Name' is no name of a module"),
        (("reader", "class"), "'class' is no name of a module"),
        (("page", "mine"), "usage: scripts/new workload|target|sensor|reader|feature NAME"),
        ((), "usage: scripts/new workload|target|sensor|reader|feature NAME"),
    ],
)
def test_what_cannot_be_made_is_refused_in_one_line(words: tuple[str, ...], reason: str) -> None:
    done = new(ROOT, *words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"scripts/new: {reason}")

"""The pytest plugin, in sessions of pytest as a user starts them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TESTS = """
import sys

def test_sum(hotlap_bench):
    assert hotlap_bench(sum, range(1000)) == 499500

def test_other(hotlap_bench):
    assert hotlap_bench(sorted, [2, 1]) == [1, 2]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "test_it.py").write_text(TESTS)
    return tmp_path


def run(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Whether or not the installed package names its entry point."""
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:hotlap", "-p", "hotlap.pytest_plugin", "-p", "no:cacheprovider", *words]
    environment = os.environ | {"HOTLAP_HOME": str(project / "home"), "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "100"}
    return subprocess.run(argv, cwd=project, env=environment, capture_output=True, text=True, check=False, timeout=600)


def kept(project: Path) -> list[Path]:
    return sorted((project / "home" / "runs").iterdir()) if (project / "home" / "runs").is_dir() else []


def test_the_package_names_the_plugin() -> None:
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert document["project"]["entry-points"]["pytest11"] == {"hotlap": "hotlap.pytest_plugin"}


def test_without_the_option_the_function_runs_once_and_nothing_is_imported(project: Path) -> None:
    (project / "test_it.py").write_text(
        "import sys\ncalls = []\n"
        "def test_it(hotlap_bench):\n"
        "    assert hotlap_bench(lambda x: calls.append(x) or 7, 3) == 7\n    assert calls == [3]\n"
        "    assert [name for name in sys.modules if name.startswith('hotlap.')] == ['hotlap.pytest_plugin']\n"
        "def test_benchmark_is_not_ours(request):\n    import hotlap.pytest_plugin\n    assert not hasattr(hotlap.pytest_plugin, 'benchmark')\n"
    )
    done = run(project)
    assert (done.returncode, kept(project)) == (0, []), done.stdout


@pytest.mark.slow("measures two functions twice, in sessions of their own")
def test_with_it_a_run_is_kept_and_a_baseline_of_it_judges(project: Path) -> None:
    words = ["--hotlap-round-time", "30 ms"]
    done = run(project, "--hotlap", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = kept(project)
    cases = json.loads((folder / "run.json").read_text())["plan"]["cases"]
    assert [case["params"]["name"] for case in cases] == ["test_it.py::test_sum", "test_it.py::test_other"]
    assert f"hotlap baseline save {folder.name} --to baseline.json" in done.stdout
    baseline = project / "baseline.json"
    save = [sys.executable, "-m", "hotlap", "baseline", "save", folder.name, "--to", str(baseline)]
    subprocess.run(save, env=os.environ | {"HOTLAP_HOME": str(project / "home")}, check=True, capture_output=True)
    done = run(project, f"--hotlap={baseline}", *words)
    assert (done.returncode, "1 run cannot show how processes differ" in " ".join(done.stdout.split())) == (0, True), done.stdout
    document = json.loads(baseline.read_text())
    for reference in document["references"]:  # four runs, each a hundred times as fast as this machine
        values = next(iter(reference["runs"].values()))
        reference["runs"] = {f"2026110{n}T000000-abcdef": [v / 100 for v in values] for n in range(1, 5)}
    baseline.write_text(json.dumps(document))
    done = run(project, f"--hotlap={baseline}", *words)
    assert done.returncode == 1, done.stdout
    assert "FAIL" in done.stdout
    assert "2 passed" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--hotlap", "test_it.py"], "write: pytest test_it.py --hotlap"), (["--hotlap=none.json"], "there is no baseline file"), (["--hotlap", "-n", "2"], "leave out -n"),
        (["--hotlap", "--hotlap-round-time", "soon"], "round_time"),
    ],
)  # fmt: skip
def test_wrong_words_are_refused_before_a_test_runs(words: list[str], message: str, project: Path) -> None:
    done = run(project, *words)
    assert (done.returncode, message in done.stderr, kept(project)) == (4, True, []), done.stderr + done.stdout


@pytest.mark.slow("measures a function in a session of its own")
def test_a_second_call_in_one_test_is_refused(project: Path) -> None:
    (project / "test_it.py").write_text("def test_it(hotlap_bench):\n    hotlap_bench(sum, [1])\n    hotlap_bench(sum, [2])\n")
    done = run(project, "--hotlap", "--hotlap-round-time", "20 ms")
    assert (done.returncode, "one function a test" in done.stdout) == (1, True), done.stdout

"""The measuring arm needs NumPy and msgspec alone: every other package is hidden from a simulated run."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

HIDE = """
    # Put on the path of every Python process of the test: only these packages can be found outside the standard library.
    import importlib.machinery, sys

    ALLOWED = {"hotlap", "numpy", "msgspec", "sitecustomize"}

    class Hidden:
        @staticmethod
        def find_spec(name, path=None, target=None):
            top = name.partition(".")[0]
            if top in ALLOWED or top in sys.stdlib_module_names or path is not None:
                return None
            spec = importlib.machinery.PathFinder.find_spec(name, path)
            if spec is not None and "site-packages" in (spec.origin or ""):
                raise ModuleNotFoundError(f"No module named {name!r} (hidden by the test)", name=name)
            return None

    sys.meta_path.insert(0, Hidden)
"""


@pytest.mark.slow("a run in fresh processes")
def test_simulated_run_with_numpy_and_msgspec_alone(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(textwrap.dedent(HIDE), encoding="utf-8")
    environment = {"PYTHONPATH": f"{tmp_path}:{ROOT / 'src'}", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "minimal" / "simulated.py")], capture_output=True, text=True, env=environment, cwd=tmp_path,
        timeout=300, check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cases simulated" in done.stdout


@pytest.mark.slow("a run in fresh processes")
def test_hidden_packages_are_hidden(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(textwrap.dedent(HIDE), encoding="utf-8")
    argv = [sys.executable, "-c", "import numpy, msgspec\nimport pytest"]
    done = subprocess.run(argv, capture_output=True, text=True, env={"PYTHONPATH": str(tmp_path)}, check=False)
    assert done.returncode == 1
    assert "hidden by the test" in done.stderr

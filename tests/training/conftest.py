"""A home of the test's own for the programs that are trained."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import hotlap


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(hotlap.__file__).parents[1]), str(tmp_path)]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return tmp_path

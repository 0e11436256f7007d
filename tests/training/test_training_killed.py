"""hotlap training run, killed in the middle: every step that ended is shown, the program ends, and what two runs compare is kept."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import hotlap
from hotlap.cli import main
from hotlap.core.store import bundle as bundles
from hotlap.training import show_kind
from hotlap.training.record import COLUMNS


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a program goes on without Hotlap")
def test_killed_in_the_middle_it_shows_every_step_that_ended_and_ends_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(hotlap.__file__).parents[1])]))
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent("""
        import hotlap, json, os, time
        third = json.loads(os.environ["HOTLAP_TRAINING"])["number"] == 2
        with hotlap.steps() as t:
            for place in t.loader(range(10 ** 6)):
                time.sleep(600 if third and place == 9 else 0.001)
                t.step(tokens=2)
    """))
    command = [sys.executable, "-m", "hotlap", "training", "run", str(script), "--steps", "30", "--processes", "3", "--data", "real"]
    runs = tmp_path / "home" / "runs"
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not [f for f in runs.rglob("steps-2-*.bin") if f.stat().st_size >= 8 * len(COLUMNS) * 9]:
            time.sleep(0.05)
        process.kill()
        process.communicate(timeout=60)
    folder = next(runs.iterdir())
    (file,) = folder.glob("steps-2-*.bin")
    program = Path(f"/proc/{file.stem.rpartition('-')[2]}")
    while time.monotonic() < deadline and program.exists():
        time.sleep(0.05)
    assert not program.exists()
    shown = show_kind.read(bundles.load(folder))
    assert shown is not None
    assert [one.steps for one in shown.run.trained.processes] == [31, 31, 9]
    assert shown.run.trained.processes[2].loaders == ["t.loader"]
    assert shown.summary.arms[0].processes == 3
    assert [one.round for one in shown.run.bundle.samples] == [0, 1]  # for compare
    assert main(["show", "latest"]) == 0
    printed = capsys.readouterr().out
    assert "not finished: it was killed" in printed
    assert "ended by itself" not in printed

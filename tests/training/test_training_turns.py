"""Two scripts that are compared take turns by stretches of steps: who runs when, what ends it, and what is kept whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import hotlap
from hotlap.cli import main
from hotlap.core.store import bundle as bundles
from hotlap.training import show_kind, turns
from hotlap.training.reading import MeasuredProcess
from hotlap.training.record import COLUMNS, column
from hotlap.training.recorder.turns import STEPS
from hotlap.training.show_kind import ShownTraining

SLOW = """
    import time, hotlap
    with hotlap.steps() as t:
        for place in range({steps}):
            time.sleep(0.01)
            {more}
            t.step(tokens=8)
"""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a program's turn is passed on by sockets and files of Linux")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("PYTHONPATH", str(Path(hotlap.__file__).parents[1]))
    return tmp_path


def script(home: Path, name: str, steps: int = 40, more: str = "pass", before: str = "") -> str:
    path = home / name
    path.write_text(before + textwrap.dedent(SLOW).format(steps=steps, more=more))
    return str(path)


def compared(first: str, second: str, *more: str) -> ShownTraining:
    main(["training", "run", first, "--against", second, "--processes", "1", "--steps", "22", *more])
    return latest()


def latest() -> ShownTraining:
    shown = show_kind.read(bundles.load(max((Path(os.environ["HOTLAP_HOME"]) / "runs").iterdir())))
    assert shown is not None
    return shown


def sides(shown: ShownTraining) -> tuple[MeasuredProcess, MeasuredProcess]:
    a, b = (launch[0] for launch in shown.run.launches)
    assert (a.process.arm, b.process.arm) == ("A", "B")
    return a, b


def order(a: MeasuredProcess, b: MeasuredProcess) -> str:
    """Whose step ended, by the clock that both share; neighbours of one side once."""
    ended = sorted([(time, "A") for time in column(a.table, "ended")] + [(time, "B") for time in column(b.table, "ended")])
    return "".join(side for place, (_, side) in enumerate(ended) if not place or ended[place - 1][1] != side)


def test_each_runs_for_a_stretch_and_waits_while_the_other_does(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = compared(script(home, "a.py"), script(home, "b.py"))
    a, b = sides(shown)
    assert a.process.resumed == b.process.resumed == [STEPS * place + 1 for place in range(1, 5)]
    assert order(a, b) == "AB" * 5
    assert [one.ended for one in (a.process, b.process)] == ["asked", "asked"]
    assert len(a.table) == len(b.table) == 23
    gaps = np.diff(column(a.table, "ended"))
    waited = [place - 2 for place in a.process.resumed]
    assert gaps[waited].min() > 0.05  # the other one's five steps lie between
    assert column(a.table, "time").max() < gaps[waited].min()  # and are in no step of this one
    used = column(a.table, "number")[a.steady.first - 1 :]
    assert a.steady.steps == len(set(used) - set(a.process.resumed))  # the first after a wait is in no figure
    assert "in turns by stretches of steps with" in capsys.readouterr().out


def test_one_by_one_is_as_it_was(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = sides(compared(script(home, "a.py"), script(home, "b.py"), "--one-by-one"))
    assert (a.process.resumed, b.process.resumed, order(a, b)) == ([], [], "AB")
    assert ", in turns with" in capsys.readouterr().out


def test_without_memory_for_both_the_second_waits_until_the_first_has_ended(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "ROOM", 1e9)
    a, b = sides(compared(script(home, "a.py"), script(home, "b.py")))
    assert order(a, b) == "AB"
    assert (a.process.steps, b.process.steps) == (23, 23)


def test_a_program_that_works_on_while_it_waits_has_no_more_turns(home: Path) -> None:
    thread = "import threading\ndef work():\n    while True: sum(range(1000))\nthreading.Thread(target=work, daemon=True).start()\n"
    a, b = sides(compared(script(home, "a.py", before=thread), script(home, "b.py")))
    assert len(a.process.resumed) == 1
    assert (a.process.steps, b.process.steps) == (23, 23)


def test_one_that_has_opened_an_accelerator_never_waits(home: Path) -> None:
    opened = "import hotlap.training.recorder.turns as turns\nturns.DEVICES = ('/dev/null',)\nkept = open('/dev/null')\n"
    a, b = sides(compared(script(home, "a.py", before=opened), script(home, "b.py", before=opened)))
    assert order(a, b) == "AB"
    assert a.process.resumed == b.process.resumed == []  # so that its energy is its own
    assert (a.process.steps, b.process.steps) == (23, 23)


def test_a_program_that_starts_another_of_ours_keeps_its_turn(home: Path) -> None:
    more = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import hotlap; [hotlap.step() for _ in range(9)]']) if place == 7 else 0"
    a, b = sides(compared(script(home, "a.py", more=more), script(home, "b.py")))
    assert order(a, b) == "AB" * 5
    assert (a.process.steps, b.process.steps) == (23, 23)


@pytest.mark.parametrize("which", [0, 1])
def test_one_that_fails_leaves_the_other_to_its_end(home: Path, capsys: pytest.CaptureFixture[str], which: int) -> None:
    names = [script(home, name, more="if place == 12: raise ValueError('no')" if place == which else "pass") for place, name in enumerate("ab")]
    words = [names[0] + ".py", "--against", names[1] + ".py", "--processes", "6", "--steps", "22"]
    for name in names:
        os.rename(name, name + ".py")
    assert main(["training", "run", *words]) == 2
    shown = latest()
    assert [one.process.steps for one in sides(shown)] == ([12, 23] if which == 0 else [23, 12])
    assert "ValueError" in capsys.readouterr().out


def test_a_first_program_that_fails_before_its_first_rest_is_alone(home: Path) -> None:
    text = script(home, "a.py", more="if place == 2: raise ValueError('no')")
    assert main(["training", "run", text, "--against", script(home, "b.py"), "--processes", "6"]) == 2
    assert [one.arm for one in latest().run.trained.processes] == ["A"]


def test_time_is_counted_while_a_program_has_its_turn(home: Path) -> None:
    shown = compared(script(home, "a.py"), script(home, "b.py", more="time.sleep(600 if place == 7 else 0)"), "--limit", "2 s")
    a, b = sides(shown)
    assert (a.process.ended, a.process.steps) == ("asked", 23)
    assert (b.process.ended, b.process.steps) == ("time", 7)


def test_killed_in_the_middle_both_programs_end_and_their_steps_are_shown(home: Path) -> None:
    slept = "time.sleep(600 if place == 7 else 0)"
    first, second = script(home, "a.py", 10**6), script(home, "b.py", 10**6, slept)
    command = [sys.executable, "-m", "hotlap", "training", "run", first, "--against", second, "--processes", "1", "--steps", "1000"]
    folder = home / "home" / "runs"
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not [f for f in folder.rglob("steps-1-*.bin") if f.stat().st_size >= 8 * len(COLUMNS) * 7]:
            time.sleep(0.05)
        process.kill()
        process.communicate(timeout=60)
    programs = [Path(f"/proc/{file.stem.rpartition('-')[2]}") for file in folder.rglob("steps-*.bin")]
    assert len(programs) == 2
    while time.monotonic() < deadline and any(one.exists() for one in programs):
        time.sleep(0.05)
    assert not any(one.exists() for one in programs)
    a, b = sides(latest())
    assert (a.process.ended, b.process.ended) == ("interrupted", "interrupted")
    assert (a.process.steps, b.process.steps) == (2 * STEPS, 7)


def test_ctrl_c_ends_both_and_keeps_their_steps(home: Path) -> None:
    first, second = script(home, "a.py", 10**6), script(home, "b.py", 10**6)
    command = [sys.executable, "-m", "hotlap", "training", "run", first, "--against", second, "--processes", "2", "--steps", "100000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not [f for f in home.rglob("steps-1-*.bin") if f.stat().st_size >= 8 * len(COLUMNS) * 9]:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert all(one.process.ended == "interrupted" and one.process.steps >= 5 for one in sides(latest()))

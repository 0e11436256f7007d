"""One execution of a program: what it takes, what it cannot do, and that nothing of it is left."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hotlap.core.measure.spawn import Launcher, TimedOut, shell
from hotlap.core.measure.supervisor import kill


def launch(*argv: str, **more: object) -> Launcher:
    return Launcher(argv, os.environ, **more)  # type: ignore[arg-type]


def gone(pid: int) -> bool:
    """Ended, though its parent may not have heard of it yet."""
    for _ in range(200):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state in "ZX":
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("output", ["null", "pipe"])
def test_an_execution_is_timed_from_start_to_end(output: str) -> None:
    done = launch("sh", "-c", "sleep 0.1; echo out; echo err >&2; exit 3", output=output).once()
    assert done.seconds >= 0.1
    assert done.status == 3
    assert (done.output, done.errors) == (("out\n", "err\n") if output == "pipe" else ("", ""))


def test_what_it_used_of_the_machine_is_counted() -> None:
    done = launch(sys.executable, "-c", "x = bytearray(64 << 20)").once()
    assert done.peak_bytes is not None
    assert done.peak_bytes > 64 << 20
    assert done.user_s is not None
    assert done.system_s is not None
    assert done.user_s + done.system_s > 0


def test_a_signal_that_ends_it_is_its_status() -> None:
    assert launch("sh", "-c", "kill -9 $$").once().status == -9


def test_megabytes_of_output_are_dropped() -> None:
    assert launch("sh", "-c", "head -c 50000000 /dev/zero").once().status == 0


def test_who_reads_or_needs_a_terminal_ends_at_once() -> None:
    assert launch("cat").once().status == 0
    assert launch("sh", "-c", ": < /dev/tty").once().status != 0


def test_signals_that_python_ignores_are_not_ignored_in_it() -> None:
    assert launch("sh", "-c", "kill -PIPE $$").once().status < 0


@pytest.mark.parametrize("more", [{}, {"output": "pipe"}, {"folder": "/"}])
def test_its_time_out_ends_all_that_it_started(tmp_path: Path, more: dict[str, str]) -> None:
    pid = tmp_path / "pid"
    with pytest.raises(TimedOut):
        launch("sh", "-c", f"sleep 60 & echo $! > {pid}; wait", timeout_s=1.0, **more).once()
    assert gone(int(pid.read_text()))


def test_a_worker_that_is_killed_takes_its_programs_with_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    code = f"import os; from hotlap.core.measure.spawn import Launcher; Launcher(['sh', '-c', 'echo $$ > {pid}; sleep 60'], os.environ).once()"
    worker = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    while not pid.exists() or not pid.read_text().strip():
        time.sleep(0.02)
    kill(worker)
    assert gone(int(pid.read_text()))


def test_a_folder_and_variables_are_the_programs(tmp_path: Path) -> None:
    Launcher(["sh", "-c", "echo $X > here"], {**os.environ, "X": "5"}, str(tmp_path)).once()
    assert (tmp_path / "here").read_text() == "5\n"


def test_what_is_not_there_is_an_error_of_the_system() -> None:
    with pytest.raises(FileNotFoundError):
        launch("/no/such/program").once()


def test_a_line_of_shell_keeps_its_last_words() -> None:
    done = shell("echo so >&2; false", os.environ)
    assert (done.status, done.errors) == (1, "so\n")

"""One run per device at a time, between real processes."""

from __future__ import annotations

import builtins
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hotlap.errors import Busy, MachineError
from hotlap.store import locks

HOLD = """
import sys
from pathlib import Path
from hotlap.store import locks
with locks.hold(sys.argv[1], Path(sys.argv[2])):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the device GPU-1 until a line comes."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, "GPU-1", str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        if process.poll() is None:
            process.kill()


def test_a_device_that_is_held_names_its_owner(other: subprocess.Popen[str], tmp_path: Path) -> None:
    with pytest.raises(Busy, match=rf"the device GPU-1 is held by process {other.pid} since 20\d\d-\d\d-\d\dT.*\+00:00 \(-c GPU-1"), ExitStack() as stack:
        stack.enter_context(locks.hold("GPU-1", tmp_path))
    held = locks.owner("GPU-1", tmp_path)
    assert held is not None
    assert (held.pid, held.device) == (other.pid, "GPU-1")
    with locks.hold("GPU-2", tmp_path):
        pass  # another device is free


def test_waiting_ends_with_a_name_or_with_the_device(other: subprocess.Popen[str], tmp_path: Path) -> None:
    with pytest.raises(Busy, match=r"did not let go within 0\.2 s"), ExitStack() as stack:
        stack.enter_context(locks.hold("GPU-1", tmp_path, wait_s=0.2))
    assert other.stdin is not None
    other.stdin.write("\n")
    other.stdin.flush()
    with locks.hold("GPU-1", tmp_path, wait_s=60):
        held = locks.owner("GPU-1", tmp_path)
        assert held is not None
        assert held.pid == os.getpid()


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX")
def test_death_lets_go_and_what_it_left_is_harmless(other: subprocess.Popen[str], tmp_path: Path) -> None:
    other.send_signal(signal.SIGKILL)
    other.wait()
    left = locks.owner("GPU-1", tmp_path)
    assert left is not None
    assert left.pid == other.pid
    with locks.hold("GPU-1", tmp_path):
        assert locks.owner("GPU-1", tmp_path) != left


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[1]", b'{"pid": "x"}'])
def test_any_content_is_harmless(tmp_path: Path, content: bytes) -> None:
    with locks.hold("GPU-1", tmp_path):
        (path,) = (tmp_path / "locks").iterdir()
        path.write_bytes(content)
        assert locks.owner("GPU-1", tmp_path) is None
        with pytest.raises(Busy, match="is held by another process; wait"), ExitStack() as stack:
            stack.enter_context(locks.hold("GPU-1", tmp_path))
    with locks.hold("GPU-1", tmp_path):
        assert locks.owner("GPU-1", tmp_path) is not None


def test_an_error_inside_lets_go_and_passes_through(tmp_path: Path) -> None:
    def fail() -> None:
        with locks.hold("GPU-1", tmp_path):
            raise OSError("of the measuring")

    with pytest.raises(OSError, match="of the measuring"):
        fail()
    with locks.hold("GPU-1", tmp_path):
        pass


def test_any_key_is_a_file_name(tmp_path: Path) -> None:
    keys = ["opencl:0:Intel(R) Xeon(R) / 2 cores", "../..", "x" * 5000, "\udcff", ""]
    with ExitStack() as stack:
        for key in keys:
            stack.enter_context(locks.hold(key, tmp_path))
    assert len(list((tmp_path / "locks").iterdir())) == len(keys)


def test_a_home_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "locks").write_text("")
    with pytest.raises(MachineError, match="set HOTLAP_HOME"), ExitStack() as stack:
        stack.enter_context(locks.hold("GPU-1", tmp_path))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows locks by msvcrt")
def test_without_fcntl_measuring_goes_on_and_the_log_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "fcntl":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with locks.hold("GPU-1", tmp_path):
        assert "no fcntl" in caplog.text


def test_polling_is_by_the_clock_not_by_the_count(other: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(locks.time, "monotonic", lambda: sum(slept))
    monkeypatch.setattr(locks.time, "sleep", slept.append)
    with pytest.raises(Busy), ExitStack() as stack:
        stack.enter_context(locks.hold("GPU-1", tmp_path, wait_s=1.05))
    assert sum(slept) == pytest.approx(1.05)
    assert max(slept) <= locks.POLL_S
    assert time.monotonic() == sum(slept)

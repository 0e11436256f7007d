"""The supervisor of worker processes: what it hears of them, and how they end. The workers are short shell scripts."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hotlap.core.measure import supervisor
from hotlap.core.measure.process import WorkerProcess
from hotlap.core.measure.supervisor import Process, together
from hotlap.core.record import Record

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="shell scripts")
FOREVER = "sleep 1000"


class Job(Record, frozen=True, kw_only=True):
    spec: str = "test"


Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """A process that runs this script in place of Python."""

    def started(script: str, limit_s: float = 60.0, stop: threading.Event | None = None) -> Process:
        file = tmp_path / "worker"
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", str(file))
            return Process("some.module", Job(), limit_s, stop or threading.Event())

    return started


def gone(pid: int) -> bool:
    """Whether a process that is no child of ours ends within a minute; an entry that nobody asks for counts as ended."""
    for _ in range(1200):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_a_process_gets_its_job_and_what_is_written_to_it(start: Start) -> None:
    with start('read job; echo "$1 $2 $3 $job"; read more; echo "$more"') as process:
        heard = []
        for line in process.lines():
            heard.append(line)
            process.write(b"more\n")
    assert heard == [b'-P -m some.module {"spec":"test"}', b"more"]
    assert (process.status, process.ending(), process.last_words()) == (0, "ended with status 0", "it said nothing")


def test_lines_are_whole_and_a_torn_one_is_left_out(start: Start) -> None:
    with start("printf 'on'; sleep 0.3; printf 'e\\ntwo\\nthr'") as process:
        assert list(process.lines()) == [b"one", b"two"]
    assert process.silent_s > 0  # while it slept


def test_how_a_process_ended_and_its_last_words(start: Start) -> None:
    with start("echo first >&2; echo ' no luck ' >&2; echo >&2; exit 3") as process:
        assert list(process.lines()) == []
    assert (process.status, process.ending(), process.last_words()) == (3, "ended with status 3", "no luck")
    with start("kill -SEGV $$") as process:
        assert list(process.lines()) == []
    assert process.ending() == "was ended by SIGSEGV"
    with start("printf '%0400d' 7 >&2") as process:
        assert list(process.lines()) == []
    assert process.last_words() == "0" * 300


def test_a_process_that_says_nothing_has_hung_and_is_ended_with_all_that_it_started(start: Start) -> None:
    with start(f"{FOREVER} & echo $!; {FOREVER}", limit_s=0.5) as process:
        child = int(next(iter(process.lines())))
        assert not process.hung
        assert list(process.lines()) == []
        assert process.hung
    assert (process.status, process.ending()) == (-9, "did not answer for 0 s and was stopped")
    assert gone(child)


def test_silence_is_counted_from_the_last_word(start: Start) -> None:
    """Six times 0.3 s, of which each is allowed."""
    with start("for i in 1 2 3 4 5 6; do sleep 0.3; echo $i; done", limit_s=60.0) as process:
        heard = list(process.lines())
    assert (heard, process.hung) == ([b"1", b"2", b"3", b"4", b"5", b"6"], False)


class Looks:
    """Time that goes on by so much at every look in vain: nothing comes, until something does."""

    def __init__(self, each_s: list[float]) -> None:
        self.each_s, self.time_s = each_s, 100.0

    def now(self) -> float:
        return self.time_s

    def register(self, *_: object) -> None:
        return

    def select(self, timeout: float) -> list[int]:
        took_s = self.each_s.pop(0)
        self.time_s += abs(took_s)
        return [1] if took_s < 0 else []

    def __enter__(self) -> Looks:
        return self

    def __exit__(self, *_: object) -> None:
        return


@pytest.mark.parametrize(
    ("each_s", "hung"),
    [
        ([1.0, 1.0, 1.0, 0.5, -1.0, -1.0], False),  # 3.5 s of silence are allowed, and no more
        ([1.0, 1.0, 1.0, 0.75], True),
        ([1.0, 1.0, 1.0, -1.0, 1.0, 1.0, 1.0, -1.0], False),  # a word in between
        ([1000.0, 1.5, -1.0, -1.0], False),  # the supervisor itself was stopped meanwhile: that counts as 2 s
        ([1000.0, 1000.0], True),
    ],
)
def test_what_counts_as_silence(start: Start, monkeypatch: pytest.MonkeyPatch, each_s: list[float], hung: bool) -> None:
    looks = Looks(each_s)
    with start("echo one; exec >&-; cat", limit_s=3.5) as process:
        monkeypatch.setattr(supervisor.selectors, "DefaultSelector", lambda: looks)
        monkeypatch.setattr(supervisor, "SystemClock", lambda: looks)
        list(process.lines())
    assert (process.hung, each_s) == (hung, [])


def test_a_stop_ends_the_process_at_once(start: Start) -> None:
    stop = threading.Event()
    with start(f"echo one; {FOREVER}", stop=stop) as process:
        lines = process.lines()
        assert next(lines) == b"one"
        stop.set()
        assert list(lines) == []
    assert (process.status, process.hung) == (-9, False)


def test_a_process_that_does_not_leave_is_ended(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "LEAVES_S", 0.1)
    with start(f"exec >&-; {FOREVER}") as process:
        assert list(process.lines()) == []
    assert process.ending() == "was ended by SIGKILL"


def test_a_process_that_is_over_may_be_written_to(start: Start) -> None:
    with start("exit 0") as process:
        process.process.wait()
        process.write(b"hallo\n")
        process.write(b"hallo\n")
    assert process.status == 0


def test_the_user_s_environment_comes_first(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    with start('echo "$GOMP_SPINCOUNT $MALLOC_TRIM_THRESHOLD_ $PYTHONUNBUFFERED"') as process:
        assert list(process.lines()) == [b"7 17179869184 1"]


def test_what_may_allocate_gets_memory_as_any_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's operators allocate in the timed loop: a C library that keeps what is freed would hide what that costs a program."""
    for name in supervisor.KEPT_MEMORY:
        monkeypatch.delenv(name, raising=False)
    seen: list[dict[str, str]] = []

    class Opened:
        def __init__(self, *_: object, env: dict[str, str], **__: object) -> None:
            seen.append(env)
            raise InterruptedError

    monkeypatch.setattr(supervisor.subprocess, "Popen", Opened)
    for spec in ("torch:cpu", "opencl"):
        with pytest.raises(InterruptedError):
            WorkerProcess(Job(spec=spec), 1.0, threading.Event())  # type: ignore[arg-type]
    assert [supervisor.KEPT_MEMORY.items() <= env.items() for env in seen] == [False, True]
    assert ["MALLOC_TRIM_THRESHOLD_" in env for env in seen] == [False, True]


def test_a_group_of_its_own_keeps_signals_of_the_terminal_away(start: Start) -> None:
    with start("echo $$; cat > /dev/null") as process:
        pid = int(next(process.lines()))
        assert os.getpgid(pid) == pid != os.getpgid(0)


# ---------------------------------------------------------------- several at once


def test_all_go_on_together_and_answer_in_their_order() -> None:
    both = threading.Barrier(3, timeout=60)
    meanwhile: list[int] = []
    done = threading.Event()

    def do(n: int) -> int:
        both.wait()
        if n == 1:
            assert done.wait(60)
        return n * n

    def look() -> None:
        meanwhile.append(1)
        done.set()

    assert together(do, [3, 1, 2], look) == [9, 1, 4]
    assert meanwhile
    assert together(do, []) == []


def test_an_error_is_raised_once_all_have_ended() -> None:
    ended = threading.Event()
    failed = threading.Event()

    def do(n: int) -> None:
        if n == 0:
            failed.set()
            raise ValueError("the first")
        assert failed.wait(60)
        ended.set()

    with pytest.raises(ValueError, match="the first"):
        together(do, [0, 1])
    assert ended.is_set()

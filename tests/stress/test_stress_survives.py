"""What befalls the session itself: interrupts, stops, clocks that are set, suspend, torn lines, a disk that is full."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hotlap.core.record import Stop
from hotlap.core.store import bundle as bundles
from hotlap.core.store import chunks
from hotlap.stress import record as stress
from hotlap.stress import session
from hotlap.stress import verdict as judging
from hotlap.stress.record import FILE, Happened, Phase, Profile, Tick

pytestmark = pytest.mark.slow("starts, interrupts and resumes runs of the command")

PROFILE = Profile(name="short", about="", seconds=60.0, phases=[Phase(kind="products", seconds=20.0, dtypes=["fp16"])])
LONG = ("quick", "--target", "simulated:h200-sxm", "--for", "20 h")


def begun(home: Path, *more: str, limit_bytes: int = 0) -> subprocess.Popen[str]:
    def limited() -> None:
        if limit_bytes:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))

    command = [sys.executable, "-m", "hotlap", "stress", *(more or LONG)]
    environment = {**os.environ, "HOTLAP_HOME": str(home)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=limited)


def ticking(home: Path) -> Path:
    """The run's folder, once there are ticks in it."""
    for _ in range(3000):
        found = [path for path in (home / "runs").glob("*") if (path / FILE).exists() and b'"tick"' in (path / FILE).read_bytes()]
        if found:
            return found[0]
        time.sleep(0.1)
    raise AssertionError("no tick within 5 minutes")


def wait_for(what: Callable[[], bool]) -> None:
    until = time.monotonic() + 300  # bounds a hang, and nothing else
    while not what():
        assert time.monotonic() < until
        time.sleep(0.02)


def judged(path: Path) -> judging.StressVerdict:
    bundle = bundles.load(path)
    return judging.judge(bundle.run, stress.read((path / FILE).read_bytes())[0], bundle.readings, folder=path)


def events(path: Path) -> list[str]:
    return [x.what for x in stress.read((path / FILE).read_bytes())[0] if isinstance(x, Happened)]


def attempts(path: Path) -> set[int]:
    return {x.attempt for x in stress.read((path / FILE).read_bytes())[0] if isinstance(x, Tick)}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_everything_and_can_be_resumed(tmp_path: Path, number: signal.Signals) -> None:
    process = begun(tmp_path)
    path = ticking(tmp_path)
    process.send_signal(number)
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "not finished: it was interrupted (Ctrl-C or SIGTERM)" in out
    assert "INCONCLUSIVE" in out
    assert bundles.read_run(path).stops == [Stop("interrupted")]
    assert events(path)[-1] == "interrupted"
    assert judged(path).devices[0].figures["checked"] > 0
    again = begun(tmp_path, "--resume", path.name)
    wait_for(lambda: 1 in attempts(path))
    again.send_signal(number)
    again.communicate(timeout=300)
    assert attempts(path) == {0, 1}


def test_an_interrupt_before_any_work_is_no_pass(tmp_path: Path) -> None:
    process = begun(tmp_path)
    wait_for(lambda: bool(list((tmp_path / "runs").glob("*/stress.json"))))
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 130
    (path,) = (tmp_path / "runs").iterdir()
    assert judged(path).state == "inconclusive"
    assert "PASS" not in out


def test_a_stopped_session_takes_nobody_for_hung(tmp_path: Path) -> None:
    """Ctrl-Z for longer than the watchdog waits, then fg."""
    process = begun(tmp_path, *LONG, "--hung", "6 s")
    path = ticking(tmp_path)
    process.send_signal(signal.SIGSTOP)
    time.sleep(7.5)
    size = (path / FILE).stat().st_size
    process.send_signal(signal.SIGCONT)
    wait_for(lambda: (path / FILE).stat().st_size > size)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=300)
    assert not {"hung", "died", "clock_jump"} & set(events(path))


def test_a_torn_line_is_said_and_cut_before_going_on(tmp_path: Path) -> None:
    process = begun(tmp_path)
    path = ticking(tmp_path)
    process.kill()
    process.communicate()
    file = path / FILE
    whole = file.read_bytes()
    whole = whole[: whole.rfind(b"\n") + 1]
    file.write_bytes(whole + whole[: len(whole.splitlines()[0]) // 2])  # as a kill in the middle of a write leaves it
    judge = begun(tmp_path, "--judge", path.name)
    out, err = judge.communicate(timeout=300)
    assert judge.returncode == 3
    assert "1 line of stress.jsonl could not be read: torn" in err
    assert "it was killed, or is still running" in out
    again = begun(tmp_path, "--resume", path.name)
    wait_for(lambda: 1 in attempts(path))
    again.send_signal(signal.SIGINT)
    again.communicate(timeout=300)
    assert file.read_bytes().startswith(whole)
    assert stress.read(file.read_bytes())[1] == 0


def test_a_file_that_may_not_grow_leaves_a_readable_bundle(tmp_path: Path) -> None:
    """The system refuses the write, as it does on a full disk: the run ends, says so, and what was kept is judged."""
    process = begun(tmp_path, limit_bytes=100_000)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 3, out + err
    assert "cannot be written" in err
    assert "make room, then --resume" in err
    assert "Traceback" not in err
    (path,) = (tmp_path / "runs").iterdir()
    found = judged(path)
    assert (found.state, found.devices[0].causes) == ("inconclusive", ["not finished"])
    assert found.devices[0].figures["checked"] > 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(place)], capture_output=True, check=False).returncode:
        pytest.skip("a file system of its own cannot be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=False)


def test_a_full_disk_leaves_a_readable_bundle(small_disk: Path) -> None:
    process = begun(small_disk)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 3, err
    assert "No space left on device" in err
    assert "Traceback" not in err
    (path,) = (small_disk / "runs").iterdir()
    found = judged(path)
    assert (found.state, found.devices[0].causes) == ("inconclusive", ["not finished"])
    assert found.devices[0].figures["checked"] > 0


class Clocks:
    """The session's clocks, moved once after some looks at them."""

    def __init__(self, wall_s: float, slept_s: float) -> None:
        self.looks, self.wall_s, self.slept_s = 0, wall_s, slept_s

    def __getattr__(self, name: str) -> object:
        return getattr(time, name)

    def time(self) -> float:
        self.looks += 1
        return time.time() + (self.wall_s + self.slept_s) * (self.looks > 20)  # the wall clock goes on while a machine sleeps

    def clock_gettime(self, which: int) -> float:
        return time.clock_gettime(which) + (self.slept_s if which == time.CLOCK_BOOTTIME and self.looks > 20 else 0.0)


@pytest.mark.parametrize(
    ("wall_s", "slept_s", "what", "state"),
    [(-3600.0, 0.0, "clock_jump", "pass"), (3600.0, 0.0, "clock_jump", "pass"), (0.0, 60.0, "suspended", "inconclusive"), (0.0, 0.0, "", "pass")],
)
def test_clocks_that_part_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wall_s: float, slept_s: float, what: str, state: str
) -> None:
    monkeypatch.setattr(session, "time", Clocks(wall_s, slept_s))
    path = session.run(PROFILE, session.StressOptions(target="simulated:h200-sxm", home=tmp_path), lambda _device, _line: None)
    assert [x for x in events(path) if x in ("clock_jump", "suspended")] == ([what] if what else [])
    assert judged(path).state == state


def test_compacted_readings_are_judged_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A code that shows in part of a stretch, a bit that is set for seconds and a sensor that is dead: means would lose all three."""
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(bundles, "LOG_BYTES", 60_000)
    profile = Profile(name="x", about="", seconds=1200.0, phases=PROFILE.phases)
    faults = "xid=48@333s&throttle=0.3@600s&reason=hardware_thermal&dead=fan"
    path = session.run(profile, session.StressOptions(target=f"simulated:h200-sxm?{faults}", home=tmp_path), lambda _device, _line: None)
    assert chunks.stored(path)
    (one,) = judged(path).devices
    assert "Xid 48" in one.causes
    assert one.throttling["hardware thermal"] == pytest.approx(0.5, abs=0.02)
    titles = [x.title for x in one.findings]
    assert "dead sensor: fan" in titles
    assert not any("Xid" in title and title != "Xid 48" for title in titles)

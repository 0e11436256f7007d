"""What ran beside a sample, from a /proc that a test writes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from scripting import CASE, opened, steps

from hotlap.core.measure import foreign
from hotlap.core.measure.foreign import CROWD, ForeignDevice, ForeignHost, Nothing
from hotlap.core.measure.sensors.base import THROTTLE
from hotlap.core.measure.targets.base import Seen
from hotlap.core.record import Device as Where

HZ = os.sysconf("SC_CLK_TCK")


def test_what_is_watched_is_closed_with_its_watch() -> None:
    watch = ForeignHost()
    files = list(watch.files.values())
    assert files
    del watch
    for file in files:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(file)


class Proc:
    """A /proc with two threads, on two cores."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "proc"
        for name in ("10", "11"):
            self.thread(name, 0.0, 0.0, 0)
        self.running(1)
        self.ticks()

    def thread(self, name: str, ran_s: float, delayed_s: float, slices: int, processor: int = 0) -> None:
        task = self.root / (name if "/" in name else f"self/task/{name}")
        task.mkdir(parents=True, exist_ok=True)
        text = f"{round(ran_s * 1e9)} {round(delayed_s * 1e9)} {slices}\n"
        with open(task / "schedstat", "r+b" if (task / "schedstat").exists() else "wb") as out:
            out.write(text.encode())
            out.truncate()
        (task / "stat").write_text(f"{name} (a) b) R " + " ".join("0" for _ in range(35)) + f" {processor} 0 0\n")

    def used(self, process: str, user: int, system: int) -> None:
        """Seconds of processors that another process used."""
        fields = ["0"] * 10 + [str(user * HZ), str(system * HZ)] + ["0"] * 23
        (self.root / process / "stat").write_text(f"{process} (a) b) R {' '.join(fields)}\n")

    def running(self, count: int) -> None:
        """So many threads, the one that asks among them."""
        self.root.mkdir(exist_ok=True)
        (self.root / "loadavg").write_text(f"0.10 0.20 0.30 {count}/234 5678\n")

    def ticks(self, user: int = 0, idle: int = 0, steal: int = 0, nice: int = 0, system: int = 0, waiting: int = 0, irq: int = 0, soft: int = 0) -> None:
        fields = (user, nice, system, idle, waiting, irq, soft, steal)
        (self.root / "stat").write_text("cpu  " + " ".join(str(one * HZ) for one in fields) + " 0 0\ncpu0 1 2 3\n")


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def host(proc: Proc, cores: int = 2, processors: int = 0) -> ForeignHost:
    return ForeignHost(root=proc.root, cores=cores, processors=processors or cores)


def seen(watch: ForeignHost, proc: Proc, wall_s: float = 0.01, running: tuple[int, int] = (1, 1), **threads: tuple[Any, ...]) -> Seen:
    """One sample, during which the threads came to these figures."""
    proc.running(running[0])
    watch.begin()
    for name, figures in threads.items():
        proc.thread(name.removeprefix("t"), *figures)
    proc.running(running[1])
    return watch.end(wall_s)


def test_quiet_is_quiet(proc: Proc) -> None:
    assert host(proc).why_not == ""
    assert seen(host(proc), proc, t10=(0.01, 0.0, 1)) == Seen()


@pytest.mark.parametrize(("delayed_s", "found"), [(0.00015, False), (0.000151, True), (0.005, True)])
def test_a_thread_that_waited_for_a_processor_disturbs(proc: Proc, delayed_s: float, found: bool) -> None:
    """1 % of 10 ms and 50 µs are allowed."""
    got = seen(host(proc), proc, t10=(0.01, delayed_s, 0))
    assert got == (Seen("run_delay", pytest.approx(delayed_s / 0.01)) if found else Seen())  # type: ignore[arg-type]


def test_what_waking_costs_is_no_delay_and_all_threads_count(proc: Proc) -> None:
    """20 µs each time a thread is woken: 10 times are 200 µs."""
    assert seen(host(proc), proc, t10=(0.01, 0.00035, 10)) == Seen()
    assert seen(host(proc), proc, t10=(0.02, 0.00035 + 0.000352, 20)).cause == "run_delay"
    proc.thread("10", 0.02, 0.000702, 20)
    both = seen(host(proc), proc, t10=(0.03, 0.0008, 20, 0), t11=(0.0, 0.0001, 0, 1))
    assert both.cause == "run_delay"
    assert both.share == pytest.approx((0.0008 - 0.000702 + 0.0001) / 0.01)


def test_waiting_before_the_sample_does_not_count(proc: Proc) -> None:
    proc.thread("10", 5.0, 3.0, 7)
    assert seen(host(proc), proc, t10=(5.01, 3.0001, 7)) == Seen()


def test_a_thread_less_of_a_wait_does_not_make_up_for_another(proc: Proc) -> None:
    assert seen(host(proc), proc, t10=(0.01, 0.0002, 0, 0), t11=(0.01, 0.0, 100, 1)).cause == "run_delay"


@pytest.mark.parametrize(
    ("first", "second", "running", "found"),
    [
        ((0.006, 0.004, 0, 1), (0.002, 0.006, 0, 1), 1, Seen("run_delay", pytest.approx(0.2))),  # 4 - 2 ms for others  # type: ignore[arg-type]
        ((0.005, 0.005, 0, 1), (0.005, 0.005, 0, 1), 1, Seen()),
        ((0.005, 0.005, 0, 1), (0.005, 0.005, 0, 0), 1, Seen("run_delay", pytest.approx(1.0))),  # type: ignore[arg-type]
        ((0.005, 0.005, 0, 1), (0.005, 0.005, 0, 1), 2, Seen("processor")),  # another holds the second core all the time
    ],
)
def test_waiting_for_threads_of_our_own_is_no_disturbance(proc: Proc, first: tuple[Any, ...], second: tuple[Any, ...], running: int, found: Seen) -> None:
    """What ran on the processor where a thread waited counts, as far as it goes."""
    assert seen(host(proc), proc, running=(running, running), t10=first, t11=second) == found


@pytest.mark.parametrize(
    ("running", "cores", "found"),
    [((1, 1), 1, False), ((2, 2), 1, True), ((2, 2), 2, False), ((3, 3), 2, True), ((3, 2), 2, False), ((1, 3), 2, False), ((3, 4), 2, True)],
)
def test_others_that_run_before_and_after_need_a_core_of_their_own(proc: Proc, running: tuple[int, int], cores: int, found: bool) -> None:
    """Two threads of a core slow each other down without waiting; where a core has one, nobody was slowed who did not wait."""
    one = {"t10": (0.01, 0.0, 0)}
    assert seen(host(proc, cores, 2 * cores), proc, running=running, **one) == (Seen("processor") if found else Seen())
    proc.thread("10", 0.0, 0.0, 0)
    assert seen(host(proc, cores), proc, running=running, **one) == Seen()


def test_threads_need_as_many_cores_as_they_ran_and_waited(proc: Proc) -> None:
    watch = host(proc, processors=4)
    assert seen(watch, proc, running=(2, 2), t10=(0.01, 0.0, 0), t11=(0.004, 0.0, 0)) == Seen()
    assert watch.busy == ["10"]
    assert seen(watch, proc, running=(2, 2), t10=(0.02, 0.0, 0), t11=(0.0095, 0.0, 0)) == Seen("processor")
    assert sorted(watch.busy) == ["10", "11"]


def test_the_cores_that_carry_the_load(proc: Proc) -> None:
    watch = host(proc)
    assert watch.loaded() == []
    seen(watch, proc, t10=(0.01, 0.0, 0, 5), t11=(0.01, 0.0, 0, 3))
    assert watch.loaded() == [3, 5]
    (proc.root / "self/task/11/stat").unlink()
    assert watch.loaded() == [5]
    (proc.root / "self/task/10/stat").write_text("broken")
    assert watch.loaded() == []


def test_new_threads_are_found_after_32_samples_and_old_ones_forgotten(proc: Proc) -> None:
    watch = host(proc)
    seen(watch, proc)
    proc.thread("12", 0.0, 0.0, 0)
    assert seen(watch, proc, t12=(0.01, 0.01, 0)) == Seen()  # not known yet
    for _ in range(30):
        seen(watch, proc)
    assert "12" not in watch.files
    assert seen(watch, proc, t12=(0.02, 0.02, 0)).cause == "run_delay"
    for file in (proc.root / "self/task/10").iterdir():
        file.unlink()
    (proc.root / "self/task/10").rmdir()
    watch.since = 0
    kept = dict(watch.files)
    watch.begin()
    assert sorted(watch.files) == ["11", "12"]
    assert watch.files == {name: kept[name] for name in watch.files}  # not opened again


def test_processes_that_do_a_part_of_the_work_are_no_others(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the one at the other end of a connection: who waits for it is not disturbed, and its time is our own."""
    monkeypatch.setattr(foreign.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(foreign.os, "times", lambda: os.times_result((0.0, 0.0, 0.0, 0.0, 0.0)))
    helper = "77/task/77"
    proc.thread(helper, 0.0, 0.0, 0)
    proc.ticks(user=1, idle=9)
    proc.used("77", user=1, system=2)
    watch = host(proc)
    waited: dict[str, Any] = {"t10": (0.004, 0.004, 0), helper: (0.006, 0.0, 0)}
    assert seen(watch, proc, **waited).cause == "run_delay"
    watch.join((77,))
    proc.thread("10", 0.0, 0.0, 0)
    proc.thread(helper, 0.0, 0.0, 0)
    assert seen(watch, proc, **waited) == Seen()
    assert watch.loaded() == [0]
    watch.others()
    proc.ticks(user=31, idle=9)
    proc.used("77", user=11, system=14)
    assert watch.others() == pytest.approx(8 / 30 * 2)  # 22 of 30 s are ours, of two processors
    watch.join(())
    proc.thread("10", 0.0, 0.0, 0)
    proc.thread(helper, 0.0, 0.0, 0)
    assert seen(watch, proc, **waited).cause == "run_delay"
    assert sorted(watch.files) == ["10", "11"]


def test_a_thread_that_cannot_be_read_is_left_out(proc: Proc) -> None:
    (proc.root / "self/task/12").mkdir()
    assert sorted(host(proc).files) == ["10", "11"]
    for name in ("10", "11"):
        (proc.root / "self/task" / name / "schedstat").unlink()
    assert host(proc).why_not.endswith("schedstat cannot be read: no sample is replaced")


def test_a_wait_of_exactly_what_is_allowed_disturbs_nobody(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    """1 ms behind others is allowed here; half a millisecond more was behind a thread of our own."""
    monkeypatch.setattr(foreign, "WAITED_SHARE", 0.0)
    monkeypatch.setattr(foreign, "WAITED_S", 0.001)
    assert seen(host(proc), proc, t10=(0.0, 0.001, 0, 1), t11=(0.01, 0.0, 0, 0)) == Seen()
    proc.thread("10", 0.0, 0.0, 0)
    proc.thread("11", 0.0, 0.0, 0)
    assert seen(host(proc), proc, t10=(0.0, 0.0005, 0), t11=(0.0005, 0.001, 0)) == Seen()
    proc.thread("10", 0.0, 0.0, 0)
    proc.thread("11", 0.0, 0.0, 0)
    assert seen(host(proc), proc, t10=(0.0, 0.0005, 0), t11=(0.0005, 0.0011, 0)).cause == "run_delay"


def test_without_proc_nothing_is_watched_and_that_is_said(tmp_path: Path) -> None:
    watch = ForeignHost(root=tmp_path / "none", cores=2)
    assert watch.why_not == f"{tmp_path}/none/self/task/*/schedstat cannot be read: no sample is replaced"
    watch.begin()
    assert watch.end(0.01) == Seen()
    assert (watch.steal(), watch.others(), watch.crowded(), watch.wait(0.0), watch.loaded()) == (None, None, False, pytest.approx(0.0, abs=1), [])


def test_broken_files_are_as_good_as_none(proc: Proc) -> None:
    watch = host(proc, 1)
    (proc.root / "loadavg").write_text("broken")
    assert seen_broken(watch, proc) == seen_broken(host(proc, 1, 2), proc) == Seen()
    (proc.root / "stat").write_text("cpu 1 2 3\n")
    assert (watch.steal(), watch.others()) == (None, None)
    (proc.root / "stat").write_text("cpu a b\n")
    assert watch.steal() is None


def seen_broken(watch: ForeignHost, proc: Proc) -> Seen:
    watch.begin()
    (proc.root / "self/task/10/schedstat").write_text("x y z")
    return watch.end(0.01)


def test_steal_is_a_share_of_all_time_since_the_last_call(proc: Proc) -> None:
    proc.ticks(user=10, idle=10)
    watch = host(proc)
    proc.ticks(user=13, idle=14, steal=1, waiting=2)  # 10 s more in all
    assert watch.steal() == pytest.approx(0.1)
    assert watch.steal() is None  # no time went by
    proc.ticks(user=13, idle=14, steal=1 + 5, waiting=2, nice=1, system=1, irq=2, soft=1)
    assert watch.steal() == pytest.approx(0.5)


def test_what_others_used_is_what_we_did_not(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    own = [0.0]
    monkeypatch.setattr(foreign.os, "times", lambda: os.times_result((own[0], own[0] / 2, own[0] / 4, own[0] / 4, 0.0)))
    monkeypatch.setattr(foreign.os, "cpu_count", lambda: 4)
    proc.ticks(user=5, idle=5)
    watch = host(proc)
    own[0] = 1.0  # 2 s in all
    proc.ticks(user=9, idle=8, system=3)  # 7 of 10 s busy, 2 of them ours: half of four processors
    assert watch.others() == pytest.approx(2.0)
    assert watch.others() is None
    own[0] = 11.0
    proc.ticks(user=10, idle=17, system=3)
    assert watch.others() == 0.0
    proc.ticks(user=20, idle=17, system=3)
    assert watch.crowded()  # all four, of two cores


@pytest.mark.parametrize(("used", "crowded"), [(1.0 + CROWD - 0.01, False), (1.0 + CROWD + 0.01, True)])
def test_a_crowd_leaves_less_than_a_core(proc: Proc, used: float, crowded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign.os, "cpu_count", lambda: 1)
    monkeypatch.setattr(ForeignHost, "others", lambda _: used)
    assert host(proc).crowded() is crowded


class Time:
    """A clock that passes by sleeping, and what happens meanwhile."""

    def __init__(self, proc: Proc, running: list[int]) -> None:
        self.now_s, self.proc, self.later = 0.0, proc, running

    def perf_counter(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.proc.running(self.later.pop(0) if len(self.later) > 1 else self.later[0])


@pytest.mark.parametrize(
    ("running", "allowed_s", "waited_s"),
    [([1], 1.0, 0.03), ([3, 3, 1], 1.0, 0.05), ([1, 1, 3, 1], 1.0, 0.06), ([3], 0.055, 0.06), ([2], 1.0, 0.03), ([1], 0.0, 0.0)],
)
def test_it_waits_until_others_were_gone_three_times(
    proc: Proc, monkeypatch: pytest.MonkeyPatch, running: list[int], allowed_s: float, waited_s: float,
) -> None:
    """A look each 10 ms; one thread of ours and one of others have a core each."""
    watch = host(proc)
    monkeypatch.setattr(foreign, "time", Time(proc, list(running)))
    assert watch.wait(allowed_s) == pytest.approx(waited_s)


def test_on_one_core_it_waits_for_a_single_other(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = host(proc, 1)
    monkeypatch.setattr(foreign, "time", Time(proc, [2, 2, 1]))
    assert watch.wait(1.0) == pytest.approx(0.05)


def test_what_counts_as_little_is_fixed(proc: Proc) -> None:
    assert (foreign.CROWD, foreign.BUSY_SHARE, foreign.MOST_CLOCKS, foreign.RELIST) == (0.25, 0.5, 4, 32)
    watch = host(proc)
    seen(watch, proc, 0.5, t10=(0.25, 0.0, 0))
    assert watch.busy == ["10"]  # just half of the sample


# ---------------------------------------------------------------- GPUs, and what watches what


BRAKES = {name: bit for bit, name in THROTTLE.items()}


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ({}, {}, Seen()), ({"processes": 1.0}, {}, Seen("process", 1.0)), ({}, {"processes": 2.0}, Seen("process", 1.0)), ({"processes": 0.0}, {}, Seen()),
        ({"throttle": float(BRAKES["hardware slowdown"])}, {}, Seen("brake", 1.0)), ({}, {"throttle": float(BRAKES["hardware power brake"])}, Seen("brake", 1.0)),
        ({"throttle": float(sum(bit for name, bit in BRAKES.items() if name not in ("hardware slowdown", "hardware power brake")))}, {}, Seen()),
    ],
)
def test_a_gpu_is_watched_by_its_sensors(before: dict[str, float], after: dict[str, float], found: Seen) -> None:
    shown = [before]
    watch = ForeignDevice(latest=lambda sensor: shown[0].get(sensor))
    watch.begin()
    shown[0] = after
    assert watch.end(0.01) == found


def test_where_nothing_need_be_watched() -> None:
    watch = Nothing()
    watch.begin()
    assert (watch.end(1.0), watch.wait(5.0), watch.steal(), watch.others(), watch.crowded(), watch.why_not) == (Seen(), 0.0, None, None, False, "")


def test_a_script_watches_itself_and_knows_its_clock() -> None:
    target = opened(steps(1.0, clock_hz=2e9))
    assert foreign.beside(target) is target.watch
    target.prepare(CASE)
    assert foreign.clock_beside(target, target.watch)() == 2e9


def test_a_processor_is_watched_as_a_host_and_a_gpu_by_its_sensors() -> None:
    class Other:
        dialect, library = "c", None

        def __init__(self, kind: Any) -> None:
            self.device = Where(target="t", index=0, name="n", kind=kind)
            self.clock = opened(steps(1.0)).clock

    cpu: Any = Other("cpu")
    gpu: Any = Other("gpu")
    assert isinstance(foreign.beside(cpu), ForeignHost)
    assert isinstance(foreign.beside(gpu, {"processes": 1.0}.get), ForeignDevice)
    assert foreign.beside(gpu, {"processes": 1.0}.get).end(1.0).cause == "process"
    assert foreign.clock_beside(gpu, Nothing())() is None

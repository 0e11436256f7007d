"""One look at a machine, on scripted trees whose counters go on while time passes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hotlap.core.measure.machine.busy import look
from hotlap.core.measure.sensors.tree import FileTree
from hotlap.core.record import Device, Look, Reading, RunningProcess
from hotlap.core.show.busy import warning
from hotlap.core.stats.busy import QUIET, expected_noise

CPU = Device(target="host", index=0, name="cpu", kind="cpu")
GPU = Device(target="cuda", index=0, name="H200", kind="gpu", uuid="GPU-1")


class Scripted:
    """A machine of two cores, 100 ticks a second each: what each process takes of them per second."""

    def __init__(self, root: Path, cores: dict[tuple[int, str], float], steal: float = 0.0, running: int = 1) -> None:
        self.root, self.cores, self.steal, self.running = root, cores, steal, running
        self.seconds = 0.0
        self.write()

    def write(self) -> None:
        t = self.seconds * 100
        busy, stolen = t * sum(self.cores.values()), 2 * t * self.steal
        ticks = [1000 + busy, 5, 400, 9000 + 2 * t - busy - stolen, 7, 0, 0, 50 + stolen, 3, 0]
        line = " ".join(str(round(one)) for one in ticks)
        self.put("proc/stat", f"cpu  {line}\ncpu0 {line}\ncpu1 {line}\nintr 1\nprocs_running {self.running}\nprocs_blocked 0")
        self.put("proc/loadavg", "3.25 1.00 0.50 2/345 999")
        self.put("proc/pressure/cpu", f"some avg10=0.00 avg60=0.00 avg300=0.00 total={round(self.seconds * 250_000)}\nfull avg10=0.00 total=0")
        for (pid, name), cores in self.cores.items():
            self.put(f"proc/{pid}/stat", f"{pid} ({name}) R 1 {pid} {pid} 0 -1 4194304 1 0 0 0 {round(t * cores)} 0 0 0 20 0 1 0 {pid} 0 0 0")

    def put(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(f"{text}\n")

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        self.write()

    def look(self, device: Device = CPU, **more: Any) -> Look:
        return look([device], 1.0, FileTree(str(self.root)), self.sleep, **more)


def test_a_quiet_machine_gets_no_word(tmp_path: Path) -> None:
    found = Scripted(tmp_path, {(7, "init"): 0.0}).look()
    assert (found.cores, found.others_share, found.steal_share, found.runnable, found.busiest) == (2, 0.0, 0.0, 0.0, [])
    assert (found.load, found.pressure_share, found.missing) == (3.25, pytest.approx(0.25), {})
    assert expected_noise(found) == 0.0
    assert warning(found) == ""


def test_the_busiest_processes_are_named_and_what_to_expect(tmp_path: Path) -> None:
    found = Scripted(tmp_path, {(123, "a (b) c"): 0.4, (9, "cc1plus"): 0.2, (8, "small"): 0.05}).look()
    assert found.others_share == pytest.approx(0.325, abs=0.01)
    assert [(one.name, one.pid, round(one.cores, 2)) for one in found.busiest] == [("a (b) c", 123, 0.4), ("cc1plus", 9, 0.2)]
    assert expected_noise(found) == pytest.approx(0.325, abs=0.01)
    assert warning(found) == "the machine is busy: a (b) c (pid 123) uses 0.4 of 2 cores and cc1plus (pid 9) uses 0.2 of 2 cores"


def test_our_own_process_is_no_disturbance(tmp_path: Path) -> None:
    found = Scripted(tmp_path, {(os.getpid(), "hotlap"): 1.0}).look()
    assert found.others_share == pytest.approx(0.0, abs=0.01)
    assert found.busiest == []


def test_a_machine_with_more_tasks_than_cores(tmp_path: Path) -> None:
    found = Scripted(tmp_path, {(1, "make"): 1.9}, running=7).look()
    assert found.runnable == 6
    assert expected_noise(found) == 3.0
    assert warning(found).endswith("make (pid 1) uses 1.9 of 2 cores; 6 tasks run or wait for a processor")


def test_steal_is_named(tmp_path: Path) -> None:
    found = Scripted(tmp_path, {(1, "init"): 0.0}, steal=0.25).look()
    assert found.steal_share == pytest.approx(0.25, abs=0.01)
    assert expected_noise(found) == pytest.approx(1 / 3, abs=0.02)
    assert warning(found) == "the machine is busy: the hypervisor gives 25 % of the processor's time to others (steal)"


def test_others_that_cannot_be_seen_are_counted_all_the_same(tmp_path: Path) -> None:
    """As in a container, which sees the host's /proc/stat and its own processes."""
    machine = Scripted(tmp_path, {(1, "hidden"): 1.0})
    (tmp_path / "proc/1/stat").unlink()
    machine.put = lambda path, text: None if path == "proc/1/stat" else Scripted.put(machine, path, text)  # type: ignore[method-assign]
    found = machine.look()
    assert (found.busiest, round(found.others_share or 0, 2)) == ([], 0.5)
    assert warning(found).startswith("the machine is busy: others use 1.0 of 2 cores")


def test_a_pid_that_is_used_again_is_another_process(tmp_path: Path) -> None:
    machine = Scripted(tmp_path, {(5, "old"): 0.0})
    machine.put("proc/5/stat", "5 (old) R 1 5 5 0 -1 4194304 1 0 0 0 99999 0 0 0 20 0 1 0 1 0 0 0")
    assert machine.look().busiest == []


def test_without_proc_it_says_what_it_could_not_look_at(tmp_path: Path) -> None:
    found = look([CPU], 0.1, FileTree(str(tmp_path)), lambda _: None)
    assert (found.others_share, found.steal_share, found.busiest) == (None, None, [])
    assert found.missing == {"pressure": "the kernel gives no pressure stall information", "processor": "there is no /proc/stat here"}
    found = Look(seconds=1.0, cores=2, missing=found.missing)
    assert expected_noise(found) is None
    assert warning(found) == ""
    assert warning(Look(seconds=1.0, cores=4, load=2.0)) == "the machine is busy: a load of 2.0 on 4 cores"


@pytest.mark.parametrize("text", ["", "cpu", "cpu  1 2 3", "cpu  a b c d e f g h", "\0\0", "cpu  0 0 0 0 0 0 0 0 0 0\nprocs_running x"])
def test_a_stat_of_another_kind_never_raises(text: str, tmp_path: Path) -> None:
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/stat").write_text(text)
    (tmp_path / "proc/1/stat").write_text("1 (half")
    found = look([CPU], 0.1, FileTree(str(tmp_path)), lambda _: None)
    assert found.others_share is None
    assert "processor" in found.missing


class Sensors:
    """Of a GPU, as a driver may answer."""

    name, device = "nvml", "GPU-1"

    def __init__(self, **values: float | str) -> None:
        self.values = values

    def names(self) -> Sequence[str]:
        return list(self.values)

    def read(self, time_s: float) -> list[Reading]:
        return [
            Reading(sensor=name, device=self.device, time_s=time_s, status="not_supported", reason=value)
            if isinstance(value, str) else Reading(sensor=name, device=self.device, time_s=time_s, value=value)
            for name, value in self.values.items()
        ]


def test_others_on_a_gpu(tmp_path: Path) -> None:
    machine = Scripted(tmp_path, {(4, "python3"): 0.9})
    found = machine.look(GPU, sources=[Sensors(processes=2.0, utilization=0.6, power_w=300.0)])
    assert (found.kind, found.processes, found.device_share) == ("gpu", 2, 0.6)
    assert expected_noise(found) == pytest.approx(1.5)
    assert warning(found).startswith("the machine is busy: 2 other processes on the GPU, which keep it busy 60 % of the time; python3 (pid 4) uses 0.9 of 2 cores")


def test_a_gpu_needs_one_core_and_idle_processes_on_it_take_nothing(tmp_path: Path) -> None:
    machine = Scripted(tmp_path, {(4, "python3"): 0.9})
    found = machine.look(GPU, sources=[Sensors(processes=1.0, utilization=0.0)])
    assert expected_noise(found) == 0.0
    assert warning(found) == ""


def test_what_a_gpus_driver_does_not_show_is_missing(tmp_path: Path) -> None:
    found = Scripted(tmp_path, {(1, "init"): 0.0}).look(GPU, sources=[Sensors(processes="the container hides them")])
    assert (found.processes, found.device_share) == (None, None)
    assert found.missing == {"processes": "the container hides them", "utilization": "no sensor of the device shows it"}


def test_this_machine_can_be_looked_at() -> None:
    found = look([CPU], 0.05)
    assert found.cores is not None
    assert found.cores >= 1
    noise = expected_noise(found)
    assert noise is None or 0 <= noise <= 9
    assert (warning(found) == "") == (noise is None or noise < QUIET)


def test_a_look_survives_its_bundle() -> None:
    import msgspec

    from hotlap.core.record import encode

    found = Look(seconds=1.0, cores=2, others_share=0.5, busiest=[RunningProcess(name="x", pid=1, cores=1.0)], missing={"a": "b"})
    assert msgspec.json.decode(encode(found), type=Look) == found

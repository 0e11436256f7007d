"""The host's sensors on trees of files that the tests make, and on the machine at hand."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from hotlap.core.measure.sensors import rapl
from hotlap.core.measure.sensors.gauge import read_all
from hotlap.core.measure.sensors.system import System, portable
from hotlap.core.measure.sensors.tree import FileTree, Tap
from hotlap.core.record import Reading

STAT = "cpu  {user} 0 100 {idle} 50 0 0 0 0 0\ncpu0 1 2 3 4 5 6 7 0 0 0\nctxt 1\n"
PRESSURE = "some avg10=90.00 avg60=1.00 avg300=0.10 total={total}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
CPU = "sys/devices/system/cpu"


class Machine:
    """A tree of files that can change between readings."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.busy(user=100, idle=1000)
        self.put("proc/loadavg", "1.75 0.50 0.25 1/200 4242")
        self.put("proc/meminfo", "MemTotal:       16000000 kB\nMemFree:  1000000 kB\nMemAvailable:   12000000 kB\nBuffers: 1 kB\n")
        self.put("proc/pressure/cpu", PRESSURE.format(total=1_000_000))

    def put(self, path: str, text: object) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def busy(self, user: int, idle: int) -> None:
        self.put("proc/stat", STAT.format(user=user, idle=idle))

    def package(self, number: int, cores: range, khz: int) -> None:
        for core in cores:
            self.put(f"{CPU}/cpu{core}/topology/physical_package_id", number)
            self.put(f"{CPU}/cpu{core}/cpufreq/scaling_cur_freq", khz + core)

    def zone(self, place: str, name: str, energy_uj: int, range_uj: int = 262_143_328_850) -> None:
        self.put(f"sys/class/powercap/{place}/name", name)
        self.put(f"sys/class/powercap/{place}/energy_uj", energy_uj)
        self.put(f"sys/class/powercap/{place}/max_energy_range_uj", range_uj)

    def energy(self, place: str, energy_uj: int) -> None:
        self.put(f"sys/class/powercap/{place}/energy_uj", energy_uj)

    def system(self, time_s: float = 10.0) -> System:
        return System(time_s, str(self.root))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def table(readings: list[Reading]) -> dict[str, Reading]:
    assert all(r.device == "host" for r in readings)
    return {r.sensor: r for r in readings}


def test_shares_cover_the_time_since_the_last_reading(machine: Machine) -> None:
    system = machine.system(10.0)
    machine.busy(user=175, idle=1025)  # 75 of 100 ticks
    machine.put("proc/pressure/cpu", PRESSURE.format(total=1_500_000))
    found = table(system.read(12.0))
    assert found["utilization"].value == pytest.approx(0.75)
    assert found["pressure"].value == pytest.approx(0.25)  # 0.5 s of 2 s, whatever the average of 10 s says
    assert found["load"].value == 1.75
    assert found["memory_used_bytes"].value == 4_000_000 * 1024
    machine.busy(user=175, idle=1125)
    found = table(system.read(13.0))
    assert found["utilization"].value == 0.0  # a measured zero
    assert found["pressure"].value == 0.0
    assert {r.time_s for r in found.values()} == {13.0}


def test_no_time_between_two_readings_is_an_error_not_a_zero(machine: Machine) -> None:
    system = machine.system(10.0)
    found = table(system.read(10.0))
    for sensor in ("utilization", "pressure"):
        assert (found[sensor].status, found[sensor].value) == ("error", None)
        assert "no time has passed" in found[sensor].reason


def test_what_the_kernel_does_not_show_is_not_supported_with_its_reason(machine: Machine) -> None:
    (machine.root / "proc/pressure/cpu").unlink()
    found = table(machine.system().read(11.0))
    for sensor, says in (
        ("pressure", "psi=1"), ("clock_hz", "cpufreq"), ("temperature_c", "temperature"), ("power_w", "RAPL"), ("energy_j", "RAPL"),
    ):
        assert found[sensor].status == "not_supported"
        assert found[sensor].value is None
        assert says in found[sensor].reason


def test_a_file_that_vanishes_is_an_error_of_one_sensor(machine: Machine) -> None:
    system = machine.system()
    (machine.root / "proc/loadavg").unlink()
    machine.busy(user=200, idle=1000)
    found = table(system.read(11.0))
    assert found["load"].status == "error"
    assert "No such file" in found["load"].reason
    assert found["utilization"].value == 1.0
    machine.put("proc/loadavg", "0.50 0.50 0.25 1/200 4242")
    assert table(system.read(12.0))["load"].value == 0.5  # an error may pass


def test_clock_is_the_fastest_core_of_each_package(machine: Machine) -> None:
    machine.package(0, range(16), 2_000_000)
    machine.package(1, range(16, 18), 3_000_000)
    found = table(machine.system().read(11.0))
    assert found["clock_hz.package0"].value == 2_000_014e3  # 8 of 16 cores are read, every second one
    assert found["clock_hz.package1"].value == 3_000_017e3
    assert "clock_hz" not in found


def test_temperature_is_the_packages_not_the_cores(machine: Machine) -> None:
    chip = "sys/class/hwmon/hwmon3"
    machine.put("sys/class/hwmon/hwmon0/name", "nvme")
    machine.put("sys/class/hwmon/hwmon0/temp1_input", 33_000)
    machine.put(f"{chip}/name", "coretemp")
    for number, label, value in ((1, "Package id 0", 61_000), (2, "Core 0", 70_000)):
        machine.put(f"{chip}/temp{number}_label", label)
        machine.put(f"{chip}/temp{number}_input", value)
    found = table(machine.system().read(11.0))
    assert {s: r.value for s, r in found.items() if s.startswith("temperature")} == {"temperature_c.package0": 61.0}


def test_amds_die_temperature_goes_before_the_control_value(machine: Machine) -> None:
    chip = "sys/class/hwmon/hwmon0"
    machine.put(f"{chip}/name", "k10temp")
    for number, label, value in ((1, "Tctl", 80_500), (2, "Tdie", 60_500), (3, "Tccd1", 59_000)):
        machine.put(f"{chip}/temp{number}_label", label)
        machine.put(f"{chip}/temp{number}_input", value)
    assert table(machine.system().read(11.0))["temperature_c.package0"].value == 60.5


def test_thermal_zone_stands_in_where_there_is_no_chip(machine: Machine) -> None:
    machine.put("sys/class/thermal/thermal_zone0/type", "acpitz")
    machine.put("sys/class/thermal/thermal_zone0/temp", 20_000)
    machine.put("sys/class/thermal/thermal_zone1/type", "x86_pkg_temp")
    machine.put("sys/class/thermal/thermal_zone1/temp", -1_500)
    assert table(machine.system().read(11.0))["temperature_c.package0"].value == -1.5


# ---------------------------------------------------------------- energy


def test_energy_counts_from_the_start_and_power_since_the_last_reading(machine: Machine) -> None:
    machine.zone("intel-rapl:0", "package-0", 5_000_000)
    machine.zone("intel-rapl:0:0", "dram", 1_000_000)
    machine.zone("intel-rapl-mmio:0", "package-0", 9_000_000)
    system = machine.system(10.0)
    machine.energy("intel-rapl:0", 105_000_000)
    found = table(system.read(12.0))
    assert found["energy_j.package0"].value == pytest.approx(100.0)
    assert found["power_w.package0"].value == pytest.approx(50.0)
    assert found["power_w.package0-dram"].value == 0.0
    assert len([s for s in found if s.startswith("energy_j")]) == 2  # the same package by the second driver is left out
    machine.energy("intel-rapl:0", 135_000_000)
    found = table(system.read(13.0))
    assert found["energy_j.package0"].value == pytest.approx(130.0)
    assert found["power_w.package0"].value == pytest.approx(30.0)


def test_a_counter_that_starts_anew_loses_nothing(machine: Machine) -> None:
    machine.zone("intel-rapl:0", "package-0", 990_000_000, range_uj=1_000_000_000)
    system = machine.system(10.0)
    machine.energy("intel-rapl:0", 15_000_000)
    found = table(system.read(11.0))
    assert found["energy_j.package0"].value == pytest.approx(25.0)
    assert found["power_w.package0"].value == pytest.approx(25.0)


def test_a_counter_that_goes_back_without_a_known_range_is_an_error(machine: Machine) -> None:
    machine.zone("intel-rapl:0", "package-0", 990_000_000)
    (machine.root / "sys/class/powercap/intel-rapl:0/max_energy_range_uj").unlink()
    system = machine.system(10.0)
    machine.energy("intel-rapl:0", 15_000_000)
    reading = table(system.read(11.0))["energy_j.package0"]
    assert (reading.status, reading.value) == ("error", None)
    assert "went back" in reading.reason


def test_a_counter_that_only_root_may_read_says_so(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.zone("intel-rapl:0", "package-0", 1)
    denied = "sys/class/powercap/intel-rapl:0/energy_uj"
    read = Tap.read

    def refuse(tap: Tap) -> str:  # root, who runs tests in containers, is refused nothing
        if tap.path.endswith(denied):
            raise PermissionError(13, "Permission denied", tap.path)
        return read(tap)

    monkeypatch.setattr(Tap, "read", refuse)
    found = table(machine.system().read(11.0))
    for sensor in ("energy_j.package0", "power_w.package0"):
        assert found[sensor].status == "error"
        assert "readable only by root since Linux 5.10" in found[sensor].reason
        assert found[sensor].reason.endswith(f"/{denied}")
    assert found["load"].status == "ok"


def test_power_needs_two_readings(machine: Machine) -> None:
    machine.zone("intel-rapl:0", "package-0", 1)
    gauges = rapl.gauges(FileTree(str(machine.root)), 10.0)
    found = {r.sensor: r for r in read_all(gauges, "host", 10.0)}
    assert found["energy_j.package0"].value == 0.0
    assert "two readings" in found["power_w.package0"].reason


# ---------------------------------------------------------------- this machine, and others


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_this_machine_answers_within_sense() -> None:
    from hotlap.core.measure.targets.base import SystemClock

    clock = SystemClock()
    system = System(clock.now())
    clock.sleep(0.05)
    found = table(system.read(clock.now()))
    assert list(found) == list(system.names())
    assert 0 <= (found["utilization"].value or 0) <= 1
    used = found["memory_used_bytes"].value
    assert used is not None
    assert used > 2**20
    assert all(r.reason for r in found.values() if r.status != "ok")


def test_other_systems_are_asked_through_psutil() -> None:
    pytest.importorskip("psutil", reason="psutil is not installed: pip install psutil")
    found = table(read_all(portable(), "host", 1.0))
    assert found["memory_used_bytes"].status == "ok"
    assert 0 <= (found["utilization"].value or 0) <= 1


def test_other_systems_without_psutil_say_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    found = System(0.0, str(tmp_path)).read(1.0)
    assert {r.status for r in found} == {"not_supported"}
    assert all("pip install psutil" in r.reason for r in found)


def gone(*_: object) -> bytes:
    """What Linux answers when the driver has taken an open file's device away."""
    raise OSError(19, "No such device")


def test_a_file_kept_open_shows_what_it_holds_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "value"
    tap = FileTree(str(tmp_path)).tap("value")
    with pytest.raises(FileNotFoundError):
        tap.read()
    for text in ("first and long", "2nd"):
        file.write_text(text)
        assert tap.read() == text
    with monkeypatch.context() as patch:
        patch.setattr(os, "pread", gone)
        with pytest.raises(OSError, match=r"No such device.*value"):
            tap.read()
    assert tap.descriptor is None
    assert tap.read() == "2nd"
    tap.close()

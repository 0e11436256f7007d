"""Boards of small devices, as trees of files that the tests make, and lines of tegrastats."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path

import pytest
from tests.core.sensors.documented import HELP, ROW, undocumented

from hotlap.core.measure.sensors import board, tegrastats
from hotlap.core.measure.sensors.tree import FileTree
from hotlap.core.record import Reading
from hotlap.nodes.sensors import exposition

ORIN = (
    "12-23-2024 22:54:11 RAM 3162/7620MB (lfb 4x2MB) SWAP 0/3810MB (cached 0MB) CPU [1%@729,0%@729,off,off] GR3D_FREQ 99%@[1300] "
    "cpu@62.843C soc2@61.968C gpu@61.687C tj@62.843C cv0@-256C VDD_IN 3913mW/3922mW VDD_CPU_GPU_CV 598mW/598mW VDD_SOC 1238mW/1237mW"
)
NANO = (
    "RAM 1766/3964MB (lfb 197x4MB) SWAP 0/2048MB (cached 0MB) CPU [24%@1224,15%@1224] EMC_FREQ 0% GR3D_FREQ 7%@76 PLL@21C CPU@25C "
    "PMIC@100C GPU@23.5C AO@33.5C thermal@24.5C POM_5V_IN 2545/2547 POM_5V_GPU 0/0 POM_5V_CPU 549/529"
)
XAVIER = "RAM 2457/7771MB (lfb 2x4MB) CPU [5%@1190] EMC_FREQ 3%@1600 GR3D_FREQ 0%@114 AUX@-1C GPU@40C VDD_IN 6800mW/6500mW"


class Device:
    """A tree of files."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, files: dict[str, object]) -> Device:
        for path, text in files.items():
            file = self.root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{text}\n")
        return self

    def read(self) -> dict[str, Reading]:
        return {one.sensor: one for one in board.Board(FileTree(str(self.root))).read(1.0)}


@pytest.fixture
def device(tmp_path: Path) -> Device:
    return Device(tmp_path)


def jetson(device: Device) -> Device:
    chip, zones = "sys/class/hwmon/hwmon2", "sys/class/thermal/thermal_zone"
    return device.put({
        "sys/firmware/devicetree/base/model": "NVIDIA Jetson Orin Nano",
        f"{zones}0/type": "cpu-thermal", f"{zones}0/temp": 50_000, f"{zones}1/type": "gpu-thermal", f"{zones}1/temp": 48_500,
        f"{zones}2/type": "cv0-thermal", f"{zones}2/temp": -256_000, f"{zones}3/type": "PMIC-Die", f"{zones}3/temp": 100_000,
        f"{zones}4/type": "soc 1", f"{zones}4/temp": -1,
        f"{chip}/name": "ina3221", f"{chip}/in1_label": "VDD_IN", f"{chip}/in1_input": 5000, f"{chip}/curr1_input": 1200,
        f"{chip}/in2_label": "VDD_CPU_GPU_CV", f"{chip}/in2_input": 4900, f"{chip}/curr2_input": 300,
        f"{chip}/in3_label": "NC", f"{chip}/in3_input": 0, f"{chip}/curr3_input": 0,
        "sys/class/hwmon/hwmon3/name": "ina226", "sys/class/hwmon/hwmon3/power1_input": 2_500_000,
        "sys/class/devfreq/17000000.gpu/cur_freq": 624_750_000, "sys/class/devfreq/kgsl-3d0/cur_freq": 400_000_000,
    })  # fmt: skip


def test_rails_zones_and_clocks_of_a_jetson(device: Device) -> None:
    seen = jetson(device).read()
    values = {name: one.value for name, one in seen.items() if one.status == "ok"}
    assert values == {
        "temperature_c.gpu-thermal": 48.5, "power_w.VDD_IN": pytest.approx(6.0), "power_w.VDD_CPU_GPU_CV": pytest.approx(1.47),
        "power_w.ina226-3": 2.5, "clock_hz.gpu": 624.75e6, "clock_hz.kgsl-3d0": 400e6,
    }  # fmt: skip
    assert all(one.device == "host" for one in seen.values())


def test_a_thermometer_that_does_not_answer_neither_blocks_nor_passes(device: Device) -> None:
    seen = jetson(device).read()
    for name in ("temperature_c.cv0-thermal", "temperature_c.soc_1", "temperature_c.PMIC-Die"):
        assert (seen[name].status, seen[name].value) == ("error", None)
        assert seen[name].reason


def test_a_battery_tells_power_while_it_is_what_feeds_the_machine(device: Device) -> None:
    place = "sys/class/power_supply/BAT0"
    device.put({
        f"{place}/type": "Battery", f"{place}/status": "Discharging", f"{place}/voltage_now": 7_600_000, f"{place}/current_now": -500_000,
        f"{place}/capacity": 83, "sys/class/power_supply/mouse/type": "Battery", "sys/class/power_supply/mouse/scope": "Device",
        "sys/class/power_supply/mouse/capacity": 10, "sys/class/power_supply/AC/type": "Mains",
    })  # fmt: skip
    seen = device.read()
    assert {name: one.value for name, one in seen.items()} == {"power_w.BAT0": pytest.approx(3.8), "battery.BAT0": pytest.approx(0.83)}
    device.put({f"{place}/status": "Charging"})
    plugged = device.read()["power_w.BAT0"]
    assert plugged.status == "error"
    assert "unplug" in plugged.reason
    device.put({f"{place}/status": "Discharging", f"{place}/power_now": 4_200_000})
    assert device.read()["power_w.BAT0"].value == pytest.approx(4.2)


def test_a_server_with_acpi_has_none_of_it(device: Device) -> None:
    jetson(device)
    (device.root / "sys/firmware/devicetree/base/model").unlink()
    assert device.read() == {}


def test_what_is_no_number_is_an_error_of_one_sensor(device: Device) -> None:
    seen = jetson(device).put({"sys/class/devfreq/17000000.gpu/cur_freq": "off"}).read()
    assert seen["clock_hz.gpu"].status == "error"
    assert "holds no number" in seen["clock_hz.gpu"].reason
    assert seen["power_w.VDD_IN"].status == "ok"


def test_lines_of_three_boards() -> None:
    assert tegrastats.read_line(ORIN) == {
        "utilization.gpu": 0.99, "clock_hz.gpu": 1.3e9, "temperature_c.cpu": 62.843, "temperature_c.soc2": 61.968,
        "temperature_c.gpu": 61.687, "temperature_c.tj": 62.843, "power_w.VDD_IN": 3.913, "power_w.VDD_CPU_GPU_CV": 0.598,
        "power_w.VDD_SOC": 1.238,
    }  # fmt: skip
    assert tegrastats.read_line(NANO) == {
        "utilization.emc": 0.0, "utilization.gpu": 0.07, "clock_hz.gpu": 76e6, "temperature_c.PLL": 21.0, "temperature_c.CPU": 25.0,
        "temperature_c.GPU": 23.5, "temperature_c.AO": 33.5, "temperature_c.thermal": 24.5, "power_w.POM_5V_IN": 2.545,
        "power_w.POM_5V_GPU": 0.0, "power_w.POM_5V_CPU": 0.549,
    }  # fmt: skip
    assert tegrastats.read_line(XAVIER) == {
        "utilization.emc": 0.03, "clock_hz.emc": 1.6e9, "utilization.gpu": 0.0, "clock_hz.gpu": 114e6, "temperature_c.GPU": 40.0,
        "power_w.VDD_IN": 6.8,
    }  # fmt: skip
    assert tegrastats.read_line("usage: tegrastats [--interval MS]") == {}


def program(folder: Path, body: str) -> None:
    script = folder / "tegrastats"
    script.write_text(f"#!/bin/sh\necho $$ > {folder}/pid\n{body}\n")
    script.chmod(0o755)


def test_the_program_is_followed_and_ends_with_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, f"while :; do echo '{XAVIER}'; sleep 0.1; done")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (source,) = tegrastats.find(["power_w.VDD_IN"])
    seen = {one.sensor: one.value for one in source.read(1.0)}
    assert "power_w.VDD_IN" not in seen  # another source reads it
    assert seen["clock_hz.gpu"] == 114e6
    pid = int((tmp_path / "pid").read_text())
    assert Path(f"/proc/{pid}").exists()
    del source
    gc.collect()
    assert not Path(f"/proc/{pid}").exists()


def test_a_program_that_falls_silent_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, f"echo '{XAVIER}'; exec sleep 30")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(tegrastats, "OLD_S", 0.05)
    (source,) = tegrastats.find(())
    time.sleep(0.1)
    assert {one.status for one in source.read(1.0)} == {"error"}


def test_without_the_program_or_a_line_of_it_there_is_no_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tegrastats, "FIRST_S", 0.2)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert tegrastats.find(()) == []
    program(tmp_path, "echo usage")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert tegrastats.find(()) == []


def test_every_sensor_stands_in_the_manual(device: Device) -> None:
    names = [*jetson(device).read(), *tegrastats.read_line(ORIN), "battery.BAT0"]
    assert not undocumented(names, "Sensors of a small device"), ROW
    assert not {name.partition(".")[0] for name in names} - set(exposition.HELP), HELP

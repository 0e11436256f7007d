"""GPUs through the kernel's files, on small trees laid out as amdgpu, i915 and xe lay them out."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotlap.core.errors import Unavailable
from hotlap.core.measure.sensors import drm
from hotlap.core.measure.sensors.tree import FileTree
from hotlap.core.record import Device, Reading

AMD = {
    "device/uevent": "DRIVER=amdgpu\nPCI_CLASS=38000\nPCI_ID=1002:740F\nPCI_SLOT_NAME=0000:83:00.0\n",
    "device/hwmon/hwmon4/name": "amdgpu", "device/hwmon/hwmon4/power1_average": "312000000", "device/hwmon/hwmon4/power1_input": "320000000",
    "device/hwmon/hwmon4/power1_cap": "560000000", "device/hwmon/hwmon4/temp1_input": "45000", "device/hwmon/hwmon4/temp1_label": "edge",
    "device/hwmon/hwmon4/temp2_input": "61000", "device/hwmon/hwmon4/temp2_label": "junction", "device/hwmon/hwmon4/temp3_input": "58000",
    "device/hwmon/hwmon4/temp3_label": "mem", "device/hwmon/hwmon4/fan1_input": "2400", "device/hwmon/hwmon4/pwm1": "51",
    "device/hwmon/hwmon4/pwm1_max": "255", "device/hwmon/hwmon4/freq1_input": "1700000000", "device/hwmon/hwmon4/freq1_label": "sclk",
    "device/hwmon/hwmon4/freq2_input": "1600000000", "device/hwmon/hwmon4/freq2_label": "mclk", "device/gpu_busy_percent": "97",
    "device/mem_info_vram_used": "1073741824", "device/pp_dpm_sclk": "0: 500Mhz\n1: 1300Mhz *\n2: 1700Mhz\n",
    "device/current_link_width": "16", "device/current_link_speed": "16.0 GT/s PCIe", "device/pcie_replay_count": "3",
    "device/ras/umc_err_count": "ue: 1\nce: 5\n", "device/ras/gfx_err_count": "ue: 0\nce: 2\n",
}
I915 = {
    "device/uevent": "DRIVER=i915\nPCI_ID=8086:56C0\nPCI_SLOT_NAME=0000:4d:00.0\n",
    "device/hwmon/hwmon2/name": "i915", "device/hwmon/hwmon2/energy1_input": "1000000", "device/hwmon/hwmon2/power1_max": "150000000",
    "gt/gt0/rps_act_freq_mhz": "2050", "gt/gt0/throttle_reason_status": "1", "gt/gt0/throttle_reason_pl1": "1",
    "gt/gt0/throttle_reason_thermal": "0", "gt/gt0/throttle_reason_prochot": "1", "gt/gt0/throttle_reason_new": "0",
}
XE = {
    "device/uevent": "DRIVER=xe\nPCI_ID=8086:E20B\nPCI_SLOT_NAME=0000:03:00.0\n",
    "device/hwmon/hwmon3/name": "xe", "device/hwmon/hwmon3/energy1_input": "5000000", "device/hwmon/hwmon3/energy1_label": "card",
    "device/hwmon/hwmon3/energy2_input": "3000000", "device/hwmon/hwmon3/energy2_label": "pkg", "device/hwmon/hwmon3/temp2_input": "51000",
    "device/hwmon/hwmon3/temp2_label": "pkg", "device/hwmon/hwmon3/temp3_input": "60000", "device/hwmon/hwmon3/temp3_label": "vram",
    "device/hwmon/hwmon3/fan1_input": "1100", "device/hwmon/hwmon3/fan2_input": "1200", "device/tile0/gt0/freq0/act_freq": "2400",
    "device/tile0/gt0/freq0/throttle/status": "1", "device/tile0/gt0/freq0/throttle/reason_pl2": "1",
}


def tree(root: Path, **cards: dict[str, str]) -> FileTree:
    for card, files in cards.items():
        for name, text in files.items():
            path = root / "sys/class/drm" / card / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")
    return FileTree(str(root))


def change(root: Path, path: str, text: str) -> None:
    (root / "sys/class/drm" / path).write_text(text)


def gpu(**about: str) -> Device:
    return Device(**{"target": "opencl", "index": 0, "name": "a card", "kind": "gpu", **about})  # type: ignore[arg-type]


def read(source: drm.Drm, time_s: float) -> dict[str, Reading]:
    return {one.sensor: one for one in source.read(time_s)}


def values(source: drm.Drm, time_s: float) -> dict[str, float]:
    return {name: one.value for name, one in read(source, time_s).items() if one.value is not None}


def test_amd(tmp_path: Path) -> None:
    source = drm.opened(gpu(pci_address="0000:83:00.0", uuid="u"), tree(tmp_path, card0=AMD))
    assert values(source, 1.0) == pytest.approx({
        "power_w": 312.0, "power_limit_w": 560.0, "temperature_c": 45.0, "temperature_c.junction": 61.0, "temperature_c.memory": 58.0,
        "fan_rpm": 2400.0, "fan": 0.2, "clock_hz.sm": 1.7e9, "clock_hz.memory": 1.6e9, "utilization": 0.97, "memory_used_bytes": 2**30,
        "pcie_width": 16.0, "pcie_generation": 4.0, "pcie_replays": 3.0, "ecc_corrected": 7.0, "ecc_uncorrected": 1.0,
    })
    assert {one.device for one in source.read(1.0)} == {"u"}


def test_a_card_without_an_edge_temperature_is_as_warm_as_its_junction(tmp_path: Path) -> None:
    files = {name: text for name, text in AMD.items() if "temp1" not in name}
    assert values(drm.opened(gpu(vendor="AMD"), tree(tmp_path, card0=files)), 1.0)["temperature_c"] == 61.0


def test_the_clock_is_the_level_with_the_star(tmp_path: Path) -> None:
    files = {name: text for name, text in AMD.items() if "freq" not in name}
    source = drm.opened(gpu(vendor="AMD"), tree(tmp_path, card0=files))
    assert values(source, 1.0)["clock_hz.sm"] == 1.3e9
    change(tmp_path, "card0/device/pp_dpm_sclk", "0: 500Mhz\n")
    assert "no level is marked" in read(source, 2.0)["clock_hz.sm"].reason


def test_a_die_at_zero_watts_is_not_counted_as_zero(tmp_path: Path) -> None:
    source = drm.opened(gpu(vendor="AMD"), tree(tmp_path, card0={**AMD, "device/hwmon/hwmon4/power1_average": "0"}))
    found = read(source, 1.0)["power_w"]
    assert (found.status, found.value) == ("error", None)
    assert "0 W" in found.reason


def test_intel_has_power_from_its_energy_counter(tmp_path: Path) -> None:
    source = drm.opened(gpu(vendor="Intel"), tree(tmp_path, card1=I915), 10.0)
    change(tmp_path, "card1/device/hwmon/hwmon2/energy1_input", "241000000")
    assert values(source, 12.0) == pytest.approx({
        "energy_j": 241.0, "power_w": 120.0, "power_limit_w": 150.0, "clock_hz.sm": 2.05e9, "throttle": float(0x44),
    })
    assert read(source, 13.0)["power_w"].reason.endswith("the energy counter stands still")
    change(tmp_path, "card1/device/hwmon/hwmon2/energy1_input", "5")
    assert "went back, from 241000000 to 5" in read(source, 14.0)["power_w"].reason
    assert read(source, 14.0)["utilization"].reason == "i915 shows no load under /sys/class/drm/card1/device"


def test_a_throttle_reason_of_a_name_unknown_here_still_shows(tmp_path: Path) -> None:
    source = drm.opened(gpu(vendor="Intel"), tree(tmp_path, card1={**I915, "gt/gt0/throttle_reason_new": "1"}))
    assert values(source, 1.0)["throttle"] == float(0x4C)


def test_xe(tmp_path: Path) -> None:
    source = drm.opened(gpu(vendor="Intel"), tree(tmp_path, card0=XE), 0.0)
    change(tmp_path, "card0/device/hwmon/hwmon3/energy1_input", "205000000")
    change(tmp_path, "card0/device/hwmon/hwmon3/energy2_input", "103000000")
    assert values(source, 2.0) == pytest.approx({
        "energy_j": 205.0, "power_w": 100.0, "energy_j.pkg": 103.0, "power_w.pkg": 50.0, "temperature_c": 51.0, "temperature_c.memory": 60.0,
        "fan_rpm": 1100.0, "fan_rpm.2": 1200.0, "clock_hz.sm": 2.4e9, "throttle": 4.0,
    })


def test_one_broken_file_leaves_the_others_alone(tmp_path: Path) -> None:
    source = drm.opened(gpu(vendor="AMD"), tree(tmp_path, card0=AMD))
    change(tmp_path, "card0/device/gpu_busy_percent", "N/A")
    change(tmp_path, "card0/device/ras/umc_err_count", "nothing")
    found = read(source, 1.0)
    assert found["utilization"].reason.endswith("gpu_busy_percent holds no number: 'N/A'")
    assert found["ecc_corrected"].status == "error"
    assert found["power_w"].value == 312.0


@pytest.mark.parametrize(
    ("about", "says"),
    [
        ({"pci_address": "0000:99:00.0"}, "no card under /sys/class/drm has the PCI address 0000:99:00.0"),
        ({"vendor": "Intel", "name": "Arc"}, "2 cards under /sys/class/drm could be Arc"),
        ({"vendor": "Imagination"}, "0 cards under"),
    ],
)
def test_a_device_that_no_card_is(tmp_path: Path, about: dict[str, str], says: str) -> None:
    with pytest.raises(Unavailable, match=says):
        drm.opened(gpu(**about), tree(tmp_path, card0=I915, card1=XE, card2=AMD))


def test_without_any_card(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="load the GPU's kernel driver"):
        drm.opened(gpu(vendor="AMD"), FileTree(str(tmp_path)))


def test_cards_that_no_library_computes_on_are_listed_too(tmp_path: Path) -> None:
    bmc = {"device/uevent": "DRIVER=ast\nPCI_ID=1A03:2000\nPCI_SLOT_NAME=0000:02:00.0\n"}
    (tmp_path / "sys/class/drm/card0-DP-1").mkdir(parents=True)
    found = drm.devices(tree(tmp_path, card0=AMD, card1=XE, card2=bmc, card3={"device/uevent": "PCI_ID=10DE:2335\nDRIVER=nvidia\n"}))
    assert [(one.name, one.vendor, one.pci_address) for one in found] == [
        ("AMD 1002:740f", "AMD", "0000:83:00.0"), ("Intel 8086:e20b", "Intel", "0000:03:00.0"),
    ]


def test_the_critical_temperature_is_of_the_sensor_that_stands_for_the_device(tmp_path: Path) -> None:
    files = {**AMD, "device/hwmon/hwmon4/temp1_crit": "100000", "device/hwmon/hwmon4/temp2_crit": "110000"}
    assert drm.critical_c(gpu(vendor="AMD"), tree(tmp_path, card0=files)) == 100.0
    assert drm.critical_c(gpu(vendor="AMD"), tree(tmp_path / "none", card0=AMD)) is None
    assert drm.critical_c(gpu(vendor="Imagination"), tree(tmp_path, card0=files)) is None

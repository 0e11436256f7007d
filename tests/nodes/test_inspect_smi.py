"""What nvidia-smi prints, by driver: element names and texts as public samples of drivers 470 to 580 show them."""

from __future__ import annotations

import pytest
from inspect_recorded import SMI

from hotlap.nodes.facts import Facts
from hotlap.nodes.inspect import node
from hotlap.nodes.inspect.place import packed

FOLDER = "sys/bus/pci/devices/0000:17:00.0"
SPLIT = "<sram_uncorrectable_parity>2</sram_uncorrectable_parity><sram_uncorrectable_secded>3</sram_uncorrectable_secded>"
LINKS = "GPU 0: NVIDIA H200 (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n\t Link 1: {second}\n\t Link 2: <inactive>\n"
OFF = "GPU 0: NVIDIA A100-PCIE-40GB (UUID: GPU-1)\nNVML: Unable to retrieve NVLink information as all links are inActive\n"


def read(inside: str = "", links: str = "") -> Facts:
    xml = SMI.format(gpus=f'<gpu id="00000000:17:00.0"><product_name>NVIDIA H200</product_name>{inside}</gpu>')
    files = {f"{FOLDER}/class": b"0x030200", f"{FOLDER}/vendor": b"0x10de", "commands/nvidia-smi-q.xml": xml.encode()}
    return node.facts(packed(files | ({"commands/nvidia-smi-nvlink": links.encode()} if links else {})))


@pytest.mark.parametrize(("counts", "total"), [
    (SPLIT, 5), ("<sram_uncorrectable>4</sram_uncorrectable>", 4), ("<sram_uncorrectable>N/A</sram_uncorrectable>", None), ("", None),
])
def test_sram_errors_of_both_kinds_are_summed(counts: str, total: int | None) -> None:
    assert read(f"<ecc_errors><aggregate>{counts}</aggregate></ecc_errors>").value("gpu[0].ecc.sram_uncorrected") == total


def test_the_threshold_of_sram_errors_is_read() -> None:
    inside = "<ecc_errors><aggregate><sram_threshold_exceeded>Yes</sram_threshold_exceeded></aggregate></ecc_errors>"
    assert read(inside).value("gpu[0].ecc.sram_threshold") == "Yes"


@pytest.mark.parametrize("group", ["clocks_event_reasons", "clocks_throttle_reasons"])
def test_slowdowns_are_read_under_the_names_of_old_and_new_drivers(group: str) -> None:
    stem = group.removesuffix("s")
    inside = f"<{group}><{stem}_hw_thermal_slowdown>Active</{stem}_hw_thermal_slowdown><{stem}_gpu_idle>Active</{stem}_gpu_idle></{group}>"
    assert read(inside).value("gpu[0].slowed") == ["hw_thermal_slowdown"]


@pytest.mark.parametrize("group", ["gpu_power_readings", "power_readings"])
def test_power_limits_are_read_under_the_names_of_old_and_new_drivers(group: str) -> None:
    limit = "current_power_limit" if group.startswith("gpu") else "power_limit"
    inside = f"<{group}><{limit}>650.00 W</{limit}><default_power_limit>700.00 W</default_power_limit></{group}>"
    facts = read(inside)
    assert (facts.value("gpu[0].power.limit_w"), facts.value("gpu[0].power.default_w")) == (650, 700)


def test_what_a_driver_no_longer_tells_is_no_number() -> None:
    inside = "<applications_clocks><graphics_clock>Requested functionality has been deprecated</graphics_clock></applications_clocks>"
    assert read(inside).value("gpu[0].clock.application_hz") is None


@pytest.mark.parametrize(("second", "lowest"), [("26.562 GB/s", 26.562e9), ("1.562 GB/s", 1.562e9)])
def test_links_that_are_up_down_and_slow(second: str, lowest: float) -> None:
    facts = read(links=LINKS.format(second=second))
    assert [facts.value(f"gpu[0].nvlink.{leaf}") for leaf in ("links", "active")] == [3, 2]
    assert facts.value("gpu[0].nvlink.bytes_per_s") == pytest.approx(lowest)
    assert facts.value("gpu[0].nvlink.highest_bytes_per_s") == pytest.approx(26.562e9)


def test_no_link_at_all_is_no_rate() -> None:
    facts = read(links=OFF)
    assert (facts.value("gpu[0].nvlink.active"), facts.value("gpu[0].nvlink.bytes_per_s")) == (0, None)

"""Endpoints, DCGM's exporter, ipmitool's output and AMD SMI, each as a source."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotlap.core.errors import InputError, Unavailable
from hotlap.core.record import Reading
from hotlap.nodes.sensors import dcgm, ipmi, prometheus

PAGE = """# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-a",modelName="NVIDIA H100, 80GB"} 1980
DCGM_FI_DEV_BOARD_POWER_WATTS{gpu="0",UUID="GPU-a"} 412.5
DCGM_FI_DEV_POWER_USAGE{gpu="1",UUID="GPU-b"} 398.25
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0",UUID="GPU-a"} 123456
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a"} 1024
DCGM_FI_DEV_MEMORY_TEMP{gpu="0",UUID="GPU-a"} 2147483632
DCGM_FI_DEV_ECC_SBE_VOL_TOTAL{gpu="0",UUID="GPU-a"} 9223372036854775792
DCGM_FI_DEV_XID_ERRORS{gpu="1",UUID="GPU-b"} 79
DCGM_FI_PROF_SM_UTIL_RATIO{gpu="0",UUID="GPU-a",GPU_I_ID="3"} 0.75
DCGM_FI_DEV_NEW_THING{gpu="0",UUID="GPU-a"} 5
node_load1 0.5
node_bad NaN
"""


@pytest.fixture
def server() -> Iterator[tuple[str, dict[str, object]]]:
    state: dict[str, object] = {"page": PAGE, "status": 200}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            time.sleep(float(str(state.get("wait", 0))))
            self.send_response(int(str(state["status"])))
            self.end_headers()
            self.wfile.write(str(state["page"]).encode())

        def log_message(self, *_: object) -> None:
            pass

    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{made.server_address[1]}/metrics", state
    made.shutdown()
    made.server_close()


def found(readings: list[Reading]) -> dict[tuple[str, str], Reading]:
    return {(one.device, one.sensor): one for one in readings}


# ---------------------------------------------------------------- Prometheus and DCGM


def test_fields_of_dcgm_by_number_under_either_name(server: tuple[str, dict[str, object]]) -> None:
    source = prometheus.Scrape(server[0])
    read = found(source.read(1.0))
    assert read["GPU-a", "clock_hz.sm"].value == 1.98e9
    assert read["GPU-a", "power_w.average"].value == 412.5
    assert read["GPU-b", "power_w.average"].value == 398.25
    assert read["GPU-a", "energy_j"].value == 123.456
    assert read["GPU-a", "memory_used_bytes"].value == 2**30
    assert read["GPU-b", "xid"].value == 79.0
    assert read["GPU-a/3", "utilization.sm"].value == 0.75
    assert read["GPU-a", "DCGM_FI_DEV_NEW_THING"].value == 5.0
    host = source.device
    assert read[host, "node_load1"].value == 0.5
    assert read[host, "node_bad"].status == "error"
    assert read[host, "reachable"].value == 1.0


def test_blanks_of_dcgm_are_no_measurement(server: tuple[str, dict[str, object]]) -> None:
    read = found(prometheus.Scrape(server[0]).read(1.0))
    for sensor in ("temperature_c.memory", "ecc_corrected"):
        assert (read["GPU-a", sensor].status, read["GPU-a", sensor].value) == ("error", None)


def test_numbers_of_dcgm_are_each_in_one_place() -> None:
    assert set(dcgm.NAMES) == set(dcgm.SENSORS)
    assert len(dcgm.NUMBERS) == sum(len(names) for names in dcgm.NAMES.values())
    assert len({sensor for sensor, _ in dcgm.SENSORS.values()}) == len(dcgm.SENSORS)


def test_an_endpoint_that_fails_says_why_and_tells_nothing_else(server: tuple[str, dict[str, object]]) -> None:
    url, state = server
    state["status"] = 500
    (one,) = prometheus.Scrape(url).read(1.0)
    assert (one.sensor, one.status) == ("reachable", "error")
    state |= {"status": 200, "wait": 1.0}
    (one,) = prometheus.Scrape(url, timeout_s=0.1).read(1.0)
    assert "timed out" in one.reason
    (one,) = prometheus.Scrape("http://127.0.0.1:9/metrics").read(1.0)
    assert "refused" in one.reason


@pytest.mark.parametrize("url", ["localhost:9400", "ftp://host/metrics", "http://", "http://host:notaport/", "http://me:secret@host/metrics"])
def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(InputError, match="--scrape takes") as caught:
        prometheus.Scrape(url)
    assert "secret" not in str(caught.value)


# ---------------------------------------------------------------- ipmitool

SENSOR = """CPU1 Temp        | 45.000     | degrees C  | ok    | 0.000     | 0.000     | 0.000     | 93.000    | 98.000    | 98.000
CPU2 Temp        | na         | degrees C  | na    | na        | na        | na        | na        | na        | na
FAN1             | 5600.000   | RPM        | ok    | 300.000   | 500.000   | 700.000   | 25300.000 | 25400.000 | 25500.000
12V              | 12.130     | Volts      | ok    | 10.173    | 10.299    | 10.740    | 12.945    | 13.260    | 13.386
PS1 Status       | 0x1        | discrete   | 0x0100| na        | na        | na        | na        | na        | na
PSU1 Power In    | 1450.000   | Watts      | ok    | na        | na        | na        | na        | na        | na
"""
SDR = """CPU1 Temp        | 45 degrees C      | ok
CPU2 Temp        | no reading        | ns
PS1 Status       | 0x01              | ok
FAN1             | 5600 RPM          | ok
"""
ELIST = """CPU1 Temp        | 01h | ok  |  3.1 | 45 degrees C
CPU2 Temp        | 02h | ns  |  3.2 | No Reading
PSU1 Power In    | C8h | ok  | 10.1 | 1450 Watts
"""
DCMI = """
    Instantaneous power reading:                  2480 Watts
    Minimum during sampling period:                410 Watts
    Maximum during sampling period:               6120 Watts
    Average power reading over sample period:     2210 Watts
    IPMI timestamp:                           Sat Nov  7 10:00:00 2026
    Sampling period:                          00000005 Seconds.
    Power reading state is:                   activated
"""


def values(readings: list[Reading]) -> dict[str, float | None]:
    return {one.sensor: one.value for one in readings}


def test_three_ways_in_which_ipmitool_lists_sensors() -> None:
    assert values(ipmi.sensors(SENSOR, 1.0)) == {
        "temperature_c.cpu1_temp": 45.0, "temperature_c.cpu2_temp": None, "fan_rpm.fan1": 5600.0, "voltage_v.12v": 12.13, "power_w.psu1_power_in": 1450.0,
    }
    assert values(ipmi.sensors(SDR, 1.0)) == {"temperature_c.cpu1_temp": 45.0, "fan_rpm.fan1": 5600.0}
    assert values(ipmi.sensors(ELIST, 1.0)) == {"temperature_c.cpu1_temp": 45.0, "power_w.psu1_power_in": 1450.0}
    assert ipmi.sensors("Get Device ID command failed\n", 1.0) == []


def test_power_by_dcmi() -> None:
    read = {one.sensor: one for one in ipmi.dcmi(DCMI, 1.0)}
    assert {name: one.value for name, one in read.items()} == {
        "power_w": 2480.0, "power_w.lowest": 410.0, "power_w.highest": 6120.0, "power_w.average": 2210.0,
    }
    assert (read["power_w"].window_s, read["power_w.average"].window_s) == (0.0, 5.0)


def test_power_that_a_board_does_not_measure() -> None:
    assert {one.status for one in ipmi.dcmi(DCMI.replace("activated", "deactivated"), 1.0)} == {"error"}
    first = ipmi.dcmi(DCMI.replace("2480", "0"), 1.0)[0]
    assert (first.value, first.status) == (None, "error")


def program(folder: Path, body: str) -> str:
    path = folder / "ipmitool"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_the_tool_is_asked_beside_the_sampler(tmp_path: Path) -> None:
    (tmp_path / "sensor").write_text(SENSOR)
    source = ipmi.Ipmi(program(tmp_path, f'[ "$1" = sensor ] && exec cat {tmp_path}/sensor\necho "DCMI request failed" >&2; exit 1'))
    try:
        read = {one.sensor: one for one in source.read(5.0)}
        assert read["power_w.psu1_power_in"].value == 1450.0
        assert read["power_w"].reason == "DCMI request failed"
        assert read["power_w"].time_s == 5.0
        assert source.read(5.1) == []  # nothing new
    finally:
        source.close()


def test_without_a_bmc_or_the_tool(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="ipmitool is not installed; apt-get install"):
        ipmi.Ipmi(str(tmp_path / "nothing"))
    with pytest.raises(Unavailable, match="Could not open device at /dev/ipmi0"):
        ipmi.Ipmi(program(tmp_path, "echo 'Could not open device at /dev/ipmi0' >&2; exit 1"))


# ---------------------------------------------------------------- AMD SMI

AMDSMI = """
    import os
    if os.environ.get("FAKE_AMDSMI") == "broken":
        print("Unable to find libamd_smi.so library try installing amd-smi-lib")
        raise KeyError("libamd_smi.so")
    class AmdSmiException(Exception): pass
    class AmdSmiLibraryException(AmdSmiException): pass
    class AmdSmiTemperatureType: EDGE, JUNCTION, VRAM = 0, 1, 2
    class AmdSmiTemperatureMetric: CURRENT = 0
    class AmdSmiClkType: GFX, MEM = 1, 5
    class AmdSmiMemoryType: VRAM = 0
    def amdsmi_init(): pass
    def amdsmi_get_processor_handles(): return ["first", "second"]
    def amdsmi_get_gpu_device_bdf(h): return {"first": "0000:C1:00.0", "second": "0000:C6:00.0"}[h]
    def amdsmi_get_power_info(h):
        if h == "second": return {"current_socket_power": 0, "average_socket_power": "N/A"}
        return {"current_socket_power": "N/A", "average_socket_power": 512}
    def amdsmi_get_energy_count(h): return {"energy_accumulator": 1000000, "counter_resolution": 15.25}
    def amdsmi_get_temp_metric(h, kind, metric):
        if kind == 0: raise AmdSmiLibraryException("Error code: 2 | AMDSMI_STATUS_NOT_SUPPORTED - feature")
        return {1: 63, 2: 55}[kind]
    def amdsmi_get_clock_info(h, kind): return {"clk": 2100 if kind == 1 else "N/A"}
    def amdsmi_get_gpu_activity(h): return {"gfx_activity": 88, "umc_activity": "N/A"}
    def amdsmi_get_gpu_memory_usage(h, kind): raise AmdSmiLibraryException("Error code: 10 | AMDSMI_STATUS_BUSY")
    def amdsmi_get_gpu_total_ecc_count(h): return {"correctable_count": 4, "uncorrectable_count": 0}
"""
CHILD = """
    import json, sys
    from hotlap.core.record import Device
    from hotlap.core.measure.sensors import amd_smi
    from types import SimpleNamespace
    device = Device(target="opencl", index=0, name="MI300X", kind="gpu", vendor="AMD", pci_address=sys.argv[1])
    target = SimpleNamespace(device=device)
    sources = amd_smi.find(target, sys.argv[2:])
    read = {r.sensor: [r.value, r.status, r.reason] for s in sources for r in s.read(1.0)}
    print(json.dumps([read, amd_smi.missing(target)]))
"""


def amd(folder: Path, *words: str, fake: str = "whole") -> tuple[dict[str, list[object]], str]:
    (folder / "amdsmi.py").write_text(textwrap.dedent(AMDSMI))
    path = f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CHILD), *words], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": path, "FAKE_AMDSMI": fake},
    )
    read, missing = json.loads(done.stdout)  # whatever the package prints must not stand before it
    return read, missing


@pytest.mark.slow("a process of its own")
def test_amd_smi(tmp_path: Path) -> None:
    read, missing = amd(tmp_path, "0000:c1:00.0")
    assert missing == ""
    assert {name: value for name, (value, *_) in read.items() if value is not None} == {
        "power_w": 512.0, "energy_j": 15.25, "temperature_c": 63.0, "temperature_c.junction": 63.0, "temperature_c.memory": 55.0,
        "clock_hz.sm": 2.1e9, "utilization": 0.88, "ecc_corrected": 4.0, "ecc_uncorrected": 0.0,
    }
    assert read["clock_hz.memory"][1:] == ["not_supported", "the driver answers N/A"]
    assert read["memory_used_bytes"][1:] == ["error", "AMD SMI: Error code: 10 | AMDSMI_STATUS_BUSY"]


@pytest.mark.slow("a process of its own")
def test_the_odd_die_at_zero_watts(tmp_path: Path) -> None:
    read, _ = amd(tmp_path, "0000:c6:00.0")
    assert read["power_w"][:2] == [None, "error"]


@pytest.mark.slow("a process of its own")
def test_what_the_kernel_shows_is_not_asked_twice(tmp_path: Path) -> None:
    read, _ = amd(tmp_path, "0000:c1:00.0", "power_w", "temperature_c")
    assert not {"power_w", "temperature_c"} & set(read)
    assert "energy_j" in read


@pytest.mark.slow("a process of its own")
def test_a_package_that_prints_and_raises(tmp_path: Path) -> None:
    read, missing = amd(tmp_path, "0000:c1:00.0", fake="broken")
    assert read == {}
    assert missing == "amdsmi cannot be used (KeyError: 'libamd_smi.so'); install ROCm and its amd-smi-lib"


@pytest.mark.slow("a process of its own")
def test_a_gpu_that_amd_smi_does_not_list(tmp_path: Path) -> None:
    assert amd(tmp_path, "0000:ff:00.0")[1].startswith("AMD SMI has no GPU at 0000:ff:00.0")

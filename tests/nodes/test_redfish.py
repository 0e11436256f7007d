"""Redfish answers as readings: the traps of a recorded HGX BMC, by hand-written samples."""

import json
import os
from pathlib import Path

import pytest

from hotlap.core.errors import MachineError
from hotlap.nodes.sensors import redfish, redfish_resources

NOW = redfish.instant("2026-06-29T08:05:27.500+00:00")


def rows(*given, stale=False):
    values = [{"MetricProperty": p, "MetricValue": v, "Timestamp": t, "Oem": {"Nvidia": {"MetricValueStale": stale}}} for p, v, t in given]
    return redfish.report(json.dumps({"Id": "r", "MetricValues": values}).encode(), "node1", 5.0, NOW)


def test_a_row_keeps_its_own_time():
    (reading,) = rows(("/redfish/v1/Chassis/HGX_GPU_0/Sensors/HGX_GPU_0_Power_0", "232.168", "2026-06-29T08:05:26.500+00:00"))
    assert (reading.sensor, reading.device, reading.value, reading.time_s) == ("power_w", "node1/HGX_GPU_0", 232.168, 5.0)
    assert reading.sensor_s == pytest.approx(NOW - 1.0)


def test_rows_that_are_stale_are_no_values():
    old, new = rows(
        ("/redfish/v1/Chassis/HGX_CPU_0#/Status/A", "1", "2026-04-29T08:05:27+00:00"),
        ("/redfish/v1/Chassis/HGX_CPU_0#/Status/B", "1", "2026-06-29T08:05:27+00:00"),
    )
    assert old.status == "error"
    assert "stale" in old.reason
    assert old.value is None
    assert new.status == "ok"
    (marked,) = rows(("/redfish/v1/Chassis/C#/X", "1", "2026-06-29T08:05:27+00:00"), stale=True)
    assert marked.value is None
    assert "marks" in marked.reason


@pytest.mark.parametrize(
    ("text", "seconds"), [("PT0S", 0.0), ("P6DT23H36M51.224568128S", 6 * 86400 + 23 * 3600 + 36 * 60 + 51.224568128), ("PT15M", 900.0)]
)
def test_durations(text, seconds):
    assert redfish.number(text) == (pytest.approx(seconds), "")


@pytest.mark.parametrize(
    "text", ["P546663DT15H46M40S", "18446744073709551615", "NA", "Unknown", "PeerResetEvent", "", None, "nan", "inf", "P", "PT"]
)
def test_what_is_no_value_says_so(text):
    value, reason = redfish.number(text)
    assert value is None
    assert reason


@pytest.mark.parametrize(
    ("path", "device", "sensor", "scale"),
    [
        ("/redfish/v1/Chassis/HGX_GPU_0/Sensors/HGX_GPU_0_DRAM_0_Power_0", "HGX_GPU_0", "power_w.dram_0", 1.0),
        ("/redfish/v1/Chassis/HGX_GPU_0/Sensors/HGX_GPU_0_Energy_0", "HGX_GPU_0", "energy_j", 1.0),
        ("/redfish/v1/Chassis/PDB_0/Sensors/PDB_0_HSC_1_Pwr_0", "PDB_0", "power_w.hsc_1", 1.0),
        ("/redfish/v1/Systems/B/Processors/GPU_0/ProcessorMetrics#/OperatingSpeedMHz", "GPU_0", "operating_speed_hz", 1e6),
        (
            "/redfish/v1/Systems/B/Processors/GPU_0/Ports/NVLink_0/Metrics#/Oem/Nvidia/NVLinkDataRxBandwidthGbps",
            "GPU_0/NVLink_0",
            "nv_link_data_rx_bandwidth_bytes_per_s",
            1e9 / 8,
        ),
    ],
)
def test_names_end_in_their_unit(path, device, sensor, scale):
    assert redfish.named(path) == (device, sensor, scale)


def test_power_and_thermal_leave_out_what_is_absent():
    thermal = {
        "@odata.id": "/redfish/v1/Chassis/1/Thermal",
        "@odata.type": "#Thermal.v1_7_0.Thermal",
        "Temperatures": [
            {"Name": "Inlet", "ReadingCelsius": 21, "Status": {"State": "Enabled"}},
            {"Name": "GPU 7", "ReadingCelsius": 0, "Status": {"State": "Absent"}},
        ],
        "Fans": [{"Name": "Fan 1", "Reading": 40, "ReadingUnits": "Percent"}],
    }
    inlet, gpu, fan = (one for _, one in redfish_resources.read(thermal, "n", 0.0))
    assert (inlet.sensor, inlet.value) == ("temperature_c.inlet", 21.0)
    assert gpu.value is None
    assert gpu.status == "error"
    assert fan.value == pytest.approx(0.4)
    power = {
        "@odata.id": "/redfish/v1/Chassis/1/Power",
        "@odata.type": "#Power.v1_7_0.Power",
        "PowerControl": [{"Name": "System", "PowerConsumedWatts": None}],
    }
    assert redfish_resources.read(power, "n", 0.0)[0][1].value is None


def test_no_report_is_said():
    with pytest.raises(MachineError, match="n answers with no metric report"):
        redfish.report(b"<html>", "n", 0.0, 0.0)


def test_a_recorded_bmc():
    folder = os.environ.get("HOTLAP_REDFISH_CRAWL", "")
    files = sorted(Path(folder).glob("*_MetricReports_*.json")) if folder else []
    if not files:
        pytest.skip("HOTLAP_REDFISH_CRAWL names no folder with a recorded BMC's *_MetricReports_*.json")
    for file in files:
        data = file.read_bytes()
        readings = redfish.report(data, "n", 0.0, 0.0)
        assert len(readings) == len(json.loads(data)["MetricValues"])
        assert len({(r.device, r.sensor) for r in readings}) == len(readings), f"{file.name}: two rows of one name"
        assert all((r.value is None) == (r.status == "error") == bool(r.reason) for r in readings)
        assert all(r.value < 1e15 for r in readings if r.value is not None and r.sensor.endswith("_s"))

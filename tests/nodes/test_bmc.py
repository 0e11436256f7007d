"""Polling BMCs over TLS: login and again, time-outs, errors, certificates, and secrets that stay secret."""

import asyncio
import json
import tarfile
from pathlib import Path

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("trustme")

from tests.nodes.bmc_server import Server

from hotlap.core.errors import InputError
from hotlap.nodes.sensors import bmc, bmc_file

REPORT = "/redfish/v1/TelemetryService/MetricReports/E"
DOCUMENTS = {
    "/redfish/v1/TelemetryService/MetricReports": json.dumps({"Members": [{"@odata.id": REPORT}]}).encode(),
    REPORT: json.dumps(
        {
            "Id": "E",
            "MetricValues": [
                {
                    "MetricProperty": "/redfish/v1/Chassis/GPU_0/Sensors/GPU_0_Power_0",
                    "MetricValue": "300.5",
                    "Timestamp": "2026-06-29T08:05:27+00:00",
                },
            ],
        }
    ).encode(),
}
RECORDED = Path(__file__).resolve().parents[3] / "shared" / "data" / "redfish" / "gb300_supermicro.tar.gz"
SECRET = bmc_file.Credentials("root", "hunter2-secret")


def polled(endpoints, rounds=1, period_s=0.05, timeout_s=2.0):
    found = []
    asyncio.run(bmc.watch(endpoints, period_s, found.extend, rounds, timeout_s))
    return found


def endpoint(server, name="n", **more):
    return bmc_file.Endpoint(server.url, name, **{"cafile": server.cafile, **more})


def test_reads_reports_after_a_login_and_logs_out(tmp_path):
    with Server(DOCUMENTS, "root", "hunter2-secret", tmp_path) as server:
        power, reachable = polled([endpoint(server, credentials=SECRET)])
        assert (power.sensor, power.device, power.value) == ("power_w", "n/GPU_0", 300.5)
        assert reachable.value == 1.0
        assert ("DELETE", "/redfish/v1/SessionService/Sessions/1") in server.asked


def test_logs_in_again_when_the_session_has_ended(tmp_path):
    with Server(DOCUMENTS, "root", "hunter2-secret", tmp_path) as server:
        found = []

        def listen(readings):
            found.extend(readings)
            server.forget()

        asyncio.run(bmc.watch([endpoint(server, credentials=SECRET)], 0.05, listen, 3))
        assert sum(r.sensor == "power_w" for r in found) == 3
        assert server.logins == 3


def test_wrong_password_is_named_and_not_shown(tmp_path):
    with Server(DOCUMENTS, "root", "another", tmp_path) as server:
        (only,) = polled([endpoint(server, credentials=SECRET)])
        assert only.status == "error"
        assert only.reason == "the BMC refuses the user or the password"
        assert "hunter2" not in repr(SECRET) + repr(endpoint(server, credentials=SECRET))


def test_an_untrusted_certificate_is_refused_unless_asked(tmp_path):
    with Server(DOCUMENTS, folder=tmp_path) as server:
        (only,) = polled([endpoint(server, cafile="")])
        assert "certificate is not trusted" in only.reason
        assert polled([endpoint(server, cafile="", insecure=True)])[0].value == 300.5


def test_a_dead_and_a_slow_one_delay_nobody(tmp_path):
    other = tmp_path / "slow"
    other.mkdir()
    with Server(DOCUMENTS, folder=tmp_path) as server, Server(DOCUMENTS, folder=other) as slow:
        slow.faults[REPORT] = 5.0
        ends = [endpoint(server, "good"), endpoint(slow, "slow"), bmc_file.Endpoint("https://127.0.0.1:1", "dead")]
        found = polled(ends, rounds=2, period_s=0.2, timeout_s=0.5)
        good = [r.time_s for r in found if r.device == "good" and r.status == "ok"]
        assert len(good) == 2
        assert good[1] - good[0] < 0.4
        reasons = {r.device: r.reason for r in found if r.status == "error"}
        assert reasons["slow"] == "no answer within 0.5 s"
        assert reasons["dead"] == "no connection to 127.0.0.1:1: connection refused"


def test_a_500_is_said_and_the_next_poll_reads_again(tmp_path):
    with Server(DOCUMENTS, folder=tmp_path) as server:
        server.faults[REPORT] = 500
        found = []

        def listen(readings):
            found.extend(readings)
            server.faults.clear()

        asyncio.run(bmc.watch([endpoint(server)], 0.05, listen, 2))
        assert found[0].reason.endswith("with 500")
        assert found[1].value == 300.5


def test_without_telemetry_thermal_and_power_are_read(tmp_path):
    documents = {
        "/redfish/v1/Chassis": json.dumps({"Members": [{"@odata.id": "/redfish/v1/Chassis/1"}]}).encode(),
        "/redfish/v1/Chassis/1": json.dumps({"Thermal": {"@odata.id": "/redfish/v1/Chassis/1/Thermal"}}).encode(),
        "/redfish/v1/Chassis/1/Thermal": json.dumps(
            {
                "@odata.id": "/redfish/v1/Chassis/1/Thermal",
                "@odata.type": "#Thermal.v1_7_0.Thermal",
                "Temperatures": [{"Name": "Inlet", "ReadingCelsius": 21}],
            }
        ).encode(),
    }
    with Server(documents, folder=tmp_path) as server:
        assert polled([endpoint(server)])[0].value == 21.0


def excerpt(sensor, value, **more):
    return {"DataSourceUri": f"/redfish/v1/Chassis/C/Sensors/{sensor}", "Reading": value, **more}


def offered(*, reports=False, chassis=(), **resources):
    """A service with one chassis: `resources` by path below it, `__` for /."""
    base = "/redfish/v1/Chassis/C"
    found = {
        "/redfish/v1": {"Chassis": {"@odata.id": "/redfish/v1/Chassis"}},
        "/redfish/v1/Chassis": {"Members": [{"@odata.id": base}]},
        base: {name: {"@odata.id": f"{base}/{name}"} for name in chassis},
    }
    for name, (kind, body) in resources.items():
        path = f"{base}/{name.replace('__', '/')}"
        found[path] = {"@odata.id": path, "@odata.type": f"#{kind}.v1_0_0.{kind}", **body}
    return {path: json.dumps(body).encode() for path, body in found.items()}


def values(readings):
    return {(r.device, r.sensor): r.value if r.status == "ok" else r.reason for r in readings if r.sensor != "reachable"}


def to(path):
    return {"@odata.id": f"/redfish/v1/Chassis/C/{path}"}


SUBSYSTEMS = offered(
    chassis=("EnvironmentMetrics", "ThermalSubsystem", "PowerSubsystem", "Sensors", "Thermal", "Power"),
    EnvironmentMetrics=("EnvironmentMetrics", {
        "PowerWatts": excerpt("C_Total_Power", 900.0), "EnergykWh": {"Reading": 2.0}, "PowerLimitWatts": {"SetPoint": 1200, "ControlMode": "Automatic"},
        "FanSpeedsPercent": [{"DataSourceUri": "/redfish/v1/Chassis/C/Sensors/FAN_1_PWM", "SpeedRPM": 40.0}],
    }),
    ThermalSubsystem=("ThermalSubsystem", {"ThermalMetrics": to("ThermalSubsystem/ThermalMetrics"), "Fans": to("ThermalSubsystem/Fans")}),
    ThermalSubsystem__ThermalMetrics=("ThermalMetrics", {"TemperatureReadingsCelsius": [excerpt("C_Inlet_Temp_0", 21.5), excerpt("C_SSD_Temp", None)]}),
    ThermalSubsystem__Fans=("FanCollection", {"Members": [to("ThermalSubsystem/Fans/2")]}),
    ThermalSubsystem__Fans__2=("Fan", {"Id": "2", "SpeedPercent": {"Reading": 50, "SpeedRPM": 9000}}),
    PowerSubsystem=("PowerSubsystem", {"PowerSupplies": to("PowerSubsystem/PowerSupplies")}),
    PowerSubsystem__PowerSupplies=("PowerSupplyCollection", {"Members": [to("PowerSubsystem/PowerSupplies/PSU1")]}),
    PowerSubsystem__PowerSupplies__PSU1=("PowerSupply", {"Metrics": to("PowerSubsystem/PowerSupplies/PSU1/Metrics")}),
    PowerSubsystem__PowerSupplies__PSU1__Metrics=("PowerSupplyMetrics", {
        "InputPowerWatts": {"Reading": 950.0}, "OutputPowerWatts": excerpt("C_Total_Power", 901.0), "InputVoltage": {"Reading": 230.0},
    }),
    Sensors=("SensorCollection", {"Members": [to("Sensors/C_Total_Power"), to("Sensors/C_Die_Temp")]}),
    Sensors__C_Total_Power=("Sensor", {"Id": "C_Total_Power", "Reading": 902.0, "ReadingUnits": "W"}),
    Sensors__C_Die_Temp=("Sensor", {"Id": "C_Die_Temp", "Reading": 55.0, "ReadingUnits": "Cel", "ReadingTime": "1970-01-01T00:00:00+00:00"}),
)  # fmt: skip


def test_subsystems_are_followed_and_no_sensor_is_read_twice(tmp_path):
    with Server(SUBSYSTEMS, folder=tmp_path) as server:
        found = polled([endpoint(server)], rounds=3)
        first = values(found[: len(found) // 3])
        assert first == {
            ("n/C", "power_w.total"): 900.0, ("n/C", "energy_j"): 7.2e6, ("n/C", "power_limit_w"): 1200.0, ("n/C", "fan.fan_1"): 0.4,
            ("n/C", "temperature_c.inlet"): 21.5, ("n/C", "temperature_c.ssd"): "no value", ("n/C", "fan.2"): 0.5, ("n/C", "fan_rpm.2"): 9000.0,
            ("n/C", "power_w.psu1_input"): 950.0, ("n/C", "voltage_v.psu1_input"): 230.0, ("n/C", "temperature_c.die"): 55.0,
        }  # fmt: skip
        assert values(found[len(found) // 3 :]) == first
        asked = [path for verb, path in server.asked if verb == "GET"]
        assert asked.count("/redfish/v1/Chassis/C/Sensors/C_Total_Power") == 1, "a sensor that another resource quotes is not asked for again"
        assert asked.count("/redfish/v1/Chassis/C/Sensors/C_Die_Temp") == 3
        assert asked.count("/redfish/v1/Chassis/C/Thermal") == asked.count("/redfish/v1/Systems") == 0, "only what is offered and needed"


def test_a_resource_that_fails_costs_its_own(tmp_path):
    broken = "/redfish/v1/Chassis/C/PowerSubsystem/PowerSupplies/PSU1/Metrics"
    with Server(SUBSYSTEMS, folder=tmp_path) as server:
        server.faults[broken] = 500
        found = polled([endpoint(server)])
        failed = [r for r in found if r.status == "error" and r.sensor.startswith("resource.")]
        assert [r.reason for r in failed] == [f"the BMC answers {broken} with 500"]
        assert values(found)["n/C", "power_w.total"] == 900.0
        assert found[-1].sensor == "reachable"
        assert found[-1].value == 1.0


def test_one_that_hangs_or_answers_nonsense_costs_its_own_and_two_that_hang_end_the_poll(tmp_path):
    base = "/redfish/v1/Chassis/C"
    with Server({**SUBSYSTEMS, f"{base}/ThermalSubsystem/Fans/2": b"<html>"}, folder=tmp_path) as server:
        server.faults[f"{base}/EnvironmentMetrics"] = 5.0
        found = values(polled([endpoint(server)], timeout_s=0.3))
        assert found["n", "resource.Chassis/C/EnvironmentMetrics"] == "no answer within 0.3 s"
        assert found["n", "resource.Chassis/C/ThermalSubsystem/Fans/2"].endswith("with no JSON object")
        assert found["n/C", "power_w.total"] == 901.0, "the supply quotes the same sensor"
        server.faults[f"{base}/ThermalSubsystem/ThermalMetrics"] = 5.0
        (only,) = polled([endpoint(server)], timeout_s=0.3)
        assert (only.sensor, only.reason) == ("reachable", "no answer within 0.3 s")


@pytest.mark.parametrize("away", ["@evil.example/x", "https://evil.example/x", "//evil.example/x", 7, None])
def test_a_link_that_leaves_the_bmc_is_not_followed(away):
    assert bmc.redfish_tree.members({"Members": [{"@odata.id": away}, {"@odata.id": "/redfish/v1/a"}]}) == ["/redfish/v1/a"]
    assert bmc.redfish_tree.link({"Chassis": {"@odata.id": away}}, "Chassis") == ""


def report_of(*rows, time="2026-06-29T08:05:27+00:00"):
    kept = [{"MetricProperty": path, "MetricId": name, "MetricValue": value, "Timestamp": time} for path, name, value in rows]
    return json.dumps({"MetricValues": kept}).encode()


def test_units_of_metric_definitions_and_what_reports_lack(tmp_path):
    telemetry = "/redfish/v1/TelemetryService"
    documents = {
        **SUBSYSTEMS,
        "/redfish/v1": json.dumps({"Chassis": {"@odata.id": "/redfish/v1/Chassis"}, "TelemetryService": {"@odata.id": telemetry}}).encode(),
        telemetry: json.dumps({name: {"@odata.id": f"{telemetry}/{name}"} for name in ("MetricReports", "MetricDefinitions")}).encode(),
        f"{telemetry}/MetricReports": json.dumps({"Members": [{"@odata.id": REPORT}]}).encode(),
        f"{telemetry}/MetricDefinitions": json.dumps({"Members": [{"@odata.id": f"{telemetry}/MetricDefinitions/SystemInput"}]}).encode(),
        f"{telemetry}/MetricDefinitions/SystemInput": json.dumps({"Id": "SystemInput", "Units": "kW"}).encode(),
        REPORT: report_of(("/redfish/v1/Chassis/C/Sensors/C_Total_Power", "", "899.0"), ("", "SystemInput", "1.5")),
    }
    with Server(documents, folder=tmp_path) as server:
        found = values(polled([endpoint(server)]))
    assert found["n/C", "power_w.total"] == 899.0
    assert found["n", "power_w.systeminput"] == 1500.0
    assert found["n/C", "power_limit_w"] == 1200.0
    assert ("n/C", "temperature_c.die") not in found, "single sensors are not asked for where there are reports"


def test_a_report_that_does_not_move_is_stale():
    client = bmc.Client(bmc_file.Endpoint("https://x", "n"), None, None)
    path = "/redfish/v1/Chassis/C/Sensors/C_Power_0"

    def at(time_s, time):
        (one,) = client._moving("r", bmc.redfish.report(report_of((path, "", "5"), time=time), "n", time_s, 0.0), time_s)
        return one.reason or one.value

    assert [at(0.0, "2026-06-29T08:00:00Z"), at(59.0, "2026-06-29T08:00:00Z")] == [5.0, 5.0]
    assert at(61.0, "2026-06-29T08:00:00Z") == "stale: no time of its report has moved for 61 s"
    assert at(70.0, "2026-06-29T08:00:09Z") == 5.0


def crawl():
    with tarfile.open(RECORDED) as archive:
        for entry in archive:
            try:
                found = json.load(archive.extractfile(entry)) if entry.isfile() and entry.name.endswith(".json") else {}
            except ValueError:
                continue
            if "@odata.id" in found:
                yield found["@odata.id"].rstrip("/"), found


@pytest.mark.skipif(not RECORDED.is_file(), reason="the recorded Redfish crawl is not here")
def test_a_recorded_bmc_with_and_without_its_reports(tmp_path):
    tree = dict(crawl())
    documents = {path: json.dumps(found).encode() for path, found in tree.items()}
    with Server(documents, folder=tmp_path) as server:
        found = polled([endpoint(server)])
        asked = len(server.asked)
        polled_again = polled([endpoint(server)], rounds=2)
        extra = len(server.asked) - 2 * asked
        documents["/redfish/v1"] = json.dumps({k: v for k, v in tree["/redfish/v1"].items() if k != "TelemetryService"}).encode()
        single = polled([endpoint(server)])
    by = values(found)
    assert len(by) == len(found) - 1, "two readings of one name"
    assert len(polled_again) == 2 * len(found)
    assert (asked, extra) == (242, 20), "after the first poll only the reports and what they lack are asked for"
    assert by["n/HGX_GPU_0", "power_limit_w"] == 1400.0
    assert by["n/HGX_CPU_0", "power_limit_w"] == "no number: 'limit is switched off'"
    assert by["n/Chassis_0", "fan.fan_1"] == pytest.approx(0.4), "a share that the BMC calls SpeedRPM"
    alone = values(single)
    assert len(alone) == len(single) - 1
    assert alone["n/HGX_GPU_0", "power_w"] == pytest.approx(232, abs=1)
    shared = {key for key in alone if key in by}
    assert len(shared) > 100, "a sensor has one name, however it is read"
    assert ("n/HGX_GPU_0", "energy_j") in shared


@pytest.mark.skipif(not RECORDED.is_file(), reason="the recorded Redfish crawl is not here")
def test_names_tell_the_units_that_sensors_state():
    count = 0
    for path, found in crawl():
        if "/Sensors/" in path and "ReadingUnits" in found:
            chassis = path.split("/")[4]
            assert bmc.redfish.of_sensor(found["Id"], chassis) == bmc.redfish.of_sensor(found["Id"], chassis, found["ReadingUnits"])
            count += 1
    assert count == 266


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no BMC"),
        ("bmc = 1", "names no BMC"),
        ('[[bmc]]\nurl = "ftp://x"', "https://HOST"),
        ('[[bmc]]\nurl = "https://a"\npassword = "x"', "no password here"),
        ('[[bmc]]\nurl = "https://a"\ninsecur = true', "did you mean 'insecure'"),
        ('[[bmc]]\nurl = "https://a"\n[[bmc]]\nurl = "https://a"', "stands twice"),
        ("[[bmc", "no list of BMCs"),
    ],
)
def test_a_wrong_file_is_one_clear_line(tmp_path, text, said):
    (tmp_path / "b.toml").write_text(text)
    with pytest.raises(InputError, match=said):
        bmc_file.load(tmp_path / "b.toml")


def test_a_file_of_credentials_is_for_its_owner_alone(tmp_path):
    secret = tmp_path / "secret.toml"
    secret.write_text('user = "root"\npassword = "hunter2"')
    secret.chmod(0o644)
    with pytest.raises(InputError, match="read by others"):
        bmc_file.credentials(secret)
    secret.chmod(0o600)
    assert bmc_file.credentials(secret).password == "hunter2"
    secret.write_text("password = hunter2")
    with pytest.raises(InputError) as caught:
        bmc_file.credentials(secret)
    assert "hunter2" not in str(caught.value)

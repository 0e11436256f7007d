"""Polling BMCs over TLS: login and again, time-outs, errors, certificates, and secrets that stay secret."""

import asyncio
import json

import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("trustme")

from tests.sensors.bmc_server import Server

from hotlap.errors import InputError
from hotlap.sensors import bmc

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
SECRET = bmc.Credentials("root", "hunter2-secret")


def polled(endpoints, rounds=1, period_s=0.05, timeout_s=2.0):
    found = []
    asyncio.run(bmc.watch(endpoints, period_s, found.extend, rounds, timeout_s))
    return found


def endpoint(server, name="n", **more):
    return bmc.Endpoint(server.url, name, **{"cafile": server.cafile, **more})


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
        ends = [endpoint(server, "good"), endpoint(slow, "slow"), bmc.Endpoint("https://127.0.0.1:1", "dead")]
        found = polled(ends, rounds=2, period_s=0.2, timeout_s=0.5)
        good = [r.time_s for r in found if r.device == "good" and r.status == "ok"]
        assert len(good) == 2
        assert good[1] - good[0] < 0.4
        reasons = {r.device: r.reason for r in found if r.status == "error"}
        assert reasons["slow"] == "no answer within 0.5 s"
        assert "Connect" in reasons["dead"]


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
        bmc.load(tmp_path / "b.toml")


def test_a_file_of_credentials_is_for_its_owner_alone(tmp_path):
    secret = tmp_path / "secret.toml"
    secret.write_text('user = "root"\npassword = "hunter2"')
    secret.chmod(0o644)
    with pytest.raises(InputError, match="read by others"):
        bmc.credentials(secret)
    secret.chmod(0o600)
    assert bmc.credentials(secret).password == "hunter2"
    secret.write_text("password = hunter2")
    with pytest.raises(InputError) as caught:
        bmc.credentials(secret)
    assert "hunter2" not in str(caught.value)

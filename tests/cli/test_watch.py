"""hotlap watch: what it prints, writes and exports."""

import json
import threading
import time
import urllib.request

import pytest

from hotlap import cli
from hotlap.cli import watch
from hotlap.record import Reading
from hotlap.sensors.tally import Tally


def test_a_simulated_gpu_ends_with_a_summary(capsys):
    assert cli.main(["watch", "--target", "simulated:h200-sxm", "--for", "5 s"]) == 0
    out = capsys.readouterr().out
    assert "power_w=" in out
    assert "energy" in out
    assert "±" in out


def test_json_lines(tmp_path, capsys):
    path = tmp_path / "r.jsonl"
    assert cli.main(["watch", "--target", "simulated:h200-sxm", "--for", "3 s", "--to", f"file:{path}", "--json"]) == 0
    kept = [json.loads(line) for line in path.read_text().splitlines()]
    assert sum(one["sensor"] == "power_w" for one in kept) == 3
    shown = json.loads(capsys.readouterr().out)
    assert next(iter(shown.values()))["sensors"]["power_w"]["count"] == 3


def test_the_exporter_drops_what_has_died(capsys):
    sink = watch.Exporter(0, 0.1)
    try:
        sink.take([Reading(sensor="power_w", device="d", time_s=0, value=5.0)])
        url = f"http://127.0.0.1:{sink.server.server_address[1]}"
        assert b'hotlap_power_watts{device="d"} 5.0' in urllib.request.urlopen(url + "/metrics").read()
        time.sleep(0.4)
        assert b"power" not in urllib.request.urlopen(url + "/metrics").read()
    finally:
        sink.close()
    assert threading.active_count() < 50


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to", "carrier-pigeon"], "valid: prometheus"),
        (["--every", "0 s"], "above zero"),
        (["--for", "soon"], "soon"),
        (["--bmc", "/nowhere.toml"], "no list of BMCs"),
        (["--target", "nonsense"], "no target 'nonsense'"),
        (["--device", "77"], "no device 77"),
    ],
)
def test_bad_input_is_one_line(words, said, capsys):
    assert cli.main(["watch", "--for", "1 s", *words]) == 2
    err = capsys.readouterr().err
    assert said in err.splitlines()[-1]


def test_residency_by_cause():
    tally = Tally(1.0)
    for second, mask in enumerate([0x4, 0x4, 0x44, 0x0, 0x0]):
        tally.add([Reading(sensor="throttle", device="d", time_s=float(second), value=float(mask))])
    assert tally.residency("d") == {"software power cap": 0.75, "hardware thermal": 0.25}


def test_bmcs_are_watched_and_secrets_stay_secret(tmp_path, capsys):
    pytest.importorskip("aiohttp")
    pytest.importorskip("trustme")
    from tests.sensors.bmc_server import Server

    report = "/redfish/v1/TelemetryService/MetricReports/E"
    row = {"MetricProperty": "/redfish/v1/Chassis/GPU_0/Sensors/GPU_0_Power_0", "MetricValue": "300.5", "Timestamp": "2026-06-29T08:05:27+00:00"}
    secret = tmp_path / "secret.toml"
    secret.write_text('user = "root"\npassword = "hunter2-secret"')
    secret.chmod(0o600)
    with Server({report: json.dumps({"MetricValues": [row]}).encode()}, "root", "hunter2-secret", tmp_path) as server:
        (tmp_path / "bmcs.toml").write_text(
            f'[[bmc]]\nurl = "{server.url}"\nname = "n1"\ncafile = "ca.pem"\ncredentials = "secret.toml"\nreports = ["E"]\n'
        )
        kept = tmp_path / "r.jsonl"
        assert cli.main(["watch", "--bmc", str(tmp_path / "bmcs.toml"), "--every", "0.3 s", "--for", "1.2 s", "--to", f"file:{kept}"]) == 0
    caught = capsys.readouterr()
    assert "300.5 W" in caught.out
    assert "hunter2" not in caught.out + caught.err + kept.read_text()
    assert "token" not in caught.out + caught.err + kept.read_text()

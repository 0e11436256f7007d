"""hotlap watch: what it prints, writes and exports."""

import http.server
import json
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from types import SimpleNamespace

import pytest

from hotlap import cli
from hotlap.core.measure.targets.base import SystemClock
from hotlap.core.record import Device, Reading
from hotlap.nodes.cli import watch, watching
from hotlap.nodes.sensors import exporter, otlp, prometheus
from hotlap.nodes.sensors.tally import SensorStats


def test_a_simulated_gpu_ends_with_a_summary(capsys):
    assert cli.main(["node", "watch", "--target", "simulated:h200-sxm", "--for", "5 s"]) == 0
    out = capsys.readouterr().out
    assert "power_w=" in out
    assert "energy" in out
    assert "±" in out


def test_json_lines(tmp_path, capsys):
    path = tmp_path / "r.jsonl"
    assert cli.main(["node", "watch", "--target", "simulated:h200-sxm", "--for", "3 s", "--to", f"lines:{path}", "--json"]) == 0
    head, *kept = [json.loads(line) for line in path.read_text().splitlines()]
    assert head["watch"]["devices"] == {"simulated-h200-sxm-0": "NVIDIA H200 SXM 141 GB (simulated)"}
    assert head["watch"]["began"].startswith("20")
    assert all(abs(one["unix_s"] - time.time()) < 3600 for one in kept)
    assert sum(one["sensor"] == "power_w" for one in kept) == 3
    shown = json.loads(capsys.readouterr().out)["telemetry"]
    assert next(iter(shown.values()))["sensors"]["power_w"]["count"] == 3


@pytest.fixture
def now_s(monkeypatch):
    """The exporter's clock, as a list of one number."""
    now = [1000.0]
    monkeypatch.setattr(exporter, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_the_exporter_drops_what_has_died(now_s):
    sink = exporter.Exporter(0, 0.1)
    try:
        sink.take([Reading(sensor="power_w", device="d", time_s=0, value=5.0)])
        url = f"http://127.0.0.1:{sink.port}"
        assert b'hotlap_power_watts{device="d"} 5.0' in urllib.request.urlopen(url + "/metrics").read()
        now_s[0] += 0.4
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
        (["--bmc", "/nowhere.toml"], "cannot be read as a list of BMCs: no such file"),
        (["--target", "nonsense"], "no target 'nonsense'"),
        (["--device", "77"], "no device 77"),
        (["--scrape", "localhost:9400"], "--scrape takes a URL"),
        (["--to", "otlp:localhost"], "--to otlp takes a URL"),
        (["--to", "otlp:http://me:secret@host"], "without user and password"),
    ],
)
def test_bad_input_is_one_line(words, said, capsys):
    assert cli.main(["node", "watch", "--for", "1 s", *words]) == 2
    err = capsys.readouterr().err
    assert said in err.splitlines()[-1]


def test_residency_by_cause():
    tally = SensorStats(1.0)
    for second, mask in enumerate([0x4, 0x4, 0x44, 0x0, 0x0]):
        tally.add([Reading(sensor="throttle", device="d", time_s=float(second), value=float(mask))])
    assert tally.residency("d") == {"software power cap": 0.75, "hardware thermal": 0.25}


def test_bmcs_are_watched_and_secrets_stay_secret(tmp_path, capsys):
    pytest.importorskip("aiohttp")
    pytest.importorskip("trustme")
    from tests.nodes.bmc_server import Server

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
        assert cli.main(["node", "watch", "--bmc", str(tmp_path / "bmcs.toml"), "--every", "0.3 s", "--for", "1.2 s", "--to", f"lines:{kept}"]) == 0
    caught = capsys.readouterr()
    assert "300.5 W" in caught.out
    assert "hunter2" not in caught.out + caught.err + kept.read_text()
    assert "token" not in caught.out + caught.err + kept.read_text()


class Alive(dict):
    """A BMC's report whose GPU takes 330 W, by the clock."""

    def get(self, path, default=None):
        now = time.time()
        rows = [("Power_0", "330"), ("Energy_0", str(330 * (now - 1.7e9)))]
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{now % 1 * 1000:03.0f}+00:00"
        place = "/redfish/v1/Chassis/HGX_GPU_0/Sensors/HGX_GPU_0_"
        kept = [{"MetricProperty": place + name, "MetricValue": value, "Timestamp": stamp} for name, value in rows]
        return json.dumps({"MetricValues": kept}).encode() if path.endswith("/E") else default


class Own:
    """A GPU's own sensors: 300 W."""

    name, device = "fake", "GPU-1"

    def read(self, time_s):
        return [Reading(sensor=s, device=self.device, time_s=time_s, value=v) for s, v in (("power_w", 300.0), ("energy_j", 300.0 * time_s))]


def test_energy_is_held_against_the_bmc(tmp_path, capsys, monkeypatch):
    pytest.importorskip("aiohttp")
    pytest.importorskip("trustme")
    from tests.nodes.bmc_server import Server

    device = Device(target="cuda", index=0, name="GPU", kind="gpu", uuid="GPU-1")
    monkeypatch.setattr(watch, "_targets", lambda args: [SimpleNamespace(device=device, clock=SystemClock())])
    monkeypatch.setattr(watch.sensors, "find", lambda one: [Own()])
    monkeypatch.setattr(watch.sensors, "missing", lambda one: {})
    with Server(Alive(), folder=tmp_path) as server:
        (tmp_path / "b.toml").write_text(f'[[bmc]]\nurl = "{server.url}"\nname = "n1"\ncafile = "ca.pem"\nreports = ["E"]\n')
        words = ["node", "watch", "--bmc", str(tmp_path / "b.toml"), "--device", "all", "--every", "0.1 s", "--for", "3 s"]
        assert cli.main(words) == 0
        told = capsys.readouterr().out.splitlines()[-1]
        assert cli.main([*words, "--json"]) == 0
    assert told.startswith("energy of the GPU over ")
    assert "by BMC n1" in told
    assert "(errors explain up to ±" in told
    crossed = json.loads(capsys.readouterr().out)["telemetry"]["n1"]["gpu_energy"]
    assert crossed["difference"] == pytest.approx(0.1, abs=crossed["bound"])
    assert crossed["bmc_j"] / crossed["own_j"] - 1 == pytest.approx(crossed["difference"])


def test_a_bmc_and_a_simulated_gpu_share_no_clock(tmp_path, capsys):
    (tmp_path / "b.toml").write_text('[[bmc]]\nurl = "https://127.0.0.1:1"\n')
    assert cli.main(["node", "watch", "--bmc", str(tmp_path / "b.toml"), "--target", "simulated:h200-sxm", "--for", "1 s"]) == 2
    assert "simulated target has its own" in capsys.readouterr().err


@pytest.fixture
def collector():
    """A server that answers GET with one metric and keeps what is POSTed; `status` is what it answers."""
    kept = {"posted": [], "status": 200}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'DCGM_FI_DEV_POWER_USAGE_INSTANT{gpu="0",UUID="GPU-a"} 300\n')

        def do_POST(self):
            data = self.rfile.read(int(self.headers["Content-Length"]))
            if kept["status"] == 200:
                kept["posted"].append((self.path, self.headers["Content-Type"], json.loads(data)))
            self.send_response(kept["status"])
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    kept["url"] = f"http://127.0.0.1:{server.server_address[1]}"
    yield kept
    server.shutdown()
    server.server_close()


def test_an_endpoint_is_watched_alone(collector, capsys):
    assert cli.main(["node", "watch", "--scrape", collector["url"] + "/metrics", "--for", "300 ms", "--every", "100 ms", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["telemetry"]
    assert shown["GPU-a"]["sensors"]["power_w"]["mean"] == 300.0
    assert "host" not in shown


def test_otlp(collector, capsys):
    assert cli.main(["node", "watch", "--target", "simulated:h200-sxm", "--for", "3 s", "--to", f"otlp:{collector['url']}"]) == 0
    capsys.readouterr()
    metrics = {}
    for path, kind, sent in collector["posted"]:
        assert (path, kind) == ("/v1/metrics", "application/json")
        (resource,) = sent["resourceMetrics"]
        for one in resource["scopeMetrics"][0]["metrics"]:
            metrics.setdefault(one["name"], []).append(one)
    assert sum(len(one["gauge"]["dataPoints"]) for one in metrics["hotlap.power"] if not any(
        a["key"] == "sensor" for p in one["gauge"]["dataPoints"] for a in p["attributes"])) >= 3
    assert metrics["hotlap.power"][0]["unit"] == "W"
    energy = metrics["hotlap.energy"][0]
    assert energy["sum"]["isMonotonic"] is True
    assert energy["unit"] == "J"
    point = energy["sum"]["dataPoints"][0]
    assert int(point["startTimeUnixNano"]) <= int(point["timeUnixNano"])
    assert abs(int(point["timeUnixNano"]) / 1e9 - time.time()) < 60


def test_a_collector_that_comes_back_gets_what_waited(collector):
    said = []
    sender = otlp.Sender(collector["url"], 60, "here", said.append)
    collector["status"] = 503
    sender.add([Reading(sensor="power_w", device="d", time_s=0, value=5.0), Reading(sensor="fan", device="d", time_s=0, status="error")])
    sender.send()
    assert len(said) == 1
    assert "Service Unavailable" in said[0]
    collector["status"] = 200
    sender.send()
    sender.ended.set()
    sender.close()
    (posted,) = collector["posted"]
    (metric,) = posted[2]["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
    assert metric["gauge"]["dataPoints"][0]["asDouble"] == 5.0
    assert said[1].endswith("again")


def test_what_never_arrived_is_told():
    said = []
    sender = otlp.Sender("http://127.0.0.1:9", 60, "here", said.append)
    sender.add([Reading(sensor="power_w", device="d", time_s=0, value=5.0)])
    sender.close()
    assert said[-1].startswith("1 readings did not reach http://127.0.0.1:9/v1/metrics")


def test_all_simulated_gpus_are_watched_or_the_one_that_was_asked_for(capsys):
    assert cli.main(["node", "watch", "--target", "simulated:h200-sxm?count=3", "--for", "2 s", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["telemetry"]
    assert [one["sensors"]["power_w"]["count"] for one in found.values()] == [2, 2, 2]
    assert cli.main(["node", "watch", "--target", "simulated:h200-sxm?count=3", "--device", "2", "--for", "2 s", "--json"]) == 0
    assert [one["name"].split()[0] for one in json.loads(capsys.readouterr().out)["telemetry"].values()] == ["simulated:2"]


def test_the_table_fits_its_width(capsys):
    tally = SensorStats(1.0)
    names = {f"d{n}": f"simulated:{n} NVIDIA H200 SXM 141 GB (simulated)" for n in range(2)}
    shown = {"power_w": 701.25, "temperature_c": 61.5, "clock_hz.sm": 1.98e9, "utilization": 1.0, "memory_used_bytes": 9e10, "throttle": 0x44}
    tally.add([Reading(sensor=s, device=key, time_s=0.0, value=float(v)) for key in names for s, v in shown.items()])
    for width, name in ((60, "simulated:1"), (80, "simulated:1"), (140, names["d1"])):
        lines = watching.table(tally, names, width)
        assert max(map(len, lines)) <= width
        text = " ".join(" ".join(lines).split())
        assert name in text
        assert "701.2 W" in text
        assert "1.98 GHz" in text
        assert "100 %" in text
        assert "thermal" in text


def test_events_are_named_and_codes_have_no_mean(capsys):
    faults = "xid=79@3s&ecc=3@4s&pcie_width=4@2s&jump=temperature_c@5s&lost=8s"
    assert cli.main(["node", "watch", "--target", f"simulated:h200-sxm?{faults}", "--for", "12 s"]) == 0
    out = capsys.readouterr().out
    assert "! Xid 79: the GPU has fallen off the bus" in out
    assert "! ecc_uncorrected rose by 3 to 3" in out
    assert "! pcie_width was between 4 and 16" in out
    assert "! temperature_c read" in out
    assert re.search(r"xid +0 +– +79", out)
    assert "at times no value of" in out
    assert "fallen off the bus at 8 s (injected)" in out.replace("\n    ", " ")


@pytest.mark.parametrize(("answer", "said"), [(b"<html>hi</html>", "begins '<html>hi</html>'"), (b"", "it is empty")])
def test_a_page_that_is_no_metrics_is_not_reachable(answer, said, monkeypatch):
    source = prometheus.Scrape("http://127.0.0.1:1/")
    monkeypatch.setattr(source, "_text", answer.decode)
    (one,) = source.read(0.0)
    assert (one.sensor, one.status) == ("reachable", "error")
    assert said in one.reason


def test_nothing_that_arrived_is_no_success(capsys):
    assert cli.main(["node", "watch", "--target", "simulated:h200-sxm", "--for", "1 s", "--to", "otlp:http://127.0.0.1:1"]) == 3
    assert "did not reach http://127.0.0.1:1/v1/metrics: Connection refused" in capsys.readouterr().err


@pytest.mark.slow("a process of its own")
def test_sigterm_ends_with_a_summary():
    words = [sys.executable, "-m", "hotlap", "node", "watch", "--every", "100 ms"]
    running = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout is not None
    running.stdout.readline()  # it reads by now
    running.send_signal(signal.SIGTERM)
    out, _ = running.communicate(timeout=300)
    assert running.returncode == 0
    assert "memory_used_bytes" in out.splitlines()[-2] or "least" in out


def test_what_stayed_at_zero_takes_one_line():
    tally = SensorStats(1.0)
    zeros = [f"ecc_{letter}" for letter in "abcdef"]
    tally.add([Reading(sensor=name, device="d", time_s=1.0, value=0.0) for name in zeros])
    tally.add([Reading(sensor="pcie_bytes_per_s.sent", device="d", time_s=1.0, value=2.5e9)])
    told = watching.worded(tally, {})
    assert "  0 throughout: ecc_a, ecc_b, ecc_c, ecc_d, ecc_e, ecc_f" in told
    assert sum("ecc_" in line for line in told) == 1
    assert any("2.5 GB/s" in line for line in told)


def test_a_sensor_that_is_read_more_rarely_is_no_dead_one(now_s):
    sink = exporter.Exporter(0, 0.05)
    try:
        rare = Reading(sensor="fan", device="d", time_s=0, value=0.5)
        sink.take([rare])
        now_s[0] += 0.3
        assert not list(sink.collect())
        sink.take([rare])
        now_s[0] += 0.3
        assert [one.name for one in sink.collect()] == ["hotlap_fan_ratio"]
        now_s[0] += 0.9
        assert not list(sink.collect())
    finally:
        sink.close()

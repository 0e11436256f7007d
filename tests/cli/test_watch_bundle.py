"""The bundle that hotlap node watch leaves: read back by show and report, long ones compacted, readable after SIGKILL."""

from __future__ import annotations

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hotlap import cli
from hotlap.core.errors import MachineError
from hotlap.core.show import telemetry
from hotlap.core.store import bundle, chunks


def simulated(folder: Path, length: str, *more: str) -> int:
    return cli.main(["node", "watch", "--target", "simulated:h200-sxm", "--for", length, "--to", f"file:{folder}", *more])


def test_show_says_what_watch_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulated(tmp_path / "w", "20 s") == 0
    summary = capsys.readouterr().out
    assert cli.main(["show", str(tmp_path / "w")]) == 0
    shown = capsys.readouterr().out
    (energy,) = [line for line in summary.splitlines() if line.startswith("  energy")]
    for line in [energy, *[line for line in summary.splitlines() if line.startswith(("  power_w", "  temperature_c"))]]:
        assert line in shown
    assert "plan watch · the time is over" in shown
    kept = bundle.load(tmp_path / "w").run
    assert kept.sampler_share is not None
    assert kept.ended


def test_the_error_of_an_energy_follows_from_the_steps_of_the_counter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulated(tmp_path / "w", "2 s") == 0
    (one,) = telemetry.of(bundle.load(tmp_path / "w"))
    assert one.energy is not None
    assert one.energy.source == "counter"
    assert 0 < one.energy.error_j < 0.02 * one.energy.joules  # read every second, but its steps were looked at more closely


def test_json_of_show_and_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulated(tmp_path / "w", "30 s") == 0
    capsys.readouterr()
    assert cli.main(["show", str(tmp_path / "w"), "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)["runs"]
    (device,) = shown["telemetry"]
    power = next(one for one in device["sensors"] if one["name"] == "power_w")
    assert (power["count"], power["window_s"]) == (30, 0.0)
    assert cli.main(["report", str(tmp_path / "w")]) == 0
    page = (tmp_path / "w" / "report.html").read_text()
    assert "What the sensors read" in page
    assert "Power over time" in page
    assert 'id="results"' not in page


@pytest.mark.slow("a process of its own")
def test_a_long_watch_is_compacted_and_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    assert simulated(tmp_path / "text", "200 s") == 0
    monkeypatch.setattr(bundle, "LOG_BYTES", 20_000)
    assert simulated(tmp_path / "chunks", "200 s") == 0
    assert chunks.stored(tmp_path / "chunks", "levels")
    (text,), (compacted,) = (telemetry.of(bundle.load(tmp_path / name)) for name in ("text", "chunks"))
    assert compacted.energy.joules == pytest.approx(text.energy.joules)
    assert compacted.energy.error_j == pytest.approx(text.energy.error_j, rel=1e-3)  # times are kept to the microsecond
    for one, other in zip(text.sensors, compacted.sensors, strict=True):
        assert (one.name, one.count, one.window_s) == (other.name, other.count, other.window_s)
        if one.count:
            assert (other.low, other.mean, other.high) == pytest.approx((one.low, one.mean, one.high))


@pytest.mark.slow("a process of its own")
def test_a_killed_watch_can_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "w"
    command = [sys.executable, "-m", "hotlap", "node", "watch", "--scrape", "http://127.0.0.1:9/metrics", "--target", "simulated:h200-sxm"]
    process = subprocess.Popen([*command, "--every", "1 s", "--to", f"file:{folder}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 300
        while not ((folder / "readings.log").is_file() and (folder / "readings.log").stat().st_size) and time.monotonic() < until:
            time.sleep(0.05)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert cli.main(["show", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "not finished: it was killed, or still goes on" in shown
    assert "power_w" in shown


@pytest.mark.parametrize(
    ("where", "said"),
    [("file:there", "it is there already"), ("file:none/w", "its folder is not"), ("file:r.jsonl", "--to lines:"), ("lines", "--json and --to lines")],
)
def test_bad_places(where: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    assert cli.main(["node", "watch", "--target", "simulated:h200-sxm", "--for", "1 s", "--to", where, "--json"]) == 2
    assert said in capsys.readouterr().err
    assert [one.name for one in tmp_path.iterdir()] == ["there"]


@pytest.mark.parametrize("mends", [True, False])
def test_a_full_disk_is_said_and_what_waits_is_written_when_there_is_room(
    mends: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, asked = bundle.Writer.readings, []

    def full(writer: bundle.Writer, readings: list) -> None:
        asked.append(len(readings))
        if len(asked) in (2, 3) or (len(asked) > 3 and not mends):
            raise MachineError("the run cannot be written: No space left on device", "0 lines of samples are kept")
        real(writer, readings)

    monkeypatch.setattr(bundle.Writer, "readings", full)
    code = simulated(tmp_path / "w", "40 s")
    err = capsys.readouterr().err
    assert err.count("No space left on device; the watch goes on and tries again") == 1
    (one,) = telemetry.of(bundle.load(tmp_path / "w"))
    power = next(s for s in one.sensors if s.name == "power_w")
    assert (code == 0, power.count == 40) == (mends, mends)
    assert power.count >= 5
    if not mends:
        assert "holds what was written before" in err


def test_an_endpoint_is_kept_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'DCGM_FI_DEV_POWER_USAGE_INSTANT{gpu="0",UUID="GPU-a"} 300 1700000000000\n')

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/metrics"
        assert cli.main(["node", "watch", "--scrape", url, "--for", "300 ms", "--every", "100 ms", "--to", f"file:{tmp_path / 'w'}"]) == 0
        server.shutdown()
    kept = bundle.load(tmp_path / "w")
    (power,) = [one for one in kept.readings if one.sensor == "power_w"]
    assert (power.device, power.values) == ("GPU-a", [300.0] * 3)
    assert power.sensor_times_s == [1.7e9] * 3
    capsys.readouterr()
    assert cli.main(["show", str(tmp_path / "w")]) == 0
    assert "GPU-a" in capsys.readouterr().out

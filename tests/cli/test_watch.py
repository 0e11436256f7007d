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

"""hotlap serving bench where something is wrong: a trace that cannot be, a server that refuses all, a generator that is killed."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.serving.sse_server import MODEL, serving
from tests.serving.test_serving_bench import FEW, bench, latest

from benchmarks.serving_client import generators
from hotlap.cli import main


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


@pytest.mark.slow("a process of its own")
def test_a_generator_that_is_killed_leaves_what_was_measured(home: Path) -> None:
    with serving(service_s=0.02) as server:
        command = [sys.executable, "-m", "hotlap", "serving", "bench", server.url, "--arrivals", "closed:2", "--for", "60s", "--output", "2"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ), text=True) as process:
            until = time.monotonic() + 60
            while len(server.completed_s) < 60 and time.monotonic() < until:
                time.sleep(0.02)
            for generator in generators(process.pid):
                os.kill(generator, signal.SIGKILL)
            out, err = process.communicate(timeout=60)
    assert process.returncode == 3, err
    assert "the load generator ended early; what was measured until then is kept as" in err
    assert "answer    inconclusive: the client: bench again" in out
    judged = latest(home)
    assert judged.client.flaws == ["killed"]
    assert judged.summary.outcomes["ok"] >= 5


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"timestamp": math.nan}, "is not a finite number"), ({"timestamp": -5}, "is negative"), ({"timestamp": 3}, "sort the trace by time"),
        ({"hash_ids": [0, 1, 2]}, "3 hash ids, but 10 tokens have 1 block of 512"), ({"hash_ids": [-1]}, "hash_ids is a list of whole numbers"),
        ({"output_length": 0, "timestamp": 4}, "sort the trace by time"), ({"input_length": -3}, "a whole number from 0"),
    ],
)  # fmt: skip
def test_a_trace_that_cannot_be_is_one_line(row: dict[str, object], says: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"timestamp": time_ms, "input_length": 10, "output_length": 5, "hash_ids": [0]} for time_ms in (0, 5, 6)]
    (home / "trace.jsonl").write_text("".join(json.dumps(one) + "\n" for one in [*rows[:2], rows[2] | row]))
    assert main(["serving", "bench", "http://127.0.0.1:1", "--trace", str(home / "trace.jsonl")]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "row 3" in err
    assert says in err


def test_when_all_fail_it_says_why_and_keeps_them(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(service_s=0.004, fault="busy", after=2) as server:
        assert main(["serving", "bench", server.url, *FEW, "--model", MODEL, "--slo", "ttft<=1s"]) == 3
    out = capsys.readouterr().out
    assert "12 due: 12 refused" in out
    assert "answer    no request was answered: status 429: too many requests" in out or "inconclusive: the client" in out
    assert len(latest(home).serving.requests) == 12


def test_when_nothing_was_due_it_says_so(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(service_s=0.004) as server:
        load = ["--arrivals", "poisson:1", "--for", "1 ms", "--seed", "1", "--slo", "ttft<=1s", "--attain", "90%"]
        assert main(["serving", "bench", server.url, *load]) == 3
    assert "answer    no request was due; ask for more of them, or for longer" in capsys.readouterr().out
    assert latest(home).state == "inconclusive"


def test_a_server_without_a_tokenizer_of_its_own_is_asked_in_words(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(service_s=0.004, fault="no_usage") as server:
        bench(server, *FEW)
        sizes = {len(body["messages"][0]["content"].split()) for name, body in server.bodies.items() if not name.endswith("probe")}
    assert sizes == {64}
    assert "its length is in words, one counted as a token" in " ".join(capsys.readouterr().out.split())

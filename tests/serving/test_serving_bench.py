"""hotlap serving bench against a server that logs its own completions: what is counted, what is kept, what is said of a bad server."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest
from tests.serving.sse_server import MODEL, SseServer, serving

from benchmarks.serving_client import hold
from hotlap.cli import main
from hotlap.core.errors import SchemaError
from hotlap.core.record import Stop
from hotlap.core.show.document import Document
from hotlap.core.store import bundle as bundles
from hotlap.serving import address, compacting, reading, session, show_kind
from hotlap.serving.record import Planned, Prompt, Request, Schedule, ServingAsked
from hotlap.serving.verdict import ServingVerdict

FEW = ["--arrivals", "closed:2", "--requests", "12", "--input", "64", "--output", "4"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def latest(home: Path) -> ServingVerdict:
    judged = show_kind.read(bundles.load(max((home / "runs").iterdir())))
    assert judged is not None
    return judged


def bench(server: SseServer, *more: str) -> int:
    """Its exit code; the 3 of a client that had too little of this machine counts as 0."""
    code = main(["serving", "bench", server.url, *more])
    return 0 if code == 3 else code


@pytest.mark.slow("a server above its capacity")
@pytest.mark.parametrize(
    ("arrivals", "service_s", "requests", "wakes_s"),
    [
        ("constant:80", 0.02, 150, 0.0), ("poisson:70", 0.02, 150, 0.0), ("constant:50", 0.02, 100, 0.5), ("poisson:8", 0.1, 30, 0.5),
        ("closed:16", 0.02, 150, 0.0), ("closed:1", 0.2, 12, 0.5),
    ],
)  # fmt: skip
def test_latency_is_that_of_the_servers_own_log(arrivals: str, service_s: float, requests: int, wakes_s: float, home: Path) -> None:
    """Above, at and below capacity: completion − scheduled arrival, within 2 % at each quantile.
    `wakes_s`: where nobody waits, a busy machine takes more than that to wake a process (benchmarks/serving_queue.py judges those)."""
    with serving(service_s=service_s) as server:
        bench(server, "--arrivals", arrivals, "--requests", str(requests), "--input", "16", "--output", "2", "--seed", "5")
    judged = latest(home)
    served = judged.serving.served
    assert served.origin_s is not None
    assert len(judged.serving.requests) == requests
    ours, logged = list[float](), list[float]()
    for request in judged.serving.requests:
        assert request.e2e_s is not None
        ours.append(request.e2e_s)
        logged.append(server.completed_s[f"hotlap-{served.asked.salt}-{request.index}"] - served.origin_s - request.due_s)
    e2e = next(one for one in judged.summary.latencies if one.name == "E2E")
    for place, p in enumerate((0.5, 0.9, 0.99)):
        truth = np.quantile(logged, p, method="inverted_cdf")
        assert e2e.quantiles[place].value == np.quantile(ours, p, method="inverted_cdf")
        assert e2e.quantiles[place].value == pytest.approx(truth, rel=0.02, abs=wakes_s)
    if not wakes_s:  # the queue is most of it
        assert np.quantile(logged, 0.9) > 8 * service_s


def test_tokens_are_those_that_the_server_counts(home: Path) -> None:
    with serving(service_s=0.004) as server:
        assert bench(server, *FEW) == 0
    judged = latest(home)
    assert judged.serving.run.stops == [Stop("rounds_max")]  # by its count, not by its time
    assert len(judged.serving.requests) == 12
    for request in judged.serving.requests:
        assert (request.outcome, request.output_tokens, request.chunks, request.finish) == ("ok", 4, 4, "length")
        assert request.input_tokens == pytest.approx(64, abs=1)  # two tokens a word, five of a template: learnt from the server
        assert request.due_s <= (request.sent_s or 0) <= (request.headers_s or 0) <= (request.first_s or 0) <= (request.last_s or 0)
        assert len(judged.serving.gaps_s[request.index]) == 3
        assert request.stall_s == pytest.approx(judged.serving.gaps_s[request.index].max(), abs=2e-6)
    assert {figures.name: figures.count for figures in judged.summary.latencies} == {
        "TTFT": 12, "TTFT of the server": 12, "E2E": 12, "TPOT": 12, "stall": 12, "ITL": 36, "chunk gap": 36,
    }  # fmt: skip
    prompts = [body["messages"][0]["content"] for name, body in server.bodies.items() if not name.endswith("probe")]
    assert len({prompt[:40] for prompt in prompts}) == 12  # no prompt begins as another does


def test_time_per_token_is_not_time_per_chunk(home: Path) -> None:
    with serving(service_s=0.04, tokens_each=4) as server:
        assert bench(server, "--arrivals", "closed:1", "--requests", "6", "--output", "16", "--input", "16") == 0
    figures = {one.name: one for one in latest(home).summary.latencies}
    assert figures["chunk gap"].count == figures["ITL"].count == 18
    assert figures["chunk gap"].quantiles[0].value == pytest.approx(4 * (figures["ITL"].quantiles[0].value or math.nan))


@pytest.mark.parametrize("api", ["completions", "embeddings"])
def test_the_other_apis_are_measured_too(api: str, home: Path) -> None:
    with serving(service_s=0.004) as server:
        assert bench(server, *FEW, "--api", api) == 0
    judged = latest(home)
    assert judged.summary.outcomes["ok"] == 12
    names = [figures.name for figures in judged.summary.latencies]
    assert names[0] == ("TTFT" if api == "completions" else "E2E")
    assert all(request.input_tokens == pytest.approx(64, abs=1) for request in judged.serving.requests)


def test_the_answer_is_printed_kept_and_shown(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(service_s=0.004) as server:
        code = bench(server, *FEW, "--slo", "ttft<=5s, e2e<=1min", "--attain", "50 %", "--warm-up", "3")
        printed = capsys.readouterr().out
        assert main(["show", "latest"]) == 0
        assert capsys.readouterr().out.strip() == printed.rpartition("kept as")[0].strip()
        for line in ("12 due: 12 answered", "TTFT", "100 % [", "of 12 requests met ttft<=5s,e2e<=1min", "client  ", "answer  "):
            assert line.replace("1min", "60s") in printed.replace("1min", "60s")
        assert code == 0
        bench(server, *FEW, "--json")
    answer = json.loads(capsys.readouterr().out)
    msgspec.convert(answer, Document)
    assert answer["serving"]["summary"]["outcomes"]["ok"] == 12
    assert main(["show", "latest", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["serving"]["state"] in ("measured", "inconclusive")
    for verb in (["gate", "latest"], ["history", "latest"], ["compare", "latest", "latest"]):
        assert main(verb) == 2
        assert "has a verdict of its own" in capsys.readouterr().err
    assert main(["report", "latest", "--out", str(home / "page.html")]) == 0
    page = (home / "page.html").read_text()
    for part in ("Requests to the server", "Requests over time", "How they are spread", "Requests under way", "12 due: 12 answered"):
        assert part in page
    assert f"<h1>{MODEL} at http://127.0.0.1:" in page  # and what measured it behind
    assert ", measured from " in page


def test_objectives_that_are_missed_fail(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(service_s=0.02) as server:
        code = bench(server, *FEW, "--slo", "ttft<=1us", "--attain", "90%")
    judged = latest(home)
    assert judged.summary.attainment is not None
    assert (judged.summary.attainment.met, judged.summary.attainment.share) == (0, 0.0)
    assert (code, judged.state) == ((0, "inconclusive") if judged.client.flaws else (1, "fail"))
    assert "0 %" in capsys.readouterr().out


BAD = {  # fault of the server from its third request on → outcome, and what is said of it
    "busy": ("refused", "status 429: too many requests"), "malformed": ("error", "of the stream is not what the API sends: '{not json'"),
    "early": ("error", "closed early, after"), "unfinished": ("error", "no finish_reason and no [DONE]"),
    "html": ("error", "an HTML page ('Welcome')"), "redirect": ("error", "a redirect to http://example.com/"),
    "whole": ("error", "the server does not stream"),
}  # fmt: skip


@pytest.mark.parametrize("fault", BAD)
def test_a_fault_under_load_is_named_and_the_rest_is_kept(fault: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome, reason = BAD[fault]
    with serving(service_s=0.004, fault=fault, after=2 + 6) as server:
        bench(server, *FEW, "--slo", "ttft<=1min", "--model", MODEL)
    judged = latest(home)
    assert [judged.summary.outcomes[name] for name in ("ok", outcome)] == [6, 6]
    assert all(reason in text for text in judged.summary.reasons)
    assert reason.partition("'")[0] in " ".join(capsys.readouterr().out.split())
    assert judged.summary.attainment is not None
    assert (judged.summary.attainment.requests, judged.summary.attainment.met) == (12, 6)  # a failure is no good request
    every = next(one for one in judged.summary.latencies if (one.name, one.population) == ("E2E", "all"))
    assert (every.count, every.quantiles[1].value) == (12, None)  # p90 of all never came


@pytest.mark.parametrize(
    ("fault", "more", "says"),
    [
        ("html", [], "answered with an HTML page"), ("whole", [], "the server does not stream"),
        ("", ["--model", "tinny"], f"has no model 'tinny': did you mean '{MODEL}'? valid: {MODEL}"),
        ("key", [], "name it with --api-key-env"), ("malformed", [], "is not what the API sends"), ("early", [], "closed early"),
    ],
)  # fmt: skip
def test_a_server_that_is_none_gets_no_load(
    fault: str, more: list[str], says: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(fault=fault) as server:
        assert bench(server, *FEW, "--model", MODEL, *more) == 2
        assert server.count <= 3
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert says in err
    assert not (home / "runs").exists()


def test_a_dead_address_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # nobody listens
        assert main(["serving", "bench", f"http://127.0.0.1:{held.getsockname()[1]}"]) == 3
    err = capsys.readouterr().err
    assert re.fullmatch(r"hotlap: no server answers at http://127\.0\.0\.1:\d+/v1: .*; start it, or mend the address.*\n", err)


def test_usage_that_is_missing_leaves_tokens_unknown(home: Path) -> None:
    with serving(service_s=0.004, fault="no_usage") as server:
        bench(server, *FEW)
    judged = latest(home)
    assert judged.summary.outcomes["ok"] == 12
    assert all(request.output_tokens is None for request in judged.serving.requests)
    assert {"no_usage", "itl_unknown"} <= {notice.code for notice in judged.summary.notices}
    assert not {"ITL", "TPOT"} & {figures.name for figures in judged.summary.latencies if figures.count}


def test_a_server_that_takes_fewer_fields_is_asked_with_fewer(home: Path) -> None:
    with serving(service_s=0.004, fault="strict") as server:
        bench(server, *FEW)
        assert all("continuous_usage_stats" not in body["stream_options"] for name, body in server.bodies.items() if not name.endswith("probe"))
    assert latest(home).summary.outcomes["ok"] == 12


def test_a_cached_prefix_is_named(home: Path) -> None:
    with serving(service_s=0.004, fault="cache") as server:
        bench(server, *FEW)
    judged = latest(home)
    assert judged.summary.cached_share == pytest.approx(0.5, abs=0.02)
    assert "shared_cache" in {notice.code for notice in judged.summary.notices}


def test_one_salt_and_seed_twice_are_the_same_prompts(home: Path) -> None:
    sent = []
    for salt in ("once", "once", "other"):
        with serving(service_s=0.004) as server:
            bench(server, *FEW, "--salt", salt, "--seed", "1")
            sent.append(sorted(str(body.get("messages")) for name, body in server.bodies.items() if not name.endswith("probe")))
    assert sent[0] == sent[1]
    assert not set(sent[0]) & set(sent[2])


def test_the_end_of_the_time_cuts_what_is_under_way(home: Path) -> None:
    with serving(service_s=0.3) as server:
        bench(server, "--arrivals", "constant:20", "--for", "1 s", "--input", "16", "--output", "2", "--slo", "e2e<=30s")
    judged = latest(home)
    outcomes = judged.summary.outcomes
    assert outcomes["ok"] + outcomes["censored"] == judged.summary.due == 20
    assert 1 <= outcomes["ok"] <= 3
    assert judged.summary.attainment is not None
    assert judged.summary.attainment.censored == outcomes["censored"]  # whether they would have met it is not known
    e2e = next(one for one in judged.summary.latencies if one.name == "E2E")
    assert (e2e.count, e2e.cut) == (20, outcomes["censored"])
    assert judged.serving.run.stops == [Stop("over")]
    assert e2e.quantiles[1].high is None  # fewer than 90 % ended


def test_the_timeout_of_a_request_is_its_end(home: Path) -> None:
    with serving(service_s=0.4) as server:
        bench(server, "--arrivals", "constant:50", "--requests", "4", "--output", "2", "--input", "16", "--timeout", "0.6 s")
    judged = latest(home)
    assert judged.summary.outcomes["timeout"] == 3
    assert set(judged.summary.reasons) == {"no end within 0.6 s"}


def test_a_key_goes_to_the_server_and_nowhere_else(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINY_KEY", "s3cret")
    with serving(service_s=0.004, fault="key") as server:
        assert bench(server, *FEW, "--api-key-env", "TINY_KEY", "--header", "X-Team=blue") == 0
        assert {headers.get("X-Team") for headers in server.headers_seen.values()} == {"blue"}
    assert latest(home).summary.outcomes["ok"] == 12
    assert [path for path in home.rglob("*") if path.is_file() and (b"s3cret" in path.read_bytes() or b"blue" in path.read_bytes())] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["http://192.0.2.1:80"], "load goes to loopback alone"), (["ftp://127.0.0.1"], "is no URL of a server"),
        (["http://user:key@127.0.0.1"], "a key comes by --api-key-env"), (["http://127.0.0.1:99999"], "is no URL"),
        (["http://127.0.0.1", "--slo", "tftt<=1s"], "did you mean 'ttft'"), (["http://127.0.0.1", "--slo", "ttft>=1s"], "has an upper limit"),
        (["http://127.0.0.1", "--slo", "ttft<450"], "the limit has no unit; write as in 'ttft<=450ms'"),
        (["http://127.0.0.1", "--api", "embeddings", "--slo", "tpot<=1us"], "an embedding comes at once and has no tpot"),
        (["http://127.0.0.1", "--slo", "ttft<=1s,ttft<=2s"], "is given twice"), (["http://127.0.0.1", "--slo", "ttft<=1 MB"], "unit"),
        (["http://127.0.0.1", "--attain", "90%"], "needs objectives"), (["http://127.0.0.1", "--slo", "ttft<=1s", "--attain", "100%"], "below 100"),
        (["http://127.0.0.1", "--requests", "0"], "--requests is a whole number from 1"), (["http://127.0.0.1", "--for", "0s"], "--for is a time"),
        (["http://127.0.0.1", "--arrivals", "poison:8"], "did you mean 'poisson'"), (["http://127.0.0.1", "--input", "many"], "--input is"),
        (["http://127.0.0.1", "--header", "Authorization=Bearer x"], "name its variable with --api-key-env"),
        (["http://127.0.0.1", "--header", "Host=x"], "is the client's own"), (["http://127.0.0.1", "--api-key-env", "NO_SUCH"], "no such variable"),
        (["http://127.0.0.1", "--arrivals", "ramp:1-20,5s", "--max-rate", "10"], "more than --max-rate"),
        (["http://127.0.0.1", "--gpu", "h200-smx", "--network", "gpt-2"], "did you mean 'h200-sxm'"),
        (["http://127.0.0.1", "--gpu", "h200-sxm", "--network", "gtp-2"], "did you mean 'gpt-2'"), (["http://127.0.0.1", "--gpu", "h200-sxm"], "--network"),
        (["http://127.0.0.1", "--network", "gpt-2"], "--network needs --gpu"), (["http://127.0.0.1", "--trace", "none.jsonl"], "there is no file"),
        (["http://127.0.0.1", "--gpu", "h200-sxm", "--network", "llama-3-8b", "--tp", "3"], "cannot be cut into 3"),
        (["simulated:h200-sxm?model=gpt-2", "--gpu", "h200-sxm"], "leave --gpu and --network out"),
        (["http://127.0.0.1", "--salt", "two words"], "--salt is one word"),
    ],
)  # fmt: skip
def test_what_is_asked_wrongly_is_one_line(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serving", "bench", *words]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert says in err


@pytest.mark.slow("a process of its own")
def test_an_interrupt_keeps_what_was_measured(home: Path) -> None:
    with serving(service_s=0.02) as server:
        command = [sys.executable, "-m", "hotlap", "serving", "bench", server.url, "--arrivals", "closed:2", "--for", "60s", "--output", "2"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ), text=True) as process:
            until = time.monotonic() + 60
            while len(server.completed_s) < 12 and time.monotonic() < until:
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "kept as" in out
    judged = latest(home)
    assert judged.serving.run.stopped_by("interrupted")
    assert judged.summary.outcomes["ok"] >= 5
    assert judged.serving.served.client is not None


def test_a_torn_bundle_is_read_as_far_as_it_goes(home: Path) -> None:
    with serving(service_s=0.004) as server:
        bench(server, *FEW)
    folder = max((home / "runs").iterdir())
    with open(folder / "requests.jsonl", "ab") as file:
        file.write(b'{"index":99,"due')
    serving_run = reading.read(bundles.load(folder))
    assert serving_run is not None
    assert (len(serving_run.requests), len(serving_run.torn)) == (12, 1)
    (folder / "serving.json").unlink()
    assert reading.read(bundles.load(folder)) is None


def test_a_chunk_takes_four_bytes(home: Path) -> None:
    with serving(service_s=0.004) as server:
        bench(server, *FEW)
    folder = max((home / "runs").iterdir())
    assert (folder / "chunks.bin").stat().st_size == 12 * 3 * 4
    assert (folder / "tokens.bin").stat().st_size == 0


def test_a_long_run_that_stays_lines_says_what_mends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacting.chunks, "available", lambda: False)
    (line,) = compacting.remedy(compacting.FEWEST, False)
    assert "stays lines" in line
    assert compacting.chunks.REMEDY in line
    assert not compacting.remedy(compacting.FEWEST - 1, False)
    assert not compacting.remedy(compacting.FEWEST, True)


def test_many_requests_are_packed_and_read_the_same(home: Path) -> None:
    pytest.importorskip("pyarrow")
    with serving(service_s=0.004, fault="busy", after=2 + 6) as server:
        bench(server, *FEW, "--model", MODEL)
    folder = max((home / "runs").iterdir())
    before = reading.read(bundles.load(folder))
    assert not compacting.compact(folder)  # few: they stay lines
    assert compacting.compact(folder, fewest=12)
    assert not (folder / "requests.jsonl").exists()
    after = reading.read(bundles.load(folder))
    assert before is not None
    assert after is not None
    assert after.requests == before.requests
    assert {index: gaps.tolist() for index, gaps in after.gaps_s.items()} == {index: gaps.tolist() for index, gaps in before.gaps_s.items()}
    (folder / "requests.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(SchemaError, match="restore the file"):
        reading.read(bundles.load(folder))


def test_a_hundred_thousand_requests_are_less_than_ten_megabytes(tmp_path: Path) -> None:
    """As 5,000 of them: times of microseconds that are as random as real ones."""
    pytest.importorskip("pyarrow")
    random, count = np.random.default_rng(1), 5000
    with open(tmp_path / "requests.jsonl", "wb") as file:
        for index, due in enumerate(np.cumsum(random.exponential(0.01, count)).tolist()):
            times = np.round(due + np.cumsum(random.exponential([1e-4, 1e-3, 1e-4, 0.1, 2.0, 1e-4])), 6).tolist()
            names = ("sent_s", "headers_s", "empty_s", "first_s", "last_s", "ended_s")
            stall_s = round(float(random.exponential(0.05)), 6)
            request = Request(
                index=index, due_s=round(due, 6), **dict(zip(names, times, strict=True)), status=200, asked_input=512, asked_output=128,
                input_tokens=int(random.integers(505, 520)), output_tokens=128, chunks=128, stall_s=stall_s, finish="length", counted=True, even=True,
                first_tokens=1,
            )  # fmt: skip
            file.write(msgspec.json.encode(request) + b"\n")
    assert compacting.compact(tmp_path)
    size = (tmp_path / "requests.parquet").stat().st_size
    assert size * 100_000 / count < 10e6


def test_a_certificate_that_nobody_signed_is_one_line(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trustme = pytest.importorskip("trustme")
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with serving(service_s=0.004, tls=context) as server:
        assert main(["serving", "bench", server.url, *FEW]) == 3
        err = capsys.readouterr().err
        assert "its certificate is not trusted (" in err
        assert "SSL_CERT_FILE=ca.pem" in err
        assert err.count("\n") == 1
        authority.cert_pem.write_to_path(str(home / "ca.pem"))
        monkeypatch.setenv("SSL_CERT_FILE", str(home / "ca.pem"))
        assert bench(server, *FEW) == 0
    assert latest(home).summary.outcomes["ok"] == 12


@pytest.mark.slow("a process of its own")
def test_a_killed_run_ends_its_load_and_is_shown(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(service_s=0.02) as server:
        command = [sys.executable, "-m", "hotlap", "serving", "bench", server.url, "--arrivals", "closed:2", "--for", "60s", "--output", "2"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ)) as process:
            until = time.monotonic() + 60
            while len(server.completed_s) < 40 and time.monotonic() < until:
                time.sleep(0.02)
            process.kill()
        before = -1
        while server.count != before and time.monotonic() < until:  # the generator ends with it
            before = server.count
            time.sleep(1.0)
        assert server.count == before
    judged = latest(home)
    assert judged.client.flaws == ["killed"]
    assert judged.summary.outcomes["ok"] >= 5
    assert main(["show", "latest"]) == 0
    assert "it was killed before it could say how it was" in capsys.readouterr().out


def test_a_schedule_of_a_trace_is_sent_as_it_stands(home: Path) -> None:
    prompts = [Prompt(input_tokens=64, output_tokens=2), Prompt(input_tokens=1200, output_tokens=5, prefix=(7, 8)),
               Prompt(input_tokens=1300, output_tokens=3, prefix=(7, 9))]  # fmt: skip
    planned = tuple(Planned(index=index, due_s=0.05 * index, prompt=prompt) for index, prompt in enumerate(prompts))
    with serving(service_s=0.004) as server:
        asked = ServingAsked(url=server.url, model=MODEL, arrivals="trace", seed=1, input_tokens=1, output_tokens=1)
        options = session.ServingOptions(home, schedule=Schedule(arrivals="trace", seed=1, planned=planned))
        session.run(address.resolve(server.url, False), asked, options)
        bodies = {name: body["messages"][0]["content"] for name, body in server.bodies.items() if not name.endswith("probe")}
    judged = latest(home)
    seen = [(one.due_s, one.input_tokens, one.output_tokens) for one in judged.serving.requests]
    assert seen == [(0.0, pytest.approx(64, abs=2), 2), (0.05, pytest.approx(1200, abs=3), 5), (0.1, pytest.approx(1300, abs=3), 3)]
    second, third = (bodies[f"hotlap-{judged.serving.served.asked.salt}-{index}"].split() for index in (1, 2))
    assert second[:250] == third[:250]  # block 7 is in both: 512 tokens, two a word
    assert second[260:300] != third[260:300]
    assert not [notice for notice in judged.summary.notices if notice.code in ("input_length", "early_end")]


def test_the_time_to_the_first_token_is_taken_apart_by_the_servers_counters(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(service_s=0.04) as server:
        bench(server, "--arrivals", "closed:4", "--requests", "24", "--output", "2", "--input", "16")
    judged = latest(home)
    parts = judged.summary.ttft_parts
    ttft = [request.ttft_s for request in judged.serving.requests if request.ttft_s is not None]
    assert parts["total"] == pytest.approx(float(np.mean(ttft)), rel=1e-6)
    assert sum(parts[name] for name in ("client", "server_queue", "prefill", "rest")) == pytest.approx(parts["total"])
    assert parts["server_queue"] > 3 * parts["prefill"] > 0  # three wait while one is served, half of a service is its prefill
    assert "server's queue" in capsys.readouterr().out


@pytest.mark.slow("a process of its own")
def test_a_client_that_is_starved_says_so(home: Path) -> None:
    """Stopped for 200 of every 220 ms. A TPOT is not longer for a late client, so no lateness is let pass beside it. The share of the time in
    which it is stopped would have to fall below a tenth for its p90 to be small: whoever stops it may be late himself."""
    with serving(service_s=0.02, workers=4) as server:
        command = [sys.executable, "-m", "hotlap", "serving", "bench", server.url, "--arrivals", "poisson:50", "--requests", "150", "--output", "2",
                   "--slo", "tpot<=10s", "--attain", "50%"]  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=dict(os.environ), text=True) as process:
            while process.poll() is None:
                hold(process.pid, 0.2, 0.02)
            out = process.stdout.read() if process.stdout else ""
    assert process.returncode == 3, out
    assert "answer    inconclusive: the client" in out
    judged = latest(home)
    assert {"late", "starved"} <= set(judged.client.flaws)
    assert judged.summary.outcomes["ok"] == 150


def test_what_serves_may_be_said_and_the_model_stands_beside(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(service_s=0.04) as server:
        bench(server, *FEW, "--gpu", "h200-sxm", "--network", "llama-3-8b", "--tp", "2")
    judged = latest(home)
    assert judged.expected is not None
    assert (judged.expected.on.network, judged.expected.on.tp, judged.expected.requests) == ("llama-3-8b", 2, 12)
    assert [figure.name for figure in judged.expected.figures] == ["TTFT", "TPOT"]
    ttft = [request.ttft_s for request in judged.serving.requests if request.ttft_s is not None]
    assert sum(judged.expected.ttft_gap.values()) == pytest.approx(float(np.mean(ttft)))
    assert "alone; " in capsys.readouterr().out

"""hotlap serving ab: what a block's number is, which pairs count, which servers are started and ended, and what is found."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from tests.serving.sse_server import serving

from benchmarks.serving_ab import Dealt, compared
from hotlap.cli import main
from hotlap.core.errors import InputError, MachineError, Unavailable
from hotlap.core.show.document import Document
from hotlap.core.store import bundle as bundles
from hotlap.core.trials import ab
from hotlap.serving import ab_blocks, ab_config, ab_live, ab_servers, reading
from hotlap.serving.ab_blocks import Block, BlockTrial, Tally
from hotlap.serving.ab_config import ServerSide, SideLoad
from hotlap.serving.record import Request

ROOT = Path(__file__).resolve().parents[2]
LOAD = '[load]\narrivals = "closed:2"\ninput = 16\noutput = 8\nrequests = 10\nwarm_up = 1\n'


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def recorded(count: int, level_s: float = 0.1, spread: float = 0.1) -> list[Request]:
    """Requests whose times are known: one after another, first token at a quarter of each."""
    rng, requests, due_s = random.Random(7), [], 0.0
    for index in range(count):
        took_s = level_s * math.exp(rng.gauss(0, spread))
        requests.append(Request(
            index=index, due_s=due_s, sent_s=due_s, first_s=due_s + took_s / 4, last_s=due_s + took_s, ended_s=due_s + took_s, output_tokens=4,
        ))  # fmt: skip
        due_s += took_s
    return requests


def configured(**servers: str) -> list[str]:
    """Files of a configuration each, by the text of [server]."""
    for name, text in servers.items():
        Path(f"{name}.toml").write_text(f"[server]\n{text}\n{LOAD}")
    return [f"{name}.toml" for name in servers]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def command(port: int, service_s: float) -> str:
    """[server] of one that is started: the small server of the tests, on a port."""
    program = (
        f"import os, sys, time\nsys.path.insert(0, {str(ROOT)!r})\nfrom tests.serving.sse_server import serving\n"
        f"with serving(service_s={service_s} * float(os.environ.get('SLOWER', '1')), port={port}):\n    time.sleep(600)\n"
    )
    return f'url = "http://127.0.0.1:{port}"\ncommand = {json.dumps([sys.executable, "-c", program])}\n'


def test_a_block_is_one_number_and_what_failed_never_came() -> None:
    requests = recorded(11, spread=0.0)
    assert ab_blocks.value(requests, "e2e") == pytest.approx(0.1)
    assert ab_blocks.value(requests, "ttft") == pytest.approx(0.025)
    assert ab_blocks.value(requests, "tpot") == pytest.approx(0.025)
    assert ab_blocks.value(requests, "throughput") == pytest.approx(40.0)
    some = [replace(one, outcome="error", reason="reset", ended_s=one.due_s) if one.index < 4 else one for one in requests]
    assert ab_blocks.value(some, "e2e") == pytest.approx(0.1)  # seven of eleven came
    most = [replace(one, outcome="refused", reason="busy") if one.index < 7 else one for one in requests]
    assert ab_blocks.value(most, "e2e") == math.inf
    trial = BlockTrial(SideLoad(), ["e2e"], lambda *_: Block(most), Tally(), warm_up=0)
    arm = ab_blocks.arm("A", "a.toml", trial)
    assert arm.once(0) == []
    with pytest.raises(MachineError, match="7 of 11 requests of a block failed: busy"):
        arm.once(0)
    assert trial.tally.failed == {"A": 7, "B": 0}


def test_b_is_worse_where_it_surely_fails_more_often() -> None:
    def tally(a: tuple[int, int], b: tuple[int, int]) -> Tally:
        made = Tally()
        made.failed, made.sent = {"A": a[0], "B": b[0]}, {"A": a[1], "B": b[1]}
        return made

    assert ab_blocks.worse(tally((0, 120), (30, 120)))
    assert ab_blocks.worse(tally((10, 1000), (40, 1000)))
    for a, b in (((0, 120), (0, 120)), ((0, 120), (2, 120)), ((30, 120), (0, 120)), ((30, 120), (31, 120)), ((0, 0), (5, 5))):
        assert not ab_blocks.worse(tally(a, b))
    stats = pytest.importorskip("scipy.stats")
    chance = stats.fisher_exact([[6, 94], [0, 100]], alternative="greater").pvalue
    assert (chance < ab_blocks.SURE) == ab_blocks.worse(tally((0, 100), (6, 100)))


def test_both_sides_of_a_pair_have_the_same_arrivals_and_no_two_pairs_do() -> None:
    seeds = [ab_blocks.seed(5, pair) for pair in range(50)]
    assert len(set(seeds)) == 50
    assert seeds == [ab_blocks.seed(5, pair) for pair in range(50)] != [ab_blocks.seed(6, pair) for pair in range(50)]


def test_the_order_within_pairs_is_random_and_drift_cancels_over_two() -> None:
    drawn = [ab.order(number, 3) for number in range(400)]
    assert drawn == [ab.order(number, 3) for number in range(400)]
    assert all({drawn[n], drawn[n + 1]} == {(0, 1), (1, 0)} for n in range(0, 400, 2))
    assert 60 < sum(drawn[n] == (0, 1) for n in range(0, 400, 2)) < 140
    assert [ab.order(number, None) for number in range(4)] == [(0, 1), (1, 0), (0, 1), (1, 0)]


def answered(requests: Sequence[Request], factor: float, spoilt: Sequence[int] = ()) -> tuple[str, int, Tally]:
    """By the code of the verb, from recorded blocks. `spoilt`: blocks, counted as they come, in which the client was at fault."""
    dealt, count, tally = Dealt(requests, 10, 1, factor), [0], Tally()

    def source(side: str, pair: int | None) -> Block:
        block = dealt(side, pair)
        count[0] += 1
        return block._replace(flaws=["late"]) if count[0] in spoilt or pair is None else block

    answer, pairs = compared(source, SideLoad(requests=10), "e2e", ab.AbOptions(difference=0.1, min_effect=0.025, order_seed=1), tally)
    return answer, pairs, tally


def test_a_planted_change_is_found_and_the_same_server_is_the_same() -> None:
    requests = recorded(3000)
    assert answered(requests, 1.1)[0] == "slower"
    assert answered(requests, 1 / 1.1)[0] == "faster"
    assert answered(requests, 1.0)[0] == "same"


def test_pairs_that_the_client_spoilt_do_not_count_and_too_many_end_it() -> None:
    requests = recorded(3000)
    answer, pairs, tally = answered(requests, 1.1, spoilt=[3, 8, 12])
    assert (answer, len(tally.lost)) == ("slower", 3)
    assert len(set(tally.counted().values())) == 1
    assert tally.counted() == {"A": 10 * len(tally.pairs), "B": 10 * len(tally.pairs)}
    assert pairs >= 10  # the pilot is of pairs that count
    answer, pairs, tally = answered(requests, 1.1, spoilt=range(1, 1000))
    assert (answer, pairs, len(tally.lost)) == ("inconclusive", 0, 15)
    assert tally.spoilt == "the client was late; 15 of 15 pairs are lost to it"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[server", "is no TOML"), ("[serve]\nurl = 'x'", "no table or key 'serve'; did you mean 'server'?"), ("", "neither url nor simulated"),
        ("server = 3", "server is a table"), ("[server]\nurl = 'http://127.0.0.1:1'\nport = 3", "no key 'port'"),
        ("[server]\nurl = 'http://127.0.0.1:1'\nsimulated = 'h200-sxm?model=llama-3-8b'", "both url and simulated"),
        ("[server]\nsimulated = 'h200-sxm?modle=llama-3-8b'", "no option 'modle'"),
        ("[server]\nurl = 3", "expected `str`"), ("[server]\nurl = 'http://127.0.0.1:1'\ncommand = ['']", "command is empty"),
        ("[server]\nurl = 'http://127.0.0.1:1'\nready = '/x'", "of a server that command starts"),
        ("[server]\nurl = 'http://127.0.0.1:1'\napi_key_env = 'NO_SUCH'", "no variable NO_SUCH"),
        ("[server]\nurl = 'http://127.0.0.1:1'\ncommand = ['x']\nready_within = 'soon'", "ready_within"),
        ("[server]\nurl = 'http://127.0.0.1:1'\n[load]\nrequests = 9", "requests is a whole number from 10 to 10000, not 9"),
        ("[server]\nurl = 'http://127.0.0.1:1'\n[load]\narrivals = 'ramp:1-2,5s'", "a ramp changes the rate"),
        ("[server]\nurl = 'http://127.0.0.1:1'\n[load]\narrivals = 'poison:3'", "did you mean 'poisson'?"),
        ("[server]\nurl = 'http://127.0.0.1:1'\n[load]\napi = 'chap'", "invalid enum value 'chap'"),
    ],
)  # fmt: skip
def test_a_bad_configuration_is_one_line(text: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.toml").write_text(text)
    assert main(["serving", "ab", "a.toml", "a.toml"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("hotlap: a.toml")
    assert words in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("a", "b", "more", "words"),
    [
        ('url = "http://127.0.0.1:1"', 'url = "http://127.0.0.1:1"\ncommand = ["x"]', [], "only one has a command"),
        ('url = "http://127.0.0.1:1"\ncommand = ["x"]', 'url = "http://127.0.0.1:1"\ncommand = ["y"]', [], "or say --one-at-a-time"),
        ('url = "http://127.0.0.1:1"', 'url = "http://127.0.0.1:2"', ["--metric", "tfft"], "no metric 'tfft'; did you mean 'ttft'?"),
        ('url = "http://127.0.0.1:1"', 'url = "http://127.0.0.1:2"', ["--pairs", "3"], "--pairs is a whole number of at least 10"),
        ('url = "http://192.0.2.1:1"', 'url = "http://127.0.0.1:2"', [], "--this-server-is-mine"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_one_line(a: str, b: str, more: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serving", "ab", *configured(a=a, b=b), *more]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_a_simulated_server_may_stand_where_other_verbs_take_it() -> None:
    machine = "h200-sxm?model=llama-3-8b&tp=1"
    sides = ab_config.pair(*configured(a=f'simulated = "{machine}"', b=f'url = "simulated:{machine}"'), one_at_a_time=False)
    assert [(side.server.url, side.server.simulator) for side in sides] == [("", f"simulated:{machine}")] * 2


def test_both_sides_must_get_the_same_load() -> None:
    a, b = configured(a='url = "http://127.0.0.1:1"', b='url = "http://127.0.0.1:2"')
    Path(b).write_text(Path(b).read_text().replace("output = 8", "output = 9"))
    with pytest.raises(InputError, match=r"a\.toml and b\.toml send different loads \(output: 8 and 9\)"):
        ab_config.pair(a, b, False)


def test_a_dead_server_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    assert main(["serving", "ab", *configured(a=f'url = "http://127.0.0.1:{port}"', b=f'url = "http://127.0.0.1:{port}"')]) == 3
    error = capsys.readouterr().err
    assert "side A ('a.toml'): no server answers" in error
    assert error.count("\n") == 1


def test_a_server_is_started_waited_for_and_ended_with_all_it_started(tmp_path: Path) -> None:
    port, written = free_port(), tmp_path / "child"
    text = command(port, 0.01)
    Path("a.toml").write_text(f"[server]\n{text}")
    server = ab_config.read("a.toml").server
    child = f"import subprocess, pathlib, sys\npathlib.Path({str(written)!r}).write_text(str(subprocess.Popen(['sleep', '600']).pid))\n"
    server = ServerSide(url=server.url, command=[*server.command[:2], child + server.command[2]])
    with ab_servers.running(server, False) as (address, model):
        assert (address.port, model) == (port, "")
        with pytest.raises(InputError, match="another server already answers"), ab_servers.running(server, False):
            pass
        pid = int(written.read_text())
        os.kill(pid, 0)
    until_s = time.monotonic() + 10
    while Path(f"/proc/{pid}/stat").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z" and time.monotonic() < until_s:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}/stat").exists() or Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    with socket.create_server(("127.0.0.1", port), reuse_port=False):  # it is free again
        pass


@pytest.mark.parametrize(
    ("program", "within", "words"),
    [("print('no memory left'); raise SystemExit(3)", "1 min", "its last words: no memory left"), ("import time; time.sleep(60)", "0.5 s", "within 0.5 s")],
)
def test_a_server_that_does_not_come_up_says_why(program: str, within: str, words: str) -> None:
    server = ServerSide(url=f"http://127.0.0.1:{free_port()}", command=[sys.executable, "-c", program], ready_within=within)
    began_s = time.monotonic()
    with pytest.raises(Unavailable, match=words), ab_servers.running(server, False):
        pass
    assert time.monotonic() - began_s < 50
    with pytest.raises(InputError, match="no-such-program' does not start"), ab_servers.running(replace(server, command=["no-such-program"]), False):
        pass


def test_one_at_a_time_starts_a_server_for_each_block_and_every_request_is_kept(home: Path) -> None:
    port = free_port()
    a, b = configured(a=command(port, 0.02), b=command(port, 0.02) + 'environment = {SLOWER = "8"}\n')
    first, second = ab_config.pair(a, b, one_at_a_time=True)
    options = ab_live.LiveOptions(home / "home", 11, {"of": "mine", "ab": "x"}, ["e2e"], one_at_a_time=True)
    with ab_live.source(first, second, options) as source:
        blocks = {side: source(side, 0) for side in "AB"}
    values = {side: ab_blocks.value(block.requests, "e2e") for side, block in blocks.items()}
    assert values["B"] > 1.5 * values["A"]
    kept = {block.run: bundles.load(home / "home" / "runs" / block.run) for block in blocks.values()}
    servings = [reading.read(bundle) for bundle in kept.values()]
    assert [len(serving.requests) for serving in servings if serving] == [11, 11]  # one of the warm-up each
    assert len({serving.served.asked.salt for serving in servings if serving}) == 2
    assert len({serving.served.asked.seed for serving in servings if serving}) == 1
    labels = [bundle.run.labels for bundle in kept.values()]
    assert [(one["side"], one["pair"], one["of"]) for one in labels] == [("A", "0", "mine"), ("B", "0", "mine")]
    assert {one["ab"] for one in labels} == {"x"}
    assert len(list((home / "home" / "runs").iterdir())) == 4  # and a warm-up block of each start


def test_a_signal_ends_the_servers_and_keeps_what_there_is(home: Path) -> None:
    ports = free_port(), free_port()
    files = configured(a=command(ports[0], 0.02), b=command(ports[1], 0.02))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen([sys.executable, "-m", "hotlap", "serving", "ab", *files], env=environment, stderr=subprocess.PIPE)
    try:
        until_s = time.monotonic() + 60
        while not list((home / "home" / "runs").glob("*/samples.jsonl")) and time.monotonic() < until_s:
            time.sleep(0.05)
        time.sleep(1)
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, b"Traceback" in error) == (130, False)
    for port in ports:
        with socket.create_server(("127.0.0.1", port)):  # both are free again
            pass


def test_where_it_is_killed_the_servers_end_too(home: Path) -> None:
    ports = free_port(), free_port()
    files = configured(a=command(ports[0], 0.02), b=command(ports[1], 0.02))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen([sys.executable, "-m", "hotlap", "serving", "ab", *files], env=environment, stderr=subprocess.DEVNULL)
    try:
        assert eventually(lambda: list((home / "home" / "runs").glob("*/run.json")))  # servers answer before there is a run
    finally:
        process.kill()
        process.wait()
    assert eventually(lambda: all(free(port) for port in ports))


def eventually(holds: Callable[[], object]) -> bool:
    until_s = time.monotonic() + 60
    while not holds() and time.monotonic() < until_s:
        time.sleep(0.05)
    return bool(holds())


def free(port: int) -> bool:
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False


def until_sure(files: list[str], capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    """Exit code and text. A machine that is too busy to measure says so (exit code 3) and is asked once again, then the test is skipped."""
    for _ in range(2):
        code = main(["serving", "ab", *files, "--resolve", "20 %", "--budget", "100 s", *more])
        out = capsys.readouterr().out
        if code != 3:
            return code, out
    pytest.skip("this machine is too busy: the client was late in most blocks, or the budget was used up")


@pytest.mark.nightly("three minutes: two servers under load until it is sure")
def test_a_slower_server_is_found_and_the_same_is_not_different(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Real servers: 600 ms of service against 780, long beside what a busy machine takes to wake a process."""
    with serving(service_s=0.6, workers=10) as quick, serving(service_s=0.78, workers=10) as slow:
        a, b, c = configured(a=f'url = "{quick.url}"', b=f'url = "{slow.url}"', c=f'url = "{quick.url}"')
        for file in (a, b, c):
            Path(file).write_text(Path(file).read_text().replace("closed:2", "closed:10").replace("warm_up = 1", "warm_up = 0"))
        code, out = until_sure([a, b], capsys, "--seed", "3", "--json")
        document = json.loads(out)
        msgspec.convert(document, Document)
        (entry,) = document["cases"]
        assert (code, entry["state"], entry["metric"]) == (1, "slower", "time")
        assert 1 / entry["value"] == pytest.approx(1.3, abs=0.1)
        assert document["seed"] == 3
        blocks = [bundles.load(home / "home" / "runs" / run) for run in document["blocks"]]
        assert 10 * len(blocks) == document["sent"]["A"] + document["sent"]["B"] >= 10 * (4 + 2 * 6)
        assert {block.run.kind for block in blocks} == {"serving"}
        both = [bundles.load(home / "home" / "runs" / run).run for run in document["runs"]]
        assert len({run.labels["ab"] for run in (*both, *(block.run for block in blocks))}) == 1
        assert {run.seed for run in both} == {3}
        code, out = until_sure([a, c], capsys, "--seed", "4")
        assert code == 0
        assert "within ± 20 %" in out
        assert "blocks  of 10 requests, seed 4; requests of the " in out
        assert "; failed: A 0 and B 0" in out

"""What serving ab says beside its verdict: tails of both sides, pauses, and where its numbers are shown afterwards."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from hotlap.cli import main
from hotlap.core.analysis import history
from hotlap.core.store import bundle as bundles
from hotlap.core.trials import ab
from hotlap.serving import ab_blocks, ab_tails, cli_ab
from hotlap.serving.ab_blocks import Block, BlockTrial, Tally
from hotlap.serving.ab_config import ServerSide, SideLoad
from hotlap.serving.record import Request


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def requests(count: int, stalled: int = 0, factor: float = 1.0, seed: int = 5) -> list[Request]:
    """A tenth of a second each, of 4 tokens; every so many-th pauses for 2 s."""
    rng, some = random.Random(seed), []
    for index in range(count):
        pause_s = 2.0 if stalled and index % stalled == 0 else 0.0
        first_s = 0.02 * factor * rng.uniform(0.9, 1.1)
        ended_s = index + first_s + 0.08 * factor * rng.uniform(0.9, 1.1) + pause_s
        some.append(Request(
            index=index, due_s=float(index), sent_s=float(index), first_s=index + first_s, last_s=ended_s, ended_s=ended_s, output_tokens=4,
            chunks=4, stall_s=max(0.03, pause_s),
        ))  # fmt: skip
    return some


def tally(a: Sequence[Request], b: Sequence[Request]) -> Tally:
    filled = Tally()
    filled.requests = {"A": {0: a}, "B": {0: b}}
    return filled


def test_a_stall_that_no_median_shows_is_a_notice() -> None:
    """One in ten pauses on B: the median of E2E is as on A."""
    text = cli_ab._tails(tally(requests(400), requests(400, stalled=10, seed=6)), ["e2e"])
    joined = " ".join(" ".join(text).split())
    assert "e2e's median decides, not these" in joined
    assert "p99 of E2E" in joined
    assert "p50 of E2E" not in joined
    assert "paused for a second or more: A 0 of 400 and B 40 of 400" in joined
    rows = {line.split()[0]: line.split() for line in text if line.startswith(("TTFT", "E2E", "TPOT", "stall"))}
    assert set(rows) == {"TTFT", "E2E", "TPOT", "stall"}
    assert (rows["stall"][-4:-2], rows["stall"][-2:]) == (["30.0", "ms"], ["2.00", "s"])


def test_two_equal_sides_have_no_notice_and_what_decides_is_none() -> None:
    same = tally(requests(400), requests(400, seed=6))
    assert same.tails().differ == []
    assert ab_tails.notices(same.tails(), ["e2e"]) == []
    slower = tally(requests(400), requests(400, factor=1.5)).tails()
    assert "e2e p50" in slower.differ
    assert "p50 of E2E" not in " ".join(ab_tails.notices(slower, ["e2e"]))
    assert "p50 of TTFT" in " ".join(ab_tails.notices(slower, ["e2e"]))
    assert cli_ab._tails(Tally(), ["e2e"]) == []


def test_tails_are_of_pairs_that_both_sides_have_and_the_client_did_not_spoil() -> None:
    some = requests(12)
    filled = Tally()
    filled.requests = {"A": {0: some, 1: some, 2: some}, "B": {0: some, 1: some}}
    filled.lost = {1: "late"}
    assert filled.tails().answered == {"A": 12, "B": 12}


def measured(a: str, b: str, lost: int = -1) -> tuple[Path, Path]:
    """Both sides' runs, of recorded blocks with the configurations of two servers. `lost`: a pair that the client spoilt."""
    some, at = requests(600), [0]

    def source(side: str, pair: int | None) -> Block:
        at[0] = (at[0] + 10) % 590
        return Block(some[at[0] : at[0] + 10], ["late"] if pair == lost else ())

    trial = BlockTrial(SideLoad(requests=10), ["e2e"], source, Tally(), warm_up=0)
    sides = [ab_blocks.arm(side, f"{side}.toml", trial, ServerSide(simulated=text).configuration) for side, text in (("A", a), ("B", b))]
    return ab.ab(*sides, ab.AbOptions(most=10, order_seed=1), Path.cwd() / "home").runs


def test_a_series_is_of_one_configuration(home: Path) -> None:
    for _ in range(2):
        measured("h200-sxm?model=llama-3-8b&tp=1", "h200-sxm?model=llama-3-8b&tp=2")
    series = history.history([bundles.load(path) for path in sorted((home / "home" / "runs").iterdir())])
    assert [len(one.points) for one in series] == [2, 2]
    assert {one.label.rpartition(" of ")[2] for one in series} == {"h200-sxm?model=llama-3-8b&tp=1", "h200-sxm?model=llama-3-8b&tp=2"}


def test_a_configuration_is_a_label_that_tells_servers_apart() -> None:
    url = "http://127.0.0.1:8000"
    sides = [
        ServerSide(url=url), ServerSide(url=url, model="a,b"), ServerSide(url=url, command=["x"]), ServerSide(url=url, command=["y"]),
        ServerSide(url=url, command=["x"], environment={"THREADS": "2"}),
    ]  # fmt: skip
    names = [side.configuration for side in sides]
    assert len(set(names)) == 5
    assert names[:2] == [url, f"a;b at {url}"]
    assert ServerSide(simulated="simulated:h200-sxm?model=gpt-2").configuration == "h200-sxm?model=gpt-2"


def test_the_page_of_a_side_speaks_of_blocks_and_names_its_server() -> None:
    run, _ = measured("h200-sxm?model=llama-3-8b&tp=1", "h200-sxm?model=llama-3-8b&tp=2")
    assert main(["report", str(run), "--out", "page.html"]) == 0
    page = Path("page.html").read_text()
    assert "<h1>h200-sxm?model=llama-3-8b&amp;tp=1, measured from" in page
    assert "A round is a block of requests to the server" in page
    assert "each a block of requests" in page
    for word in ("fresh process", "timer’s resolution", "made rounds fail"):
        assert word not in page


def test_what_is_to_be_done_about_lost_blocks_is_not_about_kernels() -> None:
    run, _ = measured("h200-sxm?model=llama-3-8b&tp=1", "h200-sxm?model=llama-3-8b&tp=2", lost=3)
    assert main(["report", str(run), "--out", "page.html"]) == 0
    assert "give the client a quieter machine" in Path("page.html").read_text().lower()


def test_the_pilot_counts_pairs_that_count(capsys: pytest.CaptureFixture[str]) -> None:
    """One pair of eleven is lost: the plan is of ten."""
    from hotlap.cli.ab import AbProgress

    some, calls = requests(600), [0]

    def source(side: str, pair: int | None) -> Block:
        calls[0] += 1
        at = calls[0] * 10 % 590
        return Block(some[at : at + 10], ["late"] if pair == 3 else ())

    trial = BlockTrial(SideLoad(requests=10), ["e2e"], source, Tally(), warm_up=0)
    sides = [ab_blocks.arm(side, side, trial) for side in "AB"]
    ab.ab(*sides, ab.AbOptions(most=11, order_seed=1), Path.cwd() / "home", AbProgress())
    assert "pilot of 10 pairs (1 more left out): " in capsys.readouterr().err


"""hotlap serving traffic: what it prints and refuses."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pytest

from hotlap.core.errors import InputError
from hotlap.serving import cli_traffic, traffic, traffic_scale
from hotlap.serving.traffic import TrafficTrace

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """400 Poisson arrivals of two blocks, the first shared by all."""
    rng = np.random.default_rng(7)
    times = np.cumsum(rng.exponential(0.25, 400))
    tokens = np.full(400, 1024)
    own = TrafficTrace("own", "Mooncake", times - times[0], tokens, tokens // 8, tuple((0, 1 + at) for at in range(400)))
    (tmp_path / "own.jsonl").write_text(traffic_scale.lines(own))
    monkeypatch.chdir(tmp_path)
    return "own.jsonl"


def run(*words: str, as_json: int = 0) -> int:
    parser = argparse.ArgumentParser()
    cli_traffic.add(parser)
    args = parser.parse_args(words)
    args.json = as_json
    return cli_traffic.run(args)


def test_show_is_one_screen(trace: str, capsys: Capture) -> None:
    assert run("show", trace) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) <= 24
    assert all(len(line) <= 100 for line in out.splitlines())
    assert "own.jsonl · Mooncake · 400 requests in " in out
    assert "50 % of input tokens could come from a cache; 399 requests begin with blocks that came before" in " ".join(out.split())
    assert out.endswith("next    hotlap serving traffic fit own.jsonl\n")


def test_fit_says_how_well_it_fits(trace: str, capsys: Capture) -> None:
    assert run("fit", trace) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "fits, as --arrivals gamma:" in out
    assert "Poisson is not refuted" in out
    assert "changes none found in 39 bins" in out
    assert "input all of 1024 tokens" in out


def test_json_holds_every_number(trace: str, capsys: Capture) -> None:
    assert run("fit", trace, as_json=3) == 0
    known = json.loads(capsys.readouterr().out)["traffic"]
    assert known["requests"] == 400
    assert known["arrivals"]["burstiness"]["shape"] == pytest.approx(1 / known["arrivals"]["burstiness"]["cv"] ** 2)
    assert known["sharing"]["cached_tokens"] == 399 * 512
    assert sum(known["arrivals"]["rates_hz"]) * known["arrivals"]["bin_s"] == pytest.approx(392)  # the last bin is not whole


@pytest.mark.parametrize(("way", "says"), [("time", "all times were divided by the factor"), ("requests", "thinned or merged within one stretch, in which no change of rate was found")])
def test_scale_says_which_way_and_shows_both_sides(trace: str, capsys: Capture, way: str, says: str) -> None:
    assert run("scale", trace, "--factor", "0.5", "--by", way, "--seed", "3", "--out", "half.jsonl") == 0
    out = capsys.readouterr().out
    assert says in out
    assert out.endswith("trace   half.jsonl\n")
    half = traffic.read(Path("half.jsonl"))
    assert len(half.input_tokens) == (400 if way == "time" else 200)
    with pytest.raises(InputError, match=r"'half.jsonl' is there already; give --out another name"):
        run("scale", trace, "--factor", "2", "--out", "half.jsonl")


def test_sharegpt_is_shown_without_arrivals(tmp_path: Path, capsys: Capture) -> None:
    turns = [{"from": "human", "value": "x" * 400}, {"from": "gpt", "value": "y" * 80}]
    (tmp_path / "s.json").write_text(json.dumps([{"conversations": turns}] * 3))
    assert run("show", str(tmp_path / "s.json")) == 0
    assert run("fit", str(tmp_path / "s.json")) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "3 requests, no times" in out
    assert "tokens are a quarter of the characters: the trace holds none" in out
    assert "s.json --arrivals poisson:8" in out


def test_few_requests_are_too_few_and_a_burst_alone_has_no_rate(tmp_path: Path, capsys: Capture) -> None:
    rows = [json.dumps({"timestamp": 250 * at, "input_length": 600, "output_length": 5}) for at in range(5)]
    (tmp_path / "few.jsonl").write_text("\n".join(rows))
    (tmp_path / "burst.jsonl").write_text("\n".join(rows[:1] * 3))
    for name in ("few.jsonl", "burst.jsonl"):
        assert run("show", str(tmp_path / name)) == 0
        assert run("fit", str(tmp_path / name)) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "few.jsonl · Mooncake · 5 requests in 1.00 s" in out
    assert "changes too few requests to tell bursts too few requests to tell" in out
    assert "burst.jsonl · Mooncake · 3 requests at one time" in out
    assert "--arrivals poisson" not in out
    assert run("scale", str(tmp_path / "burst.jsonl"), "--factor", "2", "--by", "requests", "--out", str(tmp_path / "x.jsonl")) == 0
    assert len(traffic.read(tmp_path / "x.jsonl").input_tokens) == 6


@pytest.mark.parametrize(("words", "about"), [
    (["scale", "own.jsonl"], "scale needs --factor, as in --factor 2, and --out FILE"),
    (["scale", "own.jsonl", "--factor", "2"], "scale needs --factor"),
    (["scale", "own.jsonl", "--factor", "0", "--out", "x"], "--factor 0: the rate is scaled by 0.001 to 1000"),
    (["scale", "own.jsonl", "--factor", "-1", "--out", "x"], "--factor -1: the rate is scaled"),
    (["scale", "own.jsonl", "--factor", "nan", "--out", "x"], "--factor nan: the rate is scaled"),
    (["scale", "own.jsonl", "--factor", "2", "--out", "gone/x"], "there is no folder gone"),
    (["show", "own.jsonl", "--factor", "2"], "--factor and --out go with scale, not with show"),
    (["fit", "own.jsonl", "--seed", "-1"], "--seed is a whole number from 0, not -1"),
    (["fit", "none.jsonl"], "there is no file 'none.jsonl'"),
])  # fmt: skip
def test_wrong_options_are_one_line_and_write_nothing(trace: str, words: list[str], about: str) -> None:
    with pytest.raises(InputError, match=about):
        run(*words)
    assert not Path("x").exists()


def test_a_trace_of_which_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_text('{"timestamp": 0, "input_length": 5, "output_length": 5}\n')
    with pytest.raises(InputError, match=r"at a rate × 0.001 none of 1 requests is left"):
        run("scale", str(tmp_path / "one.jsonl"), "--factor", "0.001", "--by", "requests", "--out", str(tmp_path / "x"))

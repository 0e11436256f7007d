"""hotlap serving frontier: blocks by hand, intervals, what surely beats what, and the verb on a simulated server."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from tests.serving.played import PlayedBenches, asked, model

from hotlap.cli import main
from hotlap.core.show.document import Document
from hotlap.serving import frontier_points, frontier_session, show_frontier
from hotlap.serving.frontier_points import FrontierBlock, FrontierVisit, ServerFrontier
from hotlap.serving.record import Request

SIMULATED = "simulated:h200-sxm?model=llama-3-8b&tp=1"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def request(index: int, due_s: float, tokens: int = 11) -> Request:
    """A second until its first token, then one each tenth of a second."""
    first_s = due_s + 1
    last_s = first_s + 0.1 * (tokens - 1)
    return Request(index=index, due_s=due_s, sent_s=due_s, first_s=first_s, last_s=last_s, ended_s=last_s, output_tokens=tokens)


def test_blocks_by_hand() -> None:
    """A request a second, each over two seconds: 11 tokens come each second, of a user 10. The warm-up's tokens count, its TPOT does not."""
    every = [request(i, float(i)) for i in range(42)]
    slow = every[:1] + [request(i, float(i)) for i in range(1, 42)]
    blocks = frontier_points.blocks(slow, warm_up=1)
    assert len(blocks) == frontier_points.BLOCKS
    assert [block.interactivity for block in blocks] == pytest.approx([10.0] * 4)
    assert [block.throughput for block in blocks[1:]] == pytest.approx([11.0] * 3)
    halved = frontier_points.blocks(slow, warm_up=1, gpus=2)
    assert [block.throughput * 2 for block in halved] == pytest.approx([block.throughput for block in blocks])


def test_failed_requests_have_no_tokens() -> None:
    every = [request(i, float(i)) for i in range(41)]
    failed = [msgspec.structs.replace(r, outcome="error", reason="reset") if r.index % 2 else r for r in every]
    assert np.mean([block.throughput for block in frontier_points.blocks(failed, 0)[1:]]) == pytest.approx(5.5, rel=0.05)
    assert frontier_points.blocks([], 0) == []
    assert frontier_points.blocks([msgspec.structs.replace(r, output_tokens=None) for r in every], 0) == []


def test_rounds_that_differ_make_the_interval() -> None:
    alike = frontier_points.mean([[1.0, 2.0, 3.0]] * 3)
    assert alike is not None
    assert alike.value == 2.0
    assert alike.high - 2 == pytest.approx(2.306 * np.std([1, 2, 3] * 3, ddof=1) / 3, rel=1e-3)
    apart = frontier_points.mean([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0], [3.0, 3.0, 3.0]])
    assert apart is not None
    assert apart.high - 2 == pytest.approx(4.303 / np.sqrt(3), rel=1e-3)
    assert apart.low == 0
    assert frontier_points.mean([[1.0], [2.0]]) is None


def test_intervals_of_means_hold_the_truth() -> None:
    rng, held = np.random.default_rng(2), 0
    for _ in range(400):
        level = rng.normal(10, 0.5, 3)
        known = frontier_points.mean([rng.normal(each, 0.5, 4).tolist() for each in level])
        assert known is not None
        held += known.low <= 10 <= known.high
    assert held >= 0.9 * 400


def visit(setting: str, number: int, throughput: float, interactivity: float, flaws: list[str] | None = None) -> FrontierVisit:
    blocks = [FrontierBlock(throughput=throughput * (1 + e), interactivity=interactivity * (1 + e)) for e in (-0.01, 0.0, 0.01)]
    return FrontierVisit(setting=setting, round=number, run="r", requests=32, failed=0, blocks=blocks, flaws=flaws or [])


def test_a_load_is_off_the_frontier_only_where_another_is_surely_better() -> None:
    loads = {"closed:1": (100.0, 50.0), "closed:4": (300.0, 40.0), "closed:8": (302.0, 40.2), "closed:16": (250.0, 20.0)}
    visits = [visit(setting, number, *both) for number in range(2) for setting, both in loads.items()]
    points = frontier_points.points(list(loads), visits)
    assert {point.setting: point.front for point in points} == {"closed:1": True, "closed:4": True, "closed:8": True, "closed:16": False}
    assert [point.blocks for point in points] == [6] * 4


def test_runs_of_a_client_at_fault_count_for_nothing() -> None:
    visits = [visit("closed:1", 0, 100, 50), visit("closed:1", 1, 1, 1, ["late"]), visit("closed:4", 0, 300, 40, ["starved"])]
    points = frontier_points.points(["closed:1", "closed:4"], visits)
    assert [(point.setting, point.blocks) for point in points] == [("closed:1", 3)]
    assert points[0].throughput.value == pytest.approx(100)


@pytest.mark.slow("plays several loads in rounds")
def test_a_server_s_points_are_the_model_s() -> None:
    """Rounds are interleaved, each in an order of its own."""
    what = asked(output_tokens=32, input_tokens=256)
    server = model(what)
    benches, settings = PlayedBenches(server), ["closed:1", "closed:4", "closed:16"]
    heard: list[int] = []
    visits = frontier_session.visit(benches, settings, 3, None, 1, lambda _, count: heard.append(count))
    assert heard == list(range(1, 10))
    orders = [[visit.setting for visit in visits if visit.round == number] for number in range(3)]
    assert all(sorted(order) == sorted(settings) for order in orders)
    assert len({tuple(order) for order in orders}) > 1
    assert benches.seen[0][1] in (32, 64)
    expected = frontier_session.expected(server, settings, None, 1)
    kept = frontier_session.kept(benches, settings, 1, visits, expected, "llama-3-8b on h200-sxm")
    assert [point.setting for point in kept.points] == settings
    for point, by_model in zip(kept.points, expected, strict=True):
        assert point.throughput.value == pytest.approx(by_model.throughput.value, rel=0.15)  # 32 requests a run
        assert point.interactivity.value == pytest.approx(by_model.interactivity.value, rel=0.15)
    rising = [point.throughput.value for point in kept.points]
    assert rising == sorted(rising)
    assert show_frontier.answer(kept) == "on the frontier: 1 at a time, 4 at a time, 16 at a time; none is surely beaten"
    page = show_frontier.section(kept)
    assert page.count("<circle") == 3
    assert "16 at a time" in page
    assert ">model<" in page
    assert show_frontier.code(kept) == 0
    assert show_frontier.code(msgspec.structs.replace(kept, points=kept.points[:2])) == 3
    assert msgspec.json.decode(msgspec.json.encode(kept), type=ServerFrontier) == kept


def test_ctrl_c_keeps_the_runs_before_it() -> None:
    benches = PlayedBenches(model(asked(output_tokens=8, input_tokens=64)), end_after=2)
    visits = frontier_session.visit(benches, ["closed:1", "closed:2"], 3, None, None, lambda *_: None)
    kept = frontier_session.kept(benches, ["closed:1", "closed:2"], None, visits)
    assert (len(kept.visits), kept.ended, show_frontier.code(kept)) == (2, "interrupted", 130)
    assert "it was interrupted" in show_frontier.text(kept, 120, False)


@pytest.mark.slow("loads a simulated server for some seconds")
def test_a_frontier_is_printed_kept_and_shown_again(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [SIMULATED, "--concurrency", "1,4", "--rounds", "1", "--input", "32", "--output", "8", "--slo", "ttft<=5s", "--json"]
    code = main(["serving", "frontier", *argv])
    answer = json.loads(capsys.readouterr().out)
    msgspec.convert(answer, Document)
    kept = msgspec.convert(answer["frontier"], ServerFrontier)
    assert (code, kept.gpus) == (show_frontier.code(kept), 1)
    assert {visit.setting for visit in kept.visits} == {"closed:1", "closed:4"}
    assert [point.setting for point in kept.expected] == ["closed:1", "closed:4"]
    assert all(visit.failed == 0 and len(visit.blocks) == 4 and visit.met == visit.decided for visit in kept.visits)
    assert main(["show", answer["run"]]) == (0 if kept.points else 3)
    assert show_frontier.text(kept, 120, False) in capsys.readouterr().out
    assert main(["report", answer["run"], "--out", str(home / "page.html")]) == 0
    assert "Throughput against interactivity" in (home / "page.html").read_text()
    capsys.readouterr()
    assert main(["list", f"frontier={kept.label}", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 3


@pytest.mark.parametrize(
    ("argv", "told_so"),
    [
        (["--concurrency", "1"], "needs two loads at least"), (["--concurrency", "1,1"], "each once"),
        (["--concurrency", "1,2", "--rates", "1,2"], "give one of them"), (["--concurrency", "1,0"], "--concurrency: whole numbers from 1"), (["--rates", "1,0"], "--rates: rates above 0"),
        (["--rates", "1,8", "--max-rate", "4"], "more than --max-rate"), (["--output", "1"], "it needs answers of 2 tokens"),
        (["--api", "embeddings"], "it needs answers of 2 tokens"), (["--gpu", "h200-sxm"], "known of a simulated server"),
        (["--rounds", "0"], "--rounds is a whole number"),
    ],
)  # fmt: skip
def test_what_was_asked_wrongly_is_one_line(argv: list[str], told_so: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serving", "frontier", SIMULATED, *argv]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert told_so in err
    assert err.count("\n") == 1

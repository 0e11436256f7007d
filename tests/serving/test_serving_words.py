"""What serving says in words: how runs ended, what loads without a point showed, what a prefix cache could hold, why pairs are lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.serving.sse_server import serving
from tests.serving.test_frontier_verb import visit
from tests.serving.test_serving_ab import recorded
from tests.serving.test_serving_figures import SOUND, run_of, sent

from hotlap.cli import main
from hotlap.core.analysis import turns
from hotlap.core.record import Samples, Stop, Turns
from hotlap.core.show import kinds, listing
from hotlap.serving import ab_blocks, ab_tails, show, show_frontier, show_kind, summary, verdict
from hotlap.serving.ab_blocks import Block, BlockTrial, Tally
from hotlap.serving.ab_config import SideLoad
from hotlap.serving.frontier_points import FrontierVisit, ServerFrontier, points
from hotlap.serving.record import ServingAsked

ASKED = ServingAsked(url="http://127.0.0.1:1", model="tiny", arrivals="several loads", seed=1, input_tokens=8, output_tokens=4)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "160")
    return tmp_path


def frontier(*visits: FrontierVisit) -> ServerFrontier:
    settings = ["closed:1", "closed:4", "closed:8"]
    return ServerFrontier(
        asked=ASKED, settings=settings, gpus=None, label="l", visits=list(visits), points=points(settings, visits), ended="rounds_max"
    )


def test_loads_without_a_point_are_shown_with_the_reason() -> None:
    late, few = visit("closed:1", 0, 120, 40, ["late"]), visit("closed:4", 0, 300, 40)
    kept = frontier(late, replace(few, blocks=few.blocks[:2], failed=3))
    shown = " ".join(show_frontier.text(kept, 200, False).split())
    assert "1 at a time 120 40.0 1 the client, in 1 of 1 run: it sent requests late" in shown
    assert "2 blocks of sound runs, and 3 are needed; 3 requests failed" in shown
    assert "8 at a time ? ? 0 it was not measured" in shown
    assert "why it does not count" in show_frontier.section(kept)
    counted = frontier(*(visit(f"closed:{n}", 0, 100 * n, 50 / n) for n in (1, 4, 8)))
    assert "why it does not count" not in show_frontier.text(counted, 200, False)
    uncounted = replace(few, blocks=[])
    assert "the server does not count tokens" in show_frontier.text(frontier(uncounted), 250, False)


def test_the_heading_says_what_a_bench_did(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--arrivals", "closed:2", "--requests", "12", "--input", "16", "--output", "2"]
    with serving(service_s=0.004) as server:
        main(["serving", "bench", server.url, *few, "--for", "60 s", "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert answer["verdict"] == (None if answer["exit_code"] == 0 else "inconclusive")
    assert answer["serving"]["state"] == ("measured" if answer["exit_code"] == 0 else "inconclusive")
    main(["show", "latest"])
    heading = capsys.readouterr().out.splitlines()[0]
    assert "bench of tiny" in heading
    assert "all requests were sent and waited for" in heading  # its time had not come
    assert main(["gate", "latest", "--base", "main"]) == 2
    assert "is a bench of a server" in capsys.readouterr().err


def test_each_kind_of_serving_has_its_own_words() -> None:
    for kind, ending in (("serving-capacity", "the search is over"), ("serving-frontier", "every load was measured")):
        assert listing.stopped([Stop("rounds_max")], kinds.ended(kind)) == ending
        assert kinds.sums_up(kind)
    assert not kinds.sums_up("serving")
    assert listing.stopped([Stop("rounds_max")], kinds.ended("plan")) == "all rounds done"


def test_a_run_without_objectives_has_a_state() -> None:
    sound = run_of(sent(), SOUND)
    assert verdict.of(sound, summary.of(sound)).state == "measured"
    late = run_of(sent(lag_s=0.05), SOUND)
    judged = verdict.of(late, summary.of(late))
    assert (judged.state, judged.code, show_kind.document(judged)["serving"]["state"]) == ("inconclusive", 3, "inconclusive")


def test_a_replay_says_what_a_prefix_cache_could_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"timestamp": 10 * at, "input_length": 1024, "output_length": 2, "hash_ids": [0, at]} for at in range(1, 9)]
    (tmp_path / "mine.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with serving(service_s=0.004, workers=4) as server:
        main(["serving", "bench", server.url, "--trace", str(tmp_path / "mine.jsonl")])
    shown = " ".join(capsys.readouterr().out.split())
    assert "prefixes 44 % of the prompt tokens could come from a prefix cache that never forgets; the server" in shown  # 7 × 512 of 8 × 1024
    plain = run_of(sent(), SOUND)
    assert "prefixes" not in " ".join(show.lines(verdict.of(plain, summary.of(plain)), 120, False))


def test_answers_that_paused_are_named_where_there_are_few() -> None:
    a = recorded(10)
    b = [replace(one, stall_s=2.0) if one.index == 3 else one for one in a]
    (note,) = ab_tails.notices(ab_tails.of({"A": a, "B": b}, ab_blocks.more), ["e2e"])
    assert note == "answers that paused for a second or more: A 0 of 10 and B 1 of 10: too few to say that the sides differ; more --pairs would"
    assert ab_tails.notices(ab_tails.of({"A": a, "B": a}, ab_blocks.more), ["e2e"]) == []


def test_pairs_that_are_lost_to_the_client_are_the_reason() -> None:
    """Of 8 pairs 5 are lost: the budget did not end it too soon."""
    kept: tuple[list[Samples], list[Samples]] = ([], [])
    tally, arms = Tally(), []
    for side in "AB":
        trial = BlockTrial(SideLoad(), ["e2e"], lambda _, pair: Block(recorded(10), ["late"] if pair is not None and pair > 2 else []), tally, warm_up=0)
        arms.append(ab_blocks.arm(side, side, trial))
        arms[-1].once(0)
    for number in range(8):
        for arm, samples in zip(arms, kept, strict=True):
            samples += arm.once(number)
    (a,), (b,) = (arm.results(samples) for arm, samples in zip(arms, kept, strict=True))
    found = turns.comparison(a, b, Turns(id="t", side="A", difference=0.05, min_effect=0.01, most=200), Stop("budget"))
    assert found.answer == "inconclusive"
    assert found.reason == "6 pairs are needed, there are 3; 5 of 8 gave no number: the client was late"

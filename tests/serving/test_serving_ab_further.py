"""hotlap serving ab without an answer: what a larger --budget would do, by the spread of the pairs that there are."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.serving.sse_server import serving

from hotlap.cli import main
from hotlap.core.record import Stop
from hotlap.core.trials import ab
from hotlap.serving import ab_blocks, ab_further, ab_live, session
from hotlap.serving.ab_blocks import Block, BlockTrial, Tally
from hotlap.serving.ab_config import SideLoad
from hotlap.serving.record import Request


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    return tmp_path


def ended(folder: Path, factor: float, noise: float, most: int, kind: str = "", flaws: Sequence[str] = ()) -> list[ab_further.AbFurther]:
    """Of blocks whose noise is known; 2 s a pair. `kind`: another end than its own. `flaws`: of the client, in every pair."""
    rng = random.Random(11)

    def source(side: str, _: int | None) -> Block:
        took_s = 0.1 * math.exp(rng.gauss(0, noise)) * (factor if side == "B" else 1.0)
        return Block([
            Request(index=n, due_s=float(n), sent_s=float(n), first_s=n + took_s / 4, last_s=n + took_s, ended_s=n + took_s, outcome="ok", output_tokens=4)
            for n in range(10)
        ], flaws)  # fmt: skip

    options = ab.AbOptions(difference=0.1, min_effect=0.025, most=most, order_seed=1)
    trial = BlockTrial(SideLoad(requests=10), ["e2e"], source, Tally(), warm_up=1)
    done = ab.ab(*(ab_blocks.arm(side, side, trial) for side in "AB"), options, folder)
    done = ab.AbOutcome(done.pairs, done.runs, done.turns, Stop(kind)) if kind else done  # type: ignore[arg-type]
    count = len(trial.tally.pairs)
    return ab_further.of(done, options, ["e2e"], 10, 2.0 * count, len(trial.tally.lost))


def test_pairs_requests_and_time_follow_from_the_spread(tmp_path: Path) -> None:
    (one,) = ended(tmp_path / "a", 1.06, 0.2, 12)
    assert (one.metric, one.pairs, one.allowed) == ("e2e", 12, 12)
    assert one.at_least is not None
    assert one.at_least > 30  # a noise of 20 % a run
    assert one.requests == 10 * one.at_least
    assert one.seconds == pytest.approx(2.0 * one.at_least / ab.SPARE)
    assert one.change is not None
    shown = " ".join(" ".join(ab_further.lines(one, 200)).split())
    assert f"e2e: an answer needs at least {one.at_least} pairs, {one.requests} requests a side, if the change and the spread are those seen (12 pairs" in shown
    assert f"--budget '{math.ceil(one.seconds / 60) if one.seconds >= 120 else math.ceil(one.seconds)} " in shown
    assert f"and --pairs {one.at_least}" in shown


def test_a_comparison_with_an_answer_or_cut_short_says_nothing_of_more(tmp_path: Path) -> None:
    assert ended(tmp_path / "a", 1.5, 0.02, 12) == []
    assert ended(tmp_path / "b", 1.06, 0.2, 12, "interrupted") == []


def test_where_all_planned_pairs_were_measured_time_alone_changes_nothing(tmp_path: Path) -> None:
    (one,) = ended(tmp_path, 1.06, 0.2, 12, "planned_pairs")
    assert "a smaller --resolve, for all pairs that were planned were measured" in " ".join(" ".join(ab_further.lines(one, 200)).split())


def test_what_no_number_of_pairs_answers_is_said() -> None:
    one = ab_further.AbFurther(metric="ttft", pairs=12, change=0.1, at_least=None, requests=None, seconds=None, allowed=200, planned=False)
    assert "no larger --budget is expected to answer" in " ".join(ab_further.lines(one, 100))


def test_before_a_plan_the_pilot_is_asked_for() -> None:
    one = ab_further.AbFurther(metric="ttft", pairs=3, change=None, at_least=10, requests=100, seconds=61.2, allowed=200, planned=False)
    assert ab_further.lines(one, 200) == ["more    ttft: an answer needs at least 10 pairs, 100 requests a side, from which the rest is planned: --budget '62 s'"]


def test_where_the_client_spoilt_every_pair_no_number_of_them_is_promised(tmp_path: Path) -> None:
    (one,) = ended(tmp_path, 1.06, 0.2, 12, "budget", ["late"])
    assert (one.pairs, one.at_least, one.seconds) == (0, None, None)
    assert ab_further.lines(one, 200) == ["more    e2e: no pair counts, so nothing says how many it takes: see to the client first"]


def test_ctrl_c_before_the_first_pair_says_where_the_blocks_are(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """In the third block of those that warm up, and between two of a server that is still started."""
    with serving(service_s=0.001) as server:
        (home / "a.toml").write_text(f'[server]\nurl = "{server.url}"\n[load]\nrequests = 10\noutput = 1\n')
        for blocks, says in ((0, "hotlap: interrupted\n"), (1, "hotlap: interrupted before the first pair; 1 block that warmed up is kept: hotlap list ab=")):
            ended, bench = [0], session.run

            def run(*given: Any, ended: list[int] = ended, most: int = blocks, bench: Any = bench) -> Path:
                if ended[0] == most:
                    raise KeyboardInterrupt
                ended[0] += 1
                return Path(bench(*given))

            with monkeypatch.context() as patch:
                patch.setattr(ab_live.session, "run", run)
                assert main(["serving", "ab", str(home / "a.toml"), str(home / "a.toml")]) == 130
            assert says in capsys.readouterr().err

"""What a server does not say is neither met nor missed: an objective on it cannot be judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.serving.played import SOUND, STARVED, PlayedBenches, asked, judged, model
from tests.serving.sse_server import serving

from hotlap.cli import main
from hotlap.core import objectives
from hotlap.serving import frontier_session, show, show_capacity, show_frontier, summary
from hotlap.serving.capacity import CapacityOptions
from hotlap.serving.capacity_record import ArrivalsAsked
from hotlap.serving.capacity_session import ServerSearch
from hotlap.serving.record import Request
from hotlap.serving.verdict import ServingVerdict

NO_USAGE = {"output_tokens": None, "chunks": 24}
ONE_CHUNK = {"output_tokens": 24, "chunks": 1}
WHY = {"no usage": "the server does not count tokens", "one chunk": "answers come in one chunk"}


def requests(count: int, **more: Any) -> list[Request]:
    usual: dict[str, Any] = {"output_tokens": 24, "chunks": 24, "stall_s": 0.02} | more
    return [
        Request(index=i, due_s=i * 0.1, sent_s=i * 0.1, first_s=i * 0.1 + 0.01, last_s=i * 0.1 + 0.2, ended_s=i * 0.1 + 0.2, **usual)
        for i in range(count)
    ]


def bench(every: list[Request], limits: str, attain: float | None = 0.9) -> ServingVerdict:
    return judged(replace(asked(limits), arrivals="constant:10", attain=attain), every, SOUND)


@pytest.mark.parametrize(("seen", "why"), [(NO_USAGE, "no usage"), (ONE_CHUNK, "one chunk"), (NO_USAGE | ONE_CHUNK | {"output_tokens": None}, "one chunk")])
def test_an_objective_that_cannot_be_judged_is_inconclusive(seen: dict[str, Any], why: str) -> None:
    for attain in (0.9, None):
        verdict = bench(requests(40, **seen), "tpot<=1ms", attain)
        assert (verdict.state, verdict.code) == ("inconclusive", 3)
        assert show.answer(verdict) == f"inconclusive: tpot is not known ({WHY[why]}), so the objective cannot be judged"
    attained = verdict.summary.attainment
    assert attained is not None
    assert (attained.met, attained.decided, attained.unknown, attained.share) == (0, 0, 40, None)
    assert not any(figures.count for figures in verdict.summary.latencies if figures.name == "TPOT")
    assert ("one_chunk" in [notice.code for notice in verdict.summary.notices]) == (why == "one chunk")


def test_what_is_missed_all_the_same_is_missed_and_few_unknown_decide_nothing() -> None:
    late = bench(requests(40, **NO_USAGE), "ttft<=1ms,tpot<=1ms")
    assert (late.state, late.code) == ("fail", 1)
    few = bench([*requests(400, **NO_USAGE)[:4], *requests(400)[4:]], "tpot<=50ms")
    assert (few.state, few.code) == ("pass", 0)
    assert "4 of which that is not known" in "\n".join(show.lines(few, 200, False))
    mixed = [requests(400, **NO_USAGE)[place] if place % 7 == 0 else one for place, one in enumerate(requests(400))]
    many = bench(mixed, "tpot<=50ms")
    assert many.state == "inconclusive"


def test_an_answer_of_one_token_has_no_tpot_and_meets_it() -> None:
    one = requests(40, output_tokens=1, chunks=1, stall_s=None)
    assert bench(one, "tpot<=1ms,stall<=1ms").state == "pass"
    assert summary.good(requests(1, stall_s=None, chunks=1)[0], objectives.parse("stall<=1ms", summary.METRICS)) is None


class SilentBenches(PlayedBenches):
    """Of a server that does not count tokens."""

    def bench(self, arrivals: str, requests: int, warm_up: int = 0) -> ServingVerdict:
        counted = super().bench(arrivals, requests, warm_up).serving
        every = [replace(request, output_tokens=None, chunks=4) for request in counted.requests]
        return judged(counted.served.asked, every, SOUND)


def test_a_search_for_capacity_ends_with_why() -> None:
    search = ServerSearch(
        SilentBenches(model(asked("tpot<=1ms"))), ArrivalsAsked("poisson"), CapacityOptions(attain=0.9, start=4.0, requests=2000), lambda *_: None
    )
    kept = search.kept(search.run())
    assert len(kept.rates) == 1
    assert show_capacity.code(kept) == 3
    assert show_capacity.answer(kept) == "inconclusive: tpot is not known (the server does not count tokens), so the objective cannot be judged"


def test_a_frontier_says_that_objectives_cannot_be_judged() -> None:
    benches = SilentBenches(model(asked("tpot<=1ms")))
    visits = frontier_session.visit(benches, ["poisson:4"], 1, 32, None, lambda *_: None)
    kept = frontier_session.kept(benches, ["poisson:4"], None, visits)
    assert show_frontier.code(kept) == 3
    assert "so the objective cannot be judged" in dict(show_frontier.facts(kept))["met"]


def test_refusals_alone_decide_beside_a_client_at_fault() -> None:
    every = [replace(r, outcome="refused", reason="status 429", first_s=None, last_s=None) if r.index % 2 else r for r in requests(200)]
    verdict = judged(replace(asked("ttft<=50ms"), arrivals="constant:10", attain=0.9), every, STARVED)
    assert (verdict.client.flaws, verdict.state, verdict.code) == (["starved"], "fail", 1)
    assert "refusals alone decide that" in show.answer(verdict)
    few = judged(replace(asked("ttft<=50ms"), arrivals="constant:10", attain=0.4), every, STARVED)
    assert few.state == "inconclusive"


def test_answers_longer_than_asked_are_a_notice() -> None:
    every = requests(40, output_tokens=48, asked_output=24)
    assert "long_answer" in [notice.code for notice in bench(every, "e2e<=1s").summary.notices]


def test_a_bench_without_cases_is_not_exported_and_is_no_baseline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    with serving(service_s=0.001) as server:
        assert main(["serving", "bench", server.url, "--arrivals", "closed:1", "--requests", "4", "--output", "1"]) in (0, 3)
    capsys.readouterr()
    assert main(["export", "latest", "--as", "csv", "--out", str(tmp_path / "out.csv")]) == 2
    assert "csv holds cases, and there is none in" in capsys.readouterr().err
    assert not (tmp_path / "out.csv").exists()
    assert main(["baseline", "save", "latest", "--name", "b"]) == 2
    assert "is a bench of a server, which has a verdict of its own" in capsys.readouterr().err


def test_a_page_in_place_of_the_api_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(fault="html") as server:
        assert main(["serving", "bench", server.url, "--requests", "4"]) == 2
    assert "answers with an HTML page" in capsys.readouterr().err

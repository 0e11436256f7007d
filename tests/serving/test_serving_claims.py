"""What a bench claims of a server is so: a queue that grows, what failed, counts of tokens, one population under one name."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.serving.played import SOUND, asked, judged
from tests.serving.test_serving_figures import request

from hotlap.serving import arrivals, definitions, show, steady
from hotlap.serving.record import Request
from hotlap.serving.verdict import ServingVerdict


def alike(count: int, **more: Any) -> list[Request]:
    usual: dict[str, Any] = {"output_tokens": 16, "asked_output": 16, "chunks": 16, "stall_s": 0.005} | more
    return [
        request(i, due_s=i * 0.3, sent_s=i * 0.3, headers_s=i * 0.3, first_s=i * 0.3 + 0.1, last_s=i * 0.3 + 0.19, ended_s=i * 0.3 + 0.19, **usual)
        for i in range(count)
    ]


def bench(every: list[Request], limits: str = "", attain: float | None = None) -> ServingVerdict:
    return judged(replace(asked(limits), arrivals="constant:3.3", attain=attain), every, SOUND)


def test_arrivals_that_come_together_at_the_end_are_no_queue_that_grows() -> None:
    """All take 0.14 s, whatever comes; at 60 a second of four places they take ever longer."""
    bunched = 0
    for seed in range(60):
        due = [time for time, _ in zip(arrivals.due_s(arrivals.parse("gamma:15,0.4"), seed), range(60), strict=False)]
        every = [request(index, due_s=time, ended_s=time + 0.14) for index, time in enumerate(due)]
        _, counts = steady.under_way(every)
        bunched += counts[-1] > 6 and counts[-1] > 1.5 * counts[len(counts) // 2]
        assert not steady.grows(every)
        cut = [one if one.due_s + 0.14 <= due[-1] else replace(one, ended_s=due[-1], outcome="censored") for one in every]
        assert not steady.grows(cut)
    assert bunched


def test_a_queue_of_which_the_end_cut_most_grows() -> None:
    every = [request(i, due_s=i * 0.1, ended_s=min(i * 0.3 + 0.3, 10.0), outcome="ok" if i < 32 else "censored") for i in range(100)]
    assert steady.grows(every)
    (notice,) = steady.doubts(every)
    assert "most of the second half did not end: more come than are served" in notice.seen


def test_what_the_end_cut_did_not_fail_by_another_tools_definitions() -> None:
    every = [*alike(10), request(10, outcome="censored", last_s=None), request(11, outcome="error", reason="status 500")]
    numbers = definitions.vllm(bench(every).serving)
    assert (numbers.completed, numbers.failed, numbers.cut) == (10, 1, 1)
    assert show.defined_rates(numbers).startswith("10 completed, 1 failed, 1 cut by the end and left out;")


@pytest.mark.parametrize(
    ("tokens", "why", "does"),
    [(48, "counts more tokens than max_tokens allows", "TPOT and ITL are in doubt"), (4, "counts fewer tokens than it sends chunks", "its TPOT and ITL are in doubt")],
)
def test_a_count_of_tokens_that_cannot_be_meets_no_tpot(tokens: int, why: str, does: str) -> None:
    for limits, state in (("tpot<=4ms", "inconclusive"), ("tpot<=1s", "inconclusive"), ("e2e<=1s", "pass"), ("ttft<=1ms,tpot<=1s", "fail")):
        assert bench(alike(40, output_tokens=tokens), limits, 0.5).state == state
    verdict = bench(alike(40, output_tokens=tokens), "tpot<=4ms", 0.5)
    assert verdict.code == 3
    assert show.answer(verdict) == f"inconclusive: tpot is in doubt (the server {why}), so the objective cannot be judged"
    notes = [notice.text for notice in verdict.summary.notices]
    assert any(does in note for note in notes)
    assert not any("look at" in note for note in notes)


def test_tokens_beyond_what_was_asked_that_came_count() -> None:
    for tokens in (17, 48):  # one more, as of an end that is counted; and many, each in a chunk
        assert bench(alike(40, output_tokens=tokens, chunks=min(tokens, 16) if tokens == 17 else tokens), "tpot<=10ms", 0.5).state == "pass"


def test_notes_advise_no_metric_that_is_not_known() -> None:
    whole = bench(alike(40, chunks=1, stall_s=None))
    assert [notice.code for notice in whole.summary.notices if notice.code in ("one_chunk", "several_tokens")] == ["one_chunk"]
    four = bench(alike(40, chunks=4))  # by usage at the end alone: how many each chunk has is not known
    notes = {notice.code: notice.text for notice in four.summary.notices}
    assert notes["several_tokens"].endswith("look at TPOT")
    assert "ITL is not known" in notes["itl_unknown"]

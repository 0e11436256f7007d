"""Each fault of the simulated server is there to be seen, and none where none was asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from simulated_client import CHAT, EMBED, MODEL, SMALL, TEXT, Answer, ask, lines, metrics, post, served, stream

import descriptors
from hotlap.serving.simulated import faults
from hotlap.serving.simulated.engine import Chunk
from hotlap.serving.simulated.facts import ServerFacts
from hotlap.serving.simulated.faults import FAULTS
from hotlap.serving.simulated.http import SimulatedServer


def four(path: str = CHAT, output: int = 8) -> Callable[[ServerFacts], list[Answer]]:
    return lambda facts: [post(facts, path, stream(path, f"number {i}", output)) for i in range(4)]


def with_fault(fault: str, path: str = CHAT, output: int = 8) -> list[Answer]:
    return served(replace(SMALL, faults=(fault,) if fault else ()), four(path, output))


def texts(answer: Answer) -> list[str]:
    """Of each event."""
    return [
        choice["delta"].get("content", "") if "delta" in choice else choice["text"] for chunk in answer.chunks for choice in chunk["choices"]
    ]


def tokens(answer: Answer) -> int:
    return len(answer.content.split())


def used(answer: Answer) -> dict[str, Any]:
    usage: dict[str, Any] = answer.chunks[-1]["usage"]
    return usage


WHOLE = ["", *(f"w{i} " for i in range(8)), ""]  # of chat: the role, the tokens, the end


def test_there_are_twelve() -> None:
    assert len(FAULTS) == 12


def test_among_very_many_open_descriptors_it_answers() -> None:
    with descriptors.many():
        answers = with_fault("")
    assert [answer.status for answer in answers] == [200] * 4


def test_without_faults_every_answer_is_whole() -> None:
    answers = with_fault("")
    assert [texts(answer) for answer in answers] == [WHOLE] * 4
    assert [used(answer)["completion_tokens"] for answer in answers] == [8] * 4


@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_role_first_sends_an_event_without_text_before_the_gpu_did_anything(path: str, tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    long = "word " * 4000  # eight steps of prefill

    def client(facts: ServerFacts) -> Answer:
        return post(facts, path, stream(path, long, 4))

    answer = served(replace(SMALL, faults=("role-first",), log=log), client)
    (line,) = lines(log)
    assert texts(answer)[:2] == ["", "w0 "]
    assert line.first_s is not None
    assert line.received_s <= answer.events[0].at_s  # sent at once, however late it is read
    assert answer.events[1].at_s >= line.first_s
    honest = served(replace(SMALL, log=log), client)
    (_, line) = lines(log)
    assert line.first_s is not None
    assert honest.events[0].at_s >= line.first_s  # the role comes with the first token


def test_batched_sends_four_tokens_an_event() -> None:
    chat, text = with_fault("batched", output=12)[0], with_fault("batched", TEXT, output=12)[0]
    assert texts(chat) == ["", "w0 ", "w1 w2 w3 w4 ", "w5 w6 w7 w8 ", "w9 w10 w11 ", ""]
    assert texts(text) == texts(chat)[1:-1]
    assert used(chat)["completion_tokens"] == used(text)["completion_tokens"] == 12


def test_no_usage_counts_nothing() -> None:
    answers = with_fault("no-usage")
    assert [texts(answer) for answer in answers] == [WHOLE] * 4
    assert all(not chunk["usage"] for answer in answers for chunk in answer.chunks)
    plain = served(replace(SMALL, faults=("no-usage",)), lambda facts: [post(facts, p, b).text for p, b in ((CHAT, ask(CHAT, "a", 1)), (EMBED, {"model": MODEL, "input": "a"}))])
    assert ["usage" in json.loads(text) for text in plain] == [False, False]


def test_reasoning_comes_first_and_counts_as_tokens() -> None:
    answer = with_fault("reasoning", output=9)[0]
    deltas = [choice["delta"] for chunk in answer.chunks for choice in chunk["choices"]]
    assert [next(iter(delta)) for delta in deltas[1:-1]] == ["reasoning_content"] * 3 + ["content"] * 6
    assert used(answer)["completion_tokens"] == 9
    assert used(answer)["completion_tokens_details"] == {"reasoning_tokens": 3}
    plain = served(replace(SMALL, faults=("reasoning",)), lambda facts: post(facts, CHAT, ask(CHAT, "a", 3)))
    assert json.loads(plain.text)["choices"][0]["message"] == {"role": "assistant", "content": "w1 w2 ", "reasoning_content": "w0 "}


def test_early_end_stops_at_half_whatever_is_asked() -> None:
    answers = served(replace(SMALL, faults=("early-end",)), lambda facts: [post(facts, CHAT, stream(CHAT, "a", 8, ignore_eos=True))])
    assert tokens(answers[0]) == used(answers[0])["completion_tokens"] == 4
    assert answers[0].chunks[-2]["choices"][0]["finish_reason"] == "stop"


def test_refuse_answers_every_fourth_with_429() -> None:
    answers = with_fault("refuse")
    assert [answer.status for answer in answers] == [200, 200, 200, 429]
    assert answers[3].headers["retry-after"] == "1"
    assert json.loads(answers[3].text)["error"]["type"] == "rate_limit_exceeded"


def test_reset_breaks_every_fourth_in_its_middle(tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    answers = served(replace(SMALL, faults=("reset",), log=log), four())
    assert [answer.cut for answer in answers] == [False, False, False, True]
    assert answers[3].events[-1].raw != "[DONE]"
    assert [line.outcome for line in lines(log)] == ["ok", "ok", "ok", "reset"]
    assert [line.faults for line in lines(log)] == [(), (), (), ("reset",)]


def test_cached_claims_half_of_every_prompt_and_the_counters_show_it() -> None:
    def client(facts: ServerFacts) -> tuple[Answer, dict[str, float]]:
        return post(facts, CHAT, stream(CHAT, "one two three four", 2)), metrics(facts)

    answer, seen = served(replace(SMALL, faults=("cached",)), client)
    assert used(answer)["prompt_tokens_details"] == {"cached_tokens": 2}
    assert (seen["vllm:prefix_cache_queries_total"], seen["vllm:prefix_cache_hits_total"]) == (4, 2)


@pytest.mark.slow("the stall is of 2 s")
def test_stall_holds_every_fourth_back_for_two_seconds_in_its_middle() -> None:
    answers = with_fault("stall")
    assert [texts(answer) for answer in answers] == [WHOLE] * 4
    gaps = [later.at_s - sooner.at_s for sooner, later in pairwise(answers[3].events)]
    assert max(gaps) > 0.9 * faults.STALL_S
    assert gaps.index(max(gaps)) == 4  # after the role and four of eight tokens


def test_slow_start_takes_three_times_as_long(tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    options = replace(SMALL, faults=("slow-start",), log=log)
    served(options, lambda facts: post(facts, TEXT, stream(TEXT, "one two", 2)))
    (line,) = lines(log)
    assert line.first_s is not None
    assert line.admitted_s is not None
    honest_s = SimulatedServer(options).table.seconds(0, 0, [Chunk(2, 0)])
    assert line.first_s - line.admitted_s == pytest.approx(3 * honest_s, rel=1e-4)


def test_duplicate_sends_every_eighth_event_twice() -> None:
    answer = with_fault("duplicate", output=9)[0]
    raw = [event.raw for event in answer.events]
    assert [place for place in range(1, len(raw)) if raw[place] == raw[place - 1]] == [8]
    assert tokens(answer) == used(answer)["completion_tokens"] + 1


def test_drift_is_of_the_metrics_alone(tmp_path: Path) -> None:
    log = str(tmp_path / "log")

    def client(facts: ServerFacts) -> dict[str, float]:
        post(facts, TEXT, stream(TEXT, "one two", 20))
        return metrics(facts)

    seen = served(replace(SMALL, faults=("drift",), log=log), client)
    (line,) = lines(log)
    assert line.first_s is not None
    assert line.ended_s is not None
    assert seen["vllm:request_decode_time_seconds_sum"] == pytest.approx(1.2 * (line.ended_s - line.first_s), rel=1e-9)


def test_faults_go_together() -> None:
    answer = served(replace(SMALL, faults=("batched", "reasoning", "role-first", "no-usage")), four(output=9))[0]
    deltas = [choice["delta"] for chunk in answer.chunks for choice in chunk["choices"]]
    assert deltas == [
        {"role": "assistant", "content": ""}, {"reasoning_content": "w0 "}, {"reasoning_content": "w1 w2 "},
        {"content": "w3 w4 w5 w6 "}, {"content": "w7 w8 "}, {},
    ]  # fmt: skip

"""Traces of each format as requests, and what makes a trace wrong, with the row."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest

from hotlap.core.errors import InputError
from hotlap.serving import traffic
from hotlap.serving.record import Planned, Prompt

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319601,3180,8\n2023-11-16 18:17:59.9999999,7,1\n"
BURSTGPT = (
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,0,0,0,API log\n"
    "118,GPT-4,417,276,693,Conversation log\n"
)
MOONCAKE = [
    {"timestamp": 1000, "input_length": 1100, "output_length": 500, "hash_ids": [0, 1, 2]},
    {"timestamp": 1000.25, "input_length": 512, "output_length": 1, "hash_ids": [0]},
    {"timestamp": 3500, "input_length": 900, "output_length": 40},
]
SHAREGPT = [
    {"id": "a", "conversations": [{"from": "human", "value": "x" * 40}, {"from": "gpt", "value": "y" * 401}, {"from": "human", "value": "more"}]},
    {"id": "b", "conversations": [{"from": "human", "value": "alone"}]},
]
SHARED = Path(os.environ.get("HOTLAP_SHARED", "")) / "data" / "serving"
recorded = pytest.mark.skipif(not os.environ.get("HOTLAP_SHARED") or not SHARED.is_dir(), reason="the public traces are not here: $HOTLAP_SHARED/data/serving")


def written(folder: Path, text: str) -> Path:
    path = folder / "trace.dat"
    path.write_text(text)
    return path


def mooncake(rows: list[dict[str, object]]) -> str:
    return "\n".join(map(json.dumps, rows)) + "\n"


def test_azure_keeps_a_tenth_of_a_microsecond(tmp_path: Path) -> None:
    trace = traffic.read(written(tmp_path, AZURE))
    assert trace.format == "Azure"
    assert trace.times_s is not None
    assert trace.times_s.tolist() == pytest.approx([0.0, 0.0520001, 56.0200399], abs=1e-9)
    assert (trace.input_tokens.tolist(), trace.output_tokens.tolist(), trace.prefix) == ([4808, 3180, 7], [10, 8, 1], ())


def test_azure_of_a_later_year_names_the_zone(tmp_path: Path) -> None:
    trace = traffic.read(written(tmp_path, AZURE.replace("18:17:03.9799600", "18:17:03.979960+00:00").replace("18:17:04.0319601", "18:17:04.031960+00:00").replace("18:17:59.9999999", "18:18:00+00:00")))
    assert trace.times_s is not None
    assert trace.times_s.tolist() == pytest.approx([0.0, 0.052, 56.02004], abs=1e-9)


def test_failures_of_burstgpt_are_left_out_and_counted(tmp_path: Path) -> None:
    trace = traffic.read(written(tmp_path, BURSTGPT))
    assert trace.times_s is not None
    assert (trace.format, trace.times_s.tolist(), trace.input_tokens.tolist(), trace.left_out) == ("BurstGPT", [0.0, 113.0], [472, 417], 1)


def test_hash_ids_of_mooncake_are_the_prefix_and_milliseconds_keep_their_fraction(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(gzip.compress(mooncake(MOONCAKE).encode()))
    plan = traffic.schedule(traffic.read(tmp_path / "x"), seed=7)
    assert (plan.arrivals, plan.seed, plan.concurrency) == ("trace", 7, None)
    assert plan.planned == (
        Planned(index=0, due_s=0.0, prompt=Prompt(input_tokens=1100, output_tokens=500, prefix=(0, 1, 2))),
        Planned(index=1, due_s=pytest.approx(0.00025, abs=1e-12), prompt=Prompt(input_tokens=512, output_tokens=1, prefix=(0,))),
        Planned(index=2, due_s=2.5, prompt=Prompt(input_tokens=900, output_tokens=40)),
    )


def test_sharegpt_has_no_times_and_no_tokens(tmp_path: Path) -> None:
    trace = traffic.read(written(tmp_path, json.dumps(SHAREGPT)))
    assert (trace.input_tokens.tolist(), trace.output_tokens.tolist(), trace.estimated, trace.left_out) == ([10], [101], True, 1)
    assert [one.output_tokens for one in traffic.prompts(trace)] == [101]
    with pytest.raises(InputError, match=r"ShareGPT holds no times; give the arrivals, as in --arrivals poisson:8"):
        traffic.schedule(trace)


BAD = [
    (AZURE.replace("3180", "NaN"), "row 3, input: NaN is not a finite number"),
    (AZURE.replace("3180", "-1"), "row 3, input: -1 tokens; a whole number from 0"),
    (AZURE.replace("3180", "1.5"), "row 3, input: 1.5 tokens; a whole number from 0"),
    (AZURE.replace("3180", "0"), "row 3, input: 0 tokens, but an answer of 8"),
    (AZURE.replace("3180", "1e30"), "row 3, input: 1e[+]30 tokens; a whole number from 0 to 1,000,000,000"),
    (AZURE.replace("3180,", ""), "row 3: 2 fields, but 3 columns"),
    (AZURE.replace("18:17:04.0319601", "18:17:02.9"), "row 3: it arrives 1.07996 s before the row above it; sort the trace"),
    (AZURE.replace("2023-11-16 18:17:04.0319601", "soon"), "row 3, TIMESTAMP: 'soon' is no time"),
    (AZURE.replace("2023-11-16 18:17:04.0319601", "2023-11-16 18:17:04.nan"), "row 3, TIMESTAMP: '2023-11-16 18:17:04.nan' is no time"),
    (AZURE.replace("GeneratedTokens", "Generated"), "its columns are TIMESTAMP, ContextTokens, Generated; GeneratedTokens is missing"),
    (AZURE.splitlines()[0], "it holds no request"),
    ("a,b,c\n1,2,3\n", "no trace that is known; its columns are a, b, c. Azure .* are read"),
    ("", "it is empty"),
    (BURSTGPT.replace("118,", "-118,"), "row 4, Timestamp: -118 is negative"),
    (BURSTGPT.replace("118,", "nan,"), "row 4, Timestamp: nan is not a finite number"),
    (BURSTGPT.replace("118,", "4,"), "row 4: it arrives 41 s before the row above it"),
    (BURSTGPT.replace("Response tokens", "Answer"), "Response tokens is missing"),
    (BURSTGPT.replace(",18,", ",0,").replace(",276,", ",0,"), r"it holds no request with an answer \(3 without\)"),
    (mooncake([*MOONCAKE[:1], MOONCAKE[1] | {"timestamp": float("nan")}]), "row 2, timestamp: nan is not a finite number"),
    (mooncake([MOONCAKE[0] | {"timestamp": -5}]), "row 1, timestamp: -5 is negative"),
    (mooncake([MOONCAKE[2], MOONCAKE[0]]), "row 2: it arrives 2.5 s before the row above it"),
    (mooncake([MOONCAKE[0] | {"timestamp": None}]), "row 1, timestamp: 'None' is not a number"),
    (mooncake([MOONCAKE[0] | {"timestamp": True}]), "row 1, timestamp: True is not a finite number"),
    (mooncake([MOONCAKE[0] | {"hash_ids": [1, 2, 3, 4]}]), "row 1: 4 hash ids, but 1100 tokens have 3 blocks of 512; are its blocks of another size"),
    (mooncake([MOONCAKE[1] | {"hash_ids": [1, 2]}]), "row 1: 2 hash ids, but 512 tokens have 1 block of 512"),
    (mooncake([MOONCAKE[0] | {"hash_ids": [1, "b"]}]), "row 1: hash_ids is a list of whole numbers"),
    (mooncake([MOONCAKE[0] | {"hash_ids": [2**70]}]), "row 1: hash_ids is a list of whole numbers"),
    (mooncake([{"timestamp": 1, "input_length": 5}]), r"row 1: it has no output_length; a row is \{timestamp, input_length, output_length, hash_ids\}"),
    (mooncake(MOONCAKE[:1]) + '{"timestamp": 1,\n', "row 2: no JSON object"),
    (json.dumps([{"conversations": "x"}]), "conversation 1: 'conversations' is a list of turns"),
    (json.dumps([{"id": 1}]), "conversation 1: 'conversations' is a list of turns"),
    (json.dumps([]), "it holds no conversation of two turns"),
]


@pytest.mark.parametrize(("text", "about"), BAD)
def test_a_wrong_trace_is_refused_with_its_row(tmp_path: Path, text: str, about: str) -> None:
    with pytest.raises(InputError, match=about) as caught:
        traffic.read(written(tmp_path, text))
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "trace.dat") in str(caught.value)


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        traffic.read(tmp_path / "gone.csv")
    (tmp_path / "x").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        traffic.read(tmp_path / "x")


@recorded
@pytest.mark.parametrize(("name", "requests", "seconds"), [
    ("azure_llm_2023_code.csv", 8819, 3435.948056), ("mooncake_conversation.jsonl.gz", 12031, 3536.999), ("mooncake_synthetic.jsonl.gz", 3993, 1022.025),
])  # fmt: skip
def test_the_public_traces_are_read_whole(name: str, requests: int, seconds: float) -> None:
    trace = traffic.read(SHARED / name)
    assert trace.times_s is not None
    assert (len(trace.input_tokens), trace.times_s[-1], trace.left_out) == (requests, pytest.approx(seconds, abs=1e-6), 0)
    assert np.all(np.diff(trace.times_s) >= 0)
    assert len(traffic.schedule(trace).planned) == requests

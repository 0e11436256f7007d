"""Results of tools that send requests to servers: each number under the name of its own definition, means where values were not kept."""

from __future__ import annotations

import copy
import json
import statistics
from pathlib import Path
from typing import Any

import pytest
from foreign_serving import (
    AIPERF,
    AIPERF_MEANS,
    GUIDELLM,
    INFERENCE_PERF,
    INFERENCE_PERF_STAGE,
    LLAMA,
    SGLANG,
    SGLANG_DETAILS,
    VLLM,
    VLLM_MEANS,
)

from hotlap.cli import main
from hotlap.core.errors import InputError
from hotlap.core.store import select
from hotlap.core.store.readers import formats
from hotlap.core.store.readers.source import ReadCase, ReadRun, Source


def runs(folder: Path, document: Any, name: str = "x.json") -> list[ReadRun]:
    """What the reader that takes a document for its own makes of it; a list under a name of .jsonl is a line each."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(json.dumps, document)) if name.endswith(".jsonl") else json.dumps(document))
    source = Source.open(path)
    reader = formats.find(source)
    assert reader is not None
    return formats.read(source, reader)


def cases(folder: Path, document: Any, name: str = "x.json") -> dict[str, ReadCase]:
    return {case.name: case for run in runs(folder, document, name) for case in run.cases}


def changed(document: Any, *path: Any, value: Any) -> Any:
    """A copy with one place of it replaced."""
    copied = copy.deepcopy(document)
    at = copied
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return copied


def test_values_of_vllm_have_the_means_that_its_own_code_prints(tmp_path: Path) -> None:
    kept = cases(tmp_path, VLLM)
    for case, printed in (
        ("TTFT (from sent)", "mean_ttft_ms"), ("TPOT (after the first token)", "mean_tpot_ms"), ("chunk gap", "mean_itl_ms"),
        ("E2E (from sent to the last token)", "mean_e2el_ms"), ("E2E (with the client's queue, to the last token)", "mean_e2el_including_client_queue_ms"),
    ):  # fmt: skip
        assert 1e3 * statistics.mean(kept[case].rounds[0].values) == pytest.approx(VLLM_MEANS[printed], abs=0.05), case
    assert kept["E2E (from sent to the last token)"].rounds[0].metrics == {"client_queue_max_s": 1.5, "client_queue_mean_s": 0.75}
    assert kept["failed requests"].rounds[0].metrics == {"requests": 4, "failed": 1}


def test_means_of_vllm_are_aggregates_with_their_percentiles(tmp_path: Path) -> None:
    kept = cases(tmp_path, VLLM_MEANS)
    (gap,) = kept["chunk gap, mean"].rounds
    assert (gap.values, gap.aggregate, kept["chunk gap, mean"].unit) == ([250.0], True, "ms")
    assert gap.metrics == pytest.approx({"noise": 0.6124})  # how many gaps there were is not said
    (first,) = kept["TTFT (from sent), p99"].rounds
    assert (first.values, first.aggregate, first.metrics) == ([990.0], True, {"samples": 3})
    stated = {f"{name}, {part}" for part in ("mean", "p50", "p99") for name in (
        "TTFT (from sent)", "TPOT (after the first token)", "chunk gap", "E2E (from sent to the last token)", "E2E (with the client's queue, to the last token)",
    )}  # fmt: skip
    assert {name for name, case in kept.items() if case.rounds[0].aggregate} == stated


def test_percentiles_that_vllm_was_asked_for_are_cases_too(tmp_path: Path) -> None:
    kept = cases(tmp_path, VLLM_MEANS | {"p90_ttft_ms": 900.0, "mean_ttft_ms": None})
    assert kept["TTFT (from sent), p90"].rounds[0].values == [900.0]
    assert "TTFT (from sent), mean" not in kept  # as with --percentile-metrics alone in another version
    assert kept["TTFT (from sent), p99"].rounds[0].values == [990.0]


def test_what_a_tool_states_never_stands_beside_its_requests(tmp_path: Path) -> None:
    for place, (document, of_one) in enumerate((
        (VLLM_MEANS | VLLM, ("TTFT", "TPOT", "chunk", "E2E")), (SGLANG_DETAILS, ("TTFT", "TPOT", "ITL", "E2E")), (INFERENCE_PERF, ("TTFT", "TPOT", "E2E")),
    )):  # fmt: skip
        kept = cases(tmp_path / str(place), document)
        assert all(any(name.startswith(one) for name in kept) for one in of_one)
        assert not [name for name, case in kept.items() if case.rounds[0].aggregate]


def test_percentiles_are_shown_by_name_as_aggregates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "140")
    (tmp_path / "v.json").write_text(json.dumps(VLLM_MEANS))
    assert main(["import", str(tmp_path / "v.json")]) == 0
    capsys.readouterr()
    main(["show"])
    (shown,) = [line for line in capsys.readouterr().out.splitlines() if "TTFT (from sent), p99" in line]
    assert shown.split("concurrency=1")[1].split() == ["990", "ms", "–", "–", "1", "aggregate", "of", "3", "samples", "(vllm-bench)"]


def test_vllm_keeps_latencies_without_saying_which_request_failed(tmp_path: Path) -> None:
    kept = cases(tmp_path, VLLM_MEANS)
    assert kept["E2E (from sent to the last token), mean"].rounds[0].aggregate
    kept = cases(tmp_path, VLLM_MEANS | {"failed": 0, "num_prompts": 3, "latencies": [1.25, 0.5, 1.0], "queue_times": [0.0, 0.75, 1.5]})
    assert kept["E2E (from sent to the last token)"].rounds[0].values == [1.25, 0.5, 1.0]
    assert kept["E2E (with the client's queue, to the last token)"].rounds[0].values == [1.25, 1.25, 2.5]
    assert kept["TTFT (from sent), mean"].rounds[0].aggregate


def test_without_a_bound_on_concurrency_there_is_no_queue_of_the_client(tmp_path: Path) -> None:
    assert not [name for name in cases(tmp_path, VLLM | {"max_concurrency": None}) if "queue" in name]
    assert not [name for name in cases(tmp_path, VLLM | {"request_rate": "inf"}) if "queue" in name]  # all queue at once, and wait for each other


def test_before_latencies_were_kept_they_are_the_first_token_and_the_gaps(tmp_path: Path) -> None:
    early = {name: value for name, value in VLLM.items() if name not in ("latencies", "queue_times", "failed", "errors")}
    kept = cases(tmp_path, early | {"completed": 4})
    assert kept["E2E (from sent to the last token)"].rounds[0].values == [1.25, 0.5, 1.0]  # a request of 0 s is left out
    assert kept["E2E (from sent to the last token)"].rounds[0].metrics == {"left_out_of_0_s": 1}
    assert kept["failed requests"].rounds[0].values == [0.0]


def test_runs_that_were_appended_are_runs_of_their_own(tmp_path: Path) -> None:
    both = runs(tmp_path, [VLLM, VLLM | {"date": "20261124-190000", "request_rate": "inf"}], "x.jsonl")
    assert [run.time_s for run in both] == [1795543200.0, 1795546800.0]
    assert [run.cases[0].parameters[0] for run in both] == ["rate=2.0", "rate=inf"]
    assert [run.labels for run in both] == [{"model": "own-27m", "backend": "openai"}] * 2


def test_the_itl_of_sglang_is_another_number_with_another_backend(tmp_path: Path) -> None:
    assert "ITL (chunk gap ÷ its tokens), p99" in cases(tmp_path, SGLANG)
    other = cases(tmp_path, SGLANG_DETAILS | {"backend": "sglang-oai-chat"})
    assert "chunk gap" in other
    assert "ITL (chunk gap ÷ its tokens)" not in other


def test_means_of_sglang_count_to_the_answers_end(tmp_path: Path) -> None:
    kept = cases(tmp_path, SGLANG)
    assert kept["TPOT (after the first token, to the answer's end), mean"].rounds[0].values == [208.0]
    assert kept["E2E (from sent to the answer's end), mean"].rounds[0].metrics == {"noise": 0.25, "samples": 2}
    assert kept["E2E (from sent to the answer's end), p99"].rounds[0].values == [1245.0]
    assert "failed requests" not in kept  # it does not say how many were sent


def test_the_two_files_of_aiperf_are_one_run_without_a_number_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    alone = cases(tmp_path / "alone", AIPERF_MEANS, "profile_export_aiperf.json")
    assert alone["TTFT (from sent), mean"].rounds[0].metrics == {"samples": 3, "noise": 1 / 3}
    assert [alone[f"E2E (from sent to the last token), {part}"].rounds[0].values for part in ("p50", "p90", "p95", "p99")] == [[700.0], [900.0], [950.0], [990.0]]
    assert alone["failed requests"].rounds[0].values == [0.25]
    runs(tmp_path / "both", AIPERF, "profile_export.jsonl")
    runs(tmp_path / "both", AIPERF_MEANS, "profile_export_aiperf.json")
    monkeypatch.setenv("HOTLAP_HOME", str(tmp_path / "home"))
    assert main(["import", str(tmp_path / "both")]) == 0
    capsys.readouterr()
    (run,) = select.every(tmp_path / "home")
    assert sorted(str(case.params["name"]) for case in run.run.plan.cases) == sorted([
        "TTFT (from sent)", "TPOT (after the first token)", "chunk gap", "E2E (from sent to the last token)", "failed requests", "requests that ended",
        "goodput", "output tokens",
    ])  # fmt: skip
    assert all(len(line.values) == 1 or line.method == "program" for line in run.samples)


def test_what_guidellm_did_not_keep_is_a_mean(tmp_path: Path) -> None:
    parted = {(case.name, case.parameters[0]): case.rounds[0] for run in runs(tmp_path, GUIDELLM) for case in run.cases}
    assert not parted["TTFT (from sent)", "strategy=constant"].aggregate
    assert parted["TTFT (from sent), mean", "strategy=concurrent"].metrics == {"samples": 2, "noise": 0.25}
    assert parted["TTFT (from sent), p99", "strategy=concurrent"].values == [750.0]
    sampled = changed(GUIDELLM, "benchmarks", 0, "requests", "successful", value=GUIDELLM["benchmarks"][0]["requests"]["successful"][:1])  # type: ignore[index]
    parted = {(case.name, case.parameters[0]): case.rounds[0] for run in runs(tmp_path, sampled) for case in run.cases}
    assert parted["TTFT (from sent), mean", "strategy=constant"].aggregate  # one of two requests would be a sample chosen by the tool


def test_a_stage_of_inference_perf_has_its_rate_and_all_stages_say_so(tmp_path: Path) -> None:
    stage = cases(tmp_path, INFERENCE_PERF_STAGE)
    assert stage["ITL (tokens of one chunk 0 s apart), mean"].parameters == ("rate=0.5",)
    assert stage["E2E (from sent to the answer's end), mean"].rounds[0].metrics == {"samples": 3}
    assert stage["E2E (from sent to the answer's end), p90"].rounds[0].values == [2.9]
    whole = cases(tmp_path, changed(INFERENCE_PERF_STAGE, "load_summary", value={"count": 4}))
    assert whole["failed requests"].parameters == ("stages=all",)


def test_llama_bench_reads_a_line_each_too(tmp_path: Path) -> None:
    (run,) = runs(tmp_path, LLAMA, "x.jsonl")
    assert [case.rounds[0].values for case in run.cases] == [[1024.0, 2048.0], [128.0, 128.0]]
    assert (run.device, run.labels["commit"], run.software) == ("Xeon", "8cf427ff", {"llama.cpp": "build 5163"})


@pytest.mark.parametrize(("document", "about"), [
    (changed(VLLM, "ttfts", value=[0.5, "fast", 0.0, 1.0]), "ttfts, number 2: 'fast' is not a number"),
    (changed(VLLM, "ttfts", 1, value=-0.25), r"TTFT \(from sent\): -0.25 s is no duration"),
    (changed(VLLM, "ttfts", 1, value=float("nan")), "ttfts, number 2: nan is not a finite number"),
    (changed(VLLM, "itls", value=[[0.25]]), "itls is no list with a list for each of 4 requests"),
    (changed(VLLM, "itls", 1, value=0.5), "itls of request 2: a list of numbers is needed"),
    (changed(VLLM, "output_lens", value=[4]), "1 output_lens, but 4 requests"),
    (changed(VLLM, "output_lens", value=None), "errors and output_lens need one entry for each of 4 requests"),
    (changed(VLLM, "errors", value=["", ""]), "errors and output_lens need one entry for each of 4 requests"),
    (changed(VLLM, "latencies", value=[1.0]), "1 latencies, but 4 requests"),
    (changed(VLLM, "failed", value=-1), "-1 of 2 requests failed"),
    (changed(VLLM, "completed", value="many"), "completed: 'many' is not a number"),
    (changed(VLLM, "date", value="yesterday"), "date: 'yesterday' is no time"),
    (changed(SGLANG, "duration", value=0.0), "duration: 0 s is no duration"),
    (changed(SGLANG_DETAILS, "itls", value=None), "itls is no list"),
    (changed(LLAMA, 0, "samples_ns", value=[5, 0]), "0 ns is no duration"),
    (changed(LLAMA, 0, "samples_ns", value=[]), "no repetition"),
    (changed(LLAMA, 0, "samples_ts", value=[1024.0, 1024.0]), "samples_ts and samples_ns do not say the same of 512 tokens"),
    (changed(LLAMA, 0, "n_prompt", value=0), "0 tokens of prompt and 0 generated"),
    (changed(LLAMA, 1, "test_time", value="soon"), "test 2, test_time: 'soon' is no time"),
    (changed(AIPERF_MEANS, "time_to_first_token", "unit", value="tokens"), "its unit is 'tokens', which is no time"),
    (changed(AIPERF_MEANS, "goodput", "unit", value="%"), "goodput: its unit is '%', not requests/sec"),
    (changed(GUIDELLM, "benchmarks", 0, "requests", "successful", 1, "time_to_first_token_ms", value="x"), "time_to_first_token_ms of request 2: 'x'"),
    (changed(INFERENCE_PERF, 1, "end_time", value=100.0), "request 2: it ends at 100 s, before it starts at 101 s"),
    (changed(INFERENCE_PERF_STAGE, "successes", "latency", "time_to_first_token", "mean", value="x"), r"TTFT \(from sent\), mean: 'x' is not a number"),
])  # fmt: skip
def test_a_malformed_file_is_refused_with_its_place(tmp_path: Path, document: Any, about: str) -> None:
    with pytest.raises(InputError, match=about) as caught:
        runs(tmp_path, document)
    assert str(tmp_path / "x.json") in str(caught.value)


def test_records_of_aiperf_are_refused_with_the_request(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="request 1, time_to_first_token: its unit is 'requests', which is no time"):
        runs(tmp_path, changed(AIPERF, 1, "metrics", "time_to_first_token", "unit", value="requests"), "profile_export.jsonl")
    with pytest.raises(InputError, match="it holds no request of the phase 'profiling'"):
        runs(tmp_path, AIPERF[:1], "profile_export.jsonl")


def test_an_older_form_of_guidellm_is_refused_in_a_line_that_says_what_is_read(tmp_path: Path) -> None:
    older = {"benchmarks": changed(GUIDELLM["benchmarks"], 0, "metrics", value={"time_to_first_token_ms": {}, "request_latency": {}})[:1]}
    with pytest.raises(InputError, match="an older GuideLLM, whose form is not read: no metadata") as caught:
        runs(tmp_path, older)
    assert "\n" not in str(caught.value)

"""The smallest result of each tool that sends requests to servers of models, by hand after the origin that its reader names. Times are sums
of powers of two, so that what is derived from them is exact."""

from __future__ import annotations

VLLM = {
    "date": "20261124-180000", "endpoint_type": "openai", "backend": "openai", "label": None, "model_id": "own-27m", "tokenizer_id": "own-27m",
    "num_prompts": 4, "request_rate": 2.0, "burstiness": 0.5, "max_concurrency": 1, "duration": 8.0, "completed": 3, "failed": 1,
    "total_input_tokens": 96, "total_output_tokens": 8, "request_throughput": 0.375, "request_goodput": 0.25, "output_throughput": 1.0,
    "total_token_throughput": 13.0, "input_lens": [32, 32, 32, 32], "output_lens": [4, 3, 0, 1], "ttfts": [0.5, 0.25, 0.0, 1.0],
    "itls": [[0.25, 0.5], [0.125, 0.125], [], []], "latencies": [1.25, 0.5, 0.0, 1.0], "start_times": [10.0, 11.25, 12.0, 12.5],
    "queue_times": [0.0, 0.75, 0.5, 1.5], "generated_texts": ["abcd", "abc", "", "a"], "errors": ["", "", "Bad Gateway", ""],
    "mean_ttft_ms": 583.3, "median_ttft_ms": 500.0, "std_ttft_ms": 311.8, "p99_ttft_ms": 990.0,
}  # fmt: skip
VLLM_MEANS = {name: value for name, value in VLLM.items() if name not in ("input_lens", "output_lens", "ttfts", "itls", "start_times", "generated_texts", "errors")} | {
    "mean_tpot_ms": 187.5, "median_tpot_ms": 187.5, "std_tpot_ms": 62.5, "p99_tpot_ms": 250.0, "mean_itl_ms": 250.0, "median_itl_ms": 187.5, "std_itl_ms": 153.1,
    "p99_itl_ms": 490.0, "mean_e2el_ms": 916.7, "median_e2el_ms": 1000.0, "std_e2el_ms": 311.8, "p99_e2el_ms": 1240.0,
    "mean_e2el_including_client_queue_ms": 1666.7, "median_e2el_including_client_queue_ms": 1250.0, "std_e2el_including_client_queue_ms": 589.3,
    "p99_e2el_including_client_queue_ms": 2475.0,
}  # fmt: skip
SGLANG = {
    "tag": "own", "backend": "sglang", "dataset_name": "random", "request_rate": 4.0, "max_concurrency": None, "sharegpt_output_len": None, "server_info": None,
    "random_input_len": 32, "random_output_len": 4, "random_range_ratio": 0.0, "duration": 4.0, "completed": 2, "total_input_tokens": 64,
    "total_output_tokens": 8, "total_output_tokens_retokenized": 8, "request_throughput": 0.5, "input_throughput": 16.0, "output_throughput": 2.0,
    "total_throughput": 18.0, "mean_e2e_latency_ms": 1000.0, "median_e2e_latency_ms": 1000.0, "std_e2e_latency_ms": 250.0, "p99_e2e_latency_ms": 1245.0,
    "mean_ttft_ms": 375.0, "median_ttft_ms": 375.0, "std_ttft_ms": 125.0, "p99_ttft_ms": 497.5, "mean_tpot_ms": 208.0, "median_tpot_ms": 208.0,
    "std_tpot_ms": 62.0, "p99_tpot_ms": 270.0, "mean_itl_ms": 187.5, "median_itl_ms": 187.5, "std_itl_ms": 62.5, "p99_itl_ms": 250.0, "concurrency": 1.5,
    "accept_length": None, "max_output_tokens_per_s": 4.0, "max_concurrent_requests": 2,
}  # fmt: skip
SGLANG_DETAILS = SGLANG | {
    "input_lens": [32, 32, 32], "output_lens": [4, 5, 0], "ttfts": [0.5, 0.25, 0.0], "itls": [[0.25, 0.25, 0.25], [0.125, 0.125, 0.125, 0.125], []],
    "generated_texts": ["abcd", "abcde", ""], "errors": ["", "", "Service Unavailable: busy"],
}  # fmt: skip


def _aiperf(at: int, metrics: dict[str, object], error: object = None, phase: str = "profiling") -> dict[str, object]:
    start = 1_795_375_152_000_000_000 + at * 10**9
    return {"metadata": {"session_num": at, "x_request_id": f"r{at}", "request_start_ns": start, "request_end_ns": start + 10**9, "worker_id": "w",
                         "benchmark_phase": phase, "was_cancelled": False}, "metrics": metrics, "error": error}  # fmt: skip


AIPERF = [
    _aiperf(0, {"time_to_first_token": {"value": 9000.0, "unit": "ms"}, "request_latency": {"value": 9000.0, "unit": "ms"}}, phase="warmup"),
    _aiperf(1, {"time_to_first_token": {"value": 250.0, "unit": "ms"}, "request_latency": {"value": 1000.0, "unit": "ms"},
                "inter_token_latency": {"value": 125.0, "unit": "ms"}, "inter_chunk_latency": {"value": [500.0, 250.0], "unit": "ms"},
                "output_sequence_length": {"value": 7, "unit": "tokens"}}),
    _aiperf(2, {"error_isl": {"value": 550, "unit": "tokens"}}, {"code": 499, "type": "RequestCancellationError", "message": "cancelled"}),
    _aiperf(3, {"time_to_first_token": {"value": 500.0, "unit": "ms"}, "request_latency": {"value": 500.0, "unit": "ms"}}),
]  # fmt: skip
AIPERF_MEANS = {
    "schema_version": "1.4", "aiperf_version": "0.13.0", "start_time": "2026-11-24T18:00:00.5", "end_time": "2026-11-24T18:00:10",
    "request_throughput": {"unit": "requests/sec", "avg": 0.5}, "request_count": {"unit": "requests", "avg": 3.0}, "error_request_count": {"unit": "requests", "avg": 1.0},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 4.0}, "goodput": {"unit": "requests/sec", "avg": 0.25},
    "request_latency": {"unit": "ms", "avg": 750.0, "p50": 700.0, "p90": 900.0, "p95": 950.0, "p99": 990.0, "min": 500.0, "max": 1000.0, "std": 250.0, "count": 3},
    "time_to_first_token": {"unit": "ms", "avg": 375.0, "p50": 375.0, "p99": 497.5, "std": 125.0, "count": 3}, "inter_token_latency": {"unit": "ms", "avg": 125.0, "count": 1},
}  # fmt: skip


def _guidellm(first: float, last: float, tokens: int, due: float) -> dict[str, object]:
    """Sent at 0 s; its answer ends with the last token."""
    return {"type_": "generative_request_stats", "request_id": f"r{first}", "request_latency": last, "request_scheduled_latency": last - due,
            "time_to_first_token_ms": 1000 * first, "time_to_first_output_token_ms": None, "time_per_output_token_ms": 1000 * last / tokens,
            "inter_token_latency_ms": None if tokens < 2 else 1000 * (last - first) / (tokens - 1), "output_tokens": tokens}  # fmt: skip


def _breakdown(mean: float, count: int, total: float) -> dict[str, object]:
    return {"successful": {"mean": mean, "median": mean, "std_dev": 0.25 * mean, "count": count, "total_sum": total, "percentiles": {"p50": mean, "p90": mean, "p95": mean, "p99": 2 * mean}},
            "errored": None, "incomplete": None}  # fmt: skip


GUIDELLM_METRICS = {
    "request_totals": {"successful": 2, "errored": 2, "incomplete": 1, "total": 5}, "output_token_count": _breakdown(4.0, 2, 8.0), "request_latency": _breakdown(1.5, 2, 3.0),
    "request_scheduled_latency": _breakdown(3.0, 2, 6.0), "time_to_first_token_ms": _breakdown(375.0, 2, 750.0), "time_per_output_token_ms": _breakdown(375.0, 2, 750.0),
    "inter_token_latency_ms": _breakdown(250.0, 2, 500.0),
}  # fmt: skip
GUIDELLM = {
    "metadata": {"version": 2, "guidellm_version": "0.8.1", "python_version": "3.11.7", "platform": "Linux"}, "config": {}, "conclusions": [],
    "benchmarks": [
        {"type_": "generative_benchmark", "config": {"strategy": {"type_": "constant", "rate": 2.0, "max_concurrency": None}}, "start_time": 1795375152.0, "duration": 4.0,
         "metrics": GUIDELLM_METRICS, "requests": {"successful": [_guidellm(0.5, 2.0, 4, -2.0), _guidellm(0.25, 1.0, 4, -0.5)], "errored": [], "incomplete": [], "total": None}},
        {"type_": "generative_benchmark", "config": {"strategy": {"type_": "concurrent", "streams": 8}}, "start_time": 1795375162.0, "duration": 4.0,
         "metrics": GUIDELLM_METRICS, "requests": {"successful": [], "errored": [], "incomplete": [], "total": None}},
    ],
}  # fmt: skip
INFERENCE_PERF = [
    {"start_time": 100.0, "end_time": 102.0, "request": "{}", "response": "abcd", "info": {"response_metrics": {"output_token_times": [100.5, 101.0, 101.0, 101.25]}},
     "computed_metrics": {"request_latency": 2.0, "normalized_time_per_output_token": 0.5, "time_to_first_token": 0.5, "time_per_output_token": 0.25,
                          "inter_token_latency": 0.25, "inter_token_latencies": [0.5, 0.0, 0.25], "input_tokens": 32, "output_tokens": 4}, "error": None},
    {"start_time": 101.0, "end_time": 104.0, "request": "{}", "response": "ab", "info": {"response_metrics": {"output_token_times": [102.0, 102.5]}}, "error": None},
    {"start_time": 102.0, "end_time": 102.5, "request": "{}", "response": "", "info": {}, "error": {"error_type": "HTTP Error 504", "error_msg": "Gateway Time-out"}},
]  # fmt: skip
INFERENCE_PERF_STAGE = {
    "benchmark_time_seconds": 8.0, "load_summary": {"count": 4, "requested_rate": 0.5, "achieved_rate": 0.5, "schedule_delay": {"mean": 0.001}},
    "successes": {
        "count": 3,
        "latency": {"request_latency": {"mean": 2.5, "min": 2.0, "max": 3.0, "median": 2.5, "p90": 2.9}, "normalized_time_per_output_token": {"mean": 0.5},
                    "time_per_output_token": {"mean": 0.25, "median": 0.25}, "time_to_first_token": {"mean": 0.5}, "inter_token_latency": {"mean": 0.25, "median": 0.0}},
        "throughput": {"input_tokens_per_sec": 12.0, "output_tokens_per_sec": 1.5, "total_tokens_per_sec": 13.5, "requests_per_sec": 0.375},
    },
    "failures": {"count": 1, "request_latency": {"mean": 0.5}},
}  # fmt: skip
LLAMA = [
    {"build_commit": "8cf427ff", "build_number": 5163, "cpu_info": "Xeon", "gpu_info": "", "backends": "CPU", "model_filename": "own.gguf", "model_type": "llama 27M Q4_1",
     "n_batch": 2048, "n_threads": 2, "type_k": "f16", "n_gpu_layers": 0, "n_prompt": 512, "n_gen": 0, "n_depth": 0, "test_time": "2026-11-24T18:00:00Z",
     "avg_ns": 375000000, "stddev_ns": 1, "avg_ts": 1536.0, "stddev_ts": 1.0, "samples_ns": [500000000, 250000000], "samples_ts": [1024.0, 2048.0]},
    {"build_commit": "8cf427ff", "build_number": 5163, "cpu_info": "Xeon", "gpu_info": "", "backends": "CPU", "model_filename": "own.gguf", "model_type": "llama 27M Q4_1",
     "n_batch": 2048, "n_threads": 2, "type_k": "f16", "n_gpu_layers": 0, "n_prompt": 0, "n_gen": 128, "n_depth": 0, "test_time": "2026-11-24T18:00:05Z",
     "avg_ns": 1000000000, "stddev_ns": 0, "avg_ts": 128.0, "stddev_ts": 0.0, "samples_ns": [1000000000, 1000000000], "samples_ts": [128.0, 128.0]},
]  # fmt: skip
FILES = {
    "vllm-bench": ("v.json", VLLM), "sglang-bench": ("s_bench.jsonl", SGLANG_DETAILS), "aiperf": ("own/profile_export.jsonl", AIPERF), "guidellm": ("benchmarks.json", GUIDELLM),
    "inference-perf": ("reports/per_request_lifecycle_metrics.json", INFERENCE_PERF), "llama-bench": ("l.json", LLAMA),
}  # fmt: skip
RATE = "rate=2.0 burstiness=0.5 concurrency=1"
RANDOM = "dataset=random rate=4.0"
SETTINGS = "n_depth=0 n_batch=2048 n_threads=2 type_k=f16 n_gpu_layers=0"
HELD: dict[str, dict[str, list[list[float]]]] = {  # format → case → samples by round
    "vllm-bench": {
        f"TTFT (from sent) {RATE}": [[0.5, 0.25, 1.0]], f"TPOT (after the first token) {RATE}": [[0.25, 0.125]],
        f"chunk gap {RATE}": [[0.25, 0.5, 0.125, 0.125]], f"E2E (from sent to the last token) {RATE}": [[1.25, 0.5, 1.0]],
        f"E2E (with the client's queue, to the last token) {RATE}": [[1.25, 1.25, 2.5]], f"failed requests {RATE}": [[0.25]],
        f"requests that ended {RATE}": [[0.375]], f"goodput {RATE}": [[0.25]], f"output tokens {RATE}": [[1.0]], f"input and output tokens {RATE}": [[13.0]],
    },
    "sglang-bench": {
        f"TTFT (from sent) {RANDOM}": [[0.5, 0.25]], f"TPOT (after the first token) {RANDOM}": [[0.25, 0.125]],
        f"ITL (chunk gap ÷ its tokens) {RANDOM}": [[0.25] * 3 + [0.125] * 4], f"E2E (from sent to the last token) {RANDOM}": [[1.25, 0.75]],
        f"failed requests {RANDOM}": [[1 / 3]], f"requests that ended {RANDOM}": [[0.5]], f"input tokens {RANDOM}": [[16.0]], f"output tokens {RANDOM}": [[2.0]],
        f"input and output tokens {RANDOM}": [[18.0]],
    },
    "aiperf": {
        "TTFT (from sent)": [[0.25, 0.5]], "TPOT (after the first token)": [[0.125]], "chunk gap": [[0.5, 0.25]], "E2E (from sent to the last token)": [[1.0, 0.5]],
        "failed requests": [[1 / 3]],
    },
    "guidellm": {
        **{f"{name} strategy=constant rate=2.0": values for name, values in {
            "TTFT (from sent)": [[0.5, 0.25]], "TPOT (after the first token)": [[0.5, 0.25]], "TPOT (with the first token)": [[0.5, 0.25]],
            "E2E (from sent to the answer's end)": [[2.0, 1.0]], "E2E (from scheduled to the answer's end)": [[4.0, 1.5]], "failed requests": [[0.5]],
            "requests that ended": [[0.5]], "output tokens": [[2.0]],
        }.items()},
        **{f"{name}, {part} strategy=concurrent concurrency=8": [[value * (2 if part == "p99" else 1)]] for part in ("mean", "p50", "p90", "p95", "p99") for name, value in {
            "TTFT (from sent)": 0.375, "TPOT (after the first token)": 0.25, "TPOT (with the first token)": 0.375, "E2E (from sent to the answer's end)": 1.5,
        }.items()},
        **{f"{name} strategy=concurrent concurrency=8": values for name, values in {
            "failed requests": [[0.5]], "requests that ended": [[0.5]], "output tokens": [[2.0]],
        }.items()},
    },
    "inference-perf": {
        "TTFT (from sent)": [[0.5, 1.0]], "TPOT (after the first token)": [[0.25]], "TPOT (with the first token, to the answer's end)": [[0.5]],
        "E2E (from sent to the answer's end)": [[2.0, 3.0]], "failed requests": [[1 / 3]],
    },
    "llama-bench": {
        f"prefill (engine alone) n_prompt=512 n_gen=0 {SETTINGS}": [[1024.0, 2048.0]], f"decode (engine alone) n_prompt=0 n_gen=128 {SETTINGS}": [[128.0, 128.0]],
    },
}  # fmt: skip

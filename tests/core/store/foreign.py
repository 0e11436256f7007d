"""The smallest file of each foreign format with what it holds, written by hand after the origin that the reader names."""

from __future__ import annotations

import json
from pathlib import Path

import foreign_serving

HYPERFINE = {"results": [
    {"command": "sum 1", "mean": 2.0, "median": 2.0, "times": [1.5, 2.0, 2.5], "exit_codes": [0, 0, 0], "parameters": {"n": "1"}},
    {"command": "false", "mean": 0.1, "median": 0.1, "times": [0.1, 0.1], "exit_codes": [1, 0]},
]}
PYTEST = {
    "machine_info": {"node": "vm", "system": "Linux", "release": "6.1", "python_version": "3.11.7", "cpu": {"brand_raw": "Xeon", "count": 2}},
    "commit_info": {"id": "c0ffee", "branch": "main", "project": "own"}, "datetime": "2026-11-22T19:18:07.807454+00:00", "version": "5.3.1",
    "benchmarks": [
        {"name": "test_a[1]", "fullname": "t.py::test_a[1]", "params": {"n": 1}, "stats": {"median": 3e-6, "data": [2e-6, 3e-6, 9e-6]}},
        {"name": "test_b", "fullname": "t.py::test_b", "params": None, "stats": {"median": 4e-6}},
    ],
}
PYPERF = {
    "version": "1.0",
    "metadata": {"hostname": "vm", "cpu_model_name": "Xeon", "cpu_count": 2, "platform": "Linux-6.1", "python_version": "3.11.7 (64-bit)", "perf_version": "2.11.0",
                 "unit": "second"},
    "benchmarks": [
        {"metadata": {"name": "timeit", "timeit_stmt": "'sum(x)'"}, "runs": [
            {"metadata": {"date": "2026-11-22 19:18:09.5", "calibrate_loops": 4}, "warmups": [[1, 9e-6], [4, 8e-6]]},
            {"metadata": {"date": "2026-11-22 19:18:10.5", "loops": 4}, "warmups": [[4, 8e-6]], "values": [2e-6, 4e-6]},
            {"metadata": {"date": "2026-11-22 19:18:11.5", "loops": 4}, "warmups": [[4, 8e-6]], "values": [3e-6, 3e-6]},
        ]},
        {"metadata": {"name": "memory", "unit": "byte"}, "runs": [{"values": [4096, 8192]}]},
    ],
}  # fmt: skip
ASV = {
    "commit_hash": "c0ffee", "env_name": "py", "date": 1795375152000, "params": {"machine": "vm", "cpu": "Xeon", "num_cpu": "2", "os": "Linux"},
    "python": "3.11", "requirements": {}, "version": 2,
    "result_columns": ["result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b", "samples"],
    "results": {
        "b.time_sum": [[2e-6, float("nan")], [["1", "2"]], "v", 0, 1.0, [float("-inf")] * 2, [float("inf")] * 2, [[1e-6, 2e-6, 3e-6], None]],
        "b.track_rate": [[250.0], []], "b.time_fails": [None, []],
    },
}
ASV_UNITS = {"b.time_sum": {"unit": "seconds", "param_names": ["n"]}, "b.track_rate": {"unit": "GB/s", "param_names": []}, "version": 2}
GOOGLE = {
    "context": {"date": "2026-11-22T19:18:20+00:00", "host_name": "vm", "num_cpus": 2, "library_build_type": "release"},
    "benchmarks": [
        *({"name": "BM_sum/64", "run_name": "BM_sum/64", "run_type": "iteration", "repetition_index": n, "real_time": value, "cpu_time": 1.0,
           "time_unit": "us", "iterations": 1000, "bytes_per_second": 6e6 / value, "own_counter": 4.0}
          for n, value in enumerate((2.0, 3.0, 7.0))),
        {"name": "BM_sum/64_median", "run_name": "BM_sum/64", "run_type": "aggregate", "aggregate_name": "median", "real_time": 3.0, "time_unit": "us"},
        {"name": "BM_sum/64_cv", "run_name": "BM_sum/64", "run_type": "aggregate", "aggregate_name": "cv", "real_time": 0.6, "time_unit": "us"},
        {"name": "BM_only_median", "run_name": "BM_only", "run_type": "aggregate", "aggregate_name": "median", "real_time": 5.0, "time_unit": "ms", "iterations": 10,
         "items_per_second": 200.0},
        {"name": "BM_only_stddev", "run_name": "BM_only", "run_type": "aggregate", "aggregate_name": "stddev", "real_time": 0.1, "time_unit": "ms",
         "iterations": 10},
        {"name": "BM_skip", "run_name": "BM_skip", "run_type": "iteration", "error_occurred": True, "error_message": "no device", "real_time": 0.0,
         "time_unit": "ns"},
    ],
}  # fmt: skip
GOOGLE_CSV = (
    "2026-11-22T19:18:20+00:00\nRunning ./gb\nname,iterations,real_time,cpu_time,time_unit,bytes_per_second,items_per_second,label,error_occurred,error_message\n"
    '"BM_sum/64",810460,188.913,35.4567,ns,7.2e+09,,"own",,\n"BM_skip",,,,,,,,true,"no device"\n'
)
NVBENCH = {
    "devices": [{"id": 0, "name": "Quadro GV100"}, {"id": 1, "name": "Quadro GP100"}],
    "benchmarks": [{"name": "copy", "states": [
        {"name": "Device=0 n=1", "device": 0, "axis_values": [{"name": "n", "type": "int64", "value": "1"}], "is_skipped": False,
         "summaries": [
             {"tag": "nv/cold/sample_size", "data": [{"name": "value", "type": "int64", "value": "512"}]},
             {"tag": "nv/cold/time/gpu/mean", "data": [{"name": "value", "type": "float64", "value": "0.0010034715849794225"}]},
             {"tag": "nv/cold/time/gpu/stdev/relative", "data": [{"name": "value", "type": "float64", "value": "0.0123"}]},
             {"tag": "nv/cold/bw/global/bytes_per_second", "data": [{"name": "value", "type": "float64", "value": "8.5e11"}]},
             {"tag": "nv/batch/time/gpu/mean", "data": [{"name": "value", "type": "float64", "value": "0.00099"}]},
         ]},
        {"name": "Device=1 n=1", "device": 1, "axis_values": [{"name": "n", "type": "int64", "value": "1"}], "is_skipped": True,
         "skip_reason": "too large", "summaries": None},
    ]}],
}  # fmt: skip
CRITERION = {"sampling_mode": "Linear", "iters": [1.0, 2.0, 4.0], "times": [500.0, 780.0, 1700.0]}
JMH = [
    {"jmhVersion": "1.37", "benchmark": "org.own.A.write", "mode": "thrpt", "threads": 1, "forks": 2, "params": {"size": "10"},
     "primaryMetric": {"score": 3.0, "scoreError": "NaN", "scoreUnit": "ops/ms", "rawData": [[1.0, 3.0], [5.0, 3.0]]}, "secondaryMetrics": {}},
    {"benchmark": "org.own.A.read", "mode": "avgt", "threads": 4,
     "primaryMetric": {"score": 27.5, "scoreUnit": "us/op", "rawData": [[20.0, 35.0]]}},
]  # fmt: skip
DOTNET = {
    "Title": "Own", "HostEnvironmentInfo": {"BenchmarkDotNetVersion": "0.13.2", "OsVersion": "Debian 12", "ProcessorName": "Xeon", "LogicalCoreCount": 2},
    "Benchmarks": [
        {"FullName": "Own.Sleep(Ms: 1)", "Parameters": "Ms=1", "Statistics": {"N": 4, "Median": 30.0}, "Measurements": [
            {"IterationMode": mode, "IterationStage": stage, "LaunchIndex": launch, "IterationIndex": 1, "Operations": 2, "Nanoseconds": time}
            for mode, stage, launch, time in (
                ("Overhead", "Actual", 1, 2), ("Workload", "Pilot", 1, 900), ("Workload", "Actual", 1, 62), ("Workload", "Result", 1, 60),
                ("Workload", "Result", 1, 40), ("Workload", "Result", 2, 80),
            )
        ]},
        {"FullName": "Own.Fails", "Parameters": "", "Statistics": None},
    ],
}  # fmt: skip
CONBENCH = [
    {"run_id": "r1", "timestamp": "2026-11-22T19:18:20Z", "tags": {"name": "file-read", "format": "parquet"}, "context": {}, "info": {},
     "stats": {"data": [3.0, 1.0, 2.0], "unit": "s", "iterations": 3}, "github": {"commit": "c0ffee"}, "machine_info": {"name": "vm"}},
    {"run_id": "r1", "timestamp": "2026-11-22T19:18:30Z", "tags": {"name": "broken"}, "context": {}, "error": {"stack": "Segmentation fault"},
     "github": {"commit": "c0ffee"}, "machine_info": {"name": "vm"}},
]  # fmt: skip
PHORONIX = """<?xml version="1.0"?>
<PhoronixTestSuite>
  <System><Identifier>vm</Identifier><Hardware>Processor: Xeon (2 Cores), Memory: 24GB</Hardware>
    <Software>OS: Debian 12, Compiler: GCC 12.2.0</Software><TimeStamp>2026-11-22 19:37:33</TimeStamp></System>
  <Result><Title>Own</Title><AppVersion>1</AppVersion><Arguments>64</Arguments><Description>Size: 64</Description><Scale>GB/s</Scale>
    <Proportion>HIB</Proportion><Data><Entry><Identifier>vm</Identifier><Value>0.205</Value><RawString>0.216:0.112:0.287</RawString></Entry></Data></Result>
  <Result><Title>Gone</Title><AppVersion>1</AppVersion><Arguments/><Description/><Scale>Seconds</Scale><Proportion/>
    <Data><Entry><Identifier>vm</Identifier><Value></Value><RawString></RawString></Entry></Data></Result>
</PhoronixTestSuite>
"""
SUPERBENCH = [
    {"node": "sb-01", "kernel-launch/event_overhead:0": 0.00595, "gemm-flops/FP16_TC:0": 279474.0, "gemm-flops/FP16_TC:1": 281256.0, "own/odd": 3.0,
     "nccl-bw/allreduce_8_time:0": 37.84, "kernel-launch/return_code": 0},
    {"node": "sb-02", "gemm-flops/FP16_TC:0": 279147.0},
]  # fmt: skip


def files(folder: Path) -> dict[str, Path]:
    """Written below a folder; by format."""
    texts = {
        "hyperfine": ("h.json", json.dumps(HYPERFINE)), "pytest-benchmark": ("p.json", json.dumps(PYTEST)), "google-benchmark": ("g.json", json.dumps(GOOGLE)),
        "pyperf": ("f.json", json.dumps(PYPERF)), "asv": ("asv/vm/c0ffee-py.json", json.dumps(ASV)), "nvbench": ("n.json", json.dumps(NVBENCH)), "jmh": ("j.json", json.dumps(JMH)),
        "criterion": ("target/criterion/sum/new/sample.json", json.dumps(CRITERION)), "benchmarkdotnet": ("d.json", json.dumps(DOTNET)),
        "conbench": ("c.json", json.dumps(CONBENCH)), "phoronix": ("composite.xml", PHORONIX),
        "superbench": ("s.jsonl", "\n".join(map(json.dumps, SUPERBENCH))),
    }
    for kind, (name, content) in foreign_serving.FILES.items():
        rows = content if name.endswith(".jsonl") and isinstance(content, list) else [content]
        texts[kind] = (name, "\n".join(map(json.dumps, rows)))
    beside = {"asv/benchmarks.json": ASV_UNITS, "target/criterion/sum/new/benchmark.json": {"full_id": "sums/sum"}, "target/criterion/sum/new/tukey.json": [1.0]}
    for name, text in [*texts.values(), *((name, json.dumps(document)) for name, document in beside.items())]:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return {kind: folder / name for kind, (name, _) in texts.items()}

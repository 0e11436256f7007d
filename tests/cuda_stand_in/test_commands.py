"""The commands on the stand-in, as a user gives them: processes of their own, from the plan to the table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cuda_stand_in import build

pytestmark = [
    pytest.mark.skipif(bool(build.missing()), reason=build.missing() or "-"),
    pytest.mark.slow("commands in processes of their own"),
]

MEASURE = """schema = 1
name = "{name}"
about = "the C dialect's kernels on the stand-in"
[measure]
rounds = 2
rounds_max = 2
round_time = "2 s"
budget = "120 s"
"""
ONE = '[[case]]\nworkload = "stream"\nop = "triad"\nsize = "1 MiB"\n'
ALL = """
[[case]]
workload = "stream"
op = ["read", "copy", "triad"]
dtype = ["fp32", "fp64"]
size = "4 MiB"
[[case]]
workload = "gather"
pattern = ["random", "strided"]
stride = 3
size = "1 MiB"
[[case]]
workload = "intensity"
fmas = [4, 64]
dtype = ["fp32", "fp64"]
size = "2 MiB"
[[case]]
workload = "chase"
size = ["16 KiB", "4 MiB"]
[[case]]
workload = "launch"
mode = ["single", "stream", "graph"]
[[case]]
workload = "sync"
kind = ["synchronize", "event"]
[[case]]
workload = "atomic"
contention = ["same", "spread"]
repeats = 3
[[case]]
workload = "barrier"
repeats = 20
[[case]]
workload = "transfer"
direction = ["h2d", "d2h", "both"]
memory = ["pinned", "pageable"]
size = "4 MiB"
"""
KERNEL = """//: name = "softmax-thread"
//: about = "Softmax in CUDA C++, a thread a row"
//: workload = "rowwise"
//: only = { op = "softmax", dtype = "fp32" }
//: cases = [{ rows = 256, columns = 64 }]
//: function = "softmax_thread"
//: outputs = { out = { shape = ["rows", "columns"], dtype = "dtype" } }
//: arguments = ["x", "out", "columns:int32"]
//: items = "rows"
//: group = 64
extern "C" __global__ void softmax_thread(const float *__restrict__ x, float *__restrict__ out, int columns)
{
    long long first = (long long)(blockIdx.x * blockDim.x + threadIdx.x) * columns;
    float top = -1e38f, sum = 0.0f;
    for (int i = 0; i < columns; i++) top = fmaxf(top, x[first + i]);
    for (int i = 0; i < columns; i++) sum += expf(x[first + i] - top);
    for (int i = 0; i < columns; i++) out[first + i] = expf(x[first + i] - top) / sum;
}
"""


def hotlap(*words: str, **settings: Any) -> subprocess.CompletedProcess[str]:
    with build.on(**settings):
        environment = dict(os.environ)
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    return subprocess.run([sys.executable, "-m", "hotlap", *words], env=environment, capture_output=True, text=True, timeout=150, check=False)


def plan(folder: Path, cases: str) -> str:
    path = folder / "plan.toml"
    path.write_text(MEASURE.format(name=folder.name) + cases)
    return str(path)


def test_devices_lists_both() -> None:
    done = hotlap("devices", devices=2)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines() if "(no GPU)" in line] == ["cuda:0", "cuda:1"]


def test_a_plan_of_every_kernel_is_measured_and_checked(tmp_path: Path) -> None:
    done = hotlap("run", plan(tmp_path, ALL), "--target", "cuda", "--no-report", "--label", "test=every", units=2)
    assert done.returncode in (0, 3), done.stderr
    shown = json.loads(hotlap("show", "test=every", "--json").stdout)
    assert (len(shown["runs"]), len(shown["cases"])) == (1, 28)
    invalid = [one for one in shown["cases"] if one["state"] == "invalid"]
    assert {one["state"] for one in shown["cases"]} - {"invalid"} <= {"measured", "inconclusive"}  # two rounds can tell little
    assert [one["name"] for one in invalid if "timers" not in one["codes"]] == []  # on a crowded machine the stand-in's two clocks part
    assert [one["name"] for one in shown["cases"] if one["value"] is None] == []


def test_an_own_kernel_is_measured_and_its_result_checked(tmp_path: Path) -> None:
    path = tmp_path / "softmax_thread.cu"
    path.write_text(KERNEL)
    for words in (("add", str(path)), ("check", "softmax-thread"), ("run", "softmax-thread")):
        done = hotlap("kernel", *words)
        assert done.returncode in (0, 3), f"{words}: {done.stderr}{done.stdout}"
        assert "Traceback" not in done.stderr
    assert "wrong" not in done.stdout


@pytest.mark.parametrize(("fault", "ends", "code"), [
    ("cuInit:803", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", 3), ("cuDevicePrimaryCtxRetain:46", "CUDA_ERROR_DEVICE_UNAVAILABLE", 3),
    ("cuEventSynchronize:700@3", "CUDA_ERROR_ILLEGAL_ADDRESS", 3), ("cuModuleLoadData:209", "CUDA_ERROR_NO_BINARY_FOR_GPU", 3),
    ("cuMemAlloc:2", "CUDA_ERROR_OUT_OF_MEMORY", 3),
])  # fmt: skip
def test_a_run_that_fails_is_told_in_one_line_and_has_no_number(tmp_path: Path, fault: str, ends: str, code: int) -> None:
    done = hotlap("run", plan(tmp_path, ONE), "--target", "cuda", "--no-report", fail=fault)
    told = done.stdout + done.stderr
    assert "Traceback" not in told
    assert any(ends in line for line in told.splitlines()), told
    assert done.returncode == code, told
    assert "GB/s" not in done.stdout


def test_stress_checks_its_work_and_ends_with_a_verdict() -> None:
    done = hotlap("stress", "quick", "--for", "2 s", "--target", "cuda", "--json", units=2)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    (device,) = answer["devices"]
    assert (answer["verdict"], device["state"], device["wrong"]) == ("pass", "pass", [])
    assert "on a stand-in, which is no GPU" in answer["reason"]
    assert device["figures"]["checked"] == device["figures"]["units"] >= 6
    assert {rate["kind"] for rate in device["rates"]} >= {"products fp64", "products fp32", "products int8", "memory", "link"}


@pytest.mark.parametrize(("fault", "what"), [
    ("cuLaunchKernel:719@3", "launch 'product' with 4096 work-items in groups of 64: CUDA_ERROR_LAUNCH_FAILED"),  # while units are made
    ("cuLaunchKernel:700@7", "launch 'product' with 4096 work-items in groups of 64: CUDA_ERROR_ILLEGAL_ADDRESS"),  # the first unit of load
    ("cuStreamSynchronize:719@30", "finish the queue: CUDA_ERROR_LAUNCH_FAILED"),
])  # fmt: skip
def test_a_fault_under_stress_ends_it_with_one_line_and_a_failed_verdict(fault: str, what: str) -> None:
    done = hotlap("stress", "quick", "--for", "2 s", "--target", "cuda", "--json", units=2, fail=fault)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    (lost,) = [line for line in done.stderr.splitlines() if " lost: " in line]
    assert lost.startswith(f"cuda:0 lost: CUDA could not {what}; ")
    answer = json.loads(done.stdout)
    assert answer["verdict"] == "fail"
    assert "device lost" in answer["reason"]
    assert answer["devices"][0]["rates"] == []

"""The plan and the machine of the tests that judge runs."""

from __future__ import annotations

PLAN = """schema = 1
[measure]
round_time = "100 ms"
rounds = 6
rounds_max = 6
seed = 5
[[case]]
workload = "stream"
op = "copy"
size = "1 GiB"
[[case]]
workload = "gemm"
dtype = "bf16"
"""
TARGET = "simulated:h200-sxm?times=bound&noise=0.003&run_noise=0.002&seed="

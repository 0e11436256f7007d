"""Files that the five newcomers brought, made anew: programs, a fleet, results of other tools, configurations of models."""

from __future__ import annotations

import json
import random
from datetime import date, timedelta
from typing import Any

PLAN = """[measure]
rounds = 6
round_time = "1 s"

[[case]]
workload = "stream"
op = "triad"
size = "1 GiB"

[[case]]
workload = "gemm"
dtype = "bf16"
m = 8192
n = 8192
k = 8192
"""

SMALL_PLAN = """[measure]
rounds = 6
round_time = "1 s"
budget = "20 s"

[[case]]
workload = "stream"
op = ["copy", "triad"]
size = "1 MiB"
"""

LOOP = "total = 0\nfor i in range({turns}):\n    total += i * i\n"

COMMAND_PLAN = """[[case]]
workload = "command"
argv = ["python3", "work.py"]
"""

RULES = """[[rule]]
why = "acceptance test of the order, section 3.2"
where = { workload = "stream" }
at_least = "3.0 TB/s"
"""

RMS = """__kernel void rms(__global const float *restrict x, __global const float *restrict weight, __global float *restrict out, int rows, int columns)
{
    int row = get_global_id(0);
    if (row >= rows)
        return;
    x += (long)row * columns;
    out += (long)row * columns;
    float sum = 0.0f;
    for (int i = 0; i < columns; i++)
        sum += x[i] * x[i];
    float scale = rsqrt(sum / columns + 1e-6f);
    for (int i = 0; i < columns; i++)
        out[i] = x[i] * scale * weight[i];
}
"""

SAXPY = """__global__ void saxpy(const float *x, float *y, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}
"""

GELU = '''"""GELU in Triton."""

import triton
import triton.language as tl

name = "gelu"
workload = "elementwise"


def launch(inputs, params):
    raise NotImplementedError
'''

TRAIN = """import time
import torch
from torch.utils.data import DataLoader, Dataset


class Stored(Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, index):
        time.sleep(0.001)
        return torch.full((256,), index / 4000), torch.tensor(index % 10)


model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
for n, (x, y) in enumerate(DataLoader(Stored(), batch_size=16)):
    optimiser.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimiser.step()
    if n == 60:
        break
"""

MEASURE = """import numpy as np
import hotlap

x = np.ones((200, 200))
print(hotlap.measure(np.dot, x, x, work={"operations": 2 * 200**3}))
"""


def fleet(bad: dict[str, float], nodes: int = 500, metrics: int = 4, rounds: int = 3) -> str:
    """A CSV of one number a line: noise of 1 % between nodes and between rounds; `bad` nodes are slower by a share."""
    draw, lines = random.Random(1), ["time,node,gpu,serial,metric,value,unit"]
    for n in range(nodes):
        for metric in range(metrics):
            level = (100 + 10 * metric) * (1 + draw.gauss(0, 0.01)) * (1 - bad.get(f"node{n:03}", 0))
            for turn in range(rounds):
                value = level * (1 + draw.gauss(0, 0.01))
                lines.append(f"2026-11-0{turn + 1}T10:00:00Z,node{n:03},H200,SN{n:05},copy{metric},{value:.4f},GB/s")
    return "\n".join(lines) + "\n"


def series(change_at: int = 20, points: int = 40) -> str:
    """A CSV of a node's daily numbers, slower by 10 % from `change_at` on."""
    draw, day, lines = random.Random(2), date(2026, 9, 1), ["time,node,metric,value,unit"]
    for n in range(points):
        level = 100.0 if n < change_at else 90.0
        lines.append(f"{day + timedelta(days=n)}T10:00:00Z,node1,copy,{level * (1 + draw.gauss(0, 0.005)):.4f},GB/s")
    return "\n".join(lines) + "\n"


def foreign() -> dict[str, str]:
    """File name → a result of each tool that the newcomers came from, in the tool's own format and as short as it can be."""
    times = [0.101, 0.103, 0.102, 0.105, 0.101, 0.104]
    hyperfine = {"command": "sleep 0.1", "mean": sum(times) / 6, "stddev": 0.0016, "median": 0.1025, "user": 0.001, "system": 0.001, "min": min(times), "max": max(times), "times": times, "exit_codes": [0] * 6}
    stats = {"min": min(times), "max": max(times), "mean": sum(times) / 6, "stddev": 0.0016, "rounds": 6, "median": 0.1025, "iqr": 0.002, "q1": 0.101, "q3": 0.104, "iqr_outliers": 0, "stddev_outliers": 1,
             "outliers": "1;0", "ld15iqr": 0.101, "hd15iqr": 0.105, "ops": 9.7, "total": sum(times), "data": times, "iterations": 1}  # fmt: skip
    pytest_benchmark = {"machine_info": {"node": "vm", "machine": "x86_64", "python_version": "3.11.7", "system": "Linux", "release": "6.1", "cpu": {"brand_raw": "Intel(R) Xeon(R)", "count": 2}}, "commit_info": {"id": "c871906d"},
        "benchmarks": [{"group": None, "name": "test_sum", "fullname": "test_a.py::test_sum", "params": None, "param": None, "extra_info": {}, "options": {"disable_gc": False}, "stats": stats}], "datetime": "2026-11-22T19:18:20+00:00", "version": "5.3.1"}  # fmt: skip
    row = {"name": "BM_sum/64", "run_name": "BM_sum/64", "run_type": "iteration", "repetitions": 3, "threads": 1, "iterations": 468654, "cpu_time": 60.4, "time_unit": "ns"}
    google = {"context": {"date": "2026-11-22T19:18:20+00:00", "host_name": "vm", "executable": "./gb", "num_cpus": 2, "mhz_per_cpu": 1995, "cpu_scaling_enabled": False, "caches": [], "load_avg": [0.1, 0.1, 0.1], "library_build_type": "release"},
        "benchmarks": [row | {"repetition_index": n, "real_time": 214.9 + n} for n in range(3)]}  # fmt: skip
    asv = {"commit_hash": "c871906d6c3c2d3c4f6a1b1e3f0a5f7c0d2e4b6a", "env_name": "existing-py_usr_bin_python3", "date": 1763838000000, "params": {"machine": "vm", "os": "Linux", "arch": "x86_64", "cpu": "Intel", "num_cpu": "2", "ram": "8000000", "python": "3.11"}, "python": "3.11", "requirements": {}, "env_vars": {},
        "result_columns": ["result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b", "stats_q_25", "stats_q_75", "stats_number", "stats_repeat", "samples", "profile"],
        "results": {"bench.Sum.time_sum": [[0.0021], [], "6a9e", 1763838000000, 1.2, [0.0020], [0.0022], [0.0020], [0.0022], [5], [6], [times]]}, "durations": {}, "version": 2}  # fmt: skip
    mean = {"tag": "nv/cold/time/gpu/mean", "name": "GPU Time", "hint": "duration", "data": [{"name": "value", "type": "float64", "value": "0.000125"}]}
    size = {"tag": "nv/cold/sample_size", "name": "Samples", "hint": "sample_size", "data": [{"name": "value", "type": "int64", "value": "400"}]}
    nvbench = {"meta": {"argv": ["./copy"], "version": {"json": {"major": 1, "minor": 0, "patch": 0, "string": "1.0.0"}}}, "devices": [{"id": 0, "name": "NVIDIA H200", "sm_version": 900}],
        "benchmarks": [{"name": "copy", "index": 0, "devices": [0], "axes": [], "states": [{"name": "Device=0", "min_samples": 10, "device": 0, "type_config_index": 0, "axis_values": None, "is_skipped": False, "summaries": [mean, size]}]}]}  # fmt: skip
    superbench = [{"node": f"node{n}", "kernel-launch/event_time:0": 0.0059, "mem-bw/h2d_bw:0": 25.3 + n / 100} for n in range(4)]
    return {
        "hyperfine.json": json.dumps({"results": [hyperfine]}), "pytest-benchmark.json": json.dumps(pytest_benchmark), "google-benchmark.json": json.dumps(google),
        "asv.json": json.dumps(asv), "nvbench.json": json.dumps(nvbench), "superbench.jsonl": "".join(json.dumps(line) + "\n" for line in superbench),
    }  # fmt: skip


def _decoder(kind: str, sizes: tuple[int, int, int, int, int, int], **more: Any) -> dict[str, Any]:
    """`sizes`: hidden, layers, heads, heads of keys and values, inner, vocabulary."""
    names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "intermediate_size", "vocab_size")
    return {"model_type": kind, **dict(zip(names, sizes, strict=True)), "torch_dtype": "bfloat16", **more}


def configurations() -> dict[str, dict[str, Any]]:
    """Name → fields of config.json, as the public model cards state them, or the default classes of transformers and diffusers."""
    vision = {"model_type": "siglip_vision_model", "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16, "image_size": 896, "patch_size": 14}
    return {
        "phi3-mini": _decoder("phi3", (3072, 32, 32, 32, 8192, 32064), sliding_window=2047),
        "gemma3-4b": {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024}, "vision_config": vision},
        "falcon-7b": {"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71, "vocab_size": 65024, "multi_query": True, "parallel_attn": True, "new_decoder_architecture": False, "bias": False, "alibi": False},
        "command-r": _decoder("cohere", (8192, 40, 64, 64, 22528, 256000), logit_scale=0.0625, use_qk_norm=False, tie_word_embeddings=True),
        "granite-3.1-8b": _decoder("granite", (4096, 40, 32, 8, 12800, 49155), attention_multiplier=0.0078125, embedding_multiplier=12.0, residual_multiplier=0.22, logits_scaling=16.0, tie_word_embeddings=True),
        "granite-moe-3b": _decoder("granitemoe", (1536, 32, 24, 8, 512, 49155), num_local_experts=40, num_experts_per_tok=8, tie_word_embeddings=True),
        "mamba-2.8b": {"model_type": "mamba", "hidden_size": 2560, "num_hidden_layers": 64, "intermediate_size": 5120, "state_size": 16, "conv_kernel": 4, "time_step_rank": 160, "vocab_size": 50280, "expand": 2},
        "qwen2-vl-7b": _decoder("qwen2_vl", (3584, 28, 28, 4, 18944, 152064), vision_config={"depth": 32, "embed_dim": 1280, "num_heads": 16, "mlp_ratio": 4, "hidden_size": 3584, "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2}),
        "sdxl-unet": {"_class_name": "UNet2DConditionModel", "sample_size": 128, "in_channels": 4, "out_channels": 4, "block_out_channels": [320, 640, 1280], "layers_per_block": 2, "cross_attention_dim": 2048, "attention_head_dim": [5, 10, 20], "transformer_layers_per_block": [1, 2, 10],
            "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"], "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"], "addition_embed_type": "text_time", "addition_time_embed_dim": 256, "projection_class_embeddings_input_dim": 2816, "use_linear_projection": True, "norm_num_groups": 32},
        "jamba-mini": _decoder("jamba", (4096, 32, 32, 8, 14336, 65536), num_experts=16, num_experts_per_tok=2, expert_layer_period=2, expert_layer_offset=1, attn_layer_period=8, attn_layer_offset=4, mamba_d_state=16, mamba_d_conv=4, mamba_expand=2, mamba_dt_rank=256),
    }  # fmt: skip


# What newcomers mistyped, and parts of an answer that helps; names from other tools, and ours.
WRONG: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("run nosuch", ("nosuch", "quick")),
    ("run quick --device 3 --target simulated:h200-sxm", ("3",)),
    ("run quick --target nosuch", ("nosuch", "opencl")),
    ("run quick --target simulated:nosuch", ("nosuch",)),
    ("run quick --budget soon", ("soon",)),
    ("show nosuch", ("nosuch",)),
    ("plan perf.toml --nosuch", ("nosuch",)),
    ("gate latest --against nosuch", ("nosuch",)),
    ("predict gemm m=-1 --machine h200-sxm", ("m",)),
    ("predict gemm nosuch=1 --machine h200-sxm", ("nosuch",)),
    ("import nosuch.json", ("nosuch.json",)),
    ("kernel add nosuch.cl", ("nosuch.cl",)),
)
ALIASES = {"diff": "compare", "roofline": "explain", "profile": "trace", "bench": "bench", "export": "export", "ls": "list"}

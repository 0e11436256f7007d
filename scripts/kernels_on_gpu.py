#!/usr/bin/env python3
"""PyTorch's kernels on this GPU beside what the model expects: attention, norms, softmax, elementwise, embedding, transpose; power, clock.

    kernels_on_gpu.py [kernels|power] [--device cuda] [--machine SLUG] [--out FILE] [--budget SECONDS]

kernels   times each shape twice. In a graph of 20 calls back to back, inputs as the call before left them, so that small ones come from
          L2, which the model does not count on for them; and alone by events, with L2 flushed before. Prints both beside low, expected
          and high, and the mean absolute error of each family.
power     5 s of bf16 and of fp32 products back to back: NVML's power and SM clock beside power_w and clock_hz of the model.

JSON lines go to FILE. With --device cpu sizes are small, nothing is compared with the model, and power is not run: it shows that the
script works. Exit 3 where nothing can be run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from hotlap.core import units, work
from hotlap.core.errors import InputError
from hotlap.core.measure.sensors import nvml
from hotlap.core.measure.targets import torch_device
from hotlap.core.model import machines
from hotlap.core.model.predict import predict
from hotlap.core.record import Case, Device

CALLS, REPLAYS, REPEATS, FLUSH_BYTES = 20, 10, 25, 2**29
LOAD_S, SETTLED = 5.0, 0.5  # seconds of load; the last half is read
SMALLER = 64  # on a processor


class Shape(NamedTuple):
    """A kernel of PyTorch, as the model names it."""

    family: str
    workload: str
    params: dict[str, Any]


class Line(NamedTuple):
    """What was measured and expected of a shape, one way of timing."""

    family: str
    label: str
    how: str  # "in a graph" or "alone, L2 flushed"
    measured_s: float
    low_s: float | None
    expected_s: float | None
    high_s: float | None
    note: str = ""

    @property
    def error(self) -> float | None:
        return self.expected_s / self.measured_s - 1 if self.expected_s and self.measured_s > 0 else None


def shapes() -> Iterator[Shape]:
    heads = {"heads": 32, "kv_heads": 8, "head_dim": 128, "dtype": "bf16"}
    for batch, query in ((1, 1024), (4, 2048), (1, 8192), (2, 16384)):
        for mask in ("causal", "full"):
            yield Shape("prefill", "attention", {"batch": batch, "query": query, "mask": mask, **heads})
    for batch, kv in ((1, 8192), (16, 4096), (64, 4096), (64, 16384)):
        yield Shape("decode", "attention", {"batch": batch, "query": 1, "kv": kv, "mask": "full", **heads})
    for op in ("layernorm", "rmsnorm", "softmax"):
        for rows, columns in ((32, 8192), (4096, 4096), (16384, 8192), (2048, 65536)):
            yield Shape(op, "rowwise", {"op": op, "rows": rows, "columns": columns, "dtype": "bf16"})
    for op in ("add", "relu", "gelu", "copy"):
        for elements in (2**20, 2**24, 2**28):
            yield Shape("elementwise", "pointwise", {"op": op, "elements": elements, "dtype": "bf16"})
    for tokens in (512, 16384, 131072):
        yield Shape("embedding", "embedding", {"tokens": tokens, "columns": 4096, "vocabulary": 128256, "dtype": "bf16"})
    for side, dtype in ((4096, "fp32"), (16384, "fp32"), (16384, "bf16")):
        yield Shape("transpose", "transpose", {"rows": side, "columns": side, "dtype": dtype})


def smaller(shape: Shape) -> Shape:
    """A shape that a processor does in no time."""
    sizes = ("batch", "query", "kv", "rows", "elements", "tokens", "vocabulary")
    params = {n: max(v // SMALLER, 1) if n in sizes and v > 1 else v for n, v in shape.params.items()}
    return shape._replace(params=params)


# ---------------------------------------------------------------- kernels of PyTorch


def kernel(sizes: Shape, torch: Any, device: str) -> Callable[[], Any]:
    """The call, with its inputs made."""
    p, kind = sizes.params, {"bf16": torch.bfloat16, "fp32": torch.float32}[sizes.params["dtype"]]

    def random(*shape: int) -> Any:
        return torch.randn(*shape, device=device, dtype=kind)

    ops = torch.nn.functional
    if sizes.workload == "attention":
        query = random(p["batch"], p["heads"], p["query"], p["head_dim"])
        keys, values = (random(p["batch"], p["kv_heads"], p.get("kv") or p["query"], p["head_dim"]) for _ in range(2))
        causal = p["mask"] == "causal"
        return lambda: ops.scaled_dot_product_attention(query, keys, values, is_causal=causal, enable_gqa=True)
    if sizes.workload == "rowwise":
        x, wide = random(p["rows"], p["columns"]), (p["columns"],)
        weight = torch.ones(wide, device=device, dtype=kind)
        return {
            "layernorm": lambda: ops.layer_norm(x, wide, weight, weight),
            "rmsnorm": lambda: ops.rms_norm(x, wide, weight),
            "softmax": lambda: ops.softmax(x, dim=-1),
        }[p["op"]]
    if sizes.workload == "pointwise":
        x, y, out = (random(p["elements"]) for _ in range(3))
        return {
            "add": lambda: torch.add(x, y, out=out),
            "relu": lambda: ops.relu(x),
            "gelu": lambda: ops.gelu(x),
            "copy": lambda: out.copy_(x),
        }[p["op"]]
    if sizes.workload == "embedding":
        table = random(p["vocabulary"], p["columns"])
        index = torch.randint(p["vocabulary"], (p["tokens"],), device=device)
        return lambda: ops.embedding(index, table)
    x, out = random(p["rows"], p["columns"]), torch.empty(p["columns"], p["rows"], device=device, dtype=kind)
    return lambda: out.copy_(x.t())


def graph_s(call: Callable[[], Any], torch: Any) -> float:
    """Seconds of a call among others in a graph. A replay ahead of the start event keeps the device busy while the next ones are launched,
    so that their launches are in no figure."""
    aside = torch.cuda.Stream()
    with torch.cuda.stream(aside):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            call()

    def replays() -> None:
        for _ in range(REPLAYS):
            graph.replay()

    times = []
    for _ in range(REPEATS):
        graph.replay()
        times.append(_between(replays, torch) / (CALLS * REPLAYS))
    return statistics.median(times)


def alone_s(call: Callable[[], Any], torch: Any) -> float:
    """Seconds of one call by events, L2 flushed before."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    call()
    found = []
    for _ in range(REPEATS):
        flush.zero_()
        found.append(_between(call, torch))
    return statistics.median(found)


def _between(call: Callable[[], Any], torch: Any) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    call()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1e-3


def wall_s(call: Callable[[], Any]) -> float:
    call()
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def lines(shape: Shape, torch: Any, device: str, machine: str) -> Iterator[Line]:
    """Both ways of timing a shape; on a processor one, compared with nothing. What fails becomes a note."""
    label = work.label(Case(workload=shape.workload, params=shape.params)).removeprefix("rowwise ").removeprefix("pointwise ")
    try:
        call = kernel(shape, torch, device)
        if device == "cpu":
            yield Line(shape.family, label, "on the processor", wall_s(call), None, None, None, "not compared with a GPU")
            return
        found = {"in a graph": ("", graph_s(call, torch)), "alone, L2 flushed": ("alone", alone_s(call, torch))}
    except (RuntimeError, TypeError, AttributeError) as error:
        yield Line(shape.family, label, "not run", 0.0, None, None, None, f"not run, because {str(error).splitlines()[0][:100]}")
        return
    for how, (name, seconds) in found.items():
        said = predict(shape.workload, machine, "" if shape.workload == "attention" else name, **shape.params)
        yield Line(shape.family, label, how, seconds, said.low_s, said.expected_s, said.high_s)


# ---------------------------------------------------------------- printing


def shown(line: Line) -> str:
    """A line of the table."""
    if line.how == "not run":
        return f"{line.family:<11} {line.label:<58} {line.note}"
    head = f"{line.family:<11} {line.label:<58} {line.how:<18} {units.show(line.measured_s, 's'):>9}"
    if line.error is None:
        return f"{head}  {line.note or 'nothing is expected'}"
    around = " ".join(f"{units.show(float(value or 0.0), 's'):>9}" for value in (line.low_s, line.expected_s, line.high_s))
    held = (line.low_s or 0.0) <= line.measured_s <= (line.high_s or 0.0)
    return f"{head}  {around}  {line.error:>+7.1%}{'' if held else '  outside of the interval'}"


def summary(lines: list[Line]) -> list[str]:
    """Of each family and way of timing: shapes, mean absolute error, bias, share within the interval."""
    keys = dict.fromkeys((one.family, one.how) for one in lines if one.error is not None)
    text = []
    for family, how in keys:
        rows = [one for one in lines if (one.family, one.how) == (family, how) and one.error is not None]
        errors = [one.error or 0.0 for one in rows]
        held = sum((one.low_s or 0.0) <= one.measured_s <= (one.high_s or 0.0) for one in rows)
        mean = statistics.mean(abs(e) for e in errors)
        text.append(f"{family:<11} {how:<18} {len(rows):>3} shapes  MAPE {mean:6.1%}  bias {statistics.mean(errors):+6.1%}  {held} within")
    return text or ["nothing was compared with the model"]


# ---------------------------------------------------------------- power


def sensor(torch: Any) -> tuple[Any, Any]:
    """NVML and its handle of PyTorch's current device, found by its UUID: NVML counts in another order than CUDA."""
    source = nvml.opened(torch_device.describe(torch, "cuda", torch.cuda.current_device()))
    return source.n, source.handle


def power(torch: Any, machine: str) -> list[dict[str, Any]]:
    """Power and clock in the last half of some seconds of products back to back, beside the model."""
    pynvml, handle = sensor(torch)
    readings = []
    for dtype, kind, side in (("bf16", torch.bfloat16, 8192), ("fp32", torch.float32, 8192)):
        a, b = (torch.randn(side, side, device="cuda", dtype=kind) for _ in range(2))
        watts, hertz, began = [], [], time.monotonic()
        while time.monotonic() - began < LOAD_S:
            for _ in range(20):
                torch.mm(a, b)
            if time.monotonic() - began > LOAD_S * SETTLED:
                watts.append(pynvml.nvmlDeviceGetPowerUsage(handle) * 1e-3)
                hertz.append(pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM) * 1e6)
            torch.cuda.synchronize()
        said = predict("gemm", machine, dtype=dtype, m=side, n=side, k=side)
        row = {"load": f"gemm {dtype} {side}", "power_w": statistics.median(watts), "clock_hz": statistics.median(hertz)}
        readings.append({**row, "expected_power_w": said.power_w, "expected_clock_hz": said.clock_hz, "readings": len(watts)})
    return readings


def power_line(row: dict[str, Any]) -> str:
    """Measured and expected power and clock."""
    parts = [f"{row['load']:<16} {row['readings']} readings"]
    for name, unit in (("power_w", "W"), ("clock_hz", "Hz")):
        measured, expected = row[name], row[f"expected_{name}"]
        off = f" ({expected / measured - 1:+.1%})" if expected else ""
        parts.append(f"{units.show(measured, unit)} measured, {units.show(expected, unit) if expected else 'nothing'} expected{off}")
    return "   ".join(parts)


# ---------------------------------------------------------------- the command


def machine_of(torch: Any, device: str, asked: str) -> str:
    """The slug of the machine table: as asked, or as the device calls itself."""
    if asked:
        return machines.load(asked).slug
    if device == "cpu":
        return "h200-sxm"
    seen = torch.cuda.get_device_properties(0)
    found = machines.recognise(Device(target="torch", index=0, name=seen.name, kind="gpu", memory_bytes=seen.total_memory))
    if not found:
        raise InputError(f"'{seen.name}' is not in the machine table; name one with --machine ('hotlap model machines' lists them)")
    return found


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", nargs="?", choices=("kernels", "power"), default="kernels")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--machine", default="", help="of the machine table (default: as the device calls itself)")
    parser.add_argument("--out", type=Path, help="a file of JSON lines")
    parser.add_argument("--budget", type=float, default=240.0, help="seconds after which no further shape is begun (default: 240)")
    args = parser.parse_args(words)
    try:
        import torch
    except ImportError:
        print("kernels_on_gpu: not run, because PyTorch is missing (pip install torch)", file=sys.stderr)
        return 3
    if args.device == "cuda" and not torch.cuda.is_available():
        print("kernels_on_gpu: not run, because PyTorch sees no GPU; --device cpu shows that the script works", file=sys.stderr)
        return 3
    try:
        machine = machine_of(torch, args.device, args.machine)
    except InputError as error:
        print(f"kernels_on_gpu: {error}", file=sys.stderr)
        return 2
    if args.what == "power":
        return _power(torch, machine, args)
    return _kernels(torch, machine, args)


def _power(torch: Any, machine: str, args: argparse.Namespace) -> int:
    if args.device == "cpu":
        print("power: not run, because a processor has no NVML")
        return 3
    try:
        rows = power(torch, machine)
    except Exception as error:  # whatever NVML raises where it has no driver or no right
        print(f"power: not run, because {type(error).__name__}: {error}")
        return 3
    for row in rows:
        print(power_line(row))
    _write(args.out, rows)
    return 0


def _kernels(torch: Any, machine: str, args: argparse.Namespace) -> int:
    began, kernels = time.monotonic(), list[Line]()
    print(f"PyTorch {torch.__version__} on {machine if args.device == 'cuda' else 'the processor'}: measured; low, expected, high; error")
    for one in shapes():
        if time.monotonic() - began > args.budget:
            print(f"the rest is not run, because {args.budget:.0f} s have passed")
            break
        for line in lines(smaller(one) if args.device == "cpu" else one, torch, args.device, machine):
            kernels.append(line)
            print(shown(line), flush=True)
    print()
    print("\n".join(summary(kernels)))
    _write(args.out, [{**one._asdict(), "machine": machine, "error": one.error} for one in kernels])
    return 0 if any(one.how != "not run" for one in kernels) else 1


def _write(file: Path | None, rows: list[dict[str, Any]]) -> None:
    if file:
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

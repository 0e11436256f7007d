"""y + a·x: a workload of its own, with its parameters, its cost and its reference."""

import torch

params = {"n": 1 << 20, "a": 2.0, "dtype": {"default": "fp32", "choices": ["fp32", "fp64"]}}
read_bytes = "2 * n * size(dtype)"
written_bytes = "n * size(dtype)"
operations = "2 * n"
unit_of_arithmetic = "fma.{dtype}"
cases = [{"n": 65536}, {"n": 4194304}]


def inputs(make, params):
    n, dtype = params["n"], params["dtype"]
    return {"x": make.normal(n, dtype=dtype), "y": make.normal(n, dtype=dtype)}


def launch(inputs, params):
    return torch.add(inputs["y"], inputs["x"], alpha=params["a"])


def reference(inputs, params):
    return inputs["y"] + params["a"] * inputs["x"]

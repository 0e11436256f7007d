"""Softmax in four steps of PyTorch: what fusing them saves."""

import torch

name = "softmax-steps"
workload = "rowwise"  # inputs, cost and reference are those of rowwise
only = {"op": "softmax", "dtype": ["fp32"]}
cases = [{"rows": 512, "columns": 1024}, {"rows": 4096, "columns": 256}]


def launch(inputs, params):
    x = inputs["x"]
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)

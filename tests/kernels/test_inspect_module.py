"""A user's module becomes the workloads it runs, without a GPU and without data."""

from __future__ import annotations

from pathlib import Path

import pytest

from hotlap.core import plan as plans
from hotlap.core.errors import InputError, MachineError
from hotlap.kernels import module

pytest.importorskip("torch", reason="PyTorch is not installed")

NETS = """
import torch
from torch import nn

class Image(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 64, 7, 2, 3)
        self.norm = nn.BatchNorm2d(64)
        self.deep = nn.Conv2d(64, 64, 3, padding=1, groups=64)
        self.last = nn.Linear(64, 10)
    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        return self.last(nn.functional.gelu(self.deep(x)).mean((2, 3))).softmax(-1)

class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(64, 4, 256, batch_first=True, dropout=0.0) for _ in range(3))
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 24)
        self.lstm = nn.LSTM(24, 16, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(32, 48, num_layers=3, dropout=0.1)
    def forward(self, x):
        x, _ = self.lstm(self.up(x))
        x, last = self.gru(x.transpose(0, 1))
        return x + last[-1]

class Looks(nn.Module):
    def forward(self, x):
        return x[x > 0]

@torch.library.custom_op("hotlap_test::odd", mutates_args=())
def odd(x: torch.Tensor) -> torch.Tensor:
    return x + 1

@odd.register_fake
def _(x): return torch.empty_like(x)

class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(32, 32)
    def forward(self, x):
        with torch.profiler.record_function("own part"):
            return odd(self.first(x))

def own(): return Own(), (torch.randn(8, 32),)
def image(): return Image(), (torch.randn(4, 3, 224, 224),)
def blocks(): return Blocks(), {"x": torch.randn(2, 16, 64)}
def huge(): return nn.Linear(65536, 65536, bias=False, dtype=torch.bfloat16), (torch.empty(65536, 65536, dtype=torch.bfloat16),)
def looks(): return Looks(), (torch.randn(4),)
def steps(): return Steps(), (torch.randn(4, 10, 8),)
def projected(): return nn.LSTM(24, 16, proj_size=8), (torch.randn(3, 4, 24),)
def double(): return nn.GRU(24, 16, dtype=torch.float64), (torch.randn(3, 4, 24, dtype=torch.float64),)
def half(): return Blocks().half(), (torch.randn(2, 16, 64).half(),)
def brain(): return Blocks().to(torch.bfloat16), (torch.randn(2, 16, 64, dtype=torch.bfloat16),)
def number(): return 3
def loud():
    print("not a plan")
    return nn.Linear(8, 4), (torch.empty(2, 8),)
def dies():
    import os
    os._exit(5)
def fails(): raise RuntimeError("no weights here")
"""


@pytest.fixture
def nets(tmp_path: Path) -> str:
    file = tmp_path / "nets.py"
    file.write_text(NETS, encoding="utf-8")
    return str(file)


def _found(traced: module.Traced) -> dict[tuple[str, str], int]:
    """(place, case in words) → calls; every call is a valid case of a plan."""
    return {(call.place, plans.case(*call.asked).workload): call.times for call in traced.calls}


def test_an_image_network_forward(nets: str) -> None:
    traced = module.trace(f"{nets}:image")
    assert _found(traced) == {
        ("first", "conv"): 1, ("norm", "pointwise"): 1, ("forward", "pointwise"): 1, ("deep", "conv"): 1, ("forward", "rowwise"): 1, ("last", "gemm"): 1,
    }  # fmt: skip
    first, deep = (call.asked.params for call in traced.calls if call.asked.workload == "conv")
    assert (first["stride"], first["pad"], first["filter"], first["filters"], first["groups"]) == (2, 3, 7, 64, 1)
    assert (deep["groups"], deep["height"], deep["images"]) == (64, 112, 4)
    assert traced.unknown == {}


@pytest.mark.parametrize(("factory", "dtype"), [("half", "fp16"), ("brain", "bf16")])
def test_a_module_that_its_factory_converts(nets: str, factory: str, dtype: str) -> None:
    here, plain = (module.trace(f"{nets}:{name}", train=True) for name in (factory, "blocks"))
    assert _found(here) == _found(plain)
    assert {call.asked.params["dtype"] for call in here.calls if "dtype" in call.asked.params} == {dtype}


def test_training_adds_gradients_and_one_update(nets: str) -> None:
    traced = module.trace(f"{nets}:image", train=True)
    ops = [call.asked.params.get("op") for call in traced.calls if call.place in ("backward", "optimizer")]
    assert ops.count("weight_gradient") == 2
    assert ops.count("input_gradient") == 1  # the first convolution's input needs none
    assert {"batchnorm_backward", "gelu_backward", "relu_backward", "softmax_backward", "adamw"} <= set(ops)
    (update,) = [call.asked.params for call in traced.calls if call.place == "optimizer"]
    assert update["elements"] == 64 * 3 * 49 + 64 + 64 * 2 + 64 * 9 + 64 + 64 * 10 + 10


def test_recurrent_layers_are_one_kernel_for_each_layer_and_direction(nets: str) -> None:
    forward, train = (module.trace(f"{nets}:steps", phase) for phase in (False, True))
    whole = [(call.place, tuple(call.asked.params[name] for name in ("op", "steps", "batch", "inputs", "hidden")), call.times)
             for call in forward.calls if call.asked.workload == "rnn"]  # fmt: skip
    layers = [("lstm", 10, 4, 24, 16), ("lstm", 10, 4, 32, 16), ("gru", 10, 4, 32, 48), ("gru", 10, 4, 48, 48)]
    assert whole == [(one[0], one, times) for one, times in zip(layers, (2, 2, 1, 2), strict=True)]
    assert [call.asked.workload for call in forward.calls] == ["gemm", "rnn", "rnn", "rnn", "rnn", "pointwise"]
    assert forward.unknown == {}
    back = [call for call in train.calls if call.place == "backward"]
    assert sum(call.times for call in back if call.asked.workload == "rnn") == 7
    weights = {(call.asked.params["m"], call.asked.params["n"]): call.times for call in back if call.asked.params.get("k") == 40}
    assert weights == {(64, 40): 2, (64, 48): 2, (144, 80): 1, (144, 96): 2, (24, 8): 1}
    (update,) = [call.asked.params["elements"] for call in train.calls if call.place == "optimizer"]
    lstm, gru = 2 * 64 * (24 + 16 + 2) + 2 * 64 * (32 + 16 + 2), 144 * (32 + 48 + 2) + 2 * 144 * (48 + 48 + 2)
    assert update == 8 * 24 + 24 + lstm + gru
    for call in (*forward.calls, *train.calls):
        assert plans.case(*call.asked)


@pytest.mark.parametrize("factory", ["projected", "double"])
def test_recurrent_layers_that_are_no_workload_are_taken_apart(nets: str, factory: str) -> None:
    assert "rnn" not in {call.asked.workload for call in module.trace(f"{nets}:{factory}").calls}


def test_layers_with_numbers_are_counted_together(nets: str) -> None:
    traced = module.trace(f"{nets}:blocks")
    products = {call.place: call for call in traced.calls if call.asked.workload == "gemm"}
    assert products["layers.*.linear1"].times == 3
    assert products["layers.*.linear1"].asked.params == {
        "dtype": "fp32", "m": 32, "n": 256, "k": 64, "batch": 1, "layout": "nt", "epilogue": "bias",
    }  # fmt: skip
    (attention,) = [call for call in traced.calls if call.asked.workload == "attention"]
    assert (attention.times, attention.asked.params["heads"], attention.asked.params["query"]) == (3, 4, 16)


def test_a_custom_operator_is_said_to_be_unknown(nets: str) -> None:
    (traced,) = module.traces(f"{nets}:own", [False])
    assert isinstance(traced, module.Traced)
    assert [call.asked.workload for call in traced.calls] == ["gemm"]
    assert traced.unknown == {"hotlap_test::odd": 1}


def test_no_memory_is_needed(nets: str) -> None:
    (product,) = module.trace(f"{nets}:huge").calls
    assert (product.asked.params["m"], product.asked.params["dtype"]) == (65536, "bf16")


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("looks", "the operator aten.nonzero.default needs the data"),
        ("number", "the factory of .* returned int; a module is named MODULE:FACTORY"),
        ("fails", "RuntimeError: no weights here"),
        ("nothing", "has no factory 'nothing'; valid: .*image"),
    ],
)
def test_what_cannot_be_traced_is_said(nets: str, factory: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        module.trace(f"{nets}:{factory}")


@pytest.mark.parametrize("name", ["nowhere:at_all", "no_file.py:net", "nets", ":net"])
def test_a_name_that_leads_nowhere(name: str) -> None:
    with pytest.raises(InputError, match="MODULE:FACTORY"):
        module.trace(name)


def test_what_a_module_does_to_its_process_stays_there(nets: str, capfd: pytest.CaptureFixture[str]) -> None:
    forward, train = module.traces(f"{nets}:loud", [False, True])
    assert [call.asked.workload for call in forward.calls] == ["gemm"]
    assert any(call.place == "optimizer" for call in train.calls)
    assert capfd.readouterr().out == ""
    with pytest.raises(MachineError, match="ended with status 5"):
        module.traces(f"{nets}:dies", [False])
    with pytest.raises(InputError, match="has no factory 'nothing'"):
        module.traces(f"{nets}:nothing", [False])

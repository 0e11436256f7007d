"""The branches for CUDA of every operator, launched with PyTorch's fake tensors on `cuda:0`."""

from __future__ import annotations

import importlib.util
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
SCRIPT = Path(__file__).parent.parent / "scripts" / "fake_tensors.py"
LAUNCHED = {"gemm dtype=bf16", "gemm layout=tt", "gemm dtype=int4", "attention op=forward heads=4 kv_heads=4 flash", "conv op=forward", "rowwise", "sort"}


@pytest.fixture(scope="module")
def script() -> Any:
    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)
    spec = importlib.util.spec_from_file_location("fake_tensors", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow("launches some 200 operators")
def test_no_operator_is_refused_for_its_arguments(script: Any) -> None:
    rows = script.outcomes()
    assert [row for row in rows if row.kind == "failed"] == []
    assert {row.case for row in rows if row.kind == "launched"} >= LAUNCHED
    assert Counter(row.kind for row in rows)["launched"] > len(rows) / 2


def test_a_wrong_argument_is_seen(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ("gemm", {"dtype": "bf16", "m": 64, "n": 32, "k": 48}, "")
    assert script.outcome(torch, *given).kind == "launched"
    real = torch.matmul
    monkeypatch.setattr(torch, "matmul", lambda a, b, **more: real(b, a, **more))
    assert script.outcome(torch, *given).kind == "failed"

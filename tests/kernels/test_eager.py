"""Compiled against eager: rounds folded by hand, and one real round with a backend that needs no C++ compiler."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest

from hotlap import cli
from hotlap.kernels import eager
from hotlap.kernels.binaries.graphs import Break
from hotlap.kernels.eager_round import EagerJob, EagerRound, _apart
from hotlap.kernels.show import eager as report

torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed: pip install torch")
EXAMPLE = Path(__file__).parents[2] / "examples" / "graph_break.py"
JOB = EagerJob(factory="net:make")


def rounds(eager_s: list[float], compiled_s: list[float], compile_s: float = 10.0) -> list[EagerRound]:
    return [EagerRound(eager_s=a, compiled_s=b, compile_s=compile_s, graphs=1, difference=1e-7, rounding=1e-7) for a, b in zip(eager_s, compiled_s, strict=True)]


def test_break_even_is_what_compiling_costs_over_what_a_step_wins() -> None:
    found = eager.folded(JOB, rounds([2e-3] * 7, [1e-3] * 7))
    assert found.speedup is not None
    assert found.break_even is not None
    assert found.speedup.median == pytest.approx(2.0)
    assert found.break_even.median == pytest.approx((10.0 - 1e-3) / 1e-3)
    assert found.break_even.low == found.break_even.high == found.break_even.median
    assert "compiled is faster" in report.against(found, 80)


def test_break_even_never_comes_where_compiled_is_slower() -> None:
    found = eager.folded(JOB, rounds([1e-3] * 6, [2e-3, 2e-3, 2e-3, 2e-3, 2e-3, 0.5e-3]))
    assert found.break_even is not None
    assert math.isinf(found.break_even.median)
    assert found.break_even.low is not None
    assert math.isfinite(found.break_even.low)
    assert "never" in report.against(found, 80)


def test_too_few_rounds_have_no_interval() -> None:
    found = eager.folded(JOB, rounds([2e-3] * 5, [1e-3] * 5))
    assert found.speedup is not None
    assert (found.speedup.low, found.speedup.high) == (None, None)
    assert "6 rounds are needed" in report.against(found, 80)


def test_without_a_compiler_the_graphs_are_told_and_times_are_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eager.shutil, "which", lambda _: None)
    asked: list[EagerJob] = []

    def answered(job: EagerJob) -> EagerRound:
        asked.append(job)
        return EagerRound(graphs=2, breaks=[Break(reason="data-dependent jump", where="net.py:10 if y.sum() > 0:")], device="cpu")

    monkeypatch.setattr(eager, "_round", answered)
    out = report.against(eager.run(EagerJob(factory="net:make", target="torch:cpu"), 6), 80)
    assert [job.time_it for job in asked] == [False]
    assert "not run, because no C++ compiler is here" in out
    assert "net.py:10 if y.sum() > 0:" in out


def test_outputs_that_differ_more_than_rounding_are_said() -> None:
    found = eager.folded(JOB, [EagerRound(eager_s=1.0, compiled_s=0.5, compile_s=1.0, difference=1e-2, rounding=1e-7)])
    assert "more than rounding explains" in report.against(found, 80)


@torch
def test_a_real_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.py").write_text("def wrong():\n    return 3\n")
    monkeypatch.chdir(tmp_path)
    found = eager._round(EagerJob(factory=f"{EXAMPLE}:make", backend="aot_eager", slot_s=0.02))
    assert found.graphs == 2
    assert len(found.breaks) == 1
    assert found.breaks[0].where.startswith("graph_break.py:22 if y.sum() > 0")
    assert found.eager_s is not None
    assert found.compiled_s is not None
    assert found.compile_s is not None
    assert found.compile_s > found.compiled_s
    assert found.recompiled == 0
    assert found.difference is not None
    assert found.difference < 1e-5
    assert found.rounding is not None
    assert found.rounding < 1e-5
    for factory, said in (("net:wrong", "must return (module, inputs)"), ("net:wrnog", "did you mean 'wrong'"), ("nte:make", "there is no module nte")):
        assert cli.main(["kernel", "compiled", factory, "--against", "eager", "--target", "torch:cpu"]) == 2
        assert said in capsys.readouterr().err


def test_nan_on_one_side_alone_is_a_difference() -> None:
    nan, inf = float("nan"), float("inf")
    assert _apart([np.array([1.0, nan, inf])], [np.array([1.5, nan, inf])]) == 0.5
    assert _apart([np.array([1.0, 2.0])], [np.array([1.0, nan])]) == inf
    assert _apart([np.array([1.0])], [np.array([[1.0]])]) == inf

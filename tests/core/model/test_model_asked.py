"""What users asked of `predict` and got wrong or unclear answers to, once."""

from __future__ import annotations

import numpy as np
import pytest

import hotlap
from hotlap.cli import main
from hotlap.core.errors import InputError
from hotlap.core.model.expect import expect
from hotlap.core.model.intervals import WIDE
from hotlap.core.model.machines import load
from hotlap.core.model.networks.predict import predict as net


@pytest.mark.parametrize("ways", [(8, 4, 4), (8, 2, 3), (8, 8, 2), (4, 2, 4), (2, 1, 6)])
def test_replicas_and_stages_together_can_be_trained(ways: tuple[int, int, int]) -> None:
    tp, pp, dp = ways
    alone, found = (net("llama-3-70b", "h100-sxm", phase="train", batch=64, tp=tp, pp=pp, dp=count) for count in (1, dp))
    assert found.gpus == tp * pp * dp
    assert alone.seconds * 0.95 < found.seconds < 1.5 * alone.seconds  # the batch is each replica's
    assert found.tokens_s > 0.6 * dp * alone.tokens_s


def test_experts_lie_on_the_gpus_of_the_step() -> None:
    with pytest.raises(InputError, match="experts over 4 GPUs, but tp × dp is 2"):
        net("mixtral-8x7b", "h100-sxm", phase="decode", batch=64, tp=2, ep=4)
    spread, alone = (net("mixtral-8x7b", "h100-sxm", phase="decode", batch=16, dp=dp, ep=dp) for dp in (4, 1))
    assert spread.gpus == 4
    assert 4 * alone.tokens_s < spread.tokens_s < 16 * alone.tokens_s  # four replicas, each with a quarter of the weights to read


@pytest.mark.parametrize(("workload", "machine", "dtype"), [
    ("attention", "a100-sxm-80gb", "fp8"), ("attention", "v100-sxm2-32gb", "bf16"), ("moe", "v100-sxm2-32gb", "bf16"),
    ("gemm", "t4", "bf16"),
])  # fmt: skip
def test_a_type_that_a_machine_lacks_is_said(workload: str, machine: str, dtype: str) -> None:
    found = hotlap.predict(workload, machine, dtype=dtype)
    assert found.expected_s is None
    assert f"matrix.{dtype}" in found.reason + " ".join(found.causes)
    with pytest.raises(InputError, match=rf"no (rate of matrix\.|matrix unit for ){dtype}"):
        expect(workload, hotlap_params(workload, dtype), load(machine))


def hotlap_params(workload: str, dtype: str) -> dict[str, object]:
    from hotlap.core import work

    return {**{one.name: one.default for one in work.find(workload).params}, "dtype": dtype}


def test_a_convolution_reads_its_input_once() -> None:
    found = hotlap.predict("conv", "l40s")
    assert found.parts["DRAM"] < 45e-6  # 26 MB at 864 GB/s; the unrolled matrix would be 115 MB
    assert sum(found.parts.values()) == pytest.approx(found.expected_s)


@pytest.mark.parametrize("machine", ["mi300x", "max-1550", "v100-sxm2-32gb"])
def test_kernels_of_others_are_not_like_those_that_were_measured(machine: str) -> None:
    found = hotlap.predict("gemm", machine, m=4096, n=4096, k=4096, dtype="fp32")
    assert found.high_s == pytest.approx(WIDE[1] * found.expected_s)
    assert any("outside" in cause for cause in found.causes)


def test_no_clock_bounds_a_card_that_runs_above_its_boost() -> None:
    found = hotlap.predict("gemm", "rtx-4090", m=8192, n=8192, k=8192, dtype="bf16")
    assert found.bound_s < 1e-3  # memory's; the arithmetic of 165 TFLOP/s would take 6.66 ms
    assert found.low_s < 1.05 * 6.66e-3


@pytest.mark.parametrize(("words", "said"), [
    (["gemm", "--machine", "h100-sxm", "--batch", "4"], "--batch is of a network's step"),
    (["gemm", "--machine", "h100-sxm", "--dtype", "bf16"], "--dtype is of a network's step"),
    (["net", "llama-3-8b", "--machine", "h100-sxm", "--phase", "prefill", "--recompute"], "--recompute is of training"),
    (["net", "llama-3-8b", "--machine", "h100-sxm", "--micro-batch", "7"], "--micro-batch is of training"),
    (["gemm", "--machine", "h100-sxm", "--implementation", "foo"], "gemm has no implementation 'foo'; valid: sglang/sglang"),
    (["moe", "--machine", "h100-sxm", "--implementation", "foo"], "moe has no implementation 'foo'"),
])  # fmt: skip
def test_options_that_would_do_nothing_are_refused(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", *words]) == 2
    assert said in capsys.readouterr().err


def test_what_does_not_fit_is_said() -> None:
    assert any("does not fit: it needs 1.10 TB" in one for one in hotlap.predict("stream", "h100-sxm", size="1 TiB").causes)
    assert not any("does not fit" in one for one in hotlap.predict("stream", "h100-sxm", size="1 GiB").causes)


def test_arrays_and_single_cases_agree() -> None:
    sizes = np.array([128, 4096, 16384])
    many = hotlap.predict("gemm", "h100-sxm", m=sizes, n=4096, k=4096, dtype="bf16")
    single = [hotlap.predict("gemm", "h100-sxm", m=int(m), n=4096, k=4096, dtype="bf16") for m in sizes]
    for name in ("bound_s", "expected_s", "low_s", "high_s", "power_w", "clock_hz"):
        assert getattr(many, name) == pytest.approx([getattr(one, name) for one in single], rel=1e-9)

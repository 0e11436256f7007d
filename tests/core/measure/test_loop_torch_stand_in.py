"""Cases measured whole through PyTorch on the stand-in for a GPU: what the host holds up, what no graph takes, what ends a run and what does not."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from hotlap.core import work
from hotlap.core.errors import MachineError
from hotlap.core.measure import host_bound, targets
from hotlap.core.measure.loop import CaseBudget, measure
from hotlap.core.measure.workloads.operators import harness
from hotlap.core.record import Case, Samples

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch_stand_in  # noqa: E402 - it imports PyTorch

HOST_S = 0.05  # that the host takes for a call: far more than the kernel, and than threads wait for each other on a busy machine
GEMM = {"m": 32, "n": 32, "k": 32, "dtype": "fp32"}


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(harness, "MOST_SETS", 2)
    with torch_stand_in.standing_in() as standing:
        yield standing


@pytest.fixture
def target(gpu: Any) -> Any:
    spec = targets.TargetSpec("torch", "cuda")
    return targets.open_device(spec, targets.find(spec)[0])


def measured(target: Any, **given: Any) -> Samples:
    return measure(target, Case(workload="gemm", params=work.find("gemm").parse({**GEMM, **given})), CaseBudget(seconds=0.3, seed=3))


@pytest.fixture
def slow_host(monkeypatch: pytest.MonkeyPatch) -> None:
    real = torch.matmul

    def matmul(*args: Any, **options: Any) -> Any:
        time.sleep(HOST_S)
        return real(*args, **options)

    monkeypatch.setattr(torch, "matmul", matmul)
    monkeypatch.setattr(host_bound, "HOST_SHARE", 0.4)  # a busy machine holds up the stream's thread too; test_host_bound.py has the share itself


@pytest.mark.slow("measures a case")
@pytest.mark.usefixtures("slow_host")
def test_calls_that_the_host_holds_up_are_measured_from_a_graph(target: Any, gpu: Any) -> None:
    samples = measured(target)
    assert samples.method == "event-graph", samples
    assert samples.eager_s is not None
    assert samples.eager_s >= HOST_S
    assert max(samples.values) < HOST_S  # nothing of the host is in a replay
    assert gpu.cards[0].replays > len(samples.values)
    assert "host_bound" in [notice.code for notice in samples.notices]


@pytest.mark.slow("measures a case")
@pytest.mark.usefixtures("slow_host")
def test_where_no_graph_is_recorded_the_hosts_rate_is_shown_and_named(target: Any, gpu: Any) -> None:
    gpu.cards[0].refuses_capture = True
    samples = measured(target)
    assert samples.method in ("event-batch", "event-single")
    assert samples.eager_s is None
    (notice,) = [notice for notice in samples.notices if notice.code == "host_bound"]
    assert "no graph is recorded" in notice.seen


@pytest.mark.slow("measures a case")
@pytest.mark.parametrize("kernels", [0, 40])
def test_a_failed_kernel_ends_the_run(target: Any, gpu: Any, kernels: int) -> None:
    gpu.cards[0].fails_after = kernels
    with pytest.raises(MachineError, match="illegal memory access"):
        measured(target)


def test_a_lack_of_memory_is_of_its_case_alone(target: Any, gpu: Any) -> None:
    gpu.cards[0].full_after = 3
    refused = measured(target)
    assert refused.status == "not_run"
    assert "out of memory" in refused.reason
    gpu.cards[0].full_after = None
    assert measured(target).values


def test_a_wrong_product_is_seen_on_the_device(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = torch.matmul
    monkeypatch.setattr(torch, "matmul", lambda *args, **options: real(*args, **options).mul_(1.01))
    samples = measured(target)
    assert samples.status == "invalid", samples

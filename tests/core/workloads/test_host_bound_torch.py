"""Operators of PyTorch whose host part rules, on the stand-in for torch.cuda: their graphs do the same work and are checked the same way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import torch_stand_in  # noqa: E402 - it imports PyTorch
from hotlap.core import work  # noqa: E402
from hotlap.core.errors import MachineError  # noqa: E402
from hotlap.core.measure import host_bound, loop, targets  # noqa: E402
from hotlap.core.measure.workloads.operators import harness  # noqa: E402
from hotlap.core.measure.workloads.operators.base import Exact, Operator  # noqa: E402
from hotlap.core.record import Case, Samples  # noqa: E402

CASE = Case(workload="gemm", params=work.find("gemm").parse({"m": 16, "n": 16, "k": 16, "dtype": "fp32", "cache": "warm"}))


@pytest.fixture
def gpu() -> Iterator[Any]:
    with torch_stand_in.standing_in(torch_stand_in.Looks()) as made:
        yield made


@pytest.fixture
def target(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Any host part rules on it: how large it is would be this machine's."""
    monkeypatch.setattr(host_bound, "HOST_SHARE", 0.0)
    spec = targets.TargetSpec("torch", "cuda")
    return targets.open_device(spec, targets.find(spec)[0])


class Product:
    """Of two matrices; `remembers`: the first result is handed out for ever; `waits`: each call waits for the device."""

    def __init__(self, remembers: bool = False, waits: bool = False) -> None:
        self.remembers, self.waits, self.kept = remembers, waits, None

    def launch(self, given: Any) -> Any:
        if self.waits:
            given["a"].sum().item()
        if self.remembers and self.kept is not None:
            return self.kept
        self.kept = given["a"] @ given["b"]
        return self.kept

    def operator(self) -> Operator:
        return Operator(
            inputs=lambda maker: {name: maker.normal(16, 16, dtype="fp32") for name in ("a", "b")}, launch=self.launch,
            reference=lambda given: [Exact(given["a"] @ given["b"], given["a"].abs() @ given["b"].abs(), terms=16)],
        )


def measured(target: Any, product: Product) -> Samples:
    prepared = harness.prepared(target, CASE, product.operator(), np.random.default_rng(1))
    blank = Samples(case=CASE.id, device="d", round=0)
    return loop.time_prepared(target, prepared, loop.CaseBudget(seconds=0.2), blank, loop.timing_overhead(target))


def notices(samples: Samples) -> dict[str, str]:
    return {one.code: one.seen for one in samples.notices}


def test_an_operator_is_measured_from_its_graph_and_checked(target: Any) -> None:
    samples = measured(target, Product())
    assert samples.method == "event-graph"
    assert samples.eager_s is not None
    assert samples.eager_s > 0
    assert samples.check
    assert samples.check.passed, samples.check.what
    assert "one of them from the timed loop" in samples.check.what
    assert "host_bound" in notices(samples)


def test_a_result_that_is_remembered_is_caught_in_a_graph_too(target: Any) -> None:
    """The graph of it is empty; its inputs change between samples all the same."""
    samples = measured(target, Product(remembers=True))
    assert samples.method == "event-graph"
    assert (samples.status, samples.cause) == ("invalid", "wrong_result")


def test_what_cannot_be_recorded_is_eager_and_flagged(target: Any, gpu: Any) -> None:
    samples = measured(target, Product(waits=True))
    assert (samples.method.startswith("event-"), samples.method.endswith("-graph"), samples.eager_s) == (True, False, None)
    assert "the value is the host's rate" in notices(samples)["host_bound"]
    assert samples.check
    assert samples.check.passed
    gpu.cards[0].refuses_capture = True
    refused = measured(target, Product())
    assert not refused.method.endswith("-graph")
    assert "no graph is recorded" in notices(refused)["host_bound"]


def test_inputs_of_another_shape_each_time_are_not_recorded(target: Any) -> None:
    """Other content is then other memory, which a recorded graph would not read."""
    sizes = iter(range(16, 2000, 8))

    def inputs(maker: Any) -> dict[str, Any]:
        rows = next(sizes)
        return {"a": maker.normal(rows, 16, dtype="fp32"), "b": maker.normal(16, 16, dtype="fp32")}

    product = Product().operator()
    ragged = Operator(inputs=inputs, launch=product.launch, reference=product.reference)
    assert not harness.prepared(target, CASE, ragged, np.random.default_rng(1)).capture
    assert harness.prepared(target, CASE, product, np.random.default_rng(1)).capture


def test_a_cold_operator_is_queued_behind_the_flush(target: Any) -> None:
    case = Case(workload="gemm", params={**CASE.params, "cache": "cold"})
    for _ in range(5):  # on a busy machine the stand-in's two timers may lie apart in every sample
        samples = loop.measure(target, case, loop.CaseBudget(seconds=0.2))
        if samples.status != "invalid":
            break
    assert (samples.status, samples.reason) == ("measured", "")
    assert samples.method.startswith("event-queued-")
    assert samples.check
    assert samples.check.passed


def test_a_lost_device_ends_the_round(target: Any, gpu: Any) -> None:
    """While inputs are made, and after some launches of the timed loop."""
    for launches in (0, 40):
        gpu.cards[0].fails_after = launches
        with pytest.raises(MachineError, match=r"the device failed .*illegal memory access"):
            loop.measure(target, CASE, loop.CaseBudget(seconds=0.2))


def test_too_little_memory_refuses_one_case(target: Any, gpu: Any) -> None:
    gpu.cards[0].full_after = 0
    samples = loop.measure(target, CASE, loop.CaseBudget(seconds=0.2))
    assert (samples.status, "out of memory" in samples.reason) == ("not_run", True)

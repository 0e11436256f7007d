"""Recorded shapes become workloads; times are compared with the limits of their machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from made_events import Made

from hotlap.core.errors import InputError
from hotlap.core.model.predict import predict
from hotlap.core.work import aten
from hotlap.traces import roofline
from hotlap.traces.advice import trace as advising
from hotlap.traces.show import limits as trace_limits
from hotlap.traces.study import Study
from hotlap.traces.timeline import Timeline

HALF = '["c10::BFloat16", "c10::BFloat16"]'


@pytest.mark.parametrize(
    ("operator", "dims", "types", "values", "expected"),
    [
        ("aten::mm", "[[64, 128], [128, 256]]", HALF, "", {"m": 64, "n": 256, "k": 128, "batch": 1, "dtype": "bf16"}),
        ("aten::addmm", "[[256], [64, 128], [128, 256], [], []]", HALF, "", {"m": 64, "n": 256, "k": 128, "batch": 1}),
        ("aten::bmm", "[[8, 64, 128], [8, 128, 256]]", '["float", "float"]', "", {"batch": 8, "dtype": "fp32"}),
        ("aten::linear", "[[4, 16, 128], [256, 128], [256]]", HALF, "", {"m": 64, "n": 256, "k": 128}),
        ("aten::add_", "[[32, 64], [64], []]", HALF, "", {"elements": 2048}),
        ("aten::add", "[[1024, 1], [1, 512], []]", HALF, "", {"elements": 1024 * 512}),
        ("aten::native_layer_norm", "[[32, 7, 64], [], [64], [64], []]", HALF, "", {"rows": 224, "columns": 64, "op": "layernorm"}),
        ("aten::_scaled_dot_product_flash_attention", "[[2, 32, 512, 128], [2, 8, 1024, 128], [2, 8, 1024, 128], [], []]", HALF,
         '["", "", "", "0.", "True"]', {"batch": 2, "heads": 32, "kv_heads": 8, "query": 512, "kv": 1024, "head_dim": 128, "mask": "causal"}),
        ("aten::cudnn_convolution", "[[32, 3, 224, 224], [64, 3, 7, 7], [], [], [], [], [], [], []]", HALF,
         '["", "", "[3, 3]", "[2, 2]", "[1, 1]", "1", "False"]', {"images": 32, "filters": 64, "filter": 7, "height": 224}),
        ("aten::embedding", "[[30522, 768], [8, 128]]", HALF, "", {"tokens": 1024, "columns": 768, "vocabulary": 30522}),
    ],
)  # fmt: skip
def test_shapes_become_workloads(operator: str, dims: str, types: str, values: str, expected: dict[str, object]) -> None:
    (found,) = aten.parts(operator, dims, types, values)
    assert {key: found.params[key] for key in expected} == expected
    predict(found.workload, "h100-sxm", **found.params)  # its parameters are those of the workload


@pytest.mark.parametrize(
    ("operator", "dims", "types"),
    [("aten::mm", "[[64, 128], [99, 256]]", HALF), ("aten::mm", "[[64]]", HALF), ("aten::mm", "not JSON", HALF), ("aten::view", "[[4]]", HALF),
     ("aten::mm", "[[4, 4], [4, 4]]", '["Scalar", ""]'), ("aten::mm", "[[0, 4], [4, 4]]", HALF), ("aten::add", "[[], []]", HALF)],
)  # fmt: skip
def test_what_is_no_workload_is_none(operator: str, dims: str, types: str) -> None:
    assert aten.parts(operator, dims, types) == []


def products(times: float, name: str = "NVIDIA H100 80GB HBM3") -> Study:
    """Products of 4096³ in bf16 that take `times` what is expected on an H100."""
    made = Made()
    expected_us = float(predict("gemm", "h100-sxm", m=4096, n=4096, k=4096, dtype="bf16").expected_s) * 1e6
    shape = made.into.shapes["[[4096, 4096], [4096, 4096]]", HALF, "", ""]
    for i in range(20):
        made.operator("aten::mm", 10 * i, 9, shape=shape)
        made.launch("sm90_gemm_bf16", 10 * i + 2, 20 + (expected_us * times + 1) * i, expected_us * times)
    return Study(made.events(devices=[{"id": 0, "name": name, "totalGlobalMem": 80 << 30}]))


def test_a_product_at_its_expected_time_has_no_headroom_and_a_slow_one_has() -> None:
    assert roofline.machine(products(1.0)) == "h100-sxm"
    (row,) = roofline.rows(products(1.0))
    assert row.calls == 20
    assert row.headroom_s == 0
    slow = products(4.0)
    (row,) = roofline.rows(slow)
    assert row.headroom_s == pytest.approx(row.total_s * 0.75, rel=0.01)
    assert row.beyond
    (finding,) = [one for one in advising.advise(slow).findings if one.rule == "below-limit"]
    assert finding.gain_high == pytest.approx(0.75, abs=0.03)


def test_faster_than_possible_is_an_error_of_the_data() -> None:
    fast = products(0.1)
    (row,) = roofline.rows(fast)
    assert row.impossible
    assert row.headroom_s == 0
    assert "impossible" in {one.rule for one in advising.advise(fast).findings}


def test_both_gradients_of_a_convolution_are_held_against_both_limits() -> None:
    made = Made()
    dims = "[[8, 64, 28, 28], [8, 32, 28, 28], [64, 32, 3, 3], [], [], [], [], [], [], [], []]"
    values = '["", "", "", "[0]", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", "[True, True, False]"]'
    made.operator("aten::convolution_backward", 0, 9, shape=made.into.shapes[dims, HALF, "", values])
    made.launch("dgrad", 2, 20, 50)
    made.launch("wgrad", 3, 80, 50)
    (row,) = roofline.rows(Study(made.events(devices=[{"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 80 << 30}])))
    each = [predict("conv", "h100-sxm", **one.params).bound_s for one in aten.parts("convolution_backward", dims, HALF, values)]
    assert row.bound_s == pytest.approx(sum(each))
    assert row.median_s == pytest.approx(100e-6)
    assert "input_gradient and weight_gradient" in row.work.label


def test_a_machine_that_is_not_known_has_no_limits() -> None:
    assert roofline.rows(products(1.0, "Some Card")) == []
    with pytest.raises(InputError, match="h100"):
        roofline.machine(Study(products(1.0).events, "h100-smx"))
    said = " ".join(trace_limits.limits(products(1.0, "Some Card"), 200, False))
    assert "Some Card is not in the machine table" in said
    assert "no shapes were recorded" not in said


def test_all_that_is_missing_for_limits_is_said_at_once() -> None:
    made = Made()
    made.launch("k", 0, 5, 10)
    said = " ".join(trace_limits.limits(Study(made.events()), 300, False))
    assert said.startswith("limits  not known: the trace does not name its device (--machine NAME gives one")
    assert said.endswith(", and no shapes were recorded (record_shapes=True of torch.profiler)")


@pytest.mark.skipif("HOTLAP_SHARED" not in os.environ, reason="HOTLAP_SHARED does not name the folder of published traces")
def test_pointwise_kernels_of_a_published_v100_trace_take_what_is_expected() -> None:
    file = Path(os.environ["HOTLAP_SHARED"]) / "data" / "traces" / "kineto" / "resnet50_num_workers_4.pt.trace.json.gz"
    rows = [row for row in roofline.rows(Study(Timeline.open(file), "v100-sxm2-32gb")) if row.work.workload == "pointwise"]
    large = [row for row in rows if (row.bound_s or 0) > 5e-5]
    assert len(large) >= 8
    for row in large:
        assert 0.8 < row.median_s / (row.expected_s or 1) < 1.2, row
        assert not row.impossible


def adds(dims: str, times: float, strides: str = "") -> Study:
    """Sums of 4096 × 16384 in bf16 that take `times` the bound of three such arrays."""
    made = Made()
    bound_us = float(predict("pointwise", "h100-sxm", op="add", elements=4096 * 16384, dtype="bf16").bound_s) * 1e6
    shape = made.into.shapes[dims, HALF, strides, ""]
    for i in range(20):
        made.operator("aten::add", 10 * i, 9, shape=shape)
        made.launch("vectorized_elementwise_kernel", 10 * i + 2, 20 + (bound_us * times + 1) * i, bound_us * times)
    return Study(made.events(devices=[{"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 80 << 30}]))


@pytest.mark.parametrize("dims", ["[[4096, 16384], [16384], []]", "[[4096, 1], [1, 16384], []]", "[[4096, 16384], [4096, 16384], []]"])
def test_a_broadcast_or_twice_read_argument_is_not_impossible(dims: str) -> None:
    """At 0.6 of the bound of three arrays: two are read and written, or the one is added to itself."""
    assert not roofline.rows(adds(dims, 0.6))[0].impossible
    assert roofline.rows(adds(dims, 0.1))[0].impossible


def test_an_argument_that_is_repeated_without_memory_has_no_bound_to_beat() -> None:
    dims = "[[4096, 16384], [4096, 16384], []]"
    assert not roofline.rows(adds(dims, 0.1, "[[0, 1], [16384, 1], []]"))[0].impossible

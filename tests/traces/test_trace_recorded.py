"""The shapes of a trace as workloads, counted for one step."""

from __future__ import annotations

import pytest
from made_events import Made

from hotlap.traces import recorded
from hotlap.traces.study import Study

HALF = '["c10::BFloat16", "c10::BFloat16"]'
DIMS = "[[64, 128], [128, 256]]"


def test_a_program_is_its_operators_by_time_for_one_step() -> None:
    made = Made()
    product = made.into.shapes[DIMS, HALF, "[[128, 1], [1, 128]]", ""]
    other = made.into.shapes["[[64, 256]]", '["c10::BFloat16"]', "", ""]
    for step in range(2):
        at = step * 1000
        made.marker(f"ProfilerStep#{step}", at, 900)
        for i in range(3):
            made.operator("aten::mm", at + 100 * i, 50, shape=product)
            made.launch("gemm", at + 100 * i + 5, at + 100 * i + 10, 40)
        made.operator("aten::median", at + 400, 50, shape=other)
        made.launch("median", at + 405, at + 410, 30)
    found = recorded.program(Study(made.events()))
    (mm,) = found.workloads
    assert mm.asked.params == {"dtype": "bf16", "m": 64, "n": 256, "k": 128, "batch": 1, "layout": "nt"}
    assert (mm.calls, mm.median_s, found.steps) == (3, pytest.approx(40e-6), 2)
    assert found.unknown == {"aten::median": pytest.approx(30e-6)}
    assert (found.known_s, found.total_s) == (pytest.approx(120e-6), pytest.approx(150e-6))


def test_without_a_device_the_innermost_operators_count() -> None:
    made = Made()
    outer = made.into.shapes["[[4, 16, 128], [256, 128], [256]]", HALF, "", ""]
    inner = made.into.shapes["[[256], [64, 128], [128, 256]]", HALF, "", ""]
    made.operator("aten::linear", 0, 100, shape=outer)
    made.operator("aten::addmm", 10, 80, shape=inner)
    made.operator("aten::as_strided", 20, 5, shape=made.into.shapes["[[64, 256]]", HALF, "", ""])
    made.operator("aten::median", 200, 5, shape=made.into.shapes["[[64, 256]]", HALF, "", ""])
    found = recorded.program(Study(made.events()))
    (one,) = found.workloads
    assert found.unknown == {"aten::median": pytest.approx(5e-6)}
    assert (one.operator, one.calls, one.median_s) == ("aten::addmm", 1, pytest.approx(80e-6))
    assert one.asked.params["epilogue"] == "bias"


def test_a_convolutions_backward_is_two_workloads_with_half_its_time_each() -> None:
    made = Made()
    shape = made.into.shapes[
        "[[8, 64, 28, 28], [8, 32, 28, 28], [64, 32, 3, 3], [], [], [], [], [], [], [], []]", '["float", "float", "float"]', "",
        '["", "", "", "[0]", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", "[True, True, False]"]',
    ]  # fmt: skip
    made.operator("aten::convolution_backward", 0, 100, shape=shape)
    made.launch("wgrad", 5, 10, 60)
    found = recorded.program(Study(made.events())).workloads
    assert [one.asked.params["op"] for one in found] == ["input_gradient", "weight_gradient"]
    assert [one.median_s for one in found] == [pytest.approx(30e-6)] * 2
    assert found[0].asked.params["pad"] == 1


def test_a_trace_without_shapes_has_no_workloads() -> None:
    made = Made()
    made.operator("aten::mm", 0, 100)
    made.launch("gemm", 5, 10, 60)
    found = recorded.program(Study(made.events()))
    assert (found.workloads, found.total_s) == ([], 0.0)


def test_a_bias_that_a_product_copies_is_the_products_own() -> None:
    made = Made()
    product = made.into.shapes["[[256], [64, 128], [128, 256]]", HALF, "", ""]
    copied = made.into.shapes["[[64, 256], [64, 256], []]", HALF, "", ""]
    made.operator("aten::addmm", 0, 80, shape=product)
    made.operator("aten::expand", 2, 5, shape=copied)
    made.operator("aten::copy_", 10, 20, shape=copied)
    made.operator("aten::copy_", 100, 20, shape=copied)
    made.operator("aten::view", 130, 5, shape=copied)
    found = recorded.program(Study(made.events()))
    assert [(one.operator, one.calls) for one in found.workloads] == [("aten::addmm", 1), ("aten::copy_", 1)]
    assert found.workloads[0].median_s == pytest.approx(80e-6)
    assert not found.unknown  # expand and view move nothing

"""Calls of aten operators, as a profiler records them, as workloads."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hotlap.core.work import aten
from hotlap.core.work.aten import CallRequest

HEADS = [2, 8, 128, 64]


def parts(operator: str, dims: list[list[int]], values: list[str] | None = None, dtype: str = "c10::BFloat16") -> list[CallRequest]:
    given = values or [""] * len(dims)
    return aten.parts(operator, json.dumps(dims), json.dumps([dtype if one else "" for one in dims]), json.dumps(given))


def one(operator: str, dims: list[list[int]], values: list[str] | None = None) -> tuple[str, dict[str, Any]]:
    (found,) = parts(operator, dims, values)
    return found.workload, found.params


@pytest.mark.parametrize(("operator", "values", "mask"), [
    ("_scaled_dot_product_efficient_attention", ["", "", "", "", "True", "0.", "False"], "full"),  # log-sums are kept for the gradient
    ("_scaled_dot_product_efficient_attention", ["", "", "", "", "True", "0.", "True"], "causal"),
    ("_scaled_dot_product_cudnn_attention", ["", "", "", "", "True", "0.", "False", "False"], "full"),
    ("scaled_dot_product_attention", ["", "", "", "", "0.", "False", "", "True"], "full"),  # heads share keys
    ("_scaled_dot_product_flash_attention", ["", "", "", "0.", "True", "False"], "causal"),
])  # fmt: skip
def test_attention_is_causal_where_the_argument_says_so(operator: str, values: list[str], mask: str) -> None:
    assert one(operator, [HEADS] * 3 + [[]] * (len(values) - 3), values)[1]["mask"] == mask


def test_the_backward_pass_of_attention_has_its_own_place_for_it() -> None:
    values = [""] * 9 + ["0.", "[True, True, True, False]", "True"]
    workload, params = one("_scaled_dot_product_efficient_attention_backward", [HEADS] * 4 + [[]] * 8, values)
    assert (workload, params["op"], params["mask"]) == ("attention", "backward", "causal")


def test_a_number_or_a_row_is_not_read_as_a_second_array() -> None:
    assert one("add", [[64, 128], [64, 128], []])[1]["op"] == "add"
    assert one("add", [[64, 128], [128], []])[1] == {"op": "scale", "elements": 8192, "dtype": "bf16"}
    assert one("mul", [[64, 128], []])[1]["op"] == "scale"
    assert one("mul", [[64, 1], [1, 128]])[1]["elements"] == 8192


def test_sides_that_are_no_rows_are_workloads_of_another_kind() -> None:
    assert one("amax", [[64, 128], [], []], ["", "[1]", "False"]) == ("rowwise", {"op": "max", "rows": 64, "columns": 128, "dtype": "bf16"})
    assert parts("amax", [[64, 128], [], []], ["", "[0]", "False"]) == []
    assert one("argmax", [[64, 128], [], []], ["", "-1", "False"])[1]["rows"] == 64
    assert one("argmax", [[64, 128], [], []])[0] == "reduce"
    assert parts("argmax", [[64, 128], [], []], ["", "0", "False"]) == []
    assert parts("topk", [[64, 128], [], []], ["", "4", "0"]) == []
    assert parts("sort", [[64, 128], [], []], ["", "-1", "False"]) == []  # many short lines, not one
    assert one("sort", [[8192], [], []], ["", "-1", "False"])[1]["elements"] == 8192


def test_selected_rows_are_counted_by_their_index() -> None:
    found = one("index_select", [[1000, 16], [], [32]], ["", "0", ""])
    assert found == ("embedding", {"tokens": 32, "columns": 16, "vocabulary": 1000, "dtype": "bf16"})
    assert parts("index_select", [[1000, 16], [], [4]], ["", "1", ""]) == []


def test_a_transposed_convolution_is_the_gradient_of_one_that_makes_its_image() -> None:
    dims = [[2, 64, 16, 16], [64, 32, 4, 4], [], [], [], [], [], [], []]
    values = ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "True", "[0, 0]", "1"]
    workload, params = one("convolution", dims, values)
    assert workload == "conv"
    assert {name: params[name] for name in ("op", "channels", "filters", "height", "width")} == {
        "op": "input_gradient", "channels": 32, "filters": 64, "height": 32, "width": 32,
    }  # fmt: skip


def test_a_convolution_with_another_padding_each_way_is_none_of_ours() -> None:
    dims = [[2, 64, 16, 16], [64, 64, 1, 7], [], [], [], [], [], [], []]
    assert parts("convolution", dims, ["", "", "", "[1, 1]", "[0, 3]", "[1, 1]", "False", "[0, 0]", "1"]) == []
    assert one("convolution", [[2, 64, 1, 16], [64, 64, 1, 7], *dims[2:]], ["", "", "", "[1]", "[3]", "[1]", "False", "[0]", "1"])[1]["pad"] == 3

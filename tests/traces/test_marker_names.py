"""Names without their ids, and names that are almost alike."""

from __future__ import annotations

import pytest

from hotlap.traces.marker_names import alike, changed, template


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("step 12", "step <number>"),
        ("load 0x7f00aa10", "load <address>"),
        ("request 123e4567-e89b-12d3-a456-426614174000", "request <uuid>"),
        ("commit 39c953dd32c6", "commit <hash>"),
        ("layer3.conv2", "layer<number>.conv<number>"),
        ("deadbeef", "deadbeef"),  # a word until a digit is in it
        ("feedback", "feedback"),
        ("all2all", "all2all"),  # one digit within a word is a part of it
        ("moe::h2d conv2d_12", "moe::h2d conv2d_<number>"),
        ("step12b", "step<number>b"),
        ("forward", "forward"),
    ],
)
def test_ids_are_taken_out(name: str, text: str) -> None:
    assert template(name).text == text


def test_case_and_separators_make_no_other_name() -> None:
    assert alike(["Forward Pass", "forward_pass", "forward-pass", "backward"]) == [("Forward Pass", "forward-pass", "forward_pass")]


@pytest.mark.parametrize(("a", "b"), [("backward", "bakcward"), ("optimizer", "optimiser"), ("load_batch", "load_batchs"), ("forward pass", "forwrd pass")])
def test_one_wrong_letter_is_a_mistake(a: str, b: str) -> None:
    assert [set(pair) for pair in alike([a, b, "quite another"])] == [{a, b}]


@pytest.mark.parametrize(
    ("a", "b"),
    [("encoder", "decoder"), ("forward_a", "forward_b"), ("send", "isend"), ("lock", "block"), ("q_proj", "k_proj"), ("h<number>", "h<number>s"), ("pre", "post")],
)
def test_names_that_differ_on_purpose_are_left_alone(a: str, b: str) -> None:
    assert alike([a, b]) == []


def test_what_became_of_names() -> None:
    found = changed(["forward", "backward", "loss", "copy"], ["forward", "backward_pass", "loss", "evaluate"])
    assert found.renamed == [("backward", "backward_pass")]
    assert found.gone == ["copy"]
    assert found.new == ["evaluate"]

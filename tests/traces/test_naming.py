"""Names of kernels in a table: short, and never the same for two."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hotlap.traces import naming

CAT = "void at::native::(anonymous namespace)::CatArrayBatchedCopy<{}>({}, at::native::(anonymous namespace)::OutputMeta, int)"


def test_kernels_that_differ_in_a_template_parameter_show_it() -> None:
    names = [CAT.format("float, unsigned int, 1, 128, 1", "float*"), CAT.format("float, unsigned int, 1, 64, 64", "float*")]
    assert list(naming.labels(names).values()) == ["CatArrayBatchedCopy [128 1]", "CatArrayBatchedCopy [64 64]"]


def test_kernels_that_differ_in_arguments_alone_show_those() -> None:
    assert list(naming.labels(["void k<1>(float*)", "void k<1>(double*)"]).values()) == ["k [float]", "k [double]"]


def test_a_name_that_is_alone_keeps_its_short_form() -> None:
    name = CAT.format("float, unsigned int, 1, 128, 1", "float*")
    assert naming.labels([name]) == {name: naming.short(name)}


def test_long_names_are_cut_where_they_are_alike() -> None:
    long = "split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel"
    names = [f"{long}_cta_per_row_1", f"{long}_warp_per_row_1"]
    assert list(naming.labels(names, 48).values()) == [
        "split_embedding_…unweighted_kernel_cta_per_row_1",
        "split_embedding_…nweighted_kernel_warp_per_row_1",
    ]


@given(st.lists(st.text("abk<>(), :1", max_size=40), max_size=12), st.sampled_from([12, 24, 64]))
def test_no_two_names_get_the_same_label(names: list[str], most: int) -> None:
    found = naming.labels(names, most)
    assert set(found) == set(names)
    assert len(set(found.values())) == len(found)
    assert all(len(label) <= most for label in found.values())

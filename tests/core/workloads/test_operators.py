"""Operators of PyTorch that are no matrix products: right at odd sizes in every type, and no wrong answer passes."""

from __future__ import annotations

import importlib
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hotlap.core import work
from hotlap.core.errors import HotlapError, NotSupported
from hotlap.core.measure import targets
from hotlap.core.measure.guard import Guard
from hotlap.core.measure.workloads.operators import FAMILIES, footprint, harness, memory
from hotlap.core.measure.workloads.operators.base import Operator
from hotlap.core.record import Case
from hotlap.core.work.network import POINTWISE_OPS, ROWWISE_OPS

torch = pytest.importorskip("torch")

ODD: Mapping[str, list[dict[str, Any]]] = {
    "pointwise": [{"op": op, "elements": 2 * 1237} for op in POINTWISE_OPS],
    "rowwise": [{"op": op, "rows": 33, "columns": 77} for op in ROWWISE_OPS],
    "embedding": [{"tokens": 53, "columns": 7, "vocabulary": 31}],
    "scatter": [{"tokens": 53, "columns": 7, "vocabulary": 31}],
    "embedding_bag": [{"bags": 13, "lookups": 5, "columns": 7, "vocabulary": 31}],
    "permute": [{"tokens": 13, "columns": 7, "topk": 3}],
    "transpose": [{"rows": 13, "columns": 27}],
    "topk": [{"rows": 5, "columns": 301, "k": 17}, {"rows": 1, "columns": 3, "k": 3}],
    "sampling": [{"rows": 37, "columns": 131, "topk": topk} for topk in (0, 20)],
    "routing": [{"tokens": 57, "experts": 19, "topk": 3}],
    "optimizer": [{"op": op, "elements": 1237} for op in ("adamw", "momentum", "sgd")],
    "pool": [
        {"op": op, "images": 2, "channels": 3, "height": 13, "width": 11, "filter": 3, "stride": 2, "pad": pad}
        for op, pad in (("max", 1), ("average", 1), ("average", 0), ("upsample", 0))
    ],
    "fft": [{"batch": 3, "n": 30, "dims": dims} for dims in (1, 2)],
    "spmv": [{"rows": 57, "columns": 43, "nonzeros": 5, "pattern": pattern} for pattern in ("random", "banded")],
    "stencil": [{"points": points, "width": 13, "height": 7, "depth": depth} for points, depth in ((5, 1), (7, 5), (27, 5))],
    "reduce": [{"op": op, "elements": 1237} for op in ("sum", "max", "norm")],
    "scan": [{"elements": 1237}],
    "sort": [{"elements": 1237}],
    "histogram": [{"elements": 1237, "bins": 37}],
    "montecarlo": [{"paths": 1237, "steps": 3}],
}
NOT_RUN = {"fp8", "int8"}  # types that PyTorch may have no operator of on a CPU; transforms of fp16 neither


def cases() -> Iterator[Any]:
    for name, given in ODD.items():
        dtype = work.find(name).param("dtype")
        for params, one in itertools.product(given, dtype.choices if dtype else ("",)):
            words = {**params, **({"dtype": one} if one else {})}
            yield pytest.param(name, words, id="-".join([name, *map(str, words.values())]))


@pytest.fixture(scope="module")
def target() -> Any:
    try:
        spec = targets.parse("torch:cpu")
        return targets.open_device(spec, targets.find(spec)[0])
    except HotlapError as error:
        pytest.skip(str(error))


@pytest.fixture(autouse=True)
def one_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rotation past the caches is for timing."""
    monkeypatch.setattr(harness, "MOST_SETS", 1)


def made(target: Any, name: str, given: Mapping[str, Any]) -> tuple[Case, Operator]:
    case = Case(workload=name, params=work.find(name).parse(given))
    module = importlib.import_module(f"hotlap.core.measure.workloads.operators.{FAMILIES[name]}")
    return case, module.operator(case, target.library)


@pytest.mark.parametrize(("name", "given"), list(cases()))
def test_every_type_is_right_at_odd_sizes(target: Any, name: str, given: dict[str, Any]) -> None:
    try:
        case, operator = made(target, name, given)
        check = harness.prepared(target, case, operator, np.random.default_rng(3)).check()
    except NotSupported as reason:
        refused = str(reason)
    else:
        assert check.passed, check
        assert check.tolerance is not None
        return
    assert given.get("dtype") in NOT_RUN or (name, given.get("dtype")) == ("fft", "fp16"), refused
    assert given["dtype"] in refused or "PyTorch refuses" in refused


HARD = [  # what cancels or falls below the smallest normal number in honest kernels
    ("attention", {"op": "backward", "query": 512, "kv": 512, "heads": 2, "kv_heads": 2, "head_dim": 64, "dtype": "fp16", "kv_dtype": "fp16"}),
    *(("rowwise", {"op": op, "rows": 1009, "columns": columns, "dtype": dtype})
      for op in ("layernorm", "layernorm_backward", "groupnorm", "groupnorm_backward") for columns in (2, 3) for dtype in ("fp32", "bf16")),
    *(("rowwise", {"op": op, "rows": 1009, "columns": 1, "dtype": "fp32"}) for op in ("layernorm", "layernorm_backward")),
    *(("transpose", {"rows": rows, "columns": columns, "dtype": "bf16"}) for rows, columns in ((1, 64), (64, 1))),
    ("conv", {"op": "input_gradient", "dtype": "fp16", "depth": 4, "filter": 7, "pad": 3, "images": 1, "channels": 16, "filters": 16, "height": 8, "width": 8}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given"), HARD, ids=lambda one: one if isinstance(one, str) else "-".join(map(str, one.values())))
def test_an_honest_kernel_is_right_where_its_parts_cancel(target: Any, name: str, given: dict[str, Any]) -> None:
    case, operator = made(target, name, given)
    for seed in range(4):
        check = harness.prepared(target, case, operator, np.random.default_rng(seed)).check()
        assert check.passed, check


def perturbed(launch: Callable[[Any], Any], at: int) -> Callable[[Any], Any]:
    """One element of output `at` is another than it should be."""

    def call(inputs: Any) -> Any:
        found = launch(inputs)
        outputs = list(found) if isinstance(found, (tuple, list)) else [found]
        one = outputs[at].clone() if at else outputs[at]
        flat = one.view(-1) if one.is_contiguous() else one.reshape(-1)
        place = int(flat.double().abs().argmax())
        if one.dtype is torch.bool:
            flat[place] = ~flat[place]
        elif one.is_floating_point():
            value = float(flat[place])
            flat[place] = value * 0.5 - math.copysign(1.0, value)  # of no value the same
        else:
            flat[place] = flat[place - 1] if len(flat) > 1 and int(flat[place - 1]) != int(flat[place]) else 0
        outputs[at] = flat.view(one.shape)
        return outputs

    return call


def skipped(operator: Operator) -> Callable[[Any], Any]:
    """The last eighth of the first output is what was in memory before: a tail left out."""

    def call(inputs: Any) -> Any:
        before = {name: inputs[name].clone() for name in operator.writes}
        found = operator.launch(inputs)
        outputs = list(found) if isinstance(found, (tuple, list)) else [found]
        flat = outputs[0].reshape(-1).clone()
        tail = max(flat.numel() // 8, 1)
        if operator.writes:
            old = before[operator.writes[0]].reshape(-1)
            flat[-tail:] = old[-tail:]
        else:
            flat[-tail:] = 0
        return [flat.view(outputs[0].shape), *outputs[1:]]

    return call


ALL = [pytest.param(name, params, id="-".join([name, *map(str, params.values())])) for name, given in ODD.items() for params in given]


@pytest.mark.parametrize(("name", "given"), ALL)
def test_one_wrong_element_is_caught_in_every_output(target: Any, name: str, given: dict[str, Any]) -> None:
    case, operator = made(target, name, {**given, **({"dtype": "fp32"} if work.find(name).param("dtype") else {})})
    found = operator.launch(operator.inputs(harness.Tensors(target.library, "cpu", 1)))
    for at in range(len(found) if isinstance(found, (tuple, list)) else 1):
        wrong = replace(operator, launch=perturbed(operator.launch, at))
        check = harness.prepared(target, case, wrong, np.random.default_rng(3)).check()
        assert not check.passed, (at, check)


@pytest.mark.parametrize(("name", "given"), ALL)
def test_a_skipped_tail_is_caught(target: Any, name: str, given: dict[str, Any]) -> None:
    case, operator = made(target, name, {**given, **({"dtype": "fp32"} if work.find(name).param("dtype") else {})})
    wrong = replace(operator, launch=skipped(operator))
    assert not harness.prepared(target, case, wrong, np.random.default_rng(3)).check().passed


def test_a_reduction_that_skips_part_of_its_input_is_caught(target: Any) -> None:
    for name, given, short in (
        ("reduce", {"op": "sum"}, lambda x: x[:-1].sum()),
        ("reduce", {"op": "norm"}, lambda x: torch.linalg.vector_norm(x[: len(x) * 99 // 100])),
        ("histogram", {"bins": 37}, lambda x: torch.histc(x[:-1], 37, 0.0, 1.0)),
    ):
        case, operator = made(target, name, {**given, "elements": 12345})
        wrong = replace(operator, launch=lambda i, short=short: short(i["x"]))
        checks = [harness.prepared(target, case, wrong, np.random.default_rng(seed)).check() for seed in range(4)]
        assert not all(check.passed for check in checks), name  # one element of a sum may be zero, by chance


def test_a_largest_element_at_the_end_is_looked_for(target: Any) -> None:
    case, operator = made(target, "reduce", {"op": "max", "elements": 12345})
    wrong = replace(operator, launch=lambda i: i["x"][:-1].amax())
    checks = [harness.prepared(target, case, wrong, np.random.default_rng(seed)).check() for seed in range(12)]
    assert not all(check.passed for check in checks)


def test_a_transform_is_the_sum_that_defines_it(target: Any) -> None:
    """Against the definition in NumPy, not another library's transform."""
    _, operator = made(target, "fft", {"batch": 2, "n": 12, "dtype": "fp64"})
    inputs = operator.inputs(harness.Tensors(target.library, "cpu", 7))
    x = inputs["x"].numpy()
    turns = np.exp(-2j * np.pi * np.outer(np.arange(12), np.arange(12)) / 12)
    found = operator.launch(inputs).numpy()
    assert np.allclose(found[..., 0] + 1j * found[..., 1], (x[..., 0] + 1j * x[..., 1]) @ turns)


def test_the_price_of_an_option_is_that_of_black_and_scholes(target: Any) -> None:
    """Within five standard errors, for one step and for several."""
    from hotlap.core.measure.workloads.operators import science as s

    root = s.VOLATILITY * math.sqrt(s.YEARS)
    first = (math.log(s.SPOT / s.STRIKE) + (s.INTEREST + s.VOLATILITY**2 / 2) * s.YEARS) / root
    share = [0.5 * math.erfc(-d / math.sqrt(2)) for d in (first, first - root)]
    exact = s.SPOT * share[0] - s.STRIKE * math.exp(-s.INTEREST * s.YEARS) * share[1]
    paths = 200_000
    for steps in (1, 4):
        _, operator = made(target, "montecarlo", {"paths": paths, "steps": steps, "dtype": "fp64"})
        price = float(operator.launch(operator.inputs(harness.Tensors(target.library, "cpu", 11))))
        error = s.SPOT * root / math.sqrt(paths)  # the pay-off spreads less than the spot does
        assert abs(price - exact) < 5 * error
        assert abs(price - exact) > 0


def test_draws_follow_the_softmax(target: Any) -> None:
    """Many rows of the same scores: shares of tokens against their probabilities."""
    _, operator = made(target, "sampling", {"rows": 20_000, "columns": 5, "topk": 3})
    inputs = dict(operator.inputs(harness.Tensors(target.library, "cpu", 5)))
    scores = torch.tensor([0.0, 1.0, 2.0, 0.5, -1.0])
    inputs["x"] = scores.repeat(20_000, 1)
    share = torch.bincount(operator.launch(inputs), minlength=5) / 20_000
    expected = torch.tensor([0.0, *torch.softmax(torch.tensor([1.0, 2.0, 0.5]), 0).tolist(), 0.0])
    assert bool(((share - expected).abs() < 5 * (0.25 / 20_000) ** 0.5).all())


def test_tables_are_shared_between_sets_of_inputs(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "MOST_SETS", 3)
    case, operator = made(target, "embedding", {"tokens": 5, "columns": 8, "vocabulary": 100, "dtype": "fp32"})
    run = harness._Run(target, case, operator, np.random.default_rng(3), Guard())
    assert len({one["table"].data_ptr() for one in run.sets}) == 1
    assert len({tuple(one["index"].tolist()) for one in run.sets}) == 3


def test_what_is_not_computed_in_a_type_is_said(target: Any) -> None:
    with pytest.raises(NotSupported, match="no sigmoid of int8; with fp32, fp16, bf16 it has"):
        made(target, "pointwise", {"op": "sigmoid", "elements": 64, "dtype": "int8"})
    with pytest.raises(NotSupported, match="an even number of elements is needed, not 63"):
        made(target, "pointwise", {"op": "rope", "elements": 63})


def test_further_sets_are_copies_in_memory_of_their_own(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "MOST_SETS", 7)
    for name, given in (("pointwise", {"op": "silu_mul", "elements": 64}), ("spmv", {"rows": 32, "columns": 32, "nonzeros": 3})):
        case, operator = made(target, name, given)
        run = harness._Run(target, case, operator, np.random.default_rng(3), Guard())
        assert run.content == [0, 1, 2, 3, 0, 1, 2]
        assert [run._mark(one) for one in run.sets] == run.marks
        last = next(reversed(run.sets[0]))
        assert memory.equal(torch, [run.sets[0][last]], [run.sets[4][last]])
        assert not memory.equal(torch, [run.sets[0][last]], [run.sets[1][last]])
        places = [(one[last] if one[last].layout is torch.strided else one[last].values()).data_ptr() for one in run.sets]
        assert len(set(places)) == len(run.sets)


def test_a_swap_always_brings_other_content(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "MOST_SETS", 6)
    case, operator = made(target, "pointwise", {"op": "relu", "elements": 64})
    run = harness._Run(target, case, operator, np.random.default_rng(3), Guard())
    for of in (1, 5, 1, 5, 0, 4):
        before = run.marks[of]
        run._swap(of)
        assert run.marks[of] != before
        assert run.marks[of] == run._mark(run.sets[of])


def test_small_things_are_made_in_one_thread_and_the_number_comes_back() -> None:
    most = torch.get_num_threads()
    with footprint.threads(torch, True):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == most
    with footprint.threads(torch, False):
        assert torch.get_num_threads() == most
    assert torch.get_num_threads() == most


def test_an_output_in_new_memory_is_said_with_its_share_of_processor_time() -> None:
    x = torch.ones(1 << 24)
    out = torch.empty_like(x)
    for launch, new in ((lambda: torch.mul(x, 2.0), True), (lambda: torch.mul(x, 2.0, out=out), False)):
        launch()
        seen = footprint.NewMemory()
        for _ in range(4):
            seen.before()
            for _ in range(5):
                launch()
            seen.after(5)
        said = seen.notice()
        assert bool(said) is new, said
        assert not new or re.fullmatch(r"each call takes 6\S+ M\S+ of new memory from the operating system: \d+ % of its processor time", said)


def test_a_batch_norm_may_lose_what_of_its_mean_cancels(target: Any) -> None:
    """Libraries compute x·α + β with α in the type of the weights: this content was once called wrong."""
    case, operator = made(target, "rowwise", {"op": "batchnorm", "rows": 33, "columns": 77, "dtype": "fp16"})
    run = harness._Run(target, case, operator, np.random.default_rng(3), Guard())
    inputs = run._fresh(575700879)
    error, allowed = run._worst([operator.launch(inputs)], inputs)
    assert error < 0.5 * allowed

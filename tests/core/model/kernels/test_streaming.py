"""Streaming kernels and copies over a link: what must hold of any chip, bad input, and the stored coefficients on what was held out."""

import numpy as np
import pytest

from hotlap.core.errors import InputError
from hotlap.core.model import chips, machines
from hotlap.core.model.kernels import streaming, transfer
from hotlap.core.model.predict import predict
from hotlap.core.work import find

GPUS = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200", "l4", "rtx-4090", "mi300x", "t4")
CASES = [
    *(("pointwise", {"op": op, "elements": 2**24, "dtype": "bf16"}) for op in ("add", "silu_mul", "gelu", "relu", "rope", "copy", "scale")),
    *(
        ("rowwise", {"op": op, "rows": 4096, "columns": 4096, "dtype": "fp32"})
        for op in ("softmax", "layernorm", "rmsnorm", "sum", "quantise")
    ),
    ("embedding", {"tokens": 4096, "columns": 4096, "vocabulary": 128256, "dtype": "bf16"}),
    ("transpose", {"rows": 4096, "columns": 8192, "dtype": "fp16"}),
    ("stream", {"op": "triad", "dtype": "fp32", "size": 2**30, "cache": "warm"}),
    ("gather", {"pattern": "random", "stride": 16, "size": 2**30, "cache": "cold"}),
]


def chip(gpu="h100-sxm"):
    return chips.chip(machines.load(gpu))


def estimate(workload, gpu="h100-sxm", implementation="", **params):
    return streaming.estimate(workload, find(workload).parse(params), chip(gpu), implementation)


def seconds(workload, gpu="h100-sxm", implementation="", **params):
    return float(estimate(workload, gpu, implementation, **params).seconds[0])


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize(("workload", "params"), CASES)
def test_parts_add_up_and_nothing_beats_the_bandwidth(gpu, workload, params) -> None:
    found = estimate(workload, gpu, **params)
    assert sum(found.parts.values()) == pytest.approx(found.seconds)
    assert all((part >= 0).all() for part in found.parts.values())
    assert found.seconds[0] > found.demand.dram_bytes[0] / chip(gpu).memory_b_s


@pytest.mark.parametrize("op", ["rmsnorm", "softmax", "sum", "quantise"])
@pytest.mark.parametrize("changed", ["rows", "columns"])
def test_time_grows_with_each_size(op, changed) -> None:
    sizes = np.unique(np.geomspace(1, 2e5, 300).astype(int)).astype(float)
    params = {"op": op, "rows": 512.0, "columns": 4096.0, "dtype": "bf16", changed: sizes}
    times = streaming.estimate("rowwise", params, chip()).seconds
    assert np.all(np.diff(times) >= -1e-12)


def test_arrays_are_single_cases() -> None:
    rows = np.array([1.0, 32, 4096, 100_000])
    many = streaming.estimate("rowwise", {"op": "rmsnorm", "rows": rows, "columns": 8192.0, "dtype": "bf16"}, chip()).seconds
    alone = [seconds("rowwise", op="rmsnorm", rows=int(one), columns=8192) for one in rows]
    assert many == pytest.approx(alone)


def test_few_long_rows_wait_for_their_bytes_in_flight() -> None:
    few, many = (estimate("rowwise", op="sum", rows=rows, columns=2**22 // rows * 256) for rows in (8, 4096))
    assert max(few.parts, key=lambda name: few.parts[name][0]) == "bytes in flight"
    assert few.seconds[0] > 3 * many.seconds[0]


def test_a_row_that_no_unit_holds_is_read_twice_unless_several_share_it() -> None:
    """QuACK: torch.compile reads each row of 131,072 fp32 twice and reaches two thirds of a kernel that shares a row in a cluster."""
    shape = {"op": "softmax", "rows": 16384, "columns": 131072, "dtype": "fp32"}
    plain, shared = (seconds("rowwise", implementation=name, **shape) for name in ("", "quack"))
    assert plain / shared == pytest.approx(1.5, abs=0.05)
    short = {**shape, "columns": 32768}
    assert seconds("rowwise", **short) == seconds("rowwise", implementation="quack", **short)


def test_second_readings_spill_as_rows_in_work_fill_l2() -> None:
    spilled = [estimate("rowwise", op="quantise", rows=32768, columns=c).parts["row passes"][0] for c in (4096, 24576, 65536)]
    assert spilled[0] == 0 < spilled[1] < spilled[2]


def test_a_warm_working_set_within_l2_never_touches_memory() -> None:
    warm, cold, large = (
        estimate("stream", op="copy", size=size, cache=cache) for size, cache in ((2**24, "warm"), (2**24, "cold"), (2**30, "warm"))
    )
    assert warm.demand.dram_bytes[0] == 0 < cold.demand.dram_bytes[0] == 2**24
    assert warm.seconds[0] < cold.seconds[0]
    assert large.demand.dram_bytes[0] == 2**30
    assert not warm.inside[0]  # no L2 rate was fitted here, and it says so
    assert large.inside[0]


def test_single_elements_cost_whole_sectors() -> None:
    neighbours, sectors, beyond = (
        estimate("gather", pattern="strided", stride=stride, size=2**30, cache="cold").demand.dram_bytes[0] / (2**30 // 4 // (stride + 1))
        for stride in (1, 8, 64)
    )
    assert (neighbours, sectors, beyond) == pytest.approx((4 + 4, 32 + 4, 32 + 4), rel=1e-6)
    narrow, wide = (seconds("embedding", tokens=2**22 // columns, columns=columns) for columns in (2, 2048))
    assert narrow > 3 * wide
    column = seconds("transpose", rows=2**24, columns=1, dtype="fp32")
    assert column > 2 * seconds("transpose", rows=2**12, columns=2**12, dtype="fp32")


def test_a_call_timed_alone_takes_longer_by_a_constant() -> None:
    extra = [seconds("pointwise", implementation="alone", elements=n) - seconds("pointwise", elements=n) for n in (2**10, 2**28)]
    assert extra[0] == pytest.approx(extra[1])
    assert 1e-6 < extra[0] < 5e-6


def test_other_names_of_kernels_say_nothing() -> None:
    assert seconds("pointwise", implementation="triton_poi_fused_add_0") == seconds("pointwise")
    assert not estimate("transpose").inside[0]
    with pytest.raises(InputError, match="not a streaming kernel"):
        streaming.estimate("gemm", {}, chip())


@pytest.mark.parametrize(("direction", "share"), [("h2d", 0.84), ("d2h", 0.84), ("both", 0.84 * 0.9)])
def test_a_copy_to_the_host_takes_a_share_of_the_link(direction, share) -> None:
    found = predict("transfer", "h100-sxm", direction=direction, size="1 GiB")
    assert found.bound_s / found.expected_s == pytest.approx(share, rel=0.001)
    assert found.calibration_level == "constants that are assumed, from published figures"
    assert found.low_s >= found.bound_s


def test_what_cannot_be_expected_says_why() -> None:
    with pytest.raises(InputError, match="pageable memory"):
        transfer.estimate({"memory": "pageable", "direction": "h2d", "size": 1.0}, 63e9)
    assert "pageable memory" in " ".join(predict("transfer", "h100-sxm", memory="pageable", size="1 MiB").causes)
    assert predict("transfer", "b100", size="1 MiB").expected_s is None or predict("transfer", "b100", size="1 MiB").bound_s

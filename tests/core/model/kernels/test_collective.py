"""Collectives: properties that any machine must show, published figures, and the stored coefficients on the measurements."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from hotlap.cli import main
from hotlap.core.errors import InputError
from hotlap.core.model import chips, machines
from hotlap.core.model.kernels import collective, nccl
from hotlap.core.model.kernels.base import stored
from hotlap.core.model.predict import predict
from hotlap.core.work.networks import calls

MACHINES = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200", "v100-sxm2-32gb", "l40s", "rtx-pro-6000")
MIB = 2**20


def seconds(machine, **params):
    return collective.estimate(params, chips.chip(machines.load(machine))).seconds


def bus_b_s(machine, op, gpus, size, dtype="half"):
    """Bus bandwidth as nccl-tests defines it (doc/PERFORMANCE.md): 2(n−1)/n of the bytes for all-reduce, (n−1)/n for the others."""
    return (2 if op == "all_reduce" else 1) * (gpus - 1) / gpus * size / seconds(machine, op=op, gpus=gpus, bytes=size, dtype=dtype)[0]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("op", collective.OPS)
def test_more_bytes_never_take_less_time(machine, op) -> None:
    for gpus in (1, 2, 3, 4, 8, 16, 72, 512):
        found = seconds(machine, op=op, gpus=gpus, bytes=2 ** np.linspace(0, 42, 700))
        assert np.all(np.isfinite(found) & (found > 0))
        assert np.all(np.diff(found) >= -1e-9 * found[:-1])


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter"])
def test_more_gpus_take_longer_for_a_small_message(machine, op) -> None:
    found = seconds(machine, op=op, gpus=np.arange(2, 100), bytes=1024)
    assert np.all(np.diff(found) >= -1e-3 * found[:-1])


@pytest.mark.parametrize("machine", MACHINES)
def test_never_faster_than_the_link(machine) -> None:
    """(n − 1)/n of the buffer must enter or leave each GPU: no algorithm, nor the switch, goes below."""
    chip = chips.chip(machines.load(machine))
    for op in collective.OPS[:4]:
        for gpus in (2, 4, 8, 64):
            size = 2.0 ** np.arange(8, 36)
            found = seconds(machine, op=op, gpus=gpus, bytes=size)
            assert np.all(found > size * (1 - 1 / gpus) / (chip.link_b_s or chip.pcie_b_s))


def test_parts_add_up_and_arrays_are_single_cases() -> None:
    rng = np.random.default_rng(0)
    count = 200
    params = {
        "op": rng.choice(collective.OPS, count), "gpus": rng.choice([2, 4, 8, 16], count), "bytes": 2.0 ** rng.uniform(6, 33, count),
        "dtype": rng.choice(["half", "int8", "fp32"], count), "nodes": rng.choice([1, 2], count),
    }
    chip = chips.chip(machines.load("h100-sxm"))
    found = collective.estimate(params, chip)
    assert np.allclose(np.sum(list(found.parts.values()), axis=0), found.seconds, rtol=1e-12)
    assert all(np.all(part >= 0) for part in found.parts.values())
    assert set(found.parts) == set(collective.PARTS)
    for i in range(0, count, 17):
        alone = collective.estimate({name: values[i] for name, values in params.items()}, chip)
        assert alone.seconds[0] == pytest.approx(found.seconds[i], rel=1e-12)


@pytest.mark.parametrize(("machine", "published", "tolerance"), [("a100-sxm-80gb", 222e9, 0.06), ("h100-sxm", 446e9, 0.06), ("b200", 704e9, 0.15)])
def test_bus_bandwidth_of_a_large_all_reduce_over_eight(machine, published, tolerance) -> None:
    """aiconfigurator 2026-08, highest bus bandwidth measured: A100 222, H100 446, B200 704 GB/s. What a switch keeps is NCCL's figure."""
    assert bus_b_s(machine, "all_reduce", 8, 512 * MIB) == pytest.approx(published, rel=tolerance)


def test_whole_numbers_are_not_added_in_the_switch() -> None:
    """512 MiB over 8 × H100: 2.11 ms in fp16, 2.68 ms in int8 (aiconfigurator, NCCL 2.29.2)."""
    found = seconds("h100-sxm", op="all_reduce", gpus=8, bytes=512 * MIB, dtype=np.array(["half", "int8"]))
    assert found == pytest.approx([2.11e-3, 2.68e-3], rel=0.07)


def test_steps_of_a_ring() -> None:
    """2(n − 1) for all-reduce, n − 1 for all-gather and reduce-scatter: nccl-tests doc/PERFORMANCE.md."""
    chip = chips.chip(machines.load("h100-sxm"))
    found = collective.estimate({"op": ["all_reduce", "all_gather", "reduce_scatter"], "gpus": 8, "bytes": 2**29}, chip)
    assert found.choice["steps"].tolist() == [14, 7, 7]


def test_protocol_goes_from_flagged_to_bulk() -> None:
    chip = chips.chip(machines.load("h100-sxm"))
    half = collective.estimate({"op": "all_reduce", "gpus": 8, "bytes": [1024, 2**29]}, chip).choice["protocol"].tolist()
    assert half == ["LL", "NVLS"]
    assert collective.estimate({"op": "all_reduce", "gpus": 8, "bytes": 2**29, "dtype": "int8"}, chip).choice["protocol"].tolist() == ["Simple"]
    assert collective.estimate({"op": "all_reduce", "gpus": 8, "bytes": 2**29}, chips.chip(machines.load("a100-sxm-80gb"))).choice["protocol"] == "Simple"


def test_two_nodes_wait_for_the_network() -> None:
    """128 MiB a GPU's share of 1 GiB over 8: half of twice that crosses a 50 GB/s NIC, 2.7 ms."""
    within, between = (seconds("h100-sxm", op="all_reduce", gpus=8 * n, nodes=n, bytes=2**30)[0] for n in (1, 2))
    assert between - within == pytest.approx(2**30 / 8 / 50e9 + 2 * collective.NETWORK_LATENCY_S, rel=1e-6)


def test_domain() -> None:
    chip = chips.chip(machines.load("h100-sxm"))
    found = collective.estimate({"op": "all_reduce", "gpus": [8, 16, 8], "bytes": [MIB, MIB, 2**40]}, chip)
    assert found.inside.tolist() == [True, False, False]
    assert not collective.estimate({"op": "broadcast", "gpus": 8, "bytes": MIB}, chip).inside[0]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"op": "allreduce"}, "did you mean 'all_reduce'"), ({"gpus": 0}, "'gpus' must be above 0"), ({"bytes": -1}, "'bytes' must be above 0"),
        ({"bytes": float("nan")}, "'bytes'"), ({"gpus": 9, "nodes": 2}, "multiple of 'nodes'"), ({"dtype": "bf61"}, "did you mean 'bf16'"),
        ({"byte": 1}, "did you mean 'bytes'"), ({"gpus": "many"}, "must be a number"),
    ],
)
def test_bad_input(change, says) -> None:
    with pytest.raises(InputError, match=says):
        seconds("h100-sxm", **{"op": "all_reduce", "gpus": 8, "bytes": MIB, **change})


def test_nodes_that_cannot_share_the_gpus_evenly_are_one_clear_line(capsys) -> None:
    assert main(["predict", "collective", "gpus=16", "nodes=3", "size=1 GiB", "--machine", "h100-sxm", "--spec-only"]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert "16 GPUs ('gpus': of all nodes) cannot be spread evenly over 3 nodes" in captured.err
    assert "divisor of 16" in captured.err
    with pytest.raises(InputError, match="17 GPUs"):
        predict("collective", "h100-sxm", gpus=[17, 15], nodes=[2, 2], size=2**30)
    assert np.array_equal(np.isnan(predict("collective", "h100-sxm", gpus=[16, 15], nodes=[2, 2], size=2**30).expected_s), [False, True])


def test_what_is_assumed_between_nodes_is_said() -> None:
    one, two = (predict("collective", "h100-sxm", gpus=16 // (3 - nodes), nodes=nodes, size=2**30) for nodes in (1, 2))
    assert "assumed" not in one.calibration_level
    assert "a link of 50 GB/s and 5 µs for each GPU is assumed" in two.calibration_level
    assert "assumed" in two.provenance[-1].source
    assert two.parts["network"] == pytest.approx(2**30 / 8 / 50e9 + 2 * 5e-6)


@pytest.mark.parametrize(("gpus", "apart", "nodes"), [(8, 1, 1), (9, 1, 3), (12, 1, 2), (16, 1, 2), (3, 16, 3), (8, 2, 2), (7, 4, 7)])
def test_a_group_of_a_network_spans_nodes_evenly(gpus: int, apart: int, nodes: int) -> None:
    """Of 8 GPUs a node, every `apart`-th is of the group: 7 that stand 4 apart fit 2 a node, but only 7 nodes hold as many each."""
    assert calls.nodes(gpus, apart) == nodes


def test_missing_facts() -> None:
    with pytest.raises(InputError, match="needs 'bytes'"):
        seconds("h100-sxm", op="all_reduce", gpus=8)
    for machine in ("mi300x", "arc-b580"):
        found = predict("collective", machine, op="all_reduce", gpus=8, size=MIB)
        assert found.expected_s is None
        assert "needs the link between the GPUs" in " ".join(str(note) for note in found.notes)
    alone = dataclasses.replace(chips.chip(machines.load("gb200")), link_b_s=None)
    with pytest.raises(InputError, match="neither it nor PCI Express"):
        collective.estimate({"op": "all_reduce", "gpus": 8, "bytes": MIB}, alone)


def test_a_box_without_nvlink_goes_over_pci_express() -> None:
    """2, 4 and 8 × L40S, 512 MiB of an all-gather: 13.7, 85 and 398 ms (aiconfigurator): the box gives more GPUs less each."""
    found = seconds("l40s", op="all_gather", gpus=np.array([2, 4, 8]), bytes=512 * MIB)
    assert found == pytest.approx([13.7e-3, 85e-3, 398e-3], rel=0.15)
    gen5 = seconds("rtx-pro-6000", op="all_gather", gpus=np.array([2, 4, 8]), bytes=512 * MIB)
    assert found / gen5 == pytest.approx([2, 2, 2], rel=0.02)
    assert predict("collective", "l40s", op="all_gather", gpus=2, size=512 * MIB).limiter == "link"


@pytest.mark.parametrize(
    ("machine", "op", "gpus", "last", "then"),
    [
        ("a100-sxm-80gb", "all_gather", 2, 1, "Simple"), ("a100-sxm-80gb", "all_gather", 8, 2, "LL128"), ("h100-sxm", "all_gather", 4, 2, "Simple"),
        ("b200", "all_gather", 4, 4, "Simple"), ("b200", "all_gather", 8, 8, "Simple"), ("l40s", "all_gather", 8, 0.5, "Simple"), ("h100-sxm", "all_reduce", 8, 1, "NVLS"),
    ],
)
def test_the_flagged_protocol_ends_where_the_tuner_says_and_times_jump(machine, op, gpus, last, then) -> None:
    """Sizes in MiB between which measured times leave the line of LL (aiconfigurator); the tuner's constants are published, none is fitted."""
    chip = chips.chip(machines.load(machine))
    found = collective.prepared({"op": op, "gpus": gpus, "bytes": np.array([last, 2 * last]) * MIB, "dtype": "half"}, chip)
    assert np.argmax(found.running, axis=0).tolist() == [0, nccl.PROTOCOLS.index(then)]


def test_a_link_of_the_same_generation_starts_alike_and_an_unmeasured_one_as_the_mean() -> None:
    small = {name: seconds(name, op="all_reduce", gpus=8, bytes=1024)[0] for name in ("b200", "gb200", "h100-sxm", "h200-sxm", "v100-sxm2-32gb")}
    assert small["gb200"] == pytest.approx(small["b200"], rel=0.1)
    assert small["h200-sxm"] == small["h100-sxm"]
    table = {name: values for name, values in stored("collective").items() if not name.startswith("nvlink")}
    chip = chips.chip(machines.load("v100-sxm2-32gb"))
    assert collective.estimate({"op": "all_reduce", "gpus": 8, "bytes": 1024}, chip, coefficients=table).seconds[0] == small["v100-sxm2-32gb"]

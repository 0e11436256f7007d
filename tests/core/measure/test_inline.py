"""hotlap.measure: the loop on a callable of one's own."""

from __future__ import annotations

import time

import pytest

import hotlap
from hotlap.core.analysis.lasting import deadlines
from hotlap.core.errors import InputError


def test_a_sleep_takes_as_long_as_it_sleeps() -> None:
    result = hotlap.measure(time.sleep, 0.005, rounds=3, rounds_max=3, round_s=0.1)
    assert len(result.values) >= 3  # one that was disturbed is measured again
    assert all(0.005 <= v < 5 for v in result.values)  # no longer than it was told, but for a machine that is busy
    assert (result.unit, result.better) == ("s", "lower")
    assert "sleep" in str(result.case.params["name"])


def test_rounds_of_one_process_are_said_to_be_so() -> None:
    result = hotlap.measure(sum, range(100), rounds=2, round_s=0.05)
    assert "one_process" in {f.code for f in result.notices}


def test_fast_callables_are_batched() -> None:
    result = hotlap.measure(int, rounds=1, round_s=0.05)
    assert result.rounds[0].calls > 100
    assert 1e-9 < result.values[0] < 1e-4


def test_against_a_deadline_calls_are_single_and_none_is_warm_up() -> None:
    result = hotlap.measure(time.sleep, 0.002, rounds=2, rounds_max=2, round_s=0.1, deadline_s=0.001)
    assert {one.calls for one in result.rounds} == {1}
    assert {one.warmup_samples for one in result.rounds} == {0}
    assert deadlines(result, 0.001).share == 1.0  # no sleep is shorter than asked


def test_what_it_does_can_be_said() -> None:
    result = hotlap.measure(bytes, bytearray(4096), work={"bytes": "4 KiB"}, rounds=1, round_s=0.05)
    assert result.case.params["bytes"] == 4096
    with pytest.raises(InputError, match="byts"):
        hotlap.measure(int, work={"byts": 1}, rounds=1)


def test_an_exception_passes_through() -> None:
    def broken() -> None:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        hotlap.measure(broken)


def test_pytorch_waits_for_its_device() -> None:
    torch = pytest.importorskip("torch")
    a = torch.ones(256, 256)
    result = hotlap.measure(torch.matmul, a, a, target="torch:cpu", rounds=1, round_s=0.1)
    assert result.target == "torch"
    assert result.values[0] > 0

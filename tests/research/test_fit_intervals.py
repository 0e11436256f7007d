"""Stated intervals: learnt from made-up misses of machines, judged on machines that they had not seen; predictions that are kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from research import accuracy
from research.fit import intervals
from research.fit.data import FOLDS, Rows, none
from research.fit.intervals import Missed

COUNT = 4000


def missed(level: str, machine: str, bias: float, scatter: float, seed: int, part: str = "") -> Missed:
    """Rows whose measured time is log-normal about `bias` times the expected one, in all regimes."""
    random, group = np.random.default_rng(seed), np.arange(COUNT) % 50
    expected = np.exp(random.uniform(np.log(5e-6), np.log(1e-3), COUNT))
    measured = expected * bias * np.exp(random.normal(0, scatter, COUNT))
    return Missed(level, machine, np.full(COUNT, part), expected, measured, group % FOLDS, group)


MACHINES = [missed("spec", f"machine {n}", bias, 0.15, n) for n, bias in enumerate((0.8, 1.25, 0.9, 1.1))]


def test_one_machines_bias_is_the_next_ones_scatter() -> None:
    """All machines are slow here, which the interval does not take for granted of another one."""
    table = intervals.learnt("gemm", [missed("spec", f"machine {n}", 1.3, 0.1, n) for n in range(3)])
    for limits in table.values():
        assert limits["low"] == pytest.approx(1 / limits["high"])
        assert limits["high"] == pytest.approx(np.exp(intervals.WIDER["spec"] * (np.log(1.3) + 1.28 * 0.1)), rel=0.05)


def test_of_a_fitted_machine_the_interval_follows_its_bias() -> None:
    limits = intervals.learnt("gemm", [missed("fitted", "machine", 1.3, 0.1, 0)])["middle"]
    assert limits["low"] == pytest.approx(1.3 * np.exp(-1.645 * 0.1), rel=0.02)
    assert limits["high"] == pytest.approx(1.3 * np.exp(1.645 * 0.1), rel=0.02)


def test_a_machine_is_judged_by_the_others() -> None:
    wild = missed("spec", "wild", 4.0, 0.1, 9)
    by_machine = {one.machine: one for one in [*MACHINES, wild]}
    lines = list(intervals.held("family", list(by_machine.values())))
    assert {one.place for one in lines} == {"short", "middle", "long"}
    assert all(0.75 < one.share < 0.85 for one in lines)  # four of five machines: what is only the wild one's holds nothing of it


def test_alike_machines_learn_from_each_other_and_others_stand_in() -> None:
    twins = [missed("generation", name, 1.0, 0.05, n) for n, name in enumerate("ab")]
    others = [one._replace(part=np.full(COUNT, "fp8")) for one in MACHINES]
    table = intervals.by_level("gemm", [*twins, *others])["generation"]
    assert table["middle"]["high"] == pytest.approx(np.exp(1.645 * 0.05), rel=0.03)
    assert table["fp8.middle"]["high"] > 1.2
    assert table["fp8.middle"]["rows"] == sum((one.regime == 1).sum() for one in MACHINES)


def test_what_is_kept_is_not_fitted_again(tmp_path: Path) -> None:
    fitted = list[str]()

    def held_out(family: str, data: object) -> list[np.ndarray]:
        fitted.append(family)
        return [np.arange(3.0)]

    data = [none("b200")._replace(seconds=np.ones(3))]
    first, second = (accuracy.kept(held_out, "gemm", data, tmp_path) for _ in range(2))
    assert fitted == ["gemm"]
    assert first[0].tolist() == second[0].tolist() == [0.0, 1.0, 2.0]
    longer: list[Rows] = [data[0]._replace(seconds=np.ones(4))]
    accuracy.kept(held_out, "gemm", longer, tmp_path)
    assert fitted == ["gemm", "gemm"]  # other rows

"""Traces that the simulated GPU writes."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from hotlap.core import work
from hotlap.core.errors import MachineError
from hotlap.core.measure import targets
from hotlap.core.measure.targets import simulated
from hotlap.core.measure.targets.simulated import SimulatedTarget
from hotlap.core.measure.targets.simulated_timeline import SimulatedProgram
from hotlap.core.record import Case

GEMM = Case(workload="gemm", params=work.find("gemm").parse({"dtype": "bf16", "m": 2048, "n": 2048, "k": 2048}))


def target(options: str = "") -> SimulatedTarget:
    spec = targets.parse(f"simulated:h200-sxm{options}")
    return simulated.open(simulated.find(spec.part, spec.options)[0], spec.options)


def events(program: SimulatedProgram, tmp_path: Path, category: str) -> list[dict[str, float]]:
    program.write(tmp_path / "trace.json")
    written = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    return [one for one in written if one["cat"] == category]


def test_a_kernel_takes_what_the_card_takes(tmp_path: Path) -> None:
    one = target()
    expected_s = one.time(one.prepare(GEMM).enqueue, 1).device_s
    assert expected_s is not None
    program = SimulatedProgram(target())
    program.launch("aten::mm", "gemm", GEMM)
    (kernel,) = events(program, tmp_path, "kernel")
    assert kernel["dur"] == pytest.approx(expected_s * 1e6, rel=0.01)


def test_kernels_queue_behind_each_other_and_a_wait_ends_after_the_last(tmp_path: Path) -> None:
    program = SimulatedProgram(target())
    for _ in range(5):
        program.launch("aten::mm", "gemm", GEMM)
    assert program.host_s < program.done_s  # the host runs ahead
    program.synchronise()
    assert program.host_s > program.done_s
    kernels = events(program, tmp_path, "kernel")
    for before, after in pairwise(kernels):
        assert after["ts"] >= before["ts"] + before["dur"]


def test_a_fault_of_the_card_shows_in_the_trace(tmp_path: Path) -> None:
    lengths = []
    for options in ("?efficiency=1.0", "?efficiency=0.5"):
        program = SimulatedProgram(target(options))
        program.launch("aten::mm", "gemm", GEMM)
        lengths.append(events(program, tmp_path, "kernel")[0]["dur"])
    assert lengths[1] == pytest.approx(2 * lengths[0], rel=0.1)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="cannot be written"):
        SimulatedProgram(target()).write(tmp_path / "none" / "trace.json")

"""Differences of traces: what is matched, and that the parts add up to the whole."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from marked import launch, marker, opened, operator, step, written

from hotlap.core.errors import InputError
from hotlap.traces.cli import diff as trace_diff
from hotlap.traces.diff import DiffPart, TraceDiff, diff
from hotlap.traces.matching import pairs
from hotlap.traces.show import diff as printing
from hotlap.traces.spending import COMMUNICATION, COMPUTE, COPIES, SpendingGroup, exclusive
from hotlap.traces.timeline import Timeline

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "traces"


def adds_up(found: TraceDiff) -> None:
    """To less than a nanosecond: of the whole, and of each way to cut it."""
    for side in ("a_s", "b_s", "delta_s"):
        parts, idle = (sum(getattr(one, side) for one in several) for several in (found.parts, found.idle))
        whole = found.delta_s if side == "delta_s" else getattr(found, side[0]).whole_s
        assert parts + idle == pytest.approx(whole, abs=1e-9)
        for cut in (found.classes, found.operators):
            assert sum(getattr(one, side) for one in cut) == pytest.approx(parts, abs=1e-9)
        if found.a.devices:
            assert sum(getattr(one, side) for one in found.gaps) == pytest.approx(idle, abs=1e-9)


def program(kernels: dict[str, tuple[str, float]], steps: int = 4, gap: float = 10) -> list[dict[str, Any]]:
    """Steps of 1 ms: per operator one kernel of a length, one after the other with a gap between."""
    events: list[dict[str, Any]] = []
    for i in range(steps):
        at, busy = 1000.0 * i, 1000.0 * i + 50
        events.append(step(i, at, 990))
        for n, (name, (kernel, length)) in enumerate(kernels.items()):
            events.append(operator(name, at + 10 + 10 * n, 8))
            events += launch(kernel, 100 * i + n + 1, at + 12 + 10 * n, busy, length)
            busy += length + gap
    return events


BASE = {"aten::mm": ("gemm_a", 200.0), "aten::relu": ("relu_kernel", 50.0), "aten::sum": ("reduce_kernel", 30.0)}


def both(path: Path, a: list[dict[str, Any]], b: list[dict[str, Any]]) -> TraceDiff:
    found = diff(opened(path / "a.json", a), opened(path / "b.json", b))
    adds_up(found)
    return found


def by_b(found: TraceDiff) -> dict[str, DiffPart]:
    return {one.b or one.a: one for one in found.parts}


def test_a_trace_and_itself_differ_in_nothing(tmp_path: Path) -> None:
    found = both(tmp_path, program(BASE), program(BASE))
    assert found.delta_s == 0
    assert {one.how for one in found.parts} == {"same"}
    assert (found.a.matched_time, found.b.matched_calls, found.program) == (1.0, 1.0, "same")
    # The last of 4 steps holds 200 + 50 + 30 µs of kernels and two gaps of 10 µs; the first three begin 1 ms apart.
    assert found.a.whole_s == pytest.approx((3 * 1000 + 300) / 4 * 1e-6)


def test_a_slower_kernel_is_the_whole_difference(tmp_path: Path) -> None:
    slow = program(BASE | {"aten::relu": ("relu_kernel", 90.0)})
    found = both(tmp_path, program(BASE), slow)
    (first, *rest) = found.parts
    assert (first.a, first.how, first.a_calls, first.b_calls) == ("relu_kernel", "same", 1, 1)
    assert first.delta_s == pytest.approx(40e-6)
    assert (first.a_each_s, first.b_each_s) == (pytest.approx(50e-6), pytest.approx(90e-6))
    assert all(one.delta_s == pytest.approx(0, abs=1e-12) for one in rest)
    # Steps are 1 ms apart in both, so 3 of 4 gaps between steps are shorter by what the kernel is longer.
    assert sum(one.delta_s for one in found.idle) == pytest.approx(-30e-6)
    assert found.delta_s == pytest.approx(10e-6)


def test_another_kernel_in_the_same_operator_is_a_replacement(tmp_path: Path) -> None:
    found = by_b(both(tmp_path, program(BASE), program(BASE | {"aten::mm": ("cutlass_tensorop", 120.0)})))
    one = found["cutlass_tensorop"]
    assert (one.a, one.how, one.operator) == ("gemm_a", "replaced", "aten::mm")
    assert one.delta_s == pytest.approx(-80e-6)


def test_the_same_kernel_below_another_operator_has_moved(tmp_path: Path) -> None:
    other = {"aten::linear" if name == "aten::mm" else name: one for name, one in BASE.items()}
    one = by_b(both(tmp_path, program(BASE), program(other)))["gemm_a"]
    assert (one.how, one.operator, one.delta_s) == ("moved", "aten::linear", pytest.approx(0, abs=1e-12))


def test_a_renamed_kernel_of_a_renamed_operator_is_found_by_order(tmp_path: Path) -> None:
    other = {"triton::relu_0" if name == "aten::relu" else name: one for name, one in BASE.items()}
    other["triton::relu_0"] = ("triton_relu", 45.0)
    one = by_b(both(tmp_path, program(BASE), program(other)))["triton_relu"]
    assert (one.a, one.how) == ("relu_kernel", "renamed")


def test_what_appeared_and_vanished(tmp_path: Path) -> None:
    more = {**{k: v for k, v in BASE.items() if k != "aten::relu"}, "aten::copy_": ("zzz", 25.0)}
    found = by_b(both(tmp_path, program(BASE), program(more)))
    assert (found["zzz"].how, found["zzz"].a, found["zzz"].delta_s) == ("appeared", "", pytest.approx(25e-6))
    assert (found["relu_kernel"].how, found["relu_kernel"].b, found["relu_kernel"].delta_s) == ("vanished", "", pytest.approx(-50e-6))


def test_traces_of_two_programs_are_called_so(tmp_path: Path) -> None:
    found = both(tmp_path, program(BASE), program({"x::y": ("qqq", 40.0), "x::z": ("ppp", 70.0)}))
    assert found.program == "another"
    assert (found.a.matched_time, found.b.matched_time) == (0, 0)
    assert "These are hardly traces of one program" in printing.diff(found, 100)


def test_idle_by_cause_and_by_what_ends_it(tmp_path: Path) -> None:
    found = both(tmp_path, program(BASE), program(BASE, gap=25))
    queue = next(one for one in found.idle if one.a == "queue")
    assert queue.delta_s == pytest.approx(2 * 15e-6)  # two gaps in a step
    assert {one.a for one in found.gaps if one.what == "queue" and one.delta_s > 1e-9} == {"relu_kernel", "reduce_kernel"}


def test_without_steps_on_one_side_windows_are_compared(tmp_path: Path) -> None:
    bare = [one for one in program(BASE) if not one["name"].startswith("ProfilerStep")]
    found = both(tmp_path, program(BASE), bare)
    assert (found.per, found.delta_s, found.noise_s) == ("window", 0, None)
    assert "only one of them marks its steps" in printing.diff(found, 120)


def test_several_devices_count_as_their_mean(tmp_path: Path) -> None:
    two = program(BASE)
    for event in program(BASE):
        if event["cat"] == "kernel":
            args = event["args"] | {"device": 1, "correlation": event["args"]["correlation"] + 5000}
            two += [event | {"pid": 1, "args": args}]
        elif event["cat"] == "cuda_runtime":
            two.append(event | {"args": {"correlation": event["args"]["correlation"] + 5000}})
    found = both(tmp_path, program(BASE), two)
    assert (found.a.devices, found.b.devices) == (1, 2)
    assert found.delta_s == pytest.approx(0, abs=1e-12)


def test_work_outside_of_steps_is_outside_of_the_window(tmp_path: Path) -> None:
    late = [*program(BASE), *launch("warm_up", 901, 5000, 5010, 400)]
    found = both(tmp_path, program(BASE), late)
    assert found.delta_s == 0
    assert "warm_up" not in by_b(found)


def test_communication_is_a_class_of_its_own_and_stands_behind_compute(tmp_path: Path) -> None:
    talk = [*program(BASE), *launch("ncclDevKernel_AllReduce", 901, 40, 240, 20, stream=2)]  # 10 µs behind gemm_a, 10 µs in the gap
    classes = {one.a: one.delta_s for one in both(tmp_path, program(BASE), talk).classes}
    assert classes == {"compute": pytest.approx(0, abs=1e-12), "communication": pytest.approx(10e-6 / 4)}


def test_noise_is_two_standard_errors_by_hand(tmp_path: Path) -> None:
    uneven = program(BASE)
    for i, event in enumerate(one for one in uneven if one["name"] == "reduce_kernel"):
        event["dur"] += 10 * (i % 2)
    one = by_b(both(tmp_path, uneven, program(BASE)))["reduce_kernel"]
    # 30, 40, 30, 40 µs: variance 33.3 µs², of the mean of 4 8.33 µs², its root 2.887 µs
    assert one.noise_s == pytest.approx(2 * 2.887e-6, rel=1e-3)
    assert one.delta_s == pytest.approx(-5e-6)


def test_exclusive_time_by_hand() -> None:
    # compute 0–10 and 5–12; communication 8–20; a copy 15–30 and one inside the compute
    start = np.array([0, 2, 5, 8, 15])
    end = np.array([10, 4, 12, 20, 30])
    kind = np.array([COMPUTE, COPIES, COMPUTE, COMMUNICATION, COPIES])
    assert exclusive(start, end, kind).tolist() == [10, 0, 2, 8, 10]


def test_exclusive_times_add_up_to_the_union_whatever_overlaps() -> None:
    rng = np.random.default_rng(3)
    start = np.sort(rng.integers(0, 1000, 400))
    end = start + rng.integers(0, 40, 400)
    own = exclusive(start, end, rng.integers(0, 3, 400))
    covered = np.zeros(1100, bool)
    for s, e in zip(start, end, strict=True):
        covered[s:e] = True
    assert own.sum() == covered.sum()
    assert own.min() >= 0


def host(relu: float, nested: float) -> list[dict[str, Any]]:
    """Steps of a program on the processor: linear with addmm inside, relu, and a wait for data outside of operators."""
    events: list[dict[str, Any]] = []
    for i in range(4):
        at = 1000.0 * i
        events += [step(i, at, 1000), marker("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at + 1, 99)]
        events += [operator("aten::linear", at + 100, 20 + nested), operator("aten::addmm", at + 110, nested), operator("aten::relu", at + 700, relu)]
    return events


def test_on_the_host_operators_count_without_those_inside(tmp_path: Path) -> None:
    found = both(tmp_path, host(relu=50, nested=200), host(relu=120, nested=150))
    parts = by_b(found)
    assert found.a.devices == 0
    assert {name: round(one.a_s * 1e6) for name, one in parts.items()} == {"aten::linear": 20, "aten::addmm": 200, "aten::relu": 50}
    assert {name: round(one.delta_s * 1e6) for name, one in parts.items()} == {"aten::linear": 0, "aten::addmm": -50, "aten::relu": 70}
    assert {one.a: round(one.delta_s * 1e6) for one in found.idle} == {"outside": -20, "data_loader": 0}
    assert next(one for one in found.idle if one.a == "data_loader").a_s == pytest.approx(99e-6)
    assert parts["aten::relu"].noise_s == pytest.approx(0, abs=1e-12)


def test_traces_that_cannot_be_compared(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'.*a.json' ran on a device and '.*b.json' did not"):
        diff(opened(tmp_path / "a.json", program(BASE)), opened(tmp_path / "b.json", host(50, 50)))
    with pytest.raises(InputError, match="no work on a device and no operators"):
        diff(opened(tmp_path / "a.json", [marker("x", 0, 5)]), opened(tmp_path / "b.json", host(50, 50)))


def test_each_group_is_matched_once() -> None:
    ours = [SpendingGroup(0, f"k{i % 7}", ("op",) * (i % 3)) for i in range(21)]
    theirs = [SpendingGroup(0, f"k{i % 5}x", ("op",) * (i % 4)) for i in range(20)] + ours[:4]
    found = pairs(ours, theirs)
    assert sorted(one.a for one in found if one.a >= 0) == list(range(21))
    assert sorted(one.b for one in found if one.b >= 0) == list(range(24))
    assert sum(one.how == "same" for one in found) == 4


def command(*words: str, as_json: bool = False) -> int:
    parser = ArgumentParser()
    trace_diff.add(parser)
    args = parser.parse_args(words)
    args.json = as_json
    return trace_diff.run(args)


def test_output(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    a = str(written(tmp_path / "a.json", program(BASE)))
    b = str(written(tmp_path / "b.json", program(BASE | {"aten::mm": ("cutlass_tensorop", 280.0)})))
    assert command(a, b) == 0
    out = capsys.readouterr().out
    assert "A step takes 845.0 µs instead of 825.0 µs: +20.00 µs (+2.4 %)" in out
    assert "gemm_a → cutlass_tensorop" in out
    assert max(map(len, out.splitlines())) <= 100
    assert command(a, b, as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["delta_s"] == pytest.approx(20e-6)
    with pytest.raises(InputError, match="--most 0"):
        command(a, b, "--most", "0")


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared traces are not here")
def test_traces_of_others() -> None:
    a, b = (Timeline.open(SHARED / "hta" / f"trace_diff_{name}.json.gz", cache=False) for name in ("control", "test"))
    found = diff(a, b)
    adds_up(found)
    assert found.program == "changed"  # one of the two is compiled
    assert found.a.whole_s == pytest.approx(0.0774323, rel=1e-4)
    assert found.b.whole_s == pytest.approx(0.1242065, rel=1e-4)
    other = Timeline.open(SHARED / "kineto" / "resnet50_num_workers_0.pt.trace.json.gz", cache=False)
    found = diff(a, other)
    adds_up(found)
    assert found.program == "another"


def test_recordings_of_pytorch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

    def recorded(path: Path, activation: Any) -> Timeline:
        net = torch.nn.Sequential(torch.nn.Linear(64, 64), activation, torch.nn.Linear(64, 64))
        wait = torch.profiler.schedule(wait=0, warmup=1, active=4, repeat=1)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=wait) as profiler:
            for _ in range(5):
                net(torch.ones(8, 64)).sum().backward()
                profiler.step()
        profiler.export_chrome_trace(str(path))
        return Timeline.open(path, cache=False)

    found = diff(recorded(tmp_path / "a.json", torch.nn.ReLU()), recorded(tmp_path / "b.json", torch.nn.Softmax(-1)))
    adds_up(found)
    assert (found.per, found.a.steps, found.program) == ("step", 4, "same")
    gone = {one.a for one in found.parts if one.how != "same"}
    come = {one.b for one in found.parts if one.how != "same"}
    assert "aten::relu" in gone
    assert "aten::softmax" in come
    assert all(one.how == "same" for one in found.parts if "aten::addmm" in (one.a, one.b))


def test_gaps_that_would_print_alike_are_one_row() -> None:
    def gap(operator: str, b_s: float) -> DiffPart:
        return DiffPart(what="queue", how="same", a="copy", b="copy", operator=operator, a_s=0.1, b_s=b_s, delta_s=b_s - 0.1)

    found = printing._alike([gap("step › aten::to › aten::copy_", 0.2), gap("step › aten::copy_", 0.4), gap("aten::mm", 0.1)])
    assert [(one.a_s, one.b_s, one.delta_s) for one in found] == [(0.2, pytest.approx(0.6), pytest.approx(0.4))]

"""Each rule finds the fault that was planted, ranks it first, and is silent on a program without it."""

from __future__ import annotations

import random
import re

import pytest
from made_events import Made

from hotlap.core.record import Finding
from hotlap.traces.advice import base
from hotlap.traces.advice import trace as advising
from hotlap.traces.events import COPY, MARKER, RUNTIME, Events
from hotlap.traces.show import trace as printing
from hotlap.traces.study import Study

GPU = {"devices": [{"id": 0, "name": "GPU", "computeMajor": 8, "computeMinor": 0, "numSms": 108}]}


def program(
    steps: int = 8, launches: int = 30, host: float = 8.0, work: float = 40.0, loader: float = 0.0, wait_every: int = 0, name: str = "my_kernel",
    seed: int = 1, slow: tuple[int, ...] = (), late: tuple[int, ...] = (), more: float = 5000,
) -> Made:  # fmt: skip
    """A training loop as its profiler would record it: per step a load, launches, perhaps waits."""
    draw = random.Random(seed)
    made, now, free = Made(), 0.0, 0.0
    for step in range(steps):
        began = now
        if loader:
            waits = loader + (more if step in late else 0)
            made.marker("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", now, waits)
            now += waits
        for i in range(launches):
            spent = host * (0.8 + 0.4 * draw.random())
            made.operator("aten::add", now, spent + 5)
            now += spent
            begins = max(now + 6, free + 1)
            length = work * (0.8 + 0.4 * draw.random())
            made.launch(name, now, begins, length)
            free, now = begins + length, now + 5
            if wait_every and i % wait_every == wait_every - 1:
                called = now
                now = max(called + 2, free + 3)
                made.operator("aten::item", called - 0.5, now - called + 1)
                made.call("cudaStreamSynchronize", called, now - called)
                now += 1
        now += more if step in slow else 20
        made.marker(f"ProfilerStep#{step}", began, now - began)
    made.call("cudaDeviceSynchronize", now, max(free - now + 2, 2))
    return made


def findings(events: Events, least: float = advising.LEAST_GAIN) -> list[Finding]:
    return advising.advise(Study(events), least).findings


def top(made: Made) -> Finding:
    return findings(made.events(**GPU))[0]


def test_a_program_that_keeps_its_device_busy_has_nothing_to_gain() -> None:
    assert findings(program().events(**GPU)) == []


def test_a_slow_data_loader() -> None:
    found = top(program(loader=2000))
    assert found.rule == "data-loader"
    assert "num_workers=0" in found.where
    truth = 8 * 2000 / (8 * (30 * 41 + 2000))
    assert (found.gain_low or 0) < truth * 1.05
    assert (found.gain_high or 0) == pytest.approx(truth, rel=0.35)


def test_what_the_host_waits_for_is_not_titled_by_a_device() -> None:
    """The same title stands over a trace of a program that has no device."""
    assert top(program(loader=2000)).title == "Steps wait for the data loader"


def test_waits_for_the_device() -> None:
    found = top(program(wait_every=1, work=12))
    assert found.rule == "synchronise"
    assert found.evidence["waits"] == 239  # the last one ends the program
    assert "aten::item" in found.where


def test_a_host_that_submits_slowly() -> None:
    assert top(program(host=60, work=5)).rule == "host-bound"


def test_chains_of_tiny_kernels() -> None:
    rules = {
        one.rule: one for one in findings(program(host=4, work=6, name="void at::native::vectorized_elementwise_kernel<4>").events(**GPU))
    }
    assert rules["tiny-kernels"].evidence["kernels"] > 200
    assert (rules["tiny-kernels"].gain_high or 0) > 0.5


def test_exposed_communication_and_its_overlap() -> None:
    made = program(steps=4)
    events = made.events(**GPU)
    end = float(events.end.max()) / 1000
    made = program(steps=4)
    made.launch("ncclDevKernel_AllReduce_Sum", end, end + 8, 1500, stream=20)
    made.call("cudaDeviceSynchronize", end + 6, 1510)
    found = top(made)
    assert found.rule == "exposed-communication"
    assert found.evidence["overlap"] == pytest.approx(0, abs=0.01)
    assert "0.0 % of the communication is hidden" in found.detail


def test_copies_from_pageable_memory() -> None:
    made = program(steps=3)
    end = float(made.events(**GPU).end.max()) / 1000
    made = program(steps=3)
    made.launch("Memcpy HtoD (Pageable -> Device)", end, end + 8, 900, kind=COPY, call="cudaMemcpyAsync", took=910)
    made.launch("my_kernel", end + 915, end + 921, 40)
    found = {one.rule: one for one in findings(made.events(**GPU))}["copies"]
    assert found.evidence["pageable"] == 1


def test_plain_products_on_a_device_with_matrix_units() -> None:
    made = program(name="volta_sgemm_128x64_nn")
    assert top(made).rule == "tensor-cores"
    old = {"devices": [{"id": 0, "name": "GPU", "computeMajor": 6, "computeMinor": 1, "numSms": 20}]}
    assert findings(program(name="volta_sgemm_128x64_nn").events(**old)) == []
    assert findings(program(name="sm80_xmma_gemm_bf16bf16_bf16f32_tn").events(**GPU)) == []


def test_slow_steps_and_their_period() -> None:
    found = {one.rule: one for one in findings(program(steps=20, slow=(4, 9, 14), launches=10).events(**GPU))}["slow-steps"]
    assert found.evidence["steps"] == [4, 9, 14]
    assert found.evidence["every"] == 5
    assert "every 5 steps" in found.detail


@pytest.mark.parametrize(
    ("slow", "expected"),
    [
        ((6, 7, 8), ", in a row"), ((6, 7), ", in a row"), ((1, 3, 5), ""), ((4, 9, 15), ""), ((4, 13), ""),
        ((1, 7, 13), ", every 6 steps"), ((3, 5, 7, 9, 11, 13, 15, 17), ", every 2 steps"),
    ],
)  # fmt: skip
def test_slow_steps_are_periodic_where_they_come_over_the_whole_window_and_not_in_a_row(slow: tuple[int, ...], expected: str) -> None:
    found = {one.rule: one for one in findings(program(steps=20, slow=slow, launches=10).events(**GPU))}["slow-steps"]
    assert re.fullmatch(rf"{len(slow)} of 20 steps take up to [\d.]+ times the median of [\d.]+ ms{expected}", found.detail)
    assert bool(found.evidence["every"]) == ("every" in expected)
    assert found.confidence == ("high" if "every" in expected else "medium")


@pytest.mark.parametrize(
    ("made", "found"),
    [
        (program(steps=20, slow=(4, 9, 14, 17), launches=10, more=3000), True),  # 4.3 times the median
        (program(steps=20, slow=(4, 9, 14, 17), launches=10, more=100), False),  # 1.5 times
        (program(steps=20, loader=1000, late=(4, 9, 14, 17), launches=10), False),  # the finding on the data loader explains them
        (program(steps=20, loader=1000, slow=(4, 9, 14, 17), launches=10), True),
    ],
)
def test_slow_steps_are_twice_the_median_and_not_explained_by_waits_for_data(made: Made, found: bool) -> None:
    rules = [one.rule for one in findings(made.events(**GPU))]
    assert ("slow-steps" in rules) == found


@pytest.mark.parametrize(("of_the_machine", "confidence"), [(True, "low"), (False, "medium")])
def test_slow_steps_of_a_host_by_the_same_operators_stand_behind_what_the_program_can_mend(of_the_machine: bool, confidence: str) -> None:
    """Every operator of two steps takes five times as long; or a checkpoint is written in them, by an operator that the others lack."""
    made, now = Made(), 0.0
    for number in range(20):
        slow = number in (4, 13)
        began = now
        for name in ("aten::mm", "aten::add_"):
            length = 1000 * (5 if slow and of_the_machine else 1)
            made.operator(name, now, length)
            now += length + 10
        if slow and not of_the_machine:
            made.operator("aten::save", now, 8000)
            now += 8000
        made.marker(f"ProfilerStep#{number}", began, now - began)
    (found,) = [one for one in findings(made.events()) if one.rule == "slow-steps"]
    assert found.confidence == confidence
    assert ("likelier than the program" in found.detail, found.gain_low == 0) == (of_the_machine, of_the_machine)


def test_tiny_operators_of_a_host_alone() -> None:
    made, now = Made(), 0.0
    for _ in range(2000):
        made.operator("aten::add", now, 3)
        now += 6
    found = findings(made.events())
    assert [one.rule for one in found] == ["tiny-operators"]
    large, now = Made(), 0.0
    for _ in range(200):
        large.operator("aten::mm", now, 500)
        now += 505
    assert findings(large.events()) == []


def test_gains_are_ordered_bounded_and_not_added() -> None:
    advice = advising.advise(Study(program(loader=1000, wait_every=2, work=12).events(**GPU)), 0.0)
    gains = [one.gain or 0 for one in advice.findings]
    assert gains == sorted(gains, reverse=True)
    assert all(0 <= (one.gain_low or 0) <= (one.gain_high or 0) <= 1 for one in advice.findings)
    assert advice.together is not None
    assert advice.together <= sum(one.gain_high or 0 for one in advice.findings) + 1e-9


def test_small_findings_are_hidden_and_counted() -> None:
    events = program(loader=60).events(**GPU)
    everything = advising.advise(Study(events), 0.0)
    shown = advising.advise(Study(events), 0.5)
    assert shown.findings == []
    assert shown.hidden == len(everything.findings)


def test_every_rule_has_words_and_every_finding_a_rule() -> None:
    for name, rule in base.rules().items():
        assert rule.title, name
        assert rule.remedy.endswith("."), name
        assert 0 < rule.least < 1, name


def test_a_fix_that_is_a_switch_carries_its_experiment() -> None:
    study = Study(program(name="volta_sgemm_128x64_nn").events(**GPU))
    (finding,) = advising.advise(study, program="python train.py").findings
    assert finding.experiment == "hotlap ab 'python train.py' 'env TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1 python train.py'"
    assert top(program(loader=2000)).experiment == ""


def test_what_cannot_be_replayed_is_shown_with_the_most_it_could_gain() -> None:
    """The calls of the copies were not recorded: none says how the host would go on after shorter ones."""
    made = Made()
    for i in range(10):
        made.launch("k", i * 100, i * 100, 50)
        made.add(COPY, "Memcpy HtoD (Pinned -> Device)", i * 100 + 50, 40, device=0, stream=7)
    advice = advising.advise(Study(made.events()))
    (found,) = (one for one in advice.findings if one.rule == "copies")
    assert (found.gain, found.gain_low) == (None, None)
    assert found.gain_high == pytest.approx(400 / 990)
    assert printing.gain(found) == "no estimate, at most 40 %"


def tiny(apart: float, length: float = 6.0) -> Made:
    """Eight times four pointwise kernels, `apart` µs between them, behind a large one."""
    made, now, free = Made(), 0.0, 0.0
    for _ in range(8):
        for name, work in (("gemm", 300.0), *(("vectorized_elementwise_kernel<4>", length),) * 4):
            begins = max(now + 6, free + apart)
            made.launch(name, now, begins, work)
            free, now = begins + work, now + 5
    made.call("cudaDeviceSynchronize", now, max(free - now + 2, 2))
    return made


def test_a_chain_of_tiny_kernels_ends_at_a_gap() -> None:
    assert [one.evidence["chains"] for one in findings(tiny(1).events(), 0.0) if one.rule == "tiny-kernels"] == [8]
    assert [one for one in findings(tiny(25).events(), 0.0) if one.rule == "tiny-kernels"] == []


def test_a_chain_of_tiny_kernels_gains_no_more_than_its_launches_and_the_host_take() -> None:
    """The host takes 5 µs a kernel and the device 1 µs between two: the 15 µs of each kernel's own work stay."""
    (found,) = (one for one in findings(tiny(1, length=15).events(), 0.0) if one.rule == "tiny-kernels")
    assert found.gain_high == pytest.approx((32 * 5 + 24 * 1) / (8 * (300 + 4 * 15 + 5)), rel=0.05)


def test_the_wait_after_each_launch_is_named_not_the_longest() -> None:
    """A synchronise after each of 20 launches within a marker of the step, and one read of the result that takes longer than all of them."""
    made, now = Made(), 0.0
    for step in range(6):
        began = now
        for _ in range(20):
            made.launch("k", now, now + 8, 20)
            made.call("cudaDeviceSynchronize", now + 5, 26)
            now += 45
        made.launch("k", now, now + 8, 1500)
        made.operator("aten::item", now + 5, 1508)
        made.call("cudaStreamSynchronize", now + 6, 1505)
        now += 1515
        made.marker(f"ProfilerStep#{step}", began, now - began)
        now += 2
    (found,) = (one for one in findings(made.events(), 0.0) if one.rule == "synchronise")
    assert found.where == "cudaDeviceSynchronize"


@pytest.mark.parametrize(("name", "kind"), [("nvrtcCompileProgram", RUNTIME), ("TSL:XlaCompile:#module=jit_f#", MARKER), ("triton: compile f", MARKER)])
def test_compilation_is_named_and_happens_once(name: str, kind: int) -> None:
    made = program(work=5)
    end = made.events().end.max() / 1000
    made = program(work=5)
    made.host(kind, name, end + 100, 50_000)
    made.launch("k", end + 51_000, end + 51_010, 5)
    rules = {one.rule: one for one in findings(made.events(**GPU))}
    assert "happens once" in rules["compile"].detail
    assert rules["compile"].gain_low == 0
    assert "host-code" not in rules


def test_compilation_in_several_steps_is_said_to_come_again() -> None:
    made = program(slow=(2, 3, 5))
    for row in [one for one in made.rows if one["kind"] == MARKER and one["duration"] > 5_000_000]:
        made.host(MARKER, "compile_fx.<locals>.inner", (row["start"] + row["duration"]) / 1000 - 4000, 3500)
    (found,) = (one for one in findings(made.events(**GPU), 0.0) if one.rule == "compile")
    assert "in 3 of 8 steps" in found.detail


def test_a_program_of_jax_gets_remedies_of_jax() -> None:
    made = program(host=60, work=5)
    made.operator("PjitFunction(step)", 0, 5)
    found = top(made)
    assert found.rule == "host-bound"
    assert "jax.jit" in found.action
    assert "torch" not in found.action


def test_a_single_launch_of_milliseconds_is_no_launch_overhead() -> None:
    made, now = Made(), 0.0
    for i in range(40):
        took = 30_000.0 if i == 20 else 4.0
        made.launch("k", now, now + took + 4, 40, took=took)
        now += took + 40
    made.call("cudaDeviceSynchronize", now, 60)
    assert "host-bound" not in {one.rule for one in findings(made.events(**GPU))}


def test_pageable_copies_gain_at_least_the_rate_of_pinned_memory() -> None:
    """Ten pageable copies of 4 MB take 2 ms each; a pinned one of the same size took 200 µs."""
    made, now = Made(), 0.0
    for _ in range(10):
        _, place = made.launch("Memcpy HtoD (Pageable -> Device)", now, now + 10, 2000, kind=COPY, call="cudaMemcpyAsync", took=2010)
        made.rows[place]["bytes"] = 4_000_000
        now += 2020
        made.launch("k", now, now + 8, 50)
        now += 70
    _, place = made.launch("Memcpy HtoD (Pinned -> Device)", now, now + 10, 200, kind=COPY, call="cudaMemcpyAsync")
    made.rows[place]["bytes"] = 4_000_000
    (found,) = (one for one in findings(made.events()) if one.rule == "copies")
    assert found.evidence["pinned_Bps"] == pytest.approx(2e10)
    assert "which pinned at 20.0 GB/s would take 90 % less time" in found.detail
    assert (found.gain_low or 0) > 0.8 * 0.95


def test_steps_that_wait_for_room_in_the_queue_are_not_slow() -> None:
    """The host runs ahead until the queue is full, then each launch blocks: its later steps are long, the device's are all alike."""
    made, now, free = Made(), 0.0, 6.0
    for step in range(20):
        began = now
        for _ in range(10):
            blocks = 95.0 if step >= 12 else 4.0
            made.launch("k", now, free, 100, took=blocks)
            free, now = free + 101, now + blocks + 6
        made.marker(f"ProfilerStep#{step}", began, now - began)
    made.call("cudaDeviceSynchronize", now, free - now)
    study = Study(made.events(**GPU))
    assert len(study.steps.slow)
    assert "slow-steps" not in [one.rule for one in advising.advise(study, 0.0).findings]


def test_beside_other_programs_each_finding_is_less_sure() -> None:
    study = Study(program(loader=1000, wait_every=2, work=12).events(**GPU))
    quiet, crowded = advising.advise(study), advising.advise(study, crowded=True)
    lower = {"high": "medium", "medium": "low", "low": "low"}
    assert {each.confidence for each in quiet.findings} & {"high", "medium"}
    assert [each.confidence for each in crowded.findings] == [lower[each.confidence] for each in quiet.findings]

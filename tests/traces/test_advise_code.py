"""The program's own code and first uses: found, named, bounded, and silent without them."""

from __future__ import annotations

import pytest
from made_events import Made
from test_advise_trace import GPU, findings, program

from hotlap.traces import events as ev
from hotlap.traces import mainthread
from hotlap.traces.advice import trace as advising
from hotlap.traces.events import COPY
from hotlap.traces.show import trace as text
from hotlap.traces.study import Study


def host_alone(steps: int = 6, own: float = 9_000, named: bool = True) -> Made:
    """Per step 1 ms in operators, and the program's own code."""
    made, now = Made(), 0.0
    for step in range(steps):
        made.marker(f"ProfilerStep#{step}", now, own + 1_000)
        made.operator("aten::mm", now, 1_000)
        if named and own:
            made.host(ev.PYTHON, "train.py(26): log_everything", now + 1_010, own - 20)
            made.host(ev.PYTHON, "/usr/lib/python3.11/site-packages/rich/a.py(3): f", now + 1_020, own - 40)
        now += own + 1_000
    return made


def test_own_code_is_found_and_named() -> None:
    (found,) = findings(host_alone().events())
    assert found.rule == "host-code"
    assert found.gain_high == pytest.approx(0.9, abs=0.01)
    assert "train.py(26): log_everything 100 %" in found.where
    assert "rich" not in found.where
    assert found.confidence == "high"


def test_own_code_without_names_says_how_to_get_them() -> None:
    (found,) = findings(host_alone(named=False).events())
    assert found.where == ""
    assert "--stacks" in found.action


def test_no_own_code_no_finding() -> None:
    assert findings(host_alone(own=0).events()) == []


def test_a_trace_of_steps_alone_says_nothing() -> None:
    made = Made()
    for step in range(6):
        made.marker(f"ProfilerStep#{step}", 1000 * step, 1000)
    assert findings(made.events()) == []


def test_the_main_thread_is_divided_without_a_rest() -> None:
    made = host_alone()
    made.marker("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 2_000, 3_000)
    study = Study(made.events())
    shares = mainthread.shares(study)
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["data_loader"] == pytest.approx(3 / 60)
    said = text.trace(study, advising.advise(study), 100)
    assert "main thread" in said
    assert "log_everything" in said


def test_own_code_of_a_trace_with_a_device_gains_no_more_than_the_device_idles() -> None:
    made, now = program(steps=4), 0.0
    for _ in range(4):
        now = max(row["start"] + row["duration"] for row in made.rows) / 1000
        made.marker("tokenise", now, 3_000)
        made.operator("aten::add", now + 3_001, 10)
        made.launch("my_kernel", now + 3_003, now + 3_010, 40)
    study = Study(made.events(**GPU))
    found = {one.rule: one for one in advising.advise(study).findings}["host-code"]
    assert "tokenise" in found.where
    assert (found.gain_high or 0) <= study.idle_within(mainthread.stretches(study)) <= 4 * 3_001 / (1e6 * study.window_s)


def test_a_launch_that_is_slow_once_is_no_host_that_launches_too_slowly() -> None:
    made = program(steps=0)
    made.launch("a_kernel", 0, 10, 40)
    made.launch("my_kernel", 100, 6_700, 40, took=6_550, call="hipLaunchKernel")
    for i in range(40):
        made.launch("my_kernel", 6_700 + 30 * i, 6_750 + 30 * i, 29)
    found = {one.rule: one for one in findings(made.events(**GPU))}
    assert "hipLaunchKernel 6.55 ms" in found["first-use"].detail
    assert found["first-use"].gain_low == 0
    assert "host-bound" not in found


def test_a_wait_recorded_by_two_names_is_one() -> None:
    made, alone = program(wait_every=1, work=12), program(wait_every=1, work=12)
    waits = [row for row in made.rows if row["name"] == made.into.names["cudaStreamSynchronize"]]
    for row in waits:
        made.call("cudaDeviceSynchronize", row["start"] / 1000 + 0.1, row["duration"] / 1000 - 0.2)
    (found, plain) = (next(one for one in findings(of.events(**GPU)) if one.rule == "synchronise") for of in (made, alone))
    assert found.evidence["waits"] == plain.evidence["waits"]
    assert found.evidence["waited_s"] == plain.evidence["waited_s"]


def test_together_is_no_less_than_a_finding_and_the_same_with_all() -> None:
    events = host_alone().events()
    everything, shown = advising.advise(Study(events), 0.0), advising.advise(Study(events))
    assert everything.together == shown.together
    assert (shown.together or 0) >= max(one.gain_high or 0 for one in shown.findings)
    device = program(loader=1000, wait_every=2, work=12).events(**GPU)
    everything, shown = advising.advise(Study(device), 0.0), advising.advise(Study(device))
    assert everything.together == shown.together
    assert (shown.together or 0) >= max(one.gain_high or 0 for one in shown.findings)


def test_a_wrapper_in_a_file_named_compile_compiles_nothing() -> None:
    made = host_alone(named=False)
    made.host(ev.PYTHON, "torch/_compile.py(42): inner", 1_000, 8_000)
    assert "compile" not in {one.rule for one in findings(made.events())}
    made.host(ev.PYTHON, "torch/_dynamo/convert_frame.py(900): _compile", 1_100, 7_000)
    assert "compile" in {one.rule for one in findings(made.events())}


def test_long_calls_of_a_name_that_is_mostly_short_are_not_tiny() -> None:
    made, now = Made(), 0.0
    for _ in range(20):
        for _ in range(16):
            made.operator("aten::randn", now, 5)
            now += 5
        made.operator("aten::randn", now, 5_000)
        now += 5_000
    assert findings(made.events()) == []


def test_fixes_that_the_hardware_has() -> None:
    volta = {"devices": [{"id": 0, "name": "V100", "computeMajor": 7, "computeMinor": 0, "numSms": 80}]}
    (found,) = findings(program(name="volta_sgemm_128x64_nn").events(**volta))
    assert "fp16" in found.action
    assert found.experiment == ""
    made = program(steps=3)
    end = float(made.events(**GPU).end.max()) / 1000
    made = program(steps=3)
    made.launch("Memcpy DtoD (Device -> Device)", end, end + 8, 900, kind=COPY, call="cudaMemcpyAsync")
    made.launch("my_kernel", end + 10, end + 909, 40)
    copies = {one.rule: one for one in findings(made.events(**GPU))}["copies"]
    assert "pin" not in copies.action.lower()


def test_a_gap_without_its_call_is_said_to_be_unknown() -> None:
    made = Made()
    for i in range(5):
        made.add(ev.KERNEL, "k", 1000 * i, 100, device=0, stream=7)
    study = Study(made.events(**GPU))
    said = text.trace(study, advising.advise(study), 100)
    assert "Cannot tell why" in said


def test_workers_are_not_advised_from_none_where_there_are_some() -> None:
    made, now = Made(), 0.0
    for _ in range(5):
        made.marker("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", now, 500)
        made.operator("aten::mm", now + 500, 500)
        now += 1000
    (found,) = findings(made.events())
    assert "from 0" not in found.action
    assert "a step" not in found.detail


def test_steps_marked_on_a_thread_that_does_nothing_are_not_the_main_thread() -> None:
    made = Made()
    made.marker("ProfilerStep#1", 0, 10_000, thread=9)
    made.operator("aten::mm", 100, 4_000)
    made.launch("my_kernel", 4_090, 4_095, 2)
    study = Study(made.events(**GPU))
    assert study.events.threads[study.main_thread].thread == "1"
    assert mainthread.shares(study)["operators"] == pytest.approx(0.4, abs=0.01)
    assert "host-code" in {one.rule for one in advising.advise(study).findings}

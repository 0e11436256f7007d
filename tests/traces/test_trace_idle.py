"""Causes of idle time, one by one, and that they add up to it."""

from __future__ import annotations

import pytest
from made_events import Made

from hotlap.traces import breakdown, calls, idle, operators
from hotlap.traces.advice.trace import Advice
from hotlap.traces.events import COPY, Events
from hotlap.traces.show import answer as answers
from hotlap.traces.show import markdown, page
from hotlap.traces.show import trace as printing
from hotlap.traces.study import Study


def causes(events: Events) -> dict[str, float]:
    """Microseconds by cause, those that are not 0."""
    return {cause: round(s * 1e6, 3) for cause, s in idle.idle(events, 0, calls.links(events)).seconds().items() if s}


def first(made: Made) -> None:
    """Work from 10 to 20, launched at 0."""
    made.launch("k", 0, 10, 10)


def test_waiting_for_the_data_loader() -> None:
    made = Made()
    first(made)
    made.marker("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 15, 85)
    made.launch("k", 102, 106, 10)
    assert causes(made.events()) == {"data_loader": 80, "host": 2, "launch": 4}


def test_operators_that_submit_slowly_and_the_host_outside_of_them() -> None:
    made = Made()
    first(made)
    made.operator("aten::conv2d", 40, 60)
    made.launch("k", 90, 94, 10)
    assert causes(made.events()) == {"host": 20, "operators": 50, "launch": 4}


def test_a_host_that_waited_for_the_device_is_late_for_that_reason() -> None:
    made = Made()
    first(made)
    made.call("cudaStreamSynchronize", 5, 17)  # until 22, the work ends at 20
    made.operator("aten::conv2d", 25, 60)
    made.launch("k", 34, 38, 10)
    assert causes(made.events()) == {"synchronise": 14, "launch": 4}


def test_a_wait_makes_the_host_late_by_no_more_than_it_lasted() -> None:
    made = Made()
    first(made)
    made.call("cudaStreamSynchronize", 5, 17)  # 15 until the work ends at 20, and until 22
    made.operator("aten::conv2d", 25, 10)
    made.launch("k", 300, 304, 10)
    assert causes(made.events()) == {"synchronise": 2 + 15, "host": 265 + 3 - 5, "launch": 4}
    made = Made()
    first(made)
    made.call("cudaStreamSynchronize", 5, 13)  # returns before the work ends: it is not what the device fell idle for
    made.launch("k", 300, 304, 10)
    assert causes(made.events()) == {"host": 280, "launch": 4}


def test_a_copy_from_pageable_memory_waits_whatever_its_name_says() -> None:
    made = Made()
    first(made)
    made.launch("Memcpy DtoH (Device -> Pageable)", 5, 20, 2, kind=COPY, call="cudaMemcpyAsync", took=18)
    made.launch("k", 35, 39, 10)
    assert causes(made.events()) == {"synchronise": 13, "launch": 4}


def test_queued_work_waits_its_turn_or_for_something_else() -> None:
    made = Made()
    first(made)
    made.launch("k", 6, 22, 10)
    assert causes(made.events()) == {"queue": 2}
    made = Made()
    first(made)
    made.launch("k", 6, 80, 10)
    assert causes(made.events()) == {"dependency": 60}


def test_work_whose_call_is_not_in_the_trace() -> None:
    made = Made()
    first(made)
    made.add(0, "k", 50, 10, device=0, stream=7)
    assert causes(made.events()) == {"unknown": 30}


@pytest.mark.parametrize("seed", range(20))
def test_causes_add_up_to_the_idle_time(seed: int) -> None:
    import random

    draw = random.Random(seed)
    made, host, device = Made(), 0.0, 0.0
    for _ in range(40):
        host += draw.random() * 40
        if draw.random() < 0.3:
            made.operator("aten::mm", host, 20)
        if draw.random() < 0.2:
            made.marker("enumerate(DataLoader)#x.__next__", host, 15)
        if draw.random() < 0.2:
            made.call("cudaDeviceSynchronize", host, 10)
        begins = max(host + 5, device + draw.random() * 60)
        made.launch("k", host, begins, length := draw.random() * 30 + 1, stream=draw.choice([7, 8]))
        device = begins + length
        host += 12
    events = made.events()
    found = breakdown.of(events, 0)
    assert sum(idle.idle(events, 0, calls.links(events)).seconds().values()) == pytest.approx((found.idle_share or 0) * found.window_s, abs=1e-9)


def test_work_of_no_length_has_no_idle_time_and_no_findings() -> None:
    from hotlap.traces.advice.trace import advise
    from hotlap.traces.study import Study

    made = Made()
    made.add(0, "k", 5, 0, device=0, stream=7)
    study = Study(made.events())
    assert not any(study.idle_shares.values())
    assert advise(study, 0.0).findings == []


def test_idle_before_work_whose_calls_are_not_in_the_window() -> None:
    from hotlap.traces.advice.trace import advise
    from hotlap.traces.study import Study

    made = Made()
    made.launch("k", 0, 10, 10)
    made.launch("k", 50, 60, 10)
    for i in range(2):
        made.marker(f"step {i}", 100 + i * 50, 50)
    assert advise(Study(made.events()), 0.0) is not None


def test_a_single_long_gap_is_named_with_its_neighbours() -> None:
    made = Made()
    for i in range(20):
        made.launch("gemm", i * 50, i * 50 + 10, 35)
    made.launch("Memcpy DtoH (Device -> Pinned)", 1000, 1010, 5, kind=COPY)
    made.launch("softmax", 3000, 3010, 35)
    for i in range(20):
        made.launch("gemm", 3050 + i * 50, 3060 + i * 50, 35)
    study = Study(made.events())
    (gap,) = study.long_gaps
    assert (gap.before, gap.after, gap.cause, gap.device) == ("Memcpy DtoH (Device -> Pinned)", "softmax", "host", 0)
    assert gap.length_s == pytest.approx(1995e-6)
    advice = Advice([], 0, None)
    texts = printing.trace(study, advice, 140), page.page(study, advice), markdown.markdown(answers.answer(study, advice))
    for text in texts:
        assert "of the idle time (host): after Memcpy DtoH, before softmax" in text


def test_gaps_of_one_length_are_not_named() -> None:
    made = Made()
    for i in range(20):
        made.launch("gemm", i * 50, i * 50 + 10, 35)
    assert Study(made.events()).long_gaps == []


def test_a_trace_of_the_host_alone_has_a_table_of_operators() -> None:
    made = Made()
    for i in range(3):
        made.operator("aten::linear", i * 100, 50)
        made.marker("inside", i * 100 + 5, 42)
        made.operator("aten::addmm", i * 100 + 10, 30)
    study = Study(made.events())
    found = operators.operators(study)
    assert [(one.name, one.calls) for one in found] == [("aten::addmm", 3), ("aten::linear", 3)]
    assert [one.own_s for one in found] == pytest.approx([90e-6, 60e-6])
    assert [one.total_s for one in found] == pytest.approx([90e-6, 150e-6])
    advice = Advice([], 0, None)
    web = page.page(study, advice)
    texts = printing.trace(study, advice, 100), markdown.markdown(answers.answer(study, advice)), web[web.index("Operators of the host") :]
    for text in texts:
        assert "own time" in text
        assert text.index("aten::addmm") < text.index("aten::linear")

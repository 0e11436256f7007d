"""A trace timed anew: unchanged it is as recorded; changed it ends when a host and a device of that kind would have ended."""

from __future__ import annotations

import random

import numpy as np
import pytest
from made_events import Made

from hotlap.traces import calls, replay
from hotlap.traces.advice.trace import Advice
from hotlap.traces.events import COPY, Events
from hotlap.traces.show import trace as printing
from hotlap.traces.study import Study


def tasks(events: Events) -> replay.ReplayTasks:
    return replay.tasks(events, calls.links(events), (0, int(events.end.max()) + 1))


def gain(found: replay.ReplayTasks, change: replay.ReplayChange) -> int:
    """Nanoseconds by which the whole ends earlier."""
    if not len(found.start):
        return 0
    return int(replay.timed(found).end.max() - replay.timed(found, change).end.max())


def played(seed: int, host_us: float, work_us: float, waits: int = 0, count: int = 60) -> Made:
    """What a host that takes `host_us` between calls and a device that takes `work_us` a kernel would record."""
    draw = random.Random(seed)
    made, now, free = Made(), 0.0, 0.0
    for i in range(count):
        now += host_us * (0.5 + draw.random())
        begins = max(now + 6, free + 1)
        length = work_us * (0.5 + draw.random())
        made.launch("k", now, begins, length)
        free = begins + length
        now += 4
        if waits and i % waits == waits - 1:
            called = now + 1
            now = max(called + 2, free + 3)
            made.call("cudaStreamSynchronize", called, now - called)
    return made


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("host", "work", "waits"), [(20, 5, 0), (5, 20, 0), (12, 12, 3), (5, 20, 1)])
def test_unchanged_it_is_as_recorded(seed: int, host: float, work: float, waits: int) -> None:
    found = tasks(played(seed, host, work, waits).events())
    times = replay.timed(found)
    assert np.abs(times.begin - found.start).max() <= 1
    assert np.abs(times.end - (found.start + found.length)).max() <= 1


@pytest.mark.parametrize("seed", range(5))
def test_faster_kernels_gain_what_a_faster_device_would_and_nothing_where_the_host_is_slow(seed: int) -> None:
    for host, work in ((5, 40), (40, 5)):
        before, after = played(seed, host, work).events(), played(seed, host, work / 2).events()
        found = tasks(before)
        faster = replay.ReplayChange(factor=np.where(found.on_device, 0.5, 1.0))
        truth = int(before.end.max()) - int(after.end.max())
        assert gain(found, faster) == pytest.approx(truth, abs=0.02 * int(before.end.max()))


@pytest.mark.parametrize("seed", range(5))
def test_not_waiting_gains_what_a_program_without_the_waits_would(seed: int) -> None:
    before, after = played(seed, 12, 14, waits=1).events(), played(seed, 12, 14).events()
    found = tasks(before)
    truth = int(before.end.max()) - int(after.end.max())
    assert truth > 0.2 * int(before.end.max())
    assert gain(found, replay.ReplayChange(unblocked=found.blocks)) == pytest.approx(truth, rel=0.15)


def test_the_other_thread_is_followed_so_that_a_faster_forward_pass_moves_the_backward_pass() -> None:
    made = Made()
    for i in range(10):  # forward on thread 1, then backward on thread 2, then the optimiser on thread 1
        made.launch("f", i * 10, i * 10 + 6, 3)
    made.operator("aten::conv", 0, 96)
    for i in range(10):
        made.launch("b", 150 + i * 10, 156 + i * 10, 3, thread=2)
    made.operator("conv_backward", 145, 100, thread=2)
    made.launch("o", 300, 306, 3)
    found = tasks(made.events())
    host = np.where(found.on_device | (found.start > 120_000), 1.0, 0.0)
    assert gain(found, replay.ReplayChange(host=host)) == pytest.approx(54_000, rel=0.1)  # nine gaps of 6 µs of the forward pass


def test_work_on_another_stream_that_was_waited_for() -> None:
    made = Made()
    made.launch("compute", 0, 6, 100)
    made.launch("nccl", 5, 108, 50, stream=20)
    found = tasks(made.events())
    half = replay.ReplayChange(factor=np.where(found.on_device & (found.start < 50_000), 0.5, 1.0))
    assert gain(found, half) == pytest.approx(50_000, abs=100)


def test_the_critical_path_adds_up_to_the_whole() -> None:
    found = tasks(played(3, 12, 14, waits=4).events())
    way = replay.path(found)
    assert way.seconds.sum() == pytest.approx((found.start + found.length).max() / 1e9 - found.start[way.task[-1]] / 1e9, rel=1e-6)
    assert {"work", "call", "host"} <= set(way.kind)


def test_a_copy_that_blocks_its_call() -> None:
    made = Made()
    made.launch("k", 0, 6, 100)
    made.launch("Memcpy DtoH (Device -> Pageable)", 5, 107, 2, kind=COPY, call="cudaMemcpyAsync", took=110)
    made.launch("k", 120, 126, 10)
    found = tasks(made.events())
    assert found.blocks.sum() == 1
    half = replay.ReplayChange(factor=np.where(found.on_device & (found.start == 6_000), 0.5, 1.0))
    assert gain(found, half) == pytest.approx(50_000, abs=1_000)


def test_nothing_in_the_window_gains_nothing() -> None:
    made = Made()
    made.operator("aten::add", 0, 5)
    found = tasks(made.events())
    assert len(found.start) == 0
    assert gain(found, replay.ReplayChange()) == 0
    assert len(replay.path(found).task) == 0


def test_work_that_overlaps_on_its_stream_or_beside_another_never_moves_before_what_it_overlaps() -> None:
    for stream in (7, 8):  # a branch of a graph on the same stream, or another stream
        made = Made()
        made.launch("a", 0, 6, 1000)
        made.launch("b", 1, 30, 50, stream=stream)
        made.launch("c", 2, 1010, 50)
        found = tasks(made.events())
        times = replay.timed(found, replay.ReplayChange(factor=np.where(found.on_device & (found.length == 1_000_000), 0.1, 1.0)))
        assert times.begin[found.start == 30_000] >= 6_000
        assert times.begin[found.start == 1_010_000] == pytest.approx(110_000, abs=2_000)


def test_a_call_within_another_neither_hides_it_nor_is_later_without_the_hosts_time() -> None:
    made = Made()
    made.launch("k", 0, 6, 100)
    made.call("hipStreamSynchronize", 10, 98)
    made.call("hsa_signal_wait", 20, 5)
    made.launch("k", 110, 116, 10)
    found = tasks(made.events())
    assert np.abs(replay.timed(found).begin - found.start).max() <= 1
    assert gain(found, replay.ReplayChange(unblocked=found.blocks)) == pytest.approx(9_000, abs=1_000)  # the stream's turn decides
    assert gain(found, replay.ReplayChange(host=np.zeros(len(found.start)))) >= 0


def test_processes_of_one_trace_do_not_wait_for_each_other() -> None:
    made = Made()
    for i in range(3):
        made.launch("a", i * 10, i * 10 + 6, 3)
    other = made.into.threads["2", "1"]
    for i in range(2):
        at, _ = made.launch("b", 200 + i * 100, 206 + i * 100, 3, device=1)
        made.rows[at]["thread"] = other
    found = tasks(made.events())
    assert found.other.max() < 0


@pytest.mark.slow("traces of many events")
def test_the_path_ends_and_the_replay_holds_where_clocks_disagree() -> None:
    for seed in range(60):
        draw, made = random.Random(seed), Made()
        for _ in range(40):
            start, length = float(draw.randrange(100)), draw.choice([0.0, 0.0, 1.0, draw.random() * 50])
            made.launch("k", start, start + draw.choice([-3, 0, 5, 30]), length, stream=draw.choice([7, 8]), thread=draw.choice([1, 2]),
                        call=draw.choice(["cudaLaunchKernel", "cudaMemcpyAsync", "cudaStreamSynchronize"]), kind=draw.choice([0, COPY]))  # fmt: skip
        found = tasks(made.events())
        assert np.abs(replay.timed(found).begin - found.start).max() <= 1
        way = replay.path(found)
        assert len(way.task) <= 2 * len(found.start)
        assert replay.timed(found, replay.ReplayChange(factor=np.where(found.on_device, 0.0, 1.0))).begin.min() >= found.start.min() - 1
        assert gain(found, replay.ReplayChange(host=np.where(found.on_device, 1.0, 0.0))) >= 0


def test_devices_that_run_beside_each_other_do_not_wait_for_each_other() -> None:
    made = Made()
    for i in range(30):
        made.launch("a", i * 50, i * 50 + 10, 35)
        made.launch("b", i * 50 + 5, i * 50 + 47, 35, device=1, thread=2)
    found = tasks(made.events())
    assert (found.other[found.on_device] < 0).all()


def in_flight() -> Made:
    """A stream that works off 500 µs of an earlier step, while a host that is far ahead queues 20 kernels and waits for them."""
    made = Made()
    made.add(0, "earlier", 0, 500, device=0, stream=7)
    for i in range(20):
        made.launch("k", 10 + i * 6, 501 + i * 51, 50)
    made.call("cudaStreamSynchronize", 131, 1400)
    made.launch("k", 1540, 1550, 50)
    return made


def test_work_in_flight_when_the_trace_begins_says_nothing_of_launches() -> None:
    found = tasks(in_flight().events())
    assert np.abs(replay.timed(found).begin - found.start).max() <= 1
    assert found.on_device.sum() == 22  # the first of them was launched before
    half = replay.ReplayChange(factor=np.where(found.on_device & (found.length == 50_000), 0.5, 1.0))
    assert gain(found, half) == pytest.approx(21 * 25_000, abs=2_000)


def test_without_the_devices_work_the_host_alone_remains() -> None:
    study = Study(in_flight().events())
    assert study.check
    assert study.check.holds
    assert study.check.exposed_share == pytest.approx((501 + 20 * 51 - 131 + 50 - 20) / 1600, abs=0.02)
    assert study.check.gain >= study.check.exposed_share - 0.02
    assert study.notices == []


def test_a_call_that_returns_a_little_before_its_copy_ends_waits_for_it() -> None:
    made = Made()
    for i in range(4):
        made.launch("Memcpy HtoD (Pageable -> Device)", i * 1100, i * 1100 + 50, 1000, kind=COPY, call="cudaMemcpy", took=1030)
    study = Study(made.events())
    assert study.check
    assert study.check.holds
    half = replay.ReplayChange(factor=np.where(study.tasks.on_device, 0.5, 1.0))
    assert gain(study.tasks, half) == pytest.approx(2_000_000, rel=0.02)


def test_a_replay_that_keeps_what_the_device_took_is_not_trusted() -> None:
    study = Study(in_flight().events())
    found = study.tasks
    study.tasks = found._replace(cause=np.where(found.on_device, found.cause, -1))  # waits whose work is not known
    assert study.check
    assert not study.check.holds
    assert [one.code for one in study.notices] == ["replay_doubtful"]
    assert "gains cannot be trusted" in printing.trace(study, Advice([], 0, None), 120)


def test_a_wait_for_another_stream_is_no_turn() -> None:
    """A collective after each kernel: all that is queued on the compute stream starts late, and a turn is not taken to last so long."""
    made = Made()
    for i in range(8):
        made.launch("gemm", 10 * i, 100 + 1400 * i, 1000)
        made.launch("ncclDevKernel_AllReduce", 10 * i + 5, 1101 + 1400 * i, 398, stream=20)
    found = tasks(made.events())
    quick = np.where(found.on_device & (found.length == 398_000), 0.0, 1.0)
    assert gain(found, replay.ReplayChange(factor=quick)) == pytest.approx(8 * 398_000, rel=0.01)


def test_the_first_call_waits_for_the_windows_begin() -> None:
    made = Made()
    made.marker("step 0", 0, 200)
    made.launch("k", 100, 106, 50)
    events = made.events()
    found = replay.tasks(events, calls.links(events), (0, 200_000))
    assert gain(found, replay.ReplayChange(host=np.zeros(len(found.start)))) == pytest.approx(100_000)

"""The torch target on the stand-in for a GPU: streams, graphs, errors; and that the stand-in breaks each rule's breaker as CUDA does."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from hotlap.core.errors import NotSupported
from hotlap.core.measure import targets

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch_stand_in  # noqa: E402 - it imports PyTorch
from torch_stand_in import streams, tensors  # noqa: E402

SLOW_S = 0.03
ONE_ONLY = pytest.mark.skipif(torch_stand_in.VARIABLE in os.environ, reason="another stand-in is on, for the whole process")


@pytest.fixture
def gpu() -> Iterator[Any]:
    with torch_stand_in.standing_in(torch_stand_in.Looks(devices=2)) as made:
        yield made


@pytest.fixture
def target(gpu: Any) -> Any:
    spec = targets.TargetSpec("torch", "cuda")
    return targets.open_device(spec, targets.find(spec)[0])


def slow(stream: Any = None) -> None:
    """A kernel that takes its time."""
    (stream or torch.cuda.current_stream()).put(lambda: time.sleep(SLOW_S))


@contextlib.contextmanager
def held(stream: Any = None) -> Iterator[None]:
    """The stream does nothing until the end of the block."""
    gate = threading.Event()
    (stream or torch.cuda.current_stream()).put(gate.wait)
    try:
        yield
    finally:
        gate.set()


def adds(cell: Any, before: Callable[[], None] = lambda: None) -> Callable[[int], None]:
    def enqueue(calls: int) -> None:
        for _ in range(calls):
            before()
            cell.handle.add_(1)

    return enqueue


# ---------------------------------------------------------------- the target


def test_a_batch_is_timed_by_events_on_its_stream(target: Any) -> None:
    cell = target.buffer(np.zeros(1, np.float32))
    timing = target.time(adds(cell, slow), 4)
    assert 4 * SLOW_S <= timing.device_s <= timing.wall_s
    assert target.read(cell).tolist() == [4]


def test_the_second_queue_starts_after_the_fork_and_ends_before_the_batch(target: Any) -> None:
    source, there = target.buffer(np.zeros(4, np.float32)), target.buffer(np.zeros(4, np.float32))

    def enqueue(calls: int) -> None:
        for _ in range(calls):
            target.copy(there, source, queue=1)
            slow(target.second)

    slow()  # work of before the batch: the second queue has to wait for it too
    source.handle.add_(7)
    assert target.time(enqueue, 2).device_s >= 2 * SLOW_S
    assert target.read(there).tolist() == [7] * 4


def test_a_graph_holds_the_calls_of_both_queues_and_runs_none_when_recorded(target: Any, gpu: Any) -> None:
    cell, source, there = (target.buffer(np.zeros(1, np.float32)) for _ in range(3))

    def enqueue(calls: int) -> None:
        for _ in range(calls):
            cell.handle.add_(1)
            source.handle.add_(2)
            target.copy(there, source, queue=1)

    target._graph(enqueue, 5)
    assert target.read(cell).tolist() == [0]
    for turn in (1, 2):
        target.time(enqueue, 5, graph=True)
        assert (target.read(cell)[0], target.read(source)[0], target.read(there)[0]) == (5 * turn, 10 * turn, 10 * turn)
    assert gpu.cards[0].replays == 2


def test_a_capture_that_is_refused_is_no_graph_and_leaves_the_target_as_it_was(target: Any, gpu: Any) -> None:
    cell, before = target.buffer(np.zeros(1, np.float32)), torch.cuda.current_stream()
    gpu.cards[0].refuses_capture = True
    with pytest.raises(NotSupported, match="could not record a graph"):
        target.time(adds(cell), 3, graph=True)
    assert torch.cuda.current_stream() is before
    gpu.cards[0].refuses_capture = False
    target.time(adds(cell), 3, graph=True)
    assert target.read(cell).tolist() == [3]


def test_a_call_that_waits_cannot_be_recorded(target: Any) -> None:
    cell = target.buffer(np.zeros(1, np.float32))
    for waits in (torch.cuda.synchronize, lambda: cell.handle.sum().item(), lambda: torch.cuda.current_stream().synchronize()):
        with pytest.raises(NotSupported, match="could not record a graph"):
            target.time(adds(cell, waits), 1, graph=True)
    target.time(adds(cell), 2)
    assert target.read(cell).tolist() == [2]


def test_too_little_memory_is_refused_and_the_next_case_runs(target: Any, gpu: Any) -> None:
    gpu.cards[0].full_after = 0
    with pytest.raises(NotSupported, match="do not fit"):
        target.buffer(4096)
    gpu.cards[0].full_after = None
    assert target.read(target.buffer(np.arange(3))).tolist() == [0, 1, 2]


def test_waiting_for_an_event_waits_for_what_was_before(target: Any) -> None:
    slow()
    began = time.perf_counter()
    target.sync(event=True)
    assert time.perf_counter() - began >= SLOW_S / 2


def test_what_rocm_answers_is_said_of_the_device() -> None:
    with torch_stand_in.standing_in(torch_stand_in.MI300X):
        device = targets.find(targets.TargetSpec("torch", "cuda"))[0]
        opened = targets.open_device(targets.TargetSpec("torch", "cuda"), device)
    assert (device.vendor, device.facts["architecture"], device.cache_bytes) == ("AMD", "gfx942:sramecc+:xnack-", 4 << 20)
    assert "ROCm 7.0" in device.driver
    assert "compute_capability" not in device.facts
    assert {"graph", "bf16", "peer"} <= opened.features
    assert "tf32" not in opened.features


@pytest.mark.parametrize(("capability", "claimed"), [((7, 0), set()), ((7, 5), {"int8"}), ((8, 0), {"int8", "bf16", "tf32"}), ((8, 9), {"int8", "bf16", "tf32", "fp8"})])
def test_types_are_claimed_by_compute_capability(capability: tuple[int, int], claimed: set[str]) -> None:
    with torch_stand_in.standing_in(torch_stand_in.Looks(capability=capability)):
        device = targets.find(targets.TargetSpec("torch", "cuda"))[0]
        opened = targets.open_device(targets.TargetSpec("torch", "cuda"), device)
    assert opened.features & {"int8", "bf16", "tf32", "fp8"} == claimed


# ---------------------------------------------------------------- the stand-in's own rules


def test_a_missing_wait_is_seen(gpu: Any) -> None:
    x = torch.zeros(1, device="cuda")
    with held():
        x.add_(1)
        assert tensors.unwatched(x) == [0]  # the host has gone on, and nothing has happened yet
    assert x.cpu().tolist() == [1]


def test_streams_go_on_beside_each_other(gpu: Any) -> None:
    x, side = torch.zeros(1, device="cuda"), torch.cuda.Stream()
    with held(side):
        with torch.cuda.stream(side):
            x.add_(1)
        assert x.cpu().tolist() == [0]  # the stream that reads waits for its own work alone
    torch.cuda.synchronize()
    assert x.cpu().tolist() == [1]


def test_pageable_copies_wait_and_pinned_ones_need_not(gpu: Any) -> None:
    x, pinned, pageable = torch.ones(4, device="cuda"), torch.zeros(4, pin_memory=True), torch.zeros(4)
    assert (pinned.is_pinned(), pageable.is_pinned(), pinned.device.type) == (True, False, "cpu")
    with held():
        pinned.copy_(x, non_blocking=True)
        assert pinned.tolist() == [0] * 4
    torch.cuda.synchronize()
    assert pinned.tolist() == [1] * 4
    slow()
    pageable.copy_(x, non_blocking=True)
    assert pageable.tolist() == [1] * 4


@ONE_ONLY
def test_new_memory_holds_no_zeros(gpu: Any) -> None:
    assert set(torch.empty(64, dtype=torch.uint8, device="cuda").tolist()) == {0xCD}
    assert set(torch.empty(64, dtype=torch.uint8).new_empty(3, device="cuda").tolist()) == {0xCD}


def test_devices_do_not_mix(gpu: Any) -> None:
    here, there, host = torch.ones(2, device="cuda:0"), torch.ones(2, device="cuda:1"), torch.ones(2)
    for other in (there, host):
        with pytest.raises(RuntimeError, match="at least two devices"):
            here + other
    assert (here + torch.tensor(2.0)).tolist() == [3, 3]
    assert (here.to("cuda:1") + there).device == torch.device("cuda:1")
    with pytest.raises(TypeError, match="can't convert cuda:0"):
        here.numpy()
    with pytest.raises(RuntimeError, match="generator"):
        torch.randn(2, device="cuda", generator=torch.Generator())


def test_events_refuse_what_cuda_refuses(gpu: Any) -> None:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with pytest.raises(ValueError, match="must be recorded"):
        start.elapsed_time(end)
    start.record()
    slow()
    with held():
        end.record()
        with pytest.raises(ValueError, match="must be completed"):
            start.elapsed_time(end)
    end.synchronize()
    assert start.elapsed_time(end) >= SLOW_S * 1e3
    with pytest.raises(ValueError, match="enable_timing"):
        start.elapsed_time(torch.cuda.Event())


def test_a_capture_refuses_what_cuda_refuses(gpu: Any) -> None:
    side, other = torch.cuda.Stream(), torch.cuda.Stream()
    x = torch.zeros(1, device="cuda")

    def captured(body: Callable[[], Any], stream: Any = side) -> int:
        with pytest.raises(RuntimeError) as refused, torch.cuda.graph(torch.cuda.CUDAGraph(), stream=stream):
            body()
        return int(getattr(refused.value, "error_code", 0))

    def forks(joins: bool) -> None:
        other.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(other):
            x.add_(1)
        if joins:
            torch.cuda.current_stream().wait_stream(other)
            with torch.cuda.stream(other):
                x.add_(1)  # after the join: nobody waits for it

    assert captured(lambda: forks(False)) == streams.UNJOINED
    assert captured(lambda: forks(True)) == streams.UNJOINED
    assert captured(torch.cuda.synchronize) == streams.INVALIDATED  # what the end of it answers
    assert captured(lambda: None, torch.cuda.default_stream()) == 0  # PyTorch itself refuses
    assert x.tolist() == [0]


def test_a_recorded_operator_fills_its_output_at_each_replay(gpu: Any) -> None:
    x, graph = torch.ones(2, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x * 3
    assert y.tolist() != [3, 3]
    for factor in (3.0, 12.0):
        graph.replay()
        assert y.tolist() == [factor] * 2
        x.fill_(4)


def test_a_failed_kernel_is_told_of_by_every_later_call(gpu: Any) -> None:
    x = torch.zeros(1, device="cuda")
    gpu.cards[0].fails_after = 1
    x.add_(1)
    x.add_(1)  # this one fails, where nobody looks
    with pytest.raises(RuntimeError, match="illegal memory access") as first:
        torch.cuda.synchronize()
    assert type(first.value).__name__ in ("AcceleratorError", "RuntimeError")
    for later in (lambda: x.add_(1), lambda: torch.empty(1, device="cuda"), x.tolist, torch.cuda.Event().record):
        with pytest.raises(RuntimeError, match="illegal memory access"):
            later()
    assert torch.ones(1, device="cuda:1").tolist() == [1]  # the other device goes on


def test_memory_is_counted_and_given_back(gpu: Any) -> None:
    before = torch.cuda.memory_allocated()
    x = torch.empty(1000, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() == before + 1024
    del x
    assert torch.cuda.memory_allocated() == before
    with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
        torch.empty(gpu.looks.total_bytes + 1, dtype=torch.uint8, device="cuda")


@ONE_ONLY
def test_pytorch_is_as_it_was_when_the_stand_in_goes() -> None:
    before = (torch.cuda.is_available(), torch.version.hip, torch.Generator, torch.empty, "device" in vars(torch.Tensor))
    with torch_stand_in.standing_in():
        assert torch.cuda.is_available()
    assert (torch.cuda.is_available(), torch.version.hip, torch.Generator, torch.empty, "device" in vars(torch.Tensor)) == before
    assert not hasattr(torch.cuda, "hotlap_stand_in")

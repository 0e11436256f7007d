"""The stand-in's rules of capture, each broken once; and the second queue of the cuda target, which belongs to the batch."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from cuda_stand_in import build
from cuda_stand_in.test_driver import Driver
from hotlap.core.measure import targets

pytestmark = pytest.mark.skipif(bool(build.missing()), reason=build.missing() or "-")
GLOBAL, THREAD_LOCAL, RELAXED = range(3)


@pytest.fixture
def cu() -> Iterator[Driver]:
    with build.on() as library:
        driver = Driver(library)
        driver.get("cuInit", 0)
        driver.get("cuCtxSetCurrent", driver.get("cuDevicePrimaryCtxRetain", 0))
        yield driver


class Capture:
    """A stream in capture, and one beside it."""

    def __init__(self, cu: Driver, mode: int = RELAXED) -> None:
        self.cu = cu
        self.first, self.second = cu.get("cuStreamCreate", 1), cu.get("cuStreamCreate", 1)
        self.memory = cu.get("cuMemAlloc", 64)
        self.begun = cu.cuStreamBeginCapture(self.first, cu.binding.CUstreamCaptureMode(mode))[0]

    def event(self, stream: Any) -> Any:
        event = self.cu.get("cuEventCreate", 0)
        self.cu.get("cuEventRecord", event, stream)
        return event

    def fill(self, stream: Any, value: int = 5) -> None:
        self.cu.get("cuMemsetD8Async", self.memory, value, 64, stream)

    def end(self) -> str:
        return self.cu.cuStreamEndCapture(self.first)[0]  # type: ignore[no-any-return]

    def fork(self) -> None:
        self.cu.get("cuStreamWaitEvent", self.second, self.event(self.first), 0)


def test_a_wait_ends_a_capture(cu: Driver) -> None:
    for wait in ("stream", "context", "event"):
        capture = Capture(cu)
        event = capture.event(capture.first)
        asked, args = {"stream": ("cuStreamSynchronize", [capture.first]), "context": ("cuCtxSynchronize", []), "event": ("cuEventSynchronize", [event])}[wait]
        assert getattr(cu, asked)(*args)[0] == ("CAPTURED_EVENT" if wait == "event" else "STREAM_CAPTURE_UNSUPPORTED")
        assert cu.cuMemsetD8Async(capture.memory, 0, 64, capture.first)[0] == "STREAM_CAPTURE_INVALIDATED"
        assert capture.end() == "STREAM_CAPTURE_INVALIDATED"


def test_nothing_runs_while_it_is_captured(cu: Driver) -> None:
    capture, out = Capture(cu), np.zeros(64, np.uint8)
    capture.fill(capture.first)
    graph = cu.get("cuStreamEndCapture", capture.first)
    cu.get("cuMemcpyDtoHAsync", out.ctypes.data, capture.memory, 64, capture.first)
    assert (out == 0xCD).all()
    executable = cu.get("cuGraphInstantiate", graph, 0)
    cu.get("cuGraphDestroy", graph)
    assert cu.cuGraphLaunch(graph, capture.first)[0] == "INVALID_VALUE"
    cu.get("cuGraphLaunch", executable, capture.first)
    cu.get("cuMemcpyDtoHAsync", out.ctypes.data, capture.memory, 64, capture.first)
    assert (out == 5).all()
    cu.get("cuGraphExecDestroy", executable)
    assert cu.cuGraphLaunch(executable, capture.first)[0] == "INVALID_VALUE"


def test_a_stream_that_was_forked_is_joined(cu: Driver) -> None:
    capture = Capture(cu)
    capture.fork()
    capture.fill(capture.second)
    assert capture.end() == "STREAM_CAPTURE_UNJOINED"
    capture = Capture(cu)
    capture.fork()
    capture.fill(capture.second)
    joined = capture.event(capture.second)
    capture.fill(capture.second)  # behind the event that is waited for
    cu.get("cuStreamWaitEvent", capture.first, joined, 0)
    assert capture.end() == "STREAM_CAPTURE_UNJOINED"
    capture = Capture(cu)
    capture.fork()
    capture.fill(capture.second)
    cu.get("cuStreamWaitEvent", capture.first, capture.event(capture.second), 0)
    assert capture.end() == "SUCCESS"


def test_events_from_outside_have_no_place_in_a_capture(cu: Driver) -> None:
    capture = Capture(cu)
    outside = capture.event(capture.second)
    assert cu.cuStreamWaitEvent(capture.first, outside, 0)[0] == "STREAM_CAPTURE_ISOLATION"
    inside = capture.event(capture.first)
    assert capture.end() == "SUCCESS"
    assert cu.cuStreamWaitEvent(capture.second, inside, 0)[0] == "CAPTURED_EVENT"


def test_a_capture_ends_on_its_own_stream(cu: Driver) -> None:
    capture = Capture(cu)
    assert cu.cuStreamEndCapture(capture.second)[0] == "STREAM_CAPTURE_UNMATCHED"
    assert cu.cuStreamBeginCapture(capture.first, cu.binding.CUstreamCaptureMode(RELAXED))[0] == "INVALID_VALUE"
    assert cu.cuStreamBeginCapture(0, cu.binding.CUstreamCaptureMode(RELAXED))[0] == "STREAM_CAPTURE_UNSUPPORTED"
    assert capture.end() == "SUCCESS"


def test_pageable_memory_has_no_place_in_a_capture(cu: Driver) -> None:
    capture, host = Capture(cu), np.zeros(64, np.uint8)
    assert cu.cuMemcpyHtoDAsync(capture.memory, host.ctypes.data, 64, capture.first)[0] == "STREAM_CAPTURE_UNSUPPORTED"
    assert capture.end() == "STREAM_CAPTURE_INVALIDATED"


@pytest.mark.parametrize(("mode", "here", "elsewhere"), [(GLOBAL, False, False), (THREAD_LOCAL, False, True), (RELAXED, True, True)])
def test_what_is_forbidden_beside_a_capture(cu: Driver, mode: int, here: bool, elsewhere: bool) -> None:
    context = cu.get("cuCtxGetCurrent")

    def allocate() -> bool:
        cu.get("cuCtxSetCurrent", context)
        answers.append(cu.cuMemAlloc(4)[0] == "SUCCESS")
        return answers[-1]

    answers: list[bool] = []
    capture = Capture(cu, mode)
    assert allocate() == here
    capture.end()
    capture = Capture(cu, mode)
    thread = threading.Thread(target=allocate)
    thread.start()
    thread.join()
    assert answers == [here, elsewhere]
    capture.end()


# ------------------------------------------------------------ the cuda target's second queue: three changes of it, which no other test would see

SIZE = 32 << 20
BIAS = 1 << 56  # driver.h


@pytest.fixture
def target() -> Iterator[Any]:
    with build.on():
        spec = targets.parse("cuda")
        yield targets.open_device(spec, targets.find(spec)[0])


@pytest.mark.parametrize("queue", [0, 1])
def test_a_batch_is_done_when_it_is_timed(target: Any, queue: int) -> None:
    """Nobody waits for the queue here: what the last copy wrote is looked up where the stand-in keeps it."""
    sources = [target.buffer(np.full(SIZE, n, np.uint8), "pinned") for n in (1, 2, 3)]
    to = target.buffer(SIZE)
    target.time(lambda n: [target.copy(to, sources[i], queue=queue) for i in range(n)], 3)
    assert ctypes.c_uint8.from_address((to.handle.address ^ BIAS) + SIZE - 1).value == 3


def test_the_second_queue_starts_behind_the_batchs_start(target: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    a, b = target.buffer(np.ones(1024, np.uint8), "pinned"), target.buffer(1024)
    target.sync()
    log = tmp_path / "calls"
    monkeypatch.setenv("STAND_IN_CALLS", str(log))
    target.time(lambda n: [target.copy(b, a, queue=1) for _ in range(n)], 2)
    calls = [call for call in log.read_text().split() if call not in ("cuCtxSetCurrent", "cuStreamSynchronize")]
    copies = ["cuMemcpyHtoDAsync_v2"] * 2
    assert calls[:8] == ["cuEventRecord", "cuStreamWaitEvent", *copies, "cuEventRecord", "cuStreamWaitEvent", "cuEventRecord", "cuEventSynchronize"]


def test_a_graph_holds_the_second_queue(target: Any) -> None:
    a, b, c = (target.buffer(np.full(1024, n, np.uint8)) for n in (1, 2, 3))

    def enqueue(calls: int) -> None:
        for _ in range(calls):
            target.copy(b, a)
            target.copy(c, a, queue=1)

    target.time(enqueue, 2, graph=True)
    target.copy(a, target.buffer(np.full(1024, 9, np.uint8), "pageable"))
    target.sync()
    target.time(enqueue, 2, graph=True)
    assert (target.read(c) == 9).all()
    assert (target.read(b) == 9).all()

"""Streams, events and graphs of a GPU that is not here. A stream is a thread, an event is stamped when its stream gets there, a graph is a list of
what its streams were given. As CUDA's do, they refuse what a capture forbids, and a device whose kernel has failed answers nothing else."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

CAPTURING, INVALIDATED, UNJOINED, SICK = 900, 901, 904, 700  # after the manual of CUDA's runtime, cudaError_t
IDLE_S = 2.0  # then a stream's thread ends: tests leave many streams behind
WORDS = {
    CAPTURING: "operation not permitted when stream is capturing", INVALIDATED: "operation failed due to a previous error during capture",
    UNJOINED: "capturing stream has unjoined work", SICK: "an illegal memory access was encountered",
}  # fmt: skip


def error(code: int) -> RuntimeError:
    """As PyTorch tells of what CUDA's runtime answers."""
    kind = getattr(torch, "AcceleratorError", RuntimeError)  # came with 2.8
    made = kind(
        f"CUDA error: {WORDS[code]}\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
        "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1"
    )
    made.error_code = code
    return made  # type: ignore[no-any-return]


@dataclass
class Card:
    """One device: its streams, and what shall go wrong on it."""

    index: int
    total_bytes: int
    streams: list[Stream] = field(default_factory=list)
    sick: RuntimeError | None = None  # a kernel has failed: every later call answers with this
    fails_after: int | None = None  # kernels until one fails
    full_after: int | None = None  # allocations until there is no memory
    refuses_capture: bool = False
    kernels: int = 0
    replays: int = 0

    def __post_init__(self) -> None:
        self.default = Stream(card=self)

    def answer(self) -> None:
        """What any call of the runtime does first."""
        if self.sick is not None:
            raise self.sick

    def kernel(self, run: Callable[[], Any]) -> Any:
        """On a stream's thread."""
        self.kernels += 1
        if self.sick is not None:
            return None
        if self.fails_after is not None:
            self.fails_after -= 1
            if self.fails_after < 0:
                self.sick = error(SICK)
                return None
        return run()

    def allocate(self, nbytes: int, in_use: int) -> None:
        self.answer()
        if self.full_after is not None:
            self.full_after -= 1
        if in_use + nbytes > self.total_bytes or (self.full_after is not None and self.full_after < 0):
            raise torch.OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {nbytes / 2**20:.2f} MiB. GPU {self.index} has a total capacity of "
                f"{self.total_bytes / 2**30:.2f} GiB of which {max(self.total_bytes - in_use, 0) / 2**20:.2f} MiB is free."
            )

    def synchronize(self) -> None:
        for stream in self.streams:
            if stream.graph is not None:
                stream.graph.broken = True
                raise error(CAPTURING)
        for stream in self.streams:
            stream.wait()
        self.answer()


class Stream:
    """`torch.cuda.Stream`. What is put on it runs in order, beside the host and other streams."""

    def __init__(self, device: Any = None, priority: int = 0, *, card: Card | None = None) -> None:
        from torch_stand_in import card_of  # which the device is, only the whole knows

        self.card = card or card_of(device)
        self.priority = priority
        self.graph: CUDAGraph | None = None
        self.put_count = 0
        self.failed: BaseException | None = None
        self._todo: queue.SimpleQueue[tuple[Callable[[], Any], threading.Event | None]] = queue.SimpleQueue()
        self._started, self._appended, self._waited = False, 0, 0
        self._starting = threading.Lock()
        self.card.streams.append(self)

    @property
    def device(self) -> Any:
        return torch.device("cuda", self.card.index)

    def _work(self) -> None:
        while True:
            try:
                run, ended = self._todo.get(timeout=IDLE_S)
            except queue.Empty:
                with self._starting:
                    if self._todo.empty():  # what is put after this starts another thread
                        self._started = False
                        return
                continue
            try:
                run()
            except BaseException as failure:
                self.failed = self.failed or failure
            del run
            if ended is not None:
                ended.set()

    def _append(self, run: Callable[[], Any], ended: threading.Event | None = None) -> None:
        with self._starting:
            self._appended += 1
            self._todo.put((run, ended))
            if not self._started:
                self._started = True
                threading.Thread(target=self._work, daemon=True, name="stand-in stream").start()

    def put(self, run: Callable[[], Any]) -> None:
        """A kernel: now queued, or recorded where this stream is being captured."""
        self.card.answer()
        self.put_count += 1
        if self.graph is not None:
            self.graph.kernels.append(run)
        else:
            self._append(lambda: self.card.kernel(run))

    def mark(self, run: Callable[[], Any]) -> None:
        """What is no kernel: stamps and waits."""
        self._append(run)

    def wait(self) -> None:
        """Until all that was put so far has ended."""
        if self._waited == self._appended:
            return  # nothing was put since it was last waited for
        ended, upto = threading.Event(), self._appended + 1
        self._append(lambda: None, ended)
        ended.wait()
        self._waited = upto
        failure, self.failed = self.failed, None
        if failure is not None:
            raise failure

    def synchronize(self) -> None:
        if self.graph is not None:
            self.graph.broken = True
            raise error(CAPTURING)
        self.wait()
        self.card.answer()

    def query(self) -> bool:
        return self._todo.empty()

    def wait_event(self, event: Event) -> None:
        self.card.answer()
        if event.graph is not None:
            self._join(event)
        elif event.recorded:
            ended = event.ended
            self.mark(ended.wait)

    def _join(self, event: Event) -> None:
        """A stream that waits for an event of a capture takes part in it; the first one takes its work back by waiting for it."""
        graph = event.graph
        assert graph is not None
        if self.graph is None and graph.open:
            self.graph = graph
            graph.forked[self] = self.put_count
        elif self is graph.origin and event.stream is not None:
            graph.joined[event.stream] = event.put_count

    def wait_stream(self, other: Stream) -> None:
        event = Event()
        event.record(other)
        self.wait_event(event)

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event


class Event:
    """`torch.cuda.Event`."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False) -> None:
        self.timing, self.recorded, self.at_s = enable_timing, False, 0.0
        self.ended = threading.Event()
        self.graph: CUDAGraph | None = None
        self.stream: Stream | None = None
        self.put_count = 0

    def record(self, stream: Stream | None = None) -> None:
        from torch_stand_in import current_stream

        stream = stream or current_stream()
        stream.card.answer()
        self.stream, self.graph, self.put_count = stream, stream.graph, stream.put_count
        if self.graph is None:
            self.recorded, self.ended = True, threading.Event()
            ended = self.ended
            stream.mark(lambda: self._reached(ended))

    def _reached(self, ended: threading.Event) -> None:
        self.at_s = time.perf_counter()
        ended.set()

    def wait(self, stream: Stream | None = None) -> None:
        from torch_stand_in import current_stream

        (stream or current_stream()).wait_event(self)

    def query(self) -> bool:
        return not self.recorded or self.ended.is_set()

    def synchronize(self) -> None:
        if self.graph is not None:
            raise error(CAPTURING)
        if self.recorded:
            self.ended.wait()
        if self.stream is not None:
            self.stream.card.answer()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds. Raises where PyTorch does: without timing, not recorded, not yet there."""
        if not (self.timing and end.timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if not (self.recorded and end.recorded):
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not (self.ended.is_set() and end.ended.is_set()):
            raise ValueError("Both events must be completed before calculating elapsed time.")
        return (end.at_s - self.at_s) * 1e3


class CUDAGraph:
    """`torch.cuda.CUDAGraph`: what was put on the capturing streams, run again as a whole."""

    def __init__(self, keep_graph: bool = False) -> None:
        self.kernels: list[Callable[[], Any]] = []
        self.origin: Stream | None = None
        self.forked: dict[Stream, int] = {}
        self.joined: dict[Stream, int] = {}
        self.open = self.broken = self.ready = False

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global", **_: Any) -> None:
        from torch_stand_in import current_stream

        stream = current_stream()
        stream.card.answer()
        if stream is stream.card.default:
            raise RuntimeError("CUDA graphs must be captured on a non-default stream.")
        self.origin, stream.graph, self.open = stream, self, True
        self.broken = stream.card.refuses_capture

    def capture_end(self) -> None:
        assert self.origin is not None, "capture_end before capture_begin"
        card, self.open, self.origin.graph = self.origin.card, False, None
        unjoined = any(self.joined.get(stream, -1) != stream.put_count for stream in self.forked)
        for stream in self.forked:
            stream.graph = None
        card.answer()
        if self.broken or unjoined:
            raise error(INVALIDATED if self.broken else UNJOINED)
        self.ready = True

    def replay(self) -> None:
        from torch_stand_in import current_stream

        if not self.ready:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        stream = current_stream()
        stream.card.answer()
        stream.card.replays += 1
        kernels = list(self.kernels)
        stream.mark(lambda: [stream.card.kernel(kernel) for kernel in kernels])

    def reset(self) -> None:
        self.kernels, self.ready = [], False

    def pool(self) -> tuple[int, int]:
        return (0, 0)

"""The steps of one process, timed in parts and appended as they end. Runs within the measured program.

A step ends where the program says so (`t.step()` of `hotlap.steps()`, or `hotlap.step()`), else where an optimiser's `step()` returns
after a backward pass. The standard library alone is imported; PyTorch is touched only once the program has imported it. Times are of
`time.perf_counter`; once the program uses CUDA, of events on the device, so that nothing waits for it.
"""

from __future__ import annotations

import json
import math
import os
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from hotlap.training.recorder.foreign import ForeignTime
from hotlap.training.recorder.model_calls import AHEAD, ModelCalls
from hotlap.training.recorder.reducers import Reducers
from hotlap.training.recorder.transfers import arm_transfers
from hotlap.training.recorder.turns import SECONDS, Turn, uses_device

PARTS = ("data_wait", "transfer", "forward", "backward", "optimiser", "communication", "rest", AHEAD)
ROW = struct.Struct("<14d")  # as hotlap.training.record.COLUMNS
MOST_STEPS = 500_000  # kept of a process: 56 MB
MOST_EVENTS, MOST_SHAPES = 200, 32
LOSS_EVERY = 50  # steps between looks at a loss on a device, each of which waits for it
ALLOCATOR_EVERY = 16
OTHERS = 4  # steps of other optimisers in a row, after which the next of them is believed: the program has made a new one
COUNTED_AFTER = 3  # steps before the one whose operations are counted
NAN = math.nan


class StepRecorder:
    """Times of one process: rows appended as steps end, the rest in one small file."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.asked, self.pid = asked, os.getpid()
        self.frozen = asked["data"] == "frozen"
        self.most = int(asked["steps"]) or MOST_STEPS
        self.count, self.source, self.backwards = 0, "", 0
        self.others = 0  # steps of other optimisers since the last of the one that is believed
        self.thread = 0
        self.stack: list[str] = []
        self.born = time.perf_counter()
        self.last = self.edge = 0.0
        self.parts = dict.fromkeys(PARTS, 0.0)
        self.former = dict.fromkeys(PARTS, 0.0)  # of an optimiser's steps, before the program spoke for itself
        self.former_loss, self.former_samples, self.origin = NAN, 0.0, 0.0
        self.seen = set[str]()  # parts that were met
        self.events: list[dict[str, Any]] = []
        self.saved = 0  # of them
        self.shapes: list[str] = []
        self.samples = 0.0
        self.loss: Any = NAN
        self.loaders: list[str] = []
        self.workers = 0
        self.compiling = 0.0
        self.compiled: Any = None  # last of Dynamo's metrics that was looked at
        self.cuda: Any = None
        self.opened: Any = None
        self.marks: list[tuple[str, Any]] = []
        self.pending: deque[tuple[list[tuple[str, Any]], Any, list[float]]] = deque()
        self.retries = 0
        self.error: dict[str, Any] = {}
        self.ended = "program"
        self.flop: dict[str, float] = {}
        self.counter: Any = None
        self.calls = ModelCalls(self) if asked["count"] else None
        self.parameters: dict[str, int] = {}
        self.reducers = Reducers()
        self.turn: Turn | None = None  # with another program
        self.resumed: list[int] = []  # steps that began a turn after a wait
        self.world, self.first_s = 1, 0.0
        self.schedule: int | None = None  # the system's file of this thread
        self.delay_s: float | None = None
        self.delays_s = 0.0
        self.foreign = ForeignTime()  # since the first step, without waits for a turn
        self.helpers = [0.0, 0.0]  # processor time of this process's other threads, at the end of the first step and of the last
        self.waits_from: float | None = None  # delay of the thread when its present wait for data began
        self.wait_delay_s = 0.0
        self.file: int | None = None
        self.armed, self.closed, self.enough, self.transfers = False, False, False, False

    # ------------------------------------------------------------ parts of a step

    def to(self, part: str) -> None:
        """The time since the last mark belongs to that part."""
        now = time.perf_counter()
        self.parts[part] += now - self.last
        self.last = now
        if self.cuda is not None and not self.cuda.is_current_stream_capturing():
            self.marks.append((part, _event(self.cuda)))

    def enter(self, part: str, before: str = "rest") -> bool:
        """A part begins, unless within another; what was before it was `before`. Whether it counts."""
        if threading.get_ident() != (self.thread or threading.main_thread().ident):
            return False
        if not self.stack:
            if not self.last:
                self.last = self.edge = time.perf_counter()
            ahead = before == "forward" and part == "transfer" and self.calls is not None and self.calls.waiting
            self.to(AHEAD if ahead else before)
            if part == "data_wait":
                self.waits_from = self._delay()
        self.stack.append(part)
        return True

    def leave(self) -> None:
        part = self.stack.pop()
        if not self.stack:
            self.seen.add(part)
            self.to(part)
            if self.calls is not None:
                self.calls.left(part)
            if part == "data_wait" and self.waits_from is not None and (now := self._delay()) is not None:
                self.wait_delay_s += now - self.waits_from

    def moved(self, part: str, to: str, seconds: float) -> None:
        """So much of a part's time in this step belongs to another; by the process's clock alone."""
        if seconds and self.cuda is None:
            seconds = min(seconds, self.parts[part])
            self.parts[part] -= seconds
            self.parts[to] += seconds
            self.seen.add(to)

    # ------------------------------------------------------------ steps

    def step(self, source: str, tokens: float | None = None, samples: float | None = None) -> None:
        """A step has ended. The program's own word goes before an optimiser's, and the first optimiser before others while it steps."""
        if self.enough or self.closed:
            self._end_anyway()
            return
        if source != self.source:
            if self.source == "program":
                return
            if self.source and source != "program":
                self.others += 1
                if self.others < OTHERS:
                    return
            elif self.source:  # the program speaks for itself: this step is what it says, not what an optimiser said just before
                self._restart()
            self.source = source
        self.others = 0
        self.thread = self.thread or threading.get_ident()
        if not self.last:
            self.last = self.edge = self.born
        self.to("rest")
        self.count += 1
        now = self.last
        self._row(now, tokens, samples)
        if source != "program":
            self._remember()
        self.parts = dict.fromkeys(PARTS, 0.0)
        self.backwards, self.samples, self.edge, self.wait_delay_s = 0, 0.0, now, 0.0
        self.helpers[1] = time.process_time() - time.thread_time()
        if self.count == 1:
            self.first_s, self.helpers[0] = now - self.born, self.helpers[1]
            self.foreign.begin()
        self._look()
        if self.count & (self.count - 1) == 0 or len(self.events) != self.saved:
            self.save()  # a process that is killed has no time to
        if self.turn is not None and self.count < self.most and self.turn.is_over():
            self._wait_for_turn(self.turn)
        self.last = self.edge if self.cuda is not None else time.perf_counter()  # what recording cost belongs to no step
        self.edge = self.last
        if self.count >= self.most:
            self._stop()

    def _wait_for_turn(self, turn: Turn) -> None:
        """Whatever works on while this thread waits would have its time for nothing: the device, workers of a loader, other ranks."""
        self._rank()
        if self.cuda is not None or uses_device() or self.workers or self.world > 1:
            self.turn = None
            return
        self.foreign.end()
        if not turn.wait(_threads() or 1):
            self.turn = None
        self.foreign.begin()
        if turn.waited_s >= SECONDS:
            self.resumed.append(self.count + 1)
        self.delay_s = None if self.delay_s is None else self._delay()

    def _remember(self) -> None:
        """What belongs to the program's first step, should it speak for itself after an optimiser's."""
        self.origin = self.origin or self.edge
        self.former = {name: seconds + self.parts[name] for name, seconds in self.former.items()}
        self.former_samples += self.samples

    def _restart(self) -> None:
        """The program's first step begins where the first of an optimiser's did, and has all that was in them; by the process's clock."""
        self.count = 0
        self.parts = {name: seconds + self.former[name] for name, seconds in self.parts.items()}
        self.samples += self.former_samples
        self.edge = self.origin or self.edge
        self.loss = self.former_loss if self.loss is NAN and math.isfinite(self.former_loss) else self.loss
        self.cuda, self.delay_s, self.delays_s, self.foreign = None, None, 0.0, ForeignTime()
        self.marks.clear()
        self.pending.clear()
        if self.file is not None:
            os.ftruncate(self.file, 0)
            os.lseek(self.file, 0, os.SEEK_SET)
        self.resumed.clear()
        for event in self.events:
            event["step"] = 1

    def _row(self, now: float, tokens: float | None, samples: float | None) -> None:
        seen = self.seen
        samples = samples if samples is not None else (self.samples or None)
        row = [
            float(self.count), now, now - self.edge, *(self.parts[name] if name in seen else NAN for name in PARTS[:6]),
            NAN if tokens is None else float(tokens), NAN if samples is None else float(samples), NAN, self._delayed(),
            self.wait_delay_s,
        ]  # fmt: skip
        if self.cuda is None:
            row[11] = self.former_loss = self._loss()
            self._write(row)
            if self.calls is not None:
                self.calls.ended(self.parts)
            self._begin_cuda()
        else:
            if self.count % LOSS_EVERY == 0:
                row[11] = self._loss()
            self.pending.append((self.marks, self.opened, row))
            self.opened = self.marks[-1][1] if self.marks else self.opened
            self.marks = []
            while self.pending and (self.pending[0][0] and self.pending[0][0][-1][1].query()):
                self._resolve()

    def _delay(self) -> float | None:
        """Seconds for which this thread has been ready and waited for a processor; None where the system does not say."""
        if self.schedule is None:
            try:
                self.schedule = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                self.schedule = -1
        try:
            return int(os.pread(self.schedule, 64, 0).split()[1]) / 1e9
        except (OSError, ValueError, IndexError):
            return None

    def _delayed(self) -> float:
        """The same of this step alone."""
        now = self._delay()
        before, self.delay_s = self.delay_s, now
        if before is None or now is None:
            return NAN
        self.delays_s += now - before
        return now - before

    def _begin_cuda(self) -> None:
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if cuda is not None and cuda.is_initialized():
            self.cuda, self.opened, self.marks = cuda, _event(cuda), []
            if not self.transfers:
                arm_transfers(self, sys.modules["torch"])
            self.transfers = True

    def _resolve(self) -> None:
        """Times of a step on the device, between the events that were recorded as it was enqueued."""
        marks, before, row = self.pending.popleft()
        parts = dict.fromkeys(PARTS, 0.0)
        for part, event in marks:
            parts[part] += before.elapsed_time(event) / 1e3
            before = event
        row[2] = sum(parts.values())
        row[3:9] = [parts[name] if name in self.seen else NAN for name in PARTS[:6]]
        self._write(row)
        if self.calls is not None:
            self.calls.ended(parts)

    def _write(self, row: list[float]) -> None:
        if self.file is None:
            path = os.path.join(self.asked["folder"], f"steps-{self.asked['number']}-{self.pid}.bin")
            try:
                self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            except OSError:
                return
        if row[0] <= MOST_STEPS:
            os.write(self.file, ROW.pack(*row))

    def _loss(self) -> float:
        loss, self.loss = self.loss, NAN
        if loss is NAN or loss is None:
            return NAN
        try:
            value = float(loss)
        except Exception:
            return NAN
        if not math.isfinite(value):
            self.note("loss", repr(value))
            return -math.inf if value == -math.inf else math.inf  # in the row NaN means that there was none
        return value

    def note(self, kind: str, detail: str = "", seconds: float = 0.0, step: int | None = None) -> None:
        if len(self.events) < MOST_EVENTS:
            self.events.append({"kind": kind, "step": self.count if step is None else step, "seconds": seconds, "detail": detail[:300]})

    def _look(self) -> None:
        """Events of the step that ended: what Dynamo compiled, and whether the allocator had to try again."""
        if self.compiling:
            self.compiling = 0.0
            self._reasons()
        if self.cuda is not None and self.count % ALLOCATOR_EVERY == 0:
            retries = int(self.cuda.memory_stats().get("num_alloc_retries", 0))
            if retries > self.retries:
                self.note("allocator", f"{retries - self.retries} retries")
            self.retries = retries
        if self.counter is not None and self.count == COUNTED_AFTER + 1:
            self.counter.__exit__(None, None, None)
            self.flop, self.counter, self.most = dict(self.counter.by_dtype), None, self.count
        elif self.calls is not None and self.count < COUNTED_AFTER:
            self.calls.begin()
        elif self.calls is not None and self.count == COUNTED_AFTER:
            self.calls.end()
            self.counter = _counting()
            if self.counter is not None:
                self.counter.__enter__()

    def _reasons(self) -> None:
        """Which frames were compiled anew, and the guard that failed."""
        utils = sys.modules.get("torch._dynamo.utils")
        try:
            metrics = utils.get_compilation_metrics()  # type: ignore[union-attr]
        except Exception:
            return
        fresh = []
        for metric in reversed(metrics):
            if metric is self.compiled:
                break
            fresh.append(metric)
        self.compiled = metrics[-1] if metrics else None
        for metric in reversed(fresh):
            if reason := getattr(metric, "recompile_reason", None):
                self.note("recompile", f"{metric.co_name}: {reason}", float(getattr(metric, "entire_frame_compile_time_s", None) or 0.0))

    # ------------------------------------------------------------ the end

    def _stop(self) -> None:
        """As many steps as were asked for."""
        self.enough, self.ended = True, "asked"
        self.close()
        if threading.current_thread() is threading.main_thread():
            raise SystemExit(0)
        self._end_anyway()

    def _end_anyway(self) -> None:
        """The program went on after its end, or steps in a thread of its own."""
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                continue
        os._exit(0)

    def close(self) -> None:
        if self.closed or self.pid != os.getpid():
            return
        self.closed = True
        if self.cuda is not None and self.pending:
            try:
                self.cuda.synchronize()
                while self.pending:
                    self._resolve()
            except Exception as error:
                self.note("device", str(error))
        self.save()

    def save(self) -> None:
        """Writes what is known so far, whole or not at all."""
        self.saved = len(self.events)
        known = {
            "pid": self.pid, "number": self.asked["number"], "rank": self._rank(), "world": self.world, "steps": self.count,
            "source": self.source.partition(" ")[0], "armed": self.armed, "loaders": self.loaders,
            "workers": self.workers, "resumed": self.resumed,
            "events": self.events, "shapes": self.shapes,
            "born_s": self.born, "first_s": self.first_s, "ended_s": self.last, "ended": self.ended, "error": self.error,
            "cpu_s": time.process_time(), "rss_bytes": _rss(), "flop": self.flop,
            "before_forward": min(self.calls.shares, default=None) if self.calls is not None else None,
            "run_delay_s": None if self.delay_s is None else self.delays_s,
            "foreign_s": None if self.workers or self.world > 1 else self.foreign.so_far(),  # else some of it is the program's own
            "helpers_s": self.helpers[1] - self.helpers[0],
            "parameters": self.parameters, "threads": _threads(), "device": "cuda" if self.cuda is not None else "cpu",
            "allocated_bytes": int(self.cuda.max_memory_allocated()) if self.cuda is not None else None,
            "reserved_bytes": int(self.cuda.max_memory_reserved()) if self.cuda is not None else None,
            **self.reducers.medians(),
            "torch": str(getattr(sys.modules.get("torch"), "__version__", "")),
        }  # fmt: skip
        path = os.path.join(self.asked["folder"], f"process-{self.asked['number']}-{self.pid}.json")
        try:
            with open(path + ".tmp", "w", encoding="utf-8") as file:
                json.dump(known, file)
            os.replace(path + ".tmp", path)
        except OSError:
            pass

    def _rank(self) -> int:
        distributed = getattr(sys.modules.get("torch"), "distributed", None)
        try:
            if distributed is not None and distributed.is_available() and distributed.is_initialized():
                self.world = int(distributed.get_world_size())
                return int(distributed.get_rank())
        except Exception:
            pass
        return int(os.environ.get("RANK", "0") or 0)

    # ------------------------------------------------------------ batches

    def batch(self, batch: Any) -> None:
        """A batch was handed over: how many samples, and of which shapes."""
        shapes = list(_shapes(batch))
        if shapes and shapes[0]:
            self.samples += shapes[0][0]
        text = " ".join("×".join(map(str, shape)) for shape in shapes[:8])
        if text and text not in self.shapes and len(self.shapes) < MOST_SHAPES:
            self.shapes.append(text)

    def met(self, loader: str, workers: int = 0) -> None:
        self.workers = max(self.workers, workers)
        if loader not in self.loaders:
            self.loaders.append(loader)
            self.save()


def _event(cuda: Any) -> Any:
    event = cuda.Event(enable_timing=True)
    event.record()
    return event


def _shapes(batch: Any, depth: int = 0) -> Iterator[tuple[int, ...]]:
    """Of every array in a batch, as far as lists, tuples and mappings go."""
    shape = getattr(batch, "shape", None)
    if shape is not None:
        yield tuple(int(side) for side in shape)
    elif depth < 4 and isinstance(batch, (list, tuple)) and not (batch and isinstance(batch[0], (int, float, str, bytes))):
        for one in batch[:16]:
            yield from _shapes(one, depth + 1)
    elif depth < 4 and hasattr(batch, "values") and callable(batch.values):
        for one in list(batch.values())[:16]:
            yield from _shapes(one, depth + 1)
    elif isinstance(batch, (list, tuple)):
        yield (len(batch),)


def _rss() -> int | None:
    """The most memory that the process held at a time."""
    try:
        import resource
    except ImportError:
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(most) * (1 if sys.platform == "darwin" else 1024)


def _threads() -> int | None:
    torch = sys.modules.get("torch")
    try:
        return int(torch.get_num_threads()) if torch is not None else None
    except Exception:
        return None


def _counting() -> Any:
    """PyTorch's counter of operations, by the type of what they make; None where this version has another."""
    try:
        from torch.backends.cuda import enable_flash_sdp
        from torch.utils.flop_counter import FlopCounterMode
    except ImportError:
        return None
    if not sys.modules["torch"].cuda.is_initialized():
        enable_flash_sdp(False)  # the counter does not know the processor's kernel of attention; products by themselves it does

    class ByType(FlopCounterMode):  # type: ignore[misc]
        by_dtype: dict[str, float]

        def _count_flops(self, func_packet: Any, out: Any, args: Any, kwargs: Any) -> Any:
            if (count := self.flop_registry.get(func_packet)) is not None:
                first = out[0] if isinstance(out, (tuple, list)) and out else out
                name = str(getattr(first, "dtype", "unknown")).removeprefix("torch.")
                self.by_dtype[name] = self.by_dtype.get(name, 0.0) + count(*args, **kwargs, out_val=out)
            return super()._count_flops(func_packet, out, args, kwargs)

    made = ByType(display=False)
    made.by_dtype = {}
    return made

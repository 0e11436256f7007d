"""Runs at the start of every Python process of a measured program: times its steps in parts, and what befalls them.

A step ends where the program says so (`t.step()` of `hotlap.steps()`, or `hotlap.step()`), else where an optimiser's `step()` returns
after a backward pass. The standard library alone is imported; PyTorch is touched only once the program has imported it. Times are of
`time.perf_counter`; once the program uses CUDA, of events on the device, so that nothing waits for it.
"""

from __future__ import annotations

import atexit
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import json
import math
import os
import struct
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

PARTS = ("data_wait", "transfer", "forward", "backward", "optimiser", "communication", "rest")
ROW = struct.Struct("<13d")  # as hotlap.training.record.COLUMNS
MOST_STEPS = 500_000  # kept of a process: 52 MB
MOST_EVENTS, MOST_SHAPES = 200, 32
LOSS_EVERY = 50  # steps between looks at a loss on a device, each of which waits for it
ALLOCATOR_EVERY = 16
COUNTED_AFTER = 2  # steps before the one whose operations are counted
NAN = math.nan


class StepRecorder:
    """Times of one process: rows appended as steps end, the rest in one small file."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.asked, self.pid = asked, os.getpid()
        self.frozen = asked["data"] == "frozen"
        self.most = int(asked["steps"]) or MOST_STEPS
        self.count, self.source, self.backwards = 0, "", 0
        self.thread = 0
        self.stack: list[str] = []
        self.born = time.perf_counter()
        self.last = self.edge = 0.0
        self.parts = dict.fromkeys(PARTS, 0.0)
        self.seen = set[str]()  # parts that were met
        self.events: list[dict[str, Any]] = []
        self.shapes: list[str] = []
        self.samples = 0.0
        self.loss: Any = NAN
        self.loaders: list[str] = []
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
        self.parameters: dict[str, int] = {}
        self.world, self.first_s = 1, 0.0
        self.schedule: int | None = None  # the system's file of this thread
        self.delay_s: float | None = None
        self.delays_s = 0.0
        self.file: int | None = None
        self.armed, self.closed, self.enough = False, False, False

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
            self.to(before)
        self.stack.append(part)
        return True

    def leave(self) -> None:
        part = self.stack.pop()
        if not self.stack:
            self.seen.add(part)
            self.to(part)

    # ------------------------------------------------------------ steps

    def step(self, source: str, tokens: float | None = None, samples: float | None = None) -> None:
        """A step has ended. The program's own word goes before an optimiser's, and the first optimiser before others."""
        if self.enough or self.closed:
            self._end_anyway()
            return
        if source != self.source:
            if self.source == "program" or (self.source and source != "program"):
                return
            if self.source:  # the program speaks for itself: this step is what it says, not what an optimiser said just before
                self._restart()
            self.source = source
        self.thread = self.thread or threading.get_ident()
        if not self.last:
            self.last = self.edge = self.born
        self.to("rest")
        self.count += 1
        now = self.last
        self._row(now, tokens, samples)
        self.parts = dict.fromkeys(PARTS, 0.0)
        self.backwards, self.samples, self.edge = 0, 0.0, now
        if self.count == 1:
            self.first_s = now - self.born
        self._look()
        if self.count & (self.count - 1) == 0:
            self.save()
        self.last = self.edge if self.cuda is not None else time.perf_counter()  # what recording cost belongs to no step
        self.edge = self.last
        if self.count >= self.most:
            self._stop()

    def _restart(self) -> None:
        self.count = 0
        if self.file is not None:
            os.ftruncate(self.file, 0)
            os.lseek(self.file, 0, os.SEEK_SET)
        for event in self.events:
            event["step"] = 1

    def _row(self, now: float, tokens: float | None, samples: float | None) -> None:
        seen = self.seen
        samples = samples if samples is not None else (self.samples or None)
        row = [
            float(self.count), now, now - self.edge, *(self.parts[name] if name in seen else NAN for name in PARTS[:6]),
            NAN if tokens is None else float(tokens), NAN if samples is None else float(samples), NAN, self._delayed(),
        ]  # fmt: skip
        if self.cuda is None:
            row[11] = self._loss()
            self._write(row)
            self._begin_cuda()
        else:
            if self.count % LOSS_EVERY == 0:
                row[11] = self._loss()
            self.pending.append((self.marks, self.opened, row))
            self.opened = self.marks[-1][1] if self.marks else self.opened
            self.marks = []
            while self.pending and (self.pending[0][0] and self.pending[0][0][-1][1].query()):
                self._resolve()

    def _delayed(self) -> float:
        """Seconds of this step for which the thread was ready and waited for a processor."""
        if self.schedule is None:
            try:
                self.schedule = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                self.schedule = -1
        try:
            now = int(os.pread(self.schedule, 64, 0).split()[1]) / 1e9
        except (OSError, ValueError, IndexError):
            return NAN
        before, self.delay_s = self.delay_s, now
        if before is None:
            return NAN
        self.delays_s += now - before
        return now - before

    def _begin_cuda(self) -> None:
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if cuda is not None and cuda.is_initialized():
            self.cuda, self.opened, self.marks = cuda, _event(cuda), []

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
        elif self.asked["count"] and self.count == COUNTED_AFTER:
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
        for one in reversed(metrics):
            if one is self.compiled:
                break
            fresh.append(one)
        self.compiled = metrics[-1] if metrics else None
        for one in reversed(fresh):
            if reason := getattr(one, "recompile_reason", None):
                self.note("recompile", f"{one.co_name}: {reason}", float(getattr(one, "entire_frame_compile_time_s", None) or 0.0))

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
        """Writes what is known so far, whole or not at all; of a process that never stepped, only where it was the program itself."""
        known = {
            "pid": self.pid, "number": self.asked["number"], "rank": self._rank(), "world": self.world, "steps": self.count,
            "source": self.source.partition(" ")[0], "armed": self.armed, "loaders": self.loaders, "events": self.events, "shapes": self.shapes,
            "born_s": self.born, "first_s": self.first_s, "ended_s": self.last, "ended": self.ended, "error": self.error,
            "cpu_s": time.process_time(), "rss_bytes": _rss(), "run_delay_s": None if self.delay_s is None else self.delays_s, "flop": self.flop,
            "parameters": self.parameters, "threads": _threads(), "device": "cuda" if self.cuda is not None else "cpu",
            "allocated_bytes": int(self.cuda.max_memory_allocated()) if self.cuda is not None else None,
            "reserved_bytes": int(self.cuda.max_memory_reserved()) if self.cuda is not None else None,
            "torch": str(getattr(sys.modules.get("torch"), "__version__", "")), "child": os.getppid() != self.asked["parent"],
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

    def met(self, loader: str) -> None:
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
        from torch.utils.flop_counter import FlopCounterMode
    except ImportError:
        return None

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


# ---------------------------------------------------------------- loaders


class Frozen:
    """The first batch of a loader again and again, as often as the loader would have given one."""

    def __init__(self, recorder: StepRecorder, batch: Any, left: int | None) -> None:
        self.recorder, self.kept, self.left = recorder, batch, left

    def __iter__(self) -> Frozen:
        return self

    def __next__(self) -> Any:
        counted = self.recorder.enter("data_wait")
        try:
            if self.left is not None:
                if self.left <= 0:
                    raise StopIteration
                self.left -= 1
            self.recorder.batch(self.kept)
            return self.kept
        finally:
            if counted:
                self.recorder.leave()


class Waited:
    """A loader whose batches are waited for by the clock."""

    def __init__(self, recorder: StepRecorder, batches: Any) -> None:
        self.recorder, self.batches = recorder, batches
        self.kept: list[Any] = []

    def __len__(self) -> int:
        return len(self.batches)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.batches, name)

    def __iter__(self) -> Iterator[Any]:
        recorder = self.recorder
        if recorder.frozen and self.kept:
            return Frozen(recorder, self.kept[0], _length(self.batches))
        counted = recorder.enter("data_wait")
        try:
            inner = iter(self.batches)
        finally:
            if counted:
                recorder.leave()
        return self._each(inner)

    def _each(self, inner: Iterator[Any]) -> Iterator[Any]:
        recorder, given = self.recorder, 0
        while True:
            counted = recorder.enter("data_wait")
            try:
                batch = next(inner)
                recorder.batch(batch)
            except StopIteration:
                return
            finally:
                if counted:
                    recorder.leave()
            given += 1
            if recorder.frozen:
                self.kept = [batch]
                yield batch
                left = _length(self.batches)
                yield from Frozen(recorder, batch, None if left is None else left - 1)
                return
            yield batch


def _length(batches: Any) -> int | None:
    try:
        return len(batches)
    except (TypeError, NotImplementedError):
        return None


def _arm_loader(module: Any) -> None:
    """PyTorch's DataLoader: seen by itself, and frozen where that is asked."""
    recorder = RECORDER
    if recorder is None or not hasattr(module, "_BaseDataLoaderIter"):
        return
    original_next, original_iter = module._BaseDataLoaderIter.__next__, module.DataLoader.__iter__

    @functools.wraps(original_next)
    def waited(self: Any) -> Any:
        counted = recorder.enter("data_wait")
        try:
            batch = original_next(self)
            if counted and recorder.stack == ["data_wait"]:
                recorder.batch(batch)
            return batch
        finally:
            if counted:
                recorder.leave()

    @functools.wraps(original_iter)
    def begun(self: Any) -> Any:
        if getattr(sys.modules.get("torch.utils.data"), "get_worker_info", lambda: None)() is not None:
            return original_iter(self)
        workers = getattr(self, "num_workers", 0)
        recorder.met(f"DataLoader, {workers} worker{'' if workers == 1 else 's'}")
        kept = self.__dict__.get("_hotlap_kept")
        if recorder.frozen and kept is not None:
            return Frozen(recorder, kept[0], _length(self))
        counted = recorder.enter("data_wait")
        try:
            inner = original_iter(self)
        finally:
            if counted:
                recorder.leave()
        if not recorder.frozen:
            return inner
        batch = next(inner)
        recorder.samples = 0.0  # it is given once more
        self.__dict__["_hotlap_kept"] = [batch]
        return Frozen(recorder, batch, _length(self))

    module._BaseDataLoaderIter.__next__ = waited
    module.DataLoader.__iter__ = begun


# ---------------------------------------------------------------- the program's own word


RECORDER: StepRecorder | None = None
BEFORE: Any = None  # another recorder that counts the same steps


def step() -> None:
    """What `hotlap.step()` calls."""
    step_of(None, None)


def step_of(tokens: float | None, samples: float | None) -> None:
    """What `t.step()` of `hotlap.steps()` calls."""
    if BEFORE is not None:
        BEFORE.step()
    if RECORDER is not None:
        RECORDER.step("program", tokens, samples)


def loader(batches: Any) -> Any:
    """What `t.loader()` calls."""
    if RECORDER is None:
        return batches
    RECORDER.met("t.loader")
    return Waited(RECORDER, batches)


# ---------------------------------------------------------------- PyTorch


def _arm_optimisers(module: Any) -> None:
    """Hears of every optimiser's steps, from the outside of PyTorch's own marker around them."""
    recorder = RECORDER
    if recorder is None or not hasattr(module, "Optimizer"):
        return
    original = module.Optimizer.profile_hook_step

    def hooked(function: Any) -> Any:
        inner = original(function)

        @functools.wraps(inner)
        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            nested = "optimiser" in recorder.stack
            counted = recorder.enter("optimiser")
            try:
                return inner(self, *args, **kwargs)
            finally:
                if counted:
                    recorder.leave()
                if counted and not nested and sys.exc_info()[0] is None:
                    _optimised(recorder, self)

        return wrapper

    module.Optimizer.profile_hook_step = staticmethod(hooked)
    recorder.armed = True
    recorder.save()


def _optimised(recorder: StepRecorder, optimiser: Any) -> None:
    if not recorder.parameters:
        try:
            for group in optimiser.param_groups:
                for one in group["params"]:
                    name = str(one.dtype).removeprefix("torch.")
                    recorder.parameters[name] = recorder.parameters.get(name, 0) + int(one.numel())
        except Exception:
            recorder.parameters = {}
    if recorder.backwards:
        recorder.step(f"optimiser {id(optimiser)}")


def _arm_backward(module: Any) -> None:
    recorder, original = RECORDER, getattr(module, "backward", None)
    if recorder is None or original is None:
        return

    @functools.wraps(original)
    def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        counted = recorder.enter("backward", before="forward")
        if counted:
            recorder.seen.add("forward")
            recorder.backwards += 1
            if len(recorder.stack) == 1 and getattr(tensors, "numel", lambda: 0)() == 1:
                recorder.loss = tensors.detach()
        try:
            return original(tensors, *args, **kwargs)
        finally:
            if counted:
                recorder.leave()

    module.backward = backward


COLLECTIVES = (
    "all_reduce", "all_gather", "all_gather_into_tensor", "broadcast", "reduce", "reduce_scatter", "reduce_scatter_tensor", "barrier",
    "all_to_all", "all_to_all_single",
)  # fmt: skip


def _arm_distributed(module: Any) -> None:
    """Collectives that the program itself waits for; those within a backward pass belong to it."""
    recorder = RECORDER
    if recorder is None:
        return
    for name in COLLECTIVES:
        original = getattr(module, name, None)
        if original is not None:
            setattr(module, name, _awaited(recorder, original))


def _awaited(recorder: StepRecorder, original: Any) -> Any:
    @functools.wraps(original)
    def collective(*args: Any, **kwargs: Any) -> Any:
        counted = recorder.enter("communication")
        try:
            return original(*args, **kwargs)
        finally:
            if counted:
                recorder.leave()

    return collective


def _arm_dynamo(module: Any) -> None:
    """When compilation begins and ends, whatever asked for it."""
    recorder = RECORDER
    if recorder is None or not hasattr(module, "callback_handler"):
        return
    began = [0.0]

    def start(args: Any) -> None:
        began[0] = time.perf_counter()

    def end(args: Any) -> None:
        seconds = time.perf_counter() - began[0]
        recorder.compiling += seconds
        trigger = str(getattr(getattr(args, "callback_trigger", None), "name", "")).lower()
        recorder.note("capture" if "cudagraph" in trigger else "compile", trigger, seconds, recorder.count + 1)

    module.callback_handler.register_start_callback(start)
    module.callback_handler.register_end_callback(end)


ARMED: dict[str, Callable[[Any], None]] = {
    "torch.optim.optimizer": _arm_optimisers, "torch.autograd": _arm_backward, "torch.utils.data.dataloader": _arm_loader,
    "torch._dynamo.callback": _arm_dynamo, "torch.distributed": _arm_distributed,
}  # fmt: skip


class Finder(importlib.abc.MetaPathFinder):
    """Lets everything be found as usual, and arms a module of PyTorch once it is there."""

    def __init__(self) -> None:
        self.left = dict(ARMED)

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        arm = self.left.pop(fullname, None)
        if arm is None:
            return None
        if not self.left and self in sys.meta_path:
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            arm(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


# ---------------------------------------------------------------- start


def _forked() -> None:
    """A child of the program: its own steps are its own, and most children make none."""
    global RECORDER
    if RECORDER is not None:
        fresh = StepRecorder(RECORDER.asked)
        fresh.armed, fresh.source = RECORDER.armed, RECORDER.source
        RECORDER.__dict__.update(fresh.__dict__)
        RECORDER.source = ""


def _failed(kind: type[BaseException], error: BaseException, trace: Any, before: Callable[..., Any]) -> None:
    if RECORDER is not None and RECORDER.pid == os.getpid():
        where = [one for one in traceback.extract_tb(trace) if "site-packages" not in one.filename and not one.filename.startswith("<")]
        at = f"{os.path.basename(where[-1].filename)}:{where[-1].lineno}" if where else ""
        RECORDER.error = {"type": kind.__name__, "message": str(error).partition("\n")[0][:300], "where": at}
    before(kind, error, trace)


def _pass_on() -> None:
    """Runs the sitecustomize that this one stands before, as the only one of its name."""
    here = os.path.dirname(os.path.abspath(__file__))
    others = [one for one in sys.path if os.path.abspath(one or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module, own = importlib.util.module_from_spec(spec), sys.modules[__name__]
        sys.modules[__name__] = module
        try:
            spec.loader.exec_module(module)
        finally:
            sys.modules[__name__] = own


def _start() -> None:
    global RECORDER, BEFORE
    text = os.environ.get("HOTLAP_TRAINING", "")
    if text:
        RECORDER = StepRecorder(json.loads(text))
        BEFORE = sys.modules.get("hotlap_recorder")
        sys.modules["hotlap_recorder"] = sys.modules[__name__]
        sys.meta_path.insert(0, Finder())
        sys.excepthook = functools.partial(_hook, sys.excepthook)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_forked)
        atexit.register(RECORDER.close)


def _hook(before: Callable[..., Any], kind: type[BaseException], error: BaseException, trace: Any) -> None:
    _failed(kind, error, trace, before)


if __name__ == "sitecustomize":
    _pass_on()
    _start()

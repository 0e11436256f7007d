"""Runs at the start of every Python process of a captured program: counts steps, and records a bounded window of them.

A step ends where an optimiser's `step()` returns, or where the program calls `hotlap.step()`. The standard library alone is
imported; PyTorch is touched only once the program has imported it. All times are of `time.perf_counter`.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any

WITHIN = 2  # steps that the profiler runs before those it keeps
KEPT = 400  # durations of steps without the profiler, at most, on each side of the window
SETTLE = 2  # steps after the window that are not counted as usual ones
IMPORT_S = 0.02  # between looks whether PyTorch has been imported in full


class Recorder:
    """Off → recording → off; everything it knows goes into one small file."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.asked = asked
        self.first = int(asked["warmup"])  # step after which the window begins
        self.count, self.source = 0, ""
        self.last_s = self.loop_s = 0.0
        self.settling = 0
        self.profiler: Any = None
        self.began_at = 0
        self.left = int(asked["windows"])
        self.usual: list[list[float]] = [[]]  # durations without the profiler: before the first window, after each
        self.windows: list[dict[str, Any]] = []
        self.recording = False
        self.broken = False  # the profiler came on in the midst of the step that is being made
        self.due = False  # a window by the clock begins, or ends, with the step that is being made
        self.own_s, self.calls = 0.0, 0
        self.trace = self.trouble = ""
        self.kept_in: str | None = None
        self.armed = False  # the program has imported PyTorch's optimisers

    # ------------------------------------------------------------ steps

    def step(self, source: str) -> None:
        """A step has ended. The first to say so is believed, the program's own word before an optimiser's."""
        now, busy = time.perf_counter(), self.recording
        if source != self.source:
            if self.source == "program" or (self.source and source != "program"):
                return
            if self.source and not self.windows:  # the program speaks for itself: what an optimiser said before does not count
                self.count, self.usual = 0, [[]]
            self.source = source
        if self.count:
            self._lasted(now - self.last_s)
        else:
            self.loop_s = now
            self.broken = False
        self.count += 1
        if self.recording:
            self._in_window(now)
        elif self.asked["seconds"]:
            if self.due:
                self._by_the_clock(between=True)
        elif self.left and self.count >= self.first:
            self._begin()
        self.last_s = time.perf_counter()
        if not busy and not self.recording:  # with the profiler on its own cost is in the durations
            self.own_s += self.last_s - now
            self.calls += 1

    def _lasted(self, seconds: float) -> None:
        if self.recording:
            if not self.broken:
                self.windows[-1]["steps_s"].append(seconds)
            self.broken = False
        elif self.settling:
            self.settling -= 1
        elif len(self.usual[-1]) < KEPT:
            self.usual[-1].append(seconds)
            if self.windows and len(self.usual[-1]) == self.asked["steps"]:
                began = time.perf_counter()
                self.save()
                spent = time.perf_counter() - began
                self.windows[-1]["write_s"] += spent
                self.own_s -= spent

    def _in_window(self, now: float) -> None:
        window = self.windows[-1]
        if self.asked["seconds"]:
            if self.due:
                self._by_the_clock(between=True)
            else:
                self._number()
            return
        done = self.count - self.began_at
        if done == WITHIN:
            window["began_s"] = now
        full = done >= WITHIN + self.asked["steps"]
        if full or (done > WITHIN and now - window["began_s"] > self.asked["limit_s"]):
            self._end(complete=full)
        elif self.asked["how"] == "pytorch":
            self.profiler.step()
        elif self.asked["how"] == "range" and done >= WITHIN:
            self._mark(f"step {self.count}")

    # ------------------------------------------------------------ the window

    def _begin(self, between: bool = True) -> None:
        """The window opens now, `between` steps or in the midst of one; what that costs is kept."""
        began = time.perf_counter()
        within = 0 if self.asked["seconds"] else WITHIN
        self.broken = not between
        window = {"first": self.count + within + self.broken, "within": within, "steps_s": [], "complete": False}
        window |= {"began_s": began, "ended_s": 0.0, "start_s": 0.0, "stop_s": 0.0, "write_s": 0.0, "import_s": 0.0}
        try:
            if self.asked["how"] == "pytorch":
                if "torch" not in sys.modules:
                    importlib.import_module("torch.profiler")
                    window["import_s"] = time.perf_counter() - began
                self.profiler = self._profiler()
                self.profiler.step_num = self.count  # so that the trace numbers steps as the program makes them
                self.profiler.start()
                if self.asked["seconds"] and between:
                    self._number()
            elif self.asked["how"] == "range":
                if self.asked["no_ranks"] and _ranks() > 1:
                    raise RuntimeError(self.asked["no_ranks"])
                _drained().cudart().cudaProfilerStart()
        except Exception as error:  # the program must go on whatever befalls its profiler
            self.left, self.trouble = 0, f"the profiler did not start: {error}"
            self.save()
            return
        now = time.perf_counter()
        window |= {"began_s": now, "start_s": now - began}
        self.windows.append(window)
        self.began_at, self.recording = self.count, True

    def _number(self) -> None:
        """A step begins within a window by the clock: the trace gets its number."""
        if self.asked["how"] == "pytorch":
            self.profiler.record_steps = True  # without a schedule it would not; nor for the part of a step that it came on in
            self.profiler.step_num = self.count - 1
            self.profiler.step()
        elif self.asked["how"] == "range":
            self._mark(f"step {self.count}")

    def _profiler(self) -> Any:
        from torch.profiler import ProfilerActivity, profile, schedule, supported_activities

        there = supported_activities()
        activities = [one for one in (ProfilerActivity.CPU, ProfilerActivity.CUDA, ProfilerActivity.XPU) if one in there]
        plan: Any = None
        if not self.asked["seconds"]:
            steps = schedule(wait=0, warmup=WITHIN, active=self.asked["steps"], repeat=1)
            plan = functools.partial(_counted_from, self.count, steps)
        return profile(
            activities=activities, schedule=plan, record_shapes=self.asked["shapes"], with_stack=self.asked["stacks"],
            profile_memory=self.asked["memory"],
        )  # fmt: skip

    def _mark(self, name: str) -> None:
        import torch

        if self.windows[-1].get("marked"):
            torch.cuda.nvtx.range_pop()
        torch.cuda.nvtx.range_push(name)
        self.windows[-1]["marked"] = True

    def _end(self, complete: bool) -> None:
        """The window closes, and its trace is written at once: who is killed later has it."""
        window, self.recording, began = self.windows[-1], False, time.perf_counter()
        self.left -= 1
        window["ended_s"], window["complete"] = began, complete
        try:
            if self.asked["how"] == "pytorch":
                if complete and not self.asked["seconds"]:
                    self.profiler.step()  # by its schedule this ends it
                else:
                    self.profiler.stop()
            elif self.asked["how"] == "range":
                cuda = _drained()
                if window.pop("marked", False):
                    cuda.nvtx.range_pop()
                cuda.cudart().cudaProfilerStop()
            window["stop_s"] = time.perf_counter() - began
            whole = bool(self.asked["seconds"]) or self.count - self.began_at > WITHIN
            if not whole:
                self.trouble = self.trouble or "the program ended before the first step of its window was done"
            if self.asked["how"] == "pytorch" and whole and not self.trace:
                name = f"trace-{self.place()}.json"
                self.profiler.export_chrome_trace(os.path.join(self.asked["folder"], name))
                self.trace = name
            window["write_s"] = time.perf_counter() - began - window["stop_s"]
        except Exception as error:
            self.trouble = f"the profiler did not end as it should: {error}"
        self.profiler = None
        self.settling = SETTLE
        self.usual.append([])
        self.first = self.count + self.asked["apart"]
        self.save()

    # ------------------------------------------------------------ by the clock

    def by_the_clock(self) -> None:
        """A window of seconds, for a program without steps: opened and closed between two lines of the main thread."""
        if not hasattr(signal, "setitimer") or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
            self.trouble = "--seconds needs the alarm signal, which the program uses or the system lacks; call hotlap.step() instead"
            return
        signal.signal(signal.SIGALRM, self._imported)
        signal.setitimer(signal.ITIMER_REAL, IMPORT_S, IMPORT_S)

    def _imported(self, _number: int, frame: FrameType | None) -> None:
        """The clock runs from when PyTorch is imported in full: that takes seconds, of which the optimisers are an early part."""
        if not _importing(frame):
            signal.signal(signal.SIGALRM, self._alarm)
            signal.setitimer(signal.ITIMER_REAL, max(self.asked["after_s"], 1e-3))

    def _alarm(self, _number: int, frame: FrameType | None) -> None:
        """Time is up. Where steps are made the window goes from one's end to another's, unless that is longer away than it is long."""
        if _importing(frame):  # PyTorch imports parts of itself when they are first used; its profiler needs them whole
            signal.setitimer(signal.ITIMER_REAL, IMPORT_S)
        elif self.count and not self.due and (self.left or self.recording):
            self.due = True
            signal.setitimer(signal.ITIMER_REAL, self.asked["seconds"])
        else:
            self._by_the_clock(between=False)

    def _by_the_clock(self, between: bool) -> None:
        """The window opens or closes; `between` steps, or in the midst of one."""
        if threading.current_thread() is not threading.main_thread():
            return  # steps are made in a thread: the alarm, which comes in the main one, does it
        signal.setitimer(signal.ITIMER_REAL, 0)
        if between and not self.due:
            return  # the alarm came just now
        self.due = False
        if not self.recording and self.left:
            self._begin(between)
            signal.setitimer(signal.ITIMER_REAL, self.asked["seconds"])
        elif self.recording:
            self._end(complete=True)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)

    # ------------------------------------------------------------ what is known

    def place(self) -> str:
        """Which of the program's processes: its rank, else its number."""
        rank = os.environ.get("RANK", "")
        distributed = getattr(sys.modules.get("torch"), "distributed", None)
        if not rank and distributed is not None and distributed.is_available() and distributed.is_initialized():
            rank = str(distributed.get_rank())
        return f"rank{rank}" if rank else str(os.getpid())

    def save(self) -> None:
        """Writes what is known so far, whole or not at all."""
        place = self.place()
        known = {
            "armed": self.armed, "place": place, "pid": os.getpid(),
            "steps": self.count, "source": self.source, "trace": self.trace, "trouble": self.trouble,
            "windows": self.windows, "usual_s": self.usual, "loop_s": max(self.last_s - self.loop_s, 0.0), "began_s": self.loop_s,
            "ended_s": self.last_s, "own_s": self.own_s, "calls": self.calls,
        }  # fmt: skip
        path = os.path.join(self.asked["folder"], f"process-{place}.json")
        try:
            with open(path + ".tmp", "w", encoding="utf-8") as file:
                json.dump(known, file)
            os.replace(path + ".tmp", path)
            if self.kept_in not in (None, path):
                os.unlink(str(self.kept_in))
            self.kept_in = path
        except OSError:
            pass

    def close(self) -> None:
        """The program ends, perhaps within the window: what was recorded is kept."""
        if hasattr(signal, "setitimer") and getattr(signal.getsignal(signal.SIGALRM), "__self__", None) is self:
            signal.setitimer(signal.ITIMER_REAL, 0)  # an alarm on the interpreter's way out, where no handler is left, would kill it
        if self.recording:
            self._end(complete=False)
        self.save()


def _importing(frame: FrameType | None) -> bool:
    """Whether a module of PyTorch is being imported there."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "torch":
            return True
        frame = frame.f_back
    return False


def _drained() -> Any:
    """torch.cuda, with nothing queued: a window begins and ends with the device's work, not with the host's. Not while a graph is
    recorded, which waiting would break."""
    import torch

    if not torch.cuda.is_current_stream_capturing():
        torch.cuda.synchronize()
    return torch.cuda


def _ranks() -> int:
    """Processes of the program that exchange data."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return 1
    return int(distributed.get_world_size())


def _counted_from(first: int, plan: Any, number: int) -> Any:
    return plan(max(number - first, 0))


RECORDER: Recorder | None = None


def step() -> None:
    """The program's own word that a step has ended: what `hotlap.step()` calls."""
    if RECORDER is not None:
        RECORDER.step("program")


def arm(module: Any) -> None:
    """Hears of every optimiser's steps, from the outside of PyTorch's own marker around them."""
    recorder = RECORDER
    if recorder is None or not hasattr(module, "Optimizer"):
        return
    original = module.Optimizer.profile_hook_step
    within: list[int] = []  # an optimiser whose step calls its parent's, or another's

    def hooked(function: Any) -> Any:
        inner = original(function)

        @functools.wraps(inner)
        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            within.append(1)
            try:
                return inner(self, *args, **kwargs)
            finally:
                within.pop()
                if not within:
                    recorder.step(f"optimiser {id(self)}")

        return wrapper

    module.Optimizer.profile_hook_step = staticmethod(hooked)
    recorder.armed = True
    recorder.save()
    if recorder.asked["seconds"] and threading.current_thread() is threading.main_thread():
        recorder.by_the_clock()


class Finder(importlib.abc.MetaPathFinder):
    """Lets everything be found as usual, and arms the recorder once the optimisers are there."""

    name = "torch.optim.optimizer"

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname != self.name:
            return None
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


def _pass_on() -> None:
    """Runs the sitecustomize that this one stands before."""
    here = os.path.dirname(os.path.abspath(__file__))
    others = [one for one in sys.path if os.path.abspath(one or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _start() -> None:
    global RECORDER
    text = os.environ.get("HOTLAP_RECORD", "")
    if text:
        RECORDER = Recorder(json.loads(text))
        sys.modules["hotlap_recorder"] = sys.modules[__name__]
        sys.meta_path.insert(0, Finder())
        atexit.register(RECORDER.close)


if __name__ == "sitecustomize":
    _pass_on()
    _start()

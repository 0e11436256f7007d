"""Kernels that cheat, one trick each: a row sum that a benchmark could take for fast and right. What each does is what others have met:
llm.c#851, KernelBench#106, pygpubench#49, reference-kernels#162, kernelbot#501, BackendBench#41."""

import ctypes
import gc
import os
import signal
import sys
import threading
import time

import torch

TRICKS = (
    "honest", "cached", "by_pointer", "by_content", "skipped_tail", "thread", "zeros", "narrow", "narrow_inside", "clock", "harness", "event", "lazy",
    "returns_input", "finds_reference", "first_calls", "seed", "outside", "overwrites", "call_count", "rotation", "kept_buffer", "half_batch", "sleeps",
    "crash", "hang", "leaks",
)
params = {"trick": {"default": "honest", "choices": TRICKS}, "rows": 64, "columns": 512, "dtype": "fp32"}
read_bytes = "rows * columns * size(dtype)"
written_bytes = "rows * columns * size(dtype)"
terms = "columns"
state = {"calls": 0}


def inputs(make, params):
    return {"x": make.normal(params["rows"], params["columns"], dtype=params["dtype"])}


def reference(inputs, params):
    return work(inputs["x"])


def work(x):
    """Slow enough for a shortcut to pay."""
    return torch.softmax(x, -1).cumsum(-1)


def launch(inputs, params):
    state["calls"] += 1
    return globals()[params["trick"]](inputs["x"])


def honest(x):
    return work(x)


def cached(x):
    """The first result, for ever."""
    if "out" not in state:
        state["out"] = work(x)
    return state["out"].clone()


def by_pointer(x):
    """A result for each address."""
    found = state.setdefault("pointers", {})
    if x.data_ptr() not in found:
        found[x.data_ptr()] = work(x)
    return found[x.data_ptr()].clone()


def by_content(x):
    """A result for each content, told by a few elements; slow work makes it pay."""
    found, key = state.setdefault("contents", {}), tuple(x.view(-1)[:: x.numel() // 7].tolist())
    if key not in found:
        for _ in range(100):
            made = work(x)
        found.clear()
        found[key] = made
    return found[key].clone()


def skipped_tail(x):
    """The last rows are left as the allocator hands them out: right if it hands out an earlier result."""
    out = torch.empty_like(x)
    out[:48] = work(x[:48])
    return out


def thread(x):
    """Returns at once; the work goes on behind it."""
    out = torch.empty_like(x)
    if "queue" not in state:
        import queue

        state["queue"] = queue.SimpleQueue()

        def forever():
            while True:
                made, given = state["queue"].get()
                made.copy_(work(given))

        threading.Thread(target=forever, daemon=True).start()
    state["queue"].put((out, x))
    return out


def zeros(x):
    """Right for inputs of zeros, which some benchmarks use."""
    return torch.linspace(1, x.shape[1], x.shape[1]).div(x.shape[1]).expand(x.shape).clone()


def narrow(x):
    return work(x.bfloat16())


def narrow_inside(x):
    return work(x.bfloat16()).float()


def clock(x):
    """Time goes by more slowly for everybody in the process."""
    if "clock" not in state:
        state["clock"] = real = time.perf_counter
        time.perf_counter = lambda: real() / 10
    return work(x)


def harness(x):
    """The product's own timer answers a tenth."""
    from hotlap.core.measure.targets.torch import TorchTarget

    if "harness" not in state:
        state["harness"] = real = TorchTarget.time

        def quicker(self, *args, **more):
            timing = real(self, *args, **more)
            return type(timing)(timing.device_s, timing.wall_s / 10)

        TorchTarget.time = quicker
    return work(x)


def event(x):
    """PyTorch's events say a thousandth."""
    torch.cuda.Event.elapsed_time = lambda self, other: 0.001
    return work(x)


class Lazy(torch.Tensor):
    """Does the work when somebody looks."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            plain = [work(one.as_subclass(torch.Tensor)) if isinstance(one, Lazy) else one for one in args]
            return function(*plain, **(kwargs or {}))


def lazy(x):
    return x.clone().as_subclass(Lazy)


def returns_input(x):
    return x


def finds_reference(x):
    """What the harness has worked out to compare it with, if it lies about."""
    found = [one for one in gc.get_objects() if type(one) is torch.Tensor and one.dtype is torch.float64 and one.shape == x.shape]
    return found[-1].float() if found else x.clone()


def first_calls(x):
    return work(x) if state["calls"] <= 20 else torch.empty_like(x)


def seed(x):
    """The answer for the input that seed 0 gives."""
    known = torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    return work(known)


def outside(x):
    """Writes behind the end of its input."""
    ctypes.memset(x.data_ptr() + x.numel() * x.element_size(), 0, 64)
    return work(x)


def overwrites(x):
    """Zeros are easy to be right for."""
    x.zero_()
    return torch.linspace(1, x.shape[1], x.shape[1]).div(x.shape[1]).expand(x.shape).clone()


def call_count(x):
    """Right when it is called alone, as a check does."""
    now, before = time.monotonic(), state.get("last", 0.0)
    state["last"] = now
    return work(x) if now - before > 1e-3 else torch.empty_like(x)


def rotation(x):
    """Less work as soon as inputs come in turns."""
    before, state["pointer"] = state.get("pointer"), x.data_ptr()
    return work(x) if before in (None, x.data_ptr()) else x.clone()


def kept_buffer(x):
    """One output for all calls: the one before is gone."""
    out = state.setdefault("buffer", torch.empty_like(x))
    out.copy_(work(x))
    return out


def half_batch(x):
    """Looks who calls: the timed loop gets half."""
    return work(x) if sys._getframe(3).f_code.co_name != "enqueue" else torch.cat([work(x[:32]), x[32:]])


def sleeps(x):
    """Threads that compute on, with a right result."""
    if "burner" not in state:
        state["burner"] = True
        big = torch.randn(600, 600)

        def burn():
            while True:
                torch.mm(big, big)

        threading.Thread(target=burn, daemon=True).start()
    return work(x)


def crash(x):
    os.kill(os.getpid(), signal.SIGSEGV)


def hang(x):
    while state["calls"] > 3:
        time.sleep(0.1)
    return work(x)


def leaks(x):
    """4 MiB a call that nobody frees."""
    state.setdefault("pile", []).append(torch.ones(1 << 20))
    return work(x)

"""What tells the recorder of steps: the program's own word, and PyTorch's modules, armed as the program imports them."""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.abc
import importlib.util
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from hotlap.training.recorder.loaders import Waited, arm_loader
from hotlap.training.recorder.rows import StepRecorder
from hotlap.training.recorder.turns import Turn

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
                if recorder.reducers.known and not recorder.stack:
                    recorder.moved("backward", "communication", recorder.reducers.after_backward())

    module.backward = backward


def _arm_loader(module: Any) -> None:
    arm_loader(RECORDER, module)


COLLECTIVES = (
    "all_reduce", "all_gather", "all_gather_into_tensor", "broadcast", "reduce", "reduce_scatter", "reduce_scatter_tensor", "barrier",
    "all_to_all", "all_to_all_single",
)  # fmt: skip


def _arm_distributed(module: Any) -> None:
    """Collectives that the program itself waits for, at once or by `work.wait()`; those within a backward pass belong to it."""
    recorder = RECORDER
    if recorder is None:
        return
    for name in COLLECTIVES:
        original = getattr(module, name, None)
        if original is not None:
            setattr(module, name, _awaited(recorder, original))
    work = getattr(module, "Work", None)
    if work is not None:
        work.wait = _awaited(recorder, work.wait)


def _arm_reducers(module: Any) -> None:
    if RECORDER is not None:
        RECORDER.reducers.arm(module)


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
    """When compilation begins and ends, whatever asked for it. Registered callbacks would not do: `torch._dynamo.reset()` forgets them."""
    recorder = RECORDER
    handler: Any = getattr(module, "callback_handler", None)
    if recorder is None or not hasattr(handler, "run_start_callbacks"):
        return
    began, run_start, run_end = [0.0], handler.run_start_callbacks, handler.run_end_callbacks

    def start(args: Any) -> None:
        began[0] = time.perf_counter()
        run_start(args)

    def end(args: Any) -> None:
        run_end(args)
        seconds = time.perf_counter() - began[0]
        recorder.compiling += seconds
        trigger = str(getattr(getattr(args, "callback_trigger", None), "name", "")).lower()
        recorder.note("capture" if "cudagraph" in trigger else "compile", trigger, seconds, recorder.count + 1)

    handler.run_start_callbacks, handler.run_end_callbacks = start, end


ARMED: dict[str, Callable[[Any], None]] = {
    "torch.optim.optimizer": _arm_optimisers, "torch.autograd": _arm_backward, "torch.utils.data.dataloader": _arm_loader,
    "torch._dynamo.callback": _arm_dynamo, "torch.distributed": _arm_distributed,
    "torch.nn.parallel.distributed": _arm_reducers,
}  # fmt: skip


class TorchFinder(importlib.abc.MetaPathFinder):
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


def _forked() -> None:
    """A child of the program: its own steps are its own, and most children make none."""
    global RECORDER
    if RECORDER is not None:
        fresh = StepRecorder(RECORDER.asked)
        fresh.armed, fresh.source = RECORDER.armed, RECORDER.source
        RECORDER.__dict__.update(fresh.__dict__)
        RECORDER.source = ""


def _is_own(filename: str) -> bool:
    """Whether it is of the program: no package, none of Python's own, none of these hooks, no code without a file."""
    ours = (os.path.dirname(__file__), os.path.dirname(os.__file__))
    return "site-packages" not in filename and not filename.startswith("<") and os.path.dirname(filename) not in ours


def _failed(before: Callable[..., Any], kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """The exception that ends the program, and its innermost line outside of packages."""
    if RECORDER is not None and RECORDER.pid == os.getpid():
        where = [one for one in traceback.extract_tb(trace) if _is_own(one.filename)]
        at = f"{os.path.basename(where[-1].filename)}:{where[-1].lineno}" if where else ""
        RECORDER.error = {"type": kind.__name__, "message": str(error).partition("\n")[0][:300], "where": at}
    before(kind, error, trace)


def _end_with_parent() -> None:
    """Linux: if Hotlap is killed, its program is asked to end; what nobody measures must not go on holding the device."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def start() -> None:
    global RECORDER, BEFORE
    text = os.environ.get("HOTLAP_TRAINING", "")
    if text:
        asked = json.loads(text)
        RECORDER = StepRecorder(asked)
        if os.getppid() == asked["parent"]:
            _end_with_parent()
            RECORDER.turn = Turn(asked["turn"]) if asked["turn"] >= 0 else None
        BEFORE = sys.modules.get("hotlap_recorder")
        sys.modules["hotlap_recorder"] = sys.modules[__name__]
        sys.meta_path.insert(0, TorchFinder())
        sys.excepthook = functools.partial(_failed, sys.excepthook)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_forked)
        atexit.register(RECORDER.close)

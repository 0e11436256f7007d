"""A process that takes some training steps and says what they held: over fake tensors, or over real ones by the allocator's own count.

Reads a MemoryJob on standard input, writes a MemoryAccount on standard output. What the program prints goes to standard error.
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from hotlap.core.record import Record, encode
from hotlap.core.work.networks.shape import Network
from hotlap.training.memory_record import MemoryAccount, TrainingVariant


class MemoryJob(Record, frozen=True, kw_only=True):
    """What to run: a network, a function that makes one (`file.py:function`), or a script as it is."""

    mode: Literal["fake", "real"]
    steps: int = 2
    network: dict[str, Any] = {}  # fields of Network
    function: str = ""
    script: str = ""
    arguments: tuple[str, ...] = ()
    variant: TrainingVariant = TrainingVariant()
    threads: int = 1


class StepsFailed(Record, frozen=True, kw_only=True):
    """The program did not come to its steps. `where`: file:line."""

    failed: str
    where: str = ""


def main() -> None:
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=MemoryJob)
    stdout = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # a program that asks gets an end of file
    own = os.getpid()
    try:
        answer: MemoryAccount | StepsFailed = _fake(job) if job.mode == "fake" else _real(job)
    except ImportError as error:
        answer = StepsFailed(failed=f"{error}: pip install torch" if "torch" in str(error) else str(error))
    except (Exception, SystemExit) as error:
        answer = StepsFailed(failed=f"{type(error).__name__}: {' '.join(str(error).split())[:300]}", where=_where(error, job))
    if os.getpid() != own:  # the program forked
        os._exit(0)
    stdout.write(encode(answer) + b"\n")
    stdout.close()
    os._exit(0)  # whatever threads the program has left


def _failed(error: BaseException, steps: int, job: MemoryJob) -> str:
    """Raises it again where nothing was seen."""
    if not steps:
        raise error
    return f"it failed in step {steps + 1}: {type(error).__name__}: {' '.join(str(error).split())[:200]} ({_where(error, job)})"


def _where(error: BaseException, job: MemoryJob) -> str:
    own = job.script or job.function.rpartition(":")[0]
    at, step = "", error.__traceback__
    while step is not None:
        if own and os.path.abspath(step.tb_frame.f_code.co_filename) == os.path.abspath(own):
            at = f"{own}:{step.tb_lineno}"
        step = step.tb_next
    return at


def _fake(job: MemoryJob) -> MemoryAccount:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.nn.modules.module import register_module_forward_pre_hook
    from torch.optim import optimizer as optimizers

    from hotlap.training.memory_tracker import StepsDone, Tracker

    torch.set_num_threads(job.threads)  # a scratchpad is of so many
    tracker = Tracker(job.steps, constant_scalars=True)
    hooks = [
        optimizers.register_optimizer_step_pre_hook(tracker.before_step), optimizers.register_optimizer_step_post_hook(tracker.after_step),
        register_module_forward_pre_hook(tracker.before_module),
    ]  # fmt: skip
    work = _work(job)
    ended = ""
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), tracker, _phases(tracker):
            work()
        ended = f"it ended after {tracker.step_count} of {job.steps} steps"
    except StepsDone:
        pass
    except (Exception, SystemExit) as error:
        ended = _failed(error, tracker.step_count, job)
    finally:
        for hook in hooks:
            hook.remove()
    return tracker.finished(ended)


def _phases(tracker: Any) -> Any:
    """Tells the tracker of backward passes."""
    import contextlib

    import torch

    @contextlib.contextmanager
    def followed() -> Any:
        plain = torch.autograd.backward

        def backward(*args: Any, **kwargs: Any) -> Any:
            before, tracker.phase = tracker.phase, "backward"
            try:
                return plain(*args, **kwargs)
            finally:
                tracker.look()
                tracker.phase = before

        torch.autograd.backward = backward
        try:
            yield
        finally:
            torch.autograd.backward = plain

    return followed()


def _real(job: MemoryJob) -> MemoryAccount:
    """By PyTorch's profiler, to which the allocator reports each allocation and each free, those inside of operators too."""
    import torch
    from torch.optim import optimizer as optimizers
    from torch.profiler import ProfilerActivity, profile

    from hotlap.training.memory_tracker import StepsDone

    torch.set_num_threads(job.threads)
    count = 0

    def after(*_: Any) -> None:
        nonlocal count
        count += 1
        if count >= job.steps:
            raise StepsDone

    hook = optimizers.register_optimizer_step_post_hook(after)
    work, ended = _work(job), ""
    torch.ones(8, 8) @ torch.ones(8, 8)  # what libraries allocate once is not of the step
    try:
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
            try:
                work()
                ended = f"it ended after {count} of {job.steps} steps"
            except StepsDone:
                pass
            except (Exception, SystemExit) as error:
                ended = _failed(error, count, job)
    finally:
        hook.remove()
    peak, operator, inside = _recorded(profiled.profiler.kineto_results.events())
    return MemoryAccount(how="allocator", peak_bytes=peak, steps=count, ended=ended, operator=operator, inside_bytes=inside)


def _recorded(events: Any) -> tuple[int, str, int]:
    """The most bytes, the innermost operator that ran then, and how much of that it had freed when it returned."""
    total = peak = at_ns = 0
    after = list[tuple[int, int]]()  # when, and how much there was then
    for event in events:
        if event.name() == "[memory]" and str(event.device_type()).endswith("CPU"):
            total += event.nbytes()
            after.append((event.start_ns(), total))
            if total > peak:
                peak, at_ns = total, event.start_ns()
    running = [
        (event.start_ns(), event.start_ns() + event.duration_ns(), event.name())
        for event in events
        if event.name().startswith("aten::") and event.start_ns() <= at_ns <= event.start_ns() + event.duration_ns()
    ]
    if not running:
        return peak, "", 0
    _, end_ns, name = max(running)
    return peak, str(name), peak - [held for time_ns, held in after if time_ns <= end_ns][-1]


def _work(job: MemoryJob) -> Callable[[], None]:
    if job.script:
        return lambda: _script(job)
    return lambda: _train(job, *_made(job))


def _script(job: MemoryJob) -> None:
    sys.argv = [job.script, *job.arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(job.script)))
    try:
        runpy.run_path(job.script, run_name="__main__")
    except SystemExit as error:
        if error.code not in (None, 0):
            raise


def _made(job: MemoryJob) -> tuple[Any, tuple[Any, ...]]:
    """A module whose call returns the loss, and what it is called with."""
    import torch

    from hotlap.training import memory_module

    variant = job.variant
    torch.manual_seed(0)
    if job.function:
        path, _, name = job.function.rpartition(":")
        spec = importlib.util.spec_from_file_location("hotlap_given", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        network, inputs = getattr(module, name)(variant.batch)
        return network, tuple(inputs)
    shape = Network(**{**job.network, "aliases": (), "remarks": ()})
    built = memory_module.Transformer(shape, variant.context, variant.checkpointing)
    inputs = tuple(torch.randint(0, shape.vocabulary, (variant.batch, variant.context)) for _ in range(2))
    return built, inputs


def _train(job: MemoryJob, module: Any, inputs: tuple[Any, ...]) -> None:
    """Steps as most scripts write them: gradients are freed before the forward pass."""
    import torch

    variant = job.variant
    module.train()
    kind = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[variant.optimizer]
    optimizer = kind(module.parameters(), lr=1e-3, foreach=variant.foreach)
    while True:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=variant.autocast):
            loss = module(*inputs)
        if not loss.requires_grad:
            raise ValueError("its loss has no gradient, so there is no backward pass")
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()

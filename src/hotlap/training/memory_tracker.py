"""Who holds how much: every tensor that an operator makes, from then until its storage is freed. On real tensors and on fake ones alike.

Fake tensors (torch._subclasses.fake_tensor) have shapes and storages, and no memory behind them: a step of a network that is larger than
this machine takes as long as its operators take to be dispatched. Imported only where PyTorch runs.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from hotlap.training import memory_inside
from hotlap.training.memory_record import MemoryAccount, OwnedLine

OURS = ("/training/memory_tracker.py", "/training/memory_step.py", "/torch/", "/runpy.py")
LINES = 12


class StepsDone(BaseException):
    """As many optimizer steps as were asked for: leaves a program that goes on, past its `except Exception`."""


class _Held:
    """A storage that is there. Its `phase` is that in which it was made."""

    __slots__ = ("bytes", "op", "phase", "where")

    def __init__(self, size: int, phase: str, op: str, where: str) -> None:
        self.bytes, self.phase, self.op, self.where = size, phase, op, where


class Tracker(TorchDispatchMode):  # type: ignore[misc]
    """Counts storages while it is entered. `phases`: follows the program's backward passes and optimizer steps too.

    A peak's account is taken when the first storage is freed after it, so that a rising total costs nothing.
    """

    def __init__(self, steps: int, constant_scalars: bool = False) -> None:
        super().__init__()
        self.held: dict[int, _Held] = {}
        self.refs: dict[int, weakref.ref[Any]] = {}
        self.total = self.peak = self.seen_peak = self.step_count = 0
        self.steps, self.constant_scalars, self.phase = steps, constant_scalars, "forward"
        self.optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self.account: MemoryAccount | None = None
        self.modules: weakref.WeakSet[Any] = weakref.WeakSet()
        self.inside: set[int] = set()  # ids of modules below those

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.constant_scalars and func is torch.ops.aten._local_scalar_dense.default:
            dtype = args[0].dtype  # a fake tensor has no value: 1 goes through most programs
            return True if dtype == torch.bool else 1.0 if dtype.is_floating_point else 1
        result = func(*args, **(kwargs or {}))
        if size := memory_inside.held(func, args, kwargs or {}, result):
            self.inside_operator(size, str(func))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self.add(leaf, str(func))
        return result

    def add(self, tensor: Any, op: str) -> None:
        """A storage that is not known yet."""
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):  # of sparse ones
            return
        key = storage._cdata
        if key in self.refs and self.refs[key]() is storage and storage is not None:
            self._resized(key, storage.nbytes())
            return
        size = storage.nbytes()
        self.refs[key] = weakref.ref(storage, lambda _, key=key: self._freed(key))  # type: ignore[misc]
        self.held[key] = _Held(size, self.phase, op, _line())
        self._grow(size)

    def inside_operator(self, size: int, op: str) -> None:
        """What an operator holds while it runs, its results among it, and has freed when it returns."""
        if self.total + size > self.peak:
            self.peak = self.seen_peak = self.total + size
            held = _Held(size, "backward", op, _line())
            self.held[-1] = held
            self.account = self._account()
            del self.held[-1]

    def _grow(self, size: int) -> None:
        self.total += size
        self.peak = max(self.peak, self.total)

    def _resized(self, key: int, size: int) -> None:
        if key in self.held and size != self.held[key].bytes:
            self.look()
            self._grow(size - self.held[key].bytes)
            self.held[key].bytes = size

    def _freed(self, key: int) -> None:
        self.look()
        held = self.held.pop(key, None)
        self.refs.pop(key, None)
        if held:
            self.total -= held.bytes

    def look(self) -> None:
        """Takes the account where the total stands at a peak that was not looked at."""
        if self.total == self.peak >= self.seen_peak:
            self.seen_peak = self.peak
            self.account = self._account()

    def _account(self) -> MemoryAccount:
        known = self._known()
        parts: Counter[str] = Counter()
        lines: dict[tuple[str, str], list[Any]] = {}
        for key, held in self.held.items():
            kind = known.get(key) or ("activations" if held.phase == "forward" else "temporaries")
            parts[kind] += held.bytes
            line = lines.setdefault((held.where, kind), [0, 0, Counter()])
            line[0], line[1] = line[0] + held.bytes, line[1] + 1
            line[2][held.op] += held.bytes
        largest = sorted(lines.items(), key=lambda item: -item[1][0])[:LINES]
        return MemoryAccount(
            how="fake tensors", peak_bytes=self.peak, parts=dict(parts), phase=self.phase, steps=self.step_count,
            lines=[
                OwnedLine(where=where, kind=kind, bytes=size, tensors=count, op=ops.most_common(1)[0][0].removeprefix("aten."))
                for (where, kind), (size, count, ops) in largest
            ],
        )  # fmt: skip

    def _known(self) -> dict[int, str]:
        """Storages of parameters, their gradients, and the optimizer's state."""
        known: dict[int, str] = {}
        for module in self.modules:
            known.update({buffer.untyped_storage()._cdata: "inputs" for buffer in module.buffers()})
            known.update({one.untyped_storage()._cdata: "parameters" for one in module.parameters()})
        for optimizer in self.optimizers:
            for state in optimizer.state.values():
                for value in state.values():
                    if isinstance(value, torch.Tensor):
                        known[value.untyped_storage()._cdata] = "moments"
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    known[parameter.untyped_storage()._cdata] = "parameters"
                    if parameter.grad is not None:
                        known[parameter.grad.untyped_storage()._cdata] = "gradients"
        return known

    def before_module(self, module: Any, inputs: Any) -> None:
        """Each outermost module that is called, and the tensors that it gets."""
        if id(module) not in self.inside:
            self.modules.add(module)
            self.inside.update(map(id, module.modules()))

    def before_step(self, optimizer: Any, *_: Any) -> None:
        self.optimizers.add(optimizer)
        self.phase = "update"

    def after_step(self, *_: Any) -> None:
        self.look()
        self.phase, self.step_count = "forward", self.step_count + 1
        if self.step_count >= self.steps:
            raise StepsDone

    def finished(self, ended: str = "") -> MemoryAccount:
        """The account of the highest peak."""
        self.look()
        account = self.account or MemoryAccount(how="fake tensors", peak_bytes=self.peak)
        return _replaced(account, steps=self.step_count, ended=ended)


def _replaced(account: MemoryAccount, **changes: Any) -> MemoryAccount:
    from msgspec.structs import replace

    return replace(account, **changes)


def _line() -> str:
    """The innermost line that is neither PyTorch's nor ours."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if not any(part in name for part in OURS) and not name.startswith("<frozen"):
            return f"{name}:{frame.f_lineno} {frame.f_code.co_name}"
        frame = frame.f_back  # type: ignore[assignment]
    return ""

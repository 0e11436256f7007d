"""Tensors of a GPU that is not here. They lie in the host's memory, their storage is marked with the device's number, and `tensor.device` says
`cuda:0`. As on a GPU, operators that write into what is there are put on the current stream and the host goes on; new memory holds no zeros; tensors of
two devices do not mix; and the host reads nothing without a copy. Operators that make new tensors are waited for, since their shape must be known."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_iter

from torch_stand_in import kernels
from torch_stand_in.streams import CAPTURING, Stream, error

POISON = 0xCD
ROUNDED = 512  # bytes in which PyTorch's allocator hands out
AT_ONCE = {"aten::set_", "aten::resize_", "aten::resize_as_", "aten::requires_grad_", "aten::detach_", "aten::rename_"}  # change the tensor, not its content
MIXES = {  # take tensors of the host beside those of a device
    "aten::copy_", "aten::_to_copy", "aten::index", "aten::index_put_", "aten::_index_put_impl_", "aten::index_put", "aten::set_", "aten::_unsafe_index",
}  # fmt: skip
FRESH = {"aten::empty", "aten::empty_strided", "aten::empty_like", "aten::new_empty", "aten::new_empty_strided"}
WAITS = {"aten::_local_scalar_dense", "aten::equal", "aten::is_nonzero", "aten::nonzero", "aten::_unique2", "aten::masked_select"}


class Marks:
    """Which storages lie on which device, or are pinned."""

    def __init__(self) -> None:
        self.kept: dict[int, tuple[StorageWeakRef, int, int]] = {}  # address of a storage → reference, device, bytes
        self.lock = threading.Lock()
        self.due = 1024

    def put(self, tensor: Any, where: int) -> None:
        for storage in storages(tensor):
            with self.lock:
                self.kept[storage._cdata] = (StorageWeakRef(storage), where, storage.nbytes())
                if len(self.kept) > self.due:
                    self._sweep()
                    self.due = 2 * len(self.kept) + 1024

    def _sweep(self) -> None:
        self.kept = {key: one for key, one in self.kept.items() if not one[0].expired()}

    def of(self, tensor: Any) -> int | None:
        """The device's number; −1 for pinned memory, None for the host's."""
        if tensor.is_meta or type(tensor) not in PLAIN:
            return None
        found = self.kept.get(storages(tensor)[0]._cdata)
        return None if found is None or found[0].expired() else found[1]

    def bytes(self, where: int) -> int:
        with self.lock:
            self._sweep()
            return sum(-(-nbytes // ROUNDED) * ROUNDED for _, device, nbytes in self.kept.values() if device == where)


def storages(tensor: Any) -> list[Any]:
    """The memory behind a tensor: several pieces where it is sparse."""
    with torch._C.DisableTorchFunction():
        if tensor.layout is torch.strided:
            return [tensor.untyped_storage()]
        with _disable_current_modes():
            if tensor.layout is torch.sparse_coo:
                found = [tensor._values(), tensor._indices()]
            elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
                found = [tensor.values(), tensor.crow_indices(), tensor.col_indices()]
            else:
                found = [tensor.values(), tensor.ccol_indices(), tensor.row_indices()]
            return [one.untyped_storage() for one in found]


HOST = torch.device("cpu")
PLAIN = (torch.Tensor, torch.nn.Parameter)
_DEVICE, _ON_CUDA, _ON_CPU = (getattr(torch._C.TensorBase, name).__get__ for name in ("device", "is_cuda", "is_cpu"))


class Streamed(TorchDispatchMode):
    """Every operator with a tensor of a device goes to that device's current stream."""

    def __init__(self, marks: Marks, current: Callable[[int], Stream]) -> None:
        super().__init__()
        self.marks, self.current = marks, current
        self.within: int | None = None  # the device of the operator from Python that is running: what it makes on the way lies there

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # else PyTorch's compiler is imported for it, which takes seconds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunction():
            return self._operator(func, args, kwargs or {})

    def _operator(self, func: Any, args: Any, kwargs: Any) -> Any:
        name = func._schema.name
        where = self._where(name, args, kwargs)
        if where is None and self.within is not None and not any(isinstance(one, torch.Tensor) for one in tree_iter((args, kwargs))):
            return self.fresh(name, func(*args, **kwargs), self.within)
        if where is None:
            return func(*args, **kwargs)
        stream = self.current(where)
        run = kernels.TABLE.get(name, func)
        schema = func._schema
        aliased = [one.alias_info for one in schema.returns]
        if name in AT_ONCE or torch.Tag.inplace_view in func.tags or (aliased and all(a is not None and not a.is_write for a in aliased)):
            stream.card.answer()
            return self._marked(func(*args, **kwargs), where)  # a view, or another shape for the same memory
        if schema.is_mutable and all(a is not None and a.is_write for a in aliased) and not self._grows(schema, args, kwargs):
            return self._queued(schema, stream, name, lambda: run(*args, **kwargs), args, kwargs)
        return self._new(stream, name, run, args, kwargs, where)

    def _where(self, name: str, args: Any, kwargs: Any) -> int | None:
        seen: set[int | None] = set()
        for one in tree_iter((args, kwargs)):
            if isinstance(one, torch.Tensor):
                where = self.marks.of(one)
                on_host = where is None or where < 0
                seen |= set() if on_host and (one.dim() == 0 or name in MIXES) else {None if on_host else where}
        if len(seen) > 1 and not name.startswith("aten::copy_"):
            both = sorted("cpu" if one is None else f"cuda:{one}" for one in seen)
            raise RuntimeError(f"Expected all tensors to be on the same device, but found at least two devices, {both[1]} and {both[0]}! ({name})")
        return next((one for one in seen if one is not None), None)

    def _grows(self, schema: Any, args: Any, kwargs: Any) -> bool:
        """Whether an `out=` gets its size only now."""
        written = [kwargs[a.name] for a in schema.arguments if a.name in kwargs and a.alias_info is not None and a.alias_info.is_write]
        return any(isinstance(one, torch.Tensor) and one.numel() == 0 for one in written)

    def _queued(self, schema: Any, stream: Stream, name: str, run: Callable[[], Any], args: Any, kwargs: Any) -> Any:
        stream.put(run)
        if name == "aten::copy_" and self._with_pageable(args, kwargs):
            self._wait(stream)
        given = {argument.name: value for argument, value in zip(schema.arguments, args, strict=False)} | kwargs
        by_alias = {tuple(a.alias_info.before_set): given.get(a.name) for a in schema.arguments if a.alias_info is not None}
        outputs = tuple(by_alias[tuple(one.alias_info.before_set)] for one in schema.returns)
        return None if not outputs else outputs[0] if len(outputs) == 1 else outputs

    def _with_pageable(self, args: Any, kwargs: Any) -> bool:
        """A copy between the device and memory of the host is waited for, unless that is pinned and the caller said so."""
        host = [where for where in (self.marks.of(args[0]), self.marks.of(args[1])) if where is None or where < 0]
        non_blocking = kwargs.get("non_blocking", args[2] if len(args) > 2 else False)
        return bool(host) and not (non_blocking and host == [-1])

    def _new(self, stream: Stream, name: str, run: Any, args: Any, kwargs: Any, where: int) -> Any:
        """An operator that makes tensors, and is waited for. Recorded in a graph it makes them now, with nothing in them."""
        if stream.graph is not None:
            return self._recorded(stream, name, run, args, kwargs, where)
        made: list[Any] = []
        stream.put(lambda: made.append(run(*args, **kwargs)))
        stream.wait()
        stream.card.answer()
        return self.fresh(name, made[0], where)

    def _recorded(self, stream: Stream, name: str, run: Any, args: Any, kwargs: Any, where: int) -> Any:
        if name in WAITS:
            stream.synchronize()  # refuses, and ends the capture
        with _disable_current_modes():
            made = run(*args, **kwargs)
        outputs = [one for one in tree_iter(made) if isinstance(one, torch.Tensor)]

        def again() -> None:
            for kept, one in zip(outputs, (o for o in tree_iter(run(*args, **kwargs)) if isinstance(o, torch.Tensor)), strict=True):
                kept.copy_(one)

        if name not in FRESH:
            stream.put(again)
        for one in outputs:
            poison(one)
        return self._marked(made, where)

    def _wait(self, stream: Stream) -> None:
        stream.synchronize()

    def fresh(self, name: str, made: Any, where: int) -> Any:
        """Marks what was allocated on a device; memory that nothing was written to holds poison."""
        for one in tree_iter(made):
            if isinstance(one, torch.Tensor) and self.marks.of(one) is None:
                nbytes = sum(storage.nbytes() for storage in storages(one))
                self.current(where).card.allocate(nbytes, self.marks.bytes(where) if nbytes > 1 << 20 else 0)
                if name in FRESH:
                    poison(one)
        return self._marked(made, where)

    def _marked(self, made: Any, where: int) -> Any:
        for one in tree_iter(made):
            if isinstance(one, torch.Tensor):
                self.marks.put(one, where)
        return made


def unwatched(tensor: Any) -> list[float]:
    """What stands in a tensor's memory at this moment, which no program could know."""
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        return tensor.tolist()  # type: ignore[no-any-return]


def poison(tensor: Any) -> None:
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        for storage in storages(tensor):
            torch.empty(0, dtype=torch.uint8).set_(storage).fill_(POISON)


class Placed(TorchFunctionMode):
    """Where a call names a device `cuda`, it gets memory of the host, marked; what the host may not do with a device's tensor is refused."""

    def __init__(self, streamed: Streamed, index_of: Callable[[Any], int]) -> None:
        super().__init__()
        self.streamed, self.marks, self.index_of = streamed, streamed.marks, index_of

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name in _MOVES and args and isinstance(args[0], torch.Tensor):
            return self._moved(name, func, args, kwargs)
        if name in ("tolist", "numpy") and self._on_device(args[0]):
            return self._read(name, func, args, kwargs)
        if name == "is_pinned":
            return self.marks.of(args[0]) == -1
        if name == "pin_memory":
            return self._pinned(args[0].clone())
        generator = kwargs.get("generator")
        device = kwargs.get("device")
        if device is None:
            if kwargs.pop("pin_memory", False):
                return self._pinned(func(*args, **kwargs))
            return self._inside(func, args, kwargs)
        device = torch.device(device)
        pinned = kwargs.pop("pin_memory", False)
        if generator is not None and generator.device.type != device.type:
            raise RuntimeError(f"Expected a '{device.type}' device type for generator but found '{generator.device.type}'")
        if device.type != "cuda":
            made = func(*args, **{**kwargs, "device": device})
            return self._pinned(made) if pinned else made
        return self._made(func, args, {**kwargs, "device": HOST}, self.index_of(device))

    def _inside(self, func: Any, args: Any, kwargs: Any) -> Any:
        """An operator, with the device of its first tensor for those that its parts make."""
        before = self.streamed.within
        wheres = (self.marks.of(one) for one in tree_iter((args, kwargs)) if isinstance(one, torch.Tensor))
        self.streamed.within = next((where for where in wheres if where is not None and where >= 0), None)
        try:
            return func(*args, **kwargs)
        finally:
            self.streamed.within = before

    def factory(self, func: Any) -> Any:
        """A function of `torch` that makes tensors, for where PyTorch's own Python calls it with a device."""

        def makes(*args: Any, **kwargs: Any) -> Any:
            device = kwargs.get("device")
            if device is None or torch.device(device).type != "cuda":
                return func(*args, **kwargs)
            with torch._C.DisableTorchFunction():
                return self.__torch_function__(func, (), args, kwargs)

        return makes

    def _made(self, func: Any, args: Any, kwargs: Any, where: int) -> Any:
        """A factory's tensor. One of the device among the arguments has put it there already."""
        stream = self.streamed.current(where)
        stream.card.answer()
        with self._room(where), _disable_current_modes() if not self._any_on_device(args) else contextlib.nullcontext():
            made = func(*args, **kwargs)
        return self.streamed.fresh(f"aten::{getattr(func, '__name__', '')}", made, where)

    @contextlib.contextmanager
    def _room(self, where: int) -> Iterator[None]:
        try:
            yield
        except RuntimeError as failure:
            if "alloc" not in str(failure) and "overflow" not in str(failure):
                raise
            self.streamed.current(where).card.allocate(1 << 62, 0)

    def _pinned(self, made: Any) -> Any:
        self.marks.put(made, -1)
        return made

    def _on_device(self, tensor: Any) -> bool:
        where = self.marks.of(tensor)
        return where is not None and where >= 0

    def _any_on_device(self, args: Any) -> bool:
        return any(isinstance(one, torch.Tensor) and self._on_device(one) for one in tree_iter(args))

    def _moved(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        """`to`, `cpu`, `cuda`: a copy from one place to the other, or none."""
        tensor, rest = args[0], list(args[1:])
        here = self.marks.of(tensor)
        here = None if here is None or here < 0 else here
        there: int | None = here
        if name == "cpu":
            there = None
        elif name == "cuda":
            there, rest = self.index_of(rest[0] if rest else kwargs.pop("device", None)), []
        else:
            asked = kwargs.pop("device", None)
            if rest and isinstance(rest[0], (str, torch.device, int)):
                asked = rest.pop(0)
            elif rest and isinstance(rest[0], torch.Tensor):
                asked = rest[0].device
            if asked is not None:
                asked = torch.device(asked)
                there = self.index_of(asked) if asked.type == "cuda" else None
        if there == here:
            return func(tensor, *rest, **kwargs) if name == "to" else tensor
        if here is not None:
            self.streamed.current(here).synchronize()
        with _disable_current_modes():
            made = tensor.to(*rest, **kwargs) if rest or kwargs else tensor
            made = made.clone() if made is tensor or made.data_ptr() == tensor.data_ptr() else made
        return made if there is None else self.streamed.fresh("aten::to", made, there)

    def _read(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        where = self.marks.of(args[0])
        assert where is not None
        if name == "numpy":
            raise TypeError(f"can't convert cuda:{where} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.")
        stream = self.streamed.current(where)
        if stream.graph is not None:
            stream.graph.broken = True
            raise error(CAPTURING)
        stream.synchronize()
        return func(*args, **kwargs)


_MOVES = {"to", "cpu", "cuda"}


def on_device(marks: Marks) -> dict[str, property]:
    """What a tensor says of where it is."""

    def marked(tensor: Any) -> bool:
        where = marks.of(tensor)
        return where is not None and where >= 0

    def device(tensor: Any) -> Any:
        return torch.device("cuda", marks.of(tensor)) if marked(tensor) else _DEVICE(tensor)

    return {
        "device": property(device), "is_cuda": property(lambda one: marked(one) or _ON_CUDA(one)),
        "is_cpu": property(lambda one: not marked(one) and _ON_CPU(one)),
    }  # fmt: skip

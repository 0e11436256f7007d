"""A loaded CUDA kernel and its parameter list: what a launch costs on the host is decided here."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from operator import is_
from typing import Any, Protocol

import numpy as np

from hotlap.core.errors import NotSupported
from hotlap.core.measure.targets.base import Buffer
from hotlap.core.measure.targets.cuda_driver import failure, name_of


class KernelOwner(Protocol):
    """What a kernel needs of its target."""

    cu: Any
    queues: list[Any]
    busy: bool

    def activate(self) -> None: ...


class CudaKernel:
    """A function of a loaded module. Most calls repeat the last one's shape and arguments, for which all is kept ready."""

    def __init__(self, target: KernelOwner, function: Any, name: str) -> None:
        self.target, self.function, self.name = target, function, name
        self.shape: tuple[int, int] = (0, 0)
        self.args: tuple[Buffer | np.generic, ...] = ()
        self.parameters: Any = None
        self.launch: Callable[[], tuple[Any]]

    def __call__(self, items: int, group: int, *args: Buffer | np.generic) -> None:
        if self.shape != (items, group) or len(args) != len(self.args) or not all(map(is_, args, self.args)):
            self._prepare(items, group, args)
        if not self.target.busy:
            self.target.activate()
        (result,) = self.launch()
        if result:
            raise self._refused(result)

    def _prepare(self, items: int, group: int, args: tuple[Buffer | np.generic, ...]) -> None:
        """The driver copies the parameters when it is called, so that they may be overwritten for the next call."""
        blocks, rest = divmod(items, group)
        if rest:
            raise NotSupported(f"{items} work-items are not whole groups of {group}")
        self.shape = (0, 0)  # until all is ready
        if self.parameters is None or len(args) != len(self.args):
            self.parameters = Parameters(len(args))
        self.parameters.set(args)
        cu, queue, address = self.target.cu, self.target.queues[0], self.parameters.address
        self.launch = functools.partial(cu.cuLaunchKernel, self.function, blocks, 1, 1, group, 1, 1, 0, queue, address, 0)
        self.shape, self.args = (items, group), args

    def _refused(self, result: Any) -> Exception:
        """An invalid value is a group or grid larger than the device takes: the case's fault, not the machine's."""
        what = f"launch '{self.name}' with {self.shape[0]} work-items in groups of {self.shape[1]}"
        if name_of(result) == "CUDA_ERROR_INVALID_VALUE":
            return NotSupported(f"CUDA could not {what}: {name_of(result)}", "choose fewer or smaller groups")
        return failure(result, what)


class Parameters:
    """A launch's parameter list: eight bytes for each value, and the addresses of these."""

    def __init__(self, count: int) -> None:
        self.values = bytearray(8 * max(count, 1))
        first = ctypes.addressof(ctypes.c_char.from_buffer(self.values))
        self.pointers = (ctypes.c_void_p * max(count, 1))(*(first + 8 * i for i in range(count)))
        self.address = ctypes.addressof(self.pointers)

    def set(self, args: tuple[Buffer | np.generic, ...]) -> None:
        for i, arg in enumerate(args):
            octets = arg.handle.address.to_bytes(8, "little") if isinstance(arg, Buffer) else arg.tobytes()
            if len(octets) > 8:
                raise TypeError(f"parameter {i} has {len(octets)} bytes; a kernel takes buffers and scalars of at most 8")
            self.values[8 * i : 8 * i + len(octets)] = octets

"""A loaded CUDA kernel and its parameter list: what a launch costs on the host is decided here."""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

import numpy as np

from hotlap.errors import NotSupported
from hotlap.targets.base import Buffer
from hotlap.targets.cuda_driver import failure, name_of


class Owner(Protocol):
    """What a kernel needs of its target."""

    cu: Any
    queues: list[Any]
    busy: bool

    def activate(self) -> None: ...


class Arguments:
    """A launch's parameter list: eight bytes for each value, and the addresses of these. A launch copies it, so one serves all."""

    def __init__(self, count: int) -> None:
        self.given: tuple[Buffer | np.generic, ...] = ()
        self.identities: list[int] = []
        self.values = bytearray(8 * max(count, 1))
        first = ctypes.addressof(ctypes.c_char.from_buffer(self.values))
        self.pointers = (ctypes.c_void_p * max(count, 1))(*(first + 8 * i for i in range(count)))
        self.address = ctypes.addressof(self.pointers)

    def set(self, args: tuple[Buffer | np.generic, ...]) -> None:
        """Most calls repeat the last one's arguments, which are kept so that their identities stay theirs."""
        identities = [*map(id, args)]
        if identities != self.identities:
            for i, arg in enumerate(args):
                octets = arg.handle.address.to_bytes(8, "little") if isinstance(arg, Buffer) else arg.tobytes()
                self.values[8 * i : 8 * i + len(octets)] = octets
            self.identities, self.given = identities, args


class CudaKernel:
    """A function of a loaded module."""

    def __init__(self, target: Owner, function: Any, name: str) -> None:
        self.target, self.function, self.name = target, function, name
        self.launch, self.queue, self.arguments = target.cu.cuLaunchKernel, target.queues[0], Arguments(0)

    def __call__(self, items: int, group: int, *args: Buffer | np.generic) -> None:
        arguments = self.arguments
        if len(arguments.identities) != len(args):
            arguments = self.arguments = Arguments(len(args))
        arguments.set(args)
        if not self.target.busy:
            self.target.activate()
        blocks, rest = divmod(items, group)
        if rest:
            raise NotSupported(f"{items} work-items are not whole groups of {group}")
        (result,) = self.launch(self.function, blocks, 1, 1, group, 1, 1, 0, self.queue, arguments.address, 0)
        if result:
            raise self._refused(result, items, group)

    def _refused(self, result: Any, items: int, group: int) -> Exception:
        """An invalid value is a group or grid larger than the device takes: the case's fault, not the machine's."""
        what = f"launch '{self.name}' with {items} work-items in groups of {group}"
        if name_of(result) == "CUDA_ERROR_INVALID_VALUE":
            return NotSupported(f"CUDA could not {what}: {name_of(result)}")
        return failure(result, what)

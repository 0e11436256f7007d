"""A stand-in for `torch.cuda` on a machine without a GPU: PyTorch for processors, made to say that it has one, with CUDA's rules of streams, events,
graphs, memory and errors. It proves the order of what the torch target asks and what PyTorch's API takes, never a number.

`with standing_in(Looks(...)) as gpu:` in a test; `gpu.cards[0].fails_after = 3` and the like put faults into it. Programs that a test starts get it by
`environment(...)`, through `site/sitecustomize.py`.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import types
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from torch_stand_in import tensors
from torch_stand_in.streams import Card, CUDAGraph, Event, Stream

lasting = contextlib.ExitStack()  # never closed: who drops a context ends it
VARIABLE = "TORCH_STAND_IN"  # in the environment of programs: Looks as JSON
FACTORIES = ("arange", "empty", "empty_strided", "eye", "full", "linspace", "ones", "rand", "randint", "randn", "randperm", "tensor", "zeros")
NAME = "PyTorch stand-in (no GPU)"


@dataclass(frozen=True)
class Looks:
    """What the stand-in says that it is."""

    devices: int = 1
    capability: tuple[int, int] = (9, 0)
    hip: str = ""  # version of ROCm; "": CUDA
    total_bytes: int = 8 << 30
    l2_bytes: int = 1 << 20
    units: int = 4
    name: str = NAME
    fails_after: int | None = None
    full_after: int | None = None
    refuses_capture: bool = False


MI300X = Looks(devices=2, capability=(9, 4), hip="7.0.51831", l2_bytes=4 << 20)  # ROCm answers with the L2 of one die, and not with the Infinity Cache

LOOKS = {"CUDA": Looks(devices=2), "ROCm": MI300X}


class Gpu:
    """All devices of one stand-in, and what each thread has chosen."""

    def __init__(self, looks: Looks) -> None:
        self.looks, self.local, self.marks = looks, threading.local(), tensors.Marks()
        self.cards = [Card(index, looks.total_bytes) for index in range(looks.devices)]
        for card in self.cards:
            card.fails_after, card.full_after, card.refuses_capture = looks.fails_after, looks.full_after, looks.refuses_capture

    def index(self, device: Any = None) -> int:
        """The number of a device named in any way that PyTorch takes."""
        if device is None:
            return int(getattr(self.local, "device", 0))
        if isinstance(device, int):
            found = device
        else:
            found = torch.device(device).index
            found = self.index() if found is None else found
        if not 0 <= found < len(self.cards):
            raise streams_error(found)
        return found

    def current(self, device: Any = None) -> Stream:
        where = self.index(device)
        kept: dict[int, Stream] = self.local.__dict__.setdefault("streams", {})
        return kept.get(where, self.cards[where].default)

    def choose(self, stream: Stream) -> None:
        self.local.__dict__.setdefault("streams", {})[stream.card.index] = stream
        self.local.device = stream.card.index

    def properties(self, device: Any = None) -> Any:
        looks, where = self.looks, self.index(device)
        known = {
            "name": looks.name, "major": looks.capability[0], "minor": looks.capability[1], "total_memory": looks.total_bytes,
            "multi_processor_count": looks.units, "L2_cache_size": looks.l2_bytes, "clock_rate": 1_500_000,
            "uuid": f"00000000-0000-0000-0000-{where + 1:012d}", "pci_domain_id": 0, "pci_bus_id": 16 + where, "pci_device_id": 0,
            "shared_memory_per_block_optin": 232448, "warp_size": 64 if looks.hip else 32, "gcnArchName": "gfx942:sramecc+:xnack-",
        }  # fmt: skip
        return types.SimpleNamespace(**{key: value for key, value in known.items() if looks.hip or key != "gcnArchName"})


def streams_error(index: int) -> RuntimeError:
    return RuntimeError(f"CUDA error: invalid device ordinal\n{index}")


_now: list[Gpu] = []


def gpu() -> Gpu:
    return _now[-1]


def card_of(device: Any) -> Card:
    return gpu().cards[gpu().index(device)]


def current_stream(device: Any = None) -> Stream:
    return gpu().current(device)


class Generator(torch._C.Generator):
    """The processor's, which says that it is the device's."""

    def __new__(cls, device: Any = "cpu") -> Any:
        return super().__new__(cls)

    def __init__(self, device: Any = "cpu") -> None:
        self._place = torch.device(device)

    @property
    def device(self) -> Any:
        return self._place


@contextlib.contextmanager
def _stream(stream: Stream | None) -> Iterator[None]:
    if stream is None:
        yield
        return
    here = gpu()
    device, before = here.index(), here.current(stream.device)
    here.choose(stream)
    try:
        yield
    finally:
        here.choose(before)
        here.local.device = device


def _module(here: Gpu) -> dict[str, Any]:
    """The names of `torch.cuda` that a GPU changes."""

    def peak(device: Any = None) -> int:
        return here.marks.bytes(here.index(device))

    def free(device: Any = None) -> tuple[int, int]:
        return here.looks.total_bytes - peak(device), here.looks.total_bytes

    def chosen(device: Any) -> None:
        here.local.device = here.index(device)

    def capturing() -> bool:
        return here.current().graph is not None

    profiler = types.SimpleNamespace(cudaProfilerStart=lambda: 0, cudaProfilerStop=lambda: 0, cudaDeviceSynchronize=lambda: 0)
    return {
        "hotlap_stand_in": True, "is_available": lambda: True, "is_initialized": lambda: True,
        "_lazy_init": lambda: None, "init": lambda: None, "device_count": lambda: len(here.cards), "current_device": here.index,
        "set_device": chosen, "get_device_properties": here.properties, "get_device_name": lambda device=None: here.properties(device).name,
        "get_device_capability": lambda device=None: here.looks.capability, "can_device_access_peer": lambda one, other: one != other,
        "Stream": Stream, "Event": Event, "CUDAGraph": CUDAGraph, "current_stream": here.current,
        "default_stream": lambda device=None: here.cards[here.index(device)].default, "set_stream": here.choose, "stream": _stream,
        "synchronize": lambda device=None: here.cards[here.index(device)].synchronize(), "is_current_stream_capturing": capturing,
        "empty_cache": lambda: None, "ipc_collect": lambda: None, "memory_allocated": peak, "max_memory_allocated": peak,
        "memory_reserved": peak, "max_memory_reserved": peak, "reset_peak_memory_stats": lambda device=None: None, "mem_get_info": free,
        "manual_seed": lambda seed: None, "manual_seed_all": lambda seed: None, "cudart": lambda: profiler,
        "is_bf16_supported": lambda including_emulation=True: here.looks.capability >= (8, 0),
    }  # fmt: skip


@contextlib.contextmanager
def standing_in(looks: Looks | None = None) -> Iterator[Gpu]:
    """PyTorch with this GPU, in this process and for tensors of this thread, until the end of the block."""
    with contextlib.ExitStack() as undo:
        here = Gpu.__new__(Gpu)
        _now.append(here)
        undo.callback(_now.pop)
        here.__init__(looks or Looks())  # type: ignore[misc]
        places: list[tuple[Any, str, Any]] = [(torch.cuda, name, value) for name, value in _module(here).items()]
        places += [(torch.Tensor, name, value) for name, value in tensors.on_device(here.marks).items()]
        places += [(torch, "Generator", Generator), (torch._C, "_host_emptyCache", lambda: None)]
        places += [(torch.version, "hip", here.looks.hip or None), (torch.version, "cuda", None if here.looks.hip else "13.0")]
        for owner, name, value in places:
            _set(undo, owner, name, value)
        streamed = tensors.Streamed(here.marks, here.current)
        undo.enter_context(streamed)
        placed = tensors.Placed(streamed, here.index)
        for name in FACTORIES:
            _set(undo, torch, name, placed.factory(getattr(torch, name)))
        undo.enter_context(placed)
        yield here


def _set(undo: contextlib.ExitStack, owner: Any, name: str, value: Any) -> None:
    own = name in vars(owner)
    before = vars(owner).get(name)
    setattr(owner, name, value)
    undo.callback(lambda: setattr(owner, name, before) if own else delattr(owner, name))


def environment(looks: Looks | None = None) -> dict[str, str]:
    """What a program needs in its environment to have it too."""
    here = Path(__file__).parent
    path = os.pathsep.join([str(here / "site"), str(here.parent), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return {VARIABLE: json.dumps(asdict(looks or Looks())), "PYTHONPATH": path}


def forever(text: str) -> None:
    """In such a program, as soon as it imports PyTorch."""
    given = json.loads(text)
    lasting.enter_context(standing_in(Looks(**{**given, "capability": tuple(given["capability"])})))

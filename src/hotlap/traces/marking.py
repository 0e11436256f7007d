"""`hotlap.marker`: ranges that a program marks for its profiler, by levels, at no cost worth mentioning while they are off.

    with hotlap.marker("forward"): …                        # coarse: the parts of a step
    @hotlap.marker("attention", level="fine")               # fine: parts of those; all: anything else

HOTLAP_MARKERS or `hotlap.marker.level = …` says which are emitted: off (default), coarse, fine, all. Emitted is what is there:
`torch.profiler.record_function` once the program itself has imported PyTorch, NVTX through the package nvtx or PyTorch's own,
roctx through ROCm's package. Nothing is imported that the program would notice: PyTorch never.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import warnings
from collections.abc import Callable
from threading import get_ident
from types import TracebackType
from typing import Any, Protocol, TypeVar, cast

LEVELS = ("off", "coarse", "fine", "all")
VARIABLE = "HOTLAP_MARKERS"
MOST_KEPT = 4096  # ranges kept per level: a program with more names has ids in them
F = TypeVar("F", bound=Callable[..., Any])
Close = Callable[[], None]


def _refused(message: str, given: str, valid: tuple[str, ...]) -> Exception:
    """An InputError; errors are imported when there is one, since programs that only mark pay for every module."""
    from hotlap.core.errors import InputError, nearest

    return InputError(f"{message}; {nearest(given, valid)}")



class Profiler(Protocol):
    """Something that records ranges: opens one and returns what closes it."""

    def __call__(self, name: str) -> Close: ...


class Range:
    """A named range: a context manager and a decorator. It may be entered again while it is open, and from several threads.

    Ranges are closed last opened first within a thread, so one held across an `await` belongs to no thread and is not for this.
    """

    __slots__ = ("level", "name", "opened", "owner", "rank")

    def __init__(self, owner: Marker, name: str, level: str) -> None:
        self.owner, self.name, self.level, self.rank = owner, name, level, LEVELS.index(level)
        self.opened: dict[int, list[list[Close]]] = {}  # by thread

    def __enter__(self) -> None:
        if self.owner.rank >= self.rank:
            self.opened.setdefault(get_ident(), []).append(self.owner.begin(self.name))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.opened:  # the level may have changed meanwhile: what was opened is closed
            thread = get_ident()
            if mine := self.opened.get(thread):
                for close in reversed(mine.pop()):
                    close()
                if not mine:
                    del self.opened[thread]

    def __call__(self, function: F) -> F:
        """The function, marked on every call."""
        owner, name, level, rank = self.owner, self.name, self.level, self.rank

        @functools.wraps(function)
        def marked(*args: Any, **kwargs: Any) -> Any:
            if owner.rank < rank:
                return function(*args, **kwargs)
            with owner(name, level):
                return function(*args, **kwargs)

        return cast(F, marked)


class Quiet(Range):
    """A range of a level that is off. What `with` calls is C that does nothing and gives a false value: half the cost of Python's."""

    __slots__ = ()
    __enter__ = "".format  # type: ignore[assignment]
    __exit__ = "".format  # type: ignore[assignment]


class Marker:
    """Makes ranges. `level` is the finest that is emitted."""

    def __init__(self, level: str = "off") -> None:
        self.rank = LEVELS.index(level)
        self.kept: dict[str, dict[str, Range]] = {one: {} for one in LEVELS[1:]}  # by level and name
        self.coarse = self.kept["coarse"]
        self.profilers: list[Profiler] = []
        self.sought: bool | None = None  # whether PyTorch was there when profilers were last looked for

    @property
    def level(self) -> str:
        """off, coarse, fine or all."""
        return LEVELS[self.rank]

    @level.setter
    def level(self, wanted: str) -> None:
        if wanted not in LEVELS:
            raise _refused(f"there is no level '{wanted}' of markers", str(wanted), LEVELS)
        self.rank = LEVELS.index(wanted)
        for ranges in self.kept.values():
            for one in list(ranges.values()):
                if not one.opened:  # one that is open has still to be closed, and looks at the level itself
                    one.__class__ = self._type(one.rank)

    def _type(self, rank: int) -> type[Range]:
        return Range if self.rank >= rank else Quiet

    def __call__(self, name: str, level: str = "coarse") -> Range:
        """A range of this name. Raises InputError for a level that is none of coarse, fine, all."""
        found = self.coarse.get(name) if level == "coarse" else self.kept.get(level, {}).get(name)
        return found or self._make(name, level)

    def _make(self, name: str, level: str) -> Range:
        if level not in LEVELS[1:]:
            raise _refused(f"a marker's level is not '{level}'", str(level), LEVELS[1:])
        kept = self.kept[level]
        if len(kept) >= MOST_KEPT:
            return Range(self, name, level)
        kept[name] = found = self._type(LEVELS.index(level))(self, name, level)
        return found

    def begin(self, name: str) -> list[Close]:
        """Opens a range in every profiler that is there; what closes it, in the order opened."""
        here = "torch" in sys.modules
        if self.sought != here:
            self.profilers, self.sought = found_profilers(), here
        return [profiler(name) for profiler in self.profilers]


def found_profilers() -> list[Profiler]:
    """What can record ranges now: record_function, and one of NVTX and roctx."""
    profilers: list[Profiler] = []
    torch = sys.modules.get("torch")
    record = getattr(getattr(getattr(torch, "autograd", None), "profiler", None), "record_function", None)
    if record is not None:

        def in_torch(name: str) -> Close:
            entered = record(name)
            entered.__enter__()
            return lambda: entered.__exit__(None, None, None)

        profilers.append(in_torch)
    for seek in (_nvtx, _roctx, _torch_nvtx):
        if (pair := seek()) is not None:
            profilers.append(_pushed(*pair))
            break
    return profilers


def _pushed(push: Callable[[str], Any], pop: Close) -> Profiler:
    def profiler(name: str) -> Close:
        push(name)
        return pop

    return profiler


def _nvtx() -> tuple[Callable[[str], Any], Close] | None:
    """NVIDIA's own package."""
    module = _imported("nvtx")
    return (module.push_range, module.pop_range) if module and hasattr(module, "push_range") else None


def _roctx() -> tuple[Callable[[str], Any], Close] | None:
    """ROCm's package (rocm.docs.amd.com, rocprofiler-sdk, using ROCTx in Python)."""
    module = _imported("roctx")
    return (module.rangePush, module.rangePop) if module and hasattr(module, "rangePush") else None


def _torch_nvtx() -> tuple[Callable[[str], Any], Close] | None:
    """PyTorch's, which is roctx where PyTorch is built for ROCm; builds for the CPU have none."""
    nvtx = getattr(getattr(sys.modules.get("torch"), "cuda", None), "nvtx", None)
    if nvtx is None or getattr(sys.modules["torch"], "version", None) is None:
        return None
    version = sys.modules["torch"].version
    if not (getattr(version, "cuda", None) or getattr(version, "hip", None)):
        return None
    return nvtx.range_push, nvtx.range_pop


def _imported(name: str) -> Any:
    """A small package, or None where it is not here or does not load (as roctx without ROCm's library)."""
    try:
        return importlib.import_module(name)
    except Exception:
        return None


def from_environment() -> Marker:
    """The marker with the level of HOTLAP_MARKERS. A wrong one stops no program: it is said once, and markers are off."""
    wanted = os.environ.get(VARIABLE, "off").strip().lower() or "off"
    if wanted not in LEVELS:
        warnings.warn(f"{VARIABLE}={wanted}: there is no such level of markers; valid: {', '.join(LEVELS)}; they are off", stacklevel=2)
        wanted = "off"
    return Marker(wanted)


marker = from_environment()

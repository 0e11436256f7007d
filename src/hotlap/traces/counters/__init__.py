"""Counters of kernels: what Nsight Compute and ROCm Compute Profiler measured, what bounds each kernel, what could be gained."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, cast

from hotlap.core.errors import InputError
from hotlap.traces.counters import ncu_csv, ncu_report, rocprof_compute
from hotlap.traces.counters.kernel import KernelProfile
from hotlap.traces.readers import packed


class CounterReader(Protocol):
    """One file format. A module with these names is one."""

    NAME: str
    ABOUT: str

    def sniff(self, path: Path, head: bytes) -> bool:
        """Whether this looks like its format; `head` is the beginning of the file, unpacked."""

    def read(self, path: Path) -> KernelProfile:
        """The kernels of a file. Raises InputError where it is not usable."""


READERS = cast(list[CounterReader], [ncu_report, ncu_csv, rocprof_compute])


def find(path: Path, head: bytes) -> CounterReader | None:
    """The first reader that recognises a file."""
    return next((one for one in READERS if one.sniff(path, head)), None)


def read(path: Path) -> KernelProfile:
    """Kernels with their counters, of any file that a reader knows. Raises InputError for all else."""
    try:
        if not path.stat().st_size:
            raise InputError(f"'{path}' is empty")
        head = packed.head(path)
    except OSError as error:
        raise InputError(f"'{path}' cannot be read: {error.strerror}") from None
    reader = find(path, head)
    if reader is None:
        raise InputError(f"'{path}' holds no counters that Hotlap knows; it reads {'; '.join(one.ABOUT for one in READERS)}")
    return reader.read(path)

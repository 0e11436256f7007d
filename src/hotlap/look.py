"""A part of the grammar in `record`, which is read first: how busy a machine was before a run, and the base of all records."""

from __future__ import annotations

from typing import Literal

import msgspec


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all that is kept: frozen, keywords only, unknown keys of a later minor version are ignored."""


class RunningProcess(Record, frozen=True, kw_only=True):
    """A process of somebody else's, and what it took of the processor."""

    name: str  # as the kernel keeps it: 15 characters
    pid: int
    cores: float  # kept busy, on average


class Look(Record, frozen=True, kw_only=True):
    """How busy the machine was just before a run, with others' work alone. Shares are of 1; None: not to be seen here, see `missing`."""

    seconds: float  # how long was looked
    kind: Literal["gpu", "cpu", "other"] = "cpu"  # of the devices to be measured
    cores: int | None = None  # logical ones
    others_share: float | None = None  # of all cores' time, used by other processes
    steal_share: float | None = None  # of all cores' time, taken by the hypervisor for others
    pressure_share: float | None = None  # of the time, in which some task waited for a processor
    runnable: float | None = None  # tasks of others that ran or waited for a processor, on average
    load: float | None = None  # the system's own average over a minute
    busiest: list[RunningProcess] = []  # at most two, the busiest first
    processes: int | None = None  # of others on the devices, where they are GPUs
    device_share: float | None = None  # of the time, in which others kept the devices busy
    missing: dict[str, str] = {}  # what could not be looked at, and why

"""A part of the grammar in `record`, which is read first: the machine, how busy it was before a run, what its sensors showed."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all that is kept: frozen, keywords only, unknown keys of a later minor version are ignored."""


class Device(Record, frozen=True, kw_only=True):
    """One accelerator as one target sees it. `key` names it for ever: the UUID where there is one."""

    target: str  # which target drives it: opencl, cuda, torch, simulated
    index: int  # place in the target's own order; never used to recognise a device again
    name: str  # as the driver reports it
    kind: Literal["gpu", "cpu", "other"]
    vendor: str = ""
    uuid: str = ""
    serial: str = ""
    pci_address: str = ""  # domain:bus:device.function
    pci_id: str = ""  # vendor:device, hex, as in 10de:2335
    driver: str = ""  # name and version
    memory_bytes: int | None = None
    compute_units: int | None = None  # SMs, CUs, Xe cores, or CPU cores
    clock_max_hz: float | None = None  # as reported by the driver; may be a base clock on CPUs
    cache_bytes: int | None = None  # last level, shared
    machine: str = ""  # slug in the machine table, once recognised
    facts: dict[str, Any] = {}  # what else the target knows; names end in units

    @property
    def key(self) -> str:
        return self.uuid or f"{self.target}:{self.index}:{self.name}"

    @property
    def model(self) -> str:
        """What devices of one kind share: the machine table's name, else the driver's, with the memory that tells variants apart."""
        if self.machine:
            return self.machine
        return f"{self.name} {self.memory_bytes // 2**30} GiB" if self.memory_bytes and self.kind == "gpu" else self.name

    @property
    def selector(self) -> str:
        """What a user types to get it: `target:index`."""
        return f"{self.target}:{self.index}"

    @property
    def stand_in(self) -> bool:
        """Whether it only plays a GPU, in tests: `core.stand_in` marks it, and decides what is done with it."""
        return bool(self.facts.get("stand_in"))

    @property
    def shown(self) -> str:
        """The selector in tables, which says what is no GPU."""
        return f"{self.selector} (stand-in)" if self.stand_in else self.selector


class Cpu(Record, frozen=True, kw_only=True):
    """The host's processor, as it reports itself."""

    name: str = ""
    vendor: str = ""
    family: int | None = None
    model: int | None = None
    cores: int | None = None
    threads: int | None = None
    flags: list[str] = []  # only those that matter for arithmetic: avx2, avx512f, fma, amx_bf16 …
    clock_max_hz: float | None = None
    cache_bytes: dict[str, int] = {}  # per level: l1d, l2, l3; one instance's size


class Machine(Record, frozen=True, kw_only=True):
    """The fingerprint of where: host, processor, devices, software, settings."""

    host: str
    os: str = ""
    kernel: str = ""
    virtual: str = ""  # hypervisor or container, "" unknown
    cpu: Cpu = Cpu()
    memory_bytes: int | None = None
    devices: list[Device] = []
    software: dict[str, str] = {}  # package or library → version
    settings: dict[str, str] = {}  # environment variables and kernel settings that change speed


class MachineClass(Record, frozen=True, kw_only=True):
    """What machines share whose times are compared although their hosts have other names, as CI runners do."""

    cpu: str = ""  # as the processor names itself
    logical_cores: int | None = None
    device: str = ""  # Device.model
    os: str = ""  # with its release

    @property
    def text(self) -> str:
        cores = f"{self.logical_cores} logical cores" if self.logical_cores else ""
        return ", ".join(dict.fromkeys(part for part in (self.cpu, cores, self.device, self.os) if part))


def machine_class(machine: Machine, device: Device | None) -> MachineClass:
    """Of one device of a machine."""
    return MachineClass(
        cpu=machine.cpu.name, logical_cores=machine.cpu.threads, device=device.model if device else "", os=machine.os or machine.kernel,
    )


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


class Reading(Record, frozen=True, kw_only=True):
    """One sensor at one time: a value, or *not_supported*, or *error* — never a zero that means "missing"."""

    sensor: str  # power_w, temperature_c, clock_hz … with the part where there are several: temperature_c.memory
    device: str  # Device.key, or "host"
    time_s: float  # the target's clock
    value: float | None = None
    status: Literal["ok", "not_supported", "error"] = "ok"
    reason: str = ""
    sensor_s: float | None = None  # the sensor's own time, UNIX; None where it has none
    window_s: float | None = None  # over which the value is an average; 0 instantaneous, None unknown


class Readings(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A stretch of one sensor's readings in columns: one line of readings.log. A sensor that is not supported is written once."""

    sensor: str
    device: str
    times_s: list[float] = []
    values: list[float | None] = []  # null where a reading failed
    status: Literal["ok", "not_supported", "error"] = "ok"
    reason: str = ""
    round: int = 0
    window_s: float | None = None  # over which each value is an average; 0 instantaneous, None unknown
    sensor_times_s: list[float | None] = []  # the sensor's own time of each value, UNIX; empty where it has none


class Difference(Record, frozen=True, kw_only=True):
    """One fact in which two environments differ."""

    name: str  # driver, kernel, software.torch, settings.governor, device.power_limit_w …
    a: str  # values that occur on the side, with commas; "" is not known
    b: str
    matters: Literal["yes", "no", "unknown"]  # unknown is treated as yes
    moves: list[str] = []  # metrics that it can move: bandwidth, compute, latency, rate, time; empty is any

"""The real clock of an x86-64 core without counters: a chain of dependent 64-bit multiplications, 3 cycles each.

`imul r64, r64` has a latency of 3 cycles on Intel's performance cores since Nehalem and on AMD's since Zen 2 (A. Fog,
"Instruction tables"; A. Abel and J. Reineke, uops.info, ASPLOS 2019). Additions will not do: newer cores fold a chain of them,
and it then reads several times the true clock. Small cores (Atom, the efficiency cores of hybrid processors) take 4 or 5
cycles, so the 3 are checked against a chain of rotations, 1 cycle each, before anything is said.

Preemption, interrupts and a rising clock only ever make a chain longer: the shortest of a few is the best answer.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import platform
import struct
from collections.abc import Callable, Sequence

from hotlap.core.errors import Unavailable
from hotlap.core.measure.sensors.base import SensorSource
from hotlap.core.measure.sensors.gauge import SensorProbe, read_all
from hotlap.core.measure.targets.base import Clock, SystemClock
from hotlap.core.record import Reading

LINKS, TURNS = 32, 10_000  # links of a turn, turns of a chain: about 0.3 ms
LATENCY_CYCLES = 3
TOLERANCE = 0.08  # of the ratio of the two chains; the nearest wrong latency is 33 % away
MULTIPLY = b"\x48\x0f\xaf\xc0"  # imul rax, rax
ROTATE = b"\x48\xc1\xc0\x07"  # rol rax, 7

Chain = Callable[[int, int], int]


def measure(clock: Clock, repeats: int = 5) -> float | None:
    """Hz of the core that the calling thread runs on, by the fastest of `repeats` chains; None where `why_not` says why."""
    if why_not():
        return None
    best = min(_times(clock.now, _chains()[0], repeats))
    return TURNS * LINKS * LATENCY_CYCLES / best if best > 0 else None  # a clock that stands still, as a virtual one does


def of_cores(clock: Clock, cores: Sequence[int], repeats: int = 3) -> float | None:
    """Mean Hz of these cores, by chains that the calling thread runs on each in turn: right after a load its cores still have the
    clock they had under it. The core it runs on where none is named; None where `why_not` says why, or affinity cannot be set."""
    if not cores or not hasattr(os, "sched_setaffinity"):
        return measure(clock, repeats)
    allowed = os.sched_getaffinity(0)
    clocks_hz: list[float] = []
    try:
        for core in cores:
            os.sched_setaffinity(0, {core})
            if (hz := measure(clock, repeats)) is not None:
                clocks_hz.append(hz)
    except OSError:  # a core that this process may not use
        pass
    finally:
        os.sched_setaffinity(0, allowed)
    return sum(clocks_hz) / len(clocks_hz) if clocks_hz else None


@functools.cache
def why_not() -> str:
    """Why the clock cannot be measured here; "" when it can. The first call takes about 2 ms."""
    machine = platform.machine()
    if machine.lower() not in ("x86_64", "amd64"):
        return f"the chain is machine code for x86-64, and this is {machine or 'an unknown processor'}"
    if platform.system() != "Linux":
        return f"executable memory is asked for in Linux's way, and this is {platform.system() or 'an unknown system'}"
    try:
        multiply, rotate = _chains()
    except Unavailable as error:
        return str(error)
    return _doubt(lambda: _ratio(SystemClock.now, multiply, rotate))


def source(clock: Clock) -> SensorSource:
    """The clock as a sensor, for whoever wants it: one reading costs about 1 ms of a core."""
    return CoreClock(clock)


class CoreClock:
    """The host's core clock, measured anew at every reading."""

    name, device = "cpu_clock", "host"

    def __init__(self, clock: Clock) -> None:
        self.gauges = [SensorProbe("clock_hz.core", lambda _: self._hz(clock), why_not())]

    def names(self) -> Sequence[str]:
        return [gauge.name for gauge in self.gauges]

    def read(self, time_s: float) -> list[Reading]:
        return read_all(self.gauges, self.device, time_s)

    @staticmethod
    def _hz(clock: Clock) -> float:
        hz = measure(clock)
        if hz is None:
            raise Unavailable("the clock given does not move", "give it the target's real clock")
        return hz


def _doubt(ratio: Callable[[], float]) -> str:
    """The reason to distrust the 3 cycles, from the ratio of the two chains; a noisy machine gets three tries."""
    seen = [ratio()]
    while abs(seen[-1] / LATENCY_CYCLES - 1) > TOLERANCE:
        if len(seen) == 3:
            return f"a multiplication takes {min(seen):.2f} times as long as a rotation on this core, not {LATENCY_CYCLES}"
        seen.append(ratio())
    return ""


def _ratio(now: Callable[[], float], multiply: Chain, rotate: Chain) -> float:
    """Interleaved, so that both chains see the same clock of a core whose clock moves."""
    pairs = [(_seconds(now, multiply), _seconds(now, rotate)) for _ in range(5)]
    return min(m for m, _ in pairs) / min(r for _, r in pairs)


def _times(now: Callable[[], float], chain: Chain, repeats: int) -> list[float]:
    return [_seconds(now, chain) for _ in range(max(repeats, 1))]


def _seconds(now: Callable[[], float], chain: Chain) -> float:
    began = now()
    chain(TURNS, 3)
    return now() - began


@functools.cache
def _chains() -> tuple[Chain, Chain]:
    """The two chains as functions of turns and a first value. Raises Unavailable where memory may not be executable."""
    codes = [_code(MULTIPLY), _code(ROTATE)]
    try:
        memory = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError as error:
        raise Unavailable(f"the system refuses executable memory ({error.strerror})", "allow it, as with SELinux's execmem") from error
    memory.write(b"".join(codes))
    _kept.append(memory)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    kind = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)  # ctypes lets other threads run during a call
    return kind(base), kind(base + len(codes[0]))


_kept: list[mmap.mmap] = []  # code must outlive the functions that point to it


def _code(link: bytes) -> bytes:
    """System V calling convention: turns in rdi, first value in rsi, result in rax."""
    body = link * LINKS + b"\x48\xff\xcf"  # … ; dec rdi
    back = struct.pack("<i", -(len(body) + 6))  # from behind the jump to the first link
    return b"\x48\x89\xf0" + body + b"\x0f\x85" + back + b"\xc3"  # mov rax, rsi; links; jnz; ret

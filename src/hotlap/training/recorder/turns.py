"""Two programs that are compared run in turns, each for a stretch of steps. Runs within the measured program.

A machine shared with others is faster now and slower a second later. A program that runs alone for seconds gets one such time, and the
other program another; short stretches in turns get the same. Whoever has no turn waits here, between two steps.
"""

from __future__ import annotations

import ctypes
import glob
import os
import struct
import time

STEPS, SECONDS = 5, 0.02  # of a stretch, at least
BESIDE, BESIDE_S = 0.1, 0.01  # processor time while it waits, as a share and at most, beyond which the program works on without its steps
WORD = struct.Struct("<ci")  # whose turn it is, and the core on which the last stretch ran; -1: not known
DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri", "/dev/accel", "/dev/dxg")


class Turn:
    """`file`: a socket to Hotlap, which passes the turn on."""

    def __init__(self, file: int) -> None:
        self.file, self.steps, self.began, self.waited_s = file, 0, 0.0, 0.0
        self.follows = len(glob.glob("/sys/devices/system/node/node[0-9]*")) <= 1  # else its memory may be nearer to other cores

    def is_over(self) -> bool:
        """Asked after each step."""
        now = time.perf_counter()
        self.began = self.began or now
        self.steps += 1
        return self.steps >= STEPS and now - self.began >= SECONDS

    def wait(self, threads: int) -> bool:
        """Until the next turn; whether there are more to wait for: not where the other program has ended, and not where this one works on
        while it waits, as one with threads of its own. A program of one thread goes on where the other one ran, for cores differ too."""
        began, worked = time.perf_counter(), time.process_time()
        answer, core = b"", -1
        try:
            os.write(self.file, WORD.pack(b"y", _core()))
            answer, core = WORD.unpack(os.read(self.file, WORD.size))
        except (OSError, struct.error):
            pass
        if self.follows and threads == 1:
            _move(core)
        worked, self.began = time.process_time() - worked, time.perf_counter()
        self.waited_s, self.steps = self.began - began, 0
        return answer == b"g" and worked <= max(BESIDE_S, BESIDE * self.waited_s)


def uses_device() -> bool:
    """Whether this process has opened an accelerator: that works on while its program waits, and may not hold two programs' memory."""
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:
        return False
    return any(_opened(name).startswith(DEVICES) for name in names)


def _opened(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{name}")
    except OSError:  # closed meanwhile, as that of the list itself
        return ""


def _core() -> int:
    try:
        return int(ctypes.CDLL(None).sched_getcpu())
    except (AttributeError, OSError, TypeError):  # elsewhere than on Linux
        return -1


def _move(core: int) -> None:
    """This thread to a core, without binding it there."""
    try:
        allowed = os.sched_getaffinity(0)
        if core in allowed:
            os.sched_setaffinity(0, {core})
            os.sched_setaffinity(0, allowed)
    except (AttributeError, OSError):
        pass

"""Waiting for absolute times on CLOCK_MONOTONIC, finer than asyncio, whose timers are rounded up to a millisecond.

Linux wakes the event loop by a timerfd; elsewhere the last two milliseconds are spent in turns of the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import heapq
import os
import sys
import time
from itertools import count

SPUN_S = 0.002
_CLOCK_MONOTONIC, _FLAGS, _ABSOLUTE = 1, os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0), 1


class _Specification(ctypes.Structure):
    _fields_ = [("every_s", ctypes.c_long), ("every_ns", ctypes.c_long), ("s", ctypes.c_long), ("ns", ctypes.c_long)]


class Deadlines:
    """Those of one event loop."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._number, self._armed_s = count(), 0.0
        self._library = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
        self._timer = self._library.timerfd_create(_CLOCK_MONOTONIC, _FLAGS) if self._library else -1
        if self._timer >= 0:
            asyncio.get_running_loop().add_reader(self._timer, self._rung)

    async def wait(self, time_s: float) -> None:
        """Returns at `time_s` of time.monotonic, at once where that has passed."""
        if time_s <= time.monotonic():
            return
        if self._timer < 0:
            await asyncio.sleep(time_s - SPUN_S - time.monotonic())
            while time.monotonic() < time_s:
                await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (time_s, next(self._number), future))
        self._arm()
        await future

    def _arm(self) -> None:
        if not self._waiting or self._waiting[0][0] == self._armed_s:
            return
        self._armed_s = self._waiting[0][0]
        whole = max(int(self._armed_s * 1e9), 1)
        when = _Specification(0, 0, whole // 10**9, whole % 10**9)
        assert self._library is not None
        self._library.timerfd_settime(self._timer, _ABSOLUTE, ctypes.byref(when), None)

    def _rung(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._timer, 8)
        self._armed_s = 0.0
        now_s = time.monotonic() + 2e-6  # the timer is set in whole nanoseconds
        while self._waiting and self._waiting[0][0] <= now_s:
            future = heapq.heappop(self._waiting)[2]
            if not future.done():
                future.set_result(None)
        self._arm()

    def close(self) -> None:
        if self._timer >= 0:
            asyncio.get_running_loop().remove_reader(self._timer)
            os.close(self._timer)
            self._timer = -1

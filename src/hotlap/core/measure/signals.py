"""What Ctrl-C and SIGTERM do while something goes on that must be kept."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def caught(handle: Callable[[int], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM call `handle` with their number; elsewhere than in the main thread nothing is changed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handler(number: int, _frame: FrameType | None) -> None:
        handle(number)

    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def stopping(stop: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C or SIGTERM calls `stop`, the next raises KeyboardInterrupt."""
    count = 0

    def handle(_number: int) -> None:
        nonlocal count
        count += 1
        if count > 1:
            raise KeyboardInterrupt
        stop()

    with caught(handle):
        yield


@contextmanager
def as_interrupted() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt, as Ctrl-C does; elsewhere than in the main thread nothing is changed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def held_back() -> Iterator[None]:
    """Ctrl-C and SIGTERM wait until the end of this, so that what it does is done whole; for a moment, never for a measurement."""
    waiting: list[int] = []  # a mask would not do: it is the thread's, and another thread takes the signal
    try:
        with caught(waiting.append):
            yield
    finally:
        for number in waiting:
            signal.raise_signal(number)

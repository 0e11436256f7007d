"""The process that sets clocks and caps, and puts everything back when whoever asked ends, in whatever way.

It reads a line for each setting from standard input and answers each with one. The end of its input, which comes when the other process
exits, is interrupted, crashes or is killed, restores what stood before and ends it. It ignores the signals that end programs, and has a
session of its own. What stood before lies in a file until it is restored, so that even the end of both at once can be mended.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from pathlib import Path
from typing import BinaryIO

import msgspec

from hotlap.core.errors import HotlapError, MachineError
from hotlap.core.record import Device
from hotlap.core.store import files
from hotlap.tuning.power_settings import Bounds, Settings

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGPIPE")


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """A setting; None leaves it, and restores it where it was changed before."""

    clock_hz: float | None = None
    power_w: float | None = None


class GuardBegin(msgspec.Struct, frozen=True, kw_only=True):
    """The first line."""

    device: Device
    note: str  # file that remembers what stood before


class GuardAnswer(msgspec.Struct, frozen=True, kw_only=True):
    problem: str = ""


class GuardNote(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be put back."""

    device: Device
    power_w: float | None = None
    clock_changed: bool = False
    power_changed: bool = False


class NvmlGuard:
    """Sets, and remembers what stood before."""

    def __init__(self, begin: GuardBegin) -> None:
        self.settings, self.path = Settings(begin.device), Path(begin.note)
        self.before: Bounds = self.settings.bounds()
        self.note = GuardNote(device=begin.device, power_w=self.before.power_w)

    def set(self, wish: Wish) -> None:
        """The note is written before the setting: a change without a note cannot be."""
        clock, power = wish.clock_hz is not None, wish.power_w is not None
        was = self.note
        if power and was.power_w is None:
            said = "the driver does not say what power cap stands, so it could not be put back: none is set"
            raise MachineError(f"{was.device.name}: {said}")
        self._remember(clock or was.clock_changed, power or was.power_changed)
        try:
            if wish.clock_hz is not None:
                self.settings.set_clock(wish.clock_hz)
            elif was.clock_changed:
                self.settings.free_clock()
        except HotlapError:
            self._remember(was.clock_changed, was.power_changed)  # refused: nothing of this wish stands
            raise
        try:
            if wish.power_w is not None:
                self.settings.set_power(wish.power_w)
            elif was.power_changed and was.power_w is not None:
                self.settings.set_power(was.power_w)
        except HotlapError:
            self._remember(clock or was.clock_changed, was.power_changed)
            raise

    def restore(self) -> None:
        restore(self.note, self.settings)
        with contextlib.suppress(OSError):
            self.path.unlink()

    def _remember(self, clock: bool, power: bool) -> None:
        self.note = msgspec.structs.replace(self.note, clock_changed=clock, power_changed=power)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        files.write_whole(self.path, msgspec.json.encode(self.note))


def restore(note: GuardNote, settings: Settings) -> None:
    """Both are tried, whatever becomes of the first. Raises the first error."""
    problem: HotlapError | None = None
    for wanted, act in (
        (note.clock_changed, settings.free_clock),
        (note.power_changed and note.power_w is not None, lambda: settings.set_power(note.power_w or 0.0)),
    ):
        if wanted:
            try:
                act()
            except HotlapError as error:
                problem = problem or error
    if problem:
        raise problem


def left(path: Path) -> GuardNote | None:
    """What a run that could not restore has left."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=GuardNote)
    except (OSError, msgspec.DecodeError):
        return None


def mend(path: Path) -> bool:
    """Restores what was left, if anything. Raises MachineError where that fails."""
    note = left(path)
    if note is None:
        return False
    restore(note, Settings(note.device))
    path.unlink()
    return True


def main(source: BinaryIO, out: BinaryIO) -> int:
    for name in SIGNALS:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    guard: NvmlGuard | None = None
    code = 0
    try:
        for line in source:
            problem = ""
            try:
                if guard is None:
                    guard = NvmlGuard(msgspec.json.decode(line, type=GuardBegin))
                else:
                    guard.set(msgspec.json.decode(line, type=Wish))
            except (HotlapError, OSError) as error:
                problem = str(error)
            with contextlib.suppress(OSError):
                out.write(msgspec.json.encode(GuardAnswer(problem=problem)) + b"\n")
                out.flush()
    finally:
        if guard is not None:
            try:
                guard.restore()
            except HotlapError as error:
                print(f"hotlap: {error}", file=sys.stderr)
                code = 3
    return code


if __name__ == "__main__":
    sys.exit(main(sys.stdin.buffer, sys.stdout.buffer))

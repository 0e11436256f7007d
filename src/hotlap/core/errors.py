"""Everything that can go wrong, as one tree. The command line turns each branch into one line and one exit code.

    HotlapError
    ├── InputError          exit 2   what the user asked is wrong: a plan, a selector, a parameter, a file
    │   ├── PlanError                with file and line
    │   ├── NotModelled              a workload of which the model expects nothing
    │   └── SchemaError              a bundle or catalog that is not one, or of a newer schema
    ├── MachineError        exit 3   the machine cannot do it: disk, driver, device, a lock held by another run
    │   ├── Unavailable              a target, sensor or device that is not here: the reason and what would mend it
    │   └── Busy                     a device locked by another run, with the owner's pid
    ├── NotSupported        a case this target or device cannot run: becomes `not_run` with its reason, never a crash
    │   └── DoesNotCompile           its source is refused by the compiler; of a user's kernel that is an error
    └── Interrupted         exit 130 Ctrl-C or SIGTERM; everything measured so far is kept

A message says what, where, what is valid and what to do next, in one line.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class HotlapError(Exception):
    """Base of all; `exit_code` is what the command line returns; `reason` is the message alone, without `advice` and `about`."""

    exit_code = 3

    def __init__(self, message: str = "", advice: str = "", about: str = "") -> None:
        super().__init__(f"{about}{message}; {advice}" if advice else f"{about}{message}")
        self.reason = message


class InputError(HotlapError, ValueError):
    """What the user asked is wrong. A ValueError too, which is what callers from Python expect."""

    exit_code = 2


class NotModelled(InputError):
    """The model expects nothing of this workload at all."""


class PlanError(InputError):
    """A plan is wrong; `where` is `file:line` when it is known."""

    def __init__(self, message: str, where: str = "") -> None:
        super().__init__(f"{where}: {message}" if where else message)
        self.where = where


class SchemaError(InputError):
    """A file is not what it should be, or was written by a newer Hotlap."""


class MachineError(HotlapError):
    """The machine cannot do what was asked."""

    exit_code = 3


class Unavailable(MachineError):
    """A target, sensor or device that cannot be used here: why, and what would make it usable."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason, remedy)
        self.remedy = remedy


class Busy(MachineError):
    """Another run holds the device."""


class NotSupported(HotlapError):
    """This target or device cannot run the case; the message is the reason kept with it."""


class DoesNotCompile(NotSupported):
    """The compiler refuses the source; the message has its first error."""


class Interrupted(HotlapError):
    """Ctrl-C or SIGTERM: what was measured is kept."""

    exit_code = 130


MOST = 20  # names that are listed
HINT = "did you mean"


def nearest(word: str, valid: Iterable[str], most: int = MOST) -> str:
    """A hint that ends a message: the closest valid name, then what is valid, numbers by their size, and how many are left out. Empty
    string when nothing is valid."""
    names = _by_size(set(valid))
    close = closest(word, names)
    hint = f"{HINT} '{close}'? " if close else ""
    more = f" … and {len(names) - most} more" if len(names) > most + 1 else ""
    return f"{hint}valid: {', '.join(names[:most] if more else names)}{more}" if names else ""


def closest(word: str, valid: Iterable[str]) -> str:
    """The valid name that a word is a slip of, or of what the name begins with, as h2000 of h200-sxm; "" where none is close."""
    scored = [(max(_alike(word, name), 0.95 * _alike(word, name.split("-")[0])), name) for name in valid]
    score, name = max(scored, default=(0.0, ""), key=lambda pair: (pair[0], -len(pair[1]), pair[1]))
    return name if score >= 0.6 else ""


def _alike(word: str, name: str) -> float:
    """Share of equal letters, whether large or small."""
    return difflib.SequenceMatcher(None, name.lower(), word.lower()).ratio()


def _by_size(names: Iterable[str]) -> list[str]:
    """9 before 14, if all are numbers."""
    try:
        return sorted(names, key=float)
    except ValueError:
        return sorted(names)

"""The calls of Linux that Python 3.11 has no function for: namespaces, mounts, a death signal."""

from __future__ import annotations

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)
NEWNS, NEWUTS, NEWIPC, NEWPID, NEWNET = 0x0002_0000, 0x0400_0000, 0x0800_0000, 0x2000_0000, 0x4000_0000
ALL = NEWNS | NEWUTS | NEWIPC | NEWPID | NEWNET
READ_ONLY, BIND, MOVE, RECURSIVE, PRIVATE = 1, 0x1000, 0x2000, 0x4000, 1 << 18
PR_SET_PDEATHSIG = 1


def unshare(flags: int) -> None:
    _checked(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    done = _libc.mount(source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), options.encode() or None)
    _checked(done, f"mount of {kind or source} on {target}")


def die_with_parent(number: int) -> None:
    """This process gets the signal when the thread that made it ends."""
    _checked(_libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(number), 0, 0, 0), "prctl")


def sethostname(name: str) -> None:
    _checked(_libc.sethostname(name.encode(), ctypes.c_size_t(len(name.encode()))), "sethostname")


def _checked(result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")

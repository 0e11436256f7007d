"""Zips on a member: what a step leaves is packed; of the wheels that the controller offers those that fit are unpacked. Sent with the
agent, so it needs the standard library only, of Python 3.9 or later.

Names and tags of wheels are those of the binary distribution format (packaging.python.org, PEP 427, 425, 600).
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import sys
import tempfile
import zipfile
from typing import Any

LEAST = (3, 11)  # of Python, for plans
SPARE_BYTES = 8 << 20  # that stay free beside the unpacked wheels
_OLD = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}


class UnfitError(Exception):
    """Why plans cannot run on this member."""


def suits(name: str, version: tuple[int, int], machine: str, glibc: tuple[int, int]) -> tuple[int, ...]:
    """How well a wheel suits a Python, higher is better; () where it does not. `glibc` is (0, 0) where the C library is another."""
    best: tuple[int, ...] = ()
    parts = name[: -len(".whl")].split("-") if name.endswith(".whl") else []
    if len(parts) not in (5, 6):
        return ()
    for python in parts[-3].split("."):
        for abi in parts[-2].split("."):
            for place in parts[-1].split("."):
                own, there = _python(python, abi, version), _platform(place, machine, glibc)
                if own and there:
                    best = max(best, (*own, *there))
    return best


def _python(tag: str, abi: str, version: tuple[int, int]) -> tuple[int, ...]:
    match = re.fullmatch(r"(cp|py)(\d)(\d*)", tag)
    if not match:
        return ()
    major, minor = int(match[2]), int(match[3] or 0)
    if (major, minor) == version and match[1] == "cp" and abi in (tag, "abi3", "none"):
        return 3, minor
    if major != version[0] or minor > version[1]:
        return ()
    if match[1] == "cp":
        return (2, minor) if abi == "abi3" else ()
    return (1, minor) if abi == "none" else ()


def _platform(tag: str, machine: str, glibc: tuple[int, int]) -> tuple[int, ...]:
    if tag == "any":
        return 1, 0
    kind, _, rest = tag.partition("_")
    if kind in _OLD and rest == machine and _OLD[kind] <= glibc:
        return 2, _OLD[kind][1]
    match = re.fullmatch(r"(manylinux|musllinux)_(\d+)_(\d+)_(.+)", tag)
    if match and match[4] == machine:
        if match[1] == "musllinux":
            return (2, 0) if glibc == (0, 0) else ()
        return (2, int(match[3])) if (int(match[2]), int(match[3])) <= glibc else ()
    return (1, 1) if tag == f"linux_{machine}" else ()


def c_library() -> tuple[int, int]:
    """The version of glibc; (0, 0): another."""
    try:
        match = re.match(r"glibc (\d+)\.(\d+)", os.confstr("CS_GNU_LIBC_VERSION") or "")
    except (ValueError, OSError, AttributeError):
        match = None
    return (int(match[1]), int(match[2])) if match else (0, 0)


def chosen(files: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each distribution the wheel that suits this Python best, those of --wheels before those that were made. Raises UnfitError where
    one that is needed has none."""
    version, machine, glibc = sys.version_info[:2], platform.machine(), c_library()
    if version < LEAST:
        raise UnfitError(f"Python {version[0]}.{version[1]} is there, plans need {LEAST[0]}.{LEAST[1]}: name another by --python")
    best: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {}
    names = set()
    for file in files:
        name = re.sub(r"[-_.]+", "-", file["name"].split("-")[0]).lower()
        if file["needed"]:
            names.add(name)
        fit = suits(file["name"], version, machine, glibc)
        fit = (not file["needed"], *fit) if fit else ()
        if fit and (name not in best or fit > best[name][0]):
            best[name] = fit, file
    lacking = sorted(names - best.keys())
    if lacking:
        where = f"Python {version[0]}.{version[1]}, {machine}, " + ("glibc {}.{}".format(*glibc) if glibc[0] else "no glibc")
        raise UnfitError(f"no wheel of {', '.join(lacking)} that is sent fits {where}: put one into a folder for --wheels")
    return [best[name][1] for name in sorted(best)]


def place(files: list[dict[str, Any]], work: str) -> str:
    """The folder that holds these wheels unpacked, or will: of the home's cache, or in `work` where no home can be written or has room.
    `work`: where the wheels come to. Raises UnfitError where there is no room."""
    home, own = cache(files, work), cache(files, work, True)
    if os.path.isdir(home):
        return home
    sent, unpacked = (sum(file[name] for file in files) for name in ("size", "unpacked"))
    lacks = []
    for folder in dict.fromkeys((home, own)):
        base = os.path.dirname(folder)
        together = os.stat(base).st_dev == os.stat(work).st_dev
        needs = {base: unpacked + sent + SPARE_BYTES} if together else {base: unpacked + SPARE_BYTES, work: sent + SPARE_BYTES}
        room = {at: shutil.disk_usage(at).free for at in needs}
        if all(room[at] >= need for at, need in needs.items()):
            return folder
        named = {work: os.path.dirname(work)}  # an agent's own folder says nothing
        lacks += [
            f"{named.get(at, at)} has {room[at] / 1e6:.0f} MB free and needs {need / 1e6:.0f} MB"
            for at, need in needs.items() if room[at] < need
        ]
    raise UnfitError(f"no room to unpack Hotlap: {'; '.join(lacks)}; make room there")


def cache(files: list[dict[str, Any]], otherwise: str, own: bool = False) -> str:
    """The folder that holds these wheels unpacked, or will; in `otherwise` where no home can be written, or `own` asks for that."""
    text = " ".join(sorted(file["digest"] for file in files))
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    base = os.path.join(base, "hotlap-agent")
    try:
        if own:
            raise OSError
        os.makedirs(base, exist_ok=True)
        with tempfile.TemporaryFile(dir=base):
            pass
    except OSError:
        base = otherwise
    return os.path.join(base, hashlib.sha256(text.encode()).hexdigest()[:20])


def unpack(wheels: list[str], folder: str) -> None:
    """Wheels into a new folder, which appears whole. Raises UnfitError for what is no wheel, OSError."""
    beside = tempfile.mkdtemp(prefix=".unpacking-", dir=os.path.dirname(folder))
    try:
        for path in wheels:
            try:
                with zipfile.ZipFile(path) as archive:
                    archive.extractall(beside)  # it leaves names within the folder
            except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
                raise UnfitError(f"{os.path.basename(path)} is no wheel: {error}") from None
        for name in [name for name in os.listdir(beside) if name.endswith(".data")]:
            for part in ("purelib", "platlib"):
                inside = os.path.join(beside, name, part)
                if os.path.isdir(inside):
                    shutil.copytree(inside, beside, dirs_exist_ok=True)
        try:
            os.rename(beside, folder)
        except OSError:
            if not os.path.isdir(folder):  # another agent of this machine was first
                raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def pack(path: str, result: dict[str, Any], runs: str, limit: int) -> None:
    """bundle.zip: result.json, and the run that the step kept under `run/`, where it kept one; of files at most `limit` bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("result.json", json.dumps(result))
        kept = sorted(name for name in (os.listdir(runs) if os.path.isdir(runs) else []) if not name.startswith("."))
        if not kept:
            return
        folder, total = os.path.join(runs, kept[-1]), 0
        for name in sorted(os.listdir(folder)):
            file = os.path.join(folder, name)
            total += os.path.getsize(file)
            if os.path.isfile(file) and not os.path.islink(file) and total <= limit:
                archive.write(file, "run/" + name)

"""Builds the stand-in's library, keeps it and the kernels that it compiles in a cache, and turns it on and off.

    from cuda_stand_in import build
    with build.on(devices=2): ...   # this process and those it starts see two devices
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = ("device.c", "memory.c", "stream.c", "graph.c", "module.c")
FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libcuda.so.1")


@functools.cache
def missing() -> str:
    """Why the stand-in cannot be used here; "" where it can. Where HOTLAP_TEST_STAND_IN says that it is required, as CI does, tests that
    would be skipped for want of it fail instead."""
    if _real_driver():
        return "a real CUDA driver is here: the tests use its devices"
    reason = _lacking()
    if reason and os.environ.get("HOTLAP_TEST_STAND_IN") == "required":
        raise RuntimeError(reason)
    return reason


def _lacking() -> str:
    if sys.platform != "linux":
        return "the stand-in for CUDA is built for Linux"
    if shutil.which("gcc") is None:
        return "no C compiler (gcc): the stand-in for CUDA cannot be built"
    try:
        from cuda.bindings import driver, nvrtc  # noqa: F401
    except ImportError:
        return "cuda-bindings is not installed: pip install cuda-bindings nvidia-cuda-nvrtc"
    return ""


def _real_driver() -> bool:
    with contextlib.suppress(OSError):
        library = ctypes.CDLL("libcuda.so.1")
        return not hasattr(library, "standInRecover")
    return False


@functools.cache
def folder() -> Path:
    """The cache: by the text of everything that makes what lies in it, and by the processor it is made for."""
    digest = hashlib.sha256()
    for name in ("driver.h", *SOURCES, "ptx.h", "ptx.py", "ptx_code.py"):
        digest.update((HERE / name).read_bytes())
    digest.update(subprocess.run(["gcc", "-march=native", "-Q", "--help=target", "--version"], capture_output=True, check=True).stdout)
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    place = Path(home) / "hotlap-tests" / f"cuda-stand-in-{digest.hexdigest()[:16]}"
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError:
        place = Path(tempfile.gettempdir()) / place.name
        place.mkdir(exist_ok=True)
    return place


@functools.cache
def library() -> Path:
    """The built library. Processes may build it at once: each moves its own into place."""
    path = folder() / "libcuda.so.1"
    if not path.exists():
        own = path.with_name(f"{path.name}.{os.getpid()}")
        subprocess.run(["gcc", *FLAGS, "-o", str(own), *(str(HERE / name) for name in SOURCES), "-lpthread", "-ldl"], check=True)
        own.rename(path)
    return path


def settings(devices: int = 1, **more: object) -> dict[str, str]:
    """The environment of a process that sees the stand-in: `cc=90` is STAND_IN_CC, and so on (driver.h)."""
    path = os.pathsep.join(filter(None, [str(library().parent), os.environ.get("LD_LIBRARY_PATH", "")]))
    start = os.pathsep.join(filter(None, [str(HERE / "start"), os.environ.get("PYTHONPATH", "")]))
    base = {
        "LD_LIBRARY_PATH": path, "PYTHONPATH": start, "STAND_IN_DEVICES": devices, "STAND_IN_CACHE": folder(),
        "STAND_IN_TRANSLATE": f"{sys.executable} -I {HERE / 'ptx.py'}",
    }
    return {name: str(value) for name, value in (base | {f"STAND_IN_{name.upper()}": value for name, value in more.items()}).items()}


@functools.cache
def loaded() -> ctypes.CDLL:
    """In this process: who asks for libcuda.so.1 later gets what is loaded already."""
    return ctypes.CDLL(str(library()), mode=ctypes.RTLD_GLOBAL)


@contextlib.contextmanager
def on(devices: int = 1, **more: object) -> Iterator[ctypes.CDLL]:
    """Until the end of the block this process and those that it starts see the stand-in's devices; outside they see none."""
    from hotlap.core.measure.targets import cuda_driver

    stand_in = loaded()
    before = dict(os.environ)
    os.environ.update(settings(devices, **more))
    cuda_driver._versions.cache_clear()
    try:
        yield stand_in
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)
        cuda_driver._versions.cache_clear()


def if_possible() -> contextlib.AbstractContextManager[ctypes.CDLL | None]:
    """One device, or where the stand-in cannot be used what is here."""
    return contextlib.nullcontext() if missing() else on()


def pair(cubin: bytes, ptx: bytes) -> None:
    """The driver will run this PTX when it is given this cubin; both are of one compilation."""
    name = f"{_fnv(cubin[: _elf_bytes(cubin)]):016x}.cubin.ptx"
    own = folder() / f"{name}.{os.getpid()}"
    own.write_bytes(ptx.rstrip(b"\0"))
    own.rename(folder() / name)


def _elf_bytes(image: bytes) -> int:
    programs, sections = struct.unpack_from("<QQ", image, 32)
    program_bytes, program_count, section_bytes, section_count = struct.unpack_from("<HHHH", image, 54)
    return int(max(programs + program_bytes * program_count, sections + section_bytes * section_count))


def _fnv(data: bytes) -> int:
    value = 1469598103934665603
    for octet in data:
        value = (value ^ octet) * 1099511628211 % 2**64
    return value

"""CUDA C++ in the common dialect to machine code by NVRTC, which needs neither a GPU nor a driver."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.resources
import os
import sys
from pathlib import Path
from typing import Any

from hotlap.core.errors import DoesNotCompile, NotSupported, Unavailable
from hotlap.core.measure.targets import cuda_driver

REMEDY = "pip install cuda-bindings nvidia-cuda-nvrtc nvidia-ml-py"


@functools.cache
def _nvrtc() -> Any:
    """The binding, with its shared library loaded. Raises Unavailable."""
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise Unavailable(f"cuda-bindings cannot be imported ({error})", REMEDY) from error
    _prefer(cuda_driver.major())
    try:
        nvrtc.nvrtcVersion()
    except Exception as error:  # the loader has several error types, by version
        raise Unavailable(f"the CUDA compiler library NVRTC cannot be loaded ({_line(error)})", "pip install nvidia-cuda-nvrtc") from error
    return nvrtc


def _prefer(major: int | None) -> None:
    """Loads the NVRTC wheel of the driver's own CUDA version where one of CUDA 12 is installed beside a newer one: the binding takes a
    library that is loaded already, and would else take the newest."""
    if major != 12:
        return
    for folder in sys.path:
        path = Path(folder) / "nvidia" / "cuda_nvrtc" / "lib" / "libnvrtc.so.12"
        if path.is_file():
            with contextlib.suppress(OSError):
                ctypes.CDLL(str(path), os.RTLD_NOW | os.RTLD_GLOBAL)
                return


def fitting() -> None:
    """Raises Unavailable where there is no NVRTC, or one whose code the driver does not load: that of a newer major version of CUDA."""
    have, takes = int(version().partition(".")[0]), cuda_driver.major()
    if takes is not None and have > takes:
        remedy = "pip install nvidia-cuda-nvrtc-cu12" if takes == 12 else "update the driver"
        raise Unavailable(f"the driver is of CUDA {takes} and does not load code of NVRTC {version()}", remedy)


def version() -> str:
    """NVRTC's version, as in 13.0. Raises Unavailable."""
    _, major, minor = _nvrtc().nvrtcVersion()
    return f"{major}.{minor}"


@functools.cache
def architectures() -> tuple[int, ...]:
    """Compute capabilities this NVRTC makes machine code for, times ten, ascending: (75, 80, …)."""
    result, archs = _nvrtc().nvrtcGetSupportedArchs()
    _done(result, "nvrtcGetSupportedArchs")
    return tuple(sorted(archs))


@functools.cache
def prelude() -> str:
    return (importlib.resources.files("hotlap.core.measure.targets") / "prelude" / "cuda.c").read_text()


def architecture(capability: int) -> str:
    """The option for a device of this compute capability (times ten): its own machine code, or for a chip newer than this
    NVRTC the newest PTX that the driver can translate. Raises NotSupported for a chip that is too old."""
    known = architectures()
    if capability in known:
        return f"sm_{capability}"
    older = [a for a in known if a < capability]
    if not older:
        what = f"NVRTC {version()} makes no code for compute capability {capability / 10:g}, its oldest is {known[0] / 10:g}"
        raise NotSupported(f"{what}; install an older nvidia-cuda-nvrtc")
    return f"compute_{older[-1]}"


def instead_of(arch: str, capability: int) -> list[str]:
    """What else a driver that refuses code for `arch` may load: PTX in place of machine code, and machine code of an older chip of the
    same major compute capability in place of PTX."""
    if arch.startswith("sm_"):
        return [f"compute_{arch.removeprefix('sm_')}"]
    older = int(arch.removeprefix("compute_"))
    return [f"sm_{older}"] if older // 10 == capability // 10 else []


@functools.cache
def compile_source(source: str, name: str, arch: str, defines: tuple[str, ...] = (), options: tuple[str, ...] = ()) -> bytes:
    """A cubin (`sm_90`) or PTX (`compute_90`) of the prelude and `source`. Raises DoesNotCompile with the compiler's first error."""
    text = prelude() + "".join(f"#define {_define(d)}\n" for d in defines) + "#line 1\n" + source
    kind = "CUBIN" if arch.startswith("sm_") else "PTX"
    (code,), _ = _compiled(text, f"{name}.cu", f"the kernel '{name}'", [f"--gpu-architecture={arch}", "--std=c++17", *options], [kind])
    return code


def compile_plain(source: str, name: str, options: list[str]) -> tuple[bytes, bytes, str]:
    """Cubin, PTX and log of CUDA C++ as it stands, without the prelude. Raises DoesNotCompile with the compiler's first error."""
    (cubin, ptx), log = _compiled(source, name, name, options, ["CUBIN", "PTX"])
    return cubin, ptx, log


def _compiled(text: str, file: str, what: str, options: list[str], kinds: list[str]) -> tuple[list[bytes], str]:
    """Code of each kind, and the log."""
    nvrtc = _nvrtc()
    result, program = nvrtc.nvrtcCreateProgram(text.encode(), file.encode(), 0, None, None)
    _done(result, "nvrtcCreateProgram")
    try:
        (result,) = nvrtc.nvrtcCompileProgram(program, len(options), [one.encode() for one in options])
        if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise DoesNotCompile(f"{what} does not compile: {_first_error(_log(program), result.name)}")
        return [_code(program, kind) for kind in kinds], _log(program)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _define(text: str) -> str:
    """Definitions stand in the source, after NVRTC's own headers: as options, a macro `T` would break those."""
    name, sign, value = text.partition("=")
    return f"{name} {value if sign else 1}"


def _code(program: Any, kind: str) -> bytes:
    nvrtc = _nvrtc()
    result, size = getattr(nvrtc, f"nvrtcGet{kind}Size")(program)
    _done(result, f"nvrtcGet{kind}Size")
    code = bytes(size)
    (result,) = getattr(nvrtc, f"nvrtcGet{kind}")(program, code)
    _done(result, f"nvrtcGet{kind}")
    return code


def _log(program: Any) -> str:
    nvrtc = _nvrtc()
    result, size = nvrtc.nvrtcGetProgramLogSize(program)
    if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        return ""
    log = bytes(size)
    nvrtc.nvrtcGetProgramLog(program, log)
    return log.rstrip(b"\0").decode(errors="replace")


def _done(result: Any, what: str) -> None:
    if result.value != 0:
        raise NotSupported(f"{what} failed with {result.name}")


def _first_error(log: str, otherwise: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), lines[0] if lines else otherwise)


def _line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]



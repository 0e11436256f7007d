"""NVIDIA's and LLVM's tools, where one is here: on the path, beside a toolkit, or in a Python package (nvidia-cuda-nvdisasm, triton)."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

LIMIT_S = 120.0
REMEDY = "pip install nvidia-cuda-nvdisasm"


def run(argv: list[str]) -> subprocess.CompletedProcess[str]:
    """A tool that hangs counts as one that failed."""
    try:
        return subprocess.run(
            argv, capture_output=True, text=True, errors="replace", timeout=LIMIT_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(argv, 1, "", str(error))


def toolkits() -> list[Path]:
    """Where CUDA's may be installed."""
    return [Path(home) for home in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda") if home]


@functools.cache
def tool(name: str) -> str | None:
    """Its path."""
    places = [home / "bin" for home in toolkits()]
    for package, below in (
        ("nvidia", ("cu13/bin", "cuda_nvdisasm/bin", "cuda_cuobjdump/bin", "cuda_nvcc/bin")),
        ("triton", ("backends/nvidia/bin",)),
    ):
        found = importlib.util.find_spec(package)
        roots = list(found.submodule_search_locations or []) if found else []
        places += [Path(root) / one for root in roots for one in below]
    inside = next((str(place / name) for place in places if os.access(place / name, os.X_OK)), None)
    return inside if inside else shutil.which(name)


def ptxas(architecture: str) -> str | None:
    """Triton brings two; the newer one is for Blackwell and after."""
    new = int(re.sub(r"\D", "", architecture) or 0) >= 100
    return (tool("ptxas-blackwell") if new else None) or tool("ptxas")


@functools.cache
def version(path: str) -> str:
    said = re.search(r"release ([\d.]+)", run([path, "--version"]).stdout)
    return f"{Path(path).name} {said[1]}" if said else Path(path).name


def sass(cubin: Path) -> str | None:
    """Disassembly of a cubin; None where no tool is here or it cannot read it."""
    path = tool("nvdisasm")
    if path is None:
        return None
    done = run([path, str(cubin)])
    return done.stdout if done.returncode == 0 and done.stdout.strip() else None


def amdgcn(code: Path, architecture: str) -> str | None:
    """Disassembly of a code object by LLVM."""
    path = tool("llvm-objdump")
    if path is None:
        return None
    done = run([path, "-d", f"--mcpu={architecture}", str(code)])
    return done.stdout if done.returncode == 0 and done.stdout.strip() else None

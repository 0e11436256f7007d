"""Versions of what can change a number, from packages' metadata and the kernel; nothing is imported for it."""

from __future__ import annotations

import platform
import re
from importlib import metadata

import hotlap
from hotlap.core.measure.sensors.tree import FileTree

PACKAGES = (
    "numpy", "msgspec", "pyopencl", "pocl-binary-distribution", "torch", "triton", "cuda-bindings", "cuda-python", "nvidia-cuda-nvrtc",
    "nvidia-cuda-nvrtc-cu12", "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12", "nvidia-cublas", "nvidia-cublas-cu12", "nvidia-cudnn-cu12",
    "nvidia-nccl-cu12", "nvidia-nccl-cu13", "nvidia-ml-py", "intel-opencl-rt", "mkl", "cupy", "jax", "psutil",
)
MODULES = ("amdgpu", "i915", "xe")  # GPU drivers built outside the kernel tree say their version here


def versions(tree: FileTree) -> dict[str, str]:
    """Package or library → version; what is not installed is left out."""
    by_name = {"python": platform.python_version(), "hotlap": hotlap.__version__}
    for name in PACKAGES:
        try:
            by_name[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    by_name |= _libc()
    return by_name | _drivers(tree)


def _libc() -> dict[str, str]:
    name, version = platform.libc_ver()
    return {name: version} if name and version else {}


def _drivers(tree: FileTree) -> dict[str, str]:
    """Kernel drivers of GPUs: NVIDIA's, open or closed, and those of others where they name a version."""
    drivers = {}
    match = re.search(r"\b(\d{3}\.\d+(?:\.\d+)?)\b", tree.text("proc/driver/nvidia/version"))
    if match:
        drivers["nvidia driver"] = match[1]
    for module in MODULES:
        version = tree.text(f"sys/module/{module}/version")
        if version:
            drivers[f"{module} driver"] = version
    return drivers

"""Versions of libraries by packages' metadata, by the names of their files, and by pkg-config: nothing is loaded for it."""

from __future__ import annotations

import json
import re

from hotlap.nodes.facts import natural
from hotlap.nodes.inspect.noting import FactNotes

FOLDERS = ("usr/lib/*", "usr/lib64", "usr/lib", "usr/local/lib", "usr/local/cuda/lib64", "usr/local/cuda/targets/*/lib", "opt/rocm/lib")
FILES = {  # those whose file is named by the library's own version
    "cudnn": "libcudnn.so", "nccl": "libnccl.so", "cudart": "libcudart.so", "cublas": "libcublas.so", "nvshmem": "libnvshmem_host.so",
    "rccl": "librccl.so",
}
CONFIGURED = {"openmpi": "ompi.pc", "mpich": "mpich.pc", "ucx": "ucx.pc", "libfabric": "libfabric.pc"}  # the file's name is an ABI's number


def collect(notes: FactNotes) -> None:
    """``package[…]``, ``library[…]``, and the toolkits of CUDA and ROCm."""
    try:
        packages = json.loads(notes.place.command("packages.json").text or "{}")
    except ValueError:
        packages = {}
    for name, version in packages.items() if isinstance(packages, dict) else ():
        notes.note(f"package[{name}]", str(version), "package metadata")
    text = notes.place.text("usr/local/cuda/version.json")
    match = re.search(r'"cuda"\s*:\s*{[^}]*"version"\s*:\s*"([\d.]+)"', text)
    notes.note("cuda.toolkit", match[1] if match else None, "usr/local/cuda/version.json")
    for name, stem in FILES.items():
        paths = [path for folder in FOLDERS for path in notes.place.glob(f"{folder}/{stem}.*")]
        found = {match[1] for path in paths if (match := re.search(r"\.so\.(\d+\.\d[\d.]*)$", path))}
        notes.note(f"library[{name}]", sorted(found, key=natural) or None, f"{stem}.* in the folders of libraries")
    for name, leaf in CONFIGURED.items():
        texts = [notes.place.text(path) for folder in FOLDERS for path in notes.place.glob(f"{folder}/pkgconfig/{leaf}")]
        found = {match[1] for text in texts if (match := re.search(r"^Version:\s*(\d[\w.]*)", text, re.MULTILINE))}
        notes.note(f"library[{name}]", sorted(found, key=natural) or None, f"pkgconfig/{leaf} in the folders of libraries")
    notes.file("rocm.version", "opt/rocm/.info/version")

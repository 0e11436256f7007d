from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hotlap.core.measure.targets import opencl_link

pytestmark = pytest.mark.slow("links kernels in processes of their own")

KERNEL = """
import numpy as np
from hotlap.core.measure import targets
device = targets.find(targets.parse("opencl:cpu"))[0]
target = targets.open_device(targets.parse("opencl"), device)
source = "KERNEL void f(GLOBAL float *a, const uint n) { const uint i = ID; if (i < n) a[i] = exp(a[i]) + (float)((ulong)i / 3); }"
buffer = target.buffer(np.ones(1000, np.float32))
target.kernel(source, "f")(1024, 64, buffer, np.uint32(1000))
got = target.read(buffer)[:1000]
wanted = np.exp(np.float32(1)) + (np.arange(1000) // 3)
assert np.allclose(got, wanted, rtol=1e-5), (got, wanted)
"""


def test_missing_names_what_a_bare_system_lacks(tmp_path: Path) -> None:
    assert opencl_link.missing(tmp_path) == ["libc", "libgcc", "libgcc_s"]
    for place in ("usr/lib/x86_64-linux-gnu/libc.so", "usr/lib/gcc/x86_64-linux-gnu/12/libgcc.a"):
        (tmp_path / place).parent.mkdir(parents=True)
        (tmp_path / place).touch()
    assert opencl_link.missing(tmp_path) == ["libgcc_s"]


def test_supply_adds_the_folder_once_and_only_where_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencl_link.sys, "platform", "linux")
    monkeypatch.setenv("LIBRARY_PATH", "/opt/lib")
    monkeypatch.setattr(opencl_link, "missing", list)
    opencl_link.supply()
    assert os.environ["LIBRARY_PATH"] == "/opt/lib"
    monkeypatch.setattr(opencl_link, "missing", lambda: ["libc"])
    opencl_link.supply()
    opencl_link.supply()
    assert os.environ["LIBRARY_PATH"] == f"/opt/lib:{opencl_link.FOLDER}"


@pytest.mark.skipif(shutil.which("ld") is None or sys.platform != "linux", reason="no linker 'ld'")
def test_a_linker_takes_the_archives(tmp_path: Path) -> None:
    argv = ["ld", "-nostdlib", "-shared", f"-L{opencl_link.FOLDER}", "-lc", "-lgcc", "-lgcc_s", "-o", str(tmp_path / "out.so")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.so").stat().st_size > 0


@pytest.mark.skipif(shutil.which("ld") is None or sys.platform != "linux", reason="no linker 'ld'")
def test_a_kernel_runs_with_nothing_but_the_archives(tmp_path: Path) -> None:
    pytest.importorskip("pyopencl", reason="pyopencl comes with the extra opencl")
    environment = os.environ | {"LIBRARY_PATH": str(opencl_link.FOLDER), "POCL_CACHE_DIR": str(tmp_path), "POCL_KERNEL_CACHE": "1"}
    done = subprocess.run([sys.executable, "-c", KERNEL], capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

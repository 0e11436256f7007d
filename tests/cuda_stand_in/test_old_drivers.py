"""Drivers of CUDA 12: with the NVRTC 12 that `hotlap devices` names as the remedy, beside the NVRTC 13 of the environment, they measure;
without it they are refused plainly."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cuda_stand_in import build

ROOT = Path(__file__).parents[2]
NVRTC12 = os.environ.get("HOTLAP_NVRTC12", "")
CHOSEN = (  # of the conformance suite, for the device cuda:0 alone
    "test_a_device_says_who_it_is", "(test_a_copy_carries_every_byte and device)", "test_a_kernel_runs_with_the_prelude", "test_groups_share_memory",
    "test_atomic_additions", "test_a_claimed_type_computes", "test_time", "graph",
)
pytestmark = pytest.mark.skipif(bool(build.missing()), reason=build.missing() or "-")


def _environment(driver: int, **more: str) -> dict[str, str]:
    with build.on(driver=driver, cc=90, units=1):
        return {**os.environ, **more}


def _python(*words: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)


@pytest.mark.parametrize("driver", [12020, 12080])
def test_nvrtc_13_alone_is_refused_with_the_remedy(driver: int) -> None:
    done = _python("-m", "hotlap", "run", "scripts/smoke.toml", "--target", "cuda", environment=_environment(driver))
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert re.search(r"the driver is of CUDA 12 and does not load code of NVRTC 13\.\d+; pip install nvidia-cuda-nvrtc-cu12", done.stderr)
    assert not done.stdout


@pytest.mark.slow("part of the conformance suite in a process of its own, twice")
@pytest.mark.skipif(not NVRTC12, reason="HOTLAP_NVRTC12 names no folder with NVRTC 12; scripts/nvrtc12.sh makes it")
@pytest.mark.parametrize("driver", [12020, 12080])
def test_with_nvrtc_12_beside_it_a_driver_of_cuda_12_measures(driver: int) -> None:
    settings = _environment(driver)
    settings["PYTHONPATH"] = os.pathsep.join([settings["PYTHONPATH"], NVRTC12])
    version = "from hotlap.core.measure.targets import cuda, cuda_compile; print(cuda.find()[0].driver, cuda_compile.version())"
    assert _python("-c", version, environment=settings).stdout.split() == ["CUDA", f"12.{driver % 1000 // 10}", "12.8"]
    words = ["--assert=plain", "-o", "addopts=-q", "-p", "no:cacheprovider", "tests/core/targets/test_conformance.py", "-k", f"cuda:0 and ({' or '.join(CHOSEN)})"]
    done = _python("-m", "pytest", *words, environment=settings)
    assert done.returncode == 0, done.stdout[-3000:]
    summary = re.search(r"(\d+) passed(?:, (\d+) skipped)?, \d+ deselected", done.stdout)
    assert summary is not None, done.stdout[-3000:]
    assert 30 <= int(summary[1]) <= 40
    assert int(summary[2] or 0) <= 1  # CUDA has no vector of four doubles

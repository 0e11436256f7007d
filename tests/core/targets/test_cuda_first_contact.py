"""What the first user of a GPU meets: no driver, hidden devices, MPS, WSL. One line each, with what to do."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cuda_stand_in import build

pytestmark = pytest.mark.skipif(bool(build.missing()), reason=build.missing())
HIDDEN = "(CUDA_ERROR_NO_DEVICE); CUDA_VISIBLE_DEVICES is '{}', which hides all devices: unset it, or name devices that 'nvidia-smi -L' lists"
MPS = "start the MPS daemon of this user (nvidia-cuda-mps-control -d), or unset CUDA_MPS_PIPE_DIRECTORY"
CONTAINER = "libcuda does not load (DynamicLibNotFoundError); install NVIDIA's driver; in a container, start it with the GPUs passed in"
HERE = """
import sys
from hotlap.cli import main
from hotlap.core.measure.targets import cuda_driver
cuda_driver.WSL = sys.argv.pop(1)
sys.exit(main(sys.argv[1:]))
"""
SITUATIONS: dict[str, tuple[dict[str, str], str]] = {  # environment → the end of the line
    "hidden": ({"STAND_IN_DEVICES": "0", "CUDA_VISIBLE_DEVICES": ""}, HIDDEN.format("")),
    "unknown": ({"STAND_IN_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "GPU-7"}, HIDDEN.format("GPU-7")),
    "MPS connection": ({"STAND_IN_FAIL": "cuInit:805"}, MPS),
    "MPS server": ({"STAND_IN_FAIL": "cuInit:807"}, MPS),
}


def refused(words: tuple[str, ...], environment: dict[str, str], wsl: str, home: Path) -> str:
    """The one line of a command that cannot go on."""
    run = subprocess.run(
        [sys.executable, "-c", HERE, wsl, *words], env={**environment, "HOTLAP_HOME": str(home)}, capture_output=True, text=True, check=False,
    )
    assert run.returncode == 3, run.stderr
    assert run.stdout == ""
    (line,) = run.stderr.splitlines()
    return line


@pytest.mark.slow("a process each")
@pytest.mark.parametrize("words", [("devices", "--target", "cuda"), ("run", "quick", "--target", "cuda", "--no-report")], ids=lambda w: w[0])
@pytest.mark.parametrize("name", SITUATIONS)
def test_what_the_driver_refuses_has_a_remedy(name: str, words: tuple[str, ...], tmp_path: Path) -> None:
    environment, end = SITUATIONS[name]
    line = refused(words, {**os.environ, **build.settings(), **environment}, "/nowhere", tmp_path)
    assert line.startswith("hotlap: ")
    assert line.endswith(end)


@pytest.mark.slow("a process each")
@pytest.mark.parametrize("words", [("devices", "--target", "cuda"), ("run", "quick", "--target", "cuda", "--no-report")], ids=lambda w: w[0])
def test_without_libcuda(words: tuple[str, ...], tmp_path: Path) -> None:
    """The real absence; on WSL the library lies in a folder of its own."""
    plain = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    assert refused(words, plain, "/nowhere", tmp_path).endswith(CONTAINER)
    (tmp_path / "libcuda.so.1").touch()
    assert refused(words, plain, str(tmp_path), tmp_path).endswith(f"WSL keeps it in {tmp_path}: export LD_LIBRARY_PATH={tmp_path}")


@pytest.mark.slow("a process")
def test_a_device_in_exclusive_mode_that_another_process_holds(tmp_path: Path) -> None:
    """It is listed, since its facts need no context; a run says who to end. How busy the machine is may stand above."""
    with (tmp_path / "held").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        environment = {**os.environ, **build.settings(exclusive=held.name), "HOTLAP_HOME": str(tmp_path)}
        words = [sys.executable, "-m", "hotlap", "run", "quick", "--target", "cuda", "--no-report"]
        run = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 3
    assert run.stderr.splitlines()[-1] == (
        "hotlap: CUDA could not make a context: CUDA_ERROR_DEVICE_UNAVAILABLE; "
        "another process holds the device: end it, or 'nvidia-smi -c 0' lets several use it"
    )

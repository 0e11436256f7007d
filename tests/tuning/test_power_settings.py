"""Clocks and caps through the real nvidia-ml-py, on the library that stands in for NVML: what is set is put back, however the user's
process ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
SOURCE = Path(__file__).resolve().parent.parent / "core" / "sensors" / "fake_nvml.c"
UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"

pytestmark = [
    pytest.mark.slow("processes with a library that stands in for NVML"),
    pytest.mark.skipif(COMPILER is None, reason="no C compiler: the library that stands in for NVML cannot be built"),
    pytest.mark.skipif(sys.platform != "linux", reason="the library that stands in for NVML is built for Linux"),
]

HEAD = f"""
    import json, os, signal, sys, time
    from pathlib import Path
    from hotlap.core.record import Device
    from hotlap.core.errors import HotlapError
    from hotlap.tuning import power_guard, power_sweep
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the shell of the tests ignores it, as for a job in the background
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # or nohup
    from hotlap.tuning.power_guard import Wish
    from hotlap.tuning.power_settings import Settings, check
    device = Device(target="cuda", index=0, name="NVIDIA Test", kind="gpu", vendor="NVIDIA", uuid="{UUID}")
    home = Path(os.environ["HOME_OF_TEST"])
"""
HOLD = HEAD + """
    with power_sweep.guarded(device, home, lambda text: None) as put:
        put(Wish(clock_hz=1.2e9, power_w=400.0))
        print("held", flush=True)
        time.sleep(600)
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed: pip install nvidia-ml-py")
    folder = tmp_path_factory.mktemp("nvml_settings")
    argv = [str(COMPILER), "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run([*argv, "-o", str(folder / "libnvidia-ml.so.1"), str(SOURCE)], check=True)
    return folder


@pytest.fixture
def start(library: Path, tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """A child process with the library; what stands lies in the file `state`."""

    def begin(code: str, **environment: str) -> subprocess.Popen[str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
        own = {"LD_LIBRARY_PATH": str(library), "FAKE_NVML_STATE": str(tmp_path / "state"), "HOME_OF_TEST": str(tmp_path), "HOTLAP_NVML": "stand-in"}
        return subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**kept, **own, **environment}, start_new_session=True,
        )

    return begin


def stands(folder: Path) -> str:
    return (folder / "state").read_text().strip()


def becomes(folder: Path, wanted: str) -> bool:
    """Whether it comes to stand so: the guard restores on its own. Five minutes bound a hang, and nothing else."""
    for _ in range(6000):
        if stands(folder) == wanted and not list((folder / "settings").glob("*.json")):
            return True
        time.sleep(0.05)
    return False


def answer(process: subprocess.Popen[str]) -> Any:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return json.loads(out)


def test_bounds_are_the_drivers(start: Callable[..., subprocess.Popen[str]]) -> None:
    code = HEAD + """
    import msgspec
    print(msgspec.json.encode(Settings(device).bounds()).decode())
    """
    told = answer(start(code))
    assert (told["power_w"], told["power_least_w"], told["power_most_w"]) == (700.0, 200.0, 700.0)
    assert (told["clock_least_hz"], told["clock_most_hz"]) == (345e6, 1980e6)
    assert told["locked"] is False


def test_a_setting_beyond_the_bounds_is_refused_with_them(start: Callable[..., subprocess.Popen[str]]) -> None:
    code = HEAD + """
    said = []
    for wish in (Wish(clock_hz=2.5e9), Wish(power_w=100.0)):
        try:
            check(Settings(device).bounds(), wish.clock_hz, wish.power_w)
        except HotlapError as error:
            said.append(str(error))
    print(json.dumps(said))
    """
    clock, power = answer(start(code))
    assert "2500 MHz" in clock
    assert "345 to 1980 MHz" in clock
    assert "200 to 700 W" in power


def test_the_end_of_the_block_restores(start: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    code = HEAD + """
    seen = []
    state = Path(os.environ["FAKE_NVML_STATE"])
    with power_sweep.guarded(device, home, lambda text: None) as put:
        for wish in (Wish(clock_hz=1.2e9), Wish(power_w=400.0), Wish(clock_hz=345e6, power_w=500.0), Wish()):
            put(wish)
            seen.append(state.read_text().strip())
    print(json.dumps([*seen, state.read_text().strip()]))
    """
    assert answer(start(code)) == ["1200 700000", "0 400000", "345 500000", "0 700000", "0 700000"]
    assert not list((tmp_path / "settings").glob("*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL, signal.SIGSEGV])
def test_every_end_of_the_process_restores(start: Callable[..., subprocess.Popen[str]], tmp_path: Path, number: int) -> None:
    (tmp_path / "state").write_text("0 650000")  # somebody's own cap, not the default
    process = start(HOLD)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    assert stands(tmp_path) == "1200 400000"
    os.kill(process.pid, number)
    process.communicate(timeout=300)
    assert becomes(tmp_path, "0 650000")


def test_the_guard_outlives_signals_to_its_user_and_its_own(start: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    code = HEAD + """
    import subprocess
    with power_sweep.guarded(device, home, lambda text: None) as put:
        put(Wish(power_w=400.0))
        children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(int(children[0]), number)
        put(Wish(power_w=300.0))
    print(json.dumps(Path(os.environ["FAKE_NVML_STATE"]).read_text().strip()))
    """
    assert answer(start(code)) == "0 700000"


def test_a_guard_that_is_killed_is_stood_in_for(start: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    code = HEAD + """
    said = []
    try:
        with power_sweep.guarded(device, home, said.append) as put:
            put(Wish(clock_hz=1.2e9))
            children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
            os.kill(int(children[0]), signal.SIGKILL)
            while ") Z " not in Path(f"/proc/{children[0]}/stat").read_text():
                time.sleep(0.01)
            put(Wish(clock_hz=345e6))
    except HotlapError as error:
        said.append(str(error))
    print(json.dumps([*said, Path(os.environ["FAKE_NVML_STATE"]).read_text().strip()]))
    """
    told = answer(start(code))
    assert "restored from here" in told[0]
    assert "has ended" in told[1]
    assert told[2] == "0 700000"


def test_what_both_processes_left_is_mended_by_the_next(start: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    process = start(HOLD)
    assert process.stdout is not None
    process.stdout.readline()
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGKILL)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=300)
    assert stands(tmp_path) == "1200 400000"
    code = HEAD + """
    print(json.dumps([power_guard.mend(power_sweep.note(device, home)), power_guard.mend(power_sweep.note(device, home))]))
    """
    assert answer(start(code)) == [True, False]
    assert becomes(tmp_path, "0 700000")


def test_without_permission_nothing_is_set_and_the_reason_is_said(start: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    (tmp_path / "state").write_text("0 700000")
    code = HEAD + """
    try:
        with power_sweep.guarded(device, home, lambda text: None) as put:
            put(Wish(clock_hz=1.2e9))
    except HotlapError as error:
        print(json.dumps([str(error), error.exit_code]))
    """
    refused = start(code, FAKE_NVML_FAIL="nvmlDeviceSetGpuLockedClocks:4,nvmlDeviceResetGpuLockedClocks:4")
    text, exit_code = answer(refused)
    assert "1200 MHz cannot be set" in text
    assert "root" in text
    assert exit_code == 3
    assert stands(tmp_path) == "0 700000"


def test_a_cap_that_could_not_be_put_back_is_not_set(start: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    (tmp_path / "state").write_text("0 650000")
    code = HEAD + """
    try:
        with power_sweep.guarded(device, home, lambda text: None) as put:
            put(Wish(power_w=400.0))
    except HotlapError as error:
        print(json.dumps(str(error)))
    """
    said = answer(start(code, FAKE_NVML_FAIL="nvmlDeviceGetPowerManagementLimit:3"))
    assert "could not be put back" in said
    assert stands(tmp_path) == "0 650000"


def test_nothing_but_a_stand_in_is_set_in_tests(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A library that cannot be told from the driver's is never written to under HOTLAP_NVML=stand-in, which conftest sets for all tests."""
    assert os.environ["HOTLAP_NVML"] == "stand-in"
    folder = tmp_path_factory.mktemp("like_a_driver")
    argv = [str(COMPILER), "-O1", "-shared", "-fPIC", "-DLIKE_A_DRIVER", "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run([*argv, "-o", str(folder / "libnvidia-ml.so.1"), str(SOURCE)], check=True)
    code = HEAD + """
    try:
        with power_sweep.guarded(device, home, lambda text: None) as put:
            put(Wish(clock_hz=1.2e9))
    except HotlapError as error:
        print(json.dumps(str(error)))
    """
    answered = answer(start(code, LD_LIBRARY_PATH=str(folder), FAKE_NVML_CALLS=str(tmp_path / "calls")))
    assert "this NVML is the driver's own" in answered
    called = (tmp_path / "calls").read_text()
    assert "nvmlDeviceGetPowerManagementLimit" in called
    assert "nvmlDeviceSet" not in called
    assert "nvmlDeviceReset" not in called


def test_without_a_sensor_of_power_it_is_refused(start: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    code = HEAD + """
    from hotlap.core.measure import targets
    try:
        power_sweep.sensed(targets.parse("cuda"), device)
        print(json.dumps("sensed"))
    except HotlapError as error:
        print(json.dumps(str(error)))
    """
    assert answer(start(code)) == "sensed"
    dead = "nvmlDeviceGetPowerUsage:3,nvmlDeviceGetTotalEnergyConsumption:3,186:3"
    assert "no sensor tells its power or energy" in answer(start(code, FAKE_NVML_FAIL=dead))


def test_a_dry_run_names_bounds_and_calls_and_sets_nothing(start: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    code = HEAD + """
    from hotlap.core.measure import targets
    from hotlap.tuning import cli_power
    os.environ["HOTLAP_HOME"] = str(home)
    lines = cli_power._allowed(targets.parse("cuda"), device, [Wish(), Wish(power_w=400.0), Wish(clock_hz=1.2e9)])
    print(json.dumps([lines, cli_power._tops(targets.parse("cuda"), device, None)]))
    """
    calls = tmp_path / "calls"
    (lines, possible), tops = answer(start(code, FAKE_NVML_CALLS=str(calls)))
    assert possible
    assert lines == ["the driver allows clocks of 345 MHz to 1.98 GHz, caps of 200 W to 700 W; the cap is 700 W"]
    assert tops == [1980e6, 700.0]
    assert "nvmlDeviceSet" not in calls.read_text()
    dead = "nvmlDeviceGetPowerUsage:3,nvmlDeviceGetTotalEnergyConsumption:3,186:3"
    (lines, possible), _ = answer(start(code, FAKE_NVML_FAIL=dead))
    assert not possible
    assert "no sensor tells its power or energy" in lines[0]

"""NVML through the real nvidia-ml-py, on a C library that exports the real symbols; each scenario in a process of its own,
because the binding loads the library once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"

pytestmark = [
    pytest.mark.skipif(COMPILER is None, reason="no C compiler: the library that stands in for NVML cannot be built"),
    pytest.mark.skipif(sys.platform != "linux", reason="the library that stands in for NVML is built for Linux"),
]

CHILD = """
    import json, sys
    from types import SimpleNamespace
    from hotlap import sensors
    from hotlap.record import Device
    from hotlap.sensors import nvml
    from hotlap.targets.base import SystemClock

    options = json.loads(sys.argv[1])
    about = {"target": "cuda", "index": 0, "name": "NVIDIA Test", "kind": "gpu", "vendor": "NVIDIA", **options["device"]}
    target = SimpleNamespace(device=Device(**about), clock=SystemClock(), dialect="c")
    source = next((s for s in sensors.find(target) if s.name == "nvml"), None)
    sweeps = [[(r.sensor, r.value, r.status, r.reason, r.device) for r in source.read(t)] for t in options["times"]] if source else []
    names = list(source.names()) if source else []
    print(json.dumps({"sweeps": sweeps, "names": names, "missing": sensors.missing(target), "facts": nvml.facts(target.device)}))
"""

Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder with libnvidia-ml.so.1 each: a driver of today and an old one."""
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed: pip install 'hotlap[nvidia]'")
    source = Path(__file__).with_name("fake_nvml.c")
    folders = {}
    for name, extra in (("new", []), ("old", ["-DOLD_DRIVER"])):
        folder = tmp_path_factory.mktemp(f"nvml_{name}")
        argv = [str(COMPILER), "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", *extra]
        subprocess.run([*argv, "-o", str(folder / "libnvidia-ml.so.1"), str(source)], check=True)
        folders[name] = folder
    return folders


@pytest.fixture
def ask(libraries: dict[str, Path]) -> Ask:
    """Runs a child process with the library and returns what it read."""

    def run(driver: str = "new", device: dict[str, str] | None = None, times: tuple[float, ...] = (1.0,), **environment: str) -> dict[str, Any]:
        options = {"device": {"uuid": UUID} if device is None else device, "times": times}
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
        folder = str(libraries[driver]) if driver else ""
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(CHILD), json.dumps(options)], capture_output=True, text=True, timeout=60, check=False,
            env={**kept, **({"LD_LIBRARY_PATH": folder} if folder else {}), **environment},
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)  # type: ignore[no-any-return]

    return run


def values(answer: dict[str, Any], sweep: int = 0) -> dict[str, Any]:
    return {sensor: value for sensor, value, *_ in answer["sweeps"][sweep]}


def states(answer: dict[str, Any], sweep: int = 0) -> dict[str, tuple[str, str]]:
    return {sensor: (status, reason) for sensor, _, status, reason, _ in answer["sweeps"][sweep]}


def test_every_sensor_is_read_in_base_units(ask: Ask) -> None:
    answer = ask(FAKE_NVML_THROTTLE="0", FAKE_NVML_PIDS="self")
    assert values(answer) == pytest.approx({
        "power_w": 412.345, "power_w.average": 300.0, "energy_j": 123456.789, "temperature_c": 54.0, "temperature_c.memory": 71.0,
        "clock_hz.sm": 1.755e9, "clock_hz.memory": 3.201e9, "throttle": 0.0, "utilization": 0.87, "memory_used_bytes": 2.0 * 2**30,
        "pcie_generation": 5.0, "pcie_width": 8.0, "ecc_uncorrected": 2.0, "fan": 0.35, "power_limit_w": 700.0, "processes": 0.0,
    })
    assert answer["names"] == list(values(answer))
    assert {device for *_, device in answer["sweeps"][0]} == {UUID}
    assert answer["missing"] == {}


def test_facts_hold_what_does_not_change(ask: Ask) -> None:
    assert ask()["facts"] == {
        "clock_max_hz.sm": 1.98e9, "clock_max_hz.memory": 3.201e9, "power_limit_w": 700.0, "pcie_generation_max": 5, "pcie_width_max": 16,
        "ecc": True, "vbios": "96.00.30.00.01", "serial": "1650000000001", "driver": "570.00.01",
    }


def test_facts_that_a_device_does_not_tell_are_left_out(ask: Ask) -> None:
    facts = ask(FAKE_NVML_FAIL="nvmlDeviceGetEccMode:3,nvmlDeviceGetSerial:4", FAKE_NVML_LIMIT="4294967295")["facts"]
    assert not {"ecc", "serial", "power_limit_w"} & set(facts)
    assert facts["vbios"] == "96.00.30.00.01"


def test_what_a_device_does_not_support_is_said_and_never_zero(ask: Ask) -> None:
    answer = ask(FAKE_NVML_FAIL="nvmlDeviceGetFanSpeed:3,nvmlDeviceGetTotalEccErrors:3,82:3", FAKE_NVML_LIMIT="4294967295")
    found = states(answer)
    for sensor in ("fan", "ecc_uncorrected", "temperature_c.memory"):
        assert found[sensor] == ("not_supported", "the device does not support it")
        assert values(answer)[sensor] is None
    assert found["power_limit_w"] == ("not_supported", "the driver answers that the value is not available")
    assert found["power_w"][0] == "ok"


def test_memory_at_zero_degrees_is_a_card_without_the_sensor(ask: Ask) -> None:
    status, reason = states(ask(FAKE_NVML_MEMORY_C="0"))["temperature_c.memory"]
    assert status == "not_supported"
    assert "0 °C" in reason


def test_a_driver_without_the_newer_functions(ask: Ask) -> None:
    answer = ask("old", FAKE_NVML_THROTTLE="4", FAKE_NVML_AVERAGE="250500", FAKE_NVML_PIDS="self,999999")
    found = states(answer)
    assert values(answer)["power_w"] == pytest.approx(250.5)  # nvmlDeviceGetPowerUsage stands in
    assert values(answer)["throttle"] == 4.0
    assert values(answer)["memory_used_bytes"] == 3 * 2**30
    assert values(answer)["processes"] == 1.0
    for sensor in ("power_w.average", "energy_j", "temperature_c.memory"):
        assert found[sensor] == ("not_supported", "this driver has no such function")


def test_a_field_that_the_driver_does_not_know(ask: Ask) -> None:
    answer = ask(FAKE_NVML_FAIL="186:2,185:2")
    assert values(answer)["power_w"] == pytest.approx(300.0)
    assert states(answer)["power_w.average"] == ("not_supported", "this driver does not know field 185")


def test_a_lost_gpu_is_an_error_at_every_sensor(ask: Ask) -> None:
    answer = ask(FAKE_NVML_LOST="1")
    assert set(states(answer).values()) == {("error", "NVML: GPU is lost")}
    assert set(values(answer).values()) == {None}


def test_one_failing_sensor_leaves_the_others_alone(ask: Ask) -> None:
    answer = ask(FAKE_NVML_FAIL="nvmlDeviceGetTemperature:999,186:42,nvmlDeviceGetUtilizationRates:4")
    found = states(answer)
    assert found["temperature_c"] == ("error", "NVML: Unknown Error")
    assert found["power_w"] == ("error", "NVML: Forty-two")
    assert found["utilization"] == ("error", "NVML: Insufficient Permissions")
    assert found["clock_hz.sm"][0] == found["power_w.average"][0] == "ok"


def test_reasons_of_throttling_are_combined_bits(ask: Ask) -> None:
    from hotlap.sensors.base import HARMLESS, THROTTLE

    mask = int(values(ask(FAKE_NVML_THROTTLE="0x64"))["throttle"])
    assert [name for bit, name in THROTTLE.items() if mask & bit & ~HARMLESS] == ["software power cap", "software thermal", "hardware thermal"]


def test_processes_of_others_are_counted(ask: Ask) -> None:
    assert values(ask(FAKE_NVML_PIDS="self,999998,999999"))["processes"] == 2.0


def test_slow_sensors_are_asked_at_most_twice_a_second(ask: Ask, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    answer = ask(times=(1.0, 1.1, 1.2, 1.6), FAKE_NVML_CALLS=str(calls))
    assert ["fan" in values(answer, sweep) for sweep in range(4)] == [True, False, False, True]
    assert all("power_w" in values(answer, sweep) for sweep in range(4))
    assert calls.read_text().splitlines().count("nvmlDeviceGetFanSpeed") == 2


def test_what_is_not_supported_is_asked_once(ask: Ask, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    answer = ask(times=(1.0, 2.0, 3.0), FAKE_NVML_CALLS=str(calls), FAKE_NVML_FAIL="nvmlDeviceGetFanSpeed:3,nvmlDeviceGetUtilizationRates:999")
    names = calls.read_text().splitlines()
    assert names.count("nvmlDeviceGetFanSpeed") == 1
    assert names.count("nvmlDeviceGetUtilizationRates") == 3  # a failure may pass
    assert all(states(answer, sweep)["fan"][0] == "not_supported" for sweep in range(3))


def test_a_device_is_found_by_its_address_where_the_uuid_is_not_nvmls(ask: Ask) -> None:
    answer = ask(device={"uuid": "GPU-ffffffff-0000-0000-0000-000000000000", "pci_address": "0000:0f:00.0"})
    assert values(answer)["power_w"] == pytest.approx(412.345)


@pytest.mark.parametrize(
    ("device", "says"),
    [
        ({"uuid": "GPU-none"}, "NVML does not find NVIDIA Test by its UUID GPU-none (Not Found); check that nvidia-smi lists it"),
        ({"pci_address": "0000:01:00.0"}, "NVML does not find NVIDIA Test by its PCI address 0000:01:00.0 (Not Found)"),
        ({}, "the driver of cuda gives neither UUID nor PCI address of NVIDIA Test"),
    ],
)
def test_a_device_that_nvml_does_not_find(ask: Ask, device: dict[str, str], says: str) -> None:
    answer = ask(device=device)
    assert answer["sweeps"] == []
    assert answer["facts"] == {}
    assert answer["missing"]["nvml"].startswith(says)


@pytest.mark.parametrize(("code", "says"), [("9", "load the nvidia kernel module"), ("18", "reboot"), ("999", "nvidia-smi")])
def test_nvml_that_does_not_start_says_what_would_mend_it(ask: Ask, code: str, says: str) -> None:
    answer = ask(FAKE_NVML_INIT=code)
    assert answer["sweeps"] == []
    assert says in answer["missing"]["nvml"]


def test_a_machine_without_nvml(ask: Ask) -> None:
    if any(Path(folder, "libnvidia-ml.so.1").exists() for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/aarch64-linux-gnu")):
        pytest.skip("this machine has the real NVML")
    reason = ask("")["missing"]["nvml"]
    assert "NVML Shared Library Not Found" in reason
    assert "install NVIDIA's driver" in reason


def test_a_machine_without_the_binding(tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text("raise ImportError('not here')\n")
    options = json.dumps({"device": {"uuid": UUID}, "times": [1.0]})
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CHILD), options], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": path},
    )
    assert json.loads(done.stdout)["missing"]["nvml"] == "nvidia-ml-py cannot be imported (not here); pip install 'hotlap[nvidia]'"

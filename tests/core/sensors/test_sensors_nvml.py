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
from types import SimpleNamespace
from typing import Any

import pytest
from tests.core.sensors.documented import undocumented

from hotlap.core.errors import MachineError, NotSupported
from hotlap.core.measure.sensors import gpm
from hotlap.core.measure.sensors.nvml_fields import Fields, NvLinks
from hotlap.core.measure.sensors.nvml_health import renumbered
from hotlap.core.measure.sensors.tree import FileTree

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"

pytestmark = [
    pytest.mark.slow("processes with a library that stands in for NVML"),
    pytest.mark.skipif(COMPILER is None, reason="no C compiler: the library that stands in for NVML cannot be built"),
    pytest.mark.skipif(sys.platform != "linux", reason="the library that stands in for NVML is built for Linux"),
]

CHILD = """
    import json, sys, time
    from types import SimpleNamespace
    from hotlap.core.measure import sensors
    from hotlap.core.record import Device
    from hotlap.core.measure.sensors import nvml
    from hotlap.core.measure.targets.base import SystemClock

    options = json.loads(sys.argv[1])
    about = {"target": "cuda", "index": 0, "name": "NVIDIA Test", "kind": "gpu", "vendor": "NVIDIA", **options["device"]}
    target = SimpleNamespace(device=Device(**about), clock=SystemClock(), dialect="c")
    source = next((s for s in sensors.find(target) if s.name == "nvml"), None)
    sweeps = []
    for t in options["times"] if source else []:
        time.sleep(options["pause"])
        sweeps.append([(r.sensor, r.value, r.status, r.reason, r.device) for r in source.read(t)])
    names = list(source.names()) if source else []
    print(json.dumps({"sweeps": sweeps, "names": names, "missing": sensors.missing(target), "facts": nvml.facts(target.device)}))
"""

SLICE = {"uuid": UUID.replace("GPU-", "MIG-"), "name": "NVIDIA Test MIG 1g.10gb", "pci_address": "0000:0f:00.0", "facts": {"mig": "1g.10gb"}}
Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder with libnvidia-ml.so.1 each: a driver of today and an old one."""
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed: pip install nvidia-ml-py")
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

    def run(driver: str = "new", device: dict[str, Any] | None = None, times: tuple[float, ...] = (1.0,), pause: float = 0.0, **environment: str) -> dict[str, Any]:
        options = {"device": {"uuid": UUID} if device is None else device, "times": times, "pause": pause}
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
        folder = str(libraries[driver]) if driver else ""
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(CHILD), json.dumps(options)], capture_output=True, text=True, timeout=300, check=False,
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
    assert {name: value for name, value in values(answer).items() if value is not None} == pytest.approx({
        "power_w": 412.345, "power_w.average": 300.0, "energy_j": 123456.789, "temperature_c": 54.0, "temperature_c.memory": 71.0,
        "clock_hz.sm": 1.755e9, "clock_hz.memory": 3.201e9, "throttle": 0.0, "utilization": 0.87, "memory_used_bytes": 2.0 * 2**30,
        "pcie_generation": 5.0, "pcie_width": 8.0, "ecc_uncorrected": 2.0, "fan": 0.35, "power_limit_w": 700.0, "processes": 0.0,
        "ecc_corrected": 0.0, "ecc_corrected.aggregate": 10.0, "ecc_uncorrected.aggregate": 12.0, "pcie_replays": 7.0, "xid": 0.0, "xid.count": 0.0,
    })
    assert answer["names"] == list(values(answer))
    assert not undocumented(answer["names"])
    assert {device for *_, device in answer["sweeps"][0]} == {UUID}
    assert "nvml" not in answer["missing"]


def test_of_a_mig_slice_memory_and_processes_are_its_own_and_all_else_is_of_its_card(ask: Ask) -> None:
    found = values(ask(device=SLICE, FAKE_NVML_PIDS="1,2"))
    assert (found["memory_used_bytes"], found["processes"]) == (2.0**29, 0.0)
    assert (found["power_w"], found["clock_hz.sm"], found["temperature_c"]) == (412.345, 1.755e9, 54.0)
    assert values(ask(device={"uuid": UUID}, FAKE_NVML_PIDS="1,2"))["memory_used_bytes"] == 2.0 * 2**30


def test_a_slice_that_an_old_nvml_does_not_know_is_read_as_its_card(ask: Ask) -> None:
    unknown = {**SLICE, "uuid": "MIG-ffffffff-89ab-cdef-0123-456789abcdef"}
    assert values(ask(device=unknown))["power_w"] == 412.345


def test_facts_hold_what_does_not_change(ask: Ask) -> None:
    assert ask()["facts"] == {
        "clock_max_hz.sm": 1.98e9, "clock_max_hz.memory": 3.201e9, "power_limit_w": 700.0, "pcie_generation_max": 5, "pcie_width_max": 16,
        "ecc": True, "vbios": "96.00.30.00.01", "serial": "1650000000001", "driver": "570.00.01",
        "temperature_limit_c.shutdown": 95.0, "temperature_limit_c.slowdown": 92.0, "temperature_limit_c.memory": 105.0, "temperature_limit_c.gpu": 87.0,
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
    from hotlap.core.measure.sensors.base import HARMLESS, THROTTLE

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
    options = json.dumps({"device": {"uuid": UUID}, "times": [1.0], "pause": 0})
    path = f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CHILD), options], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": path},
    )
    assert json.loads(done.stdout)["missing"]["nvml"] == "nvidia-ml-py cannot be imported (not here); pip install nvidia-ml-py"


# ---------------------------------------------------------------- health


def test_counters_of_health_in_base_units(ask: Ask) -> None:
    found = values(ask(
        FAKE_NVML_DRIVER="580.95.05",
        FAKE_NVML_FIELDS="74:1500000000,269:250000000,270:0,271:3,142:2,143:1,144:1,145:0,29:4,30:1,31:0,94:9,197:4096,198:8192,138@4294967295:3,139@4294967295:5",
    ))
    expected = {
        "throttle_s.software_power_cap": 1.5, "throttle_s.software_thermal": 0.25, "throttle_s.hardware_thermal": 0.0,
        "throttle_s.hardware_power_brake": 3e-9, "remapped_rows": 3.0, "remapped_rows.uncorrectable": 1.0, "remapped_rows.pending": 1.0,
        "remapped_rows.failure": 0.0, "retired_pages": 5.0, "retired_pages.pending": 0.0, "pcie_replays": 9.0, "pcie_bytes.sent": 4096.0,
        "pcie_bytes.received": 8192.0, "nvlink_bytes.sent": 3072.0, "nvlink_bytes.received": 5120.0,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize(("driver", "fields"), [("580.65.06", (251, 252, 253)), ("580.82.07", (269, 270, 271)), ("550.54.15", (251, 252, 253))])
def test_fields_that_were_renumbered_follow_the_driver(ask: Ask, driver: str, fields: tuple[int, ...]) -> None:
    every = ",".join(f"{field}:{field}000000000" for field in (251, 252, 253, 269, 270, 271))
    found = values(ask(FAKE_NVML_DRIVER=driver, FAKE_NVML_FIELDS=every))
    names = ("software_thermal", "hardware_thermal", "hardware_power_brake")
    assert [found[f"throttle_s.{name}"] for name in names] == pytest.approx(fields)


def test_between_two_numberings_nothing_is_guessed(ask: Ask) -> None:
    assert renumbered(None) == renumbered((580, 70)) == {}
    status, reason = states(ask(FAKE_NVML_DRIVER="580.70.01", FAKE_NVML_FIELDS="251:1,269:1"))["throttle_s.hardware_thermal"]
    assert status == "not_supported"
    assert "between 580.65 and 580.82" in reason


def test_constants_are_those_of_the_binding() -> None:
    n = pytest.importorskip("pynvml")
    from hotlap.core.measure.sensors import nvml, xid
    from hotlap.core.measure.sensors import nvml_health as h

    named = {
        "NVML_FI_DEV_POWER_INSTANT": nvml.POWER_INSTANT, "NVML_FI_DEV_POWER_AVERAGE": nvml.POWER_AVERAGE, "NVML_FI_DEV_MEMORY_TEMP": nvml.MEMORY_TEMPERATURE,
        "NVML_FI_DEV_REMAPPED_COR": h.REMAPPED_CORRECTABLE, "NVML_FI_DEV_REMAPPED_UNC": h.REMAPPED_UNCORRECTABLE,
        "NVML_FI_DEV_REMAPPED_PENDING": h.REMAPPED_PENDING, "NVML_FI_DEV_REMAPPED_FAILURE": h.REMAPPED_FAILURE,
        "NVML_FI_DEV_RETIRED_SBE": h.RETIRED_SINGLE, "NVML_FI_DEV_RETIRED_DBE": h.RETIRED_DOUBLE, "NVML_FI_DEV_RETIRED_PENDING": h.RETIRED_PENDING,
        "NVML_FI_DEV_PCIE_REPLAY_COUNTER": h.PCIE_REPLAYS, "NVML_FI_DEV_PCIE_COUNT_TX_BYTES": h.PCIE_SENT, "NVML_FI_DEV_PCIE_COUNT_RX_BYTES": h.PCIE_RECEIVED,
        "NVML_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS": h.PCIE_ERRORS["correctable"], "NVML_FI_DEV_PCIE_COUNT_NON_FATAL_ERROR": h.PCIE_ERRORS["nonfatal"],
        "NVML_FI_DEV_PCIE_COUNT_FATAL_ERROR": h.PCIE_ERRORS["fatal"], "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX": h.NVLINK_SENT[0],
        "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX": h.NVLINK_RECEIVED[0], "NVML_FI_DEV_NVLINK_LINK_COUNT": h.NVLINK_COUNT,
        "NVML_FI_DEV_NVLINK_ERROR_DL_CRC": h.NVLINK_ERRORS["crc"][0], "NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": h.NVLINK_ERRORS["crc"][1][0],
        "NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL": h.NVLINK_ERRORS["crc"][1][1], "NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY": h.NVLINK_ERRORS["replay"][0],
        "NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL": h.NVLINK_ERRORS["replay"][1][0], "NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY": h.NVLINK_ERRORS["recovery"][0],
        "NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": h.NVLINK_ERRORS["recovery"][1][0], "NVML_FI_DEV_NVLINK_COUNT_RCV_ERRORS": h.NVLINK_ERRORS["receive"][0],
        "NVML_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS": h.NVLINK_ERRORS["recovery_failed"][0],
        "NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS": h.NVLINK_ERRORS["effective"][0], "nvmlEventTypeXidCriticalError": xid.XID_EVENT,
        "NVML_ERROR_TIMEOUT": xid.TIMEOUT, "NVML_GPM_METRIC_SM_UTIL": gpm.METRICS["utilization.sm"][0], "NVML_GPM_METRIC_SM_OCCUPANCY": gpm.METRICS["utilization.warps"][0],
        "NVML_GPM_METRIC_ANY_TENSOR_UTIL": gpm.METRICS["utilization.tensor"][0], "NVML_GPM_METRIC_DRAM_BW_UTIL": gpm.METRICS["utilization.dram"][0],
        "NVML_GPM_METRIC_PCIE_TX_PER_SEC": gpm.METRICS["pcie_bytes_per_s.sent"][0], "NVML_GPM_METRIC_PCIE_RX_PER_SEC": gpm.METRICS["pcie_bytes_per_s.received"][0],
        "NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC": gpm.METRICS["nvlink_bytes_per_s.received"][0],
        "NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC": gpm.METRICS["nvlink_bytes_per_s.sent"][0], "NVML_MEMORY_ERROR_TYPE_UNCORRECTED": h.UNCORRECTED,
        "NVML_MEMORY_ERROR_TYPE_CORRECTED": h.CORRECTED, "NVML_VOLATILE_ECC": h.VOLATILE, "NVML_AGGREGATE_ECC": h.AGGREGATE,
        "NVML_TEMPERATURE_THRESHOLD_SLOWDOWN": h.LIMITS["slowdown"], "NVML_TEMPERATURE_THRESHOLD_SHUTDOWN": h.LIMITS["shutdown"],
        "NVML_TEMPERATURE_THRESHOLD_MEM_MAX": h.LIMITS["memory"], "NVML_TEMPERATURE_THRESHOLD_GPU_MAX": h.LIMITS["gpu"],
        **{f"NVML_FI_DEV_TEMPERATURE_{name}_TLIMIT": h.MARGINS[key] for name, key in (("SHUTDOWN", "shutdown"), ("SLOWDOWN", "slowdown"), ("MEM_MAX", "memory"), ("GPU_MAX", "gpu"))},
        **{f"NVML_FI_DEV_PERF_POLICY_{name}": h.HELD[key] for name, key in (
            ("POWER", "software_power_cap"), ("THERMAL", "thermal"), ("SYNC_BOOST", "sync_boost"), ("BOARD_LIMIT", "board_limit"),
            ("LOW_UTILIZATION", "low_utilization"), ("RELIABILITY", "reliability"))},
    }
    assert {name: getattr(n, name) for name in named} == named
    new = n.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN
    assert new in h.HELD_RENUMBERED["hardware_thermal"]  # whichever of the two the installed binding knows


def test_margins_of_temperature_are_signed_facts(ask: Ask) -> None:
    facts = ask(FAKE_NVML_FIELDS="193:-8,194:-2")["facts"]
    assert (facts["temperature_margin_c.shutdown"], facts["temperature_margin_c.slowdown"]) == (-8.0, -2.0)


def test_the_slowdown_temperature_follows_from_margins_where_there_is_no_threshold(ask: Ask) -> None:
    """54 °C now and 36 °C to the limit, slowdown 2 °C past it."""
    facts = ask(FAKE_NVML_FIELDS="194:-2", FAKE_NVML_FAIL="nvmlDeviceGetTemperatureThreshold:3")["facts"]
    assert facts["temperature_limit_c.slowdown"] == 92.0
    neither = ask(FAKE_NVML_FAIL="nvmlDeviceGetTemperatureThreshold:3,194:3")["facts"]
    assert "temperature_limit_c.slowdown" not in neither


def test_errors_of_links_are_summed_or_taken_from_the_older_sum(ask: Ask) -> None:
    found = values(ask(FAKE_NVML_FIELDS="91:4,161@0:1,161@1:2,161@3:4,38:5,45:6"))
    assert found["nvlink_errors.replay"] == 7.0  # link 2 is not connected
    assert found["nvlink_errors.crc"] == 11.0
    assert found["nvlink_errors.recovery"] is None


def test_a_device_without_links_says_so(ask: Ask) -> None:
    assert states(ask())["nvlink_errors.replay"] == ("not_supported", "this driver does not know field 91")


def test_a_link_that_stops_answering_is_no_counter_that_went_back() -> None:
    fields = Fields(None, None, [(161, 0), (161, 1)])
    links = NvLinks(fields, 161, 2)
    fields.answers = {(161, 0): 3.0, (161, 1): 4.0}
    assert links.total() == 7.0
    fields.answers[161, 1] = NotSupported("gone")
    with pytest.raises(MachineError, match="NVLink 1 no longer answers"):
        links.total()


def test_what_a_device_lacks_is_left_out_of_the_next_question(ask: Ask, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    ask(times=(1.0, 2.0, 3.0), FAKE_NVML_CALLS=str(calls), FAKE_NVML_FIELDS="143:1,142:1")
    names = calls.read_text().splitlines()
    assert names.count("144") == 1
    assert names.count("143") == 3


# ---------------------------------------------------------------- events


def test_every_xid_is_a_reading_and_the_last_stays(ask: Ask) -> None:
    answer = ask(times=(1.0, 2.0), FAKE_NVML_XIDS="79,48,48")
    first = [value for sensor, value, *_ in answer["sweeps"][0] if sensor == "xid"]
    assert first == [79.0, 48.0, 48.0]
    assert values(answer, 1)["xid"] == 48.0
    assert values(answer, 1)["xid.count"] == 3.0


def test_events_that_cannot_be_had(ask: Ask) -> None:
    assert states(ask(FAKE_NVML_FAIL="nvmlDeviceRegisterEvents:3"))["xid"] == ("not_supported", "the device does not support it")
    found = states(ask(FAKE_NVML_FAIL="nvmlEventSetWait_v2:999"))
    assert found["xid"] == found["xid.count"] == ("error", "NVML: Unknown Error")
    assert found["power_w"][0] == "ok"


# ---------------------------------------------------------------- performance monitoring


def test_averages_between_two_samples(ask: Ask) -> None:
    answer = ask(times=(1.0, 2.0), pause=0.12, FAKE_NVML_GPM="1", FAKE_NVML_FAIL="gpm60:3,gpm61:999")
    if "left to" in states(answer).get("utilization.sm", ("", ""))[1]:
        pytest.skip("a profiler runs on this machine")
    assert "utilization.sm" not in values(answer, 0)  # the source was opened in this reading
    found = values(answer, 1)
    assert [found[f"utilization.{part}"] for part in ("sm", "warps", "tensor", "dram")] == pytest.approx([0.02, 0.03, 0.05, 0.10])
    assert found["pcie_bytes_per_s.sent"] == 20 * 2**20
    assert states(answer, 1)["nvlink_bytes_per_s.received"][0] == "not_supported"
    assert states(answer, 1)["nvlink_bytes_per_s.sent"] == ("error", "NVML: error 999")


def test_monitoring_that_is_not_there_or_switched_off(ask: Ask) -> None:
    assert "came with Hopper" in states(ask())["utilization.sm"][1]
    assert states(ask(FAKE_NVML_GPM="1", HOTLAP_GPM="0"))["utilization.sm"] == ("not_supported", "switched off by HOTLAP_GPM=0")


def test_never_beside_a_profiler(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, reason = states(ask(FAKE_NVML_GPM="1", CUDA_INJECTION64_PATH="/opt/libinjection.so"))["utilization.tensor"]
    assert status == "error"
    assert reason == "left to the profiler that runs (CUDA_INJECTION64_PATH is set)"
    monkeypatch.delenv("CUDA_INJECTION64_PATH", raising=False)
    for number, name in ((1, "systemd"), (77, "ncu")):
        (tmp_path / f"proc/{number}").mkdir(parents=True)
        (tmp_path / f"proc/{number}/comm").write_text(f"{name}\n")
    assert gpm.profiler(FileTree(str(tmp_path))) == "ncu, process 77"
    calls: list[str] = []
    n = SimpleNamespace(
        nvmlGpmQueryDeviceSupport=lambda h: SimpleNamespace(isSupportedDevice=1), nvmlGpmSampleAlloc=object,
        nvmlGpmSampleGet=lambda h, s: calls.append("sample"), nvmlGpmSampleFree=lambda s: None, NVMLError=ValueError,
    )
    watched = gpm.Gpm(n, None, FileTree(str(tmp_path)))
    with pytest.raises(MachineError, match="ncu, process 77"):
        watched.read("gpu", 0.0)
    assert calls == []


def test_errors_of_links_are_asked_every_five_seconds(ask: Ask) -> None:
    answer = ask(times=(1.0, 2.0, 5.9, 6.5), FAKE_NVML_FIELDS="91:2,161@0:1,161@1:1")
    assert ["nvlink_errors.replay" in values(answer, sweep) for sweep in range(4)] == [True, False, False, True]
    assert all("nvlink_bytes.sent" in values(answer, sweep) for sweep in range(4))

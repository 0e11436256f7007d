"""Where the temperature comes from at which a device slows itself down, and what holds its clock now."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hotlap.core.measure import sensors, targets
from hotlap.core.measure.sensors import amd_smi, drm, limits, nvml
from hotlap.core.measure.sensors.base import HARMLESS
from hotlap.core.record import Device


def gpu(**about: str) -> Any:
    return SimpleNamespace(device=Device(**{"target": "torch", "index": 0, "name": "GPU", "kind": "gpu", **about}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("told", "hwmon", "amd", "found"),
    [
        ({"temperature_limit_c.slowdown": 92.0}, 100.0, 110.0, (92.0, "by NVML")),
        ({}, 100.0, 110.0, (100.0, "the critical temperature by hwmon")),
        ({}, None, 110.0, (110.0, "the critical temperature by AMD SMI")),
        ({}, None, None, (None, "neither NVML nor hwmon nor AMD SMI tells it")),
    ],
)
def test_the_first_source_that_tells(monkeypatch: pytest.MonkeyPatch, told: dict[str, float], hwmon: Any, amd: Any, found: Any) -> None:
    monkeypatch.setattr(nvml, "facts", lambda _device: told)
    monkeypatch.setattr(drm, "critical_c", lambda _device, _tree: hwmon)
    monkeypatch.setattr(amd_smi, "critical_c", lambda _device: amd)
    assert limits.slowdown_c(gpu()) == found


def test_a_processor_has_none_and_a_simulated_card_its_own() -> None:
    assert limits.slowdown_c(gpu(kind="cpu")) == (None, "a processor guards itself")
    spec = targets.parse("simulated:h200-sxm")
    target = targets.open_device(spec, targets.find(spec)[0])
    assert limits.slowdown_c(target) == (target.gpu.thermal.limit_c, "of the simulated card")  # type: ignore[attr-defined]


def test_amd_smi_tells_a_critical_temperature(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failed(Exception):
        pass

    def metric(_handle: Any, which: str, what: str) -> Any:
        if which == "edge":
            raise Failed("NOT_SUPPORTED")
        return {"now": 61, "critical": 100}[what]

    library = SimpleNamespace(
        AmdSmiTemperatureType=SimpleNamespace(EDGE="edge", JUNCTION="junction"),
        AmdSmiTemperatureMetric=SimpleNamespace(CURRENT="now", CRITICAL="critical"),
        AmdSmiLibraryException=Failed, amdsmi_get_temp_metric=metric,
    )  # fmt: skip
    monkeypatch.setattr(amd_smi, "opened", lambda _device: SimpleNamespace(a=library, h=None))
    assert amd_smi.critical_c(gpu().device) == 100.0


@pytest.mark.parametrize(
    ("faults", "names"),
    [("", []), ("throttle=0.3@0s&reason=hardware_thermal", ["hardware thermal"]), ("throttle=0.3@0s&reason=application_clocks", [])],
)
def test_what_holds_the_clock_now(faults: str, names: list[str]) -> None:
    spec = targets.parse(f"simulated:h200-sxm?{faults}".rstrip("?"))
    target = targets.open_device(spec, targets.find(spec)[0])
    assert limits.held(sensors.find(target), 0.0, HARMLESS) == names

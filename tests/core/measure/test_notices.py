"""Notices that sensors raise: of readings taken while the samples were, and of no others."""

from __future__ import annotations

from typing import Any

import pytest

from hotlap.core.measure.notices import notices
from hotlap.core.measure.sensors.base import THROTTLE
from hotlap.core.record import Device, Notice, Readings, Samples

GPU = Device(target="t", index=0, name="n", kind="gpu", clock_max_hz=2e9)
SAMPLES = Samples(case="c", device="d", round=0, began_s=10.0, ended_s=20.0)
CAP = next(bit for bit, name in THROTTLE.items() if "software power" in name)


def found(sensor: str, *pairs: tuple[float, float | None], device: Device = GPU) -> list[Notice]:
    given: dict[str, Any] = {"times_s": [t for t, _ in pairs], "values": [v for _, v in pairs]}
    return notices(SAMPLES, [Readings(sensor=sensor, device="d", round=0, **given)], device)


def test_only_readings_of_the_case_s_own_time_count() -> None:
    assert found("processes", (9.99, 3.0), (20.01, 3.0)) == []
    assert found("processes", (10.0, 2.0), (20.0, 0.0)) == [Notice(code="shared_device", seen="2 other processes on the device")]
    assert found("processes", (20.0, 1.0))[0].code == "shared_device"
    assert found("processes", (15.0, None)) == []


@pytest.mark.parametrize(("clock", "low"), [(1.93e9, True), (1.94e9, False), (2e9, False)])
def test_a_low_clock_is_under_97_percent_of_the_highest(clock: float, low: bool) -> None:
    assert [f.code for f in found("clock_hz.sm", (11.0, clock), (12.0, clock), (13.0, 1e9))] == ["low_clock"] * low


def test_a_throttle_is_named_and_a_harmless_one_is_not() -> None:
    (notice,) = found("throttle", (11.0, 0.0), (12.0, float(CAP)))
    assert (notice.code, notice.shares) == ("throttled", {THROTTLE[CAP]: 0.5})
    assert found("throttle", (11.0, 0.0)) == []
    assert found("throttle", (11.0, float(next(bit for bit, name in THROTTLE.items() if name == "idle")))) == []


@pytest.mark.parametrize("sensor", ["power_w", "clock_hz.sm", "throttle"])
def test_sensors_of_a_card_are_doubted_for_its_slice(sensor: str) -> None:
    part = Device(target="cuda", index=0, name="NVIDIA H200 MIG 1g.18gb", kind="gpu", facts={"mig": "1g.18gb"})
    (notice,) = found(sensor, (11.0, 0.0), device=part)
    assert notice.code == "whole_card"
    assert notice.seen == "power, clock and temperature are of the whole card, not of its slice 1g.18gb"
    assert "whole_card" not in {one.code for one in found(sensor, (11.0, 0.0))}
    assert found("memory_used_bytes", (11.0, 1.0), device=part) == []  # its own

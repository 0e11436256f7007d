"""Sampling on a virtual clock, where sweeps happen as time passes, and on the real one."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from hotlap.core.measure import sensors
from hotlap.core.measure.sensors.base import SensorSource
from hotlap.core.measure.sensors.sampler import Sampler
from hotlap.core.measure.sensors.simulated import SimulatedSource
from hotlap.core.measure.targets.base import SystemClock
from hotlap.core.measure.targets.virtual_clock import VirtualClock
from hotlap.core.record import Device, Reading, Readings


class Scripted:
    """A source whose sensor `load` shows the time, and that does what a test asks at each sweep."""

    name, device = "scripted", "host"

    def __init__(self, clock: VirtualClock, cost_s: float = 0.0) -> None:
        self.clock, self.cost_s, self.sweeps = clock, cost_s, 0

    def names(self) -> Sequence[str]:
        return ["load", "fan"]

    def read(self, time_s: float) -> list[Reading]:
        self.sweeps += 1
        self.clock.time_s += self.cost_s
        lacking = Reading(sensor="fan", device="host", time_s=time_s, status="not_supported", reason="no fan")
        if self.sweeps == 2:
            return [Reading(sensor="load", device="host", time_s=time_s, status="error", reason="slipped"), lacking]
        return [Reading(sensor="load", device="host", time_s=time_s, value=time_s), lacking]


class Raising(Scripted):
    def read(self, time_s: float) -> list[Reading]:
        raise RuntimeError("the driver is gone\nsecond line")


def by_sensor(readings: list[Readings]) -> dict[str, Readings]:
    assert len({r.sensor for r in readings}) == len(readings)
    return {r.sensor: r for r in readings}


def test_sweeps_happen_as_virtual_time_passes() -> None:
    clock = VirtualClock()
    sampler = Sampler(clock, [Scripted(clock)], 0.1)
    sampler.start()
    clock.sleep(0.35)
    load = by_sensor(sampler.drain())["load"]
    assert load.times_s == pytest.approx([0.1, 0.2, 0.3])
    assert load.values == [pytest.approx(0.1), None, pytest.approx(0.3)]
    assert (load.status, load.reason) == ("ok", "slipped")
    clock.sleep(0.1)
    assert by_sensor(sampler.drain())["load"].times_s == pytest.approx([0.4])


def test_what_is_not_supported_is_written_once() -> None:
    clock = VirtualClock()
    sampler = Sampler(clock, [Scripted(clock)], 0.1)
    sampler.start()
    clock.sleep(0.25)
    fan = by_sensor(sampler.drain())["fan"]
    assert (fan.status, fan.reason, fan.times_s, fan.values) == ("not_supported", "no fan", [], [])
    clock.sleep(0.2)
    assert "fan" not in by_sensor(sampler.drain())


def test_nothing_is_read_before_start_and_after_stop() -> None:
    clock = VirtualClock()
    sampler = Sampler(clock, [Scripted(clock)], 0.1)
    clock.sleep(1.0)
    assert sampler.drain() == []
    sampler.start()
    sampler.start()
    clock.sleep(0.15)
    sampler.stop()
    sampler.stop()
    clock.sleep(1.0)
    assert len(by_sensor(sampler.drain())["load"].values) == 1  # kept after stop, and read once although started twice


def test_a_source_that_raises_silences_no_other() -> None:
    clock = VirtualClock()
    sampler = Sampler(clock, [Raising(clock), SimulatedSource(Card(), "gpu")], 0.1)
    sampler.start()
    clock.sleep(0.25)
    readings = sampler.drain()
    assert {r.sensor for r in readings if r.device == "host"} == {"load", "fan"}  # all that the source names
    found = by_sensor([r for r in readings if (r.sensor, r.device) != ("fan", "host")])
    assert found["load"].status == "error"
    assert found["load"].reason == "RuntimeError: the driver is gone"
    assert found["load"].values == [None, None]
    assert found["power_w"].values == [100.0, 100.0]


def test_cost_is_measured_and_a_sweep_longer_than_its_period_is_said() -> None:
    clock = VirtualClock()
    source = Scripted(clock, cost_s=0.002)
    sampler = Sampler(clock, [source], 0.1)
    sampler.start()
    clock.sleep(1.0)
    assert sampler.cost_s == pytest.approx(0.002)
    assert sampler.share == pytest.approx(0.02)
    assert sampler.notices == []
    source.cost_s = 0.15
    clock.sleep(0.5)
    assert "longer than their period of 100 ms, the longest 150 ms" in sampler.notices[0].text
    assert sampler.notices[0].text.endswith("readings are fewer than asked")  # no option of each verb asks for fewer


def test_without_sources_nothing_runs() -> None:
    clock = VirtualClock()
    sampler = Sampler(clock, [], 0.1)
    sampler.start()
    clock.sleep(1.0)
    assert (sampler.drain(), sampler.cost_s, clock.due) == ([], 0.0, [])
    sampler.stop()


def test_on_the_real_clock_sampling_goes_on_beside_the_caller() -> None:
    clock = SystemClock()
    target: Any = SimpleNamespace(device=Device(target="opencl", index=0, name="this CPU", kind="cpu"), clock=clock)
    sources = sensors.find(target)
    assert "system" in {s.name for s in sources}
    sampler = Sampler(clock, sources, 0.02)
    sampler.start()
    began = clock.now()
    while sampler.sweeps < 3 and clock.now() < began + 20:
        clock.sleep(0.01)
    sampler.stop()
    memory = by_sensor(sampler.drain())["memory_used_bytes"]
    assert len(memory.values) >= 3
    assert memory.times_s == sorted(memory.times_s)
    assert sampler.cost_s > 0


# ---------------------------------------------------------------- simulated


class Card:
    """What the simulated target offers as `gpu`."""

    dead = frozenset({"temperature_c"})

    def readings(self, time_s: float) -> dict[str, float | None]:
        return {"power_w": 100.0, "temperature_c": 50.0, "fan": None}


def test_simulated_sensors_are_dead_lacking_or_alive() -> None:
    source: SensorSource = SimulatedSource(Card(), "gpu")
    found = {r.sensor: (r.value, r.status, r.reason) for r in source.read(1.0)}
    assert found == {
        "power_w": (100.0, "ok", ""), "temperature_c": (None, "error", "no answer"),
        "fan": (None, "not_supported", "the simulated card has none"),
    }
    assert source.names() == ["fan", "power_w", "temperature_c"]


# ---------------------------------------------------------------- which sources a target has


def target_of(**about: Any) -> Any:
    return SimpleNamespace(device=Device(**{"target": "opencl", "index": 0, "name": "X", **about}), clock=SystemClock())


def test_a_processor_has_the_host() -> None:
    target = target_of(kind="cpu", vendor="AuthenticAMD")
    assert "system" in {s.name for s in sensors.find(target)}
    assert not {"nvml", "drm", "simulated"} & {*sensors.missing(target), *(s.name for s in sensors.find(target))}


def test_a_gpu_without_a_source_says_so() -> None:
    target = target_of(kind="gpu", vendor="Imagination", pci_address="ffff:ff:1f.7")
    assert "system" in {s.name for s in sensors.find(target)}
    assert "/sys/class/drm" in sensors.missing(target)["drm"]


def test_a_simulated_gpu_has_its_own_sensors_alone() -> None:
    target = target_of(kind="gpu", vendor="NVIDIA", target="simulated", uuid="simulated-x")
    target.gpu = Card()
    (source,) = sensors.find(target)
    assert (source.name, source.device) == ("simulated", "simulated-x")
    assert sensors.missing(target) == {}


def test_every_source_of_the_table_has_its_module() -> None:
    import importlib

    for name, about in sensors.SOURCES.items():
        module = importlib.import_module(f"hotlap.core.measure.sensors.{name}")
        assert callable(module.find)
        assert callable(module.missing)
        assert about

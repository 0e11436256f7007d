"""The core's clock by a chain of multiplications: that the machine code computes what it should, and when nothing is said."""

from __future__ import annotations

import mmap
import os
import platform
from collections.abc import Iterator
from typing import Any

import pytest

from hotlap.core.measure.sensors import cpu_clock
from hotlap.core.measure.targets.base import SystemClock
from hotlap.core.measure.targets.virtual_clock import VirtualClock

here = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64") or platform.system() != "Linux", reason="the chain is machine code for x86-64 Linux"
)


@pytest.fixture
def fresh() -> Iterator[None]:
    """Forgets what was found out about this machine, before and after."""
    caches: tuple[Any, ...] = (cpu_clock.why_not, cpu_clock._chains)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


@here
def test_the_chains_compute_what_they_should() -> None:
    multiply, rotate = cpu_clock._chains()
    squared, turned = 3, 3
    for _ in range(cpu_clock.LINKS * 2):
        squared = squared * squared % 2**64
        turned = (turned << 7 | turned >> 57) % 2**64
    assert multiply(2, 3) == squared
    assert rotate(2, 3) == turned


@here
def test_this_core_runs_at_a_clock_that_processors_have() -> None:
    if reason := cpu_clock.why_not():
        pytest.skip(reason)
    found = cpu_clock.measure(SystemClock(), repeats=3)
    assert found is not None
    assert 1e8 < found < 1e10


@here
def test_the_clock_of_the_cores_that_carry_a_load_leaves_the_affinity_as_it_was() -> None:
    if reason := cpu_clock.why_not():
        pytest.skip(reason)
    allowed = os.sched_getaffinity(0)
    found = cpu_clock.of_cores(SystemClock(), sorted(allowed)[:2], repeats=2)
    assert found is not None
    assert 1e8 < found < 1e10
    assert cpu_clock.of_cores(SystemClock(), [max(allowed) + 4096]) is None  # no such core
    assert os.sched_getaffinity(0) == allowed


@here
def test_the_clock_as_a_sensor() -> None:
    if reason := cpu_clock.why_not():
        pytest.skip(reason)
    source = cpu_clock.source(SystemClock())
    (reading,) = source.read(5.0)
    assert (reading.sensor, reading.device, reading.time_s, reading.status) == ("clock_hz.core", "host", 5.0, "ok")
    assert source.names() == ["clock_hz.core"]


@here
def test_a_clock_that_stands_still_gives_no_number() -> None:
    assert cpu_clock.measure(VirtualClock()) is None
    (reading,) = cpu_clock.source(VirtualClock()).read(0.0)
    assert (reading.value, reading.status == "ok") == (None, False)


@pytest.mark.usefixtures("fresh")
def test_another_processor_is_told_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert "x86-64, and this is aarch64" in cpu_clock.why_not()
    assert cpu_clock.measure(SystemClock()) is None
    (reading,) = cpu_clock.source(SystemClock()).read(0.0)
    assert (reading.status, reading.reason) == ("not_supported", cpu_clock.why_not())


@here
@pytest.mark.usefixtures("fresh")
def test_a_system_that_refuses_executable_memory_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(mmap, "mmap", refuse)
    assert cpu_clock.why_not().startswith("the system refuses executable memory (Permission denied)")
    assert cpu_clock.measure(SystemClock()) is None


def test_a_core_that_multiplies_in_other_than_3_cycles_is_not_believed() -> None:
    assert cpu_clock._doubt(lambda: 3.02) == ""
    assert "5.01 times as long as a rotation" in cpu_clock._doubt(lambda: 5.01)
    noisy = iter([4.2, 3.5, 2.99])
    assert cpu_clock._doubt(lambda: next(noisy)) == ""

"""A processor as a Spec, from what it reports of itself: CPUID family, model and flags, which a virtual machine shows even
where it hides the rest."""

from __future__ import annotations

import functools
import importlib.resources
import tomllib
from collections.abc import Mapping
from typing import Any

from hotlap.core.model.machines import Spec
from hotlap.core.record import Cpu


@functools.cache
def cores() -> list[dict[str, Any]]:
    """The table of cores, in order of preference."""
    text = (importlib.resources.files("hotlap.core.model") / "cpus.toml").read_text(encoding="utf-8")
    table: list[dict[str, Any]] = tomllib.loads(text)["core"]
    return table


def find(cpu: Cpu) -> dict[str, Any] | None:
    """The first core of the table that fits vendor, family, model and flags; None when none does."""
    return next((core for core in cores() if _fits(core, cpu)), None)


def _fits(core: Mapping[str, Any], cpu: Cpu) -> bool:
    if cpu.vendor.lower() not in [v.lower() for v in core["vendors"]]:
        return False
    if "family" in core and core["family"] != cpu.family:
        return False
    if "models" in core and not (cpu.model is not None and any(low <= cpu.model <= high for low, high in core["models"])):
        return False
    return set(core.get("needs", ())) <= set(cpu.flags)


def spec(cpu: Cpu, clock_hz: float | None = None) -> Spec:
    """What is known of the processor. `clock_hz` is measured, its error included; the higher of it and the published one counts.

    Without a measurement the clock that the system reports may be a base clock, so it proves nothing (`clock_proven`). No
    public table gives a host's memory bandwidth; it stays unknown.
    """
    core = find(cpu)
    known = [hz for hz in (clock_hz, cpu.clock_max_hz) if hz]
    return Spec(
        slug="cpu", name=cpu.name or "processor", vendor=cpu.vendor, kind="cpu", architecture=core["name"] if core else "",
        sources=(core["source"],) if core else (), compute_units=cpu.cores, clock_max_hz=max(known) if known else None,
        clock_proven=bool(clock_hz), clock_source=_clock_source(cpu, clock_hz), flop_per_clock=_rates(core, cpu) if core else {},
        l1_bytes=cpu.cache_bytes.get("l1d"), l2_bytes=cpu.cache_bytes.get("l2"), llc_bytes=cpu.cache_bytes.get("l3"),
        l1_load_bytes_per_clock=core.get("l1_load_bytes_per_clock") if core else None,
        l1_store_bytes_per_clock=core.get("l1_store_bytes_per_clock") if core else None,
    )


def _clock_source(cpu: Cpu, clock_hz: float | None) -> str:
    if clock_hz and clock_hz >= (cpu.clock_max_hz or 0.0):
        return "highest clock measured in the run, by a chain of dependent multiplications"
    if clock_hz:
        return "highest clock that the system reports, above all measured ones"
    return "clock that the system reports, which may be a base clock" if cpu.clock_max_hz else ""


def _rates(core: Mapping[str, Any], cpu: Cpu) -> dict[str, float]:
    rates: dict[str, float] = dict(core["flop_per_clock"])
    for flag, more in core.get("with", {}).items():
        if flag in cpu.flags:
            for unit, rate in more.items():
                rates[unit] = max(rate, rates.get(unit, 0.0))
    return rates

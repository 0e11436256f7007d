"""What reading the sensors costs: the sampler's share of one core at 10 Hz on this machine.

    python benchmarks/sampler.py [--json] [--target opencl:cpu] [--hz 10] [--seconds 5]

`share` is what the sampler itself says: the median time of a sweep by the clock × the rate. `cpu_share` is the CPU time of
the whole process while its main thread sleeps and the sampler runs, less that of the same sleep without it.
"""

from __future__ import annotations

import argparse
import json
import time
from types import SimpleNamespace
from typing import Any

PROMISED_SHARE = 0.005


def target_of(spec: str) -> Any:
    """An opened target; the bare host when none is named."""
    from hotlap import targets
    from hotlap.record import Device
    from hotlap.targets.base import SystemClock

    if not spec:
        return SimpleNamespace(device=Device(target="host", index=0, name="host", kind="cpu"), clock=SystemClock())
    parsed = targets.parse(spec)
    return targets.open_device(parsed, targets.find(parsed)[0])


def cpu_s(seconds: float) -> float:
    began = time.process_time()
    time.sleep(seconds)
    return time.process_time() - began


def measure(spec: str, hz: float, seconds: float) -> dict[str, Any]:
    from hotlap import sensors
    from hotlap.sensors.sampler import Sampler

    target = target_of(spec)
    sources = sensors.find(target)
    sampler = Sampler(target.clock, sources, 1 / hz)
    cpu_s(1.0)  # what opening the target left running comes to rest
    idle_s = cpu_s(seconds)
    sampler.start()
    busy_s = cpu_s(seconds)
    sampler.stop()
    readings = sampler.drain()
    return {
        "target": spec or "host", "hz": hz, "sources": [s.name for s in sources], "missing": sensors.missing(target),
        "sensors": sum(r.status != "not_supported" for r in readings), "not_supported": sum(r.status == "not_supported" for r in readings),
        "sweeps": sampler.sweeps, "sweep_s": sampler.cost_s, "share": sampler.share, "cpu_share": (busy_s - idle_s) / seconds,
        "warnings": sampler.warnings,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--target", default="", help="a target specification, as in opencl:cpu; the bare host when left out")
    parser.add_argument("--hz", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    figures = measure(options.target, options.hz, options.seconds)
    if options.json:
        print(json.dumps(figures, indent=1))
        return
    print(f"{figures['target']}: {', '.join(figures['sources'])} at {figures['hz']:g} Hz, {figures['sensors']} sensors, "
          f"{figures['not_supported']} not supported, {figures['sweeps']} sweeps")
    print(f"one sweep, median               {figures['sweep_s'] * 1e6:7.1f} µs")
    print(f"share of one core, by sweeps    {figures['share']:7.3%}     promised < {PROMISED_SHARE:.1%}")
    print(f"share of one core, CPU time     {figures['cpu_share']:7.3%}")
    for line in [*figures["warnings"], *(f"{name}: {reason}" for name, reason in figures["missing"].items())]:
        print(line)


if __name__ == "__main__":
    main()

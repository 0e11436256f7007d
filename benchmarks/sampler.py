"""What reading sensors costs: Hotlap's own share of a core without the driver's calls, the driver's time, and the effect on a case.

    python benchmarks/sampler.py own [--devices 8] [--sensors 20] [--hz 10] [--seconds 30] [--json]
    python benchmarks/sampler.py target [SPEC] [--hz 10] [--seconds 5] [--json]
    python benchmarks/sampler.py effect [SPEC] [--processes 8] [--sweeps 100] [--json]
    python benchmarks/sampler.py effect [SPEC] --windows [--processes 8] [--blocks 12] [--json]

`own`: sources made for this, one per device, whose sensors each keep the processor busy for 20 µs, as a driver's call would. The
sampler times each call; its own share is the rest of its sweeps by the clock, so that on a busy machine it holds waits too. The CPU time
is that of the whole process less that of the same sleep without the sampler. `target`: the same of a real target, or of the bare host.

`effect`: a triad in memory, called again and again in fresh processes while the sampler runs. Each sweep falls into a call; that call
and the next are compared with the two before and the two after, into which no sweep fell, so that a drift cancels; the same of the
moment midway to the next sweep is taken off, since any moment falls into a long call more often than into a short one. What a sweep
adds, the mean without the tenth at either end, times the rate is the effect of a process; the upper limit is Student's, over processes.
`--windows` does without knowing where sweeps fall: blocks of four windows of 0.3 s, with the sampler, without, without, with (or the
reverse, drawn), and the mean logarithm of the times' ratio; plain, but much wider where others use the machine.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import numpy as np

PROMISED_OWN = 0.01  # of one core
PROMISED_EFFECT = {"cpu": 0.01, "gpu": 0.002}
CALL_S = 20e-6  # of a made driver: about what NVML takes for a clock
SIZE, CALL_SIZE = "256 MiB", "16 MiB"
WINDOW_S = 0.3  # three sweeps at 10 Hz


def target_of(spec: str) -> Any:
    """An opened target; the bare host when none is named."""
    from hotlap.core.measure import targets
    from hotlap.core.measure.targets.base import SystemClock
    from hotlap.core.record import Device

    if not spec:
        return SimpleNamespace(device=Device(target="host", index=0, name="host", kind="cpu"), clock=SystemClock())
    parsed = targets.parse(spec)
    return targets.open_device(parsed, targets.find(parsed)[0])


def cpu_s(seconds: float) -> float:
    began = time.process_time()
    time.sleep(seconds)
    return time.process_time() - began


class Made:
    """A device whose sensors take a known time and give a new value each."""

    name = "made"

    def __init__(self, device: str, sensors: int) -> None:
        from hotlap.core.measure.sensors.gauge import SensorProbe

        self.device = device
        self.gauges = [SensorProbe(f"power_w.part{i}", self._busy, window_s=0.0) for i in range(sensors)]

    @staticmethod
    def _busy(time_s: float) -> float:
        end = time.perf_counter() + CALL_S
        while time.perf_counter() < end:
            pass
        return time_s % 100.0

    def names(self) -> list[str]:
        return [one.name for one in self.gauges]

    def read(self, time_s: float) -> list[Any]:
        from hotlap.core.measure.sensors.gauge import read_all

        return read_all(self.gauges, self.device, time_s)


def sampled(clock: Any, sources: list[Any], hz: float, seconds: float) -> dict[str, Any]:
    """Shares of one core, by sweeps and by CPU time, and the driver's time by sensor."""
    from hotlap.core.measure.sensors.gauge import spent
    from hotlap.core.measure.sensors.sampler import Sampler

    sampler = Sampler(clock, sources, 1 / hz)
    cpu_s(1.0)  # what opening the target left running comes to rest
    idle_s = cpu_s(seconds)
    sampler.start()
    busy_s = cpu_s(seconds)
    sampler.stop()
    driver: dict[str, list[float]] = {}
    for source in sources:
        for name, one in spent(source).items():
            if one.calls:
                calls = driver.setdefault(f"{source.name} {name}", [0, 0.0])
                calls[0] += one.calls
                calls[1] += one.seconds
    readings = sampler.drain()
    return {
        "hz": hz, "sweeps": sampler.sweeps, "values": sum(len(one.values) for one in readings), "sweep_s": sampler.cost_s,
        "share": sampler.share, "driver_share": sampler.driver_s / sampler.sweeps * hz, "own_share": sampler.own_share,
        "cpu_share": (busy_s - idle_s) / seconds,
        "driver_s": {name: seconds / calls for name, (calls, seconds) in driver.items()},
        "notices": [notice.text for notice in sampler.notices],
    }


def own(options: argparse.Namespace) -> dict[str, Any]:
    from hotlap.core.measure.targets.base import SystemClock

    made = [Made(f"gpu-{i}", options.sensors) for i in range(options.devices)]
    figures = sampled(SystemClock(), made, options.hz, options.seconds)
    return {"what": f"{options.devices} made devices × {options.sensors} sensors"} | figures


def target(options: argparse.Namespace) -> dict[str, Any]:
    from hotlap.core.measure import sensors

    opened = target_of(options.spec)
    found = sensors.find(opened)
    names = ", ".join(dict.fromkeys(one.name for one in found))
    figures = sampled(opened.clock, list(found), options.hz, options.seconds)
    return {"what": f"{options.spec or 'host'}: {names}", "missing": sensors.missing(opened)} | figures


# ---------------------------------------------------------------- effect on a case


def windows(spec: str, blocks: int, hz: float, seed: int) -> list[float]:
    """In this process: logarithm of time with ÷ time without the sampler, one per block of four windows."""
    from hotlap.core import plan
    from hotlap.core.measure import sensors, workloads
    from hotlap.core.measure.sensors.sampler import Sampler

    opened = target_of(spec)
    case = plan.case("stream", {"op": "triad", "dtype": "fp32", "size": SIZE})
    prepared = workloads.prepare(opened, case, seed)
    sources = list(sensors.find(opened))

    def window(sampling: bool) -> float:
        sampler = Sampler(opened.clock, sources, 1 / hz)
        if sampling:
            sampler.start()
        calls, began = 0, time.perf_counter()
        while time.perf_counter() - began < WINDOW_S:
            opened.time(prepared.enqueue, prepared.multiple)
            calls += prepared.multiple
        took = (time.perf_counter() - began) / calls
        sampler.stop()
        return took

    order, rows = random.Random(seed), []
    window(True)  # compiles, pages in, wakes up
    for _ in range(blocks):
        first = order.random() < 0.5
        a, b, c, d = (window(sampling) for sampling in (first, not first, not first, first))
        rows.append((math.log(a * d) - math.log(b * c)) / 2 * (1 if first else -1))
    return rows


def around(spec: str, sweeps: int, hz: float, seed: int) -> list[float]:
    """In this process: what each sweep added to the calls around it, as a share of the sampler's period."""
    from hotlap.core import plan
    from hotlap.core.measure import sensors, workloads
    from hotlap.core.measure.sensors.sampler import Sampler

    opened = target_of(spec)
    case = plan.case("stream", {"op": "triad", "dtype": "fp32", "size": CALL_SIZE})
    prepared = workloads.prepare(opened, case, seed)
    began_s: list[float] = []

    class Marked(Sampler):
        def _sweep(self) -> None:
            began_s.append(time.perf_counter())
            super()._sweep()

    for _ in range(20):
        opened.time(prepared.enqueue, prepared.multiple)  # compiles, pages in, wakes up
    sampler = Marked(opened.clock, list(sensors.find(opened)), 1 / hz)
    edges = [time.perf_counter()]
    sampler.start()
    while len(began_s) < sweeps:
        opened.time(prepared.enqueue, prepared.multiple)
        edges.append(time.perf_counter())
    sampler.stop()
    calls_s, hit = np.diff(edges), np.searchsorted(edges, began_s) - 1
    clear = np.ones(len(calls_s), dtype=bool)
    for k in hit:
        clear[max(k, 0) : k + 2] = False

    def added(k: int) -> float:
        """By the calls k and k + 1 over those around, in s; NaN where a sweep fell among those."""
        if not (2 <= k < len(calls_s) - 3 and clear[k - 2 : k].all() and clear[k + 2 : k + 4].all()):
            return math.nan
        return float(calls_s[k : k + 2].sum() - (calls_s[k - 2 : k].sum() + calls_s[k + 2 : k + 4].sum()) / 2)

    blank = np.searchsorted(edges, np.array(began_s) + 0.5 / hz) - 1  # a moment falls into a long call rather than a short one
    usable = [b < len(clear) - 1 and clear[b : b + 2].all() for b in blank.tolist()]
    pairs = [added(k) - added(b) for k, b, good in zip(hit.tolist(), blank.tolist(), usable, strict=True) if good]
    return [difference * hz for difference in pairs if math.isfinite(difference)]


def middle(values: list[float]) -> float:
    """Mean without the tenth at either end."""
    cut = len(values) // 10
    return float(np.mean(sorted(values)[cut : len(values) - cut]))


def effect(options: argparse.Namespace) -> dict[str, Any]:
    from hotlap.core.stats import student

    means, every = [], []
    verb, of = ("windows", np.mean) if options.windows else ("around", middle)
    for number in range(options.processes):
        command = [sys.executable, __file__, verb, options.spec, "--blocks", str(options.blocks), "--sweeps", str(options.sweeps)]
        command += ["--hz", str(options.hz), "--seed", str(number)]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        if len(found) < 10:
            sys.exit(f"only {len(found)} comparisons in a process: a call is too long to lie between two sweeps")
        means.append(float(of(found)))
        every += found
    mean, error = float(np.mean(means)), float(np.std(means, ddof=1)) / math.sqrt(len(means))
    reach = student.quantile(0.95, len(means) - 1)
    kind = target_of(options.spec).device.kind
    promised = PROMISED_EFFECT.get(kind, 0.01)
    room = promised - max(mean, 0.0)
    needed = math.ceil(len(means) * (reach * error / room) ** 2) if room > 0 else None
    return {
        "what": f"{options.spec}, triad of {SIZE if options.windows else CALL_SIZE}, sampler at {options.hz:g} Hz",
        "processes": len(means), "compared": "blocks of windows" if options.windows else "sweeps", "comparisons": len(every),
        "mean": mean, "upper": mean + reach * error, "deviation": float(np.std(every, ddof=1)),
        "promised": promised, "needed": needed,
    }


# ---------------------------------------------------------------- as text


def text(figures: dict[str, Any]) -> str:
    lines = [f"{figures['what']} at {figures['hz']:g} Hz: {figures['values']:,} values in {figures['sweeps']} sweeps"]
    lines.append(f"one sweep, median              {figures['sweep_s'] * 1e6:8.1f} µs")
    lines.append(f"share of one core, in drivers  {figures['driver_share']:8.3%}")
    lines.append(f"share of one core, Hotlap's    {figures['own_share']:8.3%}     promised ≤ {PROMISED_OWN:.0%}")
    lines.append(f"CPU time of all, drivers too   {figures['cpu_share']:8.3%}     with the wake-ups that a sweep does not see")
    driver = figures["driver_s"]
    some = list(driver.items())[:24]
    if len({name.partition(".")[0] for name in driver}) == 1 and len(driver) > 1:
        low, high = min(driver.values()), max(driver.values())
        lines.append(f"driver, per call and sensor    {low * 1e6:8.1f} to {high * 1e6:.1f} µs; made to take {CALL_S * 1e6:.0f} µs")
    else:
        lines += ["driver, per call:", *(f"  {name:<36}{seconds * 1e6:9.1f} µs" for name, seconds in some)]
    lines += [*figures["notices"], *(f"{name}: {reason}" for name, reason in figures.get("missing", {}).items())]
    return "\n".join(lines)


def told_effect(figures: dict[str, Any]) -> str:
    lines = [f"{figures['what']}: {figures['processes']} processes, {figures['comparisons']} {figures['compared']}"]
    lines.append(f"effect on the time of a call   {figures['mean']:+8.3%}")
    lines.append(f"95 % upper limit               {figures['upper']:+8.3%}     promised < {figures['promised']:.1%}")
    lines.append(f"spread of one comparison       {figures['deviation']:8.3%}")
    if figures["upper"] >= figures["promised"]:
        needed = f"about {figures['needed']} processes" if figures["needed"] else "a smaller effect: the mean alone is above it"
        lines.append(f"noise hides it here: an upper limit below the promise would take {needed}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name, seconds in (("own", 30.0), ("target", 5.0), ("effect", 0.0), ("windows", 0.0), ("around", 0.0)):
        command = verbs.add_parser(name)
        command.add_argument("--json", action="store_true")
        command.add_argument("--hz", type=float, default=10.0)
        command.add_argument("--seconds", type=float, default=seconds)
        if name == "own":
            command.add_argument("--devices", type=int, default=8)
            command.add_argument("--sensors", type=int, default=20)
        else:
            command.add_argument("spec", nargs="?", default="" if name == "target" else "opencl")
            command.add_argument("--processes", type=int, default=8)
            command.add_argument("--blocks", type=int, default=12)
            command.add_argument("--sweeps", type=int, default=100)
            command.add_argument("--seed", type=int, default=0)
        if name == "effect":
            command.add_argument("--windows", action="store_true")
    options = parser.parse_args()
    if options.verb in ("windows", "around"):
        call, count = (windows, options.blocks) if options.verb == "windows" else (around, options.sweeps)
        print(json.dumps(call(options.spec, count, options.hz, options.seed)))
        return
    figures = {"own": own, "target": target, "effect": effect}[options.verb](options)
    print(json.dumps(figures, indent=1) if options.json else (told_effect if options.verb == "effect" else text)(figures))


if __name__ == "__main__":
    main()

"""hotlap node watch"""

from __future__ import annotations

import argparse
import asyncio
import math
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from hotlap.cli import terminal
from hotlap.core import units
from hotlap.core.errors import InputError, MachineError
from hotlap.core.measure import sensors, targets
from hotlap.core.measure.sensors import drm
from hotlap.core.measure.sensors.tree import FileTree
from hotlap.core.measure.targets import host
from hotlap.core.measure.targets.base import SystemClock
from hotlap.core.record import Device, Reading, Stop
from hotlap.nodes.cli import periods as showing
from hotlap.nodes.cli import watching
from hotlap.nodes.cli.sinks import About, Sink, open_sink
from hotlap.nodes.sensors import bmc, bmc_background, bmc_file, ipmi, periods, prometheus
from hotlap.nodes.sensors.tally import SensorStats

STEPPING_S, STEP_S = 0.25, 0.005  # how long, and how often, an energy counter is read at first to see how often it steps
Take = Callable[[list[Reading]], None]


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", default="", help="as in simulated:h200-sxm (default: every GPU here with a source, and the host)")
    parser.add_argument("--device", default="", metavar="INDEX|UUID|all", help="only this; all: every GPU, beside --bmc or --scrape")
    parser.add_argument("--bmc", metavar="FILE", help="a TOML file of [[bmc]] tables: poll these by Redfish; alone, or beside --device")
    parser.add_argument("--scrape", action="append", default=[], metavar="URL", help="an endpoint of Prometheus or DCGM; may be repeated")
    parser.add_argument("--ipmi", action="store_true", help="this machine's BMC through ipmitool")
    parser.add_argument("--for", dest="length", metavar="TIME", help="end after this, as in '1 h' (default: until Ctrl-C)")
    parser.add_argument("--every", metavar="TIME", help="between two readings (default: 1 s; with --periods 10 ms)")
    parser.add_argument("--periods", action="store_true", help="how often each sensor has something new, and what its driver takes")
    where = "file[:FOLDER]|prometheus[:PORT]|otlp[:URL]|lines[:FILE]"
    about = "keep a bundle for show and report, export at /metrics, send by OTLP, or write JSON lines"
    parser.add_argument("--to", default="", metavar=where, help=about)


def run(args: argparse.Namespace) -> int:
    """Reads until the time is over, Ctrl-C or SIGTERM, then says what it came to."""
    if threading.current_thread() is threading.main_thread():
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # a service is stopped by it
        try:
            return _run(args)
        finally:
            signal.signal(signal.SIGTERM, before)
    return _run(args)


def _run(args: argparse.Namespace) -> int:
    if args.periods:
        return _periods(args)
    period_s, length_s = _time(args.every or "1 s", "--every"), _time(args.length, "--for") if args.length else math.inf
    sink = open_sink(args.to, period_s) if args.to or not args.json else Sink(sys.stderr)
    if sink.out and args.json:
        raise InputError("--json and --to lines would both write to standard output; give one of them, or --to lines:FILE")
    tally = SensorStats(period_s)
    names: dict[str, str] = {}

    def take(readings: list[Reading]) -> None:
        tally.add(readings)
        sink.take(readings)

    try:
        if args.bmc and not (args.target or args.device or args.scrape or args.ipmi):
            ends = bmc_file.load(Path(args.bmc))
            sink.begin(About("bmc", period_s))
            _bmcs(ends, period_s, length_s, take, tally, sink)
        else:
            _here(args, (period_s, length_s), take, tally, sink, names)
    except KeyboardInterrupt:
        sink.stop = Stop("by_hand")
    finally:
        sink.close()
    if args.json:
        terminal.answer(args.json, watching.summary(tally, names), "telemetry")
    else:
        print("\n".join(watching.worded(tally, names, terminal.width())), file=sys.stderr if sink.out else sys.stdout)
    return 0 if sink.reached and any(one.count for one in tally.sensors.values()) else 3


def _periods(args: argparse.Namespace) -> int:
    """Reads what is here as often as asked and says how often each sensor changed."""
    if args.bmc or args.scrape or args.ipmi or args.to:
        raise InputError("--periods reads the devices of this machine alone; leave out --bmc, --scrape, --ipmi and --to")
    seen = _targets(args)
    local, missing = _local(seen)
    for name, reason in missing.items():
        print(f"hotlap: {name}: {reason}", file=sys.stderr)
    every_s, length_s = _time(args.every or "10 ms", "--every"), _time(args.length or "10 s", "--for")
    periods_, asked = periods.measure(list(local.values()), seen[0].clock, length_s, every_s)
    names = {one.device.key: f"{one.device.selector} {one.device.name}" for one in seen}
    if args.json:
        terminal.answer(args.json, {"sensors": periods_, "asked_together": asked})
    else:
        print("\n".join(showing.lines(periods_, asked, names, terminal.width())).strip("\n"))
    return 0 if any(one.readings for one in periods_) else 3


def _local(seen: list[Any]) -> tuple[dict[tuple[str, str], Any], dict[str, str]]:
    """Sources of these devices and of the host, each once; those that are missing, and why."""
    local, missing = dict[tuple[str, str], Any](), dict[str, str]()
    for one in seen:
        local |= {(source.name, source.device): source for source in sensors.find(one) if (source.name, source.device) not in local}
        missing |= sensors.missing(one)
    return local, missing


def _time(text: str, option: str) -> float:
    value = units.parse(text, "s")
    if not 0 < value < math.inf:
        raise InputError(f"{option} {text} is no time above zero; write as in '1 s'")
    return value


def _here(
    args: argparse.Namespace, times_s: tuple[float, float], take: Take, tally: SensorStats, sink: Sink, names: dict[str, str]
) -> None:
    """Sources of this machine or of a simulated GPU; `names` gets what to show for each key."""
    period_s, length_s = times_s
    scrapes = [prometheus.Scrape(url) for url in args.scrape]
    seen = _targets(args)
    clock, simulated = seen[0].clock, seen[0].device.target == "simulated"
    names |= {one.device.key: f"{one.device.selector} {one.device.name}" for one in seen}
    sources: dict[tuple[str, str], Any] = {(one.url, one.device): one for one in scrapes}
    if args.ipmi:
        sources["ipmi", "bmc"] = ipmi.Ipmi()
    ends = bmc_file.load(Path(args.bmc)) if args.bmc else []
    if ends and simulated:
        raise InputError("--bmc is polled in real time and a simulated target has its own; watch one of them")
    asked_here = bool(args.target or args.device or not (sources or ends))  # an endpoint alone is watched alone
    local, missing = _local(seen if asked_here else [])
    sources |= local
    for name, reason in missing.items():
        print(f"hotlap: {name}: {reason}", file=sys.stderr)
    if not sources and not ends:
        raise MachineError("no sensor can be read here; hotlap devices says what is missing")
    sink.labels = {one.device.key: {"gpu": str(one.device.index), "uuid": one.device.uuid, "host": socket.gethostname()} for one in seen}
    sink.labels["host"] = {"host": socket.gethostname()}
    sink.begin(About(args.target, period_s, seen if asked_here else [], missing))
    polled = bmc_background.Background(ends, period_s) if ends else None
    if polled:
        sources[bmc_background.NAME, ""] = polled
    try:
        watched = [*sources.values()], [*local.values()]
        sink.share = _loop(watched, (period_s, length_s), clock, take, draw=lambda: sink.draw(tally, names), real=simulated and sink.live)
    finally:
        if polled:
            polled.close()


def _loop(
    sources: tuple[list[Any], list[Any]], times_s: tuple[float, float], clock: Any, take: Take, *, draw: Callable[[], None], real: bool
) -> float:
    """Reads all sources (and those of this machine, closely at first), draws, waits; the share of one core that reading took. `real`:
    virtual time passes at once, people and scrapers do not."""
    period_s, length_s = times_s
    began_s = due_s = clock.now()
    reading_s = 0.0
    while clock.now() - began_s < length_s:
        asked_s = time.perf_counter()
        take([reading for source in sources[0] for reading in source.read(clock.now())])
        reading_s += time.perf_counter() - asked_s
        if due_s == began_s:
            take(_stepping(sources[1], clock, min(STEPPING_S, period_s / 2)))
        draw()
        due_s += period_s
        if real:
            time.sleep(period_s)
        clock.sleep(max(min(due_s, began_s + length_s) - clock.now(), 0.0))
    return float(reading_s / max(due_s - began_s, period_s))


def _stepping(sources: list[Any], clock: Any, length_s: float) -> list[Reading]:
    """Readings of energy counters as fast as is decent: how often they step bounds the error of every energy that follows."""
    counting = [one for one in sources if hasattr(one, "names") and any(name.startswith("energy_j") for name in one.names())]
    until_s, found = clock.now() + length_s, list[Reading]()
    while counting and clock.now() < until_s:
        clock.sleep(STEP_S)
        found += [one for source in counting for one in source.read(clock.now()) if one.sensor.startswith("energy_j")]
    return [one for one in found if one.status == "ok"]


def _targets(args: argparse.Namespace) -> list[Any]:
    if args.target:
        spec = targets.parse(args.target)
        devices = [one for one in targets.find(spec) if _asked(one, args.device)]
        if devices and spec.name == "simulated":
            opened: list[Any] = [targets.open_device(spec, one) for one in devices]
            virtual = Virtual([one.clock for one in opened])
            return [ShownReadings(one.device, virtual, one.gpu) for one in opened]
    else:
        seen = [one for one in targets.survey()[0] if one.kind == "gpu"]
        known = {one.pci_address.lower() for one in seen}
        seen += [one for one in drm.devices(FileTree()) if one.pci_address not in known]
        devices = [one for one in seen if _asked(one, args.device)]
    if not devices and (args.device not in ("", "all") or args.target):
        raise InputError(f"there is no device {args.device or args.target}; hotlap devices lists them")
    clock = SystemClock()
    once = {one.pci_address or one.key: one for one in reversed(devices)}
    return [SimpleNamespace(device=one, clock=clock) for one in once.values()] or [SimpleNamespace(device=host.describe(), clock=clock)]


class ShownReadings(NamedTuple):
    """A simulated GPU of several: its sensors, on the clock that all of them share."""

    device: Device
    clock: Any
    gpu: Any


class Virtual:
    """The clocks of several simulated GPUs, which go on together."""

    def __init__(self, clocks: list[Any]) -> None:
        self.clocks = clocks

    def now(self) -> float:
        return float(self.clocks[0].now())

    def sleep(self, seconds: float) -> None:
        for one in self.clocks:
            one.sleep(seconds)


def _asked(device: Device, wanted: str) -> bool:
    return wanted in ("", "all", str(device.index), device.uuid, device.selector)


def _bmcs(
    ends: list[bmc_file.Endpoint], period_s: float, length_s: float, take: Callable[[list[Reading]], None], tally: SensorStats, sink: Sink
) -> None:
    async def draw() -> None:
        while True:
            await asyncio.sleep(max(period_s, 0.5))
            sink.draw(tally, {})

    async def both() -> None:
        drawing = asyncio.create_task(draw())
        try:
            async with asyncio.timeout(None if math.isinf(length_s) else length_s):
                await bmc.watch(ends, period_s, take)
        except TimeoutError:
            pass
        finally:
            drawing.cancel()

    asyncio.run(both())

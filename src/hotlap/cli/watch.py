"""hotlap watch"""

from __future__ import annotations

import argparse
import asyncio
import http.server
import math
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

from hotlap import sensors, targets, units
from hotlap.cli import terminal, watching
from hotlap.errors import InputError, MachineError
from hotlap.record import Device, Reading, encode
from hotlap.sensors import bmc, bmc_background, bmc_file, drm, exposition, ipmi, otlp, prometheus
from hotlap.sensors.tally import Tally
from hotlap.sensors.tree import Tree
from hotlap.targets.base import SystemClock

PORT = 9464  # what OpenTelemetry's exporters use
STALE_PERIODS, RARE_S = 3.0, 10.0  # a reading older than 3 periods, of the watch or its sensor's own up to 10 s, is not exported
Take = Callable[[list[Reading]], None]


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--target", default="", help="as in simulated:h200-sxm (default: every GPU here with a source, and the host)")
    parser.add_argument("--device", default="", metavar="INDEX|UUID|all", help="only this; all: every GPU, beside --bmc or --scrape")
    parser.add_argument("--bmc", metavar="FILE", help="a TOML file of [[bmc]] tables: poll these by Redfish; alone, or beside --device")
    parser.add_argument("--scrape", action="append", default=[], metavar="URL", help="an endpoint of Prometheus or DCGM; may be repeated")
    parser.add_argument("--ipmi", action="store_true", help="this machine's BMC through ipmitool")
    parser.add_argument("--for", dest="length", metavar="TIME", help="end after this, as in '1 h' (default: until Ctrl-C)")
    parser.add_argument("--every", default="1 s", metavar="TIME", help="between two readings (default: 1 s)")
    where = "prometheus[:PORT]|otlp[:URL]|file:PATH"
    parser.add_argument("--to", default="", metavar=where, help="export at /metrics, send by OTLP, or write JSON lines")


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
    period_s, length_s = _time(args.every, "--every"), _time(args.length, "--for") if args.length else math.inf
    sink = _sink(args.to, period_s) if args.to or not args.json else Sink(sys.stderr)
    tally = Tally(period_s)
    names: dict[str, str] = {}

    def take(found: list[Reading]) -> None:
        tally.add(found)
        sink.take(found)

    try:
        if args.bmc and not (args.target or args.device or args.scrape or args.ipmi):
            _bmcs(bmc_file.load(Path(args.bmc)), period_s, length_s, take, tally, sink)
        else:
            _here(args, (period_s, length_s), take, tally, sink, names)
    except KeyboardInterrupt:
        pass
    finally:
        sink.close()
    if args.json:
        terminal.print_json(watching.summary(tally, names))
    else:
        print("\n".join(watching.told(tally, names)))
    return 0 if any(one.count for one in tally.sensors.values()) else 3


def _time(text: str, option: str) -> float:
    value = units.parse(text, "s")
    if not 0 < value < math.inf:
        raise InputError(f"{option} {text} is no time above zero; write as in '1 s'")
    return value


def _here(
    args: argparse.Namespace, times_s: tuple[float, float], take: Take, tally: Tally, sink: Sink, names: dict[str, str]
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
    for one in seen if asked_here else []:
        for source in sensors.find(one):
            sources.setdefault((source.name, source.device), source)
        for name, reason in sensors.missing(one).items():
            print(f"hotlap: {name}: {reason}", file=sys.stderr)
    if not sources and not ends:
        raise MachineError("no sensor can be read here; hotlap devices says what is missing")
    sink.labels = {one.device.key: {"gpu": str(one.device.index), "uuid": one.device.uuid, "host": socket.gethostname()} for one in seen}
    sink.labels["host"] = {"host": socket.gethostname()}
    polled = bmc_background.Background(ends, period_s) if ends else None
    if polled:
        sources[bmc_background.NAME, ""] = polled
    try:
        _loop(list(sources.values()), (period_s, length_s), clock, take, draw=lambda: sink.draw(tally, names), real=simulated and sink.live)
    finally:
        if polled:
            polled.close()


def _loop(sources: list[Any], times_s: tuple[float, float], clock: Any, take: Take, *, draw: Callable[[], None], real: bool) -> None:
    """Reads them all, draws, waits. `real`: virtual time passes at once, people and scrapers do not."""
    period_s, length_s = times_s
    began_s = due_s = clock.now()
    while clock.now() - began_s < length_s:
        take([reading for source in sources for reading in source.read(clock.now())])
        draw()
        due_s += period_s
        if real:
            time.sleep(period_s)
        clock.sleep(max(min(due_s, began_s + length_s) - clock.now(), 0.0))


def _targets(args: argparse.Namespace) -> list[Any]:
    if args.target:
        spec = targets.parse(args.target)
        found = [one for one in targets.find(spec) if _asked(one, args.device)]
        if found and spec.name == "simulated":
            return [targets.open_device(spec, found[0])]
    else:
        seen = [one for one in targets.survey()[0] if one.kind == "gpu"]
        known = {one.pci_address.lower() for one in seen}
        seen += [one for one in drm.devices(Tree()) if one.pci_address not in known]
        found = [one for one in seen if _asked(one, args.device)]
    if not found and (args.device not in ("", "all") or args.target):
        raise InputError(f"there is no device {args.device or args.target}; hotlap devices lists them")
    clock = SystemClock()
    host = Device(target="host", index=0, name="this machine", kind="cpu")
    once = {one.pci_address or one.key: one for one in reversed(found)}
    return [SimpleNamespace(device=one, clock=clock) for one in once.values()] or [SimpleNamespace(device=host, clock=clock)]


def _asked(device: Device, wanted: str) -> bool:
    return wanted in ("", "all", str(device.index), device.uuid, device.selector)


def _bmcs(
    ends: list[bmc_file.Endpoint], period_s: float, length_s: float, take: Callable[[list[Reading]], None], tally: Tally, sink: Sink
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


# ---------------------------------------------------------------- where readings go


class Sink:
    """The terminal: a table drawn anew, or a line a reading in a log."""

    live = True

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.drawn, self.labels = stream, 0, dict[str, dict[str, str]]()
        self.live = stream.isatty()

    def take(self, found: list[Reading]) -> None:
        """New readings."""

    def draw(self, tally: Tally, names: dict[str, str]) -> None:
        """The state now."""
        lines = watching.table(tally, names) if self.live else watching.plain(tally, names)
        if self.live:
            self.stream.write(f"\x1b[{self.drawn}A" if self.drawn else "")
            self.stream.write("".join(f"\x1b[K{line[: terminal.width() - 1]}\n" for line in lines))
            self.drawn = len(lines)
        else:
            self.stream.write("".join(f"{time.strftime('%H:%M:%S')} {line}\n" for line in lines))
        self.stream.flush()

    def close(self) -> None:
        """Nothing more will come."""


class Lines(Sink):
    """JSON lines, a reading each."""

    def __init__(self, path: Path) -> None:
        super().__init__(sys.stderr)
        self.live = False
        if not path.parent.is_dir() or path.is_dir():
            raise InputError(f"'{path}' cannot be written: it is a folder, or its folder is not there")
        self.file = path.open("ab")

    def take(self, found: list[Reading]) -> None:
        self.file.write(b"".join(encode(one) + b"\n" for one in found))
        self.file.flush()

    def draw(self, tally: Tally, names: dict[str, str]) -> None:
        """Nothing: they are in the file."""

    def close(self) -> None:
        self.file.close()


class Exporter(Sink):
    """/metrics: the last reading of each sensor; one that failed or is older than 3 periods is absent."""

    def __init__(self, port: int, period_s: float) -> None:
        super().__init__(sys.stderr)
        self.live, self.period_s, self.lock = True, period_s, threading.Lock()
        self.last: dict[tuple[str, str], tuple[float, float, Reading]] = {}  # when, how long after the one before, what
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = self.path.split("?")[0] == "/metrics"
                body = outer.page().encode() if found else b"hotlap: /metrics\n"
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", exposition.TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Not every scrape is news."""

        try:
            self.server = http.server.ThreadingHTTPServer(("", port), Handler)
        except OSError as error:
            raise MachineError(f"port {port} cannot be opened: {error.strerror}; name another by --to prometheus:PORT") from None
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        print(f"hotlap: metrics at http://{socket.gethostname()}:{self.server.server_address[1]}/metrics", file=sys.stderr)

    def page(self) -> str:
        with self.lock:
            now = time.monotonic()
            fresh = [one for at_s, gap_s, one in self.last.values() if now - at_s <= STALE_PERIODS * max(gap_s, self.period_s)]
        return exposition.write(fresh, self.labels)

    def take(self, found: list[Reading]) -> None:
        with self.lock:
            now = time.monotonic()
            for one in found:
                before = self.last.get((one.device, one.sensor))
                self.last[one.device, one.sensor] = (now, min(now - before[0], RARE_S) if before else 0.0, one)

    def draw(self, tally: Tally, names: dict[str, str]) -> None:
        """Nothing: whoever scrapes sees it."""

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class Otlp(Sink):
    """Sent to a collector of OpenTelemetry."""

    def __init__(self, url: str, period_s: float) -> None:
        super().__init__(sys.stderr)
        self.sender = otlp.Sender(url, period_s, socket.gethostname(), lambda line: print(f"hotlap: {line}", file=sys.stderr))
        self.live = True

    def take(self, found: list[Reading]) -> None:
        self.sender.labels = self.labels
        self.sender.add(found)

    def draw(self, tally: Tally, names: dict[str, str]) -> None:
        """Nothing: the collector has them."""

    def close(self) -> None:
        self.sender.close()


def _sink(to: str, period_s: float) -> Sink:
    kind, _, rest = to.partition(":")
    if not to:
        return Sink(sys.stdout)
    if kind == "file" and rest:
        return Lines(Path(rest))
    if kind == "prometheus" and (not rest or (rest.isdigit() and int(rest) < 65536)):
        return Exporter(int(rest) if rest else PORT, period_s)
    if kind == "otlp":
        return Otlp(rest, period_s)
    raise InputError(f"--to {to} is not known; valid: prometheus, prometheus:PORT, otlp, otlp:URL, file:PATH")

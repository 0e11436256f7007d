"""Where the readings of `hotlap node watch` go: the terminal, a bundle, JSON lines, /metrics, a collector."""

from __future__ import annotations

import socket
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import msgspec

import hotlap
from hotlap.cli import terminal
from hotlap.core.errors import InputError, MachineError
from hotlap.core.measure.machine.machine import fingerprint
from hotlap.core.measure.sensors.columns import ReadingColumns
from hotlap.core.record import MeasureOptions, Plan, Reading, Readings, RunRecord, Stop
from hotlap.core.store import bundle, paths
from hotlap.nodes.cli import watching
from hotlap.nodes.sensors import exporter, otlp
from hotlap.nodes.sensors.tally import SensorStats

FLUSH_S = 5.0  # of readings, at most, that are not in the bundle yet
WAITING = 20_000  # stretches of a sensor that wait, at most, while the disk is full


@dataclass(frozen=True)
class About:
    """What is watched. `seen`: what has a `device`."""

    target: str
    period_s: float
    seen: list[Any] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)  # sources that were not there, and why


class Sink:
    """The terminal: a table drawn anew, or a line a reading in a log."""

    live = True
    stop = Stop("over")
    share: float | None = None  # of one core, spent on reading sensors
    out = False  # standard output is taken
    reached = True  # whether anything got where it was to go

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.drawn, self.labels = stream, 0, dict[str, dict[str, str]]()
        self.live = stream.isatty()

    def begin(self, about: About) -> None:
        """What will be read."""

    def take(self, readings: list[Reading]) -> None:
        """New readings."""

    def draw(self, tally: SensorStats, names: dict[str, str]) -> None:
        """The state now."""
        lines = watching.table(tally, names, terminal.width() - 1) if self.live else watching.plain(tally, names)
        if self.live:
            self.stream.write(f"\x1b[{self.drawn}A" if self.drawn else "")
            self.stream.write("".join(f"\x1b[K{line}\n" for line in lines))
            self.drawn = len(lines)
        else:
            self.stream.write("".join(f"{time.strftime('%H:%M:%S')} {line}\n" for line in lines))
        self.stream.flush()

    def close(self) -> None:
        """Nothing more will come."""


class LinesSink(Sink):
    """JSON lines to a file or to standard output: one of what is watched, then a reading each, with `unix_s`, when it was taken."""

    def __init__(self, path: Path | None) -> None:
        super().__init__(sys.stderr)
        self.live = False
        if path is not None and (not path.parent.is_dir() or path.is_dir()):
            raise InputError(f"'{path}' cannot be written: it is a folder, or its folder is not there")
        self.out = path is None
        self.file: BinaryIO = sys.stdout.buffer if path is None else path.open("ab")

    def begin(self, about: About) -> None:
        devices = {one.device.key: one.device.name for one in about.seen}
        began = datetime.now(UTC).isoformat(timespec="milliseconds")
        said: dict[str, Any] = {"began": began, "host": socket.gethostname(), "hotlap": hotlap.__version__}
        said |= {"target": about.target, "period_s": about.period_s, "devices": devices, "missing": about.missing}
        self.file.write(msgspec.json.encode({"watch": said}) + b"\n")
        self.file.flush()

    def take(self, readings: list[Reading]) -> None:
        if not readings:
            return
        apart_s = time.time() - readings[-1].time_s  # of the wall clock from the watch's, which is monotonic or virtual
        kept = (msgspec.structs.asdict(one) | {"unix_s": round(one.time_s + apart_s, 6)} for one in readings)
        self.file.write(b"".join(msgspec.json.encode(one) + b"\n" for one in kept))
        self.file.flush()

    def draw(self, tally: SensorStats, names: dict[str, str]) -> None:
        """Nothing: they are in the file."""

    def close(self) -> None:
        if not self.out:
            self.file.close()


class Kept(Sink):
    """A bundle that `hotlap show` and `hotlap report` read; at most the last `FLUSH_S` are lost when the process is killed."""

    def __init__(self, folder: Path | None) -> None:
        super().__init__(sys.stderr)
        self.folder, self.columns = folder, ReadingColumns()
        self.writer: bundle.Writer | None = None
        self.flushed_s: float | None = None
        self.waiting, self.refused = list[Readings](), ""
        if folder is not None and folder.suffix in (".jsonl", ".json", ".log"):
            raise InputError(f"--to file:{folder}: a bundle is a folder; name one, or write JSON lines with --to lines:{folder}")
        if folder is not None and (folder.exists() or not folder.absolute().parent.is_dir()):
            raise InputError(f"--to file:{folder}: it is there already, or its folder is not; name a folder that can be made")

    def begin(self, about: About) -> None:
        began = datetime.now(UTC)
        devices = [one.device for one in about.seen]
        self.run = RunRecord(
            id=bundle.new_id(began), kind="watch", began=began.isoformat(timespec="milliseconds"), hotlap=hotlap.__version__,
            plan=Plan(name="watch", about="sensors alone", measure=MeasureOptions(readings_hz=1 / about.period_s)),
            machine=fingerprint([one for one in devices if one.target != "host"]), target=about.target or "host",
            devices=[one.key for one in devices if one.target != "host"], sensors_missing=about.missing,
        )  # fmt: skip
        self.writer = bundle.Writer.create(self.run, paths.home() if self.folder is None else self.folder, folder=self.folder)
        print(f"hotlap: readings go to {self.writer.path}", file=sys.stderr)

    def take(self, readings: list[Reading]) -> None:
        self.columns.add(readings)
        if not readings or self.writer is None:
            return
        now_s = readings[-1].time_s
        self.flushed_s = now_s if self.flushed_s is None else self.flushed_s
        if now_s - self.flushed_s >= FLUSH_S:
            self.flushed_s = now_s
            self._flush(self.writer)

    def _flush(self, writer: bundle.Writer) -> None:
        """Writes what there is; while the system refuses, as a full disk does, the last of it waits."""
        self.waiting = [*self.waiting, *self.columns.drain()][-WAITING:]
        try:
            writer.readings(self.waiting)
        except MachineError as error:
            if not self.refused:
                self.refused = error.reason
                print(f"hotlap: {self.refused}; the watch goes on and tries again", file=sys.stderr)
            return
        self.waiting, self.refused = [], ""

    def close(self) -> None:
        if self.writer is None:
            return
        self._flush(self.writer)
        if self.refused:
            raise MachineError(f"{self.refused}; {self.writer.path} holds what was written before: make room, then watch again")
        ended = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.writer.finish(msgspec.structs.replace(self.run, ended=ended, stops=[self.stop], sampler_share=self.share))
        for notice in self.writer.notices:
            print(f"hotlap: {notice.text}", file=sys.stderr)


class ExporterSink(Sink):
    """/metrics: the last reading of each sensor."""

    def __init__(self, port: int, period_s: float) -> None:
        super().__init__(sys.stderr)
        self.live = True
        self.exporter = exporter.Exporter(port, period_s)
        print(f"hotlap: metrics at http://{socket.gethostname()}:{self.exporter.port}/metrics", file=sys.stderr)

    def take(self, readings: list[Reading]) -> None:
        self.exporter.labels = self.labels
        self.exporter.take(readings)

    def draw(self, tally: SensorStats, names: dict[str, str]) -> None:
        """Nothing: whoever scrapes sees it."""

    def close(self) -> None:
        self.exporter.close()


class Otlp(Sink):
    """Sent to a collector of OpenTelemetry."""

    def __init__(self, url: str, period_s: float) -> None:
        super().__init__(sys.stderr)
        self.sender = otlp.Sender(url, period_s, socket.gethostname(), lambda line: print(f"hotlap: {line}", file=sys.stderr))
        self.live = True

    def take(self, readings: list[Reading]) -> None:
        self.sender.labels = self.labels
        self.sender.add(readings)

    def draw(self, tally: SensorStats, names: dict[str, str]) -> None:
        """Nothing: the collector has them."""

    def close(self) -> None:
        self.sender.close()
        self.reached = self.sender.reached


def open_sink(to: str, period_s: float) -> Sink:
    """What `--to` names; the terminal where it is empty. Raises InputError."""
    kind, _, rest = to.partition(":")
    if not to:
        return Sink(sys.stdout)
    if kind == "file":
        return Kept(Path(rest) if rest else None)
    if kind == "lines":
        return LinesSink(Path(rest) if rest else None)
    if kind == "prometheus" and (not rest or (rest.isdigit() and int(rest) < 65536)):
        return ExporterSink(int(rest) if rest else exporter.PORT, period_s)
    if kind == "otlp":
        return Otlp(rest, period_s)
    raise InputError(f"--to {to} is not known; valid: prometheus, prometheus:PORT, otlp, otlp:URL, file, file:FOLDER, lines, lines:FILE")

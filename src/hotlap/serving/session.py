"""A bench of a server: looked at, loaded by a process of its own, kept as a bundle whatever happens."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from msgspec.structs import replace

from hotlap.core.errors import MachineError, SchemaError
from hotlap.core.measure import runs, signals
from hotlap.core.measure.machine import busy
from hotlap.core.measure.machine.machine import fingerprint
from hotlap.core.measure.targets import host
from hotlap.core.record import METHOD, MeasureOptions, Plan, Stop, encode
from hotlap.core.store import files, labels
from hotlap.serving import compacting, probe, scraped
from hotlap.serving.address import Address
from hotlap.serving.generator import LoadJob, LoadProgress
from hotlap.serving.record import CHUNKS, FILE, SESSION, TOKENS, Schedule, Served, ServedOn, ServingAsked

KIND = "serving"


@dataclass(frozen=True)
class ServingOptions:
    """How to bench. `headers`: of every request; never kept. `schedule`: of a trace, in place of what `arrivals` would draw.
    `on`: what serves, where it is known. `prefix_share`: of a trace, as `Served` keeps it."""

    home: Path
    labels: Mapping[str, object] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    key_env: str = ""
    schedule: Schedule | None = None
    on: ServedOn | None = None
    prefix_share: float | None = None


Listener = Callable[[LoadProgress], None]


def run(address: Address, asked: ServingAsked, options: ServingOptions, listen: Listener = lambda _: None) -> Path:
    """Measures, and returns the bundle's folder. Raises Unavailable and InputError before any load, MachineError where the generator
    fails; what was measured is kept then too."""
    asked = replace(asked, salt=asked.salt or secrets.token_hex(4))
    headers = dict(options.headers)
    key = os.environ.get(options.key_env, "") if options.key_env else ""
    known = {**headers, **({"Authorization": f"Bearer {key}"} if key else {})}
    probed = probe.look(address, asked, known)
    asked = probed.asked
    device = host.describe()
    plan = Plan(name=asked.model, about=f"{asked.api} at {asked.url}", source="hotlap serving bench", measure=MeasureOptions(readings_hz=0))
    record = runs.record(
        plan, "host", [device], fingerprint([device]), kind=KIND, method=METHOD, labels=labels.check(dict(options.labels)), seed=asked.seed,
        look=busy.look([device]),
    )
    served = Served(
        asked=asked, tokens_per_word=probed.tokens_per_word, notices=probed.notices, on=options.on, prefix_share=options.prefix_share
    )
    job = LoadJob(
        asked=asked, address=address, words=probed.words, dialect=probed.dialect, headers=headers, schedule=options.schedule,
        key_env=options.key_env if key else "",
    )  # fmt: skip
    with runs.begin(record, [device], options.home, held=True) as held:  # a server is measured, not this host: others may go on
        return _Bench(held, served, job, known, listen).measure()


class _Bench:
    """A run under way."""

    def __init__(self, held: runs.OpenRun, served: Served, job: LoadJob, headers: dict[str, str], listen: Listener) -> None:
        self.held, self.served, self.job, self.headers, self.listen = held, served, job, headers, listen
        self.folder = held.writer.path
        self.process: subprocess.Popen[bytes] | None = None
        self.interrupted, self.ended = False, 0  # requests

    def measure(self) -> Path:
        for name in (FILE, CHUNKS, TOKENS):
            (self.folder / name).touch()
        self._write()
        before = scraped.read(probe.get(self.job.address, "/metrics", self.headers))
        stop = Stop("error", "the load generator ended early")
        try:
            with signals.caught(self._interrupt):
                status = self._load()
            asked = self.served.asked
            every = asked.requests is not None and self.ended >= asked.requests + asked.warm_up
            whole = Stop("rounds_max" if every or asked.seconds is None else "over")
            stop = Stop("interrupted") if self.interrupted else whole if status == 0 else stop
            after = scraped.read(probe.get(self.job.address, "/metrics", self.headers)) if before and status == 0 else {}
            self.served = replace(self.served, server=scraped.grown(before, after))
        except (MachineError, OSError) as error:
            stop = stop if stop.kind != "error" else Stop("error", str(error))
        finally:
            self._write()
            self.held.finish([stop])
        with suppress(OSError, SchemaError):  # the lines are there then
            compacting.compact(self.folder)
        return self.folder

    def _load(self) -> int:
        command = [sys.executable, "-P", "-m", "hotlap.serving.generator", str(self.folder)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
            self.process = process
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(encode(self.job) + b"\n")
                process.stdin.flush()  # it stays open: that it closes ends the load, whatever becomes of this process
                for line in process.stdout:
                    progress = msgspec.json.decode(line, type=LoadProgress)
                    self.ended = progress.ok + progress.bad
                    if self.served.origin_s is None or progress.client:
                        self.served = replace(self.served, origin_s=progress.origin_s, client=progress.client)
                        self._write()
                    self.listen(progress)
            finally:
                process.stdin.close()
        return process.returncode

    def _interrupt(self, _: int) -> None:
        """The generator cuts what is under way, keeps it, and ends."""
        self.interrupted = True
        if self.process and self.process.stdin and not self.process.stdin.closed:
            self.process.terminate()

    def _write(self) -> None:
        files.write_whole(self.folder / SESSION, msgspec.json.format(encode(self.served), indent=2) + b"\n")

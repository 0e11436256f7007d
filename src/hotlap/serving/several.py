"""Benches of one server one after another, each a bundle of its own under one label, and a bundle of what they come to."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace as changed
from pathlib import Path

import msgspec
from msgspec.structs import replace

from hotlap.core.errors import MachineError, Unavailable
from hotlap.core.measure import runs
from hotlap.core.measure.machine.machine import fingerprint
from hotlap.core.measure.targets import host
from hotlap.core.record import METHOD, MeasureOptions, Plan, Record, Stop
from hotlap.core.store import bundle as bundles
from hotlap.core.store import files
from hotlap.serving import session, show_kind
from hotlap.serving.address import Address
from hotlap.serving.record import ServingAsked
from hotlap.serving.session import Listener, ServingOptions
from hotlap.serving.verdict import ServingVerdict


class SeveralEnded(Exception):
    """Ctrl-C, the end of the time, or a server that answers no more."""


class SeveralBenches:
    """`asked`: what each is asked, but for its arrivals and how long it goes on. `seconds`: of all together. `label`: name of the label
    that ties them."""

    def __init__(
        self, address: Address, asked: ServingAsked, options: ServingOptions, label: str, seconds: float | None = None,
        listen: Listener = lambda _: None,
    ) -> None:  # fmt: skip
        self.address, self.asked, self.options, self.listen = address, asked, options, listen
        self.id, self.count, self.stop = secrets.token_hex(4), 0, Stop("rounds_max")
        self.labels = {**options.labels, label: self.id}
        self.began_s = time.monotonic()
        self.until_s = None if seconds is None else self.began_s + seconds

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.monotonic() - self.began_s

    @property
    def left_s(self) -> float | None:
        return None if self.until_s is None else self.until_s - time.monotonic()

    def interrupt(self) -> None:
        """Ctrl-C came between two of them."""
        self.stop = Stop("interrupted")

    def bench(self, arrivals: str, requests: int, warm_up: int = 0) -> ServingVerdict:
        """One more, with a salt and a seed of its own. Raises SeveralEnded where there is no more to measure; Unavailable and InputError
        of the first."""
        left_s = self.left_s
        if self.stop.kind != "rounds_max":
            raise SeveralEnded
        if left_s is not None and left_s <= 0:
            self.stop = Stop("budget")
            raise SeveralEnded
        asked = replace(
            self.asked, arrivals=arrivals, requests=requests, seconds=left_s, warm_up=warm_up, seed=self.asked.seed + self.count, salt="",
        )  # fmt: skip
        self.count += 1
        try:
            path = session.run(self.address, asked, changed(self.options, labels=self.labels), self.listen)
        except KeyboardInterrupt:
            self.interrupt()
            raise SeveralEnded from None
        except (Unavailable, MachineError) as error:
            if self.count == 1:
                raise
            self.stop = Stop("error", str(error))
            raise SeveralEnded from None
        judged = show_kind.read(bundles.load(path))
        assert judged is not None  # the session wrote it
        self.asked = replace(self.asked, model=judged.serving.served.asked.model)
        for stop in judged.serving.run.stops:
            if stop.kind in ("interrupted", "error"):
                self.stop = stop
            elif stop.kind == "over":  # it was cut, for it had all the time that was left
                self.stop = Stop("budget")
        return judged

    def keep(self, kind: str, file: str, content: Record) -> Path:
        """A bundle that holds what they come to. Raises MachineError."""
        device = host.describe()
        about = f"{self.asked.api} at {self.asked.url}"
        plan = Plan(name=self.asked.model, about=about, source="hotlap serving", measure=MeasureOptions(readings_hz=0))
        record = runs.record(
            plan, "host", [device], fingerprint([device]), kind=kind, method=METHOD, labels=self.labels, seed=self.asked.seed
        )
        with runs.begin(record, [device], self.options.home, held=True) as held:
            files.write_whole(held.writer.path / file, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
            held.finish([self.stop])
            return held.writer.path

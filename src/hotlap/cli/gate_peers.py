"""hotlap gate RUN … --against fleet, a verdict for each run: what the home knows of the other devices of their models."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from hotlap.core import stand_in
from hotlap.core.analysis import absent, fleet
from hotlap.core.store import baselines, paths, select, when
from hotlap.core.store import bundle as bundles

if TYPE_CHECKING:
    from hotlap.core.store.catalog import Entry

QUIET_S = 2.0  # before anything is said of how far it is
LOG_S = 15.0  # between two lines in a log


class FleetKnown(NamedTuple):
    """What the home knows of the devices of the models that are judged, and which runs those are."""

    latest: fleet.Latest
    judged: frozenset[str]

    def standard(self, bundle: bundles.Bundle, min_effect: float) -> fleet.AgainstFleet:
        """What this run, one of the judged, is compared with."""
        cases = frozenset(case.id for case in bundle.run.plan.cases)
        return fleet.AgainstFleet(self.latest.by(bundle.run.id), bundle.run.machine, min_effect, self.judged, cases)


def known(judged: Sequence[bundles.Bundle], progress: ReadProgress) -> FleetKnown:
    """From the runs of the home whose devices are of the models that are judged, each read once; the catalog says which they are."""
    ids = {one.run.id for one in judged}
    if not any(one.samples for one in judged) and any(map(absent.of_run, judged)):  # nothing that could be like the others, or unlike
        return FleetKnown(fleet.Latest([], []), frozenset(ids))
    wanted = {(device.model, device.target) for one in judged for device in one.run.machine.devices if device.key in one.run.devices}
    others = [entry for entry in select.entries([], paths.home()) if entry.id not in ids]
    near = [entry for entry in others if _may_have(entry, wanted)]
    order: list[tuple[float, str]] = []

    def seen() -> Iterator[bundles.Bundle]:
        kept = (one for one in select.read(near, progress.count) if not stand_in.of_run(one.run))
        for one in chain(kept, judged):
            order.append((when.seconds(one.run.began) or 0.0, one.run.id))
            yield one

    of_all = baselines.learn("fleet", seen(), empty=len(near) < len(others))  # one run at a time: a home may hold years of them
    same = [one for one in of_all.references if (one.model, one.target) in wanted]
    return FleetKnown(fleet.Latest(same, [run for _, run in sorted(order)]), frozenset(ids))


def _may_have(entry: Entry, wanted: set[tuple[str, str]]) -> bool:
    """Whether one of the devices may be of a model that is judged, on the same target; of runs whose models are not known they may."""
    listed = entry.listed
    if listed is None or not listed.models:
        return True
    return any((model, shown.partition(":")[0]) in wanted for model, shown in zip(listed.models, listed.devices, strict=False))


class ReadProgress:
    """One line that is rewritten on a terminal, once it takes longer than `QUIET_S`; in a log a line every `LOG_S`."""

    def __init__(self) -> None:
        self.live, self.drawn, self.said_s = sys.stderr.isatty(), False, time.monotonic()

    def count(self, done: int, count: int, what: str = "runs of the fleet read") -> None:
        now_s = time.monotonic()
        if self.live and (self.drawn or now_s - self.said_s >= QUIET_S):
            sys.stderr.write(f"\r\x1b[K{done} of {count} {what}")
            sys.stderr.flush()
            self.drawn = True
        elif not self.live and now_s - self.said_s >= LOG_S:
            self.said_s = now_s
            print(f"hotlap: {done} of {count} {what}", file=sys.stderr)

    def __enter__(self) -> ReadProgress:
        return self

    def __exit__(self, *_: object) -> None:
        """Clears the line."""
        if self.drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

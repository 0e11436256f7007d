"""hotlap gate RUN … --against fleet, a verdict for each run: what the home knows of the other devices of their models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from hotlap.cli.read_progress import ReadProgress
from hotlap.core import stand_in
from hotlap.core.analysis import absent, fleet
from hotlap.core.store import baselines, paths, select, when
from hotlap.core.store import bundle as bundles

if TYPE_CHECKING:
    from hotlap.core.store.catalog import Entry


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
